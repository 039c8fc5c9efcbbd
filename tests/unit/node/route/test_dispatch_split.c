/* A request of which two workers do a half each. */
#include "tests/unit/node/route/dispatch_rig.h"

/* Of the rig's workers: a computes prompts, b goes on with them, c is as the
 * test says. */
static void
open_pair(enum engine_kind kind, enum config_role third)
{
    struct fleet_view *view = &rig.view;
    enum config_role roles[WORKERS] = {CONFIG_ROLE_PREFILL, CONFIG_ROLE_DECODE,
                                       third};

    worker_set_clear(&view->prefill);
    worker_set_clear(&view->decode);
    worker_set_clear(&view->bound);
    for (uint32_t slot = 0; slot < WORKERS; slot++) {
        rig.worker[slot].kind = kind;
        rig.worker[slot].role = roles[slot];
        if (roles[slot] == CONFIG_ROLE_BOTH) {
            continue;
        }
        worker_set_add(
            roles[slot] == CONFIG_ROLE_PREFILL ? &view->prefill : &view->decode,
            slot);
        if (kind == ENGINE_SGLANG) {
            worker_set_add(&view->bound, slot);
        }
    }
    rig.elect.split_tokens = 8; /* the rig's prompt has 16 and more */
}

static void
begin(void)
{
    start(false);
    rig.d.split.choice.asked = SPLIT_MAY;
}

/* Both halves are elected, and the prefill half is connected and sent. */
static void
send_prefill(void)
{
    role_is_lane();
    cr_assert_eq(pull(), DISPATCH_PREFILL);
    dispatch_prefill_connected(&rig.d);
    dispatch_prefill_sent(&rig.d);
}

static void
prefilled(bool usable)
{
    struct usage usage = {
        .prompt_tokens = 20, .cached_tokens = 8, .cached_known = true};

    role_is_lane();
    rig.now_us += 3 * MS;
    dispatch_prefilled(&rig.d, usable, &usage, rig.now_us);
}

static enum dispatch_action
fail_prefill(enum dispatch_fault fault, unsigned status)
{
    struct dispatch_failure failure = {.fault = fault, .status = status};

    role_is_lane();
    dispatch_prefill_failed(&rig.d, &failure);
    return pull();
}

static uint32_t
settled(bool learned)
{
    uint32_t found = 0;
    size_t size;
    const void *record;

    while ((record = ring_peek(&rig.facts, &size)) != NULL) {
        const struct fact_settled *fact = record;
        found += fact->kind == FACT_SETTLED && fact->learned == learned;
        ring_consume(&rig.facts);
    }
    return found;
}

static void
nothing_is_held(void)
{
    for (uint32_t slot = 0; slot < WORKERS; slot++) {
        cr_assert_eq(gauge_read(&rig.board->inflight[slot]), 0);
        cr_assert_eq(gauge_read(&rig.board->queued_tokens[slot]), 0);
    }
}

TestSuite(dispatch_split, .init = open_rig, .fini = close_rig);

Test(dispatch_split, by_parameters_one_half_follows_the_other)
{
    uint32_t count;

    open_pair(ENGINE_VLLM, CONFIG_ROLE_BOTH);
    begin();
    send_prefill();
    cr_assert_eq(pull(), DISPATCH_WAIT);
    cr_assert_eq(rig.d.state, DISPATCH_PREFILLING);
    cr_assert_eq(rig.d.choice.lease.slot, 1);
    cr_assert_eq(rig.d.split.choice.prefill.lease.slot, 0);
    cr_assert_gt(gauge_read(&rig.board->queued_tokens[0]), 0);
    cr_assert_eq(gauge_read(&rig.board->queued_tokens[1]), 0,
                 "it waits where it is computed");
    (void)facts(FACT_LEARN, &count);
    cr_assert_eq(count, 2, "both will hold it");
    prefilled(true);
    cr_assert_eq(gauge_read(&rig.board->inflight[0]), 0);
    cr_assert_eq(gauge_read(&rig.board->queued_tokens[0]), 0);
    const struct fact_decision *told = facts(FACT_PREFILLED, &count);
    cr_assert_eq(count, 1);
    cr_assert_eq(told->slot, 0);
    cr_assert_eq(told->cached_tokens, 8);
    cr_assert_eq(told->first_token_us, 3 * MS);
    cr_assert(told->judges);
    answer(200);
    end(DISPATCH_DONE);
    told = facts(FACT_DECISION, &count);
    cr_assert_eq(told->slot, 1);
    cr_assert_str_eq(told->prefill, "a");
    cr_assert(told->split && !told->judges, "no word of its speed and cache");
    cr_assert_eq(told->attempts, 1);
    cr_assert_eq(counter_read(&rig.metrics.split), 1);
    nothing_is_held();
}

