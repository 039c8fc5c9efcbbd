/* Jobs as one node knows them. */
#include <criterion/criterion.h>

#include "node/peers/scale_seat.h"

static struct scale_seat seat;
static uint64_t now_us = 1000000;

static void
hear(enum scale_state state)
{
    const struct scale_record record = {
        .state = state, .model = "m", .worker = "h:1"};

    now_us += 1000000;
    scale_job_heard(&seat.job[0], &record, now_us);
    seat.count = 1;
}

Test(node_scale_seat, only_what_worked_is_taken_back)
{
    hear(SCALE_COMES);
    hear(SCALE_DRAINS); /* it took no requests in time */
    cr_expect_null(scale_seat_find_draining(&seat, "m"));
    hear(SCALE_WORKS);
    hear(SCALE_DRAINS);
    cr_expect_eq(scale_seat_find_draining(&seat, "m"), &seat.job[0]);
    cr_expect_null(scale_seat_find_draining(&seat, "n"));
    hear(SCALE_ENDS);
    cr_expect_null(scale_seat_find_draining(&seat, "m"));
}
