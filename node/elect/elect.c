/*
 * Electing: the draw among near-equals, and the simpler policies.
 */
#include "node/elect/elect.h"

#include "index/base/check.h"
#include "node/elect/elect_hash_internal.h"
#include "node/elect/elect_named_internal.h"
#include "node/elect/elect_plan_internal.h"
#include "node/elect/elect_sets_internal.h"

const char *const elect_policy_names[ELECT_POLICIES + 1] = {
    [ELECT_KVASIR] = "kvasir",
    [ELECT_ROUND_ROBIN] = "round_robin",
    [ELECT_LEAST_LOAD] = "least_load",
    [ELECT_RANDOM] = "random",
    [ELECT_POWER_OF_TWO] = "power_of_two",
    [ELECT_RENDEZVOUS] = "rendezvous",
    [ELECT_PREFIX_HASH] = "prefix_hash",
    [ELECT_CONSISTENT_HASHING] = "consistent_hashing",
    [ELECT_CACHE_AWARE] = "cache_aware",
    [ELECT_COMPOSITE] = "composite",
    [ELECT_DYNAMO] = "dynamo",
};

const char *
elect_policy_name(enum elect_policy policy)
{
    CHECK(policy < ELECT_POLICIES);
    return elect_policy_names[policy];
}

const char *
elect_mode_name(enum elect_mode mode)
{
    switch (mode) {
    case ELECT_AFFINITY:
        return "affinity";
    case ELECT_BALANCE:
        return "balance";
    case ELECT_SESSION:
        return "session";
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
by_hash(enum elect_policy policy, const struct elect_input *input,
        const struct worker_set *set)
{
    return policy == ELECT_CONSISTENT_HASHING ? elect_hash_ring(input, set)
                                              : elect_hash_highest(input, set);
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
    case ELECT_DYNAMO:
        return config->temperature_permille > 0
                   ? elect_named_softmax(config, plan, rng_unit(rng))
                   : draw_one(near, rng);
    case ELECT_RANDOM:
    case ELECT_CACHE_AWARE:
    case ELECT_COMPOSITE:
        return draw_one(near, rng);
    case ELECT_RENDEZVOUS:
    case ELECT_PREFIX_HASH:
    case ELECT_CONSISTENT_HASHING:
    case ELECT_POLICIES:
        break;
    }
    return by_hash(config->policy, input, near);
}

/* Whether a later one by hash had to do, for the load of the first. */
static enum elect_hashed
hashed_as(const struct elect_config *config, const struct elect_input *input,
          struct elect_plan *plan, uint32_t worker)
{
    if (config->policy != ELECT_PREFIX_HASH &&
        config->policy != ELECT_CONSISTENT_HASHING) {
        return ELECT_NOT_HASHED;
    }
    if (worker == by_hash(config->policy, input, &plan->usable)) {
        return ELECT_HASH_FIRST;
    }
    plan->reason = config->policy == ELECT_PREFIX_HASH
                       ? "prefix_hash: its worker has too many requests"
                       : "consistent_hashing: its worker has too many requests";
    return ELECT_HASH_OVERFLOW;
}

/* A prompt that is new goes where all nodes would send it. WORKER_NONE: chance
 * decides. */
static uint32_t
agree(const struct elect_input *input, struct elect_plan *plan,
      enum elect_hashed *hashed)
{
    uint32_t most = elect_hash_bound(input->load, &plan->usable);
    struct worker_set roomy;
    elect_up_to(input->load, &plan->near, most, &roomy);
    uint32_t worker = elect_hash_highest(input, &plan->near);

    CHECK_SLOW(input->prefix_key != 0);
    if (worker_set_has(&roomy, worker)) {
        *hashed = ELECT_HASH_FIRST;
        plan->reason = plan->cold
                           ? "new prefix: first by hash of the least cost"
                           : plan->reason;
        return worker;
    }
    worker = elect_hash_highest(input, &roomy);
    if (worker == WORKER_NONE) {
        *hashed = ELECT_HASH_FALLBACK;
    } else {
        *hashed = ELECT_HASH_OVERFLOW;
        plan->reason =
            plan->cold ? "new prefix: the first by hash has too many requests"
                       : plan->reason;
    }
    return worker;
}

static uint32_t
choose(const struct elect_config *config, struct elect_state *state,
       const struct elect_input *input, struct elect_plan *plan,
       struct rng *rng, enum elect_hashed *hashed)
{
    uint32_t worker = WORKER_NONE;
    bool agreed =
        plan->cold || (input->hashed && config->policy == ELECT_KVASIR);

    if (agreed && input->identity != NULL && input->prefix_key != 0 &&
        worker_set_count(&plan->near) > 1) {
        worker = agree(input, plan, hashed);
    }
    if (worker != WORKER_NONE) {
        return worker;
    }
    worker = draw(config, state, input, plan, rng);
    if (!plan->cold) {
        *hashed = hashed_as(config, input, plan, worker);
    }
    CHECK(worker_set_has(&input->candidates, worker));
    return worker;
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
        choice->worker =
            choose(config, state, input, &plan, rng, &choice->hashed);
        choice->overlap = elect_overlap(input, choice->worker);
        choice->most = plan.most;
        choice->load = input->load[choice->worker];
        choice->cost = plan.weighed ? plan.cost[choice->worker] : 0;
        elect_plan_settle(input, &plan, choice->worker);
    }
    choice->candidates = worker_set_count(&input->candidates);
    if (input->slo != NULL) {
        choice->late =
            worker_set_count(&plan.roomy) - worker_set_count(&plan.usable);
    }
    choice->mode = plan.mode;
    choice->imbalanced = plan.imbalanced;
    choice->reason = plan.reason;
}
