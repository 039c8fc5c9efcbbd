/* The events of a replay: arrivals, steps of engines, and what nodes hear. */
#include "chaos/replay/replay_flow_internal.h"
#include "index/base/role.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* As node/peers/hints.c has them. */
#define RATE_US   UINT64_C(500000)
#define UNSEEN_MS 8U

enum kind {
    KIND_ARRIVE,  /* request who, at its node */
    KIND_WAKE,    /* engine who */
    KIND_EVENTS,  /* record what of engine who, at those who read it */
    KIND_GOSSIP,  /* the same, at the others */
    KIND_BELIEF,  /* record what: a decision for engine who, at the peers */
    KIND_OPENED,  /* a request of node what at engine who, at its peers */
    KIND_CLOSED,  /* the same, that has ended */
    KIND_GAUGES,  /* nodes tell how much they send */
    KIND_HEARD,   /* ... and hear it */
    KIND_METRICS, /* nodes look how full engines are */
};

/* Something that travels: words of events, or keys of a decision. */
struct record {
    uint32_t node; /* whose decision */
    uint32_t count;
    uint64_t words[];
};

bool
replay_knows_events(const struct replay_world *world)
{
    return replay_hears_events(world->setup.policy) ||
           replay_sees_all(world->setup.policy);
}

static int
schedule(struct replay_world *world, uint64_t at_us, enum kind kind,
         uint32_t who, uint64_t what)
{
    struct virtual_event event = {
        .time_us = at_us, .kind = kind, .who = who, .what = what};
    int outcome = virtual_time_add(&world->time, &event);

    return outcome == 0 ? 0 : -ENOMEM;
}

static uint64_t
now(const struct replay_world *world)
{
    return world->time.now_us;
}

int
replay_flow_begin(struct replay_world *world)
{
    const struct replay_setup *setup = &world->setup;
    int error = 0;

    for (uint32_t i = 0; i < world->load->count && error == 0; i++) {
        const struct replay_request *r = &world->load->requests[i];
        if (r->after == REPLAY_NONE) {
            error = schedule(world, r->at_us * 1000 / setup->load_permille,
                             KIND_ARRIVE, i, 0);
        }
    }
    if (error == 0) {
        error = schedule(world, setup->gauge_us, KIND_GAUGES, 0, 0);
    }
    if (error == 0) {
        error = schedule(world, setup->metrics_us, KIND_METRICS, 0, 0);
    }
    return error;
}

static struct record *
record_of(const struct virtual_event *event)
{
    return (struct record *)(uintptr_t)event->what;
}

void
replay_flow_drop(struct replay_world *world)
{
    struct virtual_event event;

    while (virtual_time_next(&world->time, VIRTUAL_TIME_NEVER, &event)) {
        if (event.kind == KIND_EVENTS || event.kind == KIND_GOSSIP ||
            event.kind == KIND_BELIEF) {
            free(record_of(&event));
        }
    }
}

static struct record *
record_new(uint32_t node, const uint64_t *words, uint32_t count)
{
    struct record *record =
        malloc(sizeof(*record) + count * sizeof(*record->words));

    if (record != NULL) {
        record->node = node;
        record->count = count;
        memcpy(record->words, words, count * sizeof(*words));
    }
    return record;
}

/* Hands a copy of the words on; with nobody to hear them, nothing. */
static int
dispatch(struct replay_world *world, uint64_t at_us, enum kind kind,
         uint32_t who, struct record *record)
{
    if (record == NULL) {
        return -ENOMEM;
    }
    int error = schedule(world, at_us, kind, who, (uintptr_t)record);
    if (error != 0) {
        free(record);
    }
    return error;
}

/* Engines */

static int
wake_when_due(struct replay_world *world, uint32_t engine)
{
    struct replay_engine *e = &world->engines[engine];
    uint64_t due_us = engine_deadline(&e->engine);

    if (due_us == e->wake_us || due_us == UINT64_MAX) {
        return 0;
    }
    CHECK(due_us >= now(world));
    e->wake_us = due_us;
    return schedule(world, due_us, KIND_WAKE, engine, 0);
}

