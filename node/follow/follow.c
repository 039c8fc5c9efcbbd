#include "node/follow/follow_internal.h"

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
viewed_slots(const struct follow *follow)
{
    const struct mirror_view *view =
        mirror_view_get(&follow->node->mirror_view);
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
keep_in_step(struct follow *follow)
{
    struct expectations *expectations = follow->node->expectations;
    struct worker_set now = viewed_slots(follow);
    struct worker_set gone = worker_set_minus(&follow->admitted, &now);
    struct worker_set new = worker_set_minus(&now, &follow->admitted);

    WORKER_SET_EACH (slot, &gone) {
        expectations_close(expectations, slot);
        worker_set_remove(&follow->admitted, slot);
    }
    WORKER_SET_EACH (slot, &new) {
        /* Refused while the slot is still swept: tried again next time. */
        if (expectations_open(expectations, slot) == 0) {
            worker_set_add(&follow->admitted, slot);
        }
    }
}

/* Workers by identity */

static uint32_t
hash_of(uint64_t identity)
{
    return (uint32_t)(rng_mix(identity) & (FOLLOW_HASH - 1));
}

void
follow_index(struct follow *follow)
{
    memset(follow->by_identity, 0, sizeof follow->by_identity);
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        const struct followed *f = &follow->workers[i];
        uint32_t at = f->present ? hash_of(f->worker->identity) : 0;
        while (f->present && follow->by_identity[at] != 0) {
            at = (at + 1) % FOLLOW_HASH;
        }
        if (f->present) {
            follow->by_identity[at] = (uint16_t)(i + 1);
        }
    }
}

_Static_assert(WORKERS_MAX < FOLLOW_HASH && WORKERS_MAX < UINT16_MAX,
               "there is always an empty place");

struct followed *
follow_find(struct follow *follow, uint64_t identity)
{
    for (uint32_t at = hash_of(identity); follow->by_identity[at] != 0;
         at = (at + 1) % FOLLOW_HASH) {
        struct followed *f = &follow->workers[follow->by_identity[at] - 1];
        if (f->worker->identity == identity) {
            return f;
        }
    }
    return NULL;
}

void
follow_pull(struct follow *follow)
{
    follow->owner.pull(follow->owner.context);
}

/* Turns */

static void
on_wake(uv_async_t *wake)
{
    struct follow *follow = wake->data;
    bool more = false;

    role_is_control();
    follow->waking = false;
    follow->awake = true;
    follow->owner.take_facts(follow->owner.context);
    follow_take_items(follow, &more);
    follow_bury(follow);
    more = feed_work(follow->feed, FOLLOW_BUDGET) || more;
    keep_in_step(follow);
    follow->awake = false;
    if (more) {
        (void)uv_async_send(wake);
    }
}

/* Workers */

bool
follow_is_followed(const struct fleet_worker *worker)
{
    return worker->events.host[0] != '\0' || worker->sse.host[0] != '\0';
}

static int ON_CONTROL
add(struct follow *follow, struct followed *f,
    const struct fleet_worker *worker)
{
    f->worker = malloc(sizeof *f->worker);
    if (f->worker == NULL) {
        return -ENOMEM;
    }
    *f->worker = *worker;
    int outcome = feed_worker_add(follow->feed, worker->slot,
                                  worker->generation, worker->ranks);
    if (outcome != 0) {
        free(f->worker);
        f->worker = NULL;
    }
    return outcome;
}

void
follow_added(struct follow *follow, const struct fleet_worker *worker)
{
    struct followed *f = &follow->workers[worker->slot];

    CHECK(!f->present && f->link == NULL && worker->ranks <= FOLLOW_RANKS_MAX);
    struct followed before = *f;
    *f = (struct followed){
        .ranks = worker->ranks,
        .generation = worker->generation,
        .reading = before.reading,
        .stuck = before.stuck,
        .stuck_generation = before.stuck_generation,
    };
    memcpy(f->gone, before.gone, sizeof f->gone);
    memcpy(f->id, worker->id, sizeof(f->id));
    for (uint32_t rank = 0; rank < f->ranks; rank++) {
        f->rank[rank] = (struct follow_rank){
            .stream = {.worker = worker->identity, .rank = rank},
            .worker = worker->slot,
            .generation = worker->generation,
            .replays = worker->replay.host[0] != '\0',
        };
    }
    if (!follow_is_followed(worker)) {
        return;
    }
    int outcome = add(follow, f, worker);
    f->present = outcome == 0;
    follow_index(follow);
    if (outcome != 0) {
        LOG_ERROR("events_refused", KV("worker", worker->id),
                  KV_FAULT("error", outcome),
                  KV("hint", "its requests are routed by their text"));
    }
}

