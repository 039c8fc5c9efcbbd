/*
 * One request's way through its attempts, with everything that is counted and
 * reported.
 */
#include "node/route/dispatch.h"

#include <string.h>

#include "index/base/mutant.h"
#include "node/route/dispatch_count_internal.h"
#include "node/route/dispatch_internal.h"

/* While engines keep answering too late for their tokens, waiting only costs
 * time. So after LATE_IN_ROW late answers in a row, one request in WAIT_ONE_IN
 * waits, to see whether they have become faster, and the others proceed at
 * once. */
#define LATE_IN_ROW 8U
#define WAIT_ONE_IN 16U

/* The code of a request whose client left before it was told one, as nginx's
 * log has it. */
#define CLIENT_CLOSED 499U

void
dispatch_init(struct dispatch *d, struct dispatch_lane *lane, uint64_t now_us)
{
    CHECK(lane->attempts_max != 0);
    memset(d, 0, offsetof(struct dispatch, attempt));
    d->lane = lane;
    d->state = DISPATCH_ELECTING;
    d->choice.elect.worker = WORKER_NONE;
    d->status = 0;
    d->begun_us = now_us;
    d->routed_us = 0;
    d->queued_us = 0;
    d->waited_us = 0;
    d->first_byte_us = 0;
    d->first_token_us = 0;
}

enum dispatch_action
dispatch_next(struct dispatch *d)
{
    enum dispatch_action due = d->due;
    const char *reason;

    CHECK_SLOW(dispatch_check(d, &reason));
    d->due = DISPATCH_WAIT;
    if (due == DISPATCH_PREFILL && d->split.both) {
        d->split.both = false;
        d->due = DISPATCH_CONNECT;
    }
    return due;
}

/* Waiting for tokens */

static bool
is_worth_waiting(struct dispatch_lane *lane)
{
    if (lane->late_in_row < LATE_IN_ROW) {
        return true;
    }
    if (++lane->unwaited % WAIT_ONE_IN == 0) {
        return true;
    }
    counter_bump(&lane->metrics->tokens_late, 1);
    return false;
}

static void
go_elect(struct dispatch *d)
{
    d->state = DISPATCH_ELECTING;
    d->due = DISPATCH_ELECT;
}

void
dispatch_start(struct dispatch *d, bool asked)
{
    CHECK(d->state == DISPATCH_ELECTING && d->due == DISPATCH_WAIT);
    if (asked && is_worth_waiting(d->lane)) {
        d->state = DISPATCH_ASKING;
        d->due = DISPATCH_ASK;
    } else {
        go_elect(d);
    }
}

void
dispatch_tokens(struct dispatch *d)
{
    CHECK(d->state == DISPATCH_ASKING);
    d->lane->late_in_row = 0;
    go_elect(d);
}

/* Attempts */

/* A request that ends its engine must not go from one to the next. */
static bool
may_send_again(const struct dispatch *d)
{
    return !d->spent && d->sends <= d->lane->retries.after_send;
}

/* Whether it may ask for another model: not where it may be what ends engines.
 * One that answers, with whatever status, was not ended. */
static bool
may_rename(const struct dispatch *d)
{
    uint32_t count = d->attempts_count;

    return d->models_left != 0 && d->resumed == 0 &&
           count < DISPATCH_ATTEMPTS_MAX &&
           (may_send_again(d) ||
            d->attempt[count - 1].fault == DISPATCH_STATUS);
}

/* It is sent in full once more at least. */
static void
begin_rename(struct dispatch *d, enum dispatch_refusal why)
{
    uint32_t most = d->lane->retries.after_send;

    d->first_refusal = d->renamed ? d->first_refusal : why;
    d->renamed = true;
    d->models_left--;
    d->attempts_before = d->attempts_count;
    d->sends = d->sends < most ? d->sends : most;
    d->state = DISPATCH_RENAMING;
    d->due = DISPATCH_RENAME;
    counter_bump(&d->lane->metrics->model_fallbacks, 1);
}

void
dispatch_renamed(struct dispatch *d)
{
    CHECK(d->state == DISPATCH_RENAMING);
    d->split.failed = false;
    go_elect(d);
}

