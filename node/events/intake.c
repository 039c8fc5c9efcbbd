/* Control's side of the intake: its life, and commands to its thread. */
#include "node/events/intake.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.h>

#include "index/base/rng.h"
#include "node/events/intake_internal.h"

#define COMMANDS_BYTES ((size_t)128 << 10)
#define WORDS_MAX      (UINT32_C(1) << 26) /* of one batch */

/* Every rank has a SUB, its monitor's two ends, and at times a DEALER. */
#define SOCKETS_PER_RANK 4

uint64_t
intake_now_us(void)
{
    return uv_hrtime() / 1000;
}

void
intake_ring_bell(struct intake *intake)
{
    uint64_t one = 1;

    /* It can only fail when it rings already. */
    ssize_t written = write(intake->bell, &one, sizeof one);
    (void)written;
}

static int
open_zmq(struct intake *intake)
{
    intake->zmq = zmq_ctx_new();
    if (intake->zmq == NULL) {
        return -errno;
    }
    int most = zmq_ctx_get(intake->zmq, ZMQ_SOCKET_LIMIT);
    int wanted = SOCKETS_PER_RANK * WORKERS_MAX + 16;
    int set = zmq_ctx_set(intake->zmq, ZMQ_MAX_SOCKETS,
                          most > 0 && most < wanted ? most : wanted);
    return set == 0 ? 0 : -errno;
}

/* A word for each byte of a batch is more than any batch makes. Pages that no
 * batch ever needs are never touched. */
static int
make_words(struct intake *intake)
{
    uint64_t wanted = intake->events.payload_bytes_max + 64;

    intake->tools.record_words_max = INTAKE_RECORD_WORDS_MAX;
    words_init(&intake->tools.names.words, WORDS_MAX);
    intake->tools.words.max = wanted < WORDS_MAX ? (uint32_t)wanted : WORDS_MAX;
    intake->tools.words.words =
        malloc(intake->tools.words.max * sizeof(uint64_t));
    return intake->tools.words.words != NULL ? 0 : -ENOMEM;
}

static int
open_bell(struct intake *intake)
{
    struct epoll_event rings = {.events = EPOLLIN, .data.ptr = NULL};

    intake->bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    intake->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (intake->bell < 0 || intake->epoll < 0 ||
        epoll_ctl(intake->epoll, EPOLL_CTL_ADD, intake->bell, &rings) != 0) {
        return -errno;
    }
    return 0;
}

static int
init(struct intake *intake, const struct config *config)
{
    const struct ledger_limits ledger = {.bytes_max = intake->ledger_bytes_max};
    struct kv_limits limits = KV_LIMITS_DEFAULT;

    limits.payload_bytes_max = (size_t)config->events.payload_bytes_max;
    int outcome = ring_init(&intake->items, INTAKE_RING_BYTES);
    if (outcome == 0) {
        outcome = ring_init(&intake->commands, COMMANDS_BYTES);
    }
    if (outcome == 0) {
        outcome = ledger_new(&intake->tools.ledger, &ledger);
    }
    if (outcome == 0) {
        outcome = kv_reader_new(&intake->tools.reader, &limits);
    }
    if (outcome == 0) {
        outcome = make_words(intake);
    }
    if (outcome == 0) {
        outcome = open_bell(intake);
    }
    return outcome == 0 ? open_zmq(intake) : outcome;
}

void
intake_listen(struct intake *intake, const struct kv_listener *listener)
{
    CHECK(!intake->runs && listener->wants != NULL && listener->stored != NULL);
    intake->tools.listener = *listener;
}

int
intake_new(struct intake **out, const struct config *config, uv_async_t *wake,
           uint64_t seed)
{
    struct intake *intake =
        aligned_alloc(_Alignof(struct intake), sizeof *intake);

    if (intake == NULL) {
        return -ENOMEM;
    }
    memset(intake, 0, sizeof *intake);
    intake->bell = -1;
    intake->epoll = -1;
    intake->events = config->events;
    intake->ledger_bytes_max = (size_t)config->mirror.ledger_bytes_max;
    intake->wake = wake;
    intake->seed = seed;
    int outcome = init(intake, config);
    if (outcome != 0) {
        intake_free(intake);
        return outcome;
    }
    *out = intake;
    return 0;
}

int
intake_start(struct intake *intake)
{
    CHECK(!intake->runs);
    int outcome =
        intake->tools.ledger == NULL
            ? -ENOMEM
            : uv_thread_create(&intake->thread, intake_thread, intake);

    intake->runs = outcome == 0;
    return outcome;
}