/* The step that changed these has ended: its events are on their way. */
static int
publish(struct replay_world *world, uint32_t engine)
{
    struct replay_engine *e = &world->engines[engine];
    uint64_t at_us = now(world) + world->setup.event_us;
    int error = 0;

    CHECK(!e->changed.failed);
    if (e->changed.count > 0 && replay_hears_events(world->setup.policy)) {
        error = dispatch(world, at_us, KIND_EVENTS, engine,
                         record_new(0, e->changed.words, e->changed.count));
    }
    e->changed.count = 0;
    return error;
}

/* Of equal blocks all but the last may go without a word. */
static bool
is_gone(const struct engine *engine, uint64_t key)
{
    uint32_t unused;

    return engine_blocks_match(&engine->pool, &key, 1, &unused) == 0;
}

static void ON_CONTROL
note_changes(struct replay_world *world, uint32_t engine)
{
    struct replay_engine *e = &world->engines[engine];
    uint32_t from = e->changed.count;
    struct engine_event event;

    CHECK(from == 0);
    while (engine_next_event(&e->engine, &event)) {
        CHECK(event.kind != ENGINE_EVENT_CLEARED);
        bool stored = event.kind == ENGINE_EVENT_STORED;
        if (stored || is_gone(&e->engine, event.key)) {
            uint64_t *to = event_words_add(&e->changed,
                                           stored ? EVENT_STORE : EVENT_REMOVE,
                                           TIER_DEVICE, 1);
            CHECK(to != NULL);
            *to = event.key;
        }
    }
    if (e->changed.count > 0 && replay_sees_all(world->setup.policy)) {
        expectations_confirm(world->nodes[0].expectations, engine,
                             e->changed.words, e->changed.count);
    }
}

/* Peers hear of a request that was sent, or has ended. */
static int
tell_peers(struct replay_world *world, enum kind kind,
           const struct replay_flight *flight)
{
    if (world->nodes_count == 1) {
        return 0;
    }
    return schedule(world, now(world) + world->setup.gossip_us, kind,
                    flight->engine, flight->node);
}

/* Its prompt is computed. */
static void
answer(struct replay_world *world, const struct engine_out *out)
{
    struct replay_flight *flight = &world->flights[out->user];
    struct replay_engine *e = &world->engines[flight->engine];

    if (!world->setup.answers_whole) {
        replay_node_began(&world->nodes[flight->node], &flight->lease);
    }
    e->queued -= flight->queued;
    e->wanted -= flight->wanted;
}

static int
finish(struct replay_world *world, const struct engine_out *out)
{
    uint32_t number = (uint32_t)out->user;
    struct replay_flight *flight = &world->flights[number];
    const struct replay_request *request = &world->load->requests[number];
    struct replay_result *result = &world->result;
    struct replay_engine *e = &world->engines[flight->engine];

    world->ttft_us[result->finished] = out->usage.first_us - flight->arrived_us;
    world->whole_us[result->finished] = out->at_us - flight->arrived_us;
    result->finished++;
    result->prompt_tokens += out->usage.prompt_tokens;
    result->cached_tokens += out->usage.cached_tokens;
    result->output_tokens += out->usage.completion_tokens;
    e->computed += out->usage.prompt_tokens - out->usage.cached_tokens +
                   out->usage.completion_tokens;
    e->open--;
    world->last_us = out->at_us;
    world->left--;
    replay_node_leave(&world->nodes[flight->node], &flight->lease);
    int error = tell_peers(world, KIND_CLOSED, flight);
    if (error != 0 || request->next == REPLAY_NONE) {
        return error;
    }
    uint64_t pause_us = world->load->requests[request->next].at_us;
    return schedule(world, now(world) + pause_us, KIND_ARRIVE, request->next,
                    0);
}