/* Attempts that the model may have: one is left for each that may follow. */
static bool
has_attempt(const struct dispatch *d, uint32_t more)
{
    uint32_t count = d->attempts_count + more;

    return count - d->attempts_before < d->lane->attempts_max &&
           count + d->models_left < DISPATCH_ATTEMPTS_MAX;
}

static void
refuse(struct dispatch *d, enum dispatch_refusal refusal)
{
    CHECK(!d->choice.lease.taken);
    if (may_rename(d)) {
        begin_rename(d, refusal);
        return;
    }
    if (d->renamed && refusal == DISPATCH_NO_MODEL) {
        refusal = d->first_refusal;
    }
    d->refusal = refusal;
    d->state = DISPATCH_LOST;
    d->due = DISPATCH_REFUSE;
    if (d->resumed != 0) {
        d->due = DISPATCH_SEVER;
        return;
    }
}

/* There is no further attempt. */
static void
give_up(struct dispatch *d)
{
    refuse(d, d->busy.status != 0 ? DISPATCH_ALL_BUSY : DISPATCH_ALL_FAILED);
}

/* Whether the elected request is to be elected again, after yield_us. */
static bool ON_LANE
yields(struct dispatch *d, const struct route_world *world, uint64_t wall_us)
{
    bool first = !d->elected_once;

    d->elected_once = true;
    d->yield_us = first && moment_counts(&world->board->moment)
                      ? split_yield(d->lane->scratch, world, wall_us,
                                    &d->choice, &d->split.choice)
                      : 0;
    return d->yield_us != 0;
}

void
dispatch_elect(struct dispatch *d, const struct route_world *world,
               uint64_t wall_us)
{
    struct dispatch_lane *lane = d->lane;
    struct attempt_counts counts = dispatch_counts(d);
    uint32_t slot;

    CHECK(d->state == DISPATCH_ELECTING && !d->choice.lease.taken);
    struct split_choice *split = &d->split.choice;
    bool may = split->asked != SPLIT_NEVER;
    split->asked = may && d->split.failed ? SPLIT_LAST : split->asked;
    dispatch_split_leave(d); /* of the attempt before */
    d->elected = split_elect(lane->scratch, world, &d->tried, lane->rng,
                             &d->choice, split);
    if (d->elected != 0) {
        d->too_long = (struct dispatch_length){
            .need = lane->scratch->pools.need,
            .longest = lane->scratch->pools.longest,
        };
        return;
    }
    if (yields(d, world, wall_us)) {
        return;
    }
    slot = d->choice.lease.slot;
    d->columns = dispatch_tell_columns(lane, world->view);
    d->seeks = lane->scratch->session.mode == SESSION_BOUND &&
               lane->scratch->session.depth == 0;
    d->watched = worker_set_has(&world->view->watched, slot);
    d->total = lane->scratch->total;
    d->total_whole = lane->scratch->tokens.prompt.whole;
    d->text_bytes = lane->scratch->text_bytes;
    d->text_kind = lane->scratch->text_kind;
    d->budget = pools_budget(&lane->scratch->pools.need);
    memcpy(d->worker, world->view->worker[slot]->id, sizeof(d->worker));
    if (split->flow == SPLIT_NONE) {
        attempt_begin(&d->choice,
                      route_unread_tokens(lane->scratch, &d->choice), &counts);
    } else { /* its prompt waits at the other one */
        uint32_t prefill = split->prefill.lease.slot;
        attempt_begin(&d->choice, 0, &counts);
        attempt_begin(&split->prefill,
                      route_unread_tokens(lane->scratch, &split->prefill),
                      &counts);
        d->split.watched = worker_set_has(&world->view->watched, prefill);
        memcpy(d->split.worker, world->view->worker[prefill]->id,
               sizeof(d->split.worker));
    }
    counter_bump(
        &lane->metrics->inexact,
        !d->choice.exact && worker_set_has(&world->tokens.view->workers, slot));
}

