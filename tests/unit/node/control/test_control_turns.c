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
