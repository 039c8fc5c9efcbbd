/* What is tried again, where, and how often. */
#include "tests/unit/node/route/dispatch_rig.h"

TestSuite(dispatch_retry, .init = open_rig, .fini = close_rig);

Test(dispatch_retry,
     an_internal_error_goes_to_one_other_worker_and_then_to_the_client)
{
    start(false);
    deliver();
    uint32_t first = rig.d.choice.lease.slot;
    cr_assert(drops_after(500, 0));
    cr_assert_eq(counter_read(&rig.board->counters[first].failures), 1);
    deliver();
    cr_assert_neq(rig.d.choice.lease.slot, first);
    cr_assert_not(drops_after(500, 0)); /* sent twice: the third is not tried */
    end(DISPATCH_CANCELLED);
}

Test(dispatch_retry, the_only_workers_internal_error_is_passed_on)
{
    rig.breaker[1].state = BREAKER_OPEN;
    rig.breaker[2].state = BREAKER_OPEN;
    publish();
    start(false);
    deliver();
    cr_assert_not(drops_after(500, 0));
    cr_assert_not(drops_after(404, 0));
    cr_assert_not(drops_after(429, 3));
    cr_assert(drops_after(503, 0)); /* of a gateway: ours says more */
    cr_assert_eq(pull(), DISPATCH_REFUSE);
    cr_assert_eq(rig.d.refusal, DISPATCH_ALL_FAILED);
    end(DISPATCH_REFUSED);
}

Test(dispatch_retry, a_request_that_ends_its_engine_ends_two)
{
    struct dispatch_failure closed = {.fault = DISPATCH_CLOSED};

    role_is_lane();
    start(false);
    deliver();
    dispatch_failed(&rig.d, &closed);
    deliver();
    dispatch_failed(&rig.d, &closed);
    cr_assert_eq(pull(), DISPATCH_REFUSE);
    cr_assert_eq(rig.d.refusal, DISPATCH_ALL_FAILED);
    cr_assert_eq(rig.d.attempts_count, 2);
    end(DISPATCH_REFUSED);
}

Test(dispatch_retry, a_request_that_was_cut_off_may_go_to_every_worker)
{
    struct dispatch_failure closed = {.fault = DISPATCH_CLOSED};

    role_is_lane();
    start(false);
    for (uint32_t i = 0; i < WORKERS; i++) {
        cr_assert_eq(pull(), DISPATCH_CONNECT);
        dispatch_connected(&rig.d); /* and no more of it was sent */
        dispatch_failed(&rig.d, &closed);
    }
    cr_assert_eq(pull(), DISPATCH_REFUSE);
    end(DISPATCH_REFUSED);
}

Test(dispatch_retry,
     a_refusal_for_now_goes_to_every_worker_and_the_soonest_is_told)
{
    uint32_t count;

    start(false);
    deliver();
    uint32_t first = rig.d.choice.lease.slot;
    cr_assert(drops_after(429, 5));
    cr_assert_eq(counter_read(&rig.board->counters[first].failures), 0);
    (void)facts(FACT_OUTCOME, &count);
    cr_assert_eq(count, 0);
    deliver();
    cr_assert(drops_after(503, 9));
    deliver();
    cr_assert(drops_after(503, 30));
    cr_assert_eq(pull(), DISPATCH_REFUSE);
    cr_assert_eq(rig.d.refusal, DISPATCH_ALL_BUSY);
    cr_assert_eq(rig.d.busy.status, 429);
    cr_assert_eq(rig.d.busy.retry_after_s, 5);
    end(DISPATCH_REFUSED);
}

Test(dispatch_retry, the_last_refusal_is_passed_on_when_it_is_the_soonest)
{
    start(false);
    deliver();
    cr_assert(drops_after(429, 5));
    deliver();
    cr_assert(drops_after(503, 9));
    deliver();
    cr_assert_not(drops_after(503, 2));
    end(DISPATCH_CANCELLED);
}

Test(dispatch_retry, an_internal_error_counts_against_its_worker)
{
    uint32_t count;

    start(false);
    answer(500);
    cr_assert_eq(pull(), DISPATCH_WAIT);
    const struct fact_outcome *outcome = facts(FACT_OUTCOME, &count);
    cr_assert_eq(count, 1);
    cr_assert_eq(outcome->result, FACT_STATUS);
    end(DISPATCH_DONE);
}

