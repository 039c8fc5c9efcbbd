/* What control is told of a request. */
#include <string.h>

#include "node/route/attempt_internal.h"
#include "node/route/dispatch_count_internal.h"
#include "node/route/dispatch_internal.h"
#include "node/route/route_columns.h"

#define COLUMNS_SPARE ((size_t)512 << 10)

/* Room for a fact of that size, or NULL (counted). */
static void *
fact_reserve(struct dispatch_lane *lane, size_t size)
{
    void *fact = ring_reserve(lane->facts, size);

    if (fact == NULL) {
        counter_bump(&lane->metrics->facts_lost, 1);
    }
    return fact;
}

static void
fact_commit(struct dispatch_lane *lane)
{
    ring_commit(lane->facts);
    lane->told = true;
}

void
dispatch_tell_prefix(struct dispatch_lane *lane,
                     const struct attempt_prefix *prefix)
{
    struct fact_learn *fact = fact_reserve(lane, attempt_prefix_size(prefix));

    if (fact != NULL) {
        attempt_prefix_write(prefix, fact);
        fact_commit(lane);
    }
}

uint64_t
dispatch_tell_prefixes(struct dispatch_lane *lane,
                       const struct route_choice *choice, bool routed,
                       bool decided)
{
    struct attempt_prefix prefixes[3];
    uint32_t count = attempt_prefixes(choice, lane->scratch, routed, prefixes);
    uint64_t ticket = 0;

    count += attempt_session(choice, lane->scratch, &prefixes[count]);
    if (count > 1 || prefixes[0].count != 0) {
        ticket = ++lane->tickets;
    }
    for (uint32_t i = 0; i < count; i++) {
        prefixes[i].ticket = ticket;
        dispatch_tell_prefix(lane, &prefixes[i]);
    }
    if (decided && attempt_decided(choice, lane->scratch, &prefixes[0])) {
        dispatch_tell_prefix(lane, &prefixes[0]);
    }
    return ticket;
}

static void
tell_settled(struct dispatch_lane *lane, const struct fact_settled *settled)
{
    struct fact_settled *fact =
        settled->ticket != 0 ? fact_reserve(lane, sizeof(*fact)) : NULL;

    if (fact != NULL) {
        *fact = *settled;
        fact_commit(lane);
    }
}

void
dispatch_tell_settled(struct dispatch_lane *lane, uint64_t ticket, bool learned)
{
    tell_settled(
        lane, &(struct fact_settled){
                  .kind = FACT_SETTLED, .learned = learned, .ticket = ticket});
}

void
dispatch_tell_broke_off(struct dispatch_lane *lane, uint64_t ticket)
{
    tell_settled(lane, &(struct fact_settled){.kind = FACT_SETTLED,
                                              .learned = true,
                                              .broke_off = true,
                                              .ticket = ticket});
}

void
dispatch_tell_outcome(struct dispatch_lane *lane,
                      const struct fleet_lease *lease, bool watched,
                      enum fact_result result)
{
    struct fact_outcome *fact;

    if (!attempt_matters(result, watched)) {
        return;
    }
    fact = fact_reserve(lane, sizeof(*fact));
    if (fact != NULL) {
        *fact = (struct fact_outcome){
            .kind = FACT_OUTCOME,
            .slot = lease->slot,
            .generation = lease->generation,
            .result = result,
        };
        fact_commit(lane);
    }
}

static uint64_t
since_begun(const struct dispatch *d, uint64_t at_us)
{
    return at_us != 0 ? at_us - d->begun_us : 0;
}

static uint32_t
held_tokens(const struct token_match_rank *best)
{
    uint64_t held = (uint64_t)best->held * shape_tokens(best->grain);

    return held < best->tokens ? (uint32_t)held : best->tokens;
}

/* What was predicted of the prompt at a worker. */
static void
put_prediction(struct fact_decision *fact, const struct dispatch *d,
               const struct route_choice *choice)
{
    fact->mode = choice->elect.mode;
    fact->reason = choice->elect.reason;
    fact->candidates = choice->elect.candidates;
    fact->late = choice->elect.late;
    fact->load = choice->elect.load;
    fact->cost = choice->elect.cost;
    fact->front_tokens = choice->lease.front_tokens;
    fact->overlap = choice->elect.overlap;
    fact->total = d->total;
    fact->exact = choice->exact;
    fact->whole = choice->placed && d->total_whole;
    fact->imbalanced = choice->elect.imbalanced;
    if (choice->exact) {
        fact->predicted_tokens = choice->best.tokens;
        fact->held_tokens = held_tokens(&choice->best);
        fact->block_tokens = shape_tokens(choice->best.grain);
        fact->rank = choice->best.rank;
    }
}