Test(dispatch_split, in_a_room_both_run_at_once)
{
    open_pair(ENGINE_SGLANG, CONFIG_ROLE_BOTH);
    begin();
    send_prefill();
    deliver();
    prefilled(true);
    cr_assert_eq(rig.d.state, DISPATCH_WAITING);
    role_is_lane();
    dispatch_answered(&rig.d, 200, rig.now_us);
    end(DISPATCH_DONE);
    cr_assert_eq(settled(true), 2);
    nothing_is_held();
}

Test(dispatch_split, a_prefill_half_that_is_late_ends_with_the_request)
{
    open_pair(ENGINE_SGLANG, CONFIG_ROLE_BOTH);
    begin();
    send_prefill();
    answer(200);
    end(DISPATCH_DONE);
    cr_assert_eq(settled(true), 2, "it was computed: the answer shows it");
    nothing_is_held();
}

Test(dispatch_split, a_usage_is_what_the_prefill_worker_had)
{
    struct usage usage = {
        .prompt_tokens = 20, .cached_tokens = 19, .cached_known = true};

    open_pair(ENGINE_VLLM, CONFIG_ROLE_BOTH);
    begin();
    send_prefill();
    prefilled(true);
    dispatch_correct_usage(&rig.d, &usage);
    cr_assert_eq(usage.cached_tokens, 8);
    answer(200);
    end(DISPATCH_DONE);
}

Test(dispatch_split, a_short_rest_is_not_split)
{
    open_pair(ENGINE_VLLM, CONFIG_ROLE_BOTH);
    rig.elect.split_tokens = 1000;
    begin();
    answer(200);
    cr_assert_eq(counter_read(&rig.metrics.split), 0);
    cr_assert_eq(counter_read(&rig.metrics.split_short), 1);
    cr_assert_neq(rig.d.choice.lease.slot, 0, "it is for prefill");
    end(DISPATCH_DONE);
}

Test(dispatch_split, what_the_decode_worker_holds_is_not_split)
{
    const struct blocks *blocks = &rig.scratch.blocks;

    open_pair(ENGINE_VLLM, CONFIG_ROLE_DECODE);
    begin();
    cr_assert_eq(radix_worker_add(rig.belief, 2, 1000, RADIX_LRU), 0);
    cr_assert_eq(radix_insert(rig.belief, blocks->root, blocks->keys,
                              blocks->count, 2, 0, 1),
                 0);
    answer(200);
    cr_assert_eq(rig.d.choice.lease.slot, 2);
    cr_assert_eq(counter_read(&rig.metrics.split_short), 1);
    end(DISPATCH_DONE);
}

Test(dispatch_split, requests_of_another_form_go_to_one_worker)
{
    open_pair(ENGINE_VLLM, CONFIG_ROLE_DECODE);
    start(false);
    rig.d.split.choice.asked = SPLIT_NEVER;
    answer(200);
    cr_assert_neq(rig.d.choice.lease.slot, 0);
    end(DISPATCH_DONE);

    open_pair(ENGINE_SGLANG, CONFIG_ROLE_DECODE);
    start(false);
    cr_assert_eq(pull(), DISPATCH_REFUSE);
    cr_assert_eq(rig.d.refusal, DISPATCH_NO_WORKER);
    end(DISPATCH_REFUSED);
}

Test(dispatch_split, a_pair_is_of_one_kind)
{
    open_pair(ENGINE_VLLM, CONFIG_ROLE_DECODE);
    rig.worker[0].kind = ENGINE_SGLANG;
    worker_set_add(&rig.view.bound, 0);
    begin();
    answer(200);
    cr_assert_eq(counter_read(&rig.metrics.split_alone), 1);
    end(DISPATCH_DONE);
}

Test(dispatch_split, without_parameters_the_other_one_does_it_alone)
{
    open_pair(ENGINE_VLLM, CONFIG_ROLE_BOTH);
    begin();
    send_prefill();
    prefilled(false);
    cr_assert_gt(gauge_read(&rig.board->queued_tokens[1]), 0);
    answer(200);
    cr_assert_eq(rig.d.choice.lease.slot, 1);
    cr_assert_eq(counter_read(&rig.metrics.split_params_missing), 1);
    end(DISPATCH_DONE);
    nothing_is_held();
}

