/* The rule of elect.h: among which workers chance is to decide. */
#include "node/elect_plan.h"

#include "index/base/check.h"
#include "node/elect.h"

#define NEAR_OVERLAP_DIVISOR 32 /* of total_blocks */
#define NEAR_LOAD_DIVISOR    8  /* of the least load */

struct span {
    uint32_t min;
    uint32_t max;
};

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

/*
 * Words of the set that are full are done in loops without a branch over 64
 * neighbours, which compilers turn into vector code: in a fleet of hundreds
 * nearly all words are. The others go bit by bit.
 */
static void
widen_full(struct span *span, const uint32_t load[64])
{
    uint32_t min = UINT32_MAX;
    uint32_t max = 0;

    for (unsigned i = 0; i < 64; i++) {
        min = load[i] < min ? load[i] : min;
        max = load[i] > max ? load[i] : max;
    }
    span->min = min < span->min ? min : span->min;
    span->max = max > span->max ? max : span->max;
}

static struct span
load_span(const struct elect_input *input, const struct worker_set *set)
{
    struct span span = {.min = UINT32_MAX, .max = 0};

    for (unsigned i = 0; i < WORKER_WORDS; i++) {
        const uint32_t *loads = &input->load[i * 64];
        if (set->word[i] == UINT64_MAX) {
            widen_full(&span, loads);
            continue;
        }
        for (uint64_t bits = set->word[i]; bits != 0; bits &= bits - 1) {
            uint32_t load = loads[__builtin_ctzll(bits)];
            span.min = load < span.min ? load : span.min;
            span.max = load > span.max ? load : span.max;
        }
    }
    return span;
}

/* A bit for each of 64 loads that is at most load_max. */
static uint64_t
full_up_to(const uint32_t load[64], uint32_t load_max)
{
    uint8_t keep[64];
    uint64_t out = 0;

    for (unsigned i = 0; i < 64; i++) {
        keep[i] = load[i] <= load_max;
    }
    for (unsigned i = 0; i < 8; i++) {
        uint64_t eight;
        memcpy(&eight, keep + i * 8, sizeof eight);
        /* Gathers the low bits of the eight bytes in the top byte. */
        out |= (eight * UINT64_C(0x0102040810204080) >> 56) << (i * 8);
    }
    return out;
}

static struct worker_set
load_up_to(const struct elect_input *input, const struct worker_set *set,
           uint32_t load_max)
{
    struct worker_set out;

    for (unsigned i = 0; i < WORKER_WORDS; i++) {
        const uint32_t *loads = &input->load[i * 64];
        if (set->word[i] == UINT64_MAX) {
            out.word[i] = full_up_to(loads, load_max);
            continue;
        }
        out.word[i] = 0;
        for (uint64_t bits = set->word[i]; bits != 0; bits &= bits - 1) {
            unsigned bit = (unsigned)__builtin_ctzll(bits);
            uint64_t keep = loads[bit] <= load_max;
            out.word[i] |= keep << bit;
        }
    }
    return out;
}

static uint32_t
best_overlap(const struct elect_input *input, const struct worker_set *set)
{
    uint32_t best = 0;

    for (unsigned i = 0; i < WORKER_WORDS && input->match != NULL; i++) {
        const uint32_t *depths = &input->match->depth[i * 64];
        uint64_t bits = set->word[i] & input->match->workers.word[i];
        for (; bits != 0; bits &= bits - 1) {
            uint32_t depth = depths[__builtin_ctzll(bits)];
            best = depth > best ? depth : best;
        }
    }
    return best;
}

/* Those of the set with at least overlap_min (above 0) blocks. */
static struct worker_set
overlap_from(const struct elect_input *input, const struct worker_set *set,
             uint32_t overlap_min)
{
    struct worker_set out;

    for (unsigned i = 0; i < WORKER_WORDS; i++) {
        const uint32_t *depths = &input->match->depth[i * 64];
        uint64_t bits = set->word[i] & input->match->workers.word[i];
        out.word[i] = 0;
        for (; bits != 0; bits &= bits - 1) {
            unsigned bit = (unsigned)__builtin_ctzll(bits);
            uint64_t keep = depths[bit] >= overlap_min;
            out.word[i] |= keep << bit;
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

/* How many requests it takes to fill all of the set up to a level. */
static uint64_t
room_below(const struct elect_input *input, const struct worker_set *set,
           uint32_t level)
{
    uint64_t room = 0;

    WORKER_SET_EACH (slot, set) {
        uint32_t load = input->load[slot];
        room += load < level ? level - load : 0;
    }
    return room;
}

/* The level up to which the unseen requests would fill the set, if they went
 * where the least is. */
static uint32_t
unseen_level(const struct elect_input *input, const struct worker_set *set,
             uint32_t min_load)
{
    uint32_t low = min_load; /* has no more room than unseen */
    uint32_t high = add_saturated(min_load, input->unseen);

    while (low < high) {
        uint32_t middle = low + (high - low + 1) / 2;
        if (room_below(input, set, middle) <= input->unseen) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low;
}

static uint32_t
least_up_to(const struct elect_input *input, const struct worker_set *set,
            uint32_t min_load, uint32_t near)
{
    if (input->unseen == 0) {
        return near;
    }
    uint32_t level = unseen_level(input, set, min_load);
    return level > near ? level : near;
}

/* Whether any slot, candidate or not, is above the limit: the cheap question
 * whose answer is nearly always no. */
static bool
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

    if (limit == 0 || input->kv_usage == NULL ||
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
    plan->load_max =
        least_up_to(input, &plan->usable, span.min, near_load(span.min));
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
    plan->reason = elect_policy_name(config->policy);
    if (config->policy == ELECT_LEAST_LOAD) {
        uint32_t min = load_span(input, &plan->usable).min;
        plan->load_max = least_up_to(input, &plan->usable, min, min);
        plan->near = load_up_to(input, &plan->usable, plan->load_max);
    }
}
