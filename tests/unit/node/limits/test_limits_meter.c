#include <criterion/criterion.h>

#include "node/limits/limits_meter.h"

#define SECOND UINT64_C(1000000)

static struct limits_gate gate;
static struct limits_meter meter;

static void
setup(void)
{
    memset(&gate, 0, sizeof gate);
}

TestSuite(limits_meter, .init = setup);

static void
tick_among(uint32_t peers, uint64_t now_us)
{
    const struct limits_peers among = {.count = peers, .settled = true};
    const char *reason;

    limits_meter_tick(&meter, &gate, &among, now_us);
    cr_assert(limits_meter_check(&meter, &reason), "%s", reason);
}

static void
tick(uint64_t now_us)
{
    tick_among(0, now_us);
}

/* Takes one after the other until there is no more. */
static unsigned
take_all(bool spends)
{
    unsigned taken = 0;

    while (limits_gate_take(&gate, 1)) {
        if (spends) {
            limits_gate_settle(&gate, 1, 1);
        }
        taken++;
    }
    return taken;
}

Test(limits_meter, a_node_alone_lets_the_limit_through_in_any_minute)
{
    limits_meter_init(&meter, 5, 60000, SECOND, 1);
    tick(SECOND);
    cr_assert_eq(take_all(true), 5);
    for (uint64_t s = 2; s <= 61; s++) {
        tick(s * SECOND);
        cr_assert_eq(take_all(true), 0, "second %u", (unsigned)s);
    }
    tick(63 * SECOND); /* seen a second after they were taken */
    cr_assert_eq(take_all(true), 5);
    cr_assert_eq(counter_read(&gate.refused), 62);
}

Test(limits_meter, what_is_open_may_be_used_again_at_once)
{
    limits_meter_init(&meter, 3, 0, SECOND, 1);
    tick(SECOND);
    cr_assert_eq(take_all(false), 3);
    limits_gate_settle(&gate, 1, 0);
    cr_assert_eq(take_all(false), 1);
}

Test(limits_meter, what_is_spent_may_be_more_or_less_than_was_taken)
{
    limits_meter_init(&meter, 100, 60000, SECOND, 1);
    tick(SECOND);
    cr_assert(limits_gate_take(&gate, 60));
    cr_assert_not(limits_gate_take(&gate, 60));
    limits_gate_settle(&gate, 60, 10);
    cr_assert(limits_gate_take(&gate, 90));
    limits_gate_settle(&gate, 90, 150);
    tick(2 * SECOND);
    cr_assert_eq(limits_meter_used(&meter), 160);
    cr_assert_not(limits_gate_take(&gate, 1));
    cr_assert_eq(limits_gate_standing(&gate, 1).left, 0);
}

Test(limits_meter, what_peers_tell_is_taken_off_however_often_they_do)
{
    struct limits_told told = {.spent = 1000};

    limits_meter_init(&meter, 50, 60000, SECOND, 1);
    limits_meter_hear(&meter, 3, 77, &told); /* before this node was there */
    told = (struct limits_told){.spent = 1030, .open = 15, .window = 30};
    for (int i = 0; i < 3; i++) {
        limits_meter_hear(&meter, 3, 77, &told);
    }
    tick_among(1, 2 * SECOND);
    cr_assert_eq(limits_meter_used(&meter), 45);
    limits_meter_lost(&meter, 3); /* and with it what it had open */
    tick(3 * SECOND);
    cr_assert_eq(limits_meter_used(&meter), 30);
    cr_assert_eq(take_all(true), 20);
}

Test(limits_meter, who_comes_late_knows_what_was_spent_before)
{
    struct limits_told told = {.spent = 9, .window = 40};

    limits_meter_init(&meter, 50, 60000, SECOND, 1);
    limits_meter_hear(&meter, 0, 5, &told);
    tick_among(1, 2 * SECOND);
    cr_assert_eq(limits_meter_used(&meter), 40);
    told.window = 10; /* 30 of them count no more */
    limits_meter_hear(&meter, 0, 5, &told);
    tick_among(1, 3 * SECOND);
    cr_assert_eq(limits_meter_used(&meter), 10);
    cr_assert_eq(limits_meter_tell(&meter).window, 0,
                 "it heard of none itself");
}

