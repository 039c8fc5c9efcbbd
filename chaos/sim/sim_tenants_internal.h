/*
 * Tenants: clients that ask for more than their limit, and requests that wait
 * for workers with few places. A node's desk is what control has for both
 * (control_limits.h, control_queue.h), run as control runs it, over the node's
 * own hints, board and facts; what stands before it is imitated: a lane's gate
 * and its table of who waits.
 *
 * Limits (SIM_LIMIT). One tenant asks at all nodes, unevenly, for three times
 * its limit: requests or tokens in a window of 4 s, or requests open at once.
 * Whoever is let through is counted beside the code under test. Nodes that have
 * been in touch with each other for a window and SIM_TOUCH_US are one side; all
 * sides together may let through so many times the limit and a tenth. A node that starts, stands
 * still, or whose clock jumps is a side of its own for as long. What a node let
 * through after its last word dies with it: nobody can count it.
 *
 * The queue (SIM_QUEUE). Workers have few places, and requests have tenants
 * with weights and classes, tokens and deadlines.
 *
 * The exam. Once all is quiet, both are asked without excuse: there is one
 * side, of which a node is killed; and a node is flooded by three tenants, whose
 * shares are those of their weights and classes.
 *
 * Role: core, private to the simulator. Thread: one owner. Limits:
 * SIM_TAKES_MAX let through in a window.
 */
#ifndef CHAOS_SIM_TENANTS_INTERNAL_H
#define CHAOS_SIM_TENANTS_INTERNAL_H

#include "chaos/sim/sim_flight_internal.h"
#include "index/base/role.h"
#include "node/node.h"

#define SIM_TENANTS   4U /* slot 0 has no requests; 3 is of a later class */
#define SIM_WINDOW_MS 4000U
#define SIM_TOUCH_US  UINT64_C(1500000) /* until words are heard for sure */
#define SIM_TAKES_MAX 4096U
#define SIM_OPEN_MAX  1024U

/* SIM_EV_TENANT: who, unless it is one that is open */
#define SIM_TENANT_ASKS   UINT32_C(0x10000)
#define SIM_TENANT_FLOODS UINT32_C(0x10001)
#define SIM_TOKENS_MAX    2000U /* that a request of the queue costs */

/* Of a node. */
struct sim_desk {
    struct node_shared shared; /* as far as limits and queue read it */
    struct lane_shared lane;
    struct speed speed; /* nothing learned */
    struct control_limits limits;
    struct control_queue queue;
    uint64_t armed_us;
    uint64_t disturbed_us; /* when the node's time was last not even */
};

/* Something that was let through. */
struct sim_take {
    uint64_t at_us;
    uint64_t cost;
    uint32_t node;
};

struct sim_open {
    uint64_t cost; /* 0: free */
    uint64_t at_us;
    struct sim_take *take; /* of that moment, unless it is over */
    uint32_t node;
    uint64_t life;
};

struct sim_tenants {
    struct rng rng;
    struct config config; /* of all nodes */
    struct keys *keys;    /* the same */

    /* Limits; limit 0: none. */
    enum limits_of of;
    uint32_t limit;
    uint32_t every_us; /* of asking */
    uint32_t weight[SIM_NODES_MAX];
    uint64_t moves_us;
    uint64_t end_us; /* of asking */
    struct sim_take take[SIM_TAKES_MAX];
    uint32_t take_first;
    uint32_t take_count;
    uint64_t taken; /* in the window that ends now */
    uint64_t most_cost;
    struct sim_open open[SIM_OPEN_MAX];
    uint64_t open_cost;
    uint64_t most_open;
    uint64_t apart_us[SIM_NODES_MAX][SIM_NODES_MAX]; /* when they last were */
    uint64_t alone_us[2 * SIM_NODES_MAX]; /* the latest starts and jumps */
    uint32_t alone_next;

    /* The queue; places 0: none. */
    uint32_t places;
    uint64_t wait_us; /* a deadline */
    uint32_t flooded; /* the node; UINT32_MAX: none */
    uint64_t served[SIM_TENANTS];
};

/* sim_tenants.c */

/* Draws whether there are any. */
void sim_tenants_begin(struct sim_world *w);
/* Frees everything. */
void sim_tenants_end(struct sim_world *w);
/* SIM_EV_DESK, SIM_EV_TENANT. */
void sim_tenants_event(struct sim_world *w, const struct virtual_event *event);
/* At quiet: the exam. */
void sim_tenants_exam(struct sim_world *w);

/* Makes a starting node's desk; nothing in a world without tenants. */
void sim_desk_start(struct sim_world *w, uint32_t node);
void sim_desk_end(struct sim_world *w, uint32_t node);
/* As control looks after each turn; told: the node told its gauges. */
void sim_desk_look(struct sim_world *w, uint32_t node, bool told);
/* Its clock jumped, or it stood still. */
void sim_desk_disturbed(struct sim_world *w, uint32_t node);
/* Takes a lane's fact. */
void sim_desk_take(struct sim_world *w, uint32_t node, const void *record)
    ON_CONTROL;
/* The first broken invariant; NULL: none. */
const char *sim_desk_check(struct sim_world *w, uint32_t node);
/* Why it is not at rest; NULL: it is. */
const char *sim_desk_quiet(const struct sim_world *w, uint32_t node);

/* sim_limits.c */

void sim_limits_draw(struct sim_world *w);
/* Somebody asks, or a request ends. */
void sim_limits_ask(struct sim_world *w);
void sim_limits_settle(struct sim_world *w, uint32_t at);
void sim_limits_node_gone(struct sim_world *w, uint32_t node);
/* The node is a side of its own for a while, and may have been one before. */
void sim_limits_alone(struct sim_world *w, uint32_t node);
/* At the end of the exam: enough was let through. */
void sim_limits_judge_least(struct sim_world *w);

/* sim_wait.c */

/* The request must wait: as waiting.c does. */
void sim_wait_begin(struct sim_world *w, struct sim_flight *f);
/* It has its place, or is gone. */
void sim_wait_end(struct sim_world *w, struct sim_flight *f);
/* Control has told what becomes of it. */
void sim_wait_told(struct sim_world *w, struct sim_flight *f);
/* The lane's own time-out. */
void sim_wait_due(struct sim_world *w, struct sim_flight *f);
/* What control tells goes on its way. */
void sim_wait_pull(struct sim_world *w, uint32_t node);
/* How many of a node's requests are in its queue. */
uint32_t sim_wait_count(const struct sim_world *w, uint32_t node);
/* Floods a node until then, and judges the shares. */
void sim_wait_flood(struct sim_world *w, uint32_t node, uint64_t until_us);
void sim_wait_flood_more(struct sim_world *w, uint64_t until_us);
void sim_wait_judge(struct sim_world *w);

#endif
