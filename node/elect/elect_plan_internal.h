/*
 * What the rule of elect.h makes of one input, before any draw: the workers
 * among which chance decides. Private to elect*.c: the choice and its
 * explanation come from the same plan and cannot differ.
 *
 * Role: core. Owns: nothing. Thread: any.
 */
#ifndef NODE_ELECT_PLAN_INTERNAL_H
#define NODE_ELECT_PLAN_INTERNAL_H

#include "node/elect/elect.h"
#include "node/elect/elect_sets_internal.h"

struct elect_plan {
    struct worker_set roomy;  /* candidates without those under pressure */
    struct worker_set usable; /* of these, who would answer in time */
    struct worker_set near;   /* near-equals: the choice is one of these */
    struct worker_set equal;  /* kvasir: these, and those of others' turn */
    enum elect_mode mode;
    bool imbalanced;
    bool weighed;         /* costs decided; else there are none */
    bool cold;            /* of this prompt nobody holds enough to count */
    uint32_t load_max;    /* of a near-equal */
    uint32_t overlap_min; /* of a near-equal; 0: overlap did not matter. When
                             costs decided: what is as good as the longest */
    uint32_t most;        /* blocks of the prompt that a candidate holds */
    const char *reason;   /* static text */
    uint32_t cost[WORKERS_MAX];   /* of candidates */
    uint32_t unread[WORKERS_MAX]; /* kvasir, weighed: tokens that each has to
                                     compute */
};

/* Fills the plan; near is empty when there is no candidate. */
void elect_plan_make(const struct elect_config *config,
                     const struct elect_input *input, struct elect_plan *plan);

/* Mode and reason, once chance has decided for this one. */
void elect_plan_settle(const struct elect_input *input, struct elect_plan *plan,
                       uint32_t worker);

/* Those that are roomy and would answer within the input's SLO. */
void elect_in_time(const struct elect_input *input,
                   const struct elect_plan *plan, struct worker_set *timely);

/* Whether one of the cheapest that are roomy is among the soon: those whose own
 * time is within half as much again as the soonest's, or within 3,072 tokens.
 * Else fills in the soon. */
bool elect_soon(const struct elect_input *input, const struct elect_plan *plan,
                struct worker_set *soon);

/* Whether the loads of the set are too far apart. */
bool elect_imbalanced(const struct elect_config *config,
                      const struct elect_input *input,
                      const struct worker_set *set);

/* The most blocks of the prompt that one of the set holds. */
uint32_t elect_best_overlap(const struct elect_input *input,
                            const struct worker_set *set);

/* Blocks of the prompt that the worker holds. */
static inline uint32_t
elect_overlap(const struct elect_input *input, uint32_t worker)
{
    CHECK_SLOW(worker < WORKERS_MAX);
    return input->match != NULL &&
                   worker_set_has(&input->match->workers, worker)
               ? input->match->depth[worker]
               : 0;
}

/* Those of some neighbours (elect_sets_internal.h) of whom the match says
 * something. */
static inline uint32_t
elect_some_known(const struct elect_input *input, uint32_t at)
{
    return input->match != NULL ? elect_some_of(&input->match->workers, at) : 0;
}

/* The same, if it is enough to count. */
static inline uint32_t
elect_counted(const struct elect_config *config,
              const struct elect_input *input, uint32_t worker)
{
    uint64_t overlap = elect_overlap(input, worker);

    return overlap * 1000 > (uint64_t)config->cache_threshold_permille *
                                input->total_blocks
               ? (uint32_t)overlap
               : 0;
}

/* The least that is as good as `best` (above 0) blocks. */
uint32_t elect_near_overlap(const struct elect_input *input, uint32_t best);

/* Those of the set with at least overlap_min (above 0) blocks. */
struct worker_set elect_overlap_from(const struct elect_input *input,
                                     const struct worker_set *set,
                                     uint32_t overlap_min);

#endif
