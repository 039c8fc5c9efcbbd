/* One request's way through its attempts. */
#include "tests/unit/node/route/dispatch_rig.h"

TestSuite(dispatch, .init = open_rig, .fini = close_rig);

Test(dispatch, an_answer_is_passed_on_and_control_learns_the_prefix)
{
    uint32_t count;

    start(false);
    answer(200);
    const struct fact_learn *learn = facts(FACT_LEARN, &count);
    cr_assert_eq(count, 1);
    cr_assert_eq(learn->slot, rig.d.choice.lease.slot);
    cr_assert_eq(learn->generation, 7);
    cr_assert_geq(learn->count, 3);
    end(DISPATCH_DONE);
    const struct fact_decision *decision = facts(FACT_DECISION, &count);
    cr_assert_eq(count, 1);
    cr_assert_eq(decision->status, 200);
    cr_assert_eq(decision->attempts, 1);
    cr_assert_eq(decision->route_us, 1);
    cr_assert_eq(decision->first_byte_us, 5 * MS + 1);
    cr_assert_eq(decision->wall_ms, 1000000 - 5);
    cr_assert_eq(decision->prompt_tokens, 9);
    cr_assert_str_eq(decision->reason,
                     "new prefix: first by hash of the least cost");
    cr_assert_geq(decision->candidates, 1);
    cr_assert_eq(decision->load, 0);
    cr_assert_gt(decision->cost, 0);
}

/* Whether the last attempt that was settled is the one that was learned. */
static bool
settled(bool learned)
{
    const struct fact_settled *fact;
    uint32_t count;

    fact = facts(FACT_SETTLED, &count);
    return count == 1 && fact->learned == learned && fact->ticket != 0;
}

Test(dispatch, only_an_answer_of_success_teaches)
{
    start(false);
    answer(200);
    cr_assert(settled(true));
    end(DISPATCH_DONE);
    uint32_t count;
    (void)facts(FACT_SETTLED, &count);
    cr_assert_eq(count, 0); /* once */

    for (unsigned status = 300; status < 600; status += 100) {
        start(false);
        answer(status);
        cr_assert(settled(false));
        end(DISPATCH_DONE);
    }
}

Test(dispatch, an_attempt_that_fails_or_is_left_takes_back_what_it_promised)
{
    start(false);
    cr_assert_eq(pull(), DISPATCH_CONNECT);
    cr_assert_eq(fail(DISPATCH_CLOSED), DISPATCH_CONNECT);
    cr_assert(settled(false));
    end(DISPATCH_CANCELLED);
    cr_assert(settled(false));

    role_is_lane();
    start(false);
    cr_assert_eq(pull(), DISPATCH_CONNECT);
    dispatch_connected(&rig.d);
    dispatch_expired(&rig.d);
    cr_assert(settled(false));
    end(DISPATCH_CANCELLED);
}

Test(dispatch, what_a_request_came_to_is_counted_and_told)
{
    role_is_lane();
    struct dispatch_report report = {.end = DISPATCH_DONE, .wall_ms = 1000000};
    const struct blocks *blocks = &rig.scratch.blocks;
    uint32_t count;

    report.usage = (struct usage){.prompt_tokens = 40,
                                  .cached_tokens = 32,
                                  .created_tokens = 8,
                                  .cached_known = true};
    start(false);
    answer(200);
    cr_assert_eq(counter_read(&rig.metrics.mode_balance), 1);
    report.now_us = rig.now_us;
    dispatch_end(&rig.d, &report);
    const struct fact_decision *told = facts(FACT_DECISION, &count);
    cr_assert_eq(told->prompt_tokens, 40);
    cr_assert_eq(told->cached_tokens, 32);
    cr_assert(told->cached_known && told->first_token_us == 0);

    cr_assert_eq(radix_worker_add(rig.belief, 1, 1000, RADIX_LRU), 0);
    cr_assert_eq(radix_insert(rig.belief, blocks->root, blocks->keys,
                              blocks->count, 1, 0, 1),
                 0);
    start(false);
    answer(200);
    report.now_us = rig.now_us;
    dispatch_end(&rig.d, &report);
    told = facts(FACT_DECISION, &count);
    cr_assert_eq(told->slot, 1);
    cr_assert_eq(told->overlap, blocks->count);
    cr_assert_eq(counter_read(&rig.metrics.mode_affinity), 1);
    cr_assert_eq(counter_read(&rig.metrics.mode_balance), 1);
    cr_assert_eq(counter_read(&rig.metrics.blocks_matched), blocks->count);
    cr_assert_eq(counter_read(&rig.metrics.exact), 0);
    cr_assert_eq(counter_read(&rig.metrics.prompt_tokens), 80);
    cr_assert_eq(counter_read(&rig.metrics.cached_tokens), 64);
    cr_assert_eq(counter_read(&rig.metrics.created_cache_tokens), 16);
}

