/* The life of ingest, its turns, and the workers that come and go. */
#include "node/ingest/ingest_internal.h"

#include <errno.h>
#include <stdlib.h>

#include "node/base/log.h"
#include "node/fleet/probe.h"
#include "node/ingest/ingest_room.h"

#define EXPIRE_BUDGET 4096U
#define LOOK_US       UINT64_C(1000000)
#define REREAD_MS     10000U
#define ANSWERS_MIN   16U
#define UNKNOWN_BLOCK 64U /* tokens; most engines have smaller ones */
#define LOADED_US     UINT64_C(60000000) /* unclaimed loaded streams expire */

/* Turns */

static void
on_wake(uv_async_t *wake)
{
    struct ingest *ingest = wake->data;
    bool more = false;

    role_is_control();
    ingest->waking = false;
    ingest->awake = true;
    ingest->owner.take_facts(ingest->owner.context);
    ingest_take_items(ingest, &more);
    more = mirror_writer_work(ingest->writer, INGEST_BUDGET) || more;
    more = ingest_hand_work(ingest, probe_now_us()) || more;
    ingest_slots_renew(&ingest->slots);
    ingest->awake = false;
    if (more) {
        (void)uv_async_send(wake);
    }
}

/* Workers */

bool
ingest_has_events(const struct fleet_worker *worker)
{
    return worker->events.host[0] != '\0' || worker->sse.host[0] != '\0';
}

/* Its streams begin: it has room. */
static void ON_CONTROL
follow(struct ingest *ingest, struct ingest_worker *w)
{
    const struct fleet_worker *worker = w->worker;
    struct ingest_source source = {
        .identity = worker->identity,
        .generation = worker->generation,
        .ranks = worker->ranks,
        .replays = worker->replay.host[0] != '\0',
        .rank = w->rank,
    };

    CHECK(!w->present && w->link == NULL);
    int outcome = ingest_streams_add(&ingest->streams, worker->slot, &source);
    w->present = outcome == 0;
    hub_worker_add(ingest->streams.hub, worker->identity, worker->ranks,
                   slice_of(worker->island), probe_now_us());
    if (outcome != 0) {
        LOG_ERROR("events_refused", KV("worker", worker->id),
                  KV_FAULT("error", outcome),
                  KV("hint", "its requests are routed by their text: remove "
                             "and add it once the node has memory"));
    }
}

static void ON_CONTROL
unfollow(struct ingest *ingest, struct ingest_worker *w)
{
    hub_worker_remove(ingest->streams.hub, w->worker->identity, probe_now_us());
    if (!w->present) {
        return;
    }
    ingest_stop_reading(ingest, w);
    for (uint32_t rank = 0; rank < w->ranks; rank++) {
        ingest_position_drop(w, rank);
    }
    w->present = false;
    ingest_streams_remove(&ingest->streams, w->worker->slot);
}

static struct worker_set
share_room(const struct ingest *ingest)
{
    struct ingest_room_worker workers[WORKERS_MAX];

    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        const struct ingest_worker *w = &ingest->workers[i];
        workers[i] = (struct ingest_room_worker){
            .id = w->id, .ranks = w->worker != NULL ? w->ranks : 0};
    }
    return ingest_room_share(workers);
}

static void
say_no_room(const struct ingest_worker *w)
{
    LOG_WARNING("events_left_out", KV("worker", w->id), KV("ranks", w->ranks),
                KV("ranks_max", WORKERS_MAX),
                KV("hint", "the workers before it by id have all places; its "
                           "requests are routed by their text: raise "
                           "workers.slots, or remove workers"));
}

/* A worker came or went: follows those that have room now, and no others. */
static void ON_CONTROL
settle_room(struct ingest *ingest)
{
    struct worker_set room = share_room(ingest);

    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        struct ingest_worker *w = &ingest->workers[i];
        bool out = w->worker != NULL && !worker_set_has(&room, i);
        if (out && !w->no_room) {
            say_no_room(w);
        }
        if (out && w->followed) {
            unfollow(ingest, w);
        }
        w->no_room = out;
        w->followed = w->followed && !out;
    }
    WORKER_SET_EACH (i, &room) {
        if (!ingest->workers[i].followed) {
            ingest->workers[i].followed = true;
            follow(ingest, &ingest->workers[i]);
        }
    }
}

void
ingest_added(struct ingest *ingest, const struct fleet_worker *worker)
{
    struct ingest_worker *w = &ingest->workers[worker->slot];

    CHECK(!w->present && w->link == NULL && worker->ranks <= INGEST_RANKS_MAX);
    struct ingest_worker before = *w;
    *w = (struct ingest_worker){
        .ranks = worker->ranks,
        .generation = worker->generation,
        .reading = before.reading,
        .stuck = before.stuck,
        .stuck_generation = before.stuck_generation,
    };
    memcpy(w->id, worker->id, sizeof(w->id));
    if (!ingest_has_events(worker)) {
        return;
    }
    w->worker = malloc(sizeof *w->worker);
    if (w->worker == NULL) {
        LOG_ERROR("events_refused", KV("worker", worker->id),
                  KV_FAULT("error", -ENOMEM),
                  KV("hint", "its requests are routed by their text: remove "
                             "and add it once the node has memory"));
        return;
    }
    *w->worker = *worker;
    settle_room(ingest);
}

