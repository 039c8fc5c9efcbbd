/* The rule of elect.h: among which workers chance is to decide. */
#include "node/elect/elect_plan_internal.h"

#include "index/base/check.h"
#include "node/elect/elect.h"
#include "node/elect/elect_cost_internal.h"
#include "node/elect/elect_hash_internal.h"
#include "node/elect/elect_named_internal.h"
#include "node/elect/elect_sets_internal.h"

#define NEAR_OVERLAP_DIVISOR 32 /* of total_blocks */
#define SOON_COST_MAX        2  /* of the least cost */
#define NEAR_LOAD_DIVISOR    8  /* of the least load */

/* How much more than the least load counts as imbalance. */
static uint64_t
imbalance_spread(const struct elect_config *config, uint32_t min_load)
{
    uint64_t rel = config->balance_rel_permille > 1000
                       ? config->balance_rel_permille - 1000
                       : 0;
    uint64_t relative = rel * min_load / 1000;

    return relative > config->balance_abs ? relative : config->balance_abs;
}

uint32_t
elect_tolerance(const struct elect_config *config, uint32_t min_load)
{
    uint64_t quarter = imbalance_spread(config, min_load) / 4;

    return quarter < UINT32_MAX ? (uint32_t)quarter : UINT32_MAX;
}

bool
elect_imbalanced(const struct elect_config *config,
                 const struct elect_input *input, const struct worker_set *set)
{
    struct elect_span span = elect_span_of(input->load, set);

    CHECK_SLOW(!worker_set_empty(set));
    return span.max - span.min > imbalance_spread(config, span.min);
}

/* Those of the set of whom the match says something. */
static struct worker_set
known_of(const struct elect_input *input, const struct worker_set *set)
{
    return worker_set_and(set, &input->match->workers);
}

uint32_t
elect_best_overlap(const struct elect_input *input,
                   const struct worker_set *set)
{
    if (input->match == NULL) {
        return 0;
    }
    struct worker_set known = known_of(input, set);
    return elect_most_of(input->match->depth, &known);
}

struct worker_set
elect_overlap_from(const struct elect_input *input,
                   const struct worker_set *set, uint32_t overlap_min)
{
    CHECK_SLOW(input->match != NULL && overlap_min > 0);
    struct worker_set known = known_of(input, set);
    struct worker_set less;
    elect_up_to(input->match->depth, &known, overlap_min - 1, &less);
    return worker_set_minus(&known, &less);
}

uint32_t
elect_near_overlap(const struct elect_input *input, uint32_t best)
{
    uint32_t slack = input->total_blocks / NEAR_OVERLAP_DIVISOR;

    CHECK_SLOW(best > 0);
    return best > slack ? best - slack : 1;
}

static uint32_t
near_load(uint32_t min_load)
{
    return min_load == 0
               ? 0
               : elect_add(min_load, 1 + min_load / NEAR_LOAD_DIVISOR);
}

static uint32_t
least_up_to(const struct elect_input *input, const struct worker_set *set,
            uint32_t min_load, uint32_t near)
{
    CHECK_SLOW(near >= min_load);
    if (input->unseen == 0) {
        return near;
    }
    uint32_t level = elect_level(input->load, set, min_load, input->unseen, 1);
    return level > near ? level : near;
}

/* Whether any slot, candidate or not, is above the limit: the cheap question
 * whose answer is nearly always no. */
ELECT_WIDE static bool
any_pressure(const uint16_t *kv_usage, uint32_t limit)
{
    uint16_t most = limit < UINT16_MAX ? (uint16_t)limit : UINT16_MAX;
    uint16_t over = 0;

    for (unsigned i = 0; i < WORKERS_MAX; i++) {
        over |= kv_usage[i] > most;
    }
    return over != 0;
}

static struct worker_set
without_pressure(const struct elect_config *config,
                 const struct elect_input *input)
{
    uint32_t limit = config->kv_pressure_max_permille;
    struct worker_set roomy = input->candidates;

    if (!elect_asks_usage(config) || input->kv_usage == NULL ||
        !any_pressure(input->kv_usage, limit)) {
        return roomy;
    }
    WORKER_SET_EACH (slot, &input->candidates) {
        if (input->kv_usage[slot] > limit) {
            worker_set_remove(&roomy, slot);
        }
    }
    return worker_set_empty(&roomy) ? input->candidates : roomy;
}

