#include <criterion/criterion.h>
#include <string.h>

#include "index/base/rng.h"
#include "node/view/pool_tune.h"

static struct pool_budgets budgets;
static const struct pool_told nothing = {.threshold = 0};

/* That many requests of a budget; without answers, so that work is prompts. */
static void
add(uint32_t budget, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        pool_budgets_add(&budgets, budget, budget, 0);
    }
}

static struct pool_told
judge(uint32_t shorter, uint32_t longer, uint32_t short_len,
      const struct pool_told *before)
{
    const struct pool_engines engines = {
        .shorter = shorter, .longer = longer, .short_len = short_len};

    return pool_tune_judge(&budgets, &engines, before);
}

Test(node_pool_tune, a_class_ends_where_it_says)
{
    cr_expect_eq(pool_budget_upto(52), 8192);
    cr_expect_eq(pool_budget_upto(POOL_BUDGETS - 1), POOL_TOKENS_MAX);
    for (uint32_t i = 1; i < POOL_BUDGETS; i++) {
        uint32_t upto = pool_budget_upto(i);
        cr_assert_geq(upto, pool_budget_upto(i - 1));
        memset(&budgets, 0, sizeof(budgets));
        add(upto, 1);
        add(upto + 1, 1);
        double below = 0;
        for (uint32_t c = 0; c <= i; c++) {
            below += budgets.requests[c];
        }
        cr_assert_eq(below, i == POOL_BUDGETS - 1 ? 2 : 1, "class %u", i);
    }
    memset(&budgets, 0, sizeof(budgets));
    add(0, 5); /* not known */
    add(1, 1);
    add(UINT32_MAX, 1);
    cr_expect_eq(budgets.requests[0], 1);
    cr_expect_eq(budgets.requests[POOL_BUDGETS - 1], 1);
}

Test(node_pool_tune, an_answer_is_work_and_what_is_cached_is_none)
{
    pool_budgets_add(&budgets, 1000, 300, 50);
    cr_expect_eq(budgets.work[40], 300 + 50 * POOL_ANSWER_TOKENS);
    struct pool_budgets twice = budgets;
    pool_budgets_join(&twice, &budgets);
    pool_budgets_fade(&twice, 0.25);
    cr_expect_eq(twice.requests[40], 0.5);
    cr_expect_eq(twice.work[40], budgets.work[40] / 2);
}

/* 400 requests of 1,000, 100 of 4,000, 50 of 8,000: as much work each. */
static void
add_three(void)
{
    add(1024, 400);
    add(4096, 100);
    add(8192, 50);
}

Test(node_pool_tune, both_kinds_have_as_much_to_do_for_each_engine)
{
    add_three();
    struct pool_told told = judge(1, 2, 65536, &nothing);
    cr_expect_geq(told.threshold, 1024);
    cr_expect_lt(told.threshold, 4096);
    cr_expect_eq(told.weight, 550);
    told = judge(2, 1, 65536, &nothing);
    cr_expect_geq(told.threshold, 4096);
    cr_expect_lt(told.threshold, 8192);
    /* More short engines than work for them: all that fits. */
    cr_expect_eq(judge(50, 1, 65536, &nothing).threshold, 65536);
    cr_expect_eq(judge(50, 1, 5000, &nothing).threshold, 5000);
}

Test(node_pool_tune, it_is_the_least_load_of_all_thresholds)
{
    struct rng rng;

    rng_init(&rng, 8);
    for (uint32_t round = 0; round < 200; round++) {
        memset(&budgets, 0, sizeof(budgets));
        for (uint32_t i = 0; i < 300; i++) {
            uint32_t budget = 1 + (uint32_t)rng_below(
                                      &rng, UINT64_C(1) << rng_below(&rng, 18));
            pool_budgets_add(&budgets, budget, budget,
                             (uint32_t)rng_below(&rng, 400));
        }
        uint32_t shorter = 1 + (uint32_t)rng_below(&rng, 8);
        uint32_t longer = 1 + (uint32_t)rng_below(&rng, 8);
        uint32_t len = 1 + (uint32_t)rng_below(&rng, 100000);
        uint32_t found = judge(shorter, longer, len, &nothing).threshold;
        double least = -1;
        double got = -1;
        cr_assert(found > 0 && found <= len);
        for (uint32_t i = 0; i < POOL_BUDGETS; i++) {
            double below = 0;
            double above = 0;
            for (uint32_t c = 0; c < POOL_BUDGETS; c++) {
                *(c <= i ? &below : &above) += budgets.work[c];
            }
            double load = below / shorter > above / longer ? below / shorter
                                                           : above / longer;
            uint32_t from = i > 0 ? pool_budget_upto(i - 1) : 0;
            least = from < len && (least < 0 || load < least) ? load : least;
            got = from < found && found <= pool_budget_upto(i) ? load : got;
        }
        cr_assert_float_eq(got, least, 1e-6 * least + 1e-9, "round %u", round);
    }
}

Test(node_pool_tune, it_stays_until_another_is_better_by_a_tenth)
{
    add_three();
    struct pool_told first = judge(1, 2, 65536, &nothing);
    add(1024, 20); /* 5 % more below it: another would be less even */
    struct pool_told next = judge(1, 2, 65536, &first);
    cr_expect_eq(next.threshold, first.threshold);
    add(1024, 2000);
    add(64, 20000);
    struct pool_told later = judge(1, 2, 65536, &next);
    cr_expect_lt(later.threshold, first.threshold);
    /* Near the border of a tenth the old one stays, whichever it is. */
    struct pool_told other = {.threshold = 1024, .weight = 1};
    memset(&budgets, 0, sizeof(budgets));
    add(1024, 1000);
    add(1448, 70);
    add(8192, 125);
    cr_expect_eq(judge(1, 1, 65536, &other).threshold, 1024);
    cr_expect_neq(judge(1, 1, 65536, &nothing).threshold, 0);
}

Test(node_pool_tune, engines_that_change_are_followed)
{
    add_three();
    struct pool_told before = {.threshold = 65536, .weight = 550};
    cr_expect_leq(judge(2, 1, 4000, &before).threshold, 4000);
}

Test(node_pool_tune, without_two_pools_or_enough_requests_there_is_none)
{
    add(1024, (uint32_t)POOL_REQUESTS - 1);
    cr_expect_eq(judge(1, 1, 8192, &nothing).threshold, 0);
    add(1024, 1);
    cr_expect_neq(judge(1, 1, 8192, &nothing).threshold, 0);
    cr_expect_eq(judge(0, 2, 0, &nothing).threshold, 0);
    cr_expect_eq(judge(2, 0, 8192, &nothing).threshold, 0);
}

Test(node_pool_tune, nodes_agree_on_the_median_in_whatever_order_they_hear)
{
    struct pool_told told[] = {{8192, 100}, {1024, 150}, {4096, 100}, {0, 900}};
    struct pool_told other[] = {
        {0, 900}, {4096, 100}, {8192, 100}, {1024, 150}};
    struct pool_told none[] = {{0, 5}, {0, 0}};
    struct pool_told idle[] = {{4096, 0}};

    cr_expect_eq(pool_tune_agree(told, 4), 4096);
    cr_expect_eq(pool_tune_agree(other, 4), 4096);
    cr_expect_eq(pool_tune_agree(none, 2), 0);
    cr_expect_eq(pool_tune_agree(idle, 1), 0);
    cr_expect_eq(pool_tune_agree(told, 0), 0);
}