void
ingest_removed(struct ingest *ingest, const struct fleet_worker *worker)
{
    struct ingest_worker *w = &ingest->workers[worker->slot];

    if (w->worker == NULL || w->generation != worker->generation) {
        return;
    }
    unfollow(ingest, w);
    w->followed = false;
    w->no_room = false;
    free(w->worker);
    w->worker = NULL;
    settle_room(ingest);
}

const char *
ingest_left_out(const struct ingest *ingest, uint32_t worker)
{
    CHECK(worker < WORKERS_MAX);
    const struct ingest_worker *w = &ingest->workers[worker];

    return w->no_room    ? "the fleet has too many ranks"
           : w->left_out ? "the fleet has too many kinds of blocks"
                         : NULL;
}

/* What lanes tell */

/* More was new than fits into the block in use: an event must tell of it. */
static bool
stored(const struct fact_decision *fact)
{
    return fact->exact && fact->cached_known && fact->rank < INGEST_RANKS_MAX &&
           fact->prompt_tokens >=
               (uint64_t)fact->cached_tokens + fact->block_tokens;
}

void
ingest_answered(struct ingest *ingest, const struct fact_decision *fact)
{
    CHECK(fact->slot < WORKERS_MAX);
    struct ingest_worker *w = &ingest->workers[fact->slot];

    if (stored(fact)) {
        w->computed |= UINT64_C(1) << fact->rank;
    }
    w->filled |=
        fact->status / 100 == 2 &&
        (fact->prompt_tokens == 0 || fact->prompt_tokens >= UNKNOWN_BLOCK);
}

/* Turns */

/* A reading may have begun or ceased to lead since the last look. */
static void ON_CONTROL
look_at_sources(struct ingest *ingest, uint64_t now_us)
{
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        struct ingest_worker *w = &ingest->workers[i];
        ingest_reach_watch(ingest, w, now_us);
        for (uint32_t rank = 0; w->present && rank < w->ranks; rank++) {
            ingest_stream_tell(&ingest->streams, &w->rank[rank]);
        }
    }
}

/* Opens or closes the sources whose queue was full. */
static void ON_CONTROL
ask_again(struct ingest *ingest)
{
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        struct ingest_worker *w = &ingest->workers[i];
        for (uint32_t rank = 0; w->present && rank < w->ranks; rank++) {
            if (w->rank[rank].unasked) {
                ingest_ask(ingest, w, rank);
            }
        }
    }
}

/* What only needs a look now and then. */
static void ON_CONTROL
look_around(struct ingest *ingest, uint64_t now_us)
{
    ingest->looked_us = now_us;
    ingest->streams.caught_up =
        gauge_read(&ingest->node->mesh_ready) == CLUSTER_CAUGHT_UP;
    look_at_sources(ingest, now_us);
    ingest_watch(ingest, now_us);
    if (ingest->started_us != 0 && now_us - ingest->started_us >= LOADED_US) {
        (void)intake_forget_loaded(ingest->intake); /* or with the next look */
    }
}

bool
ingest_work(struct ingest *ingest, uint64_t now_us)
{
    bool look = now_us - ingest->looked_us >= LOOK_US;

    ask_again(ingest);
    ingest_streams_heal(&ingest->streams, look, now_us);
    bool more = mirror_writer_work(ingest->writer, INGEST_BUDGET);
    if (ingest_hand_work(ingest, now_us)) {
        ingest_wake(ingest);
    }
    ingest_slots_renew(&ingest->slots);
    more =
        expectations_work(ingest->slots.expectations, EXPIRE_BUDGET, now_us) ||
        more;
    if (ingest->slots.decided != NULL) {
        more =
            decided_work(ingest->slots.decided, EXPIRE_BUDGET, now_us) || more;
    }
    if (look) {
        look_around(ingest, now_us);
    }
    return more;
}

struct ingest_streams *
ingest_streams(struct ingest *ingest)
{
    return &ingest->streams;
}

struct ingest_slots *
ingest_slots(struct ingest *ingest)
{
    return &ingest->slots;
}

const struct mirror_writer *
ingest_writer(const struct ingest *ingest)
{
    return ingest->writer;
}

const struct intake *
ingest_intake(const struct ingest *ingest)
{
    return ingest->intake;
}

