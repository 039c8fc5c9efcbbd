/* How slow workers are beside each other, by their first tokens. */
#include <criterion/criterion.h>

#include "index/base/rng.h"
#include "node/view/speed.h"

#define MINUTE_US UINT64_C(60000000)

static struct speed speed;
static uint32_t slowness[WORKERS_MAX];

static struct worker_set
workers(uint32_t count)
{
    struct worker_set set;

    worker_set_clear(&set);
    for (uint32_t i = 0; i < count; i++) {
        worker_set_add(&set, i);
    }
    return set;
}

/* Prompts of all sizes; a step costs 15 ms, a second has 20,000 tokens, and
 * half as much again comes and goes. */
static void
serve(uint32_t slot, uint32_t samples, double slower, struct rng *rng)
{
    for (uint32_t i = 0; i < samples; i++) {
        uint32_t tokens = (uint32_t)rng_below(rng, UINT64_C(64) << i % 9);
        double us = (15000 + tokens * 50.0) * slower;
        us *= 0.75 + (double)rng_below(rng, 500) / 1000;
        speed_add(&speed, slot, 1, tokens, (uint64_t)us);
    }
}

static void
serve_four(uint32_t samples, double fourth)
{
    struct rng rng;

    rng_init(&rng, 3);
    for (uint32_t i = 0; i < 4; i++) {
        serve(i, samples, i == 3 ? fourth : 1, &rng);
    }
}

Test(node_speed, workers_alike_are_all_usual)
{
    struct worker_set set = workers(4);

    cr_assert_not(speed_slowness(&speed, &set, slowness));
    serve_four(300, 1.2);
    cr_assert_not(speed_slowness(&speed, &set, slowness));
    for (uint32_t i = 0; i < 4; i++) {
        cr_assert_eq(slowness[i], 1000);
    }
}

Test(node_speed, one_three_times_slower_is_found)
{
    struct worker_set set = workers(4);

    serve_four(400, 3);
    cr_assert(speed_slowness(&speed, &set, slowness));
    cr_assert_eq(slowness[0], 1000);
    cr_assert(slowness[3] > 2500 && slowness[3] < 3300, "%u", slowness[3]);
}

Test(node_speed, one_three_times_faster_is_found)
{
    struct worker_set set = workers(4);

    serve_four(400, 0.333);
    cr_assert(speed_slowness(&speed, &set, slowness));
    cr_assert_eq(slowness[0], 1000);
    cr_assert(slowness[3] > 300 && slowness[3] < 400, "%u", slowness[3]);
}

Test(node_speed, a_few_samples_say_little)
{
    struct worker_set set = workers(4);

    serve_four(400, 1);
    for (uint32_t i = 0; i < SPEED_FLOOR - 1; i++) {
        speed_add(&speed, 3, 2, 4000, 100000000);
    }
    cr_assert_not(speed_slowness(&speed, &set, slowness));
}

Test(node_speed, alone_it_is_usual)
{
    struct worker_set set = workers(1);

    serve_four(400, 3);
    cr_assert_not(speed_slowness(&speed, &set, slowness));
    cr_assert_eq(slowness[0], 1000);
}

/* One answer in ten takes a minute: an engine that swaps, a client that is
 * slow. */
Test(node_speed, outliers_cost_little)
{
    struct worker_set set = workers(4);
    struct rng rng;

    rng_init(&rng, 5);
    for (uint32_t turn = 0; turn < 40; turn++) {
        for (uint32_t i = 0; i < 4; i++) {
            serve(i, 9, 1, &rng);
        }
        speed_add(&speed, 2, 1, (uint32_t)rng_below(&rng, 16000), MINUTE_US);
    }
    cr_assert_not(speed_slowness(&speed, &set, slowness), "%u", slowness[2]);
}

/* A first token at once, whatever there is to compute; or never in time. */
Test(node_speed, what_an_engine_can_feign_is_bounded)
{
    struct worker_set set = workers(5);
    struct rng rng;

    serve_four(400, 1);
    rng_init(&rng, 5);
    serve(4, 1000, 0.0001, &rng);
    cr_assert(speed_slowness(&speed, &set, slowness));
    cr_assert_eq(slowness[4], SPEED_LEAST);
    for (uint32_t i = 0; i < 5000; i++) {
        speed_add(&speed, 4, 1, 64U << 2 * (i % 6), UINT64_MAX);
        speed_add(&speed, 4, 1, UINT32_MAX, UINT64_MAX - i);
    }
    cr_assert(speed_slowness(&speed, &set, slowness));
    cr_assert_eq(slowness[4], SPEED_MOST);
    cr_assert_eq(slowness[0], 1000);
}