void
dispatch_elected(struct dispatch *d, uint64_t now_us)
{
    struct dispatch_lane *lane = d->lane;

    CHECK(d->state == DISPATCH_ELECTING);
    if (d->elected == 0 && !d->choice.lease.taken) {
        d->state = DISPATCH_YIELDING;
        d->due = DISPATCH_YIELD;
        counter_bump(&lane->metrics->moments_waited, 1);
        return;
    }
    if (d->elected == ROUTE_E_FULL) {
        d->state = DISPATCH_QUEUED;
        d->due = DISPATCH_QUEUE;
        d->queued_us = now_us;
        counter_bump(&lane->metrics->requests_queued, d->waited_us == 0);
        return;
    }
    if (d->elected != 0 && d->attempts_count != 0) {
        give_up(d);
        return;
    }
    if (d->elected != 0) {
        refuse(d, d->elected == ROUTE_E_NO_MODEL    ? DISPATCH_NO_MODEL
                  : d->elected == ROUTE_E_TOO_LONG  ? DISPATCH_TOO_LONG
                  : d->elected == ROUTE_E_RESIDENCY ? DISPATCH_RESIDENCY
                                                    : DISPATCH_NO_WORKER);
        return;
    }
    if (d->routed_us == 0) {
        d->routed_us = now_us;
        histogram_add(&lane->metrics->route, now_us - d->begun_us);
    }
    CHECK(d->ticket == 0);
    d->ticket = dispatch_tell_prefixes(lane, &d->choice, d->routed,
                                       d->split.choice.flow == SPLIT_NONE);
    d->sent = false;
    counter_add(&lane->board->counters[d->choice.lease.slot].requests, 1);
    d->state = DISPATCH_CONNECTING;
    d->due = DISPATCH_CONNECT;
    if (d->split.choice.asked != SPLIT_NEVER) {
        dispatch_split_elected(d, now_us);
    }
}

static void
end_wait(struct dispatch *d, uint64_t now_us)
{
    CHECK(d->state == DISPATCH_QUEUED);
    d->waited_us += now_us - d->queued_us + 1; /* never 0 again */
    d->queued_us = 0;
}

void
dispatch_placed(struct dispatch *d, uint64_t now_us)
{
    end_wait(d, now_us);
    go_elect(d);
}

void
dispatch_unplaced(struct dispatch *d, enum dispatch_refusal why,
                  uint32_t retry_after_s, uint64_t now_us)
{
    CHECK(why == DISPATCH_QUEUE_FULL || why == DISPATCH_QUEUE_LATE);
    end_wait(d, now_us);
    d->busy =
        (struct dispatch_busy){.status = 503, .retry_after_s = retry_after_s};
    refuse(d, why);
}

void
dispatch_connected(struct dispatch *d)
{
    CHECK(d->state == DISPATCH_CONNECTING && d->choice.lease.taken);
    d->state = DISPATCH_WAITING;
}

/* Failures */

/* The worker has no room now, and did nothing with the request. */
static bool
is_refusal(const struct dispatch_failure *failure)
{
    return failure->fault == DISPATCH_STATUS && failure->has_retry_after &&
           (failure->status == 429 || failure->status == 503);
}

/* The worker does not have what is sought, and did nothing. */
static bool
is_missing(const struct dispatch *d, const struct dispatch_failure *failure)
{
    return d->seeks && failure->fault == DISPATCH_STATUS &&
           failure->status == 404;
}

bool
dispatch_drops(const struct dispatch *d, const struct dispatch_failure *failure)
{
    bool refused = is_refusal(failure);

    CHECK(failure->fault == DISPATCH_STATUS);
    if (d->resumed != 0) {
        return true;
    }
    if (is_missing(d, failure)) {
        return !d->choice.alone &&
               d->attempts_count + 1 < DISPATCH_ATTEMPTS_MAX;
    }
    if (!refused &&
        !config_statuses_has(&d->lane->retries.statuses, failure->status)) {
        return false;
    }
    if (has_attempt(d, 1) && !d->choice.alone &&
        (refused || may_send_again(d))) {
        return true;
    }
    if (d->models_left != 0 && d->attempts_count + 1 < DISPATCH_ATTEMPTS_MAX) {
        return true;
    }
    if (refused) {
        return d->busy.status != 0 &&
               d->busy.retry_after_s < failure->retry_after_s;
    }
    return failure->status >= 502 && failure->status <= 504;
}

