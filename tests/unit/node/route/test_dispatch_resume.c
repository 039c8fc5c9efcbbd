/* An answer that broke off, and goes on at another worker. */
#include "tests/unit/node/route/dispatch_rig.h"

TestSuite(dispatch_resume, .init = open_rig, .fini = close_rig);

/* A worker got the request whole, and its answer has begun. */
static void
begin(void)
{
    role_is_lane();
    start(false);
    answer(200);
    dispatch_sent(&rig.d);
    dispatch_began(&rig.d, rig.now_us);
}

Test(dispatch_resume, another_worker_goes_on)
{
    uint32_t count;

    role_is_lane();
    begin();
    uint32_t first = rig.d.choice.lease.slot;
    uint64_t first_token_us = rig.d.first_token_us;
    cr_assert(dispatch_may_resume(&rig.d));
    dispatch_resumes(&rig.d);
    cr_assert_eq(gauge_read(&rig.board->inflight[first]), 0);
    cr_assert_eq(counter_read(&rig.board->counters[first].streams_severed), 1);
    cr_assert_eq(
        ((const struct fact_outcome *)facts(FACT_OUTCOME, &count))->result,
        FACT_CLOSED);
    cr_assert_eq(count, 1);
    answer(200);
    cr_assert_neq(rig.d.choice.lease.slot, first);
    dispatch_sent(&rig.d);
    dispatch_began(&rig.d, rig.now_us);
    end(DISPATCH_DONE);
    const struct fact_decision *decision = facts(FACT_DECISION, &count);
    cr_assert_eq(decision->resumed, 1);
    cr_assert_eq(decision->attempts, 2);
    cr_assert_eq(decision->status, 200);
    cr_assert(!decision->severed && !decision->cached_known);
    cr_assert_eq(decision->first_token_us, first_token_us - rig.d.begun_us);
    cr_assert_eq(counter_read(&rig.metrics.resumed), 1);
    cr_assert_eq(metrics_ended(&rig.metrics.ends, METRICS_ANSWERED), 1);
}

Test(dispatch_resume, what_was_learned_of_the_first_is_not_kept_for_its_end)
{
    const struct fact_settled *fact;
    uint32_t count;

    role_is_lane();
    begin();
    uint64_t ticket = rig.d.answered;
    cr_assert_neq(ticket, 0);
    (void)facts(FACT_SETTLED, &count);
    dispatch_resumes(&rig.d);
    fact = facts(FACT_SETTLED, &count);
    cr_assert_eq(count, 1);
    cr_assert(fact->learned && fact->broke_off);
    cr_assert_eq(fact->ticket, ticket);
    answer(200);
    cr_assert_neq(rig.d.answered, ticket);
    dispatch_began(&rig.d, rig.now_us);
    end(DISPATCH_DONE);
}

Test(dispatch_resume, what_ends_its_engines_ends_two)
{
    role_is_lane();
    begin();
    dispatch_resumes(&rig.d);
    answer(200);
    dispatch_sent(&rig.d);
    cr_assert(!dispatch_may_resume(&rig.d));
    dispatch_broke_off(&rig.d);
    cr_assert_eq(pull(), DISPATCH_SEVER);
    end(DISPATCH_SEVERED);
}

Test(dispatch_resume, without_another_worker_the_client_hears_of_no_error)
{
    uint32_t count;

    role_is_lane();
    rig.lane.retries.after_send = DISPATCH_ATTEMPTS_MAX;
    begin();
    dispatch_resumes(&rig.d);
    while (pull() == DISPATCH_CONNECT) {
        struct dispatch_failure failure = {.fault = DISPATCH_STATUS,
                                           .status = 400};
        dispatch_connected(&rig.d);
        cr_assert(dispatch_drops(&rig.d, &failure), "it is none of his");
        dispatch_failed(&rig.d, &failure);
        if (rig.d.due == DISPATCH_SEVER) {
            break;
        }
    }
    cr_assert_eq(rig.d.state, DISPATCH_LOST);
    end(DISPATCH_SEVERED);
    cr_assert_eq(metrics_ended(&rig.metrics.ends, METRICS_ALL_FAILED), 0);
    cr_assert_eq(metrics_ended(&rig.metrics.ends, METRICS_BROKE_OFF), 1);
    const struct fact_decision *decision = facts(FACT_DECISION, &count);
    cr_assert(decision->severed);
}

Test(dispatch_resume, a_client_may_leave_in_between)
{
    role_is_lane();
    begin();
    dispatch_resumes(&rig.d);
    cr_assert_eq(pull(), DISPATCH_CONNECT);
    end(DISPATCH_CANCELLED);
}
