/* A ring of spans of time, for the page of the admin port. */
#include "node/control/history.h"

#include <string.h>

#include "node/elect/elect.h"

#define FIRST_BIT 10U /* 2^10 us: about a millisecond */

static const char *const reasons[METRICS_REASONS_COUNT] = {
#define ROW(NAME, reason, code, meaning) [METRICS_##NAME] = (reason),
    METRICS_REASONS(ROW)
#undef ROW
};

static uint64_t
number_at(uint64_t now_us)
{
    return now_us / HISTORY_SPAN_US + 1;
}

/* The span of now, empty when it has just begun. */
static struct history_span *
span_of(struct history *history, uint64_t now_us)
{
    uint64_t number = number_at(now_us);
    struct history_span *span = &history->span[number % HISTORY_SPANS];

    if (span->number != number) {
        memset(span, 0, sizeof(*span));
        span->number = number;
    }
    return span;
}

/* Two bits after the highest one tell four steps of a doubling apart. */
static uint32_t
step_of(uint64_t us)
{
    if (us < (UINT64_C(1) << FIRST_BIT)) {
        return 0;
    }
    uint32_t bit = 63U - (uint32_t)__builtin_clzll(us);
    uint32_t step =
        (bit - FIRST_BIT) * 4U + (uint32_t)((us >> (bit - 2U)) & 3U) + 1U;

    return step < HISTORY_STEPS ? step : HISTORY_STEPS - 1U;
}

/* The middle of a step. */
static uint64_t
step_us(uint32_t step)
{
    if (step == 0) {
        return UINT64_C(1) << (FIRST_BIT - 1U);
    }
    uint64_t quarter = UINT64_C(1) << (FIRST_BIT - 2U + (step - 1U) / 4U);

    return quarter * (4U + (step - 1U) % 4U) + quarter / 2U;
}

static void
take_tokens(struct history_span *span, const struct fact_decision *fact)
{
    uint32_t apart = fact->predicted_tokens > fact->cached_tokens
                         ? fact->predicted_tokens - fact->cached_tokens
                         : fact->cached_tokens - fact->predicted_tokens;

    if (!fact->cached_known || !fact->judges) {
        return;
    }
    span->prompt_tokens += fact->prompt_tokens;
    span->cached_tokens += fact->cached_tokens;
    span->possible_tokens += fact->possible_tokens;
    if (fact->exact && fact->whole) {
        span->compared++;
        span->exact += apart <= fact->block_tokens;
    }
    if (fact->exact) {
        span->predicted_tokens += fact->predicted_tokens;
    } else if (fact->total != 0) { /* both are blocks of text */
        span->predicted_tokens +=
            (uint64_t)fact->prompt_tokens * fact->overlap / fact->total;
    }
}

static void
take_first(struct history_span *span, const struct fact_decision *fact)
{
    uint64_t us =
        fact->first_token_us != 0 ? fact->first_token_us : fact->first_byte_us;
    bool hit = fact->cached_known
                   ? fact->cached_tokens * UINT64_C(2) >= fact->prompt_tokens
                   : fact->overlap * UINT64_C(2) >= fact->total;

    if (us == 0 || fact->status != 200) {
        return;
    }
    struct history_first *first = hit ? &span->hit : &span->miss;
    first->count[step_of(us)]++;
}

void
history_take(struct history *history, const struct fact_decision *fact,
             uint64_t now_us)
{
    struct history_span *span = span_of(history, now_us);
    bool placed = fact->slot != WORKER_NONE;

    span->requests++;
    if (placed && fact->mode == ELECT_AFFINITY) {
        span->affinity++;
    } else if (placed && fact->mode == ELECT_BALANCE) {
        span->balance++;
    } else {
        span->other++;
    }
    span->refused += fact->status >= 400 && fact->status < 500;
    span->failed += fact->status >= 500;
    span->severed += fact->severed;
    span->cancelled += fact->cancelled;
    take_tokens(span, fact);
    take_first(span, fact);
}