static int ON_CONTROL
wake(struct replay_world *world, uint32_t engine)
{
    struct replay_engine *e = &world->engines[engine];
    struct engine_out out;
    int error = publish(world, engine);

    engine_tick(&e->engine, now(world));
    while (error == 0 && engine_next_out(&e->engine, &out)) {
        CHECK(out.at_us == now(world));
        if (out.kind == ENGINE_OUT_FIRST) {
            answer(world, &out);
        } else if (out.kind == ENGINE_OUT_END) {
            error = finish(world, &out);
        }
    }
    note_changes(world, engine);
    return error == 0 ? wake_when_due(world, engine) : error;
}

/* Elections */

static void
count_mode(struct replay_result *result, const struct replay_choice *choice)
{
    enum replay_mode mode = REPLAY_MODE_POLICY;

    if (choice->mode == ELECT_AFFINITY) {
        mode = REPLAY_MODE_AFFINITY;
    } else if (choice->mode == ELECT_BALANCE) {
        mode =
            choice->imbalanced ? REPLAY_MODE_IMBALANCED : REPLAY_MODE_BALANCE;
    }
    result->modes[mode]++;
}

/* The prompt's tokens into world->tokens, its keys into world->keys. */
static struct replay_prompt
read_prompt(struct replay_world *world, const struct replay_request *request)
{
    uint32_t block = world->setup.engine.block_tokens;
    struct replay_prompt prompt = {
        .root = world->root,
        .keys = world->keys,
        .blocks = request->prompt_tokens / block,
        .tokens = request->prompt_tokens,
        .family = request->family,
    };

    replay_load_tokens(world->load, request, world->tokens);
    if (prompt.blocks > 0) {
        (void)key_chain(world->root, world->tokens, prompt.blocks,
                        block * sizeof(*world->tokens), world->keys);
    }
    return prompt;
}

static int
submit(struct replay_world *world, uint32_t number)
{
    const struct replay_request *r = &world->load->requests[number];
    struct replay_flight *flight = &world->flights[number];
    struct replay_engine *e = &world->engines[flight->engine];
    struct replay_run answer = {.text = r->answer, .tokens = r->output_tokens};
    struct engine_request request = {
        .user = number,
        .prompt = world->tokens,
        .output = world->tokens + r->prompt_tokens,
        .prompt_len = r->prompt_tokens,
        .output_len = r->output_tokens,
    };
    uint32_t block = world->setup.engine.block_tokens;
    uint64_t ticket;

    replay_run_tokens(&answer, world->tokens + r->prompt_tokens);
    int error = engine_submit(&e->engine, &request, now(world), &ticket);
    CHECK(error <= 0); /* there is room, and it is not too long */
    if (error < 0) {
        return error;
    }
    flight->wanted = (flight->queued + r->output_tokens + block - 1) / block;
    e->queued += flight->queued;
    e->wanted += flight->wanted;
    e->open++;
    e->peak = e->open > e->peak ? e->open : e->peak;
    return wake_when_due(world, flight->engine);
}

/* No engine has room for it, ever; nor do those come that wait for it. */
static bool
refuse(struct replay_world *world, uint32_t number)
{
    const struct replay_request *r = &world->load->requests[number];
    const struct engine_config *c = &world->setup.engine;
    uint64_t tokens = (uint64_t)r->prompt_tokens + r->output_tokens;

    if (tokens - 1 <= (uint64_t)c->blocks_max * c->block_tokens) {
        return false;
    }
    for (; number != REPLAY_NONE; number = world->load->requests[number].next) {
        world->result.refused++;
        world->left--;
    }
    return true;
}

static bool
tells_decisions(const struct replay_world *world)
{
    const struct replay_setup *setup = &world->setup;

    return world->nodes_count > 1 &&
           (setup->policy == REPLAY_BELIEF ||
            (replay_hears_events(setup->policy) && !setup->expect_alone));
}

