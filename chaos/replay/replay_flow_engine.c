/* Engines in a replay: their steps, their events, the answers they end. */
#include "chaos/replay/replay_flow_internal.h"

#include "index/base/role.h"

int
replay_engine_wake_when_due(struct replay_world *world, uint32_t engine)
{
    struct replay_engine *e = &world->engines[engine];
    uint64_t due_us = engine_deadline(&e->engine);

    if (due_us == e->wake_us || due_us == UINT64_MAX) {
        return 0;
    }
    CHECK(due_us >= replay_now(world));
    e->wake_us = due_us;
    CHECK(e->wake_us >= replay_now(world));
    return replay_schedule(world, due_us, KIND_WAKE, engine, 0);
}

/* The step that changed these has ended: its events are on their way. */
static int
publish(struct replay_world *world, uint32_t engine)
{
    struct replay_engine *e = &world->engines[engine];
    uint64_t at_us = replay_now(world) + world->setup.event_us;
    int error = 0;

    CHECK(!e->changed.failed);
    if (e->changed.count > 0 && replay_hears_events(world->setup.policy)) {
        error = replay_send(
            world, at_us, KIND_EVENTS, engine,
            replay_record_new(0, e->changed.words, e->changed.count));
    }
    e->changed.count = 0;
    CHECK(e->changed.count == 0);
    return error;
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
        if (stored || event.last) { /* of equal blocks the others go silently */
            uint64_t *to = event_words_add(&e->changed,
                                           stored ? EVENT_STORE : EVENT_REMOVE,
                                           TIER_DEVICE, 1);
            CHECK(to != NULL);
            *to = event.key;
        }
    }
    if (e->changed.count > 0 && replay_sees_all(world->setup.policy)) {
        replay_expect_confirm(world->nodes[0].expect, engine, e->changed.words,
                              e->changed.count);
    }
}

/* Its prompt is computed. */
static void
answer(struct replay_world *world, const struct engine_out *out)
{
    struct replay_flight *flight = &world->flights[out->user];
    struct replay_engine *e = &world->engines[flight->engine];

    CHECK(e->queued >= flight->queued && e->wanted >= flight->wanted);
    if (!world->setup.answers_whole) {
        if (flight->lease.taken && !flight->passed) {
            replay_node_timed(&world->nodes[flight->node], &flight->lease,
                              replay_now(world) - flight->arrived_us);
        }
        replay_node_began(&world->nodes[flight->node], &flight->lease);
    }
    e->queued -= flight->queued;
    e->wanted -= flight->wanted;
}

static void
note_times(struct replay_world *world, const struct replay_flight *flight,
           const struct engine_out *out)
{
    uint64_t at = world->result.finished - 1;
    uint64_t ttft_us = out->usage.first_us - flight->arrived_us;
    uint32_t gaps = out->usage.completion_tokens - 1;
    uint64_t itl_us = gaps > 0 ? (out->at_us - out->usage.first_us) / gaps : 0;

    const struct replay_request *request =
        &world->load->requests[flight - world->flights];
    uint64_t total = (uint64_t)request->prompt_tokens + request->output_tokens;
    unsigned pool = total > world->setup.short_len;

    CHECK(out->usage.completion_tokens > 0 && at < world->load->count);
    world->pool_us[pool][world->result.pool[pool].finished++] = ttft_us;
    world->ttft_us[at] = ttft_us;
    world->whole_us[at] = out->at_us - flight->arrived_us;
    if (gaps > 0 && flight->lease.taken && !world->setup.answers_whole) {
        replay_node_stepped(&world->nodes[flight->node], &flight->lease,
                            flight->load, itl_us);
    }
    if (gaps > 0) {
        world->itl_us[world->itl_count++] = itl_us;
    }
    world->fleet.answers++;
    world->fleet.late += ttft_us > world->setup.slo_ttft_ms * UINT64_C(1000);
    if (world->side_us != NULL) {
        struct replay_result *result = &world->result;
        struct replay_side *side =
            flight->crossed ? &result->across : &result->inside;
        side->finished++;
        side->prompt_tokens += out->usage.prompt_tokens;
        side->cached_tokens += out->usage.cached_tokens;
        world->side_us[flight->crossed ? world->load->count - side->finished
                                       : side->finished - 1] = ttft_us;
    }
    world->result.within_slo +=
        ttft_us <= world->setup.slo_ttft_ms * UINT64_C(1000) &&
        itl_us <= world->setup.slo_itl_ms * UINT64_C(1000);
}

