/*
 * Rules of other routers, by the names people know them by. Private to
 * elect*.c.
 *
 * They decide by what this router knows (mirrors, loads of all nodes, tokens
 * that wait), which is more than those routers know; so a comparison is one of
 * rules. Ties are drawn.
 *
 *   cache_aware  SMG's: when max_load - min_load > balance_abs and max_load >
 *                balance_rel * min_load, the least load. Else the worker with
 *                the longest prefix, where it is more than 0.3 of the prompt;
 *                else the least load.
 *   composite    0.6 * overlap (a tier's worth of it) + 0.3 * (1 - load / most
 *                load) + 0.1 * share of requests that did not fail. Where no
 *                sum is above 0.3, the least load. As a cost: what a sum lacks
 *                of 1, in millionths.
 *   dynamo       tokens to compute: of prompts that wait, and of this one not
 *                held; and those of requests in flight, of which each is taken
 *                for as long as this prompt. With a temperature T a worker is
 *                drawn with the weight exp(-cost / (most - least cost) / T).
 *
 * Role: core. Owns: nothing. Thread: any.
 */
#ifndef NODE_ELECT_NAMED_INTERNAL_H
#define NODE_ELECT_NAMED_INTERNAL_H

#include "node/elect/elect_plan_internal.h"

/* The plan of the policy cache_aware, composite or dynamo: plan->usable is not
 * empty, the rest is as elect_plan.c began it. */
void elect_named_plan(const struct elect_config *config,
                      const struct elect_input *input, struct elect_plan *plan);

/* dynamo: one of plan->near, by a random number in [0, 1). */
uint32_t elect_named_softmax(const struct elect_config *config,
                             const struct elect_plan *plan, double random);

#endif