static bool
worth_it(const struct elect_config *config, const struct elect_input *input,
         uint32_t best)
{
    return best > 0 &&
           (uint64_t)best * 1000 >
               (uint64_t)config->cache_threshold_permille * input->total_blocks;
}

/* The largest overlap of plan->near decides from here on. */
static void
narrow_to_overlap(const struct elect_input *input, struct elect_plan *plan,
                  uint32_t best)
{
    CHECK_SLOW(best > 0);
    plan->overlap_min = elect_near_overlap(input, best);
    plan->near = elect_overlap_from(input, &plan->near, plan->overlap_min);
}

static void
plan_imbalanced(const struct elect_config *config,
                const struct elect_input *input, struct elect_plan *plan,
                uint32_t min_load)
{
    CHECK_SLOW(plan->imbalanced);
    plan->mode = ELECT_BALANCE;
    plan->load_max = elect_add(min_load, elect_tolerance(config, min_load));
    elect_up_to(input->load, &plan->usable, plan->load_max, &plan->near);
    uint32_t best = elect_best_overlap(input, &plan->near);
    plan->cold = !worth_it(config, input, best);
    plan->reason = best > 0
                       ? "imbalanced: longest prefix among the least loaded"
                       : "imbalanced: among the least loaded";
    if (plan->weighed) {
        plan->reason = "imbalanced: least cost among the least loaded";
        elect_cost_narrow(config, input, plan);
    } else if (best > 0) {
        narrow_to_overlap(input, plan, best);
    }
}

/* By shares of the prompt and numbers of requests. */
static void
plan_shares(const struct elect_config *config, const struct elect_input *input,
            struct elect_plan *plan, uint32_t min_load)
{
    uint32_t best = elect_best_overlap(input, &plan->usable);

    CHECK_SLOW(!plan->weighed);
    if (worth_it(config, input, best)) {
        plan->mode = ELECT_AFFINITY;
        plan->near = plan->usable;
        narrow_to_overlap(input, plan, best);
        plan->reason = "longest prefix";
        return;
    }
    plan->mode = ELECT_BALANCE;
    plan->cold = true;
    plan->load_max =
        least_up_to(input, &plan->usable, min_load, near_load(min_load));
    elect_up_to(input->load, &plan->usable, plan->load_max, &plan->near);
    plan->reason = best > 0 ? "prefix too short: least load"
                            : "no prefix known: least load";
}

/* Of all that are usable, which mostly are all candidates. */
static uint32_t
best_usable(const struct elect_input *input, const struct elect_plan *plan)
{
    struct worker_set left =
        worker_set_minus(&input->candidates, &plan->usable);

    return worker_set_empty(&left) ? plan->most
                                   : elect_best_overlap(input, &plan->usable);
}

/* By tokens: elect_plan_settle() says what the draw made of it. */
static void
plan_costs(const struct elect_config *config, const struct elect_input *input,
           struct elect_plan *plan)
{
    uint32_t best = best_usable(input, plan);

    CHECK_SLOW(plan->weighed);
    plan->mode = ELECT_BALANCE;
    plan->near = plan->usable;
    plan->reason = "no prefix known: least cost";
    if (best > 0) {
        plan->reason = "prefix too short: least cost";
    } else if (elect_best_overlap(input, &plan->roomy) > 0) {
        plan->reason = "prefix too late: least cost";
    }
    plan->cold = !worth_it(config, input, best);
    if (!plan->cold) {
        plan->overlap_min = elect_near_overlap(input, best);
        plan->reason = "longest prefix costs more: least cost";
    }
    elect_cost_narrow(config, input, plan);
}

/* Those that would miss the SLO, or, without one and where the cheapest would
 * do so, answer far later than the soonest; unless who does not costs too much. */
static void
leave_late(const struct elect_input *input, struct elect_plan *plan)
{
    struct worker_set timely;

    CHECK_SLOW(!worker_set_empty(&plan->roomy));
    if (input->slo != NULL) {
        elect_in_time(input, plan, &timely);
    } else if (elect_soon(input, plan, &timely)) {
        return;
    }
    uint32_t least = elect_least_of(plan->cost, &plan->roomy);
    if (!worker_set_empty(&timely) &&
        elect_least_of(plan->cost, &timely) / SOON_COST_MAX <= least) {
        plan->usable = timely;
    }
}

/* Of near-equals those that are this node's for the moment, if any are. A
 * session's worker is one by hash, on all nodes. */
