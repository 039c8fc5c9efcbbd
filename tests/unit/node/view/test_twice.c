/* Tokens that several nodes count, and a worker computes once. */
#include <criterion/criterion.h>

#include "node/view/twice.h"

static struct twice twice;

Test(twice, what_was_told_twice_waits_once)
{
    cr_assert_eq(twice_less(&twice, 3, 5000, 10), 5000);
    twice_add(&twice, 3, 4096, 10);
    cr_assert_eq(twice_less(&twice, 3, 5000, 20), 904);
    cr_assert_eq(twice_less(&twice, 2, 5000, 20), 5000, "of that worker alone");
    twice_add(&twice, 3, 500, 30);
    cr_assert_eq(twice_less(&twice, 3, 5000, 40), 404);
    cr_assert_eq(twice_less(&twice, 3, 100, 40), 0, "never below nothing");
}

Test(twice, after_a_while_it_is_forgotten)
{
    twice_add(&twice, 0, 4096, 10);
    twice_add(&twice, 0, 4096, 9 + TWICE_US);
    cr_assert_eq(twice_less(&twice, 0, 9000, 10 + TWICE_US), 808);
    cr_assert_eq(twice_less(&twice, 0, 9000, 9 + 2 * TWICE_US), 9000);
    twice_add(&twice, 0, 100, 9 + 2 * TWICE_US);
    cr_assert_eq(twice_less(&twice, 0, 9000, 10 + 2 * TWICE_US), 8900,
                 "what came before the pause counts no more");
}
