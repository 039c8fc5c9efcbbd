/*
 * How many engines a service needs: one fleet whose engines take every request,
 * or two pools, of which the short one takes those up to a threshold and has
 * more slots on each engine; by the closed form, by the corrected form
 * (plan_form.h), and played (plan_play.h).
 *
 * A played size is the least number of engines, within 2 %, that keeps both
 * promises for 99 % of requests over the long horizon, the least loaded engine
 * first. The short horizon is as many requests as the paper played; from an
 * empty fleet that may be over before a steady state is reached, so latencies
 * are told of both.
 *
 * Role: core. Owns: nothing. Thread: one owner. Limits: PLAN_SWEEP_MAX.
 * Errors: -ENOMEM.
 */
#ifndef CHAOS_PLAN_H
#define CHAOS_PLAN_H

#include "chaos/plan/plan_play.h"

#define PLAN_SWEEP_MAX    6U /* thresholds from 1,024 to 32,768 */
#define PLAN_LONG_HORIZON 6U /* times the short one */
#define PLAN_WHAT_IFS     6U

/* What the closed form adds to the mean (arXiv 2604.09613). */
#define PLAN_BETA_WHOLE 1.08
#define PLAN_BETA_SHORT 1.05
#define PLAN_BETA_LONG  1.02

struct plan_setup {
    const struct plan_mix *mix;
    struct plan_engine engine;
    struct plan_slo slo;
    double rate; /* of all requests, /s */
    uint32_t threshold;
    uint32_t max_len;  /* that the fleet must take */
    uint32_t requests; /* of the short horizon; 0: nothing is played */
    double price;      /* of a GPU for an hour */
    uint64_t seed;
    struct plan_seen seen; /* by nodes, when the mix is theirs */
};

enum plan_way {
    PLAN_BY_CLOSED,
    PLAN_BY_CORRECTED,
    PLAN_BY_PLAY,
    PLAN_WAYS
};

struct plan_pool {
    struct plan_demand demand;
    uint32_t slots; /* by the closed form; of an engine */
    struct plan_size closed;
    struct plan_size corrected;
    uint32_t engines[PLAN_WAYS]; /* 0: none, or not known */
};

struct plan_fleet {
    struct plan_pool pools[2];
    uint32_t pools_count;
    uint32_t engines[PLAN_WAYS];    /* 0: one of its pools has none */
    enum plan_way latency_of;       /* whose engines were played */
    struct plan_latency latency[2]; /* the short horizon, the long one */
};

struct plan_step {
    uint32_t threshold;
    double share;        /* of requests up to there */
    uint32_t engines[2]; /* of two pools: closed, corrected */
};

struct plan_what_if {
    const char *what;
    uint32_t engines[2]; /* corrected: one fleet, two pools */
};

struct plan {
    struct plan_setup setup;
    struct plan_fleet whole;
    struct plan_fleet split;
    struct plan_step sweep[PLAN_SWEEP_MAX];
    uint32_t sweep_count;
    struct plan_what_if what_ifs[PLAN_WHAT_IFS];
    uint32_t what_ifs_count;
};

/* Makes the plan; setup is copied, its mix borrowed. 0 or -ENOMEM. */
int plan_make(const struct plan_setup *setup, struct plan *plan) MUST_CHECK;

/* One fleet, or two pools, sized by both forms. */
void plan_fleet_size(const struct plan_setup *setup, uint32_t threshold,
                     struct plan_fleet *fleet);

/* Plays the fleet with the engines of that way, which are known, over so many
 * requests of the whole service. By the closed form an engine takes as many
 * requests as it has slots, else as many as the corrected form's batch has. */
int plan_fleet_play(const struct plan_setup *setup,
                    const struct plan_fleet *fleet, enum plan_way way,
                    uint32_t requests, enum plan_route route,
                    struct plan_latency *latency) MUST_CHECK;

/* How much less the second fleet costs than the first, of 1; 0 when one of
 * them is not known. */
double plan_saving(uint32_t whole, uint32_t split);

/* What to buy: of the fleets whose engines are known by the best way, the one
 * that needs fewer, one fleet where both need as many. NULL: no number of these
 * engines keeps the promises. */
const struct plan_fleet *plan_answer(const struct plan *plan,
                                     enum plan_way *way);

/* What so many engines cost in a year. */
double plan_cost(const struct plan_setup *setup, uint32_t engines);

#endif
