/*
 * The threshold between pools (node/route/route_pools.h), tuned: where a pool has
 * as much to do for each engine as the other.
 *
 * Engines are there in two lengths, so many of each, and with paged caches a
 * request costs either kind alike. What they can do together is then decided by
 * the pool that has more to do than its share of engines: to keep up, a fleet of
 * these proportions needs engines in proportion to
 *
 *   load(T) = max(work up to T / short engines, work above T / long ones)
 *
 * and the threshold T of the least load is wanted. Work is tokens: those of a
 * prompt that were not cached, and POOL_ANSWER_TOKENS for each of an answer. It is
 * kept by class of budget, which is what is known of a request when it comes:
 * prompt and longest answer. So the rule needs no times of engines.
 *
 * A node judges by its own requests, and seldom; a threshold stays until another
 * one is better by a tenth, so that it does not waver. What each node has found,
 * and by how many requests, it tells its peers. What counts is the median of
 * these, weighed by requests: a function of what was told and of nothing else, so
 * nodes that have heard the same route alike, however different their clients.
 *
 * Role: core. Owns: nothing. Thread: one owner. Limits: POOL_TOKENS_MAX.
 * Errors: none.
 */
#ifndef NODE_POOL_TUNE_H
#define NODE_POOL_TUNE_H

#include <stdint.h>

#define POOL_TOKENS_MAX (UINT32_C(1) << 24)
#define POOL_BUDGETS    97U   /* classes, four to a doubling */
#define POOL_REQUESTS   200.0 /* of known budget, before it is judged */
/* What a token of an answer is worth in tokens of a prompt. By the times of
 * chaos/replay/replay_timing.h (70B) it is 4 in a batch of 128 requests and 10 in
 * one of 32. */
#define POOL_ANSWER_TOKENS 8.0
#define POOL_BETTER        0.9 /* of the load: another threshold is taken */

/* Requests by budget. All zero is none. */
struct pool_budgets {
    double requests[POOL_BUDGETS];
    double work[POOL_BUDGETS]; /* tokens */
};

/* The longest budget of a class. */
uint32_t pool_budget_upto(uint32_t class);

/* A request is over: budget, tokens of its prompt that were computed, and of its
 * answer. A budget of 0 is not known, and does not count. */
void pool_budgets_add(struct pool_budgets *budgets, uint32_t budget,
                      uint32_t computed, uint32_t answer);

/* Counts these with the others. */
void pool_budgets_join(struct pool_budgets *to,
                       const struct pool_budgets *from);

/* That share of them is left. */
void pool_budgets_fade(struct pool_budgets *budgets, double left);

/* Engines of one model. */
struct pool_engines {
    uint32_t shorter;
    uint32_t longer;
    uint32_t short_len; /* tokens that the longest of the shorter ones takes */
};

/* What a node has found, or a peer has. */
struct pool_told {
    uint32_t threshold; /* 0: nothing */
    uint32_t weight;    /* requests */
};

/* Judges anew; before: the last verdict, or nothing. Nothing, where there are not
 * two pools or not enough requests. */
struct pool_told pool_tune_judge(const struct pool_budgets *budgets,
                                 const struct pool_engines *engines,
                                 const struct pool_told *before);

/* The threshold that all these lead to; 0: none. Sorts them. */
uint32_t pool_tune_agree(struct pool_told *told, uint32_t count);

#endif