static void
note_refusal(struct dispatch *d, const struct dispatch_failure *failure)
{
    if (d->busy.status == 0 || failure->retry_after_s < d->busy.retry_after_s) {
        d->busy = (struct dispatch_busy){
            .status = failure->status,
            .retry_after_s = failure->retry_after_s,
        };
    }
}

/* The attempt's result, for the circuit breaker. A worker that limits its
 * clients is well. */
enum fact_result
dispatch_result_of(const struct dispatch_failure *failure)
{
    switch (failure->fault) {
    case DISPATCH_CONNECT_TIMEOUT:
    case DISPATCH_FIRST_BYTE_TIMEOUT:
        return FACT_TIMEOUT;
    case DISPATCH_CLOSED:
    case DISPATCH_BAD:
        return FACT_CLOSED;
    case DISPATCH_STATUS:
        return failure->status < 500 ? FACT_ANSWERED : FACT_STATUS;
    case DISPATCH_UNREACHABLE:
    case DISPATCH_EXHAUSTED:
        break;
    }
    return FACT_CONNECT;
}

/* The engine closed a kept connection while our request was on its way: that
 * says nothing about the engine, so it is tried once more on a new connection.
 * One that has got all of it is ending: what may be sent once more goes to
 * another. */
static bool
is_stale(const struct dispatch *d, const struct dispatch_failure *failure)
{
    return failure->fault == DISPATCH_CLOSED && failure->kept && !d->fresh &&
           !d->sent && may_send_again(d);
}

/* learned: an answer of success has begun. Repeating it is harmless. */
static void ON_LANE
settle(struct dispatch *d, bool learned)
{
    if (d->ticket != 0) {
        dispatch_tell_settled(d->lane, d->ticket, learned);
        d->answered = learned ? d->ticket : 0;
        d->ticket = 0;
    }
}

void
dispatch_note_failure(struct dispatch *d,
                      const struct dispatch_failure *failure,
                      const char *worker, const struct fleet_lease *lease)
{
    struct dispatch_lane *lane = d->lane;

    CHECK(d->attempts_count < DISPATCH_ATTEMPTS_MAX && lease->taken);
    struct dispatch_attempt *a = &d->attempt[d->attempts_count++];
    a->fault = failure->fault;
    a->status = failure->status;
    memcpy(a->worker, worker, sizeof(a->worker));
    dispatch_count_failure(lane->metrics, failure->fault);
    counter_bump(&lane->metrics->retries, 1);
    counter_add(&lane->board->counters[lease->slot].retries, 1);
    if (is_refusal(failure)) {
        note_refusal(d, failure);
    }
}

static void ON_LANE
end_attempt(struct dispatch *d, const struct dispatch_failure *failure)
{
    struct attempt_counts counts = dispatch_counts(d);
    bool ours = failure->fault == DISPATCH_EXHAUSTED;
    enum fact_result result = dispatch_result_of(failure);

    dispatch_note_failure(d, failure, d->worker, &d->choice.lease);
    if (is_refusal(failure)) {
        d->sends -= d->sent;
    } else if (is_missing(d, failure)) {
        d->sends -= d->sent;
        d->attempts_before++;
    }
    if (!ours) {
        dispatch_tell_outcome(d->lane, &d->choice.lease, d->watched, result);
    }
    if (d->split.half != DISPATCH_HALF_NONE) {
        counter_bump(&d->lane->metrics->split_decode_failed, 1);
        d->split.failed = true;
        dispatch_split_leave(d);
    }
    settle(d, false);
    attempt_fail(&d->choice, &counts, &d->tried,
                 !ours && result != FACT_ANSWERED);
    d->fresh = false;
}

void
dispatch_unasked(struct dispatch *d)
{
    CHECK(d->state == DISPATCH_WAITING && d->choice.lease.taken);
    d->sends -= d->sent;
    d->sent = false;
    d->state = DISPATCH_CONNECTING;
    d->due = DISPATCH_CONNECT;
}

