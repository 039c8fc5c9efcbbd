/* When a node elects long prompts. */
#include <criterion/criterion.h>

#include <string.h>

#include "node/view/moment.h"

#define NODES 3U
#define ROUND (NODES * MOMENT_SLOT_US)

static struct moment moment;

/* Long prompts come in crowds there. */
static void
crowded(uint32_t number, uint32_t nodes)
{
    memset(&moment, 0, sizeof(moment));
    moment_put(&moment, number, nodes);
    for (uint32_t i = 0; i < 2 * MOMENT_MOST / MOMENT_EARN; i++) {
        (void)moment_wait_us(&moment, MOMENT_TOKENS, i);
    }
}

static uint32_t
asks(uint64_t at_us)
{
    return moment_wait_us(&moment, MOMENT_TOKENS, at_us);
}

Test(moment, a_node_alone_never_waits)
{
    crowded(0, 1);
    cr_assert_not(moment_counts(&moment));
    cr_assert_eq(asks(MOMENT_SLOT_US), 0);
}

Test(moment, at_each_time_one_node_at_most_elects)
{
    uint32_t open[NODES] = {0};
    uint32_t shut = 0;

    for (uint64_t us = 0; us < ROUND; us += 500) {
        uint32_t now = 0;
        for (uint32_t number = 0; number < NODES; number++) {
            crowded(number, NODES);
            uint32_t wait = asks(ROUND + us);
            cr_assert_lt(wait, ROUND);
            if (wait == 0) {
                open[number]++;
                now++;
                continue;
            }
            crowded(number, NODES);
            cr_assert_eq(asks(ROUND + us + wait), 0, "its own slot begins");
            crowded(number, NODES);
            cr_assert_eq(asks(ROUND + us + wait - 1), 1, "and no sooner");
        }
        cr_assert_leq(now, 1);
        shut += now == 0;
    }
    for (uint32_t number = 0; number < NODES; number++) {
        cr_assert_eq(open[number], MOMENT_OPEN_US / 500);
    }
    cr_assert_eq(shut, NODES * (MOMENT_SLOT_US - MOMENT_OPEN_US) / 500);
}

Test(moment, short_prompts_never_wait_and_do_not_count)
{
    crowded(1, NODES);
    cr_assert_neq(asks(0), 0);
    cr_assert_eq(moment_wait_us(&moment, MOMENT_TOKENS - 1, 0), 0);
    memset(&moment, 0, sizeof(moment));
    moment_put(&moment, 1, NODES);
    for (uint32_t i = 0; i < 1000; i++) {
        (void)moment_wait_us(&moment, MOMENT_TOKENS - 1, i);
    }
    cr_assert_eq(asks(1000), 0);
}

Test(moment, without_crowds_nobody_waits)
{
    moment_put(&moment, 1, NODES);
    for (uint64_t i = 0; i < 1000; i++) {
        cr_assert_eq(asks(i * (MOMENT_CROWD_US + 1)), 0);
    }
    for (uint64_t i = 0; i < 1000; i++) { /* every tenth has another beside */
        uint64_t at_us = i * ROUND;
        cr_assert_eq(asks(at_us), 0);
        cr_assert(i % 9 != 0 || asks(at_us + 1) == 0);
    }
}

Test(moment, crowds_are_noticed_and_forgotten)
{
    uint32_t last = 0;

    moment_put(&moment, 1, NODES);
    for (uint32_t i = 0; i < 20; i++) { /* two at a time */
        last = asks(i * ROUND) != 0 ? i : last;
        (void)asks(i * ROUND + 1);
    }
    cr_assert_eq(last, 19);
    for (uint32_t i = 20; i < 80; i++) {
        last = asks(i * ROUND) != 0 ? i : last;
    }
    cr_assert_gt(last, 40);
    cr_assert_lt(last, 60);
}

Test(moment, of_many_nodes_some_share_a_slot)
{
    uint32_t first;

    crowded(3, 40);
    first = asks(0);
    cr_assert_eq(first, 3 * MOMENT_SLOT_US);
    crowded(3 + MOMENT_SLOTS_MAX, 40);
    cr_assert_eq(asks(0), first);
}
