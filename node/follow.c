#include "node/follow_inner.h"

#include <errno.h>
#include <stdlib.h>

#include "node/log.h"

#define ITEMS_PER_TURN       2048U
#define WORK_BUDGET          16384U /* table slots of the mirror looked at per turn */
#define EXPIRE_BUDGET        4096U
#define LOOK_US              UINT64_C(1000000)
#define REREAD_MS            10000U
#define SIDECAR_RETRY_MS     200U
#define SIDECAR_RETRY_MAX_MS 5000U
#define SIDECAR_SILENCE_MS   60000U
#define ANSWERS_MIN          16U

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
    struct expected *expected = follow->node->expected;
    struct worker_set now = viewed_slots(follow);
    struct worker_set gone = worker_set_minus(&follow->admitted, &now);
    struct worker_set new = worker_set_minus(&now, &follow->admitted);

    WORKER_SET_EACH (slot, &gone) {
        expected_close(expected, slot);
        worker_set_remove(&follow->admitted, slot);
    }
    WORKER_SET_EACH (slot, &new) {
        /* Refused while the slot is still swept: tried again next time. */
        if (expected_open(expected, slot) == 0) {
            worker_set_add(&follow->admitted, slot);
        }
    }
}

/* What the sources deliver */

static const char *
name_of(const struct follow *follow, uint32_t worker)
{
    return worker < WORKERS_MAX ? follow->workers[worker].id : "";
}

static void ON_CONTROL
read_again(struct follow *follow, const struct feed_id *id, const char *reason)
{
    struct followed *f = &follow->workers[id->worker];

    LOG_WARNING("events_reread", KV("worker", f->id), KV("rank", id->rank),
                KV("reason", reason));
    if (f->link != NULL) {
        kv_sse_link_reread(f->link, reason);
    } else if (intake_reread(follow->intake, id->worker, id->generation,
                             id->rank) != 0) {
        LOG_WARNING("events_reread_refused", KV("worker", f->id));
    }
}

static void ON_CONTROL
take_reset(struct follow *follow, const struct feed_id *id, uint64_t epoch,
           const char *reason, bool same_process)
{
    LOG_INFO("events_reset", KV("worker", name_of(follow, id->worker)),
             KV("rank", id->rank), KV("reason", reason));
    int outcome = feed_reset(follow->feed, id->worker, id->generation, id->rank,
                             epoch, same_process);
    if (outcome < 0) {
        LOG_WARNING("mirror_out_of_memory", KV_FAULT("error", outcome));
    }
}

static void
on_sidecar_reset(void *context, uint32_t worker, uint32_t generation,
                 uint32_t rank, uint64_t epoch, const char *reason)
{
    struct feed_id id = {
        .worker = worker, .generation = generation, .rank = rank};

    role_is_control();
    take_reset(context, &id, epoch, reason, true);
}

static void
on_state(void *context, uint32_t worker, uint32_t generation, uint32_t rank,
         enum kv_stream_state state)
{
    struct follow *follow = context;

    role_is_control();
    const struct intake_numbers *n =
        intake_numbers(follow->intake, worker, rank);
    if (state == KV_STREAM_STALE || state == KV_STREAM_PARTIAL) {
        LOG_WARNING("events_state", KV("worker", name_of(follow, worker)),
                    KV("rank", rank), KV("state", kv_stream_state_name(state)),
                    KV("replays_in_vain",
                       n != NULL ? counter_read(&n->kv.replay_incomplete) : 0));
    } else {
        LOG_INFO("events_state", KV("worker", name_of(follow, worker)),
                 KV("rank", rank), KV("state", kv_stream_state_name(state)));
    }
    feed_state(follow->feed, worker, generation, rank, state);
}