/* Tokens that were possible, of 40, where the engine had so many. */
static uint32_t
possible(uint32_t cached)
{
    role_is_lane();
    struct dispatch_report report = {.end = DISPATCH_DONE,
                                     .usage = {.prompt_tokens = 40,
                                               .cached_tokens = cached,
                                               .cached_known = true}};
    uint32_t count;

    start(false);
    answer(200);
    report.now_us = rig.now_us;
    dispatch_end(&rig.d, &report);
    const struct fact_decision *told = facts(FACT_DECISION, &count);
    cr_assert(told->judges && told->slot != 1 && told->overlap == 0);
    return told->possible_tokens;
}

Test(dispatch, what_was_possible_is_what_a_candidate_held_or_what_came)
{
    const struct blocks *blocks = &rig.scratch.blocks;

    start(false);
    cr_assert_eq(radix_worker_add(rig.belief, 1, 1000, RADIX_LRU), 0);
    cr_assert_eq(
        radix_insert(rig.belief, blocks->root, blocks->keys, 2, 1, 0, 1), 0);
    gauge_set(&rig.board->peers[1], 1000); /* it has far too much to do */
    uint32_t held = 40 * 2 / blocks->count;
    cr_assert_eq(possible(0), held);
    cr_assert_eq(possible(held + 1), held + 1);
    worker_set_remove(&rig.view.eligible, 1); /* and then it takes nothing */
    cr_assert_eq(possible(0), 0);
    cr_assert_eq(counter_read(&rig.metrics.possible_tokens), 2 * held + 1);
    cr_assert_eq(counter_read(&rig.metrics.possible_tokens_cached), held + 1);
}

Test(dispatch, of_several_choices_cached_tokens_judge_no_prediction)
{
    role_is_lane();
    struct dispatch_report report = {
        .end = DISPATCH_DONE,
        .usage = {
            .prompt_tokens = 40, .cached_tokens = 32, .cached_known = true}};
    uint32_t count;

    for (int several = 0; several < 2; several++) {
        start(false);
        rig.d.several = several;
        answer(200);
        report.now_us = rig.now_us;
        dispatch_end(&rig.d, &report);
        const struct fact_decision *told = facts(FACT_DECISION, &count);
        cr_assert(told->cached_known && told->cached_tokens == 32);
        cr_assert_eq(told->judges, several == 0);
    }
    cr_assert_eq(counter_read(&rig.metrics.possible_tokens_cached), 32);
}

Test(dispatch, a_success_is_not_told_of_a_worker_that_nobody_watches)
{
    uint32_t count;

    start(false);
    answer(200);
    (void)facts(FACT_OUTCOME, &count);
    cr_assert_eq(count, 0);
    end(DISPATCH_DONE);
}

Test(dispatch, what_expires_depends_on_what_it_waits_for)
{
    role_is_lane();
    start(false);
    cr_assert_eq(pull(), DISPATCH_CONNECT);
    dispatch_expired(&rig.d);
    cr_assert_eq(rig.d.attempt[0].fault, DISPATCH_CONNECT_TIMEOUT);
    cr_assert_eq(pull(), DISPATCH_CONNECT);
    dispatch_connected(&rig.d);
    dispatch_expired(&rig.d);
    cr_assert_eq(rig.d.attempt[1].fault, DISPATCH_FIRST_BYTE_TIMEOUT);
    answer(200);
    dispatch_expired(&rig.d);
    cr_assert_eq(pull(), DISPATCH_SEVER);
    end(DISPATCH_SEVERED);
}

Test(dispatch, an_answer_that_breaks_off_is_never_tried_elsewhere)
{
    uint32_t count;

    role_is_lane();
    start(false);
    answer(200);
    uint32_t slot = rig.d.choice.lease.slot;
    dispatch_broke_off(&rig.d);
    cr_assert_eq(rig.d.state, DISPATCH_LOST);
    cr_assert_eq(pull(), DISPATCH_SEVER);
    cr_assert_eq(pull(), DISPATCH_WAIT);
    end(DISPATCH_SEVERED);
    cr_assert_eq(counter_read(&rig.board->counters[slot].streams_severed), 1);
    const struct fact_outcome *outcome = facts(FACT_OUTCOME, &count);
    cr_assert_eq(outcome->result, FACT_CLOSED);
}

