/*
 * Electing: the draw among near-equals, and the simpler policies.
 */
#include "node/elect/elect.h"

#include "node/elect/elect_plan_internal.h"

static const char *const policy_names[] = {
    [ELECT_KVASIR] = "kvasir",
    [ELECT_ROUND_ROBIN] = "round_robin",
    [ELECT_LEAST_LOAD] = "least_load",
    [ELECT_RANDOM] = "random",
    [ELECT_POWER_OF_TWO] = "power_of_two",
    [ELECT_RENDEZVOUS] = "rendezvous",
    [ELECT_PREFIX_HASH] = "prefix_hash",
};

const char *
elect_policy_name(enum elect_policy policy)
{
    CHECK((size_t)policy < sizeof policy_names / sizeof *policy_names);
    return policy_names[policy];
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

/* The k-th slot of the set, from 0; k is below its count. */
static uint32_t
nth_slot(const struct worker_set *set, uint32_t k)
{
    unsigned i = 0;
    uint32_t count = (uint32_t)__builtin_popcountll(set->word[0]);

    CHECK_SLOW(k < worker_set_count(set));
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
    CHECK_SLOW(bound > 0);
    return (uint32_t)((uint64_t)random * bound >> 32);
}

static uint32_t
draw_one(const struct worker_set *set, struct rng *rng)
{
    uint32_t count = worker_set_count(set);

    CHECK_SLOW(count > 0);
    return nth_slot(set,
                    count == 1 ? 0 : scale((uint32_t)rng_next(rng), count));
}

/* Two different draws: the lower cost where costs decide, then the lower load,
 * then the greater overlap, then the first drawn. */
static uint32_t
draw_two(const struct elect_input *input, const struct elect_plan *plan,
         struct rng *rng)
{
    const struct worker_set *set = &plan->near;
    uint32_t count = worker_set_count(set);

    CHECK_SLOW(count > 0);
    if (count == 1) {
        return worker_set_next(set, 0);
    }
    uint64_t random = rng_next(rng);
    uint32_t i = scale((uint32_t)random, count);
    uint32_t j = scale((uint32_t)(random >> 32), count - 1);
    uint32_t a = nth_slot(set, i);
    uint32_t b = nth_slot(set, j + (j >= i));
    if (plan->weighed && plan->cost[a] != plan->cost[b]) {
        return plan->cost[a] < plan->cost[b] ? a : b;
    }
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

    CHECK(input->identity != NULL);
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
     const struct elect_input *input, const struct elect_plan *plan,
     struct rng *rng)
{
    const struct worker_set *near = &plan->near;

    CHECK_SLOW(!worker_set_empty(near));
    switch (config->policy) {
    case ELECT_KVASIR:
    case ELECT_POWER_OF_TWO:
        return draw_two(input, plan, rng);
    case ELECT_ROUND_ROBIN:
        return next_in_turn(near, state);
    case ELECT_LEAST_LOAD:
        return input->unseen == 0 ? draw_one(near, rng)
                                  : draw_two(input, plan, rng);
    case ELECT_RANDOM:
        return draw_one(near, rng);
    case ELECT_RENDEZVOUS:
    case ELECT_PREFIX_HASH:
    case ELECT_POLICIES:
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

    CHECK(input->load != NULL);
    elect_plan_make(config, input, &plan);
    *choice = (struct elect_choice){.worker = WORKER_NONE};
    if (!worker_set_empty(&plan.near)) {
        choice->worker = draw(config, state, input, &plan, rng);
        choice->overlap = elect_overlap(input, choice->worker);
        choice->load = input->load[choice->worker];
        choice->cost = plan.weighed ? plan.cost[choice->worker] : 0;
        CHECK(worker_set_has(&input->candidates, choice->worker));
        elect_plan_settle(input, &plan, choice->worker);
        if (config->policy == ELECT_PREFIX_HASH &&
            choice->worker != highest_hash(input, &plan.usable)) {
            plan.reason = "prefix_hash: its worker has too many requests";
        }
    }
    choice->candidates = worker_set_count(&input->candidates);
    choice->mode = plan.mode;
    choice->imbalanced = plan.imbalanced;
    choice->reason = plan.reason;
}
