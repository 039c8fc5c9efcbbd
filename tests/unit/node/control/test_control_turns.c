#include <criterion/criterion.h>

#include "node/control/control_turns.h"

Test(control_turns, few_facts_are_looked_for_each_millisecond)
{
    cr_assert_eq(control_turns_pace_ms(1, 1, false), 1);
    cr_assert_eq(control_turns_pace_ms(15, 1, false), 1);
}

Test(control_turns, many_facts_are_looked_for_seldomer)
{
    cr_assert_eq(control_turns_pace_ms(16, 1, false), 4);
}

Test(control_turns, looks_are_seldom_while_each_finds_as_many_a_millisecond)
{
    cr_assert_eq(control_turns_pace_ms(64, 4, false), 4);
    cr_assert_eq(control_turns_pace_ms(63, 4, false), 1);
}

Test(control_turns, a_request_that_waits_is_looked_for_each_millisecond)
{
    cr_assert_eq(control_turns_pace_ms(1000, 1, true), 1);
    cr_assert_eq(control_turns_pace_ms(1000, 4, true), 1);
}

Test(control_turns, others_have_the_processor_within_a_long_look)
{
    bool behind = false;

    cr_assert_not(control_turns_yields(63, 100000, &behind));
    cr_assert(control_turns_yields(64, 100000, &behind));
    cr_assert_not(control_turns_yields(65, 100000, &behind));
    cr_assert(control_turns_yields(128, 100000, &behind));
}

Test(control_turns, a_look_that_falls_behind_has_no_break)
{
    bool behind = false;

    cr_assert_not(control_turns_yields(64, 1000000, &behind));
    cr_assert_not(control_turns_yields(128, 1000, &behind), "the rest of it");
    behind = false;
    cr_assert_not(control_turns_yields(63, 1000000, &behind));
    cr_assert_not(control_turns_yields(64, 1000, &behind));
}
