#include <criterion/criterion.h>
#include <string.h>

#include "index/base/rng.h"
#include "node/scale/scale_lease.h"

#define NODES    5U
#define LEASE_US 1000000U
#define TURN_US  UINT64_C(100000)

/* Nodes that tell each other their words, one turn late, where they are linked.
 * Each has a clock of its own. */
static struct scale_lease node[NODES];
static struct scale_word told[NODES];
static bool up[NODES];
static bool linked[NODES][NODES];
static uint64_t ahead_us[NODES];
static uint64_t world_us;
static uint32_t count;
static uint32_t quorum;
static uint32_t wall_s;

static uint64_t
clock_of(uint32_t i)
{
    return world_us + ahead_us[i];
}

static void
start(uint32_t i)
{
    scale_lease_init(&node[i], i + 1, LEASE_US, clock_of(i));
    memset(&told[i], 0, sizeof told[i]);
    up[i] = true;
}

static void
begin(uint32_t nodes, uint32_t needed)
{
    count = nodes;
    quorum = needed;
    world_us = 1000000;
    wall_s = 100;
    for (uint32_t a = 0; a < NODES; a++) {
        ahead_us[a] = a * 77777;
        for (uint32_t b = 0; b < NODES; b++) {
            linked[a][b] = true;
        }
        if (a < nodes) {
            start(a);
        }
    }
}

static uint32_t
acting(void)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < count; i++) {
        found += up[i] && scale_lease_acts(&node[i], clock_of(i));
    }
    return found;
}

/* Who acts; NODES: nobody. */
static uint32_t
actor(void)
{
    cr_assert_leq(acting(), 1);
    for (uint32_t i = 0; i < count; i++) {
        if (up[i] && scale_lease_acts(&node[i], clock_of(i))) {
            return i;
        }
    }
    return NODES;
}

/* The first that is up and that it hears begins. */
static void
turn(uint32_t i)
{
    struct scale_voter voters[NODES];
    struct scale_turn t = {.voters = voters,
                           .quorum = quorum,
                           .lease_us = LEASE_US,
                           .wall_s = wall_s,
                           .first = true};

    for (uint32_t j = 0; j < count; j++) {
        if (j != i && up[j] && linked[j][i]) {
            voters[t.count++] =
                (struct scale_voter){.name = j + 1, .word = told[j]};
            t.first = t.first && i < j;
        }
    }
    scale_lease_turn(&node[i], &t, clock_of(i));
}

static void
pass(uint32_t turns)
{
    for (; turns > 0; turns--) {
        world_us += TURN_US;
        for (uint32_t i = 0; i < count; i++) {
            if (up[i]) {
                turn(i);
            }
            cr_assert_leq(acting(), 1, "two act at %u", (unsigned)turns);
        }
        for (uint32_t i = 0; i < count; i++) {
            told[i] = node[i].own;
        }
    }
}

static void
cut_off(uint32_t i, bool cut)
{
    for (uint32_t j = 0; j < NODES; j++) {
        linked[i][j] = linked[j][i] = !cut;
    }
}

Test(node_scale_lease, a_node_alone_acts_once_its_own_vote_may_be_over)
{
    begin(1, 1);
    pass(9);
    cr_expect_eq(actor(), NODES);
    pass(3);
    cr_expect_eq(actor(), 0);
    pass(100);
    cr_expect_eq(actor(), 0);
    cr_expect_eq(node[0].own.epoch, 100);
}

Test(node_scale_lease, of_three_one_acts_and_another_when_it_is_gone)
{
    begin(3, 2);
    pass(40);
    cr_assert_eq(actor(), 0);
    uint32_t epoch = node[0].own.epoch;
    up[0] = false;
    pass(5);
    cr_expect_eq(actor(), NODES);
    pass(40);
    cr_expect_eq(actor(), 1);
    cr_expect_gt(node[1].own.epoch, epoch);
}

Test(node_scale_lease, who_comes_back_waits_though_it_comes_first)
{
    begin(3, 2);
    pass(40);
    up[0] = false;
    pass(40);
    cr_assert_eq(actor(), 1);
    start(0);
    for (uint32_t i = 0; i < 100; i++) {
        pass(1);
        cr_assert_eq(actor(), 1);
    }
}

Test(node_scale_lease, who_is_cut_off_ends_before_another_begins)
{
    begin(5, 3);
    pass(40);
    cr_assert_eq(actor(), 0);
    cut_off(0, true);
    pass(60); /* pass() asserts that never two act */
    cr_expect_eq(actor(), 1);
    cut_off(0, false);
    pass(60);
    cr_expect_eq(actor(), 1);
}