Test(limits_meter, a_client_is_told_when_there_is_enough)
{
    limits_meter_init(&meter, 2, 60000, SECOND, 1);
    tick(SECOND);
    cr_assert(limits_gate_take(&gate, 1));
    limits_gate_settle(&gate, 1, 1);
    tick(2 * SECOND);
    tick(21 * SECOND);
    cr_assert(limits_gate_take(&gate, 1));
    limits_gate_settle(&gate, 1, 1);
    tick(22 * SECOND);
    struct limits_standing s = limits_gate_standing(&gate, 1);
    cr_assert_eq(s.limit, 2);
    cr_assert_eq(s.left, 0);
    cr_assert(s.wait_ms > 39000 && s.wait_ms <= 71000, "%u",
              (unsigned)s.wait_ms);
    cr_assert(s.reset_ms > 59000 && s.reset_ms < 61000);
}

/* 10 ms apart. */
static uint64_t
rest_among(uint32_t peers, uint64_t from_us, uint64_t to_us)
{
    while (from_us < to_us) {
        from_us += SECOND / 100;
        tick_among(peers, from_us);
    }
    return from_us;
}

Test(limits_meter, nodes_at_rest_hold_a_part_of_what_is_free)
{
    limits_meter_init(&meter, 120, 60000, SECOND, 1);
    uint64_t now_us = rest_among(1, SECOND, 5 * SECOND);
    unsigned taken = take_all(true);
    cr_assert(taken >= 10 && taken <= 15, "%u of 120", taken);
    (void)rest_among(1, now_us, now_us + SECOND / 2);
    cr_assert_gt(take_all(true), 0);
}

Test(limits_meter, the_last_one_can_be_taken)
{
    const struct limits_told nothing = {.spent = 0};
    const struct limits_told told = {.spent = 119, .window = 119};

    limits_meter_init(&meter, 120, 60000, SECOND, 1);
    limits_meter_hear(&meter, 0, 7, &nothing);
    limits_meter_hear(&meter, 0, 7, &told);
    (void)rest_among(1, SECOND, 5 * SECOND);
    cr_assert_eq(take_all(true), 1);
}

/* A burst at one node, whose peers are at rest: how many of it wait, and until
 * when the last of them has passed; 0: one was refused. */
static uint64_t
burst(uint32_t peers, uint32_t limit, uint32_t *waits)
{
    limits_meter_init(&meter, limit, 60000, SECOND, 1);
    uint64_t begun_us = rest_among(peers, SECOND, 5 * SECOND);
    uint64_t now_us = begun_us;
    uint32_t left = 0;

    for (uint32_t i = 0; i < limit; i++) {
        switch (limits_gate_ask(&gate, 1, false)) {
        case LIMITS_TAKEN:
            limits_gate_settle(&gate, 1, 1);
            break;
        case LIMITS_WAITS:
            limits_gate_wait(&gate, 1);
            left++;
            break;
        case LIMITS_OVER:
            return 0;
        }
    }
    *waits = left;
    cr_assert_eq(limits_gate_ask(&gate, 1, false), LIMITS_OVER,
                 "there is no more than those who wait want");
    while (left != 0 && now_us < begun_us + 60 * SECOND) {
        now_us = rest_among(peers, now_us, now_us + SECOND / 20);
        while (left != 0 && limits_gate_look(&gate, 1, true) == LIMITS_TAKEN) {
            cr_assert_eq(limits_gate_look(&gate, 1, false), LIMITS_OVER,
                         "it is for those who wait");
            limits_gate_leave(&gate, 1);
            cr_assert_eq(limits_gate_ask(&gate, 1, true), LIMITS_TAKEN);
            limits_gate_settle(&gate, 1, 1);
            left--;
        }
    }
    return now_us - begun_us;
}

Test(limits_meter, a_burst_that_fits_passes_within_seconds)
{
    static const uint32_t limits[] = {2, 5, 10, 60, 600};

    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        uint32_t waits;
        setup();
        uint64_t took_us = burst(2, limits[i], &waits);
        cr_assert(took_us > 0 && took_us < 3 * SECOND, "%u: %u ms", limits[i],
                  (unsigned)(took_us / 1000));
        cr_assert_gt(waits, 0);
        cr_assert_eq(counter_read(&gate.waited), waits);
        cr_assert_eq(counter_read(&gate.waits), 0);
        cr_assert_eq(counter_read(&gate.refused), 1, "the one too many");
    }
}

Test(limits_meter, nobody_waits_at_a_node_alone)
{
    uint32_t waits;

    cr_assert_eq(burst(0, 7, &waits), 0);
    cr_assert_eq(waits, 0);
}
