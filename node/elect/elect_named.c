/* cache_aware, composite and dynamo. */
#include "node/elect/elect_named_internal.h"

#include <math.h>

#include "index/base/check.h"
#include "node/elect/elect_sets_internal.h"

#define SHARE_THRESHOLD 300U /* permille of the prompt */
#define SCORE_THRESHOLD 300000U
#define SCORE_FULL      1000000U
#define WEIGHT_OVERLAP  600U
#define WEIGHT_IDLE     300U
#define WEIGHT_SUCCESS  100U

/* Caps: products stay within 64 bits, costs within 32. */
#define TOTAL_MAX (UINT32_C(1) << 24)
#define LOAD_MAX  (UINT32_C(1) << 20)
#define COST_MAX  (UINT32_C(1) << 30)

static void
keep_least_load(const struct elect_input *input, struct elect_plan *plan)
{
    plan->load_max = elect_least_of(input->load, &plan->usable);
    elect_up_to(input->load, &plan->usable, plan->load_max, &plan->near);
    CHECK_SLOW(!worker_set_empty(&plan->near));
}

static void
plan_cache_aware(const struct elect_config *config,
                 const struct elect_input *input, struct elect_plan *plan)
{
    uint32_t best = elect_best_overlap(input, &plan->usable);

    plan->mode = ELECT_BALANCE;
    plan->imbalanced = elect_imbalanced(config, input, &plan->usable);
    if (!plan->imbalanced && (uint64_t)best * 1000 > (uint64_t)SHARE_THRESHOLD *
                                                         input->total_blocks) {
        plan->mode = ELECT_AFFINITY;
        plan->overlap_min = best;
        plan->near = elect_overlap_from(input, &plan->usable, best);
        plan->reason = "cache_aware: longest prefix";
    } else {
        keep_least_load(input, plan);
        plan->reason = plan->imbalanced
                           ? "cache_aware: imbalanced, least load"
                           : "cache_aware: prefix too short, least load";
    }
    CHECK_SLOW(!worker_set_empty(&plan->near));
}

/* Whole numbers of doubles: the quotient of integers below 2^53 is never rounded
 * up to the next integer. */
static inline uint32_t
quotient(double a, double b)
{
    return (uint32_t)(int32_t)(a / b);
}

static void
some_scores(uint32_t *restrict cost, const uint32_t *restrict depth,
            uint32_t known, const uint32_t *restrict load, uint32_t most_load,
            uint32_t total)
{
    uint32_t units = total > 0 ? total : 1;
    uint32_t most = most_load > 0 ? most_load : 1;

    for (uint32_t i = 0; i < ELECT_SOME; i++) {
        uint32_t held = depth[i] & elect_mask(known, i);
        uint32_t busy = load[i] < most ? load[i] : most; /* of others, more */
        held = held < total ? held : total;
        cost[i] = SCORE_FULL - 1000 * WEIGHT_SUCCESS -
                  quotient(held * (1000.0 * WEIGHT_OVERLAP), units) -
                  quotient((most - busy) * (1000.0 * WEIGHT_IDLE), most);
    }
}

/* By the score, the higher the less. */
ELECT_WIDE static void
fill_scores(const struct elect_input *input, const struct worker_set *set,
            uint32_t most_load, uint32_t *cost)
{
    const uint32_t *depth =
        input->match != NULL ? input->match->depth : input->load;

    ELECT_SOME_EACH(at, set)
    {
        some_scores(cost + at, depth + at, elect_some_known(input, at),
                    input->load + at, most_load, input->total_blocks);
    }
    for (uint32_t i = 0; i < WORKER_WORDS && input->success != NULL; i++) {
        for (uint64_t bits = set->word[i]; bits != 0; bits &= bits - 1) {
            uint32_t slot = i * 64 + (uint32_t)__builtin_ctzll(bits);
            cost[slot] += WEIGHT_SUCCESS * (1000U - input->success[slot]);
        }
    }
}