void
intake_source_free(struct intake_source *source)
{
    for (uint32_t i = 0; source != NULL && i < source->worker.ranks; i++) {
        kv_stream_free(source->ranks[i].decoder.stream);
        intake_nats_free(source->ranks[i].nats);
    }
    free(source);
}

/* Frees the work that the thread did not take. */
static void
drop_commands(struct intake *intake)
{
    const struct intake_command *command;
    size_t size;

    while (intake->commands.bytes != NULL &&
           (command = ring_peek(&intake->commands, &size)) != NULL) {
        intake_source_free(command->source);
        decoder_hand_free(command->hand);
        ring_consume(&intake->commands);
    }
}

void
intake_free(struct intake *intake)
{
    if (intake == NULL) {
        return;
    }
    if (intake->runs) {
        gauge_set(&intake->ending, 1);
        intake_ring_bell(intake);
        CHECK(uv_thread_join(&intake->thread) == 0);
    }
    drop_commands(intake);
    decoder_hand_free(intake->hand);
    while (intake->sources != NULL) {
        struct intake_source *source = intake->sources;
        intake->sources = source->next;
        intake_source_free(source);
    }
    if (intake->zmq != NULL) {
        (void)zmq_ctx_term(intake->zmq);
    }
    if (intake->bell >= 0) {
        (void)close(intake->bell);
    }
    if (intake->epoll >= 0) {
        (void)close(intake->epoll);
    }
    kv_reader_free(intake->tools.reader);
    storage_twin_free(intake->twin);
    intake_load_drop(intake);
    ledger_free(intake->tools.ledger);
    words_fini(&intake->tools.names.words);
    free(intake->tools.words.words);
    ring_fini(&intake->items);
    ring_fini(&intake->commands);
    free(intake);
}

int
intake_make_stream(struct intake_rank *rank, struct kv_stream **out)
{
    const struct intake *intake = rank->intake;
    const struct intake_worker *worker = &rank->source->worker;
    const struct kv_stream_config config = {
        .has_replay = worker->replay.host[0] != '\0',
        .replay_timeout_ms = intake->events.replay_timeout_ms,
        .replay_rounds = intake->events.replay_rounds,
        .probe_interval_ms = intake->events.probe_ms,
        .retry_ms = INTAKE_RETRY_MS,
        .payload_bytes_max = (size_t)intake->events.payload_bytes_max,
        .pending_bytes_max = (size_t)intake->events.pending_bytes_max,
    };
    uint64_t seed =
        rng_mix(intake->seed ^ worker->identity) + rank->decoder.rank;

    return kv_stream_new(out, &config, &rank->numbers.kv, intake_now_us(),
                         seed);
}

static int
make_source(struct intake *intake, const struct intake_worker *worker,
            struct intake_source **out)
{
    struct intake_source *source =
        calloc(1, sizeof *source + worker->ranks * sizeof source->ranks[0]);

    if (source == NULL) {
        return -ENOMEM;
    }
    source->worker = *worker;
    for (uint32_t i = 0; i < worker->ranks; i++) {
        struct intake_rank *rank = &source->ranks[i];
        rank->intake = intake;
        rank->source = source;
        intake_emit_open(rank, i);
        if (intake_make_stream(rank, &rank->decoder.stream) != 0 ||
            intake_nats_new(rank) != 0) {
            intake_source_free(source);
            return -ENOMEM;
        }
    }
    for (uint32_t i = 0; i < worker->ranks; i++) {
        intake_load_rank(intake, &source->ranks[i]);
    }
    *out = source;
    return 0;
}

int
intake_send_command(struct intake *intake, const struct intake_command *command)
{
    struct intake_command *room = ring_reserve(&intake->commands, sizeof *room);

    if (room == NULL) {
        return -EAGAIN;
    }
    *room = *command;
    ring_commit(&intake->commands);
    intake_ring_bell(intake);
    return 0;
}

int
intake_add(struct intake *intake, const struct intake_worker *worker)
{
    struct intake_source *source = NULL;

    CHECK(worker->slot < WORKERS_MAX && worker->ranks > 0);
    if (intake->by_slot[worker->slot] != NULL) {
        return -EEXIST; /* its removal found no room, and must be repeated */
    }
    if (worker->ranks > WORKERS_MAX - intake->ranks_count) {
        return -ENOSPC;
    }
    int outcome = make_source(intake, worker, &source);
    if (outcome != 0) {
        return outcome;
    }
    outcome = intake_send_command(
        intake, &(struct intake_command){.kind = INTAKE_ADD, .source = source});
    if (outcome != 0) {
        intake_source_free(source);
        return outcome;
    }
    intake->by_slot[worker->slot] = source;
    intake->ranks_count += worker->ranks;
    return 0;
}