Test(node_speed, another_worker_in_the_slot_begins_anew)
{
    struct worker_set set = workers(4);

    serve_four(400, 3);
    speed_add(&speed, 3, 2, 1000, 65000);
    cr_assert_not(speed_slowness(&speed, &set, slowness));
    cr_assert_eq(speed_rate(&speed, 3), 0);
}

Test(node_speed, one_that_is_avoided_is_usual_again_in_time)
{
    struct worker_set set = workers(4);
    struct rng rng;

    rng_init(&rng, 9);
    serve_four(400, 3);
    for (uint32_t minute = 1; minute <= 40; minute++) {
        for (uint32_t i = 0; i < 3; i++) {
            serve(i, 60, 1, &rng);
        }
        speed_pass(&speed, minute * MINUTE_US);
    }
    cr_assert_not(speed_slowness(&speed, &set, slowness));
}

Test(node_speed, the_rate_is_that_of_large_prompts)
{
    struct rng rng;

    rng_init(&rng, 1);
    cr_assert_eq(speed_rate(&speed, 0), 0);
    serve(0, 600, 1, &rng);
    uint32_t rate = speed_rate(&speed, 0);
    cr_assert(rate > 15000 && rate < 22000, "%u", rate);
}

static uint32_t tokens[WORKERS_MAX];
static uint32_t requests[WORKERS_MAX];

static void
in_time(uint32_t count, uint64_t ttft_us, uint64_t itl_us)
{
    struct worker_set set = workers(count);
    struct speed_slo slo[WORKERS_MAX];

    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        slo[i] = (struct speed_slo){.ttft_us = ttft_us, .itl_us = itl_us};
    }
    (void)speed_slowness(&speed, &set, slowness);
    speed_in_time(&speed, &set, slo, slowness, tokens, requests);
}

/* 100 us a token: half a second has 5,000, whatever sizes were seen. */
Test(node_speed, tokens_in_time_are_those_that_take_that_long)
{
    in_time(4, 500000, 0);
    cr_assert_eq(tokens[2], SPEED_ANY);
    for (uint32_t i = 0; i < 4 * SPEED_COUNT_MAX; i++) {
        speed_add(&speed, i % 4, 1, 300, 30000);
        speed_add(&speed, i % 4, 1, 20000, 2000000);
    }
    in_time(4, 500000, 0);
    cr_assert(tokens[0] > 4800 && tokens[0] < 5200, "%u", tokens[0]);
    cr_assert_eq(requests[0], SPEED_ANY);
    in_time(4, 4000000, 0); /* above all that was seen */
    cr_assert(tokens[0] > 39000 && tokens[0] < 41000, "%u", tokens[0]);
    in_time(4, 10000, 0); /* below */
    cr_assert(tokens[0] > 95 && tokens[0] < 105, "%u", tokens[0]);
    in_time(4, 0, 0);
    cr_assert_eq(tokens[0], SPEED_ANY);
    in_time(4, UINT64_MAX, UINT64_MAX);
    in_time(4, 1, 1);
    cr_assert_eq(tokens[0], 0);
}

/* What is held costs nearly nothing: prompts of a few tokens say nothing of
 * long ones. */
Test(node_speed, tokens_in_time_of_short_prompts_are_not_stretched)
{
    for (uint32_t i = 0; i < 2 * SPEED_COUNT_MAX; i++) {
        speed_add(&speed, i % 2, 1, 1, 30000);
        speed_add(&speed, i % 2, 1, 4000, 400000);
    }
    in_time(2, 500000, 0);
    cr_assert(tokens[0] > 4800 && tokens[0] < 5200, "%u", tokens[0]);
}

Test(node_speed, a_slow_workers_tokens_in_time_are_fewer)
{
    for (uint32_t i = 0; i < 3 * SPEED_COUNT_MAX; i++) {
        speed_add(&speed, i % 3, 1, 4000, i % 3 == 1 ? 1200000 : 400000);
    }
    in_time(3, 400000, 0);
    cr_assert(tokens[0] > 3800 && tokens[0] < 4200, "%u", tokens[0]);
    cr_assert(tokens[1] > 1200 && tokens[1] < 1600, "%u", tokens[1]);
}

