#include "node/elect.h"

#include "node/elect_plan.h"

#define NEAR_OVERLAP_DIVISOR 32 /* of total_blocks */
#define NEAR_LOAD_DIVISOR    8  /* of the least load */

struct span {
    uint32_t min;
    uint32_t max;
};

static const char *const policy_names[] = {
    [ELECT_KVASIR] = "kvasir",
    [ELECT_ROUND_ROBIN] = "round_robin",
    [ELECT_LEAST_LOAD] = "least_load",
    [ELECT_RANDOM] = "random",
    [ELECT_POWER_OF_TWO] = "power_of_two",
    [ELECT_RENDEZVOUS] = "rendezvous",
};

const char *
elect_policy_name(enum elect_policy policy)
{
    return policy_names[policy];
}

bool
elect_policy_find(struct slice name, enum elect_policy *policy)
{
    for (unsigned i = 0; i < sizeof policy_names / sizeof *policy_names; i++) {
        if (slice_equal(name, slice_of(policy_names[i]))) {
            *policy = (enum elect_policy)i;
            return true;
        }
    }
    return false;
}

const char *
elect_mode_name(enum elect_mode mode)
{
    switch (mode) {
    case ELECT_AFFINITY:
        return "affinity";
    case ELECT_BALANCE:
        return "balance";
    case ELECT_POLICY:
        break;
    }
    return "policy";
}

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

static uint32_t
add_saturated(uint32_t a, uint32_t b)
{
    return a > UINT32_MAX - b ? UINT32_MAX : a + b;
}

static struct span
load_span(const struct elect_input *input, const struct worker_set *set)
{
    struct span span = {.min = UINT32_MAX, .max = 0};

    for (unsigned i = 0; i < WORKER_WORDS; i++) {
        for (uint64_t bits = set->word[i]; bits != 0; bits &= bits - 1) {
            uint32_t load =
                input->load[i * 64 + (unsigned)__builtin_ctzll(bits)];
            span.min = load < span.min ? load : span.min;
            span.max = load > span.max ? load : span.max;
        }
    }
    return span;
}

static struct worker_set
load_up_to(const struct elect_input *input, const struct worker_set *set,
           uint32_t load_max)
{
    struct worker_set out;

    for (unsigned i = 0; i < WORKER_WORDS; i++) {
        out.word[i] = 0;
        for (uint64_t bits = set->word[i]; bits != 0; bits &= bits - 1) {
            unsigned bit = (unsigned)__builtin_ctzll(bits);
            uint64_t keep = input->load[i * 64 + bit] <= load_max;
            out.word[i] |= keep << bit;
        }
    }
    return out;
}

static uint32_t
best_overlap(const struct elect_input *input, const struct worker_set *set)
{
    uint32_t best = 0;

    if (input->match == NULL) {
        return 0;
    }
    struct worker_set holders = worker_set_and(set, &input->match->workers);
    WORKER_SET_EACH (slot, &holders) {
        uint32_t depth = input->match->depth[slot];
        best = depth > best ? depth : best;
    }
    return best;
}

/* Those of the set with at least overlap_min (above 0) blocks. */
static struct worker_set
overlap_from(const struct elect_input *input, const struct worker_set *set,
             uint32_t overlap_min)
{
    struct worker_set out = worker_set_and(set, &input->match->workers);

    WORKER_SET_EACH (slot, &out) {
        if (input->match->depth[slot] < overlap_min) {
            worker_set_remove(&out, slot);
        }
    }
    return out;
}

static uint32_t
near_overlap(const struct elect_input *input, uint32_t best)
{
    uint32_t slack = input->total_blocks / NEAR_OVERLAP_DIVISOR;

    return best > slack ? best - slack : 1;
}

static uint32_t
near_load(uint32_t min_load)
{
    return min_load == 0
               ? 0
               : add_saturated(min_load, 1 + min_load / NEAR_LOAD_DIVISOR);
}

