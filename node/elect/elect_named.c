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
    plan->near = elect_up_to(input->load, &plan->usable, plan->load_max);
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

static uint32_t
score(const struct elect_input *input, uint32_t most_load, uint32_t slot)
{
    uint64_t total = input->total_blocks;
    uint64_t held = elect_overlap(input, slot);
    uint64_t sum = 0;

    if (total > 0) {
        sum = (held < total ? held : total) * 1000 * WEIGHT_OVERLAP / total;
    }
    uint64_t idle = UINT64_C(1000) * (most_load - input->load[slot]);
    sum += most_load > 0 ? idle * WEIGHT_IDLE / most_load
                         : UINT64_C(1000) * WEIGHT_IDLE;
    sum += (input->success != NULL ? input->success[slot] : UINT64_C(1000)) *
           WEIGHT_SUCCESS;
    CHECK_SLOW(sum <= SCORE_FULL);
    return (uint32_t)sum;
}

static void
plan_composite(const struct elect_input *input, struct elect_plan *plan)
{
    uint32_t most_load = elect_span_of(input->load, &plan->usable).max;

    WORKER_SET_EACH (slot, &plan->usable) {
        plan->cost[slot] = SCORE_FULL - score(input, most_load, slot);
    }
    uint32_t least = elect_least_of(plan->cost, &plan->usable);
    CHECK_SLOW(least <= SCORE_FULL);
    if (SCORE_FULL - least <= SCORE_THRESHOLD) {
        keep_least_load(input, plan);
        plan->reason = "composite: no score above 0.3, least load";
        return;
    }
    plan->weighed = true;
    plan->near = elect_up_to(plan->cost, &plan->usable, least);
}

static uint32_t
dynamo_cost(const struct elect_input *input, uint32_t slot)
{
    uint32_t load = input->load[slot];
    uint64_t total =
        input->total_blocks < TOTAL_MAX ? input->total_blocks : TOTAL_MAX;
    uint64_t held = elect_overlap(input, slot);
    uint64_t units = (held < total ? total - held : 0) +
                     total * (load < LOAD_MAX ? load : LOAD_MAX);
    uint64_t cost = units * input->unit_tokens +
                    (input->queued != NULL ? input->queued[slot] : 0);

    CHECK_SLOW(worker_set_has(&input->candidates, slot));
    return cost < COST_MAX ? (uint32_t)cost : COST_MAX;
}

static void
plan_dynamo(const struct elect_config *config, const struct elect_input *input,
            struct elect_plan *plan)
{
    plan->weighed = true;
    WORKER_SET_EACH (slot, &plan->usable) {
        plan->cost[slot] = dynamo_cost(input, slot);
    }
    uint32_t least = elect_least_of(plan->cost, &plan->usable);
    plan->near = config->temperature_permille > 0
                     ? plan->usable
                     : elect_up_to(plan->cost, &plan->usable, least);
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
