#include "node/ingest/ingest_internal.h"

#include <errno.h>
#include <stdlib.h>

#include "node/base/log.h"
#include "node/fleet/probe.h"

#define EXPIRE_BUDGET 4096U
#define LOOK_US       UINT64_C(1000000)
#define REREAD_MS     10000U
#define ANSWERS_MIN   16U
#define LOADED_US     UINT64_C(60000000) /* until what nobody reads is dropped */

/* Slots of the mirror and what is expected there */

static struct worker_set
viewed_slots(const struct ingest *ingest)
{
    const struct mirror_view *view =
        mirror_view_get(&ingest->node->mirror_view);
    struct worker_set slots;

    worker_set_clear(&slots);
    for (uint32_t i = 0; i < view->groups_count; i++) {
        for (uint32_t w = 0; w < WORKER_WORDS; w++) {
            slots.word[w] |= view->groups[i].slots.word[w];
        }
    }
    return slots;
}

static void
keep_in_step(struct ingest *ingest)
{
    struct expectations *expectations = ingest->node->expectations;
    struct worker_set now = viewed_slots(ingest);
    struct worker_set gone = worker_set_minus(&ingest->admitted, &now);
    struct worker_set new = worker_set_minus(&now, &ingest->admitted);

    WORKER_SET_EACH (slot, &gone) {
        expectations_close(expectations, slot);
        worker_set_remove(&ingest->admitted, slot);
    }
    WORKER_SET_EACH (slot, &new) {
        /* Refused while the slot is still swept: tried again next time. */
        if (expectations_open(expectations, slot) == 0) {
            worker_set_add(&ingest->admitted, slot);
        }
    }
}

/* Workers by identity */

static uint32_t
hash_of(uint64_t identity)
{
    return (uint32_t)(rng_mix(identity) & (INGEST_HASH - 1));
}

void
ingest_index(struct ingest *ingest)
{
    memset(ingest->by_identity, 0, sizeof ingest->by_identity);
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        const struct ingest_worker *f = &ingest->workers[i];
        uint32_t at = f->present ? hash_of(f->worker->identity) : 0;
        while (f->present && ingest->by_identity[at] != 0) {
            at = (at + 1) % INGEST_HASH;
        }
        if (f->present) {
            ingest->by_identity[at] = (uint16_t)(i + 1);
        }
    }
}

_Static_assert(WORKERS_MAX < INGEST_HASH && WORKERS_MAX < UINT16_MAX,
               "there is always an empty place");

struct ingest_worker *
ingest_find(struct ingest *ingest, uint64_t identity)
{
    for (uint32_t at = hash_of(identity); ingest->by_identity[at] != 0;
         at = (at + 1) % INGEST_HASH) {
        struct ingest_worker *f = &ingest->workers[ingest->by_identity[at] - 1];
        if (f->worker->identity == identity) {
            return f;
        }
    }
    return NULL;
}

void
ingest_pull(struct ingest *ingest)
{
    ingest->owner.pull(ingest->owner.context);
}

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
    ingest_bury(ingest);
    more = mirror_writer_work(ingest->writer, INGEST_BUDGET) || more;
    keep_in_step(ingest);
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

static int ON_CONTROL
add(struct ingest *ingest, struct ingest_worker *f,
    const struct fleet_worker *worker)
{
    f->worker = malloc(sizeof *f->worker);
    if (f->worker == NULL) {
        return -ENOMEM;
    }
    *f->worker = *worker;
    int outcome = mirror_writer_worker_add(ingest->writer, worker->slot,
                                           worker->generation, worker->ranks);
    if (outcome != 0) {
        free(f->worker);
        f->worker = NULL;
    }
    return outcome;
}

void
ingest_added(struct ingest *ingest, const struct fleet_worker *worker)
{
    struct ingest_worker *f = &ingest->workers[worker->slot];

    CHECK(!f->present && f->link == NULL && worker->ranks <= INGEST_RANKS_MAX);
    struct ingest_worker before = *f;
    *f = (struct ingest_worker){
        .ranks = worker->ranks,
        .generation = worker->generation,
        .reading = before.reading,
        .stuck = before.stuck,
        .stuck_generation = before.stuck_generation,
    };
    memcpy(f->gone, before.gone, sizeof f->gone);
    memcpy(f->id, worker->id, sizeof(f->id));
    for (uint32_t rank = 0; rank < f->ranks; rank++) {
        f->rank[rank] = (struct ingest_rank){
            .stream = {.worker = worker->identity, .rank = rank},
            .worker = worker->slot,
            .generation = worker->generation,
            .replays = worker->replay.host[0] != '\0',
        };
    }
    if (!ingest_has_events(worker)) {
        return;
    }
    int outcome = add(ingest, f, worker);
    f->present = outcome == 0;
    ingest_index(ingest);
    if (outcome != 0) {
        LOG_ERROR("events_refused", KV("worker", worker->id),
                  KV_FAULT("error", outcome),
                  KV("hint", "its requests are routed by their text"));
    }
}

void
ingest_removed(struct ingest *ingest, const struct fleet_worker *worker)
{
    struct ingest_worker *f = &ingest->workers[worker->slot];

    if (!f->present || f->generation != worker->generation) {
        return;
    }
    ingest_stop_reading(ingest, f);
    for (uint32_t rank = 0; rank < f->ranks; rank++) {
        ingest_position_drop(f, rank);
    }
    f->present = false;
    ingest_index(ingest);
    free(f->worker);
    f->worker = NULL;
    mirror_writer_worker_remove(ingest->writer, worker->slot);
}