Test(dispatch_split, parameters_that_are_refused_are_left_out)
{
    struct dispatch_failure failure = {.fault = DISPATCH_STATUS, .status = 400};

    role_is_lane();
    open_pair(ENGINE_VLLM, CONFIG_ROLE_BOTH);
    begin();
    send_prefill();
    cr_assert_not(dispatch_untaken(&rig.d, &failure));
    prefilled(true);
    deliver();
    cr_assert(dispatch_untaken(&rig.d, &failure));
    failure.has_retry_after = true;
    failure.status = 503;
    cr_assert_not(dispatch_untaken(&rig.d, &failure), "it has no room");
    dispatch_unsplit(&rig.d);
    failure.status = 400;
    cr_assert_not(dispatch_untaken(&rig.d, &failure), "only once");
    answer(200);
    cr_assert_eq(rig.d.attempts_count, 0);
    end(DISPATCH_DONE);
    nothing_is_held();
}

Test(dispatch_split, a_prefill_worker_that_fails_leaves_it_to_the_other)
{
    open_pair(ENGINE_VLLM, CONFIG_ROLE_BOTH);
    begin();
    send_prefill();
    cr_assert_eq(fail_prefill(DISPATCH_CLOSED, 0), DISPATCH_CONNECT);
    cr_assert_eq(rig.d.choice.lease.slot, 1);
    cr_assert_eq(settled(false), 1);
    cr_assert_eq(counter_read(&rig.board->counters[0].failures), 1);
    cr_assert_gt(gauge_read(&rig.board->queued_tokens[1]), 0);
    role_is_lane();
    dispatch_connected(&rig.d);
    dispatch_sent(&rig.d);
    cr_assert_eq(fail(DISPATCH_CLOSED), DISPATCH_REFUSE,
                 "one that ends its engine ends two");
    cr_assert_eq(rig.d.attempts_count, 2);
    end(DISPATCH_REFUSED);
    nothing_is_held();
}

Test(dispatch_split, a_prefill_worker_that_refuses_is_not_to_blame)
{
    open_pair(ENGINE_VLLM, CONFIG_ROLE_BOTH);
    begin();
    send_prefill();
    cr_assert_eq(fail_prefill(DISPATCH_STATUS, 400), DISPATCH_CONNECT);
    cr_assert_eq(counter_read(&rig.board->counters[0].failures), 0);
    cr_assert_eq(rig.d.sends, 0);
    end(DISPATCH_CANCELLED);
    nothing_is_held();
}

Test(dispatch_split, a_room_that_fails_is_opened_nowhere_where_one_can_do_it)
{
    open_pair(ENGINE_SGLANG, CONFIG_ROLE_BOTH);
    begin();
    send_prefill();
    deliver();
    cr_assert_eq(fail_prefill(DISPATCH_CLOSED, 0), DISPATCH_CONNECT);
    cr_assert_eq(rig.d.choice.lease.slot, 2);
    cr_assert_eq(rig.d.split.half, DISPATCH_HALF_NONE);
    cr_assert_eq(counter_read(&rig.board->counters[1].failures), 0);
    end(DISPATCH_CANCELLED);
    nothing_is_held();
}

Test(dispatch_split, else_it_is_opened_again_with_another_prefill_worker)
{
    open_pair(ENGINE_SGLANG, CONFIG_ROLE_PREFILL);
    begin();
    send_prefill();
    uint32_t first = rig.d.split.choice.prefill.lease.slot;
    cr_assert_eq(pull(), DISPATCH_CONNECT);
    cr_assert_eq(fail_prefill(DISPATCH_UNREACHABLE, 0), DISPATCH_PREFILL);
    cr_assert_neq(rig.d.split.choice.prefill.lease.slot, first);
    cr_assert_eq(rig.d.choice.lease.slot, 1);
    cr_assert_eq(counter_read(&rig.metrics.split), 2);
    role_is_lane();
    cr_assert_eq(pull(), DISPATCH_CONNECT);
    cr_assert_eq(fail_prefill(DISPATCH_UNREACHABLE, 0), DISPATCH_REFUSE);
    end(DISPATCH_REFUSED);
    nothing_is_held();
}

