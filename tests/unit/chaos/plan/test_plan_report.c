#include <criterion/criterion.h>
#include <jansson.h>
#include <string.h>

#include "chaos/plan/plan_report.h"

static struct plan_mix mix;
static struct plan plan;
static struct buf out;

static void
setup(void)
{
    plan_mix_init(&mix);
    buf_init(&out, 1 << 20);
    cr_assert_eq(plan_mix_add(&mix, 400, 40, 95), 0);
    cr_assert_eq(plan_mix_add(&mix, 20000, 100, 5), 0);
    plan_mix_finish(&mix);
}

static void
teardown(void)
{
    buf_fini(&out);
    plan_mix_fini(&mix);
}

TestSuite(chaos_plan_report, .init = setup, .fini = teardown);

static void
make(uint32_t requests)
{
    struct plan_setup s = {
        .mix = &mix,
        .slo = {.ttft_ms = 5000, .tpot_ms = 80},
        .rate = 50,
        .threshold = 8192,
        .max_len = 32768,
        .requests = requests,
        .price = 2,
        .seed = 42,
    };

    cr_assert(plan_engine_find("a100-flat", &s.engine));
    cr_assert_eq(plan_make(&s, &plan), 0);
}

Test(chaos_plan_report, two_pools_share_all_requests)
{
    make(0);
    cr_assert_eq(plan.split.pools_count, 2);
    cr_expect_float_eq(plan.split.pools[0].demand.rate, 47.5, 1e-9);
    cr_expect_float_eq(plan.split.pools[1].demand.rate, 2.5, 1e-9);
    cr_expect_eq(plan.split.engines[PLAN_BY_CLOSED],
                 plan.split.pools[0].closed.engines +
                     plan.split.pools[1].closed.engines);
    cr_expect_eq(plan.sweep_count, 5);
    cr_expect_eq(plan.whole.engines[PLAN_BY_PLAY], 0);
    cr_expect_float_eq(plan_cost(&plan.setup, 3), 3 * 2 * 8760, 1e-6);
    cr_expect_float_eq(plan_saving(10, 8), 0.2, 1e-12);
    cr_expect_eq(plan_saving(0, 8), 0);
}

/* The size that was found keeps the promise, and a much smaller one does not. */
Test(chaos_plan_report, a_played_size_is_the_least_that_keeps_the_promise)
{
    struct plan_latency l;

    make(400);
    uint32_t found = plan.whole.engines[PLAN_BY_PLAY];
    cr_assert_gt(found, 1);
    cr_expect_leq(plan.whole.latency[1].ttft_p99, 5.0);
    cr_expect_leq(plan.whole.latency[1].tpot_p99, 0.080);
    plan.whole.pools[0].engines[PLAN_BY_PLAY] = found - 2;
    cr_assert_eq(plan_fleet_play(&plan.setup, &plan.whole, PLAN_BY_PLAY, 2400,
                                 PLAN_LEAST_LOAD, &l),
                 0);
    cr_expect(l.ttft_p99 > 5.0 || l.tpot_p99 > 0.080, "%u: %g %g", found,
              l.ttft_p99, l.tpot_p99);
}

Test(chaos_plan_report, a_table_is_of_one_screen)
{
    uint32_t lines = 0;

    make(400);
    plan_report_table(&plan, "name", &out);
    cr_assert_not(out.failed);
    buf_add(&out, "", 1);
    for (const char *line = out.ptr; *line != '\0';
         line = strchr(line, '\n') + 1) {
        lines++;
        cr_expect_leq(strcspn(line, "\n"), 110, "%.120s", line);
    }
    cr_expect_leq(lines, 35);
    cr_expect_not_null(strstr(out.ptr, "long   to  32,768    5.00"));
}

Test(chaos_plan_report, what_no_pool_takes_is_said)
{
    make(0);
    plan.setup.max_len = 16384;
    plan_report_table(&plan, "name", &out);
    buf_add(&out, "", 1);
    cr_expect_not_null(strstr(out.ptr, "5.00 % of the requests are longer than "
                                       "16384 tokens: no pool takes them"));
}

Test(chaos_plan_report, json_has_the_numbers_of_the_plan)
{
    json_t *root;
    json_int_t closed;
    json_int_t slots;

    make(0);
    plan_report_json(&plan, "a \"name\"", &out);
    root = json_loadb(out.ptr, out.len, 0, NULL);
    cr_assert_not_null(root);
    cr_assert_eq(
        json_unpack(root, "{s:{s:[{s:I}],s:{s:I,s:n}}}", "one_fleet", "pools",
                    "slots", &slots, "engines", "closed", &closed, "played"),
        0);
    cr_expect_eq(slots, 32);
    cr_expect_eq(closed, plan.whole.engines[PLAN_BY_CLOSED]);
    cr_expect_eq(json_array_size(json_object_get(root, "thresholds")), 5);
    json_decref(root);
}

Test(chaos_plan_report, a_plot_has_a_point_for_each_threshold)
{
    uint32_t points = 0;

    make(0);
    plan_report_svg(&plan, "<name>", &out);
    buf_add(&out, "", 1);
    for (const char *at = out.ptr; (at = strstr(at, "<circle")) != NULL; at++) {
        points++;
    }
    /* One line of shares, two of engines and two of savings. */
    cr_expect_eq(points, 5 * plan.sweep_count);
    cr_expect_not_null(strstr(out.ptr, ">_name>: 50 requests/s"));
    cr_expect_null(strstr(out.ptr, "nan"));
}
