/* Of a split request, the half that computes the prompt. */

#include "node/route/dispatch_internal.h"

static void
count_why(struct metrics_lane *m, enum split_why why)
{
    counter_bump(&m->split_short, why == SPLIT_SHORT);
    counter_bump(&m->split_alone, why == SPLIT_ALONE);
}

void
dispatch_split_elected(struct dispatch *d, uint64_t now_us)
{
    struct dispatch_split *split = &d->split;
    struct dispatch_lane *lane = d->lane;
    const struct route_choice *choice = &split->choice.prefill;

    if (split->choice.flow == SPLIT_NONE) {
        count_why(lane->metrics, split->choice.why);
        return;
    }
    CHECK(split->half == DISPATCH_HALF_NONE && choice->lease.taken);
    counter_bump(&lane->metrics->split, 1);
    counter_add(&lane->board->counters[choice->lease.slot].requests, 1);
    split->ticket = dispatch_tell_prefixes(lane, choice, d->routed, true);
    split->half = DISPATCH_HALF_CONNECTING;
    split->fresh = false;
    split->sent = false;
    split->prefilled = false;
    split->begun_us = now_us;
    split->both = split->choice.flow == SPLIT_ROOM;
    d->due = DISPATCH_PREFILL;
    d->state = split->both ? DISPATCH_CONNECTING : DISPATCH_PREFILLING;
}

/* Its worker has nothing of it to do any more. learned: it did it. */
static void ON_LANE
leave(struct dispatch *d, bool learned)
{
    struct dispatch_split *split = &d->split;
    struct route_choice *choice = &split->choice.prefill;
    struct attempt_counts counts = dispatch_counts(d);

    dispatch_tell_settled(d->lane, split->ticket, learned);
    split->answered = learned ? split->ticket : 0;
    split->ticket = 0;
    attempt_end(choice, &counts);
}

void
dispatch_split_leave(struct dispatch *d)
{
    if (d->split.choice.prefill.lease.taken) {
        leave(d, d->state == DISPATCH_STREAMING);
    }
    d->split.half = DISPATCH_HALF_NONE;
    d->split.both = false;
}

void
dispatch_prefill_connected(struct dispatch *d)
{
    CHECK(d->split.half == DISPATCH_HALF_CONNECTING);
    d->split.half = DISPATCH_HALF_WAITING;
}

/* The worker that was to go on does all of it. */
static void ON_LANE
do_alone(struct dispatch *d)
{
    struct dispatch_split *split = &d->split;

    CHECK(split->choice.flow == SPLIT_PARAMS && d->choice.lease.taken);
    split->failed = true;
    split->choice.flow = SPLIT_NONE;
    split->choice.why = SPLIT_FAILED;
    split->half = DISPATCH_HALF_NONE;
    fleet_lease_began(&d->choice.lease, d->lane->board);
    fleet_lease_queue(&d->choice.lease, d->lane->board, split->choice.lacks);
    d->state = DISPATCH_CONNECTING;
    d->due = DISPATCH_CONNECT;
}

void
dispatch_prefilled(struct dispatch *d, bool usable, const struct usage *usage,
                   uint64_t now_us)
{
    struct dispatch_split *split = &d->split;
    struct metrics_lane *m = d->lane->metrics;
    uint32_t slot = split->choice.prefill.lease.slot;

    CHECK(split->half == DISPATCH_HALF_WAITING);
    histogram_add(&m->prefill, now_us - split->begun_us);
    fleet_board_heard(d->lane->board, slot, now_us);
    dispatch_tell_outcome(d->lane, &split->choice.prefill.lease, split->watched,
                          FACT_ANSWERED);
    leave(d, true);
    split->usage = *usage;
    split->prefilled = true;
    split->half = DISPATCH_HALF_DONE;
    dispatch_tell_prefilled(d, usage, now_us);
    if (split->choice.flow != SPLIT_PARAMS) {
        return;
    }
    CHECK(d->state == DISPATCH_PREFILLING);
    if (!usable) {
        counter_bump(&m->split_params_missing, 1);
        do_alone(d);
        return;
    }
    d->state = DISPATCH_CONNECTING;
    d->due = DISPATCH_CONNECT;
}