void
follow_removed(struct follow *follow, const struct fleet_worker *worker)
{
    struct followed *f = &follow->workers[worker->slot];

    if (!f->present || f->generation != worker->generation) {
        return;
    }
    follow_stop_reading(follow, f);
    for (uint32_t rank = 0; rank < f->ranks; rank++) {
        follow_position_drop(f, rank);
    }
    f->present = false;
    follow_index(follow);
    free(f->worker);
    f->worker = NULL;
    feed_worker_remove(follow->feed, worker->slot);
}

/* What lanes tell */

void
follow_expect(struct follow *follow, const struct fact_learn *fact,
              uint64_t now_us)
{
    const struct mirror_view *view =
        mirror_view_get(&follow->node->mirror_view);

    if (!worker_set_has(&follow->admitted, fact->slot) ||
        view->owner[fact->slot] != fact->owner ||
        view->generation[fact->owner] != fact->generation) {
        return; /* the slot is another's by now */
    }
    /* The lane left out what was held when it looked. */
    expectations_add_missing(follow->node->expectations, follow->node->mirror,
                             fact->slot, fact->keys, fact->count, now_us);
}

/* More was new than fits into the block in use: an event must tell of it. */
static void
note_computed(struct followed *f, const struct fact_decision *fact)
{
    if (fact->exact && fact->cached_known && fact->rank < FOLLOW_RANKS_MAX &&
        fact->prompt_tokens >=
            (uint64_t)fact->cached_tokens + fact->block_tokens) {
        f->computed |= UINT64_C(1) << fact->rank;
    }
}

void
follow_answer(struct follow *follow, const struct fact_decision *fact,
              uint64_t now_us)
{
    struct accuracy_answer answer = {
        .prompt_tokens = fact->prompt_tokens,
        .predicted_tokens = fact->predicted_tokens,
        .cached_tokens = fact->cached_tokens,
        .block_tokens = fact->block_tokens,
    };

    note_computed(&follow->workers[fact->slot], fact);
    /* Where the prompt has another length than we thought, the tokens are to
     * blame and not the mirror. */
    if (!fact->exact || !fact->whole || !fact->cached_known ||
        fact->prompt_tokens != fact->total) {
        return;
    }
    if (feed_answer(follow->feed, fact->slot, fact->generation, fact->rank,
                    &answer, now_us)) {
        follow->workers[fact->slot].rank[fact->rank].wrong = true;
    }
}

/* What is applied of a stream is not what it should be. */
static void ON_CONTROL
have_again(struct follow *follow, uint32_t worker, uint32_t rank,
           const char *reason, uint64_t now_us)
{
    struct followed *f = &follow->workers[worker];

    LOG_WARNING("events_reread", KV("worker", f->id), KV("rank", rank),
                KV("reason", reason));
    gossip_local_lost(follow->owner.gossip, follow_stream(f, rank), now_us);
    follow_pull(follow);
}

/* A reading may have begun or ceased to lead since the last look. */
static void ON_CONTROL
look_at_sources(struct follow *follow, uint64_t now_us)
{
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        struct followed *f = &follow->workers[i];
        follow_reach_watch(follow, f, now_us);
        for (uint32_t rank = 0; f->present && rank < f->ranks; rank++) {
            follow_tell_state(follow, f, rank);
        }
    }
}

/* What was put off until no output of gossip's is being carried out. */
static void ON_CONTROL
work_on_worker(struct follow *follow, uint32_t worker, uint64_t now_us)
{
    struct followed *f = &follow->workers[worker];

    for (uint32_t rank = 0; f->present && rank < f->ranks; rank++) {
        if (f->rank[rank].unasked) {
            follow_ask(follow, f, rank);
        }
        if (f->rank[rank].wrong) {
            f->rank[rank].wrong = false;
            have_again(follow, worker, rank,
                       "its answers differ from what was predicted", now_us);
        }
    }
}