Test(dispatch_retry, a_failure_before_the_head_goes_to_another_worker)
{
    start(false);
    cr_assert_eq(pull(), DISPATCH_CONNECT);
    uint32_t first = rig.d.choice.lease.slot;
    cr_assert_eq(fail(DISPATCH_UNREACHABLE), DISPATCH_CONNECT);
    cr_assert_neq(rig.d.choice.lease.slot, first);
    cr_assert_eq(gauge_read(&rig.board->inflight[first]), 0);
    cr_assert_eq(counter_read(&rig.board->counters[first].failures), 1);
    cr_assert_eq(counter_read(&rig.metrics.retries), 1);
    end(DISPATCH_CANCELLED);
}

Test(dispatch_retry, each_worker_is_tried_once_and_then_the_client_hears_of_all)
{
    start(false);
    cr_assert_eq(pull(), DISPATCH_CONNECT);
    cr_assert_eq(fail(DISPATCH_CLOSED), DISPATCH_CONNECT);
    cr_assert_eq(fail(DISPATCH_BAD), DISPATCH_CONNECT);
    rig.lane.attempts_max = 1; /* a reload leaves those that run */
    cr_assert_eq(fail(DISPATCH_STATUS), DISPATCH_REFUSE);
    cr_assert_eq(rig.d.refusal, DISPATCH_ALL_FAILED);
    cr_assert_eq(rig.d.attempts_count, WORKERS);
    cr_assert_eq(rig.d.attempt[0].worker[0] + rig.d.attempt[1].worker[0] +
                     rig.d.attempt[2].worker[0],
                 'a' + 'b' + 'c');
    cr_assert_eq(rig.d.attempt[2].status, 503);
    end(DISPATCH_REFUSED);
}

Test(dispatch_retry, no_more_attempts_are_made_than_configured)
{
    rig.lane.attempts_max = 1;
    start(false);
    cr_assert_eq(pull(), DISPATCH_CONNECT);
    cr_assert_eq(fail(DISPATCH_UNREACHABLE), DISPATCH_REFUSE);
    cr_assert_eq(rig.d.refusal, DISPATCH_ALL_FAILED);
    end(DISPATCH_REFUSED);
}

Test(dispatch_retry, without_a_worker_the_request_is_refused_at_once)
{
    uint32_t count;

    rig.breaker[0].state = BREAKER_OPEN;
    rig.breaker[1].state = BREAKER_OPEN;
    rig.breaker[2].state = BREAKER_OPEN;
    publish();
    start(false);
    cr_assert_eq(pull(), DISPATCH_REFUSE);
    cr_assert_eq(rig.d.refusal, DISPATCH_NO_WORKER);
    end(DISPATCH_REFUSED);
    const struct fact_decision *decision = facts(FACT_DECISION, &count);
    cr_assert_eq(decision->slot, WORKER_NONE);
    cr_assert_eq(decision->generation, 0);
    cr_assert_eq(decision->status, 502);
    cr_assert_eq(decision->attempts, 0);
}

Test(dispatch_retry, a_model_that_nobody_serves_is_refused_by_name)
{
    worker_set_clear(&rig.view.any_model);
    role_is_lane();
    dispatch_init(&rig.d, &rig.lane, rig.now_us);
    cr_assert_eq(
        route_read(&rig.scratch, SLICE("{\"model\":\"m\",\"prompt\":\"hi\"}"),
                   SCAN_API_GUESSED),
        0);
    dispatch_start(&rig.d, false);
    cr_assert_eq(pull(), DISPATCH_REFUSE);
    cr_assert_eq(rig.d.refusal, DISPATCH_NO_MODEL);
    end(DISPATCH_REFUSED);
}

Test(dispatch_retry, a_node_without_descriptors_blames_no_worker)
{
    uint32_t count;

    start(false);
    cr_assert_eq(pull(), DISPATCH_CONNECT);
    uint32_t first = rig.d.choice.lease.slot;
    cr_assert_eq(fail(DISPATCH_EXHAUSTED), DISPATCH_CONNECT);
    cr_assert_neq(rig.d.choice.lease.slot, first);
    cr_assert_eq(counter_read(&rig.board->counters[first].failures), 0);
    (void)facts(FACT_OUTCOME, &count);
    cr_assert_eq(count, 0);
    end(DISPATCH_CANCELLED);
}