/* Steps of 20 ms with 8 in flight, of 80 with 32; the third takes 60 with 8, and
 * nothing is known of the fourth. */
Test(node_speed, requests_in_time_follow_the_steps)
{
    for (uint32_t i = 0; i < 2 * SPEED_COUNT_MAX; i++) {
        speed_add_step(&speed, i % 2, 1, 8, 20000);
    }
    in_time(4, 0, 40000);
    cr_assert_eq(requests[0], SPEED_ANY); /* more were never seen */
    for (uint32_t i = 0; i < 2 * SPEED_COUNT_MAX; i++) {
        speed_add_step(&speed, i % 2, 1, 32, 80000);
        speed_add_step(&speed, 2, 1, 8, 60000);
    }
    in_time(4, 0, 40000);
    cr_assert(requests[0] > 14 && requests[0] < 18, "%u", requests[0]);
    cr_assert(requests[2] > 4 && requests[2] < 7, "%u", requests[2]);
    cr_assert(requests[3] > 5 && requests[3] < 18, "%u", requests[3]);
    cr_assert_eq(tokens[0], SPEED_ANY);
}

Test(node_speed, steps_are_of_answers_that_say_their_tokens)
{
    const struct fact_decision good = {.slot = 0,
                                       .generation = 1,
                                       .stream = true,
                                       .attempts = 1,
                                       .status = 200,
                                       .load = 3,
                                       .completion_tokens = 11,
                                       .route_us = 5,
                                       .first_token_us = 100005,
                                       .duration_us = 300005};
    struct fact_decision bad[4] = {good, good, good, good};

    bad[0].completion_tokens = 0;
    bad[1].completion_tokens = 1;
    bad[2].resumed = 1;
    bad[3].duration_us = 100005;
    for (uint32_t i = 0; i < 4 * SPEED_FLOOR; i++) {
        speed_take(&speed, &bad[i % 4], 0);
    }
    in_time(1, 0, 10000);
    cr_assert_eq(requests[0], SPEED_ANY);
    for (uint32_t i = 0; i < SPEED_FLOOR; i++) {
        speed_take(&speed, &good, 0);
    }
    in_time(1, 0, 10000); /* steps of 20 ms, with 4 in flight */
    cr_assert_eq(requests[0], 2);
}

Test(node_speed, only_a_first_attempts_stream_is_timed)
{
    const struct fact_decision good = {.slot = 2,
                                       .generation = 1,
                                       .stream = true,
                                       .attempts = 1,
                                       .status = 200,
                                       .front_tokens = 1000,
                                       .route_us = 5,
                                       .first_token_us = 100005};
    struct fact_decision bad[4] = {good, good, good, good};

    bad[0].stream = false;
    bad[1].attempts = 2;
    bad[2].status = 500;
    bad[3].first_token_us = 0;
    for (uint32_t i = 0; i < 40; i++) {
        speed_take(&speed, &bad[i % 4], 0);
    }
    cr_assert_eq(speed_rate(&speed, 2), 0);
    for (uint32_t i = 0; i < SPEED_FLOOR; i++) {
        speed_take(&speed, &good, 0);
    }
    uint32_t rate = speed_rate(&speed, 2);
    cr_assert(rate > 9800 && rate < 10200, "%u", rate);
}

Test(node_speed, a_worker_is_not_slow_for_being_far_away)
{
    const struct fact_decision fact = {.slot = 2,
                                       .generation = 1,
                                       .stream = true,
                                       .attempts = 1,
                                       .status = 200,
                                       .front_tokens = 1000,
                                       .route_us = 5,
                                       .first_token_us = 180005};

    for (uint32_t i = 0; i < SPEED_FLOOR; i++) {
        speed_take(&speed, &fact, 80000);
    }
    uint32_t rate = speed_rate(&speed, 2);
    cr_assert(rate > 9800 && rate < 10200, "%u", rate);
    for (uint32_t i = 0; i < 2 * SPEED_FLOOR; i++) { /* it came to be nearer */
        speed_take(&speed, &fact, 900000);
    }
    cr_assert_gt(speed_rate(&speed, 2), rate);
}
