/*
 * What sending one request to each worker costs, by the rule of elect.h.
 * Private to elect*.c.
 *
 * Role: core. Owns: nothing. Thread: any.
 */
#ifndef NODE_ELECT_COST_INTERNAL_H
#define NODE_ELECT_COST_INTERNAL_H

#include "node/elect/elect_plan_internal.h"

/* Whether costs decide. */
static inline bool
elect_weighs(const struct elect_config *config)
{
    return config->recompute_weight != 0;
}

/* Of a token that is not held, in thousandths of one that waits. */
uint32_t elect_cost_weight(const struct elect_config *config,
                           uint32_t heat_milli);

/* Tokens of the prompt that each candidate does not hold, at most 2^30, into an
 * array of WORKERS_MAX. */
void elect_cost_unread(const struct elect_config *config,
                       const struct elect_input *input, uint32_t *unread);

/* The costs of all candidates, likewise, from elect_cost_unread(). */
void elect_cost_fill(const struct elect_config *config,
                     const struct elect_input *input, const uint32_t *unread,
                     uint32_t *cost);

/* What each cost is with a weight of one, which is the request's own time. */
void elect_cost_own(const struct elect_input *input, const uint32_t *unread,
                    uint32_t *own);

/* Keeps of plan->near those that cost the least, or nearly. */
void elect_cost_narrow(const struct elect_config *config,
                       const struct elect_input *input,
                       struct elect_plan *plan);

#endif