static void
plan_composite(const struct elect_input *input, struct elect_plan *plan)
{
    uint32_t most_load = elect_span_of(input->load, &plan->usable).max;

    fill_scores(input, &plan->usable, most_load, plan->cost);
    uint32_t least = elect_least_of(plan->cost, &plan->usable);
    CHECK_SLOW(least <= SCORE_FULL);
    if (SCORE_FULL - least <= SCORE_THRESHOLD) {
        keep_least_load(input, plan);
        plan->reason = "composite: no score above 0.3, least load";
        return;
    }
    plan->weighed = true;
    elect_up_to(plan->cost, &plan->usable, least, &plan->near);
}

/* In doubles, which hold all of it exactly up to the cap. */
static void
some_dynamo(uint32_t *restrict cost, const uint32_t *restrict depth,
            uint32_t known, const uint32_t *restrict load,
            const uint32_t *restrict queued, uint32_t total, double unit)
{
    for (uint32_t i = 0; i < ELECT_SOME; i++) {
        uint32_t held = depth[i] & elect_mask(known, i);
        uint32_t left = total - (held < total ? held : total);
        uint32_t open = load[i] < LOAD_MAX ? load[i] : LOAD_MAX;
        uint32_t waits = queued[i] < COST_MAX ? queued[i] : COST_MAX;
        double units = (int32_t)left + (double)(int32_t)total * (int32_t)open;
        double tokens = units * unit + (int32_t)waits;
        cost[i] = (uint32_t)(int32_t)(tokens < COST_MAX ? tokens : COST_MAX);
    }
}

ELECT_WIDE static void
fill_dynamo(const struct elect_input *input, const struct worker_set *set,
            uint32_t *cost)
{
    static const uint32_t nothing[WORKERS_MAX];
    const uint32_t *depth =
        input->match != NULL ? input->match->depth : nothing;
    const uint32_t *queued = input->queued != NULL ? input->queued : nothing;
    uint32_t total =
        input->total_blocks < TOTAL_MAX ? input->total_blocks : TOTAL_MAX;

    ELECT_SOME_EACH(at, set)
    {
        some_dynamo(cost + at, depth + at, elect_some_known(input, at),
                    input->load + at, queued + at, total, input->unit_tokens);
    }
}

static void
plan_dynamo(const struct elect_config *config, const struct elect_input *input,
            struct elect_plan *plan)
{
    plan->weighed = true;
    fill_dynamo(input, &plan->usable, plan->cost);
    uint32_t least = elect_least_of(plan->cost, &plan->usable);
    plan->near = plan->usable;
    if (config->temperature_permille == 0) {
        elect_up_to(plan->cost, &plan->usable, least, &plan->near);
    }
    CHECK_SLOW(!worker_set_empty(&plan->near));
}

void
elect_named_plan(const struct elect_config *config,
                 const struct elect_input *input, struct elect_plan *plan)
{
    CHECK(!worker_set_empty(&plan->usable));
    if (config->policy == ELECT_CACHE_AWARE) {
        plan_cache_aware(config, input, plan);
    } else if (config->policy == ELECT_COMPOSITE) {
        plan_composite(input, plan);
    } else {
        CHECK(config->policy == ELECT_DYNAMO);
        plan_dynamo(config, input, plan);
    }
}

uint32_t
elect_named_softmax(const struct elect_config *config,
                    const struct elect_plan *plan, double random)
{
    struct elect_span span = elect_span_of(plan->cost, &plan->near);
    double scale = config->temperature_permille / 1000.0 *
                   (span.max > span.min ? span.max - span.min : 1);
    uint32_t last = WORKER_NONE;
    double sum = 0;

    CHECK(config->temperature_permille > 0 && random >= 0 && random < 1);
    WORKER_SET_EACH (slot, &plan->near) {
        sum += exp(-(double)(plan->cost[slot] - span.min) / scale);
    }
    double left = random * sum;
    WORKER_SET_EACH (slot, &plan->near) {
        last = slot;
        left -= exp(-(double)(plan->cost[slot] - span.min) / scale);
        if (left < 0) {
            break;
        }
    }
    CHECK(last != WORKER_NONE);
    return last;
}