void
dispatch_tell_prefilled(struct dispatch *d, const struct usage *usage,
                        uint64_t now_us)
{
    const struct dispatch_split *split = &d->split;
    const struct route_choice *choice = &split->choice.prefill;
    struct fact_decision *fact = fact_reserve(d->lane, sizeof(*fact));

    if (fact == NULL) {
        return;
    }
    *fact = (struct fact_decision){
        .kind = FACT_PREFILLED,
        .slot = choice->lease.slot,
        .generation = choice->lease.generation,
        .attempts = 1,
        .status = 200,
        .stream = true, /* one token: the answer is the first */
        .first_token_us = now_us - split->begun_us,
        .prompt_tokens = usage->prompt_tokens,
        .cached_tokens = usage->cached_tokens,
        .cached_known = usage->cached_known,
        .judges = usage->cached_known,
        .ticket = split->answered,
    };
    put_prediction(fact, d, choice);
    fact_commit(d->lane);
}

/* What cannot be told without making facts short of room, of which others
 * learn, is lost. */
uint64_t
dispatch_tell_columns(struct dispatch_lane *lane, const struct fleet_view *view)
{
    struct route_columns *columns = &lane->scratch->columns;
    size_t size = sizeof(struct fact_columns) +
                  columns->count * sizeof(struct fact_column);

    if (columns->count == 0) {
        return 0;
    }
    struct fact_columns *fact = fact_reserve(lane, size + COLUMNS_SPARE);
    fact = fact != NULL ? fact_reserve(lane, size) : NULL;
    if (fact == NULL) {
        return 0;
    }
    *fact = (struct fact_columns){
        .kind = FACT_COLUMNS,
        .count = columns->count,
        .number = ++lane->tickets,
    };
    for (uint32_t i = 0; i < columns->count; i++) {
        route_columns_read(lane->scratch, view, i, &fact->column[i]);
    }
    uint64_t number = fact->number;
    columns->count = 0;
    fact_commit(lane);
    return number;
}

void
dispatch_tell_request(struct dispatch_lane *lane,
                      const struct fact_request *request)
{
    struct fact_request *fact = fact_reserve(lane, sizeof(*fact));

    if (fact != NULL) {
        *fact = *request;
        fact_commit(lane);
    }
}

void
dispatch_tell_decision(struct dispatch *d, const struct dispatch_report *report)
{
    const struct route_choice *choice = &d->choice;
    struct fact_decision *fact = fact_reserve(d->lane, sizeof(*fact));
    bool placed = choice->lease.taken;
    uint64_t duration_us = report->now_us - d->begun_us;

    if (fact == NULL) {
        return;
    }
    *fact = (struct fact_decision){
        .kind = FACT_DECISION,
        .slot = placed ? choice->lease.slot : WORKER_NONE,
        .generation = placed ? choice->lease.generation : 0,
        .attempts = d->attempts_count + (d->status != 0),
        .status = report->end == DISPATCH_REFUSED ? report->status : d->status,
        .stream = d->stream,
        .tenant = d->tenant,
        .resumed = d->resumed,
        .cleared =
            d->clears && report->end == DISPATCH_DONE && d->status / 100 == 2,
        .split = d->split.begun_us != 0,
        .severed = report->end == DISPATCH_SEVERED,
        .cancelled = report->end == DISPATCH_CANCELLED,
        .ticket = d->answered,
        .columns = d->columns,
        .wall_ms = report->wall_ms - duration_us / 1000,
        .route_us = since_begun(d, d->routed_us),
        .waited_us = d->waited_us +
                     (d->queued_us != 0 ? report->now_us - d->queued_us : 0),
        .first_byte_us = since_begun(d, d->first_byte_us),
        .first_token_us = since_begun(d, d->first_token_us),
        .duration_us = duration_us,
        .bytes = d->bytes,
    };
    put_prediction(fact, d, choice);
    if (report->end == DISPATCH_DONE) {
        fact->prompt_tokens = report->usage.prompt_tokens;
        fact->cached_tokens = report->usage.cached_tokens;
        fact->completion_tokens = report->usage.completion_tokens;
        fact->text_bytes = d->text_bytes;
        fact->text_kind = d->text_kind;
        fact->budget_tokens = d->budget;
        /* Another prompt was computed in the end than was predicted. */
        fact->cached_known = report->usage.cached_known && d->resumed == 0;
        fact->judges = dispatch_judges(d, report);
        fact->possible_tokens =
            fact->judges ? dispatch_possible(d, &report->usage) : 0;
    }
    if (d->split.prefilled) {
        memcpy(fact->prefill, d->split.worker, sizeof(fact->prefill));
    }
    memcpy(fact->id, d->id, sizeof(fact->id));
    memcpy(fact->model, d->model, sizeof(fact->model));
    if (report->request != NULL) {
        report->request->decision = *fact;
    }
    fact_commit(d->lane);
    if (report->request != NULL) {
        dispatch_tell_request(d->lane, report->request);
    }
}