/* What lanes tell */

void
ingest_expect(struct ingest *ingest, const struct fact_learn *fact,
              uint64_t now_us)
{
    const struct mirror_view *view =
        mirror_view_get(&ingest->node->mirror_view);

    if (!worker_set_has(&ingest->admitted, fact->slot) ||
        view->owner[fact->slot] != fact->owner ||
        view->generation[fact->owner] != fact->generation) {
        return; /* the slot is another's by now */
    }
    /* The lane left out what was held when it looked. */
    expectations_add_missing(ingest->node->expectations, ingest->node->mirror,
                             fact->slot, fact->keys, fact->count, now_us);
}

/* More was new than fits into the block in use: an event must tell of it. */
static void
note_computed(struct ingest_worker *f, const struct fact_decision *fact)
{
    if (fact->exact && fact->cached_known && fact->rank < INGEST_RANKS_MAX &&
        fact->prompt_tokens >=
            (uint64_t)fact->cached_tokens + fact->block_tokens) {
        f->computed |= UINT64_C(1) << fact->rank;
    }
}

void
ingest_answer(struct ingest *ingest, const struct fact_decision *fact,
              uint64_t now_us)
{
    struct accuracy_answer answer = {
        .prompt_tokens = fact->prompt_tokens,
        .predicted_tokens = fact->predicted_tokens,
        .cached_tokens = fact->cached_tokens,
        .block_tokens = fact->block_tokens,
    };

    note_computed(&ingest->workers[fact->slot], fact);
    /* Where the prompt has another length than we thought, the tokens are to
     * blame and not the mirror. */
    if (!fact->exact || !fact->whole || !fact->cached_known ||
        fact->prompt_tokens != fact->total) {
        return;
    }
    if (mirror_writer_answer(ingest->writer, fact->slot, fact->generation,
                             fact->rank, &answer, now_us)) {
        ingest->workers[fact->slot].rank[fact->rank].wrong = true;
    }
}

/* What is applied of a stream is not what it should be. */
static void ON_CONTROL
have_again(struct ingest *ingest, uint32_t worker, uint32_t rank,
           const char *reason, uint64_t now_us)
{
    struct ingest_worker *f = &ingest->workers[worker];

    LOG_WARNING("events_reread", KV("worker", f->id), KV("rank", rank),
                KV("reason", reason));
    gossip_local_lost(ingest->owner.gossip, ingest_stream_name(f, rank),
                      now_us);
    ingest_pull(ingest);
}

/* A reading may have begun or ceased to lead since the last look. */
static void ON_CONTROL
look_at_sources(struct ingest *ingest, uint64_t now_us)
{
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        struct ingest_worker *f = &ingest->workers[i];
        ingest_reach_watch(ingest, f, now_us);
        for (uint32_t rank = 0; f->present && rank < f->ranks; rank++) {
            ingest_tell_state(ingest, f, rank);
        }
    }
}

/* What was put off until no output of gossip's is being carried out. */
static void ON_CONTROL
work_on_worker(struct ingest *ingest, uint32_t worker, uint64_t now_us)
{
    struct ingest_worker *f = &ingest->workers[worker];

    for (uint32_t rank = 0; f->present && rank < f->ranks; rank++) {
        if (f->rank[rank].unasked) {
            ingest_ask(ingest, f, rank);
        }
        if (f->rank[rank].wrong) {
            f->rank[rank].wrong = false;
            have_again(ingest, worker, rank,
                       "its answers differ from what was predicted", now_us);
        }
    }
}

/* What only needs a look now and then. */
static void ON_CONTROL
look_around(struct ingest *ingest, uint64_t now_us)
{
    struct mirror_writer_id id;

    ingest->looked_us = now_us;
    ingest->streams.caught_up =
        gauge_read(&ingest->node->mesh_ready) == CLUSTER_CAUGHT_UP;
    while (mirror_writer_next_reread(ingest->writer, &id, now_us)) {
        have_again(ingest, id.worker, id.rank, "it lost some of its records",
                   now_us);
    }
    look_at_sources(ingest, now_us);
    ingest_watch(ingest, now_us);
    if (ingest->started_us != 0 && now_us - ingest->started_us >= LOADED_US) {
        (void)intake_forget_loaded(ingest->intake); /* or with the next look */
    }
}

bool
ingest_work(struct ingest *ingest, uint64_t now_us)
{
    ingest_bury(ingest);
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        if (ingest->workers[i].present) {
            work_on_worker(ingest, i, now_us);
        }
    }
    bool more = mirror_writer_work(ingest->writer, INGEST_BUDGET);
    keep_in_step(ingest);
    more =
        expectations_work(ingest->node->expectations, EXPIRE_BUDGET, now_us) ||
        more;
    if (now_us - ingest->looked_us >= LOOK_US) {
        look_around(ingest, now_us);
    }
    return more;
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
    *out = ingest; /* the caller ends what was begun */
    int error = open_writer(ingest);
    ingest->streams.gossip = owner->gossip;
    ingest->streams.writer = ingest->writer;
    ingest->streams.mirror = node->mirror;
    ingest->streams.expectations = node->expectations;
    if (error == 0) {
        error = intake_new(&ingest->intake, node->config, &ingest->wake, seed);
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
        intake_free(ingest->intake); /* nobody wakes us any more */
        ingest->intake = NULL;
        ingest->stopped = true;
        ingest_bury(ingest);
        for (uint32_t i = 0; i < WORKERS_MAX; i++) {
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