/* What a worker refuses for what it is, the other one refuses, too, and says
 * so to the client. */
static bool
is_clients(const struct dispatch_failure *failure)
{
    return failure->fault == DISPATCH_STATUS && failure->status < 500 &&
           !failure->has_retry_after;
}

/* The connection was kept too long: the half is sent once more. */
static bool
is_stale(const struct dispatch *d, const struct dispatch_failure *failure)
{
    return failure->fault == DISPATCH_CLOSED && failure->kept &&
           !d->split.fresh;
}

bool
dispatch_needs_prefill(const struct dispatch *d,
                       const struct dispatch_failure *failure)
{
    return d->split.choice.flow == SPLIT_ROOM &&
           (d->state == DISPATCH_CONNECTING || d->state == DISPATCH_WAITING) &&
           !is_clients(failure) && !is_stale(d, failure);
}

static void ON_LANE
note_prefill_failure(struct dispatch *d, const struct dispatch_failure *failure)
{
    struct dispatch_split *split = &d->split;
    const struct fleet_lease *lease = &split->choice.prefill.lease;
    enum fact_result result = dispatch_result_of(failure);
    bool ours = failure->fault == DISPATCH_EXHAUSTED;

    counter_bump(&d->lane->metrics->split_prefill_failed, 1);
    dispatch_note_failure(d, failure, split->worker, lease);
    /* It may be what has ended that engine. */
    d->sends += split->sent && !failure->unread && !failure->has_retry_after &&
                !is_clients(failure);
    if (!ours) {
        dispatch_tell_outcome(d->lane, lease, split->watched, result);
    }
    if (!ours && result != FACT_ANSWERED) {
        counter_add(&d->lane->board->counters[lease->slot].failures, 1);
    }
    worker_set_add(&d->tried, lease->slot);
    leave(d, false);
    split->failed = true;
    split->half = DISPATCH_HALF_NONE;
}

/* The half that answers is not to blame, and may be elected again. */
static void ON_LANE
withdraw(struct dispatch *d)
{
    struct attempt_counts counts = dispatch_counts(d);

    dispatch_tell_settled(d->lane, d->ticket, false);
    d->ticket = 0;
    d->sends -= d->sent;
    d->sent = false;
    d->fresh = false;
    attempt_end(&d->choice, &counts);
}

void
dispatch_prefill_failed(struct dispatch *d,
                        const struct dispatch_failure *failure)
{
    struct dispatch_split *split = &d->split;
    bool needed = dispatch_needs_prefill(d, failure);

    CHECK(split->half == DISPATCH_HALF_CONNECTING ||
          split->half == DISPATCH_HALF_WAITING);
    if (is_stale(d, failure)) {
        counter_bump(&d->lane->metrics->upstream_stale, 1);
        split->fresh = true;
        split->sent = false;
        split->half = DISPATCH_HALF_CONNECTING;
        d->due = DISPATCH_PREFILL;
        return;
    }
    if (split->choice.flow == SPLIT_ROOM && !needed) {
        dispatch_split_leave(d);
        return;
    }
    note_prefill_failure(d, failure);
    if (needed || !dispatch_may_go_on(d)) {
        withdraw(d);
        dispatch_go_on(d);
        return;
    }
    do_alone(d);
}

bool
dispatch_untaken(const struct dispatch *d,
                 const struct dispatch_failure *failure)
{
    bool refused = failure->has_retry_after &&
                   (failure->status == 429 || failure->status == 503);

    return d->split.choice.flow == SPLIT_PARAMS &&
           d->split.half == DISPATCH_HALF_DONE && failure->status >= 400 &&
           !refused;
}

void
dispatch_unsplit(struct dispatch *d)
{
    CHECK(d->state == DISPATCH_WAITING);
    counter_bump(&d->lane->metrics->split_params_refused, 1);
    d->sends -= d->sent;
    d->sent = false;
    do_alone(d);
}
