/* How often prefixes were asked for lately. */
#include <criterion/criterion.h>

#include "index/base/rng.h"
#include "node/view/heat.h"

static struct heat heat;

static void
ask(uint64_t key, uint32_t times, uint64_t at_us)
{
    for (uint32_t i = 0; i < times; i++) {
        heat_add(&heat, &key, 1, at_us);
    }
}

Test(heat, requests_of_one_moment_add_up)
{
    ask(7, 5, 1000000);
    cr_assert_eq(heat_of(&heat, 7), 5000);
    cr_assert_eq(heat_of(&heat, 8), 0);
}

Test(heat, a_count_halves_and_is_forgotten)
{
    ask(7, 8, 1000000);
    heat_pass(&heat, 1000000 + HEAT_HALF_MS * UINT64_C(1000));
    cr_assert_eq(heat_of(&heat, 7), 4000);
    heat_pass(&heat, 1000000 + HEAT_HALF_MS * UINT64_C(1500));
    cr_assert_geq(heat_of(&heat, 7), 2820); /* 4000 / sqrt(2) is 2828 */
    cr_assert_leq(heat_of(&heat, 7), 2836);
    heat_pass(&heat, 1000000 + HEAT_HALF_MS * UINT64_C(40000));
    cr_assert_eq(heat_of(&heat, 7), 0);
}

/* A steady rate r settles near r * 5 s. */
Test(heat, a_steady_rate_counts_about_five_seconds)
{
    for (uint64_t ms = 0; ms < 60000; ms += 100) {
        ask(7, 1, ms * 1000);
    }
    cr_assert_geq(heat_of(&heat, 7), 45000);
    cr_assert_leq(heat_of(&heat, 7), 56000);
}

/* Another key of the same place. */
static uint64_t
rival_of(uint64_t key)
{
    uint64_t rival = key + 1;

    while (rng_mix(rival) % HEAT_PLACES != rng_mix(key) % HEAT_PLACES) {
        rival++;
    }
    return rival;
}

Test(heat, the_one_that_is_asked_for_keeps_the_place)
{
    uint64_t rival = rival_of(7);

    ask(7, 4, 0);
    ask(rival, 1, 0);
    cr_assert_eq(heat_of(&heat, 7), 4000);
    cr_assert_eq(heat_of(&heat, rival), 0);
    cr_assert_eq(counter_read(&heat.lost), 1);
    ask(rival, 1, HEAT_HALF_MS * UINT64_C(3000));
    cr_assert_eq(heat_of(&heat, rival), 1000);
    cr_assert_eq(heat_of(&heat, 7), 0);
}