Test(dispatch_split, a_decode_worker_that_fails_ends_both)
{
    open_pair(ENGINE_SGLANG, CONFIG_ROLE_BOTH);
    begin();
    send_prefill();
    deliver();
    cr_assert_eq(fail(DISPATCH_CLOSED), DISPATCH_CONNECT);
    cr_assert_eq(rig.d.choice.lease.slot, 2);
    cr_assert_eq(settled(false), 2);
    cr_assert_eq(counter_read(&rig.metrics.split_decode_failed), 1);
    cr_assert_eq(gauge_read(&rig.board->inflight[0]), 0);
    end(DISPATCH_CANCELLED);
    nothing_is_held();
}

Test(dispatch_split, what_the_client_is_to_hear_the_other_half_says)
{
    open_pair(ENGINE_SGLANG, CONFIG_ROLE_BOTH);
    begin();
    send_prefill();
    deliver();
    cr_assert_eq(fail_prefill(DISPATCH_STATUS, 400), DISPATCH_WAIT);
    cr_assert_eq(rig.d.state, DISPATCH_WAITING);
    role_is_lane();
    dispatch_answered(&rig.d, 400, rig.now_us);
    end(DISPATCH_DONE);
    nothing_is_held();
}

Test(dispatch_split, a_prefill_half_that_breaks_off_after_the_answer_began)
{
    open_pair(ENGINE_SGLANG, CONFIG_ROLE_BOTH);
    begin();
    send_prefill();
    answer(200);
    cr_assert_eq(fail_prefill(DISPATCH_CLOSED, 0), DISPATCH_WAIT);
    cr_assert_eq(rig.d.state, DISPATCH_STREAMING);
    cr_assert_eq(counter_read(&rig.metrics.split_prefill_failed), 0);
    end(DISPATCH_DONE);
    nothing_is_held();
}

Test(dispatch_split, a_kept_connection_that_had_ended_is_replaced)
{
    struct dispatch_failure failure = {.fault = DISPATCH_CLOSED, .kept = true};

    role_is_lane();
    open_pair(ENGINE_VLLM, CONFIG_ROLE_BOTH);
    begin();
    send_prefill();
    dispatch_prefill_failed(&rig.d, &failure);
    cr_assert(rig.d.split.fresh);
    send_prefill();
    cr_assert_eq(rig.d.attempts_count, 0);
    prefilled(true);
    answer(200);
    end(DISPATCH_DONE);
}

Test(dispatch_split, a_kept_connection_that_had_ended_leaves_the_other_half)
{
    struct dispatch_failure failure = {.fault = DISPATCH_CLOSED, .kept = true};

    role_is_lane();
    open_pair(ENGINE_SGLANG, CONFIG_ROLE_BOTH);
    begin();
    send_prefill();
    deliver();
    cr_assert_not(dispatch_needs_prefill(&rig.d, &failure));
    dispatch_prefill_failed(&rig.d, &failure);
    cr_assert_eq(rig.d.state, DISPATCH_WAITING);
    send_prefill();
    cr_assert(dispatch_needs_prefill(&rig.d, &failure), "once, not twice");
    prefilled(true);
    dispatch_answered(&rig.d, 200, rig.now_us);
    end(DISPATCH_DONE);
}

Test(dispatch_split, a_client_that_leaves_frees_both)
{
    open_pair(ENGINE_SGLANG, CONFIG_ROLE_BOTH);
    begin();
    send_prefill();
    deliver();
    end(DISPATCH_CANCELLED);
    cr_assert_eq(settled(false), 2);
    nothing_is_held();

    open_pair(ENGINE_VLLM, CONFIG_ROLE_BOTH);
    begin();
    cr_assert_eq(pull(), DISPATCH_PREFILL);
    end(DISPATCH_CANCELLED);
    cr_assert_eq(settled(false), 2);
    nothing_is_held();
}

Test(dispatch_split, a_half_that_cannot_be_is_told_by_name)
{
    const char *reason;

    open_pair(ENGINE_VLLM, CONFIG_ROLE_BOTH);
    begin();
    send_prefill();
    struct dispatch good = rig.d;
    rig.d.split.half = DISPATCH_HALF_DONE;
    cr_assert_not(dispatch_check(&rig.d, &reason));
    cr_assert_str_eq(reason,
                     "a lease is held without a prefill half, or the reverse");
    rig.d = good;
    rig.d.state = DISPATCH_QUEUED;
    rig.d.queued_us = 1;
    rig.d.choice.lease.taken = false;
    rig.d.ticket = 0;
    cr_assert_not(dispatch_check(&rig.d, &reason));
    cr_assert_str_eq(reason, "a prefill half runs alone");
    rig.d = good;
    end(DISPATCH_CANCELLED);
}
