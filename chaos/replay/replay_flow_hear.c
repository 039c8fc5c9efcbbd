/* What nodes hear in a replay: events, decisions, loads, gauges. */
#include "chaos/replay/replay_flow_internal.h"

#include <stdlib.h>
#include <string.h>

/* As node/peers/hints.c has them. */
#define RATE_US   UINT64_C(500000)
#define UNSEEN_MS 8U

void
replay_hear_record(struct replay_world *world, uint32_t engine,
                   const struct replay_record *record, bool readers)
{
    const struct replay_engine *e = &world->engines[engine];

    CHECK(engine < world->setup.engines && record->count > 0);
    bool whole = replay_heard_apply(&world->heard, engine, record->words,
                                    record->count, readers);
    for (uint32_t i = 0; i < world->nodes_count; i++) {
        if (worker_set_has(&e->readers, i) == readers) {
            replay_node_confirm(&world->nodes[i], engine, record->words,
                                record->count);
            world->nodes[i].lost += !whole;
        }
    }
}

/* The nodes that read the events tell the others. */
int
replay_hear_events(struct replay_world *world,
                   const struct virtual_event *event)
{
    struct replay_record *record = replay_record_of(event);

    CHECK(record->count > 0 && event->who < world->setup.engines);
    replay_hear_record(world, event->who, record, true);
    if (worker_set_count(&world->engines[event->who].readers) ==
        world->nodes_count) {
        free(record);
        return 0;
    }
    return replay_send(world, replay_now(world) + world->setup.gossip_us,
                       KIND_GOSSIP, event->who, record);
}

void
replay_hear_belief(struct replay_world *world,
                   const struct virtual_event *event)
{
    struct replay_record *record = replay_record_of(event);

    CHECK(record->node < world->nodes_count);
    for (uint32_t i = 0; i < world->nodes_count; i++) {
        if (i != record->node && event->kind == KIND_DECIDED) {
            replay_node_decide(&world->nodes[i], record->words, record->count,
                               event->who, replay_now(world));
        } else if (i != record->node) {
            struct replay_part part = {.keys = record->words,
                                       .depth = record->depth,
                                       .count = record->count};
            replay_node_learn(&world->nodes[i], world->root, part, event->who,
                              replay_now(world));
        }
    }
    free(record);
}

void
replay_hear_load(struct replay_world *world, const struct virtual_event *event)
{
    CHECK(event->what < world->nodes_count && world->nodes_count > 1);
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
repeat(struct replay_world *world, uint32_t interval_us, enum replay_kind kind)
{
    return world->left == 0
               ? 0
               : replay_schedule(world, replay_now(world) + interval_us, kind,
                                 0, 0);
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

/* A record has two engines in a word. */
int
replay_tell_queued(struct replay_world *world, uint32_t node)
{
    uint32_t engines = world->setup.engines;
    uint32_t *told = world->told_queued + (size_t)node * engines;
    bool changed = false;

    CHECK(node < world->nodes_count && world->nodes_count > 1);
    world->rates[node].soon = false;
    world->rates[node].told_us = replay_now(world);
    for (uint32_t e = 0; e < engines; e++) {
        uint32_t queued = replay_node_queued(&world->nodes[node], e);
        changed |= queued != told[e];
        told[e] = queued;
    }
    if (!changed) {
        return 0;
    }
    struct replay_record *record = replay_record_blank(node, (engines + 1) / 2);
    if (record != NULL) {
        memcpy(record->words, told, engines * sizeof(*told));
    }
    return replay_send(world, replay_now(world) + world->setup.gossip_us,
                       KIND_QUEUED, node, record);
}

int
replay_tell_soon(struct replay_world *world, uint32_t node, uint32_t engine)
{
    struct replay_rate *rate = &world->rates[node];
    uint32_t told = world->told_queued[node * world->setup.engines + engine];
    uint64_t at_us = rate->told_us + HINTS_SOON_US;

    if (world->nodes_count == 1 || rate->soon ||
        replay_node_queued(&world->nodes[node], engine) <
            told + HINTS_SOON_TOKENS) {
        return 0;
    }
    rate->soon = true;
    return replay_schedule(
        world, at_us > replay_now(world) ? at_us : replay_now(world), KIND_SOON,
        node, 0);
}

/* Each node reports how much it sends and what waits at each engine, and
 * maintains its indexes. */
int
replay_tell_gauges(struct replay_world *world)
{
    int error = repeat(world, world->setup.gauge_us, KIND_GAUGES);

    replay_heard_work(&world->heard);
    for (uint32_t i = 0; i < world->nodes_count && error == 0; i++) {
        replay_node_work(&world->nodes[i], replay_now(world));
        measure_rate(world, &world->rates[i]);
        if (world->nodes_count > 1) {
            error = replay_tell_queued(world, i);
        }
    }
    if (error != 0 || world->nodes_count == 1) {
        return error;
    }
    return replay_schedule(world, replay_now(world) + world->setup.gossip_us,
                           KIND_HEARD, 0, 0);
}

/* What waits for one node's requests changes what its peers know of. */
void
replay_hear_queued(struct replay_world *world,
                   const struct virtual_event *event)
{
    struct replay_record *record = replay_record_of(event);
    uint32_t engines = world->setup.engines;
    uint32_t *heard = world->heard_queued + (size_t)record->node * engines;

    CHECK(record->count == (engines + 1) / 2);
    memcpy(heard, record->words, engines * sizeof(*heard));
    for (uint32_t e = 0; e < engines; e++) {
        uint32_t all = 0;
        for (uint32_t i = 0; i < world->nodes_count; i++) {
            all += world->heard_queued[i * engines + e];
        }
        for (uint32_t i = 0; i < world->nodes_count; i++) {
            uint32_t own = world->heard_queued[i * engines + e];
            CHECK(own <= all);
            replay_node_peers_queued(&world->nodes[i], e, all - own,
                                     replay_now(world));
        }
    }
    free(record);
}

void
replay_hear_gauges(struct replay_world *world)
{
    uint64_t all = 0;

    for (uint32_t i = 0; i < world->nodes_count; i++) {
        all += (world->rates[i].milli + 500) / 1000;
    }
    for (uint32_t i = 0; i < world->nodes_count; i++) {
        uint64_t peers = all - (world->rates[i].milli + 500) / 1000;
        CHECK(peers <= all);
        replay_node_unseen(&world->nodes[i],
                           (uint32_t)((peers * UNSEEN_MS + 500) / 1000));
    }
}

int
replay_read_metrics(struct replay_world *world)
{
    for (uint32_t e = 0; e < world->setup.engines; e++) {
        const struct engine_blocks *pool = &world->engines[e].engine.pool;
        uint64_t held = pool->count - pool->free_count;
        for (uint32_t i = 0; i < world->nodes_count; i++) {
            replay_node_pressure(&world->nodes[i], e,
                                 (uint32_t)(held * 1000 / pool->count));
        }
    }
    for (uint32_t i = 0; i < world->nodes_count && !world->setup.same_speed;
         i++) {
        replay_node_speed(&world->nodes[i], world->nodes, world->nodes_count,
                          replay_now(world));
    }
    return repeat(world, world->setup.metrics_us, KIND_METRICS);
}
