#include <criterion/criterion.h>

#include "chaos/plan/plan_mix.h"

static struct plan_mix mix;

static void
setup(void)
{
    plan_mix_init(&mix);
}

static void
teardown(void)
{
    plan_mix_fini(&mix);
}

TestSuite(chaos_plan_mix, .init = setup, .fini = teardown);

Test(chaos_plan_mix, weights_become_shares_and_parts_are_cut_by_length)
{
    cr_assert_eq(plan_mix_add(&mix, 900, 100, 3), 0);
    cr_assert_eq(plan_mix_add(&mix, 10, 10, 1), 0);
    plan_mix_finish(&mix);
    struct plan_part below = plan_mix_part(&mix, 0, 999);
    struct plan_part rest = plan_mix_part(&mix, 999, 1000);

    cr_expect_eq(below.count, 1);
    cr_expect_float_eq(below.share, 0.25, 1e-12);
    cr_expect_float_eq(rest.share, 0.75, 1e-12);
    cr_expect_eq(plan_mix_part(&mix, 1000, 2000).count, 0);
    cr_expect_eq(plan_mix_longest(&mix), 1000);
}

static const struct plan_bucket buckets[] = {{100, .5}, {1100, 1}};
static const struct plan_cdf cdf = {buckets, 2, 0.2, 0.05};

Test(chaos_plan_mix, a_cdf_keeps_its_shares_its_means_and_its_outputs)
{
    double total = 0;
    double output = 0;

    cr_assert_eq(plan_mix_add_cdf(&mix, &cdf), 0);
    plan_mix_finish(&mix);
    for (uint32_t i = 0; i < mix.count; i++) {
        total += mix.points[i].weight * plan_point_total(&mix.points[i]);
        output += mix.points[i].weight * mix.points[i].output;
    }
    cr_expect_float_eq(plan_mix_part(&mix, 0, 100).share, 0.5, 1e-9);
    /* Even inside buckets: 50 and 600 on average. */
    cr_expect_float_eq(total, 0.5 * 50 + 0.5 * 600, 1);
    cr_expect_float_eq(output, total * 0.2, 1.5);
}

Test(chaos_plan_mix, quantiles_of_a_part_are_the_parts_own)
{
    for (uint32_t i = 1; i <= 100; i++) {
        cr_assert_eq(plan_mix_add(&mix, i, 1, 1), 0);
    }
    plan_mix_finish(&mix);
    struct plan_part upper = plan_mix_part(&mix, 51, 101);

    cr_expect_eq(upper.count, 50);
    cr_expect_eq(plan_part_quantile(&upper, 0.01), 52);
    cr_expect_eq(plan_part_quantile(&upper, 1), 101);
}

Test(chaos_plan_mix, draws_follow_the_weights)
{
    struct rng rng;
    uint32_t seldom = 0;

    rng_init(&rng, 1);
    cr_assert_eq(plan_mix_add(&mix, 5, 5, 1), 0);
    cr_assert_eq(plan_mix_add(&mix, 50, 5, 9), 0);
    plan_mix_finish(&mix);
    struct plan_part all = plan_mix_part(&mix, 0, 100);
    for (uint32_t i = 0; i < 10000; i++) {
        seldom += plan_part_draw(&all, &rng)->prompt == 5;
    }
    cr_expect(seldom > 900 && seldom < 1100, "%u", seldom);
}
