/* What a request's way adds to the lane's counters. */
#include "node/route/dispatch_count_internal.h"

#include "node/route/session.h"

void
dispatch_count_failure(struct metrics_lane *m, enum dispatch_fault fault)
{
    switch (fault) {
    case DISPATCH_UNREACHABLE:
    case DISPATCH_EXHAUSTED:
        counter_bump(&m->attempts_connect, 1);
        break;
    case DISPATCH_CONNECT_TIMEOUT:
    case DISPATCH_FIRST_BYTE_TIMEOUT:
        counter_bump(&m->attempts_timeout, 1);
        break;
    case DISPATCH_CLOSED:
        counter_bump(&m->attempts_closed, 1);
        break;
    case DISPATCH_BAD:
        counter_bump(&m->attempts_bad, 1);
        break;
    case DISPATCH_STATUS:
        counter_bump(&m->attempts_status, 1);
        break;
    }
}

void
dispatch_count_choice(struct metrics_lane *m, const struct route_choice *choice)
{
    session_count(m, &choice->session);
    counter_bump(&m->imbalanced, choice->elect.imbalanced);
    counter_bump(&m->placed_prefix_hash,
                 choice->elect.hashed == ELECT_HASH_FIRST);
    counter_bump(&m->placed_overflow,
                 choice->elect.hashed == ELECT_HASH_OVERFLOW);
    counter_bump(&m->placed_fallback,
                 choice->elect.hashed == ELECT_HASH_FALLBACK);
    counter_bump(&m->pool_short, choice->pool == POOLS_SHORT);
    counter_bump(&m->pool_long, choice->pool == POOLS_LONG);
    counter_bump(&m->pool_spilled, choice->spilled);
    if (choice->exact) {
        counter_bump(&m->exact, 1);
        counter_bump(&m->tokens_matched, choice->best.tokens);
    } else {
        counter_bump(&m->blocks_matched, choice->elect.overlap);
    }
    switch (choice->elect.mode) {
    case ELECT_AFFINITY:
        counter_bump(&m->mode_affinity, 1);
        break;
    case ELECT_BALANCE:
        counter_bump(&m->mode_balance, 1);
        break;
    case ELECT_POLICY:
        counter_bump(&m->mode_policy, 1);
        break;
    case ELECT_SESSION:
        counter_bump(&m->mode_session, 1);
        break;
    }
}

void
dispatch_count_first_token(struct metrics_lane *m, const struct dispatch *d,
                           uint64_t now_us)
{
    const struct elect_choice *choice = &d->choice.elect;
    enum metrics_overlap overlap =
        metrics_overlap_of(choice->overlap, d->total);

    histogram_add(&m->first_token[choice->mode][overlap], now_us - d->begun_us);
}

void
dispatch_count_steps(struct metrics_lane *m, const struct dispatch *d,
                     const struct dispatch_report *report)
{
    uint32_t tokens = report->usage.completion_tokens;

    if (d->first_token_us != 0 && tokens > 1) {
        histogram_add(&m->step,
                      (report->now_us - d->first_token_us) / (tokens - 1));
    }
}

bool
dispatch_judges(const struct dispatch *d, const struct dispatch_report *report)
{
    return report->end == DISPATCH_DONE && report->usage.cached_known &&
           d->resumed == 0 && !d->several && d->split.begun_us == 0;
}

uint32_t
dispatch_possible(const struct dispatch *d, const struct usage *usage)
{
    uint64_t most = d->choice.elect.most;

    if (!d->choice.exact) { /* both are blocks of text */
        most = d->total != 0 ? usage->prompt_tokens * most / d->total : 0;
    }
    most = most < usage->prompt_tokens ? most : usage->prompt_tokens;
    return most > usage->cached_tokens ? (uint32_t)most : usage->cached_tokens;
}

void
dispatch_count_cached(struct metrics_lane *m, const struct dispatch *d,
                      const struct dispatch_report *report)
{
    const struct usage *usage = &report->usage;

    if (dispatch_judges(d, report)) {
        counter_bump(&m->possible_tokens, dispatch_possible(d, usage));
        counter_bump(&m->possible_tokens_cached, usage->cached_tokens);
    }
}
