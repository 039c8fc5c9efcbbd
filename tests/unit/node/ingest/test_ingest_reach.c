#include <criterion/criterion.h>
#include <errno.h>

#include "node/ingest/ingest_reach.h"

#define MS  UINT64_C(1000)
#define SEC (1000 * MS)

static const struct ingest_reach_config config = {.unable_ms = 5000,
                                                  .able_ms = 1000};
static struct ingest_reach reach;
static uint64_t now_us;
static uint32_t opened, closed, unable, able;
static int outcome; /* of what is opened and closed */

static void
setup(void)
{
    reach = (struct ingest_reach){0};
    now_us = 1000 * SEC;
    opened = closed = unable = able = 0;
    outcome = 0;
}

TestSuite(node_ingest_reach, .init = setup);

static void
pull(void)
{
    for (;;) {
        switch (ingest_reach_next(&reach, &config, now_us)) {
        case INGEST_REACH_OPEN:
            opened++;
            ingest_reach_opened(&reach, outcome);
            break;
        case INGEST_REACH_CLOSE:
            closed++;
            ingest_reach_closed(&reach, outcome);
            break;
        case INGEST_REACH_SAY_UNABLE:
            unable++;
            break;
        case INGEST_REACH_SAY_ABLE:
            able++;
            break;
        case INGEST_REACH_NOTHING:
            return;
        }
    }
}

static void
want(bool on)
{
    ingest_reach_want(&reach, on);
    pull();
}

/* Looks once a second, and sees this. */
static void
run(uint32_t seconds, enum ingest_reach_seen seen)
{
    for (uint32_t i = 0; i < seconds; i++) {
        now_us += SEC;
        ingest_reach_look(&reach, reach.open ? seen : INGEST_REACH_NOT, now_us);
        pull();
    }
}

Test(node_ingest_reach, time_without_a_source_is_no_time_out_of_reach)
{
    run(60, INGEST_REACH_NOT); /* another node reads */
    want(true);
    cr_assert(reach.takes);
    cr_assert_eq(unable, 0);
    run(4, INGEST_REACH_NOT);
    cr_assert_eq(unable, 0);
    run(2, INGEST_REACH_NOT);
    cr_assert_eq(unable, 1);
}

Test(node_ingest_reach, who_is_to_read_opens_and_who_is_not_closes)
{
    want(true);
    cr_assert(reach.takes);
    want(true);
    run(60, INGEST_REACH_REACHED);
    cr_assert_eq(opened, 1);
    want(false);
    run(60, INGEST_REACH_REACHED);
    cr_assert_eq(closed, 1);
    cr_assert_not(reach.open);
    cr_assert_eq(unable + able, 0);
}

Test(node_ingest_reach, a_reader_without_a_connection_says_so_once)
{
    want(true);
    run(5, INGEST_REACH_NOT);
    cr_assert_eq(unable, 0);
    run(60, INGEST_REACH_NOT);
    cr_assert_eq(unable, 1);
    cr_assert_eq(able, 0);
    cr_assert_eq(opened, 1);
}

Test(node_ingest_reach, a_connection_that_comes_back_in_time_is_no_matter)
{
    want(true);
    for (uint32_t i = 0; i < 10; i++) {
        run(4, INGEST_REACH_NOT);
        run(1, INGEST_REACH_REACHED);
    }
    cr_assert_eq(unable, 0);
}

Test(node_ingest_reach, who_is_unable_goes_on_trying_and_takes_nothing)
{
    want(true);
    run(6, INGEST_REACH_NOT);
    want(false);
    run(600, INGEST_REACH_NOT);
    cr_assert_eq(closed, 0);
    cr_assert(reach.open);
    cr_assert_not(reach.takes);
    cr_assert_eq(able, 0);
}

Test(node_ingest_reach, a_connection_that_stands_is_said_and_then_read_anew)
{
    want(true);
    run(6, INGEST_REACH_NOT);
    want(false);
    run(10, INGEST_REACH_NOT);
    run(1, INGEST_REACH_REACHED);
    cr_assert_eq(able, 0); /* it only just came */
    run(1, INGEST_REACH_REACHED);
    cr_assert_eq(able, 1);
    cr_assert_not(reach.open); /* until it is wanted again */
    want(true);
    cr_assert(reach.takes);
    cr_assert_eq(opened, 2);
    run(60, INGEST_REACH_REACHED);
    cr_assert_eq(unable, 1);
    cr_assert_eq(opened, 2);
}

Test(node_ingest_reach, a_connection_that_comes_and_goes_is_not_one)
{
    want(true);
    run(6, INGEST_REACH_NOT);
    want(false);
    for (uint32_t i = 0; i < 10; i++) {
        run(1, INGEST_REACH_REACHED);
        run(2, INGEST_REACH_NOT);
    }
    cr_assert_eq(able, 0);
}

Test(node_ingest_reach, who_reads_because_nobody_can_is_able_at_once)
{
    want(true);
    run(30, INGEST_REACH_NOT);
    cr_assert_eq(unable, 1);
    cr_assert(reach.takes);
    run(1, INGEST_REACH_REACHED);
    cr_assert_eq(able, 1);
    cr_assert(reach.takes);
    cr_assert_eq(opened, 1);
}

Test(node_ingest_reach, who_is_to_read_though_unable_takes_from_a_new_source)
{
    want(true);
    run(6, INGEST_REACH_NOT);
    want(false);
    run(1, INGEST_REACH_REACHED); /* and what it brings is not taken */
    want(true);
    cr_assert_eq(closed, 1);
    cr_assert_eq(opened, 2);
    cr_assert(reach.takes);
}

Test(node_ingest_reach, what_cannot_be_opened_is_tried_again_and_said)
{
    outcome = -ENOSPC;
    want(true);
    cr_assert_eq(opened, 1);
    run(6, INGEST_REACH_REACHED);
    cr_assert_eq(opened, 7);
    cr_assert_eq(unable, 1);
    want(false);
    outcome = 0;
    run(1, INGEST_REACH_REACHED);
    cr_assert(reach.open);
    cr_assert_not(reach.takes);
    run(2, INGEST_REACH_REACHED);
    cr_assert_eq(able, 1);
}

Test(node_ingest_reach, what_cannot_be_closed_is_not_taken_and_tried_again)
{
    want(true);
    run(1, INGEST_REACH_REACHED);
    outcome = -EAGAIN;
    want(false);
    cr_assert_not(reach.takes);
    want(true); /* that source may have brought something in between */
    cr_assert_not(reach.takes);
    run(3, INGEST_REACH_REACHED);
    cr_assert_eq(opened, 1);
    outcome = 0;
    run(1, INGEST_REACH_REACHED);
    cr_assert(reach.takes);
    cr_assert_eq(opened, 2);
    cr_assert_eq(closed, 5);
}

Test(node_ingest_reach, what_cannot_be_said_says_nothing)
{
    want(true);
    run(60, INGEST_REACH_UNKNOWN);
    cr_assert_eq(unable + able, 0);
}

Test(node_ingest_reach, who_slept_gives_the_connection_time_to_return)
{
    want(true);
    run(1, INGEST_REACH_NOT);
    now_us += 600 * SEC;
    run(1, INGEST_REACH_NOT);
    cr_assert_eq(unable, 0);
    run(6, INGEST_REACH_NOT);
    cr_assert_eq(unable, 1);
}