static struct worker_set
without_pressure(const struct elect_config *config,
                 const struct elect_input *input)
{
    struct worker_set roomy = input->candidates;

    if (config->kv_pressure_max_permille == 0 || input->kv_usage == NULL) {
        return roomy;
    }
    WORKER_SET_EACH (slot, &input->candidates) {
        if (input->kv_usage[slot] > config->kv_pressure_max_permille) {
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
    plan->overlap_min = near_overlap(input, best);
    plan->near = overlap_from(input, &plan->near, plan->overlap_min);
}

static void
plan_balance(const struct elect_config *config, const struct elect_input *input,
             struct elect_plan *plan, uint32_t min_load)
{
    plan->mode = ELECT_BALANCE;
    plan->load_max = add_saturated(min_load, elect_tolerance(config, min_load));
    plan->near = load_up_to(input, &plan->usable, plan->load_max);
    uint32_t best = best_overlap(input, &plan->near);
    if (best > 0) {
        narrow_to_overlap(input, plan, best);
    }
    plan->reason = best > 0
                       ? "imbalanced: longest prefix among the least loaded"
                       : "imbalanced: among the least loaded";
}

static void
plan_kvasir(const struct elect_config *config, const struct elect_input *input,
            struct elect_plan *plan)
{
    struct span span = load_span(input, &plan->usable);

    plan->imbalanced = span.max - span.min > imbalance_spread(config, span.min);
    if (plan->imbalanced) {
        plan_balance(config, input, plan, span.min);
        return;
    }
    uint32_t best = best_overlap(input, &plan->usable);
    if (worth_it(config, input, best)) {
        plan->mode = ELECT_AFFINITY;
        plan->near = plan->usable;
        narrow_to_overlap(input, plan, best);
        plan->reason = "longest prefix";
        return;
    }
    plan->mode = ELECT_BALANCE;
    plan->load_max = near_load(span.min);
    plan->near = load_up_to(input, &plan->usable, plan->load_max);
    plan->reason = best > 0 ? "prefix too short: least load"
                            : "no prefix known: least load";
}

void
elect_plan_make(const struct elect_config *config,
                const struct elect_input *input, struct elect_plan *plan)
{
    *plan = (struct elect_plan){
        .usable = without_pressure(config, input),
        .mode = ELECT_POLICY,
        .load_max = UINT32_MAX,
    };
    if (worker_set_empty(&plan->usable)) {
        plan->reason = "no candidate";
        return;
    }
    if (config->policy == ELECT_KVASIR) {
        plan_kvasir(config, input, plan);
        CHECK(!worker_set_empty(&plan->near));
        return;
    }
    plan->near = plan->usable;
    plan->reason = policy_names[config->policy];
    if (config->policy == ELECT_LEAST_LOAD) {
        plan->load_max = load_span(input, &plan->usable).min;
        plan->near = load_up_to(input, &plan->usable, plan->load_max);
    }
}

/* The k-th slot of the set, from 0; k is below its count. */
static uint32_t
nth_slot(const struct worker_set *set, uint32_t k)
{
    unsigned i = 0;
    uint32_t count = (uint32_t)__builtin_popcountll(set->word[0]);

    while (k >= count) {
        k -= count;
        i++;
        CHECK(i < WORKER_WORDS);
        count = (uint32_t)__builtin_popcountll(set->word[i]);
    }
    uint64_t bits = set->word[i];
    for (; k > 0; k--) {
        bits &= bits - 1;
    }
    return i * 64 + (uint32_t)__builtin_ctzll(bits);
}

/* [0, bound) from 32 random bits; biased by at most bound / 2^32. */
static uint32_t
scale(uint32_t random, uint32_t bound)
{
    return (uint32_t)((uint64_t)random * bound >> 32);
}

static uint32_t
draw_one(const struct worker_set *set, struct rng *rng)
{
    uint32_t count = worker_set_count(set);

    return nth_slot(set,
                    count == 1 ? 0 : scale((uint32_t)rng_next(rng), count));
}

/* Two different draws: the lower load, then the greater overlap, then the
 * first drawn. */
static uint32_t
draw_two(const struct elect_input *input, const struct worker_set *set,
         struct rng *rng)
{
    uint32_t count = worker_set_count(set);

    if (count == 1) {
        return worker_set_next(set, 0);
    }
    uint64_t random = rng_next(rng);
    uint32_t i = scale((uint32_t)random, count);
    uint32_t j = scale((uint32_t)(random >> 32), count - 1);
    uint32_t a = nth_slot(set, i);
    uint32_t b = nth_slot(set, j + (j >= i));
    if (input->load[a] != input->load[b]) {
        return input->load[a] < input->load[b] ? a : b;
    }
    return elect_overlap(input, b) > elect_overlap(input, a) ? b : a;
}

static uint32_t
next_in_turn(const struct worker_set *set, struct elect_state *state)
{
    uint32_t slot = state->last < WORKERS_MAX
                        ? worker_set_next(set, state->last + 1)
                        : WORKER_NONE;

    if (slot == WORKER_NONE) {
        slot = worker_set_next(set, 0);
    }
    state->last = slot;
    return slot;
}

static uint32_t
highest_hash(const struct elect_input *input, const struct worker_set *set)
{
    uint32_t best = WORKER_NONE;
    uint64_t best_weight = 0;

    WORKER_SET_EACH (slot, set) {
        uint64_t weight = rng_mix(input->prefix_key ^ input->identity[slot]);
        if (best == WORKER_NONE || weight > best_weight) {
            best = slot;
            best_weight = weight;
        }
    }
    return best;
}

static uint32_t
draw(const struct elect_config *config, struct elect_state *state,
     const struct elect_input *input, const struct worker_set *near,
     struct rng *rng)
{
    switch (config->policy) {
    case ELECT_KVASIR:
    case ELECT_POWER_OF_TWO:
        return draw_two(input, near, rng);
    case ELECT_ROUND_ROBIN:
        return next_in_turn(near, state);
    case ELECT_LEAST_LOAD:
    case ELECT_RANDOM:
        return draw_one(near, rng);
    case ELECT_RENDEZVOUS:
        break;
    }
    return highest_hash(input, near);
}

void
elect_pick(const struct elect_config *config, struct elect_state *state,
           const struct elect_input *input, struct rng *rng,
           struct elect_choice *choice)
{
    struct elect_plan plan;

    elect_plan_make(config, input, &plan);
    *choice = (struct elect_choice){
        .worker = WORKER_NONE,
        .mode = plan.mode,
        .imbalanced = plan.imbalanced,
        .reason = plan.reason,
    };
    if (!worker_set_empty(&plan.near)) {
        choice->worker = draw(config, state, input, &plan.near, rng);
        choice->overlap = elect_overlap(input, choice->worker);
        CHECK(worker_set_has(&input->candidates, choice->worker));
    }
}
