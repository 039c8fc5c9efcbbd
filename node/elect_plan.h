/*
 * What the rule of elect.h makes of one input, before any draw: the workers
 * among which chance decides. Private to elect*.c: the choice and its
 * explanation come from the same plan and cannot differ.
 *
 * Role: core. Owns: nothing. Thread: any.
 */
#ifndef NODE_ELECT_PLAN_H
#define NODE_ELECT_PLAN_H

#include "node/elect.h"

struct elect_plan {
    struct worker_set usable; /* candidates without those under pressure */
    struct worker_set near;   /* near-equals: the choice is one of these */
    enum elect_mode mode;
    bool imbalanced;
    uint32_t load_max;    /* of a near-equal */
    uint32_t overlap_min; /* of a near-equal; 0: overlap did not matter */
    const char *reason;   /* static text */
};

/* Fills the plan; near is empty when there is no candidate. */
void elect_plan_make(const struct elect_config *config,
                     const struct elect_input *input, struct elect_plan *plan);

/* Blocks of the prompt that the worker holds. */
static inline uint32_t
elect_overlap(const struct elect_input *input, uint32_t worker)
{
    return input->match != NULL &&
                   worker_set_has(&input->match->workers, worker)
               ? input->match->depth[worker]
               : 0;
}

#endif
