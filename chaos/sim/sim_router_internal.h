/*
 * What a simulated node needs to route requests: the cores of the request path
 * (fleet with breakers, belief, expectations, hints, the lookup and the
 * election, dispatch) and, around them, what lanes and control do: probes of
 * engines, the ring of facts, the board's clock. sim_request_internal.h has the
 * requests.
 *
 * Imitated, because shells own it: control.c's on_look(), probe.c's HTTP.
 *
 * Role: core, private to the simulator. Thread: one owner.
 */
#ifndef CHAOS_SIM_ROUTER_INTERNAL_H
#define CHAOS_SIM_ROUTER_INTERNAL_H

#include "chaos/sim/sim_world_internal.h"

#define SIM_BELIEF_BYTES   ((size_t)4 << 20)
#define SIM_EXPECTED_BYTES ((size_t)1 << 20)
#define SIM_UNPROVEN_BYTES ((size_t)1 << 20)

struct sim_router {
    struct fleet *fleet;
    struct fleet_board *board;
    struct radix *belief;
    struct expectations *expectations;
    struct hints hints;
    struct elect_config elect;
    struct route_scratch scratch;
    struct dispatch_lane dispatch;
    struct metrics_lane metrics;
    struct gauge rank_inflight[WORKERS_MAX];
    struct gauge rank_peers[WORKERS_MAX];
    struct ingest_slots slots;
    struct fact_sink sink;
    struct unproven unproven;
    struct ring facts;
    struct rng rng;        /* the lane's */
    struct sim_desk *desk; /* sim_tenants_internal.h; NULL: none */
    struct qsbr_reader *reader;
    uint64_t armed_us;
    bool facts_armed;
    bool looking;
};

/* Makes what a starting node routes by; nothing in a world without requests. */
void sim_router_start(struct sim_world *w, uint32_t node);
/* Frees what sim_router_start() made. */
void sim_router_end(struct sim_world *w, uint32_t node);

/* Call it after anything that may have changed gossip. True: the node told its
 * own gauges, so outputs wait. */
bool sim_router_look(struct sim_world *w, uint32_t node);

/* Background work; the mirror writer may have published a view. */
void sim_router_work(struct sim_world *w, uint32_t node);

/* SIM_EV_ROUTER, SIM_EV_FACTS, SIM_EV_PROBE of a node that runs. */
void sim_router_event(struct sim_world *w, const struct virtual_event *event);

/* The node's clock jumped. */
void sim_router_jump(struct sim_world *w, uint32_t node);

/* The state that routing reads now. */
struct route_world sim_router_world(struct sim_world *w, uint32_t node);

/* A lane may have written facts: control takes them a little later. */
void sim_router_told(struct sim_world *w, uint32_t node);

/* The first broken invariant of the cores; NULL: none. */
const char *sim_router_check(struct sim_world *w, uint32_t node);

/* Why the node is not at rest; NULL: it is. */
const char *sim_router_quiet(struct sim_world *w, uint32_t node);

#endif