uint64_t
history_first_us(const struct history_first *first, uint32_t percent)
{
    uint64_t total = 0;
    uint64_t below = 0;

    CHECK(percent != 0 && percent <= 100);
    for (uint32_t i = 0; i < HISTORY_STEPS; i++) {
        total += first->count[i];
    }
    for (uint32_t i = 0; i < HISTORY_STEPS && total != 0; i++) {
        below += first->count[i];
        if (below * 100 >= total * percent) {
            return step_us(i);
        }
    }
    return 0;
}

void
history_ends(struct history *history,
             const uint64_t ended[METRICS_REASONS_COUNT], uint64_t now_us)
{
    for (uint32_t i = 0; i < METRICS_REASONS_COUNT; i++) {
        if (ended[i] != history->ended[i]) {
            span_of(history, now_us)->ended[i] +=
                (uint32_t)(ended[i] - history->ended[i]);
            history->ended[i] = ended[i];
        }
    }
}

static bool
is_good(uint32_t reason)
{
    return reason == METRICS_ANSWERED || reason == METRICS_LOCAL ||
           reason == METRICS_CACHED;
}

static void
put_ended(struct json_out *json, const struct history_span *span)
{
    json_out_key(json, "ended");
    json_out_object_begin(json);
    for (uint32_t i = 0; i < METRICS_REASONS_COUNT; i++) {
        if (span->ended[i] != 0 && !is_good(i)) {
            json_out_put_uint(json, reasons[i], span->ended[i]);
        }
    }
    json_out_object_end(json);
}

static void
put_first(struct json_out *json, const char *key,
          const struct history_first *first)
{
    json_out_key(json, key);
    json_out_object_begin(json);
    json_out_put_uint(json, "p50_us", history_first_us(first, 50));
    json_out_put_uint(json, "p99_us", history_first_us(first, 99));
    json_out_object_end(json);
}

static void
put_span(struct json_out *json, const struct history_span *span)
{
    json_out_object_begin(json);
    json_out_put_uint(json, "number", span->number);
    json_out_put_uint(json, "requests", span->requests);
    json_out_put_uint(json, "affinity", span->affinity);
    json_out_put_uint(json, "balance", span->balance);
    json_out_put_uint(json, "other", span->other);
    json_out_put_uint(json, "refused", span->refused);
    json_out_put_uint(json, "failed", span->failed);
    json_out_put_uint(json, "severed", span->severed);
    json_out_put_uint(json, "cancelled", span->cancelled);
    json_out_put_uint(json, "compared", span->compared);
    json_out_put_uint(json, "exact", span->exact);
    json_out_put_uint(json, "prompt_tokens", span->prompt_tokens);
    json_out_put_uint(json, "cached_tokens", span->cached_tokens);
    json_out_put_uint(json, "predicted_tokens", span->predicted_tokens);
    json_out_put_uint(json, "possible_tokens", span->possible_tokens);
    put_first(json, "hit", &span->hit);
    put_first(json, "miss", &span->miss);
    put_ended(json, span);
    json_out_object_end(json);
}

void
history_put(const struct history *history, uint32_t spans, uint64_t now_us,
            struct json_out *json)
{
    uint64_t last = number_at(now_us);

    CHECK(spans != 0 && spans <= HISTORY_SPANS);
    uint64_t first = last > spans ? last - spans + 1 : 1;
    json_out_object_begin(json);
    json_out_put_uint(json, "span_ms", HISTORY_SPAN_US / 1000);
    json_out_put_uint(json, "kept", HISTORY_SPANS);
    json_out_put_uint(json, "last", last);
    json_out_key(json, "spans");
    json_out_array_begin(json);
    for (uint64_t number = first; number <= last; number++) {
        const struct history_span *span =
            &history->span[number % HISTORY_SPANS];
        if (span->number == number) {
            put_span(json, span);
        }
    }
    json_out_array_end(json);
    json_out_object_end(json);
}
