/* One request's way through its attempts, on a clock that the test moves. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "index/base/role.h"
#include "node/route/dispatch.h"
#include "node/view/breaker.h"

#define WORKERS 3U
#define MS      UINT64_C(1000)

static const struct config_breaker breaker_config = {
    .failures = 2, .successes = 1, .open_ms = 100, .open_max_ms = 800};

/* A lane with three workers, and as much of control as their breakers take. */
struct rig {
    uint64_t now_us;
    struct fleet_worker worker[WORKERS];
    struct breaker breaker[WORKERS];
    struct fleet_models models;
    struct fleet_view view;
    struct fleet_board *board;
    struct gauge rank_inflight[WORKERS_MAX];
    struct mirror_view mirrors;
    struct qsbr qsbr;
    struct radix *belief;
    struct elect_config elect;
    struct route_world world;
    struct route_scratch scratch;
    struct rng rng;
    struct metrics_lane metrics;
    struct ring facts;
    struct dispatch_lane lane;
    struct dispatch d;
};

static struct rig rig;

/* The fleet's part: who may be sent requests follows from the breakers. */
static void
publish(void)
{
    struct fleet_view *view = &rig.view;

    worker_set_clear(&view->eligible);
    worker_set_clear(&view->trial);
    worker_set_clear(&view->watched);
    for (uint32_t slot = 0; slot < WORKERS; slot++) {
        const struct breaker *b = &rig.breaker[slot];
        if (b->state == BREAKER_CLOSED) {
            worker_set_add(&view->eligible, slot);
        } else if (b->state == BREAKER_HALF_OPEN) {
            worker_set_add(&view->trial, slot);
        }
        if (breaker_watches(b)) {
            worker_set_add(&view->watched, slot);
        }
    }
}

static void
open_fleet(void)
{
    rig.view.models = &rig.models;
    for (uint32_t slot = 0; slot < WORKERS; slot++) {
        rig.worker[slot] = (struct fleet_worker){.slot = slot, .generation = 7};
        rig.worker[slot].id[0] = (char)('a' + slot);
        rig.view.worker[slot] = &rig.worker[slot];
        worker_set_add(&rig.view.present, slot);
        worker_set_add(&rig.view.any_model, slot);
    }
    publish();
    rig.board = aligned_alloc(64, (sizeof(*rig.board) + 63) / 64 * 64);
    cr_assert_not_null(rig.board);
    memset(rig.board, 0, sizeof(*rig.board));
}

static void
open_rig(void)
{
    static struct config config;
    struct radix_limits belief = {
        .bytes_max = (size_t)16 << 20, .namespaces_max = 8, .depth_max = 64};

    memset(&rig, 0, sizeof(rig));
    rig.now_us = 1000 * MS;
    config.limits.json_depth_max = 16;
    config.limits.spans_max = 64;
    config.belief.block_bytes = 16;
    config.belief.depth_max = 64;
    cr_assert_eq(route_scratch_init(&rig.scratch, &config), 0);
    cr_assert_eq(ring_init(&rig.facts, 1 << 16), 0);
    qsbr_init(&rig.qsbr);
    cr_assert_eq(radix_new(&rig.belief, &belief, &rig.qsbr), 0);
    open_fleet();
    rng_init(&rig.rng, 1);
    rig.elect = ELECT_CONFIG_DEFAULT;
    rig.world = (struct route_world){.elect = &rig.elect,
                                     .view = &rig.view,
                                     .board = rig.board,
                                     .belief = rig.belief,
                                     .rank_inflight = rig.rank_inflight,
                                     .tokens = {.view = &rig.mirrors}};
    rig.lane = (struct dispatch_lane){.board = rig.board,
                                      .rank_inflight = rig.rank_inflight,
                                      .scratch = &rig.scratch,
                                      .rng = &rig.rng,
                                      .metrics = &rig.metrics,
                                      .facts = &rig.facts,
                                      .attempts_max = WORKERS,
                                      .retries = {.after_send = 1}};
    for (unsigned status = 500; status <= 504; status++) {
        rig.lane.retries.statuses.bits[1] |= UINT64_C(1) << (status - 464);
    }
}

static void
close_rig(void)
{
    const char *reason;

    if (rig.d.lane != NULL) {
        cr_assert(dispatch_check(&rig.d, &reason), "%s", reason);
    }
    for (uint32_t slot = 0; slot < WORKERS; slot++) {
        bool open = rig.d.choice.lease.taken && rig.d.choice.lease.slot == slot;
        cr_assert_eq(gauge_read(&rig.board->inflight[slot]), open);
    }
    route_scratch_fini(&rig.scratch);
    ring_fini(&rig.facts);
    free(rig.board);
    radix_free(rig.belief);
    qsbr_fini(&rig.qsbr);
}

TestSuite(dispatch, .init = open_rig, .fini = close_rig);

/* A request that has been read; asked: for its tokens. */
static void
start(bool asked)
{
    static const char body[] =
        "{\"stream\":true,\"prompt\":\"four blocks of sixteen bytes each, "
        "which the worker learns of\"}";

    role_is_lane();
    dispatch_init(&rig.d, &rig.lane, rig.now_us);
    cr_assert_eq(route_read(&rig.scratch, slice_of(body), true), 0);
    rig.d.routed = true;
    rig.d.stream = true;
    dispatch_start(&rig.d, asked);
}

/* Does as it says until it waits, or wants what only a test can do. */
static enum dispatch_action
pull(void)
{
    enum dispatch_action action;

    role_is_lane();
    while ((action = dispatch_next(&rig.d)) == DISPATCH_ELECT) {
        dispatch_elect(&rig.d, &rig.world);
        rig.now_us += 1;
        dispatch_elected(&rig.d, rig.now_us);
    }
    return action;
}

