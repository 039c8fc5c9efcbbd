#include <criterion/criterion.h>

#include "chaos/plan/plan_form.h"

static struct plan_mix mix;
static struct plan_engine flat;

static void
setup(void)
{
    plan_mix_init(&mix);
    cr_assert(plan_engine_find("a100-flat", &flat));
}

static void
teardown(void)
{
    plan_mix_fini(&mix);
}

TestSuite(chaos_plan_form, .init = setup, .fini = teardown);

/* All requests alike. */
static struct plan_demand
demand_of(uint32_t prompt, uint32_t output, double rate, uint32_t max_len)
{
    cr_assert_eq(plan_mix_add(&mix, prompt, output, 1), 0);
    plan_mix_finish(&mix);
    return (struct plan_demand){
        .part = plan_mix_part(&mix, 0, max_len),
        .rate = rate,
        .max_len = max_len,
        .slo = {.ttft_ms = 2000, .tpot_ms = 1000},
    };
}

Test(chaos_plan_form, slots_are_whole_blocks_of_the_longest_length)
{
    cr_expect_eq(plan_engine_slots(&flat, 8192), 128);
    cr_expect_eq(plan_engine_slots(&flat, 16384), 64);
    cr_expect_eq(plan_engine_slots(&flat, 65536), 16);
    cr_expect_eq(plan_engine_slots(&flat, 65537), 15);
    cr_expect_eq(plan_engine_slots(&flat, 2 * 1048576), 0);
}

Test(chaos_plan_form, a_head_fewer_than_gpus_is_kept_by_each)
{
    const struct plan_shape llama = {80, 8, 128, 2, 137953, 80000, 4};
    const struct plan_shape qwen = {94, 4, 128, 2, 0, 0, 8};
    const struct plan_shape heavy = {80, 8, 128, 2, 288000, 80000, 4};

    cr_expect_eq(plan_kv_bytes(&llama), 327680);
    cr_expect_eq(plan_kv_bytes(&qwen), 2 * 8 * 94 * 128 * 2);
    cr_expect_eq(plan_kv_tokens(&llama),
                 (UINT64_C(288000) - 137953) * 1000000 / 327680);
    cr_expect_eq(plan_kv_tokens(&heavy), 0);
}

Test(chaos_plan_form, closed_form_is_slots_by_steps)
{
    struct plan_demand demand = demand_of(1000, 98, 100, 65536);
    struct plan_size size = plan_closed(&flat, &demand, 1.08);

    /* 2 chunks and 98 tokens, 18.4 ms each, 16 at once. */
    cr_expect_eq(size.batch, 16);
    cr_expect_float_eq(size.step_s, 0.0184, 1e-9);
    cr_expect_float_eq(size.rate, 16 / (100 * 0.0184), 1e-9);
    cr_expect_eq(size.engines, 13); /* 100 / 8.70 * 1.08 = 12.4 */
}

Test(chaos_plan_form, what_does_not_fit_has_no_size)
{
    struct plan_demand demand = demand_of(1000, 98, 100, 4000000);

    cr_expect_eq(plan_closed(&flat, &demand, 1).engines, 0);
    cr_expect_eq(plan_corrected(&flat, &demand).engines, 0);
}

Test(chaos_plan_form, a_paged_cache_holds_what_requests_need)
{
    struct plan_demand demand = demand_of(100, 998, 100, 65536);
    struct plan_size size = plan_corrected(&flat, &demand);

    /* 1,048,576 tokens hold 955 of these; the engine runs 128. */
    cr_expect_eq(size.batch, 128);
    flat.kv_tokens = 1098 * 20;
    demand.max_len = 1098;
    cr_expect_eq(plan_corrected(&flat, &demand).batch, 20);
}

Test(chaos_plan_form, prompts_share_the_budget_of_a_step)
{
    /* Ten chunks and ten tokens: half of all sequences compute prompts. */
    struct plan_demand demand = demand_of(5120, 11, 1, 8192);
    struct plan_size size = plan_corrected(&flat, &demand);

    /* However many run, 512 to 640 tokens a step are computed. */
    double step = 0.008 + 0.00065 * size.batch;
    cr_expect_leq(size.rate, (640.0 - size.batch) / 5120 / step + 1e-9);
    cr_expect_geq(plan_closed(&flat, &demand, 1).rate, 4 * size.rate);
}

Test(chaos_plan_form, the_time_between_tokens_bounds_the_batch)
{
    struct plan_demand demand = demand_of(100, 500, 100, 8192);

    demand.slo.tpot_ms = 40;
    struct plan_size size = plan_corrected(&flat, &demand);
    cr_expect_leq(size.step_s, 0.040 + 1e-6);
    cr_expect(size.batch >= 48 && size.batch <= 49, "%u", size.batch);
    cr_expect_not(size.late);
    demand.slo.tpot_ms = 8;
    cr_expect(plan_corrected(&flat, &demand).late);
}

Test(chaos_plan_form, a_prefill_longer_than_the_promise_is_late)
{
    struct plan_demand demand = demand_of(60000, 10, 1, 65536);

    demand.slo.ttft_ms = 500; /* 118 chunks */
    cr_expect(plan_corrected(&flat, &demand).late);
    demand.slo.ttft_ms = 3600000;
    cr_expect_not(plan_corrected(&flat, &demand).late);
}

Test(chaos_plan_form, cached_prompts_need_fewer_engines)
{
    struct plan_demand demand = demand_of(8000, 20, 1000, 8192);
    uint32_t cold = plan_corrected(&flat, &demand).engines;

    demand.cached_permille = 900;
    cr_expect_lt(plan_corrected(&flat, &demand).engines, cold / 2);
}

Test(chaos_plan_form, erlang_c_is_that_of_the_tables)
{
    cr_expect_float_eq(plan_erlang_c(1, 0.7), 0.7, 1e-12);
    cr_expect_float_eq(plan_erlang_c(2, 1), 1.0 / 3, 1e-12);
    cr_expect_float_eq(plan_erlang_c(10, 8), 0.40918, 1e-5);
    cr_expect_eq(plan_erlang_c(3, 3), 1);
    cr_expect_lt(plan_erlang_c(10000, 9000), 1e-9);
}
