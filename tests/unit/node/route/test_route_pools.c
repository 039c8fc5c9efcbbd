#include <criterion/criterion.h>

#include "node/route/route.h"

static struct fleet_view view;
static struct elect_config config = ELECT_CONFIG_DEFAULT;
static struct pools pools;
static struct worker_set serves;
static struct worker_set candidates;

/* Workers 0, 1, ... of these lengths; all may take requests. */
static void
lengths(const uint32_t *len, uint32_t count)
{
    worker_set_clear(&serves);
    view.same_len = len[0];
    for (uint32_t i = 0; i < count; i++) {
        view.max_len[i] = len[i];
        view.same_len = len[i] == len[0] ? view.same_len : 0;
        view.tells_len = view.tells_len || len[i] != 0;
        worker_set_add(&serves, i);
    }
    candidates = serves;
}

static int
ask(uint64_t prompt, uint64_t answer, bool counted)
{
    pools.need = (struct pools_need){
        .prompt = prompt, .answer = answer, .counted = counted, .known = true};
    pools.threshold = config.pool_threshold;
    return pools_apply(&pools, &config, &view, &serves, &candidates);
}

#define TWO_POOLS() lengths((const uint32_t[]){8192, 8192, 65536}, 3)

Test(node_route_pools, what_is_too_long_for_an_engine_does_not_go_there)
{
    TWO_POOLS();
    cr_assert_eq(ask(8000, 192, true), 0);
    cr_expect_eq(worker_set_count(&candidates), 3);
    cr_assert_eq(ask(8000, 193, true), 0);
    cr_expect_eq(worker_set_count(&candidates), 1);
    cr_expect(worker_set_has(&candidates, 2));
    cr_expect_eq(worker_set_count(&pools.too_short), 2);
}

Test(node_route_pools, without_max_tokens_one_is_generated)
{
    TWO_POOLS();
    cr_assert_eq(ask(8191, 0, true), 0);
    cr_expect_eq(worker_set_count(&candidates), 3);
    cr_assert_eq(ask(8192, 0, true), 0);
    cr_expect_eq(worker_set_count(&candidates), 1);
}

Test(node_route_pools, counted_tokens_that_nobody_takes_are_refused)
{
    TWO_POOLS();
    cr_expect_eq(ask(65000, 537, true), ROUTE_E_TOO_LONG);
    cr_expect_eq(pools.longest, 65536);
    cr_expect(worker_set_empty(&candidates));
}

Test(node_route_pools, an_estimate_refuses_nothing_and_takes_the_longest)
{
    TWO_POOLS();
    cr_assert_eq(ask(100000, 10, false), 0);
    cr_expect_eq(worker_set_count(&candidates), 1);
    cr_expect(worker_set_has(&candidates, 2));
    /* max_tokens is no estimate. */
    TWO_POOLS();
    cr_expect_eq(ask(10, 65537, false), ROUTE_E_TOO_LONG);
}

Test(node_route_pools, what_a_worker_that_is_down_would_take_is_not_refused)
{
    TWO_POOLS();
    worker_set_remove(&candidates, 2);
    cr_expect_eq(ask(20000, 10, true), 0);
    cr_expect(worker_set_empty(&candidates));
    /* Nor is it sent to one that max_tokens alone are too many for. */
    TWO_POOLS();
    worker_set_remove(&candidates, 2);
    cr_expect_eq(ask(100, 8193, false), 0);
    cr_expect(worker_set_empty(&candidates));
}

Test(node_route_pools, who_tells_no_length_takes_any)
{
    lengths((const uint32_t[]){4096, 0}, 2);
    cr_assert_eq(ask(1000000, 1000000, true), 0);
    cr_expect_eq(worker_set_count(&candidates), 1);
    cr_expect_eq(pools.longest, 0);
    view.tells_len = false;
    lengths((const uint32_t[]){0, 0}, 2);
    cr_assert_eq(ask(1000000, 1000000, true), 0);
    cr_expect_eq(worker_set_count(&candidates), 2);
    cr_expect_eq(pools.wants, POOLS_NONE);
}