Test(dispatch, a_client_that_leaves_takes_its_request_along)
{
    uint32_t count;

    start(false);
    cr_assert_eq(pull(), DISPATCH_CONNECT);
    uint32_t slot = rig.d.choice.lease.slot;
    cr_assert_gt(gauge_read(&rig.board->queued_tokens[slot]), 0);
    end(DISPATCH_CANCELLED);
    cr_assert_eq(gauge_read(&rig.board->inflight[slot]), 0);
    cr_assert_eq(gauge_read(&rig.board->queued_tokens[slot]), 0);
    const struct fact_decision *decision = facts(FACT_DECISION, &count);
    cr_assert(decision->cancelled && decision->status == 0);
}

Test(dispatch, a_prompt_waits_until_its_answer_begins)
{
    role_is_lane();
    start(false);
    answer(200);
    uint32_t slot = rig.d.choice.lease.slot;
    cr_assert_gt(gauge_read(&rig.board->queued_tokens[slot]), 0);
    dispatch_began(&rig.d, rig.now_us + 1);
    dispatch_began(&rig.d, rig.now_us + 2);
    cr_assert_eq(gauge_read(&rig.board->queued_tokens[slot]), 0);
    cr_assert_eq(rig.d.first_token_us, rig.now_us + 1);
    end(DISPATCH_DONE);
}

Test(dispatch, the_first_token_of_a_stream_is_timed_once)
{
    role_is_lane();
    start(false);
    answer(200);
    rig.now_us += 3 * MS;
    dispatch_began(&rig.d, rig.now_us);
    dispatch_began(&rig.d, rig.now_us + MS);
    cr_assert_eq(rig.d.first_token_us, rig.now_us);
    const struct histogram *told =
        &rig.metrics.first_token[rig.d.choice.elect.mode][METRICS_OVERLAP_NONE];
    cr_assert_eq(counter_read(&told->sum_us), 8 * MS + 1);
    end(DISPATCH_DONE);
}

Test(dispatch, the_tokens_of_a_whole_stream_are_so_far_apart)
{
    role_is_lane();
    struct dispatch_report report = {.end = DISPATCH_DONE, .wall_ms = 1};

    for (uint32_t tokens = 0; tokens <= 5; tokens++) {
        start(false);
        answer(200);
        dispatch_began(&rig.d, rig.now_us);
        report.now_us = rig.now_us + 8 * MS;
        report.usage.completion_tokens = tokens;
        dispatch_end(&rig.d, &report);
    }
    /* Two and more have steps between them: 8, 4, 8 / 3 and 2 ms. */
    cr_assert_eq(histogram_count(&rig.metrics.step), 4);
    cr_assert_eq(counter_read(&rig.metrics.step.sum_us), 14 * MS + 8 * MS / 3);
    cr_assert_eq(counter_read(&rig.metrics.completion_tokens), 15);
}

Test(dispatch, a_first_token_is_told_by_what_was_expected_of_its_prompt)
{
    cr_assert_eq(metrics_overlap_of(0, 0), METRICS_OVERLAP_NONE);
    cr_assert_eq(metrics_overlap_of(0, 9), METRICS_OVERLAP_NONE);
    cr_assert_eq(metrics_overlap_of(4, 9), METRICS_OVERLAP_PART);
    cr_assert_eq(metrics_overlap_of(5, 10), METRICS_OVERLAP_MOST);
    cr_assert_eq(metrics_overlap_of(UINT32_MAX, UINT32_MAX),
                 METRICS_OVERLAP_MOST);
}

Test(dispatch, a_state_that_cannot_be_is_told_by_name)
{
    struct dispatch good;
    const char *reason;

    start(false);
    answer(200);
    good = rig.d;
    rig.d.first_byte_us = 0;
    cr_assert_not(dispatch_check(&rig.d, &reason));
    cr_assert_str_eq(reason, "an answer without a status, or the reverse");
    rig.d = good;
    rig.d.state = DISPATCH_ELECTING;
    cr_assert_not(dispatch_check(&rig.d, &reason));
    cr_assert_str_eq(reason,
                     "a lease is held without an attempt, or the reverse");
    rig.d = good;
    rig.d.attempts_count = DISPATCH_ATTEMPTS_MAX + 1;
    cr_assert_not(dispatch_check(&rig.d, &reason));
    rig.d = good;
    rig.d.began = true;
    rig.d.choice.lease.queued_tokens = 1;
    cr_assert_not(dispatch_check(&rig.d, &reason));
    rig.d = good;
    cr_assert(dispatch_check(&rig.d, &reason));
}