/* A split request's prompt is computed: it is on its way to the next engine. */
static int
pass_on(struct replay_world *world, const struct engine_out *out)
{
    uint32_t number = (uint32_t)out->user;
    struct replay_flight *flight = &world->flights[number];
    struct replay_engine *e = &world->engines[flight->engine];

    CHECK(e->open > 0 && !flight->passed);
    e->open--;
    e->computed += out->usage.prompt_tokens - out->usage.cached_tokens;
    flight->cached = out->usage.cached_tokens;
    replay_node_leave(&world->nodes[flight->node], &flight->lease);
    int error = replay_tell_peers(world, KIND_CLOSED, flight);
    return error != 0 ? error
                      : replay_schedule(world,
                                        replay_now(world) +
                                            replay_transfer_us(world, number),
                                        KIND_PASSED, number, 0);
}

static int
finish(struct replay_world *world, const struct engine_out *out)
{
    uint32_t number = (uint32_t)out->user;
    struct replay_flight *flight = &world->flights[number];
    const struct replay_request *request = &world->load->requests[number];
    struct replay_result *result = &world->result;
    struct replay_engine *e = &world->engines[flight->engine];

    CHECK(out->usage.first_us >= flight->arrived_us);
    CHECK(out->usage.cached_tokens < out->usage.prompt_tokens);
    CHECK(e->open > 0 && world->left > 0);
    result->finished++;
    CHECK(result->finished <= result->sent);
    result->prompt_tokens += out->usage.prompt_tokens;
    result->cached_tokens +=
        flight->split ? flight->cached : out->usage.cached_tokens;
    result->output_tokens += out->usage.completion_tokens;
    e->computed += out->usage.prompt_tokens - out->usage.cached_tokens +
                   out->usage.completion_tokens;
    e->open--;
    world->last_us = out->at_us;
    world->left--;
    note_times(world, flight, out);
    replay_node_leave(&world->nodes[flight->node], &flight->lease);
    int error = replay_tell_peers(world, KIND_CLOSED, flight);
    if (error == 0 && world->setup.sequential) {
        return replay_next_in_sequence(world, number);
    }
    if (error != 0 || request->next == REPLAY_NONE) {
        return error;
    }
    uint64_t pause_us = world->load->requests[request->next].at_us;
    return replay_schedule(world, replay_now(world) + pause_us, KIND_ARRIVE,
                           request->next, 0);
}

static int ON_CONTROL
wake(struct replay_world *world, uint32_t engine)
{
    struct replay_engine *e = &world->engines[engine];
    struct engine_out out;
    int error = publish(world, engine);

    engine_tick(&e->engine, replay_now(world));
    if (e->engine.stepping) {
        e->busy_us += e->engine.wake_us - replay_now(world);
    }
    while (error == 0 && engine_next_out(&e->engine, &out)) {
        CHECK(out.at_us == replay_now(world));
        if (out.kind == ENGINE_OUT_FIRST) {
            answer(world, &out);
        } else if (out.kind == ENGINE_OUT_END) {
            const struct replay_flight *flight = &world->flights[out.user];
            error = flight->split && !flight->passed ? pass_on(world, &out)
                                                     : finish(world, &out);
        }
    }
    note_changes(world, engine);
    return error == 0 ? replay_engine_wake_when_due(world, engine) : error;
}

/* A wake that another one has taken the place of is no event at all. */
int ON_CONTROL
replay_engine_wake(struct replay_world *world,
                   const struct virtual_event *event)
{
    struct replay_engine *e = &world->engines[event->who];

    if (e->wake_us != event->time_us) {
        return 0;
    }
    e->wake_us = VIRTUAL_TIME_NEVER;
    return wake(world, event->who);
}
