#include <criterion/criterion.h>

#include "chaos/base/virtual_time.h"
#include "index/base/rng.h"

static void
must_hold(const struct virtual_time *time)
{
    const char *reason;

    cr_assert(virtual_time_check(time, &reason), "%s", reason);
}

static void
add(struct virtual_time *time, uint64_t at_us, uint64_t what)
{
    struct virtual_event event = {.time_us = at_us, .what = what};

    cr_assert_eq(virtual_time_add(time, &event), 0);
}

Test(chaos_virtual_time, events_come_in_the_order_of_time)
{
    static const uint64_t times[] = {30, 10, 50, 20, 40};
    struct virtual_time time;
    struct virtual_event event;

    virtual_time_init(&time, 8, 0);
    for (unsigned i = 0; i < 5; i++) {
        add(&time, times[i], times[i]);
    }
    for (uint64_t at = 10; at <= 50; at += 10) {
        cr_assert_eq(virtual_time_deadline(&time), at);
        cr_assert(virtual_time_next(&time, VIRTUAL_TIME_NEVER, &event));
        cr_assert_eq(event.what, at);
        cr_assert_eq(time.now_us, at);
    }
    cr_assert_eq(virtual_time_deadline(&time), VIRTUAL_TIME_NEVER);
    cr_assert_not(virtual_time_next(&time, VIRTUAL_TIME_NEVER, &event));
    cr_assert_eq(time.now_us, 50);
    virtual_time_fini(&time);
}

Test(chaos_virtual_time, of_one_moment_the_first_added_comes_first)
{
    struct virtual_time time;
    struct virtual_event event;

    virtual_time_init(&time, 1000, 0);
    for (uint64_t i = 0; i < 1000; i++) {
        add(&time, 7, i);
    }
    for (uint64_t i = 0; i < 1000; i++) {
        cr_assert(virtual_time_next(&time, 7, &event));
        cr_assert_eq(event.what, i);
    }
    virtual_time_fini(&time);
}

Test(chaos_virtual_time, what_is_later_than_asked_stays)
{
    struct virtual_time time;
    struct virtual_event event;

    virtual_time_init(&time, 8, 100);
    add(&time, 200, 1);
    cr_assert_not(virtual_time_next(&time, 199, &event));
    cr_assert_eq(time.now_us, 199);
    cr_assert_not(virtual_time_next(&time, 150, &event));
    cr_assert_eq(time.now_us, 199);
    cr_assert(virtual_time_next(&time, 200, &event));
    cr_assert_eq(event.what, 1);
    virtual_time_fini(&time);
}

Test(chaos_virtual_time, full_is_an_answer)
{
    struct virtual_time time;
    struct virtual_event event = {.time_us = 5};

    virtual_time_init(&time, 2, 0);
    add(&time, 1, 0);
    add(&time, 2, 0);
    cr_assert_eq(virtual_time_add(&time, &event), VIRTUAL_TIME_E_FULL);
    cr_assert(virtual_time_next(&time, 9, &event));
    add(&time, 9, 0);
    must_hold(&time);
    virtual_time_fini(&time);
}

/* Adds and takes at random; what comes out never goes back, in time or, within
 * one moment, in order. */
Test(chaos_virtual_time, a_busy_heap_stays_in_order)
{
    struct virtual_time time;
    struct virtual_event event;
    struct virtual_event last = {.time_us = 0};
    uint64_t taken = 0;
    struct rng rng;

    rng_init(&rng, 1);
    virtual_time_init(&time, 1U << 16, 0);
    for (unsigned i = 0; i < 20000; i++) {
        if (rng_below(&rng, 3) != 0) {
            add(&time, time.now_us + rng_below(&rng, 50), i);
        } else if (virtual_time_next(&time, VIRTUAL_TIME_NEVER, &event)) {
            cr_assert(event.time_us > last.time_us ||
                      event.order > last.order || taken == 0);
            cr_assert_geq(event.time_us, last.time_us);
            last = event;
            taken++;
        }
        if (i % 100 == 0) {
            must_hold(&time);
        }
    }
    while (virtual_time_next(&time, VIRTUAL_TIME_NEVER, &event)) {
        cr_assert_geq(event.time_us, last.time_us);
        last = event;
        taken++;
    }
    cr_assert_eq(taken, time.added);
    virtual_time_fini(&time);
}
