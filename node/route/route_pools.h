/*
 * Pools: engines of several context lengths, and which of them a request suits.
 *
 * An engine that takes long requests has room for fewer of them, so a fleet may
 * have engines of two lengths: a short pool and a long one. Which is which,
 * engines say themselves (max_model_len in /v1/models): of the workers that may
 * take a request those below the greatest length are short, the others long;
 * where all have one length there are no pools.
 *
 * A request's budget is its prompt and the longest answer that it allows.
 *
 * - What is longer than an engine's limit is not sent there. That is the only
 *   hard rule. Where the prompt is only estimated by its bytes, the estimate
 *   chooses among engines, and leaves the longest ones if none is long enough:
 *   the engine counts then. A request is refused when its tokens are counted, or
 *   its max_tokens alone are too many, and no worker of its model could ever
 *   take it (a healthy one or not).
 * - A budget up to policy.pool_threshold, or what that was tuned to
 *   (policy.pool_tune, node/view/pool_tune.h), wants the short pool, a greater one the
 *   long pool. A worker of the other pool costs as much more as
 *   policy.pool_spill requests in flight, so that requests spill over when their
 *   own pool has that much more to do, or when the other one holds their prefix.
 *
 * Follows token-budget pools (arXiv 2604.09613), which send everything to its
 * pool but when that is overloaded.
 *
 * Role: core. Owns: nothing. Thread: the scratch's. Limits: WORKERS_MAX.
 * Errors: ROUTE_E_TOO_LONG.
 */
#ifndef NODE_ROUTE_POOLS_H
#define NODE_ROUTE_POOLS_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/check.h"
#include "node/elect/elect.h"
#include "node/scan/scan.h"
#include "node/view/fleet_view.h"
#include "node/view/pool_tune.h"

enum pools_want {
    POOLS_NONE, /* there are none, or nobody is asked about them */
    POOLS_SHORT,
    POOLS_LONG,
};

/* What is known of a request's length. */
struct pools_need {
    uint64_t prompt; /* tokens */
    uint64_t answer; /* the longest that it allows; 0: the engine's affair */
    bool counted;    /* the prompt's are; else an estimate */
    uint32_t bytes_milli; /* that made a token of the estimate, thousandths */
    bool known;           /* false: nothing is known, and nothing is left out */
};

struct pools {
    struct pools_need need;
    uint32_t threshold;
    bool tuned;       /* it is */
    uint32_t longest; /* of the workers of its model; 0: some do not tell */
    enum pools_want wants;
    struct worker_set too_short; /* candidates that were left out */
    uint32_t aside[WORKERS_MAX]; /* tokens, for elect.h; with wants */
};

/* Tokens of prompt and answer, POOL_TOKENS_MAX at most, an answer of any length
 * being a usual one; 0: not known. */
uint32_t pools_budget(const struct pools_need *need);

/*
 * Leaves out of *candidates who is too short for the request, and says what it
 * costs to go to the other pool. need, threshold: given. serves: all workers of its model, present.
 * 0, or ROUTE_E_TOO_LONG: no worker could ever take it. *candidates may be
 * empty after either.
 */
int pools_apply(struct pools *pools, const struct elect_config *config,
                const struct fleet_view *view, const struct worker_set *serves,
                struct worker_set *candidates) MUST_CHECK;

/* Whether the worker is of another pool than the request wants. */
bool pools_spilled(const struct pools *pools, uint32_t slot);

#endif
