/* A request that may ask for several models, one after the other. */
#include "tests/unit/node/route/dispatch_rig.h"

TestSuite(dispatch_model, .init = open_rig, .fini = close_rig);

/* As a caller does that has the request ask for the next model: here all
 * workers serve any. */
static enum dispatch_action
rename_it(void)
{
    role_is_lane();
    cr_assert_eq(rig.d.state, DISPATCH_RENAMING);
    dispatch_renamed(&rig.d);
    return pull();
}

Test(dispatch_model, the_next_model_is_asked_for_when_no_worker_takes_this_one)
{
    role_is_lane();
    rig.breaker[1].state = BREAKER_OPEN;
    rig.breaker[2].state = BREAKER_OPEN;
    publish();
    start(false);
    rig.d.models_left = 1;
    cr_assert_eq(pull(), DISPATCH_CONNECT);
    cr_assert_eq(fail(DISPATCH_UNREACHABLE), DISPATCH_RENAME);
    cr_assert_eq(counter_read(&rig.metrics.model_fallbacks), 1);
    rig.breaker[1].state = BREAKER_CLOSED;
    publish();
    cr_assert_eq(rename_it(), DISPATCH_CONNECT);
    cr_assert_eq(rig.d.choice.lease.slot, 1);
    dispatch_connected(&rig.d);
    dispatch_answered(&rig.d, 200, rig.now_us);
    end(DISPATCH_DONE);
}

Test(dispatch_model, each_model_has_its_attempts_and_then_all_are_told)
{
    rig.lane.attempts_max = 1;
    start(false);
    rig.d.models_left = 1;
    cr_assert_eq(pull(), DISPATCH_CONNECT);
    cr_assert_eq(fail(DISPATCH_UNREACHABLE), DISPATCH_RENAME);
    cr_assert_eq(rename_it(), DISPATCH_CONNECT);
    cr_assert_eq(fail(DISPATCH_UNREACHABLE), DISPATCH_REFUSE);
    cr_assert_eq(rig.d.refusal, DISPATCH_ALL_FAILED);
    cr_assert_eq(rig.d.attempts_count, 2);
    end(DISPATCH_REFUSED);
}

Test(dispatch_model, an_attempt_is_left_for_each_model_that_may_follow)
{
    rig.lane.attempts_max = DISPATCH_ATTEMPTS_MAX;
    start(false);
    rig.d.models_left = 1;
    rig.d.attempts_count = DISPATCH_ATTEMPTS_MAX - 2;
    cr_assert_eq(pull(), DISPATCH_CONNECT);
    cr_assert_eq(fail(DISPATCH_UNREACHABLE), DISPATCH_RENAME);
    cr_assert_eq(rename_it(), DISPATCH_CONNECT);
    cr_assert_eq(fail(DISPATCH_UNREACHABLE), DISPATCH_REFUSE);
    end(DISPATCH_REFUSED);
}

Test(dispatch_model, what_may_have_ended_engines_goes_to_no_other_model)
{
    struct dispatch_failure closed = {.fault = DISPATCH_CLOSED};

    role_is_lane();
    start(false);
    rig.d.models_left = 1;
    deliver();
    dispatch_failed(&rig.d, &closed);
    deliver();
    dispatch_failed(&rig.d, &closed);
    cr_assert_eq(pull(), DISPATCH_REFUSE);
    cr_assert_eq(rig.d.attempts_count, 2);
    end(DISPATCH_REFUSED);
}

Test(dispatch_model, engines_that_answer_with_errors_leave_it_to_the_next_model)
{
    role_is_lane();
    start(false);
    rig.d.models_left = 1;
    deliver();
    cr_assert(drops_after(500, 0));
    deliver();
    cr_assert(drops_after(500, 0)); /* not told: there is another model */
    cr_assert_eq(pull(), DISPATCH_RENAME);
    cr_assert_eq(rename_it(), DISPATCH_CONNECT);
    dispatch_connected(&rig.d);
    dispatch_sent(&rig.d);
    cr_assert_not(drops_after(500, 0)); /* the last model's: sent once more */
    end(DISPATCH_CANCELLED);
}

static void
fill_all(int32_t by)
{
    gauge_set(&rig.board->limited, FLEET_SET);
    for (uint32_t slot = 0; slot < WORKERS; slot++) {
        gauge_set(&rig.board->limit[slot], 1);
        gauge_add(&rig.board->inflight[slot], by);
    }
}

Test(dispatch_model, a_full_queue_leaves_it_to_the_next_model)
{
    fill_all(1);
    start(false);
    rig.d.models_left = 1;
    cr_assert_eq(pull(), DISPATCH_QUEUE);
    role_is_lane();
    dispatch_unplaced(&rig.d, DISPATCH_QUEUE_FULL, 3, rig.now_us);
    cr_assert_eq(pull(), DISPATCH_RENAME);
    fill_all(-1);
    cr_assert_eq(rename_it(), DISPATCH_CONNECT);
    end(DISPATCH_CANCELLED);
}

Test(dispatch_model, a_client_is_told_of_its_first_models_trouble)
{
    static const struct fleet_model known = {.name = {"m", 1}};

    rig.models = (struct fleet_models){.count = 1, .model = &known};
    worker_set_clear(&rig.view.any_model);
    fill_all(1);
    start(false);
    rig.d.models_left = 1;
    cr_assert_eq(pull(), DISPATCH_QUEUE);
    role_is_lane();
    dispatch_unplaced(&rig.d, DISPATCH_QUEUE_LATE, 3, rig.now_us);
    cr_assert_eq(pull(), DISPATCH_RENAME);
    cr_assert_eq(
        route_read(&rig.scratch, SLICE("{\"model\":\"x\",\"prompt\":\"p\"}"),
                   SCAN_API_GUESSED),
        0);
    cr_assert_eq(rename_it(), DISPATCH_REFUSE);
    cr_assert_eq(rig.d.refusal, DISPATCH_QUEUE_LATE);
    fill_all(-1);
    end(DISPATCH_REFUSED);
}
