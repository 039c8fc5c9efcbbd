#include <criterion/criterion.h>

#include "node/scale/scale.h"

#define LOOK_US UINT64_C(5000000)
#define MIN_US  UINT64_C(60000000)

static struct scale_group group;
static struct scale_config config = {
    .min = 1,
    .max = 20,
    .target_permille = 800,
    .step = 2,
    .provision_ms = 120000,
    .cool_down_ms = 300000,
};
static struct scale_choice choice;
static uint64_t now_us = MIN_US;

/* Engines that are all ready and good for ten requests each. */
static struct scale_signals
busy(uint32_t engines, uint32_t requests)
{
    return (struct scale_signals){.engines = engines,
                                  .ready = engines,
                                  .requests = requests,
                                  .capacity = 10,
                                  .room = SCALE_ANY_ROOM};
}

static enum scale_why
look(struct scale_signals signals)
{
    now_us += LOOK_US;
    scale_look(&group, &config, &signals, now_us, &choice);
    return choice.why;
}

Test(node_scale, what_is_in_flight_is_measured_by_what_engines_are_good_for)
{
    cr_expect_eq(look(busy(4, 32)), SCALE_FITS);
    cr_expect_eq(choice.need_milli, 4000);
    cr_expect_eq(look(busy(4, 33)), SCALE_REQUESTS);
    cr_expect_eq(choice.desired, 5);
    struct scale_signals unknown = busy(4, 400);
    unknown.capacity = 0;
    group = (struct scale_group){0};
    for (uint32_t i = 0; i < 200; i++) { /* nor that it is little */
        cr_assert_eq(look(unknown), SCALE_FITS);
        cr_assert_eq(choice.desired, 4);
    }
}

Test(node_scale, one_that_waits_for_half_of_what_it_may_asks_for_one_more)
{
    struct scale_signals s = busy(4, 30);

    s.queued = 1;
    s.wait_most_ms = 30000;
    s.waited_ms = 14999;
    cr_expect_eq(look(s), SCALE_FITS);
    s.waited_ms = 15000;
    cr_expect_eq(look(s), SCALE_WAIT);
    cr_expect_eq(choice.desired, 5);
    group = (struct scale_group){0};
    s.wait_most_ms = 0; /* it may wait for ever */
    cr_expect_eq(look(s), SCALE_FITS);
}

Test(node_scale, what_waits_asks_for_more_without_a_known_limit)
{
    struct scale_signals s = busy(4, 60);

    s.capacity = 0;
    s.waiting = 20; /* 40 run */
    cr_expect_eq(look(s), SCALE_QUEUE);
    cr_expect_eq(choice.need_milli, 6000);
    cr_expect_eq(choice.desired, 6);
    group = (struct scale_group){0};
    s.waiting = 0;
    s.queued = 15; /* in front of them */
    cr_expect_eq(look(s), SCALE_QUEUE);
    cr_expect_eq(choice.need_milli, 5000);
}

Test(node_scale, a_little_of_caches_that_are_told_of_is_little)
{
    struct scale_signals s = busy(4, 1);

    s.capacity = 0;
    s.kv_permille = 1; /* told of, once */
    (void)look(s);
    s.kv_permille = 0;
    while (look(s) == SCALE_COOLS) {
        cr_assert_eq(choice.desired, 4);
    }
    cr_expect_eq(choice.why, SCALE_IDLE);
}

Test(node_scale, one_that_has_just_come_is_no_queue)
{
    struct scale_signals s = busy(4, 1);

    s.waiting = 1;
    while (look(s) == SCALE_COOLS) {
        cr_assert_eq(choice.desired, 4);
    }
    cr_expect_eq(choice.why, SCALE_IDLE);
    s = busy(4, 12);
    s.capacity = 0;
    s.waiting = 4;
    cr_expect_neq(look(s), SCALE_QUEUE);
    s.waiting = 5;
    cr_expect_eq(look(s), SCALE_QUEUE);
}

Test(node_scale, full_caches_late_answers_and_refusals_ask_for_more)
{
    struct scale_signals s = busy(3, 1);

    s.kv_permille = 910;
    cr_expect_eq(look(s), SCALE_KV);
    cr_expect_eq(choice.desired, 4);
    group = (struct scale_group){0};
    s = busy(3, 1);
    s.answers = 1000;
    s.late = 10;
    (void)look(s);
    cr_expect_eq(choice.desired, 3, "one in a hundred is what p99 allows");
    s.late = 11;
    cr_expect_eq(look(s), SCALE_SLO);
    cr_expect_eq(choice.desired, 4);
    group = (struct scale_group){0};
    s = busy(3, 1);
    s.shed = 5;
    (void)look(s);
    cr_expect_eq(choice.desired, 3, "another group's: these have room");
    s.requests = 30;
    (void)look(s);
    cr_expect_eq(choice.desired, 4);
}