const struct ingest_name *
ingest_name_of(const struct ingest *ingest, uint32_t worker,
               enum intake_place place)
{
    CHECK(worker < WORKERS_MAX && place < INTAKE_PLACES);
    return &ingest->workers[worker].name[place];
}

const struct kv_sse_stats *
ingest_sse_stats(const struct ingest *ingest, uint32_t worker)
{
    CHECK(worker < WORKERS_MAX);
    const struct kv_sse_link *link = ingest->workers[worker].link;

    return link != NULL ? kv_sse_link_stats(link) : NULL;
}

/* The beginning and the end */

static int
open_writer(struct ingest *ingest)
{
    const struct config_mirror *config = &ingest->node->config->mirror;
    struct mirror_writer_limits limits = {
        .stale_permille = config->stale_permille,
        .accuracy = {.answers_min = ANSWERS_MIN,
                     .wrong_permille = config->wrong_permille,
                     .reread_ms = REREAD_MS,
                     .discount_permille = config->stale_permille},
    };

    return mirror_writer_new(&ingest->writer, &limits, ingest->node->mirror,
                             &ingest->node->qsbr, &ingest->node->mirror_view);
}

static void
open_cores(struct ingest *ingest)
{
    const struct node_shared *node = ingest->node;
    const struct ingest_sink sink = {.context = ingest,
                                     .said = ingest_said,
                                     .did = ingest_did,
                                     .lost = ingest_lost,
                                     .read = ingest_read};

    ingest->slots.expectations = node->expectations;
    ingest->slots.decided = node->decided;
    ingest->slots.mirror = node->mirror;
    ingest->slots.view = &node->mirror_view;
    ingest->streams.hub = ingest->owner.hub;
    ingest->streams.writer = ingest->writer;
    ingest->streams.mirror = node->mirror;
    ingest->streams.expectations = node->expectations;
    ingest_streams_init(&ingest->streams, &sink);
}

/* What engines store goes to the requests that it is compared with. */

static bool
wants_stored(void *context, uint32_t worker)
{
    return local_samples_want(context, worker);
}

static void
on_stored(void *context, const struct kv_listener *listener,
          const struct kv_stored *stored)
{
    const struct local_stored run = {
        .worker = listener->worker,
        .generation = listener->generation,
        .has_parent = stored->has_parent,
        .parent = stored->parent,
        .root = stored->root,
        .tokens = stored->tokens,
        .count = stored->tokens_count,
        .grain = stored->grain,
    };

    local_samples_stored(context, &run);
}

static void
listen_to(struct intake *intake, struct local_samples *samples)
{
    const struct kv_listener listener = {
        .wants = wants_stored, .stored = on_stored, .context = samples};

    intake_listen(intake, &listener);
}

int
ingest_new(struct ingest **out, struct node_shared *node, uv_loop_t *loop,
           const struct ingest_owner *owner, uint64_t seed)
{
    struct ingest *ingest = calloc(1, sizeof(*ingest));

    *out = NULL;
    if (ingest == NULL) {
        return -ENOMEM;
    }
    ingest->node = node;
    ingest->loop = loop;
    ingest->owner = *owner;
    CHECK(uv_async_init(loop, &ingest->wake, on_wake) == 0);
    ingest->wake.data = ingest;
    rng_init(&ingest->rng, seed);
    *out = ingest; /* the caller frees what exists already */
    int error = open_writer(ingest);
    if (error == 0) {
        open_cores(ingest);
        error = intake_new(&ingest->intake, node->config, &ingest->wake, seed);
    }
    if (error == 0) {
        listen_to(ingest->intake, node->local_samples);
    }
    return error;
}

struct intake *
ingest_own_intake(struct ingest *ingest)
{
    return ingest->intake;
}

int
ingest_start(struct ingest *ingest)
{
    ingest->started_us = probe_now_us();
    return intake_start(ingest->intake);
}

void
ingest_stop(struct ingest *ingest)
{
    if (ingest != NULL) {
        intake_free(ingest->intake); /* no wake-up follows */
        ingest->intake = NULL;
        ingest->stopped = true;
        for (uint32_t i = 0; i < WORKERS_MAX; i++) {
            ingest_lookup_drop(&ingest->workers[i]);
            kv_sse_link_free(ingest->workers[i].link);
            ingest->workers[i].link = NULL;
        }
        uv_close((uv_handle_t *)&ingest->wake, NULL);
    }
}

void
ingest_free(struct ingest *ingest)
{
    if (ingest != NULL) {
        names_clear(&ingest->streams.twin.table, &ingest->streams.twin.room);
        mirror_writer_free(ingest->writer);
        for (uint32_t i = 0; i < WORKERS_MAX; i++) {
            free(ingest->workers[i].worker);
            for (uint32_t rank = 0; rank < INGEST_RANKS_MAX; rank++) {
                ingest_position_drop(&ingest->workers[i], rank);
            }
        }
        free(ingest);
    }
}