static void
take_turn(const struct elect_input *input, struct elect_plan *plan)
{
    if (input->turn == NULL || input->hashed ||
        (plan->cold && !input->turn_new)) {
        return;
    }
    struct worker_set own = worker_set_and(&plan->near, input->turn);
    if (!worker_set_empty(&own)) {
        plan->near = own;
    }
}

/* Where nobody holds any of it, who costs the least is the soonest. */
static bool
holds_some(const struct elect_input *input)
{
    return input->match != NULL && !worker_set_empty(&input->match->workers);
}

static void
plan_kvasir(const struct elect_config *config, const struct elect_input *input,
            struct elect_plan *plan)
{
    plan->weighed = elect_weighs(config);
    if (plan->weighed) {
        elect_cost_unread(config, input, plan->unread);
        elect_cost_fill(config, input, plan->unread, plan->cost);
    }
    if (plan->weighed && (input->slo != NULL || holds_some(input))) {
        leave_late(input, plan);
    }
    struct elect_span span = elect_span_of(input->load, &plan->usable);
    CHECK_SLOW(!worker_set_empty(&plan->usable));
    plan->imbalanced =
        span.max - span.min > imbalance_spread(config, span.min) &&
        !(plan->weighed && input->aside != NULL);
    if (plan->imbalanced) {
        plan_imbalanced(config, input, plan, span.min);
    } else if (plan->weighed) {
        plan_costs(config, input, plan);
    } else {
        plan_shares(config, input, plan, span.min);
    }
}

void
elect_plan_settle(const struct elect_input *input, struct elect_plan *plan,
                  uint32_t worker)
{
    CHECK_SLOW(worker_set_has(&plan->near, worker));
    if (plan->weighed && !plan->imbalanced && plan->overlap_min > 0 &&
        elect_overlap(input, worker) >= plan->overlap_min) {
        plan->mode = ELECT_AFFINITY;
        plan->reason = "longest prefix";
    }
}

/* All but the costs, which are filled where they are needed. */
static void
begin(const struct elect_config *config, const struct elect_input *input,
      struct elect_plan *plan)
{
    plan->roomy = without_pressure(config, input);
    plan->usable = plan->roomy;
    plan->most = elect_best_overlap(input, &input->candidates);
    worker_set_clear(&plan->near);
    worker_set_clear(&plan->equal);
    plan->mode = ELECT_POLICY;
    plan->imbalanced = false;
    plan->weighed = false;
    plan->cold = false;
    plan->load_max = UINT32_MAX;
    plan->overlap_min = 0;
    plan->reason = elect_policy_name(config->policy);
}

static void
plan_other(const struct elect_config *config, const struct elect_input *input,
           struct elect_plan *plan)
{
    switch (config->policy) {
    case ELECT_LEAST_LOAD:
        plan->load_max = elect_least_of(input->load, &plan->usable);
        plan->load_max =
            least_up_to(input, &plan->usable, plan->load_max, plan->load_max);
        elect_up_to(input->load, &plan->usable, plan->load_max, &plan->near);
        break;
    case ELECT_PREFIX_HASH:
    case ELECT_CONSISTENT_HASHING:
        plan->load_max = elect_hash_bound(input->load, &plan->usable);
        elect_up_to(input->load, &plan->usable, plan->load_max, &plan->near);
        break;
    case ELECT_CACHE_AWARE:
    case ELECT_COMPOSITE:
    case ELECT_DYNAMO:
        elect_named_plan(config, input, plan);
        break;
    case ELECT_KVASIR:
    case ELECT_ROUND_ROBIN:
    case ELECT_RANDOM:
    case ELECT_POWER_OF_TWO:
    case ELECT_RENDEZVOUS:
    case ELECT_POLICIES:
        break;
    }
    CHECK_SLOW(!worker_set_empty(&plan->near));
}

void
elect_plan_make(const struct elect_config *config,
                const struct elect_input *input, struct elect_plan *plan)
{
    begin(config, input, plan);
    if (worker_set_empty(&plan->usable)) {
        plan->reason = "no candidate";
        return;
    }
    if (config->policy == ELECT_KVASIR) {
        plan_kvasir(config, input, plan);
        plan->equal = plan->near;
        take_turn(input, plan);
        CHECK(!worker_set_empty(&plan->near));
        return;
    }
    plan->near = plan->usable;
    plan_other(config, input, plan);
    CHECK(!worker_set_empty(&plan->near));
}