static int
arrive(struct replay_world *world, uint32_t number)
{
    const struct replay_request *request = &world->load->requests[number];
    struct replay_flight *flight = &world->flights[number];
    struct replay_choice choice;

    if (refuse(world, number)) {
        return 0;
    }
    flight->node = (uint32_t)rng_below(&world->rng, world->nodes_count);
    flight->arrived_us = now(world);
    world->first_us = world->result.sent++ == 0 ? now(world) : world->first_us;
    struct replay_prompt prompt = read_prompt(world, request);
    if (replay_sees_all(world->setup.policy)) {
        replay_divine(world, &prompt, request, &choice);
    } else {
        replay_node_elect(&world->nodes[flight->node], &prompt, now(world),
                          &choice);
    }
    flight->engine = choice.engine;
    flight->lease = choice.lease;
    flight->queued = prompt.tokens - choice.promised;
    if (flight->lease.taken) {
        replay_node_queue(&world->nodes[flight->node], &flight->lease,
                          flight->queued);
    }
    world->result.promised_tokens += choice.promised;
    count_mode(&world->result, &choice);
    world->rates[flight->node].sent++;
    int error = tell_peers(world, KIND_OPENED, flight);
    if (error == 0 && tells_decisions(world) && choice.known < prompt.blocks) {
        uint32_t new = prompt.blocks - choice.known;
        world->result.told_blocks += new;
        error =
            dispatch(world, now(world) + world->setup.gossip_us, KIND_BELIEF,
                     choice.engine,
                     record_new(flight->node, prompt.keys + choice.known, new));
    }
    return error == 0 ? submit(world, number) : error;
}

/* What nodes hear */

static void
apply(struct replay_world *world, uint32_t engine, const struct record *record,
      bool readers)
{
    const struct replay_engine *e = &world->engines[engine];

    for (uint32_t i = 0; i < world->nodes_count; i++) {
        if (worker_set_has(&e->readers, i) == readers) {
            replay_node_apply(&world->nodes[i], engine, record->words,
                              record->count);
        }
    }
}

/* Those who read the events tell the others. */
static int
hear_events(struct replay_world *world, const struct virtual_event *event)
{
    struct record *record = record_of(event);

    apply(world, event->who, record, true);
    if (worker_set_count(&world->engines[event->who].readers) ==
        world->nodes_count) {
        free(record);
        return 0;
    }
    return dispatch(world, now(world) + world->setup.gossip_us, KIND_GOSSIP,
                    event->who, record);
}

static void
hear_belief(struct replay_world *world, const struct virtual_event *event)
{
    struct record *record = record_of(event);

    for (uint32_t i = 0; i < world->nodes_count; i++) {
        if (i != record->node) {
            replay_node_learn(&world->nodes[i], world->root, record->words,
                              record->count, event->who, now(world));
        }
    }
    free(record);
}

static void
hear_load(struct replay_world *world, const struct virtual_event *event)
{
    for (uint32_t i = 0; i < world->nodes_count; i++) {
        if (i == event->what) {
            continue;
        }
        if (event->kind == KIND_OPENED) {
            replay_node_peer_opened(&world->nodes[i], event->who);
        } else {
            replay_node_peer_closed(&world->nodes[i], event->who);
        }
    }
}

/* Again after this long, as long as there is something to come. */
static int
repeat(struct replay_world *world, uint32_t interval_us, enum kind kind)
{
    return world->left == 0
               ? 0
               : schedule(world, now(world) + interval_us, kind, 0, 0);
}

static void
measure_rate(struct replay_world *world, struct replay_rate *rate)
{
    uint64_t passed_us = world->setup.gauge_us;
    uint64_t weighed_us = passed_us < RATE_US ? passed_us : RATE_US;
    uint64_t now_milli = rate->sent * UINT64_C(1000000000) / passed_us;

    rate->milli =
        (rate->milli * (RATE_US - weighed_us) + now_milli * weighed_us) /
        RATE_US;
    rate->sent = 0;
}