Test(node_scale, one_late_answer_of_few_is_chance)
{
    struct scale_signals s = busy(3, 1);

    s.answers = 8;
    s.late = 1;
    for (uint32_t i = 1; i < SCALE_LATE_LEAST; i++) {
        cr_expect_neq(look(s), SCALE_SLO);
        cr_expect_eq(choice.desired, 3);
    }
    cr_expect_eq(look(s), SCALE_SLO);
    cr_expect_eq(choice.desired, 4);
    s.engines = 4; /* it is on its way */
    for (uint64_t us = LOOK_US; us < 2 * MIN_US; us += LOOK_US) {
        (void)look(s);
        cr_assert_eq(choice.desired, 4);
    }
    s.ready = 4; /* what was late before it came says nothing of it */
    for (uint32_t i = 1; i < SCALE_LATE_LEAST; i++) {
        (void)look(s);
        cr_assert_eq(choice.desired, 4);
    }
    (void)look(s);
    cr_expect_eq(choice.desired, 5);
}

Test(node_scale, late_answers_of_long_ago_do_not_count)
{
    struct scale_signals s = busy(3, 1);

    s.answers = 8;
    for (uint32_t i = 0; i < 70; i++) { /* four in two minutes */
        s.late = i % 7 == 0;
        cr_expect_neq(look(s), SCALE_SLO);
    }
}

Test(node_scale, steps_are_bounded_and_what_was_asked_for_has_its_time)
{
    cr_expect_eq(look(busy(4, 320)), SCALE_REQUESTS);
    cr_expect_eq(choice.desired, 6);
    for (uint64_t us = LOOK_US; us < 2 * MIN_US; us += LOOK_US) {
        cr_assert_eq(look(busy(us < MIN_US ? 4 : 6, 320)), SCALE_COMING);
        cr_assert_eq(choice.desired, 6);
    }
    cr_expect_eq(look(busy(6, 320)), SCALE_REQUESTS);
    cr_expect_eq(choice.desired, 8);
}

Test(node_scale, what_never_comes_is_asked_for_again)
{
    cr_expect_eq(look(busy(4, 40)), SCALE_REQUESTS);
    cr_expect_eq(choice.desired, 5);
    uint32_t asked = 0;
    for (uint32_t i = 0; i < 100; i++) {
        asked += look(busy(4, 40)) == SCALE_REQUESTS;
        cr_assert_eq(choice.desired, 5, "and never for more than that");
    }
    cr_expect_eq(asked, 4);
}

Test(node_scale, min_max_and_what_may_be_bought_bound_it)
{
    config.min = 3;
    cr_expect_eq(look(busy(1, 0)), SCALE_LEAST);
    cr_expect_eq(choice.desired, 3);
    cr_expect_eq(look(busy(20, 400)), SCALE_MOST);
    cr_expect_eq(choice.desired, 20);
    struct scale_signals s = busy(5, 60);
    s.room = 1;
    s.poor = true;
    cr_expect_eq(look(s), SCALE_REQUESTS);
    cr_expect_eq(choice.desired, 6);
    s = busy(6, 80);
    s.room = 0;
    s.poor = true;
    cr_expect_eq(look(s), SCALE_BUDGET);
    cr_expect_eq(choice.desired, 6);
    s.poor = false;
    cr_expect_eq(look(s), SCALE_ROOM);
    cr_expect_eq(choice.desired, 6);
    s = busy(1, 0);
    s.room = 1; /* nor for the least */
    cr_expect_eq(look(s), SCALE_LEAST);
    cr_expect_eq(choice.desired, 2);
    s.room = 0;
    cr_expect_eq(look(s), SCALE_ROOM);
    cr_expect_eq(choice.desired, 1);
}

Test(node_scale, one_goes_when_fewer_were_enough_for_long_enough)
{
    /* Four could do 4 * .85 * 8 = 27.2 requests. */
    cr_expect_eq(look(busy(5, 28)), SCALE_FITS);
    uint64_t since_us = now_us;
    while (look(busy(5, 27)) == SCALE_COOLS) {
        cr_assert_eq(choice.desired, 5);
    }
    cr_expect_eq(choice.why, SCALE_IDLE);
    cr_expect_eq(choice.desired, 4);
    cr_expect_eq(now_us - since_us - LOOK_US, 5 * MIN_US);
    /* It is gone: the next one waits as long. */
    since_us = now_us;
    while (look(busy(4, 3)) == SCALE_COOLS) {
        cr_assert_eq(choice.desired, 4);
    }
    cr_expect_eq(choice.desired, 3);
    cr_expect_geq(now_us - since_us, 5 * MIN_US);
}

Test(node_scale, a_moment_of_load_keeps_an_engine)
{
    for (uint32_t i = 0; i < 200; i++) {
        cr_assert_neq(look(busy(5, i % 50 == 49 ? 35 : 20)), SCALE_IDLE);
        cr_assert_eq(choice.desired, 5);
    }
}

Test(node_scale, nothing_is_done_where_nothing_is_measured)
{
    struct scale_signals s = busy(4, 0);

    s.ready = 0;
    s.queued = 100;
    for (uint32_t i = 0; i < 200; i++) {
        cr_assert_eq(look(s), SCALE_UNKNOWN);
        cr_assert_eq(choice.desired, 4);
    }
    s = busy(4, 0);
    s.ready = 3; /* one is ill: it may be why the others are enough */
    for (uint32_t i = 0; i < 200; i++) {
        cr_assert_neq(look(s), SCALE_IDLE);
    }
}

