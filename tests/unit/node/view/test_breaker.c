#include <criterion/criterion.h>

#include "node/view/breaker.h"

#define S UINT64_C(1000000)

static const struct config_breaker config = {
    .failures = 3, .successes = 2, .open_ms = 5000, .open_max_ms = 12000};
static struct breaker breaker;

static bool
fail(uint64_t at_us)
{
    return breaker_report(&breaker, &config, config.failures, false, at_us);
}

static bool
succeed(uint64_t at_us)
{
    return breaker_report(&breaker, &config, config.failures, true, at_us);
}

static void
open_at(uint64_t at_us)
{
    for (uint32_t i = 0; i < config.failures; i++) {
        (void)fail(at_us);
    }
    cr_assert_eq(breaker.state, BREAKER_OPEN);
}

Test(node_breaker, opens_after_failures_in_a_row)
{
    cr_assert_not(fail(1));
    cr_assert_not(fail(2));
    cr_assert_not(succeed(3));
    cr_assert_not(fail(4));
    cr_assert_not(fail(5));
    cr_assert(fail(6));
    cr_assert_eq(breaker.state, BREAKER_OPEN);
    cr_assert_eq(breaker_deadline(&breaker), 5 * S + 6);
}

Test(node_breaker, late_results_change_nothing_while_open)
{
    open_at(0);
    cr_assert_not(succeed(1));
    cr_assert_not(fail(2));
    cr_assert_eq(breaker_deadline(&breaker), 5 * S);
}

Test(node_breaker, half_opens_when_its_time_is_over)
{
    open_at(0);
    cr_assert_not(breaker_tick(&breaker, 5 * S - 1));
    cr_assert(breaker_tick(&breaker, 5 * S));
    cr_assert_eq(breaker.state, BREAKER_HALF_OPEN);
    cr_assert_not(breaker_tick(&breaker, 6 * S));
    cr_assert_eq(breaker_deadline(&breaker), UINT64_MAX);
}

Test(node_breaker, successes_in_a_row_close_it)
{
    open_at(0);
    (void)breaker_tick(&breaker, 5 * S);
    cr_assert_not(succeed(5 * S));
    cr_assert(succeed(5 * S));
    cr_assert_eq(breaker.state, BREAKER_CLOSED);
    cr_assert_not(breaker_watches(&breaker));
}

Test(node_breaker, one_failure_opens_it_again_for_twice_as_long_up_to_a_cap)
{
    uint64_t now = 0;
    const uint32_t expected_ms[] = {5000, 10000, 12000, 12000};

    open_at(now);
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(breaker.open_ms, expected_ms[i]);
        now = breaker_deadline(&breaker);
        cr_assert(breaker_tick(&breaker, now));
        cr_assert_not(succeed(now));
        cr_assert(fail(now));
    }
    now = breaker_deadline(&breaker);
    (void)breaker_tick(&breaker, now);
    (void)succeed(now);
    (void)succeed(now);
    open_at(now);
    cr_assert_eq(breaker.open_ms, 5000);
}

Test(node_breaker, reset_closes_but_remembers_until_a_success)
{
    open_at(0);
    cr_assert(breaker_reset(&breaker));
    cr_assert_eq(breaker.state, BREAKER_CLOSED);
    cr_assert_not(breaker_reset(&breaker));
    cr_assert(breaker_watches(&breaker));
    open_at(1);
    cr_assert_eq(breaker.open_ms, 10000);
    (void)breaker_reset(&breaker);
    (void)succeed(2);
    cr_assert_not(breaker_watches(&breaker));
    open_at(3);
    cr_assert_eq(breaker.open_ms, 5000);
}

Test(node_breaker, watches_whenever_a_success_would_matter)
{
    cr_assert_not(breaker_watches(&breaker));
    (void)fail(0);
    cr_assert(breaker_watches(&breaker));
    (void)succeed(0);
    cr_assert_not(breaker_watches(&breaker));
    open_at(0);
    cr_assert(breaker_watches(&breaker));
}

Test(node_breaker, stays_closed_while_its_owner_does_not_let_it_open)
{
    for (uint64_t i = 0; i < 100; i++) {
        cr_assert_not(
            breaker_report(&breaker, &config, BREAKER_NEVER, false, i));
    }
    cr_assert_eq(breaker.state, BREAKER_CLOSED);
    cr_assert(fail(100)); /* it has enough on record */
    cr_assert_eq(breaker.state, BREAKER_OPEN);
}

Test(node_breaker, one_failure_opens_it_where_that_is_enough)
{
    cr_assert(breaker_report(&breaker, &config, 1, false, 1));
    cr_assert_eq(breaker.state, BREAKER_OPEN);
}

Test(node_breaker, lower_limits_hold_from_the_next_report_on)
{
    const struct config_breaker lower = {
        .failures = 1, .successes = 1, .open_ms = 5000, .open_max_ms = 12000};
    struct breaker known;

    (void)fail(1);
    (void)fail(2);
    known = breaker;
    cr_assert_not(breaker_report(&breaker, &lower, BREAKER_NEVER, false, 3));
    cr_assert_eq(breaker.failures, 0); /* there is no more to have on record */
    breaker = known;
    cr_assert_not(breaker_report(&breaker, &lower, 1, true, 3));
    breaker = known;
    cr_assert(breaker_report(&breaker, &lower, 1, false, 3));
    cr_assert_eq(breaker.state, BREAKER_OPEN);
}

Test(node_breaker, a_trial_that_was_enough_for_lower_limits_closes_it)
{
    const struct config_breaker lower = {
        .failures = 1, .successes = 1, .open_ms = 5000, .open_max_ms = 12000};

    open_at(0);
    (void)breaker_tick(&breaker, 5 * S);
    cr_assert_not(succeed(5 * S));
    cr_assert(breaker_report(&breaker, &lower, 1, true, 5 * S));
    cr_assert_eq(breaker.state, BREAKER_CLOSED);
}