/* The source that is followed there, or NULL. */
static struct intake_source *
source_of(const struct intake *intake, uint32_t slot)
{
    return slot < WORKERS_MAX ? intake->by_slot[slot] : NULL;
}

static uint64_t
count_at(const struct kv_counters *counters, size_t offset)
{
    const char *at = (const char *)counters + offset;

    return counter_read((const struct counter *)(const void *)at);
}

/* A counter over all ranks of a worker. */
static uint64_t
sum_ranks(const struct intake_source *source, size_t offset)
{
    uint64_t sum = 0;

    for (uint32_t rank = 0; rank < source->worker.ranks; rank++) {
        sum += count_at(&source->ranks[rank].numbers.kv, offset);
    }
    return sum;
}

int
intake_remove(struct intake *intake, uint32_t slot, uint32_t generation)
{
    const struct intake_source *source = source_of(intake, slot);

    if (source == NULL || source->worker.generation != generation) {
        return 0;
    }
    uint32_t ranks = source->worker.ranks;
    struct kv_counters counts;
#define SUM(name, help)       \
    counter_set(&counts.name, \
                sum_ranks(source, offsetof(struct kv_counters, name)));
    KV_COUNTERS(SUM)
#undef SUM
    int outcome = intake_send_command(
        intake,
        &(struct intake_command){
            .kind = INTAKE_REMOVE, .slot = slot, .generation = generation});
    if (outcome == 0) {
        intake->by_slot[slot] = NULL; /* the thread may have freed it */
#define KEEP(name, help) \
    counter_add(&intake->gone.name, counter_read(&counts.name));
        KV_COUNTERS(KEEP)
#undef KEEP
        intake->ranks_count -= ranks;
    }
    return outcome;
}

int
intake_reread(struct intake *intake, uint32_t slot, uint32_t generation,
              uint32_t rank, uint64_t ask, bool prove)
{
    return intake_send_command(
        intake, &(struct intake_command){.kind = INTAKE_REREAD,
                                         .ask = ask,
                                         .prove = prove,
                                         .slot = slot,
                                         .generation = generation,
                                         .rank = rank});
}

int
intake_hand(struct intake *intake, uint32_t slot, uint32_t generation,
            uint32_t rank, struct decoder_hand *hand)
{
    CHECK(!intake_is_handing(intake));
    int outcome = intake_send_command(
        intake, &(struct intake_command){.kind = INTAKE_HAND,
                                         .hand = hand,
                                         .slot = slot,
                                         .generation = generation,
                                         .rank = rank});
    intake->hands_sent += outcome == 0;
    return outcome;
}

bool
intake_is_handing(const struct intake *intake)
{
    return intake->hands_sent != counter_read(&intake->hands_done);
}

int
intake_move(struct intake *intake, uint32_t slot, uint32_t generation,
            enum intake_place place, const char address[INTAKE_ADDRESS_SIZE])
{
    struct intake_command command = {.kind = INTAKE_MOVE,
                                     .place = place,
                                     .slot = slot,
                                     .generation = generation};

    memcpy(command.address, address, sizeof command.address);
    return intake_send_command(intake, &command);
}

struct ring *
intake_ring(struct intake *intake)
{
    return &intake->items;
}

const struct intake_numbers *
intake_numbers(const struct intake *intake, uint32_t slot, uint32_t rank)
{
    const struct intake_source *source = source_of(intake, slot);

    return source != NULL && rank < source->worker.ranks
               ? &source->ranks[rank].numbers
               : NULL;
}

uint64_t
intake_total(const struct intake *intake, size_t offset)
{
    uint64_t total = count_at(&intake->gone, offset);

    for (uint32_t slot = 0; slot < WORKERS_MAX; slot++) {
        if (intake->by_slot[slot] != NULL) {
            total += sum_ranks(intake->by_slot[slot], offset);
        }
    }
    return total;
}

void
intake_ledger_stats(const struct intake *intake, struct ledger_stats *stats)
{
    const struct intake_ledger *told = &intake->ledger_told;

    *stats = (struct ledger_stats){
        .bytes = (size_t)counter_read(&told->bytes),
        .names = counter_read(&told->names),
        .blocks = counter_read(&told->blocks),
        .copies = counter_read(&told->copies),
        .open = (uint32_t)counter_read(&told->open),
        .sweeping = (uint32_t)counter_read(&told->sweeping),
    };
}