Test(dispatch_retry, a_kept_connection_that_was_dead_is_replaced_once)
{
    struct dispatch_failure dead = {.fault = DISPATCH_CLOSED, .kept = true};
    uint32_t count;

    start(false);
    cr_assert_eq(pull(), DISPATCH_CONNECT);
    uint32_t first = rig.d.choice.lease.slot;
    role_is_lane();
    dispatch_connected(&rig.d);
    dispatch_failed(&rig.d, &dead);
    cr_assert_eq(pull(), DISPATCH_CONNECT);
    cr_assert(rig.d.fresh && rig.d.choice.lease.slot == first);
    (void)facts(FACT_OUTCOME, &count);
    cr_assert_eq(count, 0);
    dispatch_connected(&rig.d);
    dispatch_failed(&rig.d, &dead);
    cr_assert_eq(pull(), DISPATCH_CONNECT);
    cr_assert(!rig.d.fresh && rig.d.choice.lease.slot != first);
    end(DISPATCH_CANCELLED);
}

Test(dispatch_retry, what_nobody_read_is_no_send)
{
    struct dispatch_failure unread = {
        .fault = DISPATCH_CLOSED, .kept = true, .unread = true};
    struct dispatch_failure closed = {.fault = DISPATCH_CLOSED};

    role_is_lane();
    start(false);
    deliver(); /* whole, into a connection that had ended before */
    uint32_t first = rig.d.choice.lease.slot;
    dispatch_failed(&rig.d, &unread);
    deliver();
    cr_assert(rig.d.fresh && rig.d.choice.lease.slot == first);
    dispatch_failed(&rig.d, &closed);
    deliver(); /* the one that retries.after_send allows */
    cr_assert_neq(rig.d.choice.lease.slot, first);
    dispatch_failed(&rig.d, &closed);
    cr_assert_eq(pull(), DISPATCH_REFUSE);
    cr_assert_eq(rig.d.attempts_count, 2);
    end(DISPATCH_REFUSED);
}

Test(dispatch_retry, what_somebody_may_have_read_is_a_send)
{
    struct dispatch_failure dead = {.fault = DISPATCH_CLOSED, .kept = true};

    role_is_lane();
    start(false);
    deliver();
    uint32_t first = rig.d.choice.lease.slot;
    dispatch_failed(&rig.d, &dead);
    deliver();
    cr_assert_neq(rig.d.choice.lease.slot, first, "it is ending");
    dispatch_failed(&rig.d, &dead);
    cr_assert_eq(pull(), DISPATCH_REFUSE);
    end(DISPATCH_REFUSED);
}

/* What has this key is at that worker. */
static void
store(uint64_t key, uint32_t slot)
{
    cr_assert_eq(radix_worker_add(rig.belief, slot, 1000, RADIX_LRU), 0);
    cr_assert_eq(radix_insert(rig.belief, SESSION_ROOT, &key, 1, slot, 0, 1),
                 0);
}

static void
seek(uint64_t key)
{
    rig.world.affinity = SESSION_BOUND;
    rig.world.session = key;
    start(false);
}

Test(dispatch_retry, what_nobody_is_known_to_have_is_sought_at_all_workers)
{
    rig.lane.attempts_max = 1; /* a worker without it has failed nothing */
    seek(77);
    deliver();
    cr_assert(drops_after(404, 0));
    deliver();
    cr_assert(drops_after(404, 0));
    deliver();
    cr_assert_not(drops_after(404, 0), "the last word is for the client");
    end(DISPATCH_CANCELLED);
}

Test(dispatch_retry, what_is_stored_is_asked_of_its_worker_alone)
{
    store(77, 2);
    seek(77);
    deliver();
    cr_assert_eq(rig.d.choice.lease.slot, 2);
    cr_assert_not(drops_after(404, 0), "it was deleted");
    end(DISPATCH_CANCELLED);
}

Test(dispatch_retry, what_a_lost_worker_stored_is_asked_of_nobody)
{
    store(77, 2);
    rig.breaker[2].state = BREAKER_OPEN;
    publish();
    seek(77);
    cr_assert_eq(pull(), DISPATCH_REFUSE);
    cr_assert_eq(rig.d.refusal, DISPATCH_NO_WORKER);
    end(DISPATCH_REFUSED);
}

Test(dispatch_retry, what_an_answer_says_was_made_is_learned_at_its_worker)
{
    uint32_t count;

    role_is_lane();
    start(false);
    answer(200);
    uint64_t answered = rig.d.answered;
    (void)facts(FACT_SESSION, &count);
    cr_assert_eq(count, 0);
    dispatch_stores(&rig.d, 99);
    const struct fact_learn *fact = facts(FACT_SESSION, &count);
    cr_assert_eq(count, 1);
    cr_assert_eq(fact->slot, rig.d.choice.lease.slot);
    cr_assert_eq(fact->root, SESSION_ROOT);
    cr_assert(fact->count == 1 && fact->keys[0] == 99 && fact->held == 0);
    cr_assert_eq(rig.d.answered, answered, "the request's own is kept");
    end(DISPATCH_DONE);
}