static void
on_record(void *context, uint32_t worker, uint32_t generation, uint32_t rank,
          const struct event_record *record)
{
    struct follow *follow = context;

    role_is_control();
    int outcome = feed_record(follow->feed, worker, generation, rank, record);
    if (outcome < 0) { /* the feed names what is to be read again */
        LOG_WARNING("mirror_out_of_memory", KV_FAULT("error", outcome));
    }
    uint32_t slot = feed_slot(follow->feed, worker, generation, rank);
    if (slot != WORKER_NONE &&
        event_check(record->words, record->words_count)) {
        expected_confirm(follow->node->expected, slot, record->words,
                         record->words_count);
    }
}

static void
on_sidecar_record(void *context, uint32_t worker, uint32_t generation,
                  uint32_t rank, const struct event_record *record)
{
    struct follow *follow = context;

    follow->owner.take_facts(follow->owner.context);
    on_record(follow, worker, generation, rank, record);
}

static void ON_CONTROL
take_item(struct follow *follow, const struct intake_item *item)
{
    switch ((enum intake_item_kind)item->kind) {
    case INTAKE_RESET: {
        struct feed_id id = {.worker = item->worker,
                             .generation = item->generation,
                             .rank = item->rank};
        take_reset(follow, &id, item->epoch, item->reason, item->same_process);
        return;
    }
    case INTAKE_STATE:
        on_state(follow, item->worker, item->generation, item->rank,
                 (enum kv_stream_state)item->state);
        return;
    case INTAKE_RECORD:
        on_record(follow, item->worker, item->generation, item->rank,
                  (const void *)(item + 1));
        return;
    }
}

/* True when there is more. */
static bool ON_CONTROL
take_items(struct follow *follow)
{
    struct ring *ring = intake_ring(follow->intake);

    for (uint32_t n = 0; n < ITEMS_PER_TURN; n++) {
        size_t size;
        const struct intake_item *item = ring_peek(ring, &size);
        if (item == NULL) {
            return false;
        }
        CHECK(size >= sizeof(*item));
        take_item(follow, item);
        ring_consume(ring);
    }
    return true;
}

static void
on_wake(uv_async_t *wake)
{
    struct follow *follow = wake->data;

    role_is_control();
    follow->owner.take_facts(follow->owner.context);
    bool more = take_items(follow);
    more = feed_work(follow->feed, WORK_BUDGET) || more;
    keep_in_step(follow);
    if (more) {
        (void)uv_async_send(wake);
    }
}

/* Sidecars' streams run on this loop, and change the feed at once. */
static void
on_sidecar_work(uv_check_t *check)
{
    struct follow *follow = check->data;

    role_is_control();
    if (follow->links_count != 0) {
        (void)feed_work(follow->feed, WORK_BUDGET);
        keep_in_step(follow);
    }
}

/* Workers */

static int
add_sidecar(struct follow *follow, const struct fleet_worker *worker)
{
    struct kv_sse_source source = {
        .slot = worker->slot,
        .generation = worker->generation,
        .identity = worker->identity,
        .ranks = worker->ranks,
        .url = worker->sse,
        .retry_ms = SIDECAR_RETRY_MS,
        .retry_max_ms = SIDECAR_RETRY_MAX_MS,
        .silence_ms = SIDECAR_SILENCE_MS,
        .seed = rng_next(&follow->rng),
        .sink = {.context = follow,
                 .reset = on_sidecar_reset,
                 .state = on_state,
                 .record = on_sidecar_record},
    };

    memcpy(source.id, worker->id, sizeof(source.id));
    memcpy(source.api_key, worker->api_key, sizeof(source.api_key));
    int outcome = kv_sse_link_new(&follow->workers[worker->slot].link,
                                  follow->loop, &source);
    follow->links_count += outcome == 0;
    return outcome;
}

static int
add_events(struct follow *follow, const struct fleet_worker *worker)
{
    struct intake_worker source = {
        .slot = worker->slot,
        .generation = worker->generation,
        .identity = worker->identity,
        .ranks = worker->ranks,
        .events = worker->events,
        .replay = worker->replay,
    };

    memcpy(source.topic, worker->topic, sizeof(source.topic));
    memcpy(source.id, worker->id, sizeof(source.id));
    return intake_add(follow->intake, &source);
}