/* What only needs a look now and then. */
static void ON_CONTROL
look_around(struct follow *follow, uint64_t now_us)
{
    struct feed_id id;

    follow->looked_us = now_us;
    follow->streams.caught_up =
        gauge_read(&follow->node->mesh_ready) == CLUSTER_CAUGHT_UP;
    while (feed_next_reread(follow->feed, &id, now_us)) {
        have_again(follow, id.worker, id.rank, "it lost some of its records",
                   now_us);
    }
    look_at_sources(follow, now_us);
    follow_watch(follow, now_us);
    if (follow->started_us != 0 && now_us - follow->started_us >= LOADED_US) {
        (void)intake_forget_loaded(follow->intake); /* or with the next look */
    }
}

bool
follow_work(struct follow *follow, uint64_t now_us)
{
    follow_bury(follow);
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        if (follow->workers[i].present) {
            work_on_worker(follow, i, now_us);
        }
    }
    bool more = feed_work(follow->feed, FOLLOW_BUDGET);
    keep_in_step(follow);
    more =
        expectations_work(follow->node->expectations, EXPIRE_BUDGET, now_us) ||
        more;
    if (now_us - follow->looked_us >= LOOK_US) {
        look_around(follow, now_us);
    }
    return more;
}

const struct feed *
follow_feed(const struct follow *follow)
{
    return follow->feed;
}

const struct intake *
follow_intake(const struct follow *follow)
{
    return follow->intake;
}

/* The beginning and the end */

static int
open_feed(struct follow *follow)
{
    const struct config_mirror *config = &follow->node->config->mirror;
    struct feed_limits limits = {
        .stale_permille = config->stale_permille,
        .accuracy = {.answers_min = ANSWERS_MIN,
                     .wrong_permille = config->wrong_permille,
                     .reread_ms = REREAD_MS,
                     .discount_permille = config->stale_permille},
    };

    return feed_new(&follow->feed, &limits, follow->node->mirror,
                    &follow->node->qsbr, &follow->node->mirror_view);
}

int
follow_new(struct follow **out, struct node_shared *node, uv_loop_t *loop,
           const struct follow_owner *owner, uint64_t seed)
{
    struct follow *follow = calloc(1, sizeof(*follow));

    *out = NULL;
    if (follow == NULL) {
        return -ENOMEM;
    }
    follow->node = node;
    follow->loop = loop;
    follow->owner = *owner;
    CHECK(uv_async_init(loop, &follow->wake, on_wake) == 0);
    follow->wake.data = follow;
    rng_init(&follow->rng, seed);
    *out = follow; /* the caller ends what was begun */
    int error = open_feed(follow);
    follow->streams.gossip = owner->gossip;
    follow->streams.feed = follow->feed;
    follow->streams.mirror = node->mirror;
    follow->streams.expectations = node->expectations;
    if (error == 0) {
        error = intake_new(&follow->intake, node->config, &follow->wake, seed);
    }
    return error;
}

struct intake *
follow_own_intake(struct follow *follow)
{
    return follow->intake;
}

int
follow_start(struct follow *follow)
{
    follow->started_us = probe_now_us();
    return intake_start(follow->intake);
}

void
follow_stop(struct follow *follow)
{
    if (follow != NULL) {
        intake_free(follow->intake); /* nobody wakes us any more */
        follow->intake = NULL;
        follow->stopped = true;
        follow_bury(follow);
        for (uint32_t i = 0; i < WORKERS_MAX; i++) {
            kv_sse_link_free(follow->workers[i].link);
            follow->workers[i].link = NULL;
        }
        uv_close((uv_handle_t *)&follow->wake, NULL);
    }
}

void
follow_free(struct follow *follow)
{
    if (follow != NULL) {
        feed_free(follow->feed);
        for (uint32_t i = 0; i < WORKERS_MAX; i++) {
            free(follow->workers[i].worker);
            for (uint32_t rank = 0; rank < FOLLOW_RANKS_MAX; rank++) {
                follow_position_drop(&follow->workers[i], rank);
            }
        }
        free(follow);
    }
}