static enum dispatch_action
fail(enum dispatch_fault fault)
{
    struct dispatch_failure failure = {.fault = fault, .status = 503};

    role_is_lane();
    dispatch_failed(&rig.d, &failure);
    return pull();
}

/* Sent to some worker, and answered. */
static void
answer(unsigned status)
{
    role_is_lane();
    cr_assert_eq(pull(), DISPATCH_CONNECT);
    dispatch_connected(&rig.d);
    rig.now_us += 5 * MS;
    dispatch_answered(&rig.d, status, rig.now_us);
}

static void
end(enum dispatch_end how)
{
    struct dispatch_report report = {.end = how,
                                     .status = 502,
                                     .usage = {.prompt_tokens = 9},
                                     .now_us = rig.now_us,
                                     .wall_ms = 1000000};

    role_is_lane();
    dispatch_end(&rig.d, &report);
}

/* Takes all facts as control does; the last of a kind. */
static const void *
facts(enum fact_kind wanted, uint32_t *count)
{
    static _Alignas(8) unsigned char last[4096];
    const void *record;
    size_t size;

    *count = 0;
    while ((record = ring_peek(&rig.facts, &size)) != NULL) {
        const struct fact_outcome *outcome = record;
        if (*(const uint32_t *)record == wanted) {
            cr_assert(size <= sizeof(last));
            memcpy(last, record, size);
            ++*count;
        }
        if (*(const uint32_t *)record == FACT_OUTCOME) {
            (void)breaker_report(&rig.breaker[outcome->slot], &breaker_config,
                                 breaker_config.failures,
                                 outcome->result == FACT_ANSWERED, rig.now_us);
        }
        ring_consume(&rig.facts);
    }
    publish();
    return last;
}

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

    report.usage = (struct usage){
        .prompt_tokens = 40, .cached_tokens = 32, .cached_known = true};
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
    cr_assert_eq(counter_read(&rig.metrics.forwarded), 2);
    cr_assert_eq(counter_read(&rig.metrics.mode_affinity), 1);
    cr_assert_eq(counter_read(&rig.metrics.mode_balance), 1);
    cr_assert_eq(counter_read(&rig.metrics.blocks_matched), blocks->count);
    cr_assert_eq(counter_read(&rig.metrics.exact), 0);
    cr_assert_eq(counter_read(&rig.metrics.prompt_tokens), 80);
    cr_assert_eq(counter_read(&rig.metrics.cached_tokens), 64);
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

/* Whether this answer is left for another worker's. */
static bool
drops_after(unsigned status, uint32_t seconds)
{
    role_is_lane();
    struct dispatch_failure failure = {.fault = DISPATCH_STATUS,
                                       .status = status,
                                       .has_retry_after = seconds != 0,
                                       .retry_after_s = seconds};
    bool dropped = dispatch_drops(&rig.d, &failure);

    if (dropped) {
        dispatch_failed(&rig.d, &failure);
    }
    return dropped;
}

/* The elected worker gets the whole request. */
static void
deliver(void)
{
    role_is_lane();
    cr_assert_eq(pull(), DISPATCH_CONNECT);
    dispatch_connected(&rig.d);
    dispatch_sent(&rig.d);
}

Test(dispatch,
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

Test(dispatch, the_only_workers_internal_error_is_passed_on)
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

Test(dispatch, a_request_that_ends_its_engine_ends_two)
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

Test(dispatch, a_request_that_was_cut_off_may_go_to_every_worker)
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

Test(dispatch, a_refusal_for_now_goes_to_every_worker_and_the_soonest_is_told)
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

Test(dispatch, the_last_refusal_is_passed_on_when_it_is_the_soonest)
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

Test(dispatch, an_internal_error_counts_against_its_worker)
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

Test(dispatch, a_failure_before_the_head_goes_to_another_worker)
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

Test(dispatch, each_worker_is_tried_once_and_then_the_client_hears_of_all)
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

Test(dispatch, no_more_attempts_are_made_than_configured)
{
    rig.lane.attempts_max = 1;
    start(false);
    cr_assert_eq(pull(), DISPATCH_CONNECT);
    cr_assert_eq(fail(DISPATCH_UNREACHABLE), DISPATCH_REFUSE);
    cr_assert_eq(rig.d.refusal, DISPATCH_ALL_FAILED);
    end(DISPATCH_REFUSED);
}

Test(dispatch, without_a_worker_the_request_is_refused_at_once)
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

Test(dispatch, a_model_that_nobody_serves_is_refused_by_name)
{
    worker_set_clear(&rig.view.any_model);
    role_is_lane();
    dispatch_init(&rig.d, &rig.lane, rig.now_us);
    cr_assert_eq(route_read(&rig.scratch,
                            SLICE("{\"model\":\"m\",\"prompt\":\"hi\"}"), true),
                 0);
    dispatch_start(&rig.d, false);
    cr_assert_eq(pull(), DISPATCH_REFUSE);
    cr_assert_eq(rig.d.refusal, DISPATCH_NO_MODEL);
    end(DISPATCH_REFUSED);
}

Test(dispatch, a_node_without_descriptors_blames_no_worker)
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

Test(dispatch, a_kept_connection_that_was_dead_is_replaced_once)
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
    cr_assert_eq(counter_read(&rig.metrics.first_token.sum_us), 8 * MS + 1);
    end(DISPATCH_DONE);
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
