/*
 * Engines that are asked for and given back (SIM_SCALE).
 *
 * Each node has its seat (scale_seat.h) and does what control does with it; how
 * many engines there should be is drawn, and changes. What makes engines and ends
 * them is imitated: calls and answers take time, and some are lost; some
 * engines never tell where they are; in half of the worlds a call of a lower
 * epoch than was seen is refused. In a third of them engines are pods of a
 * StatefulSet (scale_pods.h): a call reads it, then sets it, where nobody did so in
 * between. In half of the others there are two pools (scale_pool.h), and in half of
 * these the cheaper one delivers nothing, ever. These engines serve no requests.
 *
 * What must hold. One node acts at most, looked at in each turn of each. No
 * engine is asked for that fewer than a quorum know of (but for nodes that have
 * just started). None ends that some node has seen and has not seen drain (but
 * for nodes that started since, or that the caller has forgotten: after ten
 * minutes, or a jump of its clock). None is left without a job, unless all nodes
 * that knew it went. Nodes reach some engines and not others, which changes.
 *
 * The exam, once all is quiet: three engines are wanted. Each is reached by one
 * node alone, and none ends; then one is reached by none, and another one comes in
 * its place. Then one is wanted, while the node that acts is killed; that many
 * there are. An operator drains that one: it ends, and another one comes.
 *
 * Then, in a third of the runs, the rule (scale.h) says how many, on each node
 * by what it measures of a load that swings about a number (sim_scale_rule.c).
 * As many come as it takes, though the node that acts dies meanwhile. From then
 * on none comes and none goes: while nothing changes, while another node takes
 * over, while two islands of nodes and engines are cut from each other for a
 * moment. Where they are for longer than that, the side that acts has others
 * instead of those that it does not reach; once they are together as many are
 * left as are wanted, and again none comes or goes.
 *
 * Role: core, private to the simulator. Thread: one owner. Limits: SIM_MADE_MAX
 * engines in a run; further ones are not asked for.
 */
#ifndef CHAOS_SIM_SCALE_INTERNAL_H
#define CHAOS_SIM_SCALE_INTERNAL_H

#include "chaos/sim/sim_world_internal.h"
#include "node/node.h"

#define SIM_MADE_MAX       160U
#define SIM_SCALE_CALLS    64U
#define SIM_SCALE_LEASE_US 1500000U
#define SIM_PROVISION_MS   UINT64_C(3000)

/* An engine, or a key that was ended before it was made. */
struct sim_made {
    char key[SCALE_KEY_MAX];
    bool runs;
    bool lost;         /* nobody who knew it is left */
    uint64_t there_us; /* it tells where it is from then on */
    uint32_t blind;    /* bits of the nodes that do not reach it */
    uint32_t number;   /* of a pod */
    uint32_t ended;    /* how often */
};

struct sim_scale_call {
    char key[SCALE_KEY_MAX];
    bool used;
    bool provision;
    bool barren;   /* it is about a pool that delivers nothing */
    bool answered; /* on its way back */
    bool well;
    bool named;
    uint32_t node;
    uint64_t life;
    uint32_t epoch;
    uint64_t begun_us;
    /* Of pods: */
    bool put; /* what it read is to be set */
    uint32_t number;
    uint32_t replicas;
    uint32_t version;
    uint32_t known; /* bits of the nodes that the caller knows of */
};

struct sim_scale {
    struct rng rng;
    bool compares; /* epochs */
    uint32_t pools;
    bool barren; /* the first, which is the cheaper one, delivers nothing */
    bool pods;   /* engines are pods of a StatefulSet */
    uint32_t replicas;
    uint32_t version;
    bool exam;
    uint32_t epoch; /* the highest that called */
    uint32_t desired;
    uint64_t moves_us;
    uint64_t sees_us; /* who reaches what changes then */
    uint32_t made_count;
    struct sim_made made[SIM_MADE_MAX];
    struct sim_scale_call call[SIM_SCALE_CALLS];
    uint64_t turned_us[SIM_NODES_MAX];
    struct scale_seat seat[SIM_NODES_MAX];
    struct sim_rule {
        struct rng rng; /* of its own: nothing else is drawn otherwise */
        bool examined;
        bool on;       /* it says how many there are */
        uint32_t load; /* requests, give or take a few */
        uint32_t made; /* engines, in all */
        uint32_t over; /* that were ended */
        struct scale_group group[SIM_NODES_MAX];
    } rule;
};

/* Draws whether there are any. */
void sim_scale_begin(struct sim_world *w);
void sim_scale_end(struct sim_world *w);
/* A node begins; it ends. */
void sim_scale_node_start(struct sim_world *w, uint32_t node);
void sim_scale_node_gone(struct sim_world *w, uint32_t node);
/* Call it often: its turn, when it is time. */
void sim_scale_turn(struct sim_world *w, uint32_t node);
/* SIM_EV_SCALE: a call or an answer arrives. */
void sim_scale_event(struct sim_world *w, const struct virtual_event *event);
/* At quiet: the exam. */
void sim_scale_exam(struct sim_world *w);

/* The engine of that key; NULL: there never was one. One is made, new or again, or
 * is known to have ended. It ends, by a call. */
struct sim_made *sim_scale_find(struct sim_scale *s, const char *key);
struct sim_made *sim_scale_make(struct sim_world *w, const char *key,
                                bool runs);
void sim_scale_end_engine(struct sim_world *w, struct sim_made *made,
                          const struct sim_scale_call *c);

/* At quiet: NULL where as many engines as are wanted run and work, and no
 * other; else what is not so. */
const char *sim_scale_judge(struct sim_world *w);

/* sim_scale_rule.c. A node's memory is gone. It looks, in each of its turns
 * while the rule is on. */
void sim_rule_begin(struct sim_scale *s, uint64_t seed);
void sim_rule_forget(struct sim_scale *s, uint32_t node);
void sim_rule_look(struct sim_world *w, uint32_t node);
void sim_rule_exam(struct sim_world *w);

/* sim_scale_pods.c. A pod's key. Whether a node's list has a job of it. */
void sim_pods_key(uint32_t number, char key[SCALE_KEY_MAX]);
bool sim_pods_known(const struct sim_world *w, uint32_t node,
                    const struct sim_made *made);
/* A call is there. Its answer is: whether it goes on, to set what it read; else
 * whether what it was about is so still. */
void sim_pods_arrive(struct sim_world *w, struct sim_scale_call *c);
bool sim_pods_go_on(struct sim_scale_call *c);
bool sim_pods_holds(const struct sim_scale *s, const struct sim_scale_call *c,
                    const struct scale_job *job);
/* As control_scale_kube.c does. */
enum scale_do sim_pods_next(struct sim_world *w, uint32_t node,
                            const struct scale_job *job,
                            const struct scale_facts *facts,
                            enum scale_do what);
bool sim_pods_gap(struct sim_world *w, uint32_t node);
/* All pods are well, and somebody ends those that are nobody's above the last one
 * that is known. */
void sim_pods_begin_exam(struct sim_world *w);

#endif