void
dispatch_failed(struct dispatch *d, const struct dispatch_failure *failure)
{
    CHECK(d->state == DISPATCH_CONNECTING || d->state == DISPATCH_WAITING);
    CHECK(d->choice.lease.taken && d->attempts_count < DISPATCH_ATTEMPTS_MAX);
    if (failure->unread) {
        d->sends -= d->sent; /* nobody got it (RFC 9112 section 9.3.1) */
        d->sent = false;
    }
    if (is_stale(d, failure)) {
        counter_bump(&d->lane->metrics->upstream_stale, 1);
        d->fresh = true;
        d->sent = false;
        d->state = DISPATCH_CONNECTING;
        d->due = DISPATCH_CONNECT;
        return;
    }
    end_attempt(d, failure);
    dispatch_go_on(d);
}

bool
dispatch_may_go_on(const struct dispatch *d)
{
    return has_attempt(d, 0) && may_send_again(d);
}

void
dispatch_go_on(struct dispatch *d)
{
    if (dispatch_may_go_on(d)) {
        go_elect(d);
    } else {
        give_up(d);
    }
}

void
dispatch_expired(struct dispatch *d)
{
    struct dispatch_failure failure = {.fault = DISPATCH_CONNECT_TIMEOUT};

    switch (d->state) {
    case DISPATCH_ASKING:
        d->lane->late_in_row++;
        counter_bump(&d->lane->metrics->tokens_late, 1);
        go_elect(d);
        return;
    case DISPATCH_YIELDING:
        go_elect(d);
        return;
    case DISPATCH_WAITING:
        failure.fault = DISPATCH_FIRST_BYTE_TIMEOUT;
        dispatch_failed(d, &failure);
        return;
    case DISPATCH_CONNECTING:
        dispatch_failed(d, &failure);
        return;
    case DISPATCH_STREAMING:
        dispatch_broke_off(d);
        return;
    case DISPATCH_ELECTING:
    case DISPATCH_QUEUED:
    case DISPATCH_RENAMING:
    case DISPATCH_PREFILLING:
    case DISPATCH_LOST:
    case DISPATCH_ENDED:
        break;
    }
    CHECK(false && "a state that waits");
}

/* The answer */

/* An answer that is passed on, and counts against its worker. */
static bool
is_worker_fault(const struct dispatch *d, unsigned status)
{
    return status == 500 || status == 503 ||
           config_statuses_has(&d->lane->retries.statuses, status);
}

void
dispatch_answered(struct dispatch *d, unsigned status, uint64_t now_us)
{
    struct metrics_lane *m = d->lane->metrics;

    CHECK(d->state == DISPATCH_WAITING && d->choice.lease.taken);
    CHECK(status != 0);
    d->state = DISPATCH_STREAMING;
    if (d->resumed == 0) {
        d->status = status;
        d->first_byte_us = now_us;
        histogram_add(&m->first_byte, now_us - d->begun_us);
        dispatch_count_choice(m, &d->choice);
    }
    fleet_lease_answered(&d->choice.lease, d->lane->board);
    if (status < 500) {
        fleet_board_heard(d->lane->board, d->choice.lease.slot, now_us);
    }
    settle(d, status < 300);
    if (is_worker_fault(d, status)) {
        counter_add(&d->lane->board->counters[d->choice.lease.slot].failures,
                    1);
    }
    dispatch_tell_outcome(
        d->lane, &d->choice.lease, d->watched,
        is_worker_fault(d, status) ? FACT_STATUS : FACT_ANSWERED);
}

void
dispatch_stores(struct dispatch *d, uint64_t key)
{
    const struct attempt_prefix prefix = {
        .kind = FACT_SESSION,
        .slot = d->choice.lease.slot,
        .generation = d->choice.lease.generation,
        .count = 1,
        .root = SESSION_ROOT,
        .ticket = ++d->lane->tickets,
        .keys = &key,
    };

    CHECK(d->state == DISPATCH_STREAMING && d->choice.lease.taken);
    CHECK(d->ticket == 0);
    dispatch_tell_prefix(d->lane, &prefix);
    d->ticket = prefix.ticket;
    uint64_t answered = d->answered;
    settle(d, true);
    d->answered = answered;
}

void
dispatch_began(struct dispatch *d, uint64_t now_us)
{
    CHECK(d->state == DISPATCH_STREAMING);
    if (d->began) {
        return;
    }
    d->began = true;
    fleet_lease_began(&d->choice.lease, d->lane->board);
    if (d->stream && d->status < 300 && d->resumed == 0) {
        d->first_token_us = now_us;
        dispatch_count_first_token(d->lane->metrics, d, now_us);
    }
}