/* Each node says how much it sends, and what waits where; and sees to its
 * indexes. */
static int
tell_gauges(struct replay_world *world)
{
    uint32_t engines = world->setup.engines;

    for (uint32_t i = 0; i < world->nodes_count; i++) {
        replay_node_work(&world->nodes[i], now(world));
        measure_rate(world, &world->rates[i]);
        for (uint32_t e = 0; e < engines; e++) {
            world->told_queued[i * engines + e] =
                replay_node_queued(&world->nodes[i], e);
        }
    }
    int error = repeat(world, world->setup.gauge_us, KIND_GAUGES);
    if (error != 0 || world->nodes_count == 1) {
        return error;
    }
    return schedule(world, now(world) + world->setup.gossip_us, KIND_HEARD, 0,
                    0);
}

static void
hear_queued(struct replay_world *world, uint32_t engine)
{
    uint32_t engines = world->setup.engines;
    uint32_t all = 0;

    for (uint32_t i = 0; i < world->nodes_count; i++) {
        all += world->told_queued[i * engines + engine];
    }
    for (uint32_t i = 0; i < world->nodes_count; i++) {
        uint32_t own = world->told_queued[i * engines + engine];
        replay_node_peers_queued(&world->nodes[i], engine, all - own);
    }
}

static void
hear_gauges(struct replay_world *world)
{
    uint64_t all = 0;

    for (uint32_t e = 0; e < world->setup.engines; e++) {
        hear_queued(world, e);
    }

    for (uint32_t i = 0; i < world->nodes_count; i++) {
        all += (world->rates[i].milli + 500) / 1000;
    }
    for (uint32_t i = 0; i < world->nodes_count; i++) {
        uint64_t peers = all - (world->rates[i].milli + 500) / 1000;
        replay_node_unseen(&world->nodes[i],
                           (uint32_t)((peers * UNSEEN_MS + 500) / 1000));
    }
}

static int
read_metrics(struct replay_world *world)
{
    for (uint32_t e = 0; e < world->setup.engines; e++) {
        const struct engine_blocks *pool = &world->engines[e].engine.pool;
        uint64_t held = pool->count - pool->free_count;
        for (uint32_t i = 0; i < world->nodes_count; i++) {
            replay_node_pressure(&world->nodes[i], e,
                                 (uint32_t)(held * 1000 / pool->count));
        }
    }
    return repeat(world, world->setup.metrics_us, KIND_METRICS);
}

/* A wake that another one has taken the place of is no event at all. */
static int ON_CONTROL
wake_if_due(struct replay_world *world, const struct virtual_event *event)
{
    struct replay_engine *e = &world->engines[event->who];

    if (e->wake_us != event->time_us) {
        return 0;
    }
    e->wake_us = VIRTUAL_TIME_NEVER;
    return wake(world, event->who);
}

static int ON_CONTROL
happen(struct replay_world *world, const struct virtual_event *event)
{
    switch ((enum kind)event->kind) {
    case KIND_ARRIVE:
        return arrive(world, event->who);
    case KIND_WAKE:
        return wake_if_due(world, event);
    case KIND_EVENTS:
        return hear_events(world, event);
    case KIND_GOSSIP:
        apply(world, event->who, record_of(event), false);
        free(record_of(event));
        return 0;
    case KIND_BELIEF:
        hear_belief(world, event);
        return 0;
    case KIND_OPENED:
    case KIND_CLOSED:
        hear_load(world, event);
        return 0;
    case KIND_GAUGES:
        return tell_gauges(world);
    case KIND_HEARD:
        hear_gauges(world);
        return 0;
    case KIND_METRICS:
        break;
    }
    return read_metrics(world);
}

int
replay_world_step(struct replay_world *world)
{
    role_is_control();
    struct virtual_event event;

    if (!virtual_time_next(&world->time, VIRTUAL_TIME_NEVER, &event)) {
        return 0;
    }
    int error = happen(world, &event);
    return error < 0 ? error : 1;
}