Test(dispatch, failures_open_a_breaker_and_one_trial_at_a_time_closes_it)
{
    static struct dispatch second;
    uint32_t count;

    role_is_lane();
    rig.breaker[1].state = BREAKER_OPEN;
    rig.breaker[2].state = BREAKER_OPEN;
    publish();
    for (uint32_t i = 0; i < breaker_config.failures; i++) {
        start(false);
        cr_assert_eq(pull(), DISPATCH_CONNECT);
        cr_assert_eq(fail(DISPATCH_UNREACHABLE), DISPATCH_REFUSE);
        end(DISPATCH_REFUSED);
        (void)facts(FACT_OUTCOME, &count);
    }
    cr_assert_eq(rig.breaker[0].state, BREAKER_OPEN);
    start(false);
    cr_assert_eq(pull(), DISPATCH_REFUSE);
    end(DISPATCH_REFUSED);

    rig.now_us += breaker_config.open_ms * MS;
    cr_assert(breaker_tick(&rig.breaker[0], rig.now_us));
    publish();
    start(false);
    cr_assert_eq(pull(), DISPATCH_CONNECT);
    second = rig.d; /* the trial; another request comes beside it */
    start(false);
    cr_assert_eq(pull(), DISPATCH_REFUSE);
    end(DISPATCH_REFUSED);
    rig.d = second;
    dispatch_connected(&rig.d);
    dispatch_answered(&rig.d, 200, rig.now_us);
    cr_assert_eq(gauge_read(&rig.board->trial[0]), 0);
    end(DISPATCH_DONE);
    (void)facts(FACT_OUTCOME, &count);
    cr_assert_eq(count, 1);
    cr_assert_eq(rig.breaker[0].state, BREAKER_CLOSED);
}

Test(dispatch, tokens_that_come_are_waited_for)
{
    role_is_lane();
    start(true);
    cr_assert_eq(pull(), DISPATCH_ASK);
    cr_assert_eq(pull(), DISPATCH_WAIT);
    dispatch_tokens(&rig.d);
    cr_assert_eq(pull(), DISPATCH_CONNECT);
    cr_assert_eq(counter_read(&rig.metrics.tokens_late), 0);
    end(DISPATCH_CANCELLED);
}

Test(dispatch, a_client_may_leave_while_its_tokens_are_waited_for)
{
    start(true);
    cr_assert_eq(pull(), DISPATCH_ASK);
    end(DISPATCH_CANCELLED);
}

Test(dispatch, where_tokens_keep_coming_late_few_requests_wait)
{
    uint32_t waited = 0;

    role_is_lane();
    for (uint32_t i = 0; i < 8; i++) {
        start(true);
        cr_assert_eq(pull(), DISPATCH_ASK);
        dispatch_expired(&rig.d);
        cr_assert_eq(pull(), DISPATCH_CONNECT);
        end(DISPATCH_CANCELLED);
    }
    for (uint32_t i = 0; i < 32; i++) {
        start(true);
        waited += rig.d.state == DISPATCH_ASKING;
        end(DISPATCH_CANCELLED);
    }
    cr_assert_eq(waited, 2);
    cr_assert_eq(counter_read(&rig.metrics.tokens_late), 8 + 32 - waited);
}

Test(dispatch, tokens_in_time_end_the_distrust)
{
    role_is_lane();
    rig.lane.late_in_row = 7;
    start(true);
    dispatch_tokens(&rig.d);
    cr_assert_eq(rig.lane.late_in_row, 0);
    end(DISPATCH_CANCELLED);
}

Test(dispatch, facts_that_find_no_room_are_counted_and_nothing_else_happens)
{
    while (ring_reserve(&rig.facts, 8) != NULL) {
        ring_commit(&rig.facts);
    }
    rig.lane.told = false;
    start(false);
    answer(500);
    end(DISPATCH_DONE);
    cr_assert(!rig.lane.told);
    cr_assert_eq(counter_read(&rig.metrics.facts_lost), 4);
}

static void
limit_all(int32_t limit)
{
    gauge_set(&rig.board->limited, limit != 0 ? FLEET_SET : FLEET_UNLIMITED);
    for (uint32_t slot = 0; slot < WORKERS; slot++) {
        gauge_set(&rig.board->limit[slot], limit);
    }
}

/* So much that other requests have taken all room. */
static void
fill_all(int32_t by)
{
    for (uint32_t slot = 0; slot < WORKERS; slot++) {
        gauge_add(&rig.board->inflight[slot], by);
    }
}

/* A request whose blocks of text are long; peers decide now, and long ones have
 * come in crowds. */
