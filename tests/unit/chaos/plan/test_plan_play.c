#include <criterion/criterion.h>
#include <math.h>

#include "chaos/plan/plan_play.h"

static struct plan_mix mix;
static struct plan_samples samples;
static struct plan_engine engine;
static struct plan_play play;

/* An engine of 10 ms a step that runs one request at a time: an answer of ten
 * tokens takes 100 ms, the prompt's step is the first. */
static void
setup(void)
{
    plan_mix_init(&mix);
    plan_samples_init(&samples);
    cr_assert_eq(plan_mix_add(&mix, 100, 10, 1), 0);
    plan_mix_finish(&mix);
    cr_assert(plan_engine_find("a100-flat", &engine));
    engine.step_us = 10000;
    engine.step_per_seq_us = 0;
    play = (struct plan_play){
        .engine = &engine,
        .part = plan_mix_part(&mix, 0, 1000),
        .rate = 5,
        .duration_s = 4000,
        .engines = 1,
        .slots = 1,
        .seed = 3,
    };
}

static void
teardown(void)
{
    plan_samples_fini(&samples);
    plan_mix_fini(&mix);
}

TestSuite(chaos_plan_play, .init = setup, .fini = teardown);

static double
mean_ttft(void)
{
    double sum = 0;

    for (uint32_t i = 0; i < samples.ttft_count; i++) {
        sum += samples.ttft[i];
    }
    return sum / samples.ttft_count;
}

Test(chaos_plan_play, one_server_waits_as_queueing_theory_says)
{
    cr_assert_eq(plan_play(&play, &samples), 0);
    /* M/D/1, half busy: a mean wait of rho s / (2 (1 - rho)) = 50 ms. */
    cr_expect_float_eq(mean_ttft(), 0.050 + 0.010, 0.005);
    struct plan_latency l = plan_samples_latency(&samples);
    cr_expect_float_eq(l.tpot_p50, 0.010, 1e-9);
    cr_expect_float_eq(l.tpot_p99, 0.010, 1e-9);
    /* 4,000 s at 5/s, without the first fifth. */
    cr_expect(l.requests > 15500 && l.requests < 16500, "%u", l.requests);
}

Test(chaos_plan_play, least_load_waits_less_than_turns)
{
    struct plan_latency turns;
    struct plan_latency least;

    /* Of equal requests, turns would be as good. */
    plan_mix_fini(&mix);
    cr_assert_eq(plan_mix_add(&mix, 100, 10, 9), 0);
    cr_assert_eq(plan_mix_add(&mix, 100, 100, 1), 0);
    plan_mix_finish(&mix);
    play.part = plan_mix_part(&mix, 0, 1000);
    play.engines = 8;
    play.rate = 30;
    play.duration_s = 400;
    cr_assert_eq(plan_play(&play, &samples), 0);
    turns = plan_samples_latency(&samples);
    plan_samples_fini(&samples);
    play.route = PLAN_LEAST_LOAD;
    cr_assert_eq(plan_play(&play, &samples), 0);
    least = plan_samples_latency(&samples);
    cr_expect_lt(least.ttft_p99, turns.ttft_p99 * 0.7);
}

Test(chaos_plan_play, what_finds_no_room_never_gets_an_answer)
{
    play.rate = 2000;
    play.duration_s = 5;
    cr_assert_eq(plan_play(&play, &samples), 0);
    cr_expect_gt(samples.lost, 5000);
    struct plan_latency l = plan_samples_latency(&samples);
    cr_expect(isinf(l.ttft_p99));
    cr_expect_eq(l.requests, samples.lost + samples.ttft_count);
}

Test(chaos_plan_play, one_seed_plays_the_same)
{
    play.duration_s = 50;
    cr_assert_eq(plan_play(&play, &samples), 0);
    struct plan_latency first = plan_samples_latency(&samples);
    plan_samples_fini(&samples);
    cr_assert_eq(plan_play(&play, &samples), 0);
    struct plan_latency again = plan_samples_latency(&samples);
    cr_expect_eq(first.ttft_p99, again.ttft_p99);
    cr_expect_eq(first.requests, again.requests);
}
