#include <criterion/criterion.h>
#include <string.h>

#include "node/control/history.h"
#include "node/elect/elect.h"

static struct history history;

static struct fact_decision
answered(void)
{
    return (struct fact_decision){.mode = ELECT_AFFINITY,
                                  .status = 200,
                                  .prompt_tokens = 100,
                                  .cached_tokens = 64,
                                  .predicted_tokens = 64,
                                  .possible_tokens = 80,
                                  .block_tokens = 16,
                                  .exact = true,
                                  .whole = true,
                                  .cached_known = true,
                                  .judges = true,
                                  .stream = true,
                                  .first_token_us = 20000};
}

static const struct history_span *
span_at(uint64_t now_us)
{
    uint64_t number = now_us / HISTORY_SPAN_US + 1;
    const struct history_span *span = &history.span[number % HISTORY_SPANS];

    cr_assert_eq(span->number, number);
    return span;
}

static void
put(uint32_t spans, uint64_t now_us, struct buf *out)
{
    struct json_out json;

    buf_init(out, 1 << 20);
    json_out_init(&json, out);
    history_put(&history, spans, now_us, &json);
    buf_add(out, "", 1);
    cr_assert(!out->failed);
}

Test(node_history, counts_how_requests_were_placed_and_ended)
{
    memset(&history, 0, sizeof history);
    struct fact_decision fact = answered();
    history_take(&history, &fact, 0);
    fact.mode = ELECT_BALANCE;
    fact.status = 429;
    history_take(&history, &fact, 1);
    fact.mode = ELECT_SESSION;
    fact.status = 502;
    history_take(&history, &fact, 2);
    fact.slot = WORKER_NONE;
    fact.mode = ELECT_AFFINITY;
    fact.status = 0;
    fact.cancelled = true;
    history_take(&history, &fact, HISTORY_SPAN_US - 1);
    const struct history_span *span = span_at(0);
    cr_assert_eq(span->requests, 4);
    cr_assert_eq(span->affinity, 1);
    cr_assert_eq(span->balance, 1);
    cr_assert_eq(span->other, 2);
    cr_assert_eq(span->refused, 1);
    cr_assert_eq(span->failed, 1);
    cr_assert_eq(span->cancelled, 1);
    cr_assert_eq(span->severed, 0);
}

Test(node_history, tells_why_requests_ended_without_a_good_answer)
{
    uint64_t ended[METRICS_REASONS_COUNT] = {
        [METRICS_ANSWERED] = 5, [METRICS_LOCAL] = 5, [METRICS_CACHED] = 5};
    struct buf out;

    memset(&history, 0, sizeof history);
    history_ends(&history, ended, 0);
    ended[METRICS_NO_WORKER] = 2;
    ended[METRICS_KEY] = 1;
    history_ends(&history, ended, 1);
    history_ends(&history, ended, HISTORY_SPAN_US); /* nothing new: no span */
    ended[METRICS_NO_WORKER] = 5;
    history_ends(&history, ended, HISTORY_SPAN_US * 2);
    put(HISTORY_SPANS, HISTORY_SPAN_US * 2, &out);
    cr_assert(strstr(out.ptr, "\"ended\":{\"no_worker\":2,"
                              "\"invalid_api_key\":1}") != NULL,
              "%s", out.ptr);
    cr_assert(strstr(out.ptr, "\"ended\":{\"no_worker\":3}") != NULL);
    cr_assert(strstr(out.ptr, "\"number\":2,") == NULL);
    buf_fini(&out);
}

Test(node_history, compares_what_was_expected_with_what_was_cached)
{
    memset(&history, 0, sizeof history);
    struct fact_decision fact = answered();
    history_take(&history, &fact, 0);
    fact.predicted_tokens = 80; /* a block apart is none */
    history_take(&history, &fact, 0);
    fact.predicted_tokens = 81;
    history_take(&history, &fact, 0);
    fact.exact = false; /* by text: a quarter of its blocks */
    fact.overlap = 1;
    fact.total = 4;
    history_take(&history, &fact, 0);
    fact.judges = false;
    history_take(&history, &fact, 0);
    const struct history_span *span = span_at(0);
    cr_assert_eq(span->compared, 3);
    cr_assert_eq(span->exact, 2);
    cr_assert_eq(span->prompt_tokens, 400);
    cr_assert_eq(span->cached_tokens, 256);
    cr_assert_eq(span->predicted_tokens, 64 + 80 + 81 + 25);
    cr_assert_eq(span->possible_tokens, 320);
}

Test(node_history, tells_first_tokens_of_hits_and_misses_apart)
{
    memset(&history, 0, sizeof history);
    struct fact_decision fact = answered();
    for (uint64_t us = 1; us <= 100000000; us *= 10) {
        fact.first_token_us = us;
        fact.cached_tokens = 50;
        memset(&history, 0, sizeof history);
        history_take(&history, &fact, 0);
        uint64_t told = history_first_us(&span_at(0)->hit, 50);
        cr_assert_eq(history_first_us(&span_at(0)->miss, 50), 0);
        cr_assert(us < 1024 || (told * 8 >= us * 7 && told * 8 <= us * 9),
                  "%zu is told as %zu", (size_t)us, (size_t)told);
    }
    fact.cached_tokens = 49;
    history_take(&history, &fact, 0);
    cr_assert_neq(history_first_us(&span_at(0)->miss, 99), 0);
}

Test(node_history, a_percentile_has_its_share_below_it)
{
    struct history_first first = {.count = {[20] = 98, [40] = 2}};

    cr_assert_eq(history_first_us(&first, 98), history_first_us(&first, 1));
    cr_assert_gt(history_first_us(&first, 99), history_first_us(&first, 98));
    cr_assert_eq(history_first_us(&first, 99), history_first_us(&first, 100));
}

Test(node_history, forgets_what_is_older_than_it_keeps)
{
    struct fact_decision fact = answered();
    struct buf out;

    memset(&history, 0, sizeof history);
    history_take(&history, &fact, 0);
    history_take(&history, &fact, HISTORY_SPAN_US);
    put(HISTORY_SPANS, HISTORY_SPAN_US * (HISTORY_SPANS - 1), &out);
    cr_assert(strstr(out.ptr, "\"last\":180,") != NULL, "%s", out.ptr);
    cr_assert(strstr(out.ptr, "\"number\":1,") != NULL);
    buf_fini(&out);
    put(HISTORY_SPANS, HISTORY_SPAN_US * HISTORY_SPANS, &out);
    cr_assert(strstr(out.ptr, "\"number\":1,") == NULL, "%s", out.ptr);
    cr_assert(strstr(out.ptr, "\"number\":2,") != NULL);
    buf_fini(&out);
    put(2, HISTORY_SPAN_US * 2, &out);
    cr_assert(strstr(out.ptr, "\"number\":1,") == NULL);
    cr_assert(strstr(out.ptr, "\"number\":2,") != NULL);
    buf_fini(&out);
    history_take(&history, &fact, HISTORY_SPAN_US * HISTORY_SPANS);
    cr_assert_eq(span_at(HISTORY_SPAN_US * HISTORY_SPANS)->requests, 1,
                 "the place of the oldest was used again, empty");
}