void
follow_added(struct follow *follow, const struct fleet_worker *worker)
{
    struct followed *f = &follow->workers[worker->slot];
    bool events = worker->events.host[0] != '\0';

    *f = (struct followed){
        .ranks = worker->ranks,
        .generation = worker->generation,
    };
    memcpy(f->id, worker->id, sizeof(f->id));
    if (!events && worker->sse.host[0] == '\0') {
        return;
    }
    int outcome = feed_worker_add(follow->feed, worker->slot,
                                  worker->generation, worker->ranks);
    if (outcome == 0) {
        outcome =
            events ? add_events(follow, worker) : add_sidecar(follow, worker);
        if (outcome != 0) {
            feed_worker_remove(follow->feed, worker->slot);
        }
    }
    f->present = outcome == 0;
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
    f->present = false;
    feed_worker_remove(follow->feed, worker->slot);
    if (f->link != NULL) {
        kv_sse_link_free(f->link);
        f->link = NULL;
        follow->links_count--;
    } else if (intake_remove(follow->intake, worker->slot,
                             worker->generation) != 0) {
        LOG_WARNING("events_remove_refused", KV("worker", worker->id));
    }
}

/* What lanes tell */

static uint32_t
held_now(struct follow *follow, const struct fact_learn *fact)
{
    struct worker_set slot;

    worker_set_clear(&slot);
    worker_set_add(&slot, fact->slot);
    mirror_match(follow->node->mirror, &slot, fact->keys, fact->count,
                 &follow->match);
    return follow->match.best;
}

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
    /* The lane left out what was held when it looked; no event will tell of
     * what has become held since. */
    uint32_t held = held_now(follow, fact);
    if (held < fact->count) {
        expected_add(follow->node->expected, fact->slot, fact->keys + held,
                     fact->count - held, now_us);
    }
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
        struct feed_id id = {.worker = fact->slot,
                             .generation = fact->generation,
                             .rank = fact->rank};
        read_again(follow, &id, "its answers differ from what was predicted");
    }
}

void
follow_work(struct follow *follow, uint64_t now_us)
{
    (void)feed_work(follow->feed, WORK_BUDGET);
    keep_in_step(follow);
    (void)expected_work(follow->node->expected, EXPIRE_BUDGET, now_us);
    if (now_us - follow->looked_us < LOOK_US) {
        return;
    }
    follow->looked_us = now_us;
    struct feed_id id;
    while (feed_next_reread(follow->feed, &id, now_us)) {
        read_again(follow, &id, "it lost some of its records");
    }
    follow_watch(follow, now_us);
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
    CHECK(uv_check_init(loop, &follow->check) == 0);
    CHECK(uv_check_start(&follow->check, on_sidecar_work) == 0);
    uv_unref((uv_handle_t *)&follow->check);
    follow->check.data = follow;
    rng_init(&follow->rng, seed);
    *out = follow; /* the caller ends what was begun */
    int error = open_feed(follow);
    if (error == 0) {
        error = intake_new(&follow->intake, node->config, &follow->wake, seed);
    }
    return error;
}

void
follow_stop(struct follow *follow)
{
    if (follow != NULL) {
        intake_free(follow->intake); /* nobody wakes us any more */
        follow->intake = NULL;
        for (uint32_t i = 0; i < WORKERS_MAX; i++) {
            kv_sse_link_free(follow->workers[i].link);
            follow->workers[i].link = NULL;
        }
        follow->links_count = 0;
        uv_close((uv_handle_t *)&follow->check, NULL);
        uv_close((uv_handle_t *)&follow->wake, NULL);
    }
}

void
follow_free(struct follow *follow)
{
    if (follow != NULL) {
        feed_free(follow->feed);
        free(follow);
    }
}