void
dispatch_broke_off(struct dispatch *d)
{
    CHECK(d->state == DISPATCH_STREAMING && d->due == DISPATCH_WAIT);
    d->state = DISPATCH_LOST;
    d->due = DISPATCH_SEVER;
}

bool
dispatch_may_resume(const struct dispatch *d)
{
    return d->state == DISPATCH_STREAMING && may_send_again(d) &&
           !MUTANT(GIVES_UP) && d->attempts_count + 1 < d->lane->attempts_max &&
           d->attempts_count + 1 < DISPATCH_ATTEMPTS_MAX;
}

void
dispatch_resumes(struct dispatch *d)
{
    struct dispatch_lane *lane = d->lane;
    struct attempt_counts counts = dispatch_counts(d);
    struct dispatch_attempt *a = &d->attempt[d->attempts_count++];
    uint32_t slot = d->choice.lease.slot;

    CHECK(d->state == DISPATCH_STREAMING && d->due == DISPATCH_WAIT);
    CHECK(d->choice.lease.taken && d->ticket == 0);
    a->fault = DISPATCH_CLOSED;
    a->status = 0;
    memcpy(a->worker, d->worker, sizeof(a->worker));
    counter_bump(&lane->metrics->resumed, 1);
    counter_bump(&lane->metrics->retries, 1);
    counter_add(&lane->board->counters[slot].retries, 1);
    counter_add(&lane->board->counters[slot].streams_severed, 1);
    dispatch_tell_outcome(lane, &d->choice.lease, d->watched, FACT_CLOSED);
    dispatch_tell_broke_off(lane, d->answered);
    d->answered = 0;
    dispatch_split_leave(d);
    d->split.failed = true;
    attempt_fail(&d->choice, &counts, &d->tried, true);
    d->resumed++;
    d->began = false;
    d->fresh = false;
    go_elect(d);
}

/* The end */

static void ON_LANE
count_end(struct dispatch *d, const struct dispatch_report *report)
{
    struct metrics_lane *m = d->lane->metrics;

    histogram_add(&m->duration, report->now_us - d->begun_us);
    switch (report->end) {
    case DISPATCH_DONE:
        CHECK(d->state == DISPATCH_STREAMING);
        metrics_end(&m->ends, METRICS_ANSWERED, d->status);
        counter_bump(&m->prompt_tokens, report->usage.prompt_tokens);
        counter_bump(&m->cached_tokens, report->usage.cached_tokens);
        counter_bump(&m->created_cache_tokens, report->usage.created_tokens);
        counter_bump(&m->completion_tokens, report->usage.completion_tokens);
        dispatch_count_steps(m, d, report);
        dispatch_count_cached(m, d, report);
        break;
    case DISPATCH_CANCELLED:
        metrics_end(&m->ends, METRICS_CANCELLED,
                    d->status != 0 ? d->status : CLIENT_CLOSED);
        break;
    case DISPATCH_SEVERED:
        CHECK(d->choice.lease.taken || d->resumed != 0);
        metrics_end(&m->ends, METRICS_BROKE_OFF, d->status);
        if (d->choice.lease.taken) { /* else it has been blamed */
            uint32_t slot = d->choice.lease.slot;
            counter_add(&d->lane->board->counters[slot].streams_severed, 1);
            dispatch_tell_outcome(d->lane, &d->choice.lease, d->watched,
                                  FACT_CLOSED);
        }
        break;
    case DISPATCH_REFUSED:
        metrics_end(&m->ends, report->why, report->status);
        break;
    }
}

void
dispatch_end(struct dispatch *d, const struct dispatch_report *report)
{
    struct attempt_counts counts = dispatch_counts(d);

    CHECK(d->state != DISPATCH_ENDED);
    count_end(d, report);
    settle(d, false);
    dispatch_tell_decision(d, report);
    dispatch_split_leave(d);
    attempt_end(&d->choice, &counts);
    d->state = DISPATCH_ENDED;
    d->due = DISPATCH_WAIT;
}