Test(node_scale, a_rising_load_is_met_before_it_is_there)
{
    uint32_t at = 0;

    for (uint32_t i = 0; i < SCALE_SAMPLES; i++) {
        (void)look(busy(4, 10));
        cr_assert_eq(choice.desired, 4);
    }
    /* A request more each 5 s, to 8 for an engine: 24 more in two minutes. */
    for (uint32_t i = 0; i < 22 && choice.why != SCALE_TREND_UP; i++) {
        at = 10 + i;
        (void)look(busy(4, at));
    }
    cr_expect_eq(choice.why, SCALE_TREND_UP);
    cr_expect_lt(at, 32, "%u", at);
    cr_expect_gt(choice.desired, 4);
    cr_expect_leq(choice.soon_milli, 2 * choice.need_milli);
}

Test(node_scale, who_has_just_begun_to_look_sees_no_trend)
{
    for (uint32_t i = 0; i + 1 < SCALE_SAMPLES; i++) {
        cr_expect_neq(look(busy(4, 22 + i * 7 % 10)), SCALE_TREND_UP);
    }
}

Test(node_scale, what_swings_about_a_number_has_no_trend)
{
    uint32_t x = 1;

    for (uint32_t i = 0; i < 2000; i++) {
        x = x * 1664525 + 1013904223;
        cr_expect_neq(look(busy(4, 24 + (x >> 16) % 9)), SCALE_TREND_UP);
    }
}

/* A fleet that does what is desired, after a while, and a load by the minute. */
struct played {
    uint32_t engines;
    uint32_t least;
    uint32_t most;
    uint32_t turns; /* that the number went up after it went down, and back */
};

static struct played
play(const uint32_t *requests, uint32_t minutes, uint32_t comes_after_s)
{
    struct played p = {.engines = 4, .least = 4, .most = 4};
    uint64_t due_us = 0;
    uint32_t coming = 0;
    int way = 0;

    for (uint32_t i = 0; i < minutes * 12; i++) {
        (void)look(busy(p.engines, requests[i / 12]));
        uint32_t before = p.engines;
        if (choice.desired > p.engines && coming == 0) {
            coming = choice.desired - p.engines;
            due_us = now_us + comes_after_s * UINT64_C(1000000);
        } else if (choice.desired < p.engines) {
            p.engines = choice.desired;
        }
        if (coming != 0 && now_us >= due_us) {
            p.engines += coming;
            coming = 0;
        }
        int went = (p.engines > before) - (p.engines < before);
        p.turns += went != 0 && way != 0 && went != way;
        way = went != 0 ? went : way;
        p.least = p.engines < p.least ? p.engines : p.least;
        p.most = p.engines > p.most ? p.engines : p.most;
    }
    return p;
}

Test(node_scale, a_load_that_swings_about_a_number_moves_nothing)
{
    uint32_t requests[240];

    for (uint32_t i = 0; i < 240; i++) { /* 4 engines at 75 to 100 % of 8 */
        requests[i] = i % 2 == 0 ? 24 : 28;
    }
    struct played p = play(requests, 240, 110);
    cr_expect_eq(p.turns, 0);
    cr_expect_leq(p.most - p.least, 1);
}

Test(node_scale, a_day_goes_up_once_and_down_once)
{
    uint32_t requests[240];

    for (uint32_t i = 0; i < 240; i++) { /* 24 to 96 and back */
        uint32_t up = i < 120 ? i : 240 - i;
        requests[i] = 24 + up * 72 / 120;
    }
    struct played p = play(requests, 240, 110);
    cr_expect_eq(p.turns, 1);
    cr_expect_geq(p.most, 12, "%u", p.most);
    cr_expect_leq(p.most, 14, "%u", p.most);
    cr_expect_leq(p.engines, 5, "%u", p.engines);
}

Test(node_scale, who_holds_least_goes)
{
    const struct scale_engine engines[] = {
        {"a", 700, 1, 0}, {"b", 90, 5, 0}, {"c", 90, 2, 0}, {"d", 90, 2, 0}};

    cr_expect_eq(scale_victim(engines, 1), 0);
    cr_expect_eq(scale_victim(engines, 2), 1);
    cr_expect_eq(scale_victim(engines, 3), 2);
    cr_expect_eq(scale_victim(engines, 4), 3);
}

Test(node_scale, of_those_that_hold_little_the_dearest_goes)
{
    struct scale_engine engines[] = {{"a", 1000, 0, 9000},
                                     {"b", 300, 0, 1000},
                                     {"c", 400, 5, 2000},
                                     {"d", 401, 0, 3000}};

    cr_expect_eq(scale_victim(engines, 4), 2, "a tenth of 1,000 is no matter");
    engines[2].price_milli = 1000;
    cr_expect_eq(scale_victim(engines, 4), 1, "but of equals it is");
}
