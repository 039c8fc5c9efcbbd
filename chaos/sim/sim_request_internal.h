/*
 * Requests: clients send them to nodes, nodes to engines, and engines answer or
 * fail.
 *
 * A client tries the addresses of the name, in a new order for each request
 * (load_targets.h). It goes on to the next one if nobody took its request:
 * there was no connection, or it ended before the first byte of an answer. A
 * node does with a request what dispatch.h decides, as a lane does; it elects
 * by sim_router_internal.h. A request ends once, at the client: it is answered,
 * or it fails for a reason.
 *
 * Between client and node nothing is lost. A paused node accepts connections
 * and is silent; a node that is down refuses them.
 *
 * Role: core, private to the simulator. Thread: one owner. Limits:
 * SIM_FLIGHTS_MAX at one time; further ones do not come.
 */
#ifndef CHAOS_SIM_REQUEST_INTERNAL_H
#define CHAOS_SIM_REQUEST_INTERNAL_H

#include "chaos/load/load_targets.h"
#include "chaos/sim/sim_world_internal.h"

#define SIM_FLIGHTS_MAX 256U
#define SIM_TRIES_MAX   4U /* most nodes that a client tries */

struct sim_flight {
    bool wanted; /* a client waits */
    bool open;   /* a node has the request */
    uint64_t stamp;
    uint64_t number;

    /* The client's. */
    struct sim_prompt prompt;
    uint32_t tries;
    uint64_t tried[SIM_TRIES_MAX];
    uint64_t target;
    uint32_t node;
    bool headed;          /* the client got the head of an answer */
    bool probe;           /* at quiet: must be answered, and as predicted */
    uint32_t patience_us; /* after this time the client hangs up */
    uint32_t tenant;      /* sim_tenants_internal.h; 0: none */
    uint32_t tokens;      /* the same: what it costs in the queue */
    bool flood;           /* part of the exam */
    bool streams;         /* sim_streams_internal.h */

    /* The node's. */
    uint64_t life;
    struct dispatch dispatch;
    uint32_t failed_at; /* bits of engines */
    uint64_t due_us;    /* on the node's clock */
    bool elsewhere;     /* it runs at another worker than it had a place at */
    struct {            /* for a worker with room, as waiting.c has it */
        uint64_t id;    /* 0: it does not */
        uint64_t deadline_us;
        uint64_t since_us;
        bool told;
        struct wait_told what;
        bool placed;
        uint32_t place;
    } wait;

    /* The engine's. */
    bool running;
    uint32_t engine;
    uint32_t process;
    uint64_t ticket;
    uint64_t came_us; /* when its last message arrives */
    bool breaks;      /* the connection breaks after the first token */
    bool mute;        /* sends nothing */
    struct engine_usage usage;
};

struct sim_requests {
    struct rng rng; /* for all of this except faults */
    uint32_t balance_abs;
    uint32_t gauge_ms;
    uint32_t every_ms;
    uint32_t sick_permille;
    struct load_targets targets;
    uint64_t sent;
    uint64_t answered;
    uint64_t failed;
    uint64_t full_us; /* when an engine last had no room */
    uint64_t probes;  /* answered ones */
    struct sim_flight flights[SIM_FLIGHTS_MAX];
};

/* Draws whether there are requests, and begins them. */
void sim_request_begin(struct sim_world *w);
/* Frees everything. */
void sim_request_end(struct sim_world *w);

/* SIM_EV_CLIENT, SIM_EV_FLIGHT. */
void sim_request_event(struct sim_world *w, const struct virtual_event *event);

/* An engine's output about one of our requests; others are ignored. */
void sim_request_out(struct sim_world *w, uint32_t engine,
                     const struct engine_out *out);

/* An engine's process is gone. */
void sim_request_engine_gone(struct sim_world *w, uint32_t engine);
/* A node's process is gone: its clients' connections end. */
void sim_request_node_gone(struct sim_world *w, uint32_t node);

/* The node's clock jumped. */
void sim_request_jump(struct sim_world *w, uint32_t node);

/* The counts that a node should have for an engine. */
struct sim_request_sums {
    uint32_t open;
    uint32_t queued_tokens;
    uint32_t trials;
    uint32_t elsewhere; /* of those open */
};

/* Computes these counts from the open requests. */
struct sim_request_sums sim_request_sums(const struct sim_world *w,
                                         uint32_t node, uint32_t engine);

/* NULL: each request has ended, and every node is at rest; otherwise the
 * reason. */
const char *sim_request_quiet(struct sim_world *w);

/* At quiet: sends a request through a node. It must be answered, and the engine
 * must find what the node predicted, if nothing was lost for good. */
void sim_request_probe(struct sim_world *w, uint32_t node);

#endif