Test(node_route_pools, the_other_pool_costs_as_the_threshold_says)
{
    TWO_POOLS();
    config.pool_threshold = 4000;
    cr_assert_eq(ask(3000, 1000, true), 0);
    cr_expect_eq(pools.wants, POOLS_SHORT);
    cr_expect_eq(pools.aside[0], 0);
    cr_expect_eq(pools.aside[2], 16 * ELECT_REQUEST_TOKENS);
    cr_expect(pools_spilled(&pools, 2) && !pools_spilled(&pools, 1));
    cr_assert_eq(ask(3000, 1001, true), 0);
    cr_expect_eq(pools.wants, POOLS_LONG);
    cr_expect_eq(pools.aside[0], 16 * ELECT_REQUEST_TOKENS);
    cr_expect_eq(pools.aside[2], 0);
    /* An answer of unknown length counts as a usual one. */
    cr_assert_eq(ask(4000 - ELECT_REQUEST_TOKENS, 0, false), 0);
    cr_expect_eq(pools.wants, POOLS_SHORT);
}

Test(node_route_pools, engines_of_one_length_are_no_pools)
{
    lengths((const uint32_t[]){8192, 8192}, 2);
    cr_assert_eq(ask(100, 10, true), 0);
    cr_expect_eq(pools.wants, POOLS_NONE);
    cr_expect_eq(pools.longest, 8192);
    cr_expect_eq(ask(8192, 1, true), ROUTE_E_TOO_LONG);
    TWO_POOLS();
    config.pool_spill = 0;
    cr_assert_eq(ask(100, 10, true), 0);
    cr_expect_eq(pools.wants, POOLS_NONE);
    config.pool_spill = 16;
    /* What is left after the limits is one pool, too. */
    cr_assert_eq(ask(20000, 10, true), 0);
    cr_expect_eq(pools.wants, POOLS_NONE);
}

/* Two pools on virtual time: requests of 1,000 and 20,000 tokens, each in flight
 * for a while. Short ones spill over when their pool is as much fuller as
 * pool_spill says, and long ones never go where they do not fit. */
Test(node_route_pools, requests_spill_over_by_depth)
{
    uint32_t load[WORKERS_MAX] = {0};
    uint32_t spilled = 0;
    uint32_t first_spill = 0;
    struct elect_state state = {.last = WORKER_NONE};
    struct elect_choice choice;
    struct rng rng;

    rng_init(&rng, 5);
    for (uint32_t at = 0; at < 90; at++) {
        TWO_POOLS();
        cr_assert_eq(ask(1000, 100, true), 0);
        const struct elect_input input = {
            .candidates = candidates,
            .load = load,
            .aside = pools.aside,
            .total_blocks = 1000,
            .unit_tokens = 1,
        };
        elect_pick(&config, &state, &input, &rng, &choice);
        load[choice.worker]++;
        if (choice.worker == 2 && spilled++ == 0) {
            first_spill = at;
        }
    }
    /* About 17 at each of the two before the first leaves; after that each of
     * the three gets one in turn. */
    cr_expect(first_spill >= 2 * 16 && first_spill <= 2 * 45, "%u",
              first_spill);
    cr_expect_gt(spilled, 0);
    cr_expect_gt(load[0], load[2] + 8);
    cr_expect_gt(load[1], load[2] + 8);
    TWO_POOLS();
    cr_assert_eq(ask(20000, 100, true), 0);
    cr_expect_eq(worker_set_count(&candidates), 1);
    cr_expect(worker_set_has(&candidates, 2));
}

Test(node_route_pools, a_budget_is_known_or_nothing)
{
    struct pools_need need = {.prompt = 1000, .answer = 24, .known = true};

    cr_expect_eq(pools_budget(&need), 1024);
    need.answer = 0;
    cr_expect_eq(pools_budget(&need), 1000 + ELECT_REQUEST_TOKENS);
    need.prompt = UINT64_C(1) << 40;
    cr_expect_eq(pools_budget(&need), POOL_TOKENS_MAX);
    need.known = false;
    cr_expect_eq(pools_budget(&need), 0);
}