Test(node_scale_lease, of_two_apart_none_acts)
{
    begin(2, 2);
    pass(40);
    cr_assert_eq(actor(), 0);
    cut_off(0, true);
    pass(15);
    cr_expect_eq(actor(), NODES);
    pass(200);
    cr_expect_eq(actor(), NODES);
    cut_off(0, false);
    pass(60);
    cr_expect_neq(actor(), NODES);
}

Test(node_scale_lease, an_epoch_rises_though_the_time_of_day_goes_back)
{
    begin(3, 2);
    pass(40);
    uint32_t epoch = node[0].own.epoch;
    wall_s = 5;
    up[0] = false;
    pass(60);
    cr_assert_eq(actor(), 1);
    cr_expect_eq(node[1].own.epoch, epoch + 1);
}

Test(node_scale_lease, a_name_counts_once)
{
    struct scale_lease lease;
    struct scale_voter voters[2];
    struct scale_turn t = {.voters = voters,
                           .count = 2,
                           .quorum = 3,
                           .lease_us = LEASE_US,
                           .wall_s = 9,
                           .first = true};

    scale_lease_init(&lease, 1, LEASE_US, 0);
    for (uint64_t now = TURN_US; now < 30 * TURN_US; now += TURN_US) {
        voters[0] = (struct scale_voter){.name = 2, .word = lease.own};
        voters[1] = voters[0];
        scale_lease_turn(&lease, &t, now);
        cr_assert_not(scale_lease_acts(&lease, now));
    }
    t.quorum = 2;
    for (uint64_t now = 30 * TURN_US; now < 60 * TURN_US; now += TURN_US) {
        voters[0] = (struct scale_voter){.name = 2, .word = lease.own};
        voters[1] = voters[0];
        scale_lease_turn(&lease, &t, now);
    }
    cr_expect(scale_lease_acts(&lease, 60 * TURN_US));
    voters[0].digest = voters[1].digest = 7;
    cr_expect(scale_voters_know(voters, 2, 7, 2));
    cr_expect_not(scale_voters_know(voters, 2, 7, 3));
    cr_expect_not(scale_voters_know(voters, 2, 8, 2));
}

/* It may have been the clock alone. */
Test(node_scale_lease, a_clock_that_jumps_sets_no_voter_free)
{
    struct scale_lease lease;
    struct scale_voter voter = {.name = 2,
                                .word = {.holder = 2, .epoch = 5, .round = 1}};
    struct scale_turn t = {.voters = &voter,
                           .count = 1,
                           .quorum = 2,
                           .lease_us = LEASE_US,
                           .wall_s = 9};
    uint64_t now = 0;

    scale_lease_init(&lease, 1, LEASE_US, now);
    for (; lease.own.holder != 2; now += TURN_US) {
        scale_lease_turn(&lease, &t, now);
        cr_assert_lt(now, 20 * TURN_US);
    }
    now += 10 * LEASE_US;
    voter = (struct scale_voter){.name = 3,
                                 .word = {.holder = 3, .epoch = 6, .round = 1}};
    scale_lease_turn(&lease, &t, now);
    cr_expect_eq(lease.own.holder, 2);
    scale_lease_turn(&lease, &t, now + LEASE_US / 5);
    cr_expect_eq(lease.own.holder, 2);
    for (uint32_t i = 2; i < 10 && lease.own.holder != 3; i++) {
        scale_lease_turn(&lease, &t, now + i * TURN_US * 2);
    }
    cr_expect_eq(lease.own.holder, 3);
}

/* Whatever links, clocks and processes do: pass() looks after each turn. */
Test(node_scale_lease, two_never_act)
{
    uint32_t acted = 0;

    for (uint64_t seed = 0; seed < 300; seed++) {
        struct rng rng;
        rng_init(&rng, seed);
        begin(2 + (uint32_t)rng_below(&rng, 4), 2);
        quorum = count / 2 + 1;
        for (uint32_t step = 0; step < 300; step++) {
            uint32_t i = (uint32_t)rng_below(&rng, count);
            uint32_t j = (uint32_t)rng_below(&rng, count);
            switch (rng_below(&rng, 12)) {
            case 0:
                linked[i][j] = !linked[i][j];
                break;
            case 1:
                cut_off(i, rng_below(&rng, 2) == 0);
                break;
            case 2:
                up[i] = false;
                break;
            case 3:
                ahead_us[i] += rng_below(&rng, 3 * LEASE_US);
                break;
            case 4:
                wall_s += (uint32_t)rng_below(&rng, 3);
                break;
            default:
                break;
            }
            if (!up[i] && rng_below(&rng, 3) == 0) {
                start(i);
            }
            pass(1 + (uint32_t)rng_below(&rng, 6));
            acted += acting();
        }
    }
    cr_expect_gt(acted, 10000);
}