static void
start_long(void)
{
    moment_put(&rig.board->moment, 1, 2);
    gauge_set(&rig.board->moment.credit, MOMENT_MOST);
    rig.scratch.blocks.block_bytes = 16; /* as it is read */
    start(false);
    rig.scratch.blocks.block_bytes = 1 << 14;
}

Test(dispatch, a_long_prompt_waits_for_its_nodes_moment_once)
{
    role_is_lane();
    start_long();
    cr_assert_eq(pull(), DISPATCH_YIELD);
    cr_assert_eq(rig.d.state, DISPATCH_YIELDING);
    cr_assert_eq(rig.d.yield_us, MOMENT_SLOT_US);
    cr_assert_eq(pull(), DISPATCH_WAIT);
    for (uint32_t slot = 0; slot < WORKERS; slot++) {
        cr_assert_eq(gauge_read(&rig.board->inflight[slot]), 0);
        cr_assert_eq(gauge_read(&rig.board->queued_tokens[slot]), 0);
    }
    dispatch_expired(&rig.d); /* the clock did not move */
    cr_assert_eq(pull(), DISPATCH_CONNECT);
    cr_assert_eq(counter_read(&rig.metrics.moments_waited), 1);
    cr_assert_eq(fail(DISPATCH_UNREACHABLE), DISPATCH_CONNECT);
    end(DISPATCH_CANCELLED);
}

Test(dispatch, a_client_may_leave_while_peers_decide)
{
    start_long();
    cr_assert_eq(pull(), DISPATCH_YIELD);
    end(DISPATCH_CANCELLED);
}

Test(dispatch, what_peers_decide_is_not_waited_for_without_a_choice)
{
    start_long();
    rig.elect.policy = ELECT_ROUND_ROBIN;
    cr_assert_eq(pull(), DISPATCH_CONNECT);
    end(DISPATCH_CANCELLED);
    start_long();
    rig.elect.policy = ELECT_KVASIR;
    worker_set_clear(&rig.view.eligible);
    worker_set_add(&rig.view.eligible, 1);
    cr_assert_eq(pull(), DISPATCH_CONNECT);
    end(DISPATCH_CANCELLED);
    cr_assert_eq(counter_read(&rig.metrics.moments_waited), 0);
}

Test(dispatch, without_room_anywhere_a_request_waits_for_its_place)
{
    role_is_lane();
    limit_all(1);
    fill_all(1);
    start(false);
    cr_assert_eq(pull(), DISPATCH_QUEUE);
    cr_assert_eq(rig.d.state, DISPATCH_QUEUED);
    cr_assert_eq(worker_set_count(&rig.scratch.wait.able), WORKERS);
    rig.now_us += 5 * MS;
    rig.world.placed = true;
    rig.world.place = 2;
    dispatch_placed(&rig.d, rig.now_us);
    cr_assert_eq(pull(), DISPATCH_CONNECT);
    cr_assert_eq(rig.d.choice.lease.slot, 2);
    cr_assert_geq(rig.d.waited_us, 5 * MS);
    cr_assert_eq(counter_read(&rig.metrics.requests_queued), 1);
    end(DISPATCH_CANCELLED);
    fill_all(-1);
}

Test(dispatch, a_worker_with_room_is_found_and_others_are_not)
{
    role_is_lane();
    limit_all(2);
    fill_all(2);
    gauge_set(&rig.board->inflight[1], 1);
    start(false);
    cr_assert_eq(pull(), DISPATCH_CONNECT);
    cr_assert_eq(rig.d.choice.lease.slot, 1);
    end(DISPATCH_CANCELLED);
    gauge_set(&rig.board->wanted[1], 1); /* by who waits already */
    start(false);
    cr_assert_eq(pull(), DISPATCH_QUEUE);
    end(DISPATCH_CANCELLED);
    gauge_add(&rig.board->inflight[1], 1);
    fill_all(-2);
}

Test(dispatch, who_waits_in_vain_is_told_when_to_come_again)
{
    role_is_lane();
    limit_all(1);
    fill_all(1);
    start(false);
    cr_assert_eq(pull(), DISPATCH_QUEUE);
    dispatch_unplaced(&rig.d, DISPATCH_QUEUE_LATE, 7, rig.now_us);
    cr_assert_eq(pull(), DISPATCH_REFUSE);
    cr_assert_eq(rig.d.refusal, DISPATCH_QUEUE_LATE);
    cr_assert_eq(rig.d.busy.status, 503);
    cr_assert_eq(rig.d.busy.retry_after_s, 7);
    end(DISPATCH_REFUSED);
    fill_all(-1);
}
