#include <criterion/criterion.h>

#include "index/base/gate.h"

#define INTERVAL UINT64_C(1000)
#define BURST    4

static unsigned
passes(struct gate *gate, uint64_t now_us, unsigned tries, uint64_t *refused)
{
    unsigned passed = 0;

    for (unsigned i = 0; i < tries; i++) {
        uint64_t before = 0;
        if (gate_pass(gate, now_us, INTERVAL, BURST, &before)) {
            passed++;
            *refused += before;
        }
    }
    return passed;
}

Test(base_gate, lets_a_burst_through_then_one_per_interval)
{
    struct gate gate = {0};
    uint64_t refused = 0;

    cr_assert_eq(passes(&gate, 50000, 10, &refused), BURST);
    cr_assert_eq(refused, 0);
    cr_assert_eq(passes(&gate, 50000 + INTERVAL - 1, 5, &refused), 0);
    cr_assert_eq(passes(&gate, 50000 + INTERVAL, 5, &refused), 1);
    cr_assert_eq(refused, 11);
}

Test(base_gate, a_quiet_time_fills_the_burst_again_and_not_more)
{
    struct gate gate = {0};
    uint64_t refused = 0;

    cr_assert_eq(passes(&gate, 0, 10, &refused), BURST);
    cr_assert_eq(passes(&gate, 1000 * INTERVAL, 10, &refused), BURST);
    cr_assert_eq(refused, 10 - BURST);
}

Test(base_gate, each_refusal_is_told_once)
{
    struct gate gate = {0};
    uint64_t refused = 0;

    (void)passes(&gate, 0, BURST + 3, &refused);
    (void)passes(&gate, INTERVAL, 1, &refused);
    cr_assert_eq(refused, 3);
    (void)passes(&gate, 2 * INTERVAL, 1, &refused);
    cr_assert_eq(refused, 3);
}
