/* The events of a replay in their order, and the messages in transit. */
#include "chaos/replay/replay_flow_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/role.h"

/* After this long all have heard of the end of a sequential request. */
#define SETTLE_US UINT64_C(10000)

bool
replay_knows_events(const struct replay_world *world)
{
    return replay_hears_events(world->setup.policy) ||
           replay_sees_all(world->setup.policy);
}

int
replay_schedule(struct replay_world *world, uint64_t at_us,
                enum replay_kind kind, uint32_t who, uint64_t what)
{
    struct virtual_event event = {
        .time_us = at_us, .kind = kind, .who = who, .what = what};
    int outcome = virtual_time_add(&world->time, &event);

    CHECK(at_us >= replay_now(world));
    return outcome == 0 ? 0 : -ENOMEM;
}

/*
 * When a request comes that would at an even rate come at that time. Rates swing
 * as 1 - a cos(2 pi t / T), so up to t the part t - a T / (2 pi) sin(2 pi t / T)
 * has come; that is solved for t by halving.
 */
static uint64_t
waved(const struct replay_setup *setup, uint64_t at_us)
{
    const double round = 6.283185307179586;
    double wave = (double)setup->wave_us;
    double depth = wave * setup->swing_permille / 1000 / round;
    double low = 0;
    double high = (double)at_us + depth;

    if (setup->wave_us == 0) {
        return at_us;
    }
    low = (double)at_us > depth ? (double)at_us - depth : 0;
    for (unsigned i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        double come = middle - depth * sin(round * middle / wave);
        if (come < (double)at_us) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return (uint64_t)high;
}

uint64_t
replay_arrival_us(const struct replay_setup *setup, uint64_t at_us)
{
    return waved(setup, at_us * 1000 / setup->load_permille);
}

int
replay_flow_begin(struct replay_world *world)
{
    const struct replay_setup *setup = &world->setup;
    int error = 0;

    CHECK(world->time.count == 0 && world->left == world->load->count);
    for (uint32_t i = 0;
         i < world->load->count && error == 0 && !setup->sequential; i++) {
        const struct replay_request *r = &world->load->requests[i];
        if (r->after == REPLAY_NONE) {
            error = replay_schedule(world, replay_arrival_us(setup, r->at_us),
                                    KIND_ARRIVE, i, 0);
        }
    }
    if (setup->sequential) {
        error = replay_schedule(world, 0, KIND_ARRIVE, 0, 0);
    }
    if (error == 0) {
        error = replay_schedule(world, setup->gauge_us, KIND_GAUGES, 0, 0);
    }
    if (error == 0) {
        error = replay_schedule(world, setup->metrics_us, KIND_METRICS, 0, 0);
    }
    if (error == 0 && setup->scaler != REPLAY_SCALE_FIXED) {
        error = replay_schedule(world, REPLAY_SCALE_US, KIND_SCALE, 0, 0);
    }
    return error;
}

int
replay_next_in_sequence(struct replay_world *world, uint32_t number)
{
    CHECK(number < world->load->count);
    if (!world->setup.sequential || number + 1 == world->load->count) {
        return 0;
    }
    return replay_schedule(world, replay_now(world) + SETTLE_US, KIND_ARRIVE,
                           number + 1, 0);
}

struct replay_record *
replay_record_of(const struct virtual_event *event)
{
    return (struct replay_record *)(uintptr_t)event->what;
}

struct replay_record *
replay_record_blank(uint32_t node, uint32_t count)
{
    struct replay_record *record =
        calloc(1, sizeof(*record) + count * sizeof(*record->words));

    CHECK(count > 0);
    if (record != NULL) {
        record->node = node;
        record->count = count;
    }
    return record;
}

struct replay_record *
replay_record_new(uint32_t node, const uint64_t *words, uint32_t count)
{
    struct replay_record *record =
        malloc(sizeof(*record) + count * sizeof(*record->words));

    CHECK(count > 0);
    if (record != NULL) {
        *record = (struct replay_record){.node = node, .count = count};
        memcpy(record->words, words, count * sizeof(*words));
    }
    return record;
}

/* Passes on a copy of the words, if any node receives them. */
int
replay_send(struct replay_world *world, uint64_t at_us, enum replay_kind kind,
            uint32_t who, struct replay_record *record)
{
    if (record == NULL) {
        return -ENOMEM;
    }
    int error = replay_schedule(world, at_us, kind, who, (uintptr_t)record);
    if (error != 0) {
        free(record);
    }
    return error;
}

/* Peers hear of a request that was sent, or has ended. */
int
replay_tell_peers(struct replay_world *world, enum replay_kind kind,
                  const struct replay_flight *flight)
{
    if (world->nodes_count == 1) {
        return 0;
    }
    return replay_schedule(world, replay_now(world) + world->setup.gossip_us,
                           kind, flight->engine, flight->node);
}

void
replay_flow_drop(struct replay_world *world)
{
    struct virtual_event event;

    while (virtual_time_next(&world->time, VIRTUAL_TIME_NEVER, &event)) {
        if (event.kind == KIND_EVENTS || event.kind == KIND_GOSSIP ||
            event.kind == KIND_BELIEF || event.kind == KIND_DECIDED ||
            event.kind == KIND_QUEUED) {
            free(replay_record_of(&event));
        }
    }
}

static int ON_CONTROL
happen(struct replay_world *world, const struct virtual_event *event)
{
    switch ((enum replay_kind)event->kind) {
    case KIND_ARRIVE:
        return replay_arrive(world, event->who);
    case KIND_MOMENT:
        return replay_elect(world, event->who);
    case KIND_PASSED:
        return replay_pass(world, event->who);
    case KIND_WAKE:
        return replay_engine_wake(world, event);
    case KIND_EVENTS:
        return replay_hear_events(world, event);
    case KIND_GOSSIP:
        replay_hear_record(world, event->who, replay_record_of(event), false);
        free(replay_record_of(event));
        return 0;
    case KIND_BELIEF:
    case KIND_DECIDED:
        replay_hear_belief(world, event);
        return 0;
    case KIND_OPENED:
    case KIND_CLOSED:
        replay_hear_load(world, event);
        return 0;
    case KIND_GAUGES:
        return replay_tell_gauges(world);
    case KIND_HEARD:
        replay_hear_gauges(world);
        return 0;
    case KIND_SOON:
        return replay_tell_queued(world, event->who);
    case KIND_QUEUED:
        replay_hear_queued(world, event);
        return 0;
    case KIND_SCALE:
        return replay_scale_look(world);
    case KIND_COMES:
        replay_scale_comes(world, event->who);
        return 0;
    case KIND_REACHED:
        return replay_reach(world, event->who);
    case KIND_METRICS:
        break;
    }
    return replay_read_metrics(world);
}

int
replay_world_step(struct replay_world *world)
{
    CHECK(world->result.finished + world->result.refused + world->left ==
          world->load->count);
    role_is_control();
    struct virtual_event event;

    if (!virtual_time_next(&world->time, VIRTUAL_TIME_NEVER, &event)) {
        return 0;
    }
    int error = happen(world, &event);
    return error < 0 ? error : 1;
}
