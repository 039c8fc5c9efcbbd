#include <criterion/criterion.h>
#include <stdio.h>

#include "chaos/engine/engine_events_log_internal.h"

static struct engine_events_log event_log;

static uint64_t
push(const char *text)
{
    return engine_events_log_push(&event_log, slice_of(text));
}

static bool
holds(uint64_t seq, const char *text)
{
    struct slice found;

    return engine_events_log_find(&event_log, seq, &found) &&
           slice_equal(found, slice_of(text));
}

Test(chaos_engine_events_log, numbers_begin_with_0)
{
    cr_assert_eq(engine_events_log_init(&event_log, 4, 1000), 0);
    cr_assert_eq(event_log.first_seq, event_log.next_seq);
    cr_assert_eq(push("zero"), 0);
    cr_assert_eq(push("one"), 1);
    cr_assert(holds(0, "zero"));
    cr_assert(holds(1, "one"));
    cr_assert_not(holds(2, ""));
    engine_events_log_fini(&event_log);
}

Test(chaos_engine_events_log, the_oldest_makes_room)
{
    char text[16];

    cr_assert_eq(engine_events_log_init(&event_log, 3, 1000), 0);
    for (uint64_t i = 0; i < 10; i++) {
        (void)snprintf(text, sizeof(text), "%d", (int)i);
        cr_assert_eq(push(text), i);
        cr_assert_eq(event_log.first_seq, i < 2 ? 0 : i - 2);
        cr_assert(holds(i, text));
    }
    cr_assert_not(holds(6, "6"));
    cr_assert(holds(7, "7"));
    cr_assert_eq(event_log.bytes, 3);
    engine_events_log_fini(&event_log);
}

Test(chaos_engine_events_log, bytes_are_bounded_but_the_newest_stays)
{
    cr_assert_eq(engine_events_log_init(&event_log, 100, 10), 0);
    (void)push("12345");
    (void)push("67890");
    cr_assert(holds(0, "12345"));
    (void)push("x");
    cr_assert_not(holds(0, "12345"));
    cr_assert(holds(1, "67890"));
    cr_assert_eq(event_log.bytes, 6);
    (void)push("longer than all that");
    cr_assert_eq(event_log.first_seq, 3);
    cr_assert(holds(3, "longer than all that"));
    (void)push("y");
    cr_assert_eq(event_log.first_seq, 4);
    cr_assert_eq(event_log.bytes, 1);
    engine_events_log_fini(&event_log);
}

Test(chaos_engine_events_log, a_new_life_begins_with_0_again)
{
    cr_assert_eq(engine_events_log_init(&event_log, 2, 1000), 0);
    (void)push("a");
    (void)push("b");
    (void)push("c");
    engine_events_log_clear(&event_log);
    cr_assert_not(holds(2, "c"));
    cr_assert_eq(push("d"), 0);
    cr_assert(holds(0, "d"));
    engine_events_log_fini(&event_log);
}
