/* Results of a load as a table or as JSON, and the progress line. */
#include "chaos/load/load_report_internal.h"

#include <inttypes.h>

#define BAR_CHARS 24

static uint64_t
planned(const struct load_report *report)
{
    return report->options->conversations * report->options->turns;
}

/* 1234567 becomes 1,234,567. */
static void
put_count(struct buf *out, uint64_t number)
{
    char digits[32];
    size_t at = sizeof(digits);

    for (unsigned i = 0; number != 0 || i == 0; i++) {
        if (i > 0 && i % 3 == 0) {
            digits[--at] = ',';
        }
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    }
    buf_add(out, digits + at, sizeof(digits) - at);
}

static void
put_ms(struct buf *out, const char *name, uint64_t us)
{
    buf_printf(out, "%s %" PRIu64 ".%" PRIu64 " ms", name, us / 1000,
               us % 1000 / 100);
}

static void
put_times(struct buf *out, const char *name, struct load_times *times)
{
    buf_printf(out, "%-10s", name);
    if (times->count == 0) {
        buf_add_text(out, "none\n");
        return;
    }
    put_ms(out, "p50", load_times_at(times, 500));
    put_ms(out, ", p90", load_times_at(times, 900));
    put_ms(out, ", p99", load_times_at(times, 990));
    put_ms(out, ", max", load_times_at(times, 1000));
    buf_add_text(out, "\n");
}

static void
put_requests(const struct load_report *report, struct buf *out)
{
    const struct load_stats *stats = report->stats;
    uint64_t failed = load_stats_failed(stats);
    const char *before = " (";

    CHECK(stats->sent <= planned(report));
    buf_add_text(out, "requests  ");
    put_count(out, stats->sent);
    buf_add_text(out, " sent, ");
    put_count(out, stats->ended[LOAD_ANSWERED]);
    buf_add_text(out, " answered, ");
    put_count(out, failed);
    buf_add_text(out, " failed");
    for (unsigned i = LOAD_ANSWERED + 1; i < LOAD_OUTCOMES; i++) {
        if (stats->ended[i] != 0) {
            buf_printf(out, "%s%" PRIu64 " %s", before, stats->ended[i],
                       load_outcome_name((enum load_outcome)i));
            before = ", ";
        }
    }
    buf_add_text(out, failed != 0 ? "), " : ", ");
    if (stats->retried != 0) {
        put_count(out, stats->retried);
        buf_add_text(out, " retried, ");
    }
    put_count(out, planned(report) - stats->sent);
    buf_add_text(out, " not sent\n");
}

static void
put_table(struct buf *out, const char *name, const struct load_table *table)
{
    buf_printf(out, "%-10s", name);
    for (uint32_t i = 0; i < table->count; i++) {
        buf_printf(out, "%s%s %" PRIu64, i > 0 ? ", " : "", table->row[i].name,
                   table->row[i].requests);
    }
    buf_add_text(out, table->count == 0 ? "not told\n" : "\n");
}

/* Thousandths of requests per second. */
static uint64_t
rate_milli(const struct load_report *report)
{
    return report->elapsed_us == 0
               ? 0
               : report->stats->sent * UINT64_C(1000000000) /
                     report->elapsed_us;
}

void
load_report_table(const struct load_report *report, struct buf *out)
{
    struct load_stats *stats = report->stats;
    uint32_t cached = load_stats_cached_permille(stats);
    uint64_t rate = rate_milli(report);

    load_stats_sort(stats);
    put_requests(report, out);
    buf_add_text(out, "tokens    ");
    put_count(out, stats->tokens.prompt_tokens);
    buf_add_text(out, " prompt, ");
    put_count(out, stats->tokens.cached_tokens);
    buf_printf(out, " cached (%u.%u %%), ", cached / 10, cached % 10);
    put_count(out, stats->tokens.completion_tokens);
    buf_add_text(out, " generated\n");
    put_times(out, "TTFT", &stats->first);
    put_times(out, "whole", &stats->whole);
    put_table(out, "workers", &stats->workers);
    if (stats->nodes.count > 1) {
        put_table(out, "nodes", &stats->nodes);
    }
    buf_printf(out,
               "time      %" PRIu64 ".%" PRIu64 " s, %" PRIu64 ".%" PRIu64
               " requests/s\n",
               report->elapsed_us / 1000000,
               report->elapsed_us % 1000000 / 100000, rate / 1000,
               rate % 1000 / 100);
}

static void
put_json_requests(const struct load_report *report, struct json_out *json)
{
    const struct load_stats *stats = report->stats;

    json_out_key(json, "requests");
    json_out_object_begin(json);
    json_out_put_uint(json, "planned", planned(report));
    json_out_put_uint(json, "sent", stats->sent);
    json_out_put_uint(json, "answered", stats->ended[LOAD_ANSWERED]);
    json_out_put_uint(json, "failed", load_stats_failed(stats));
    json_out_put_uint(json, "not_sent", planned(report) - stats->sent);
    json_out_put_uint(json, "retried", stats->retried);
    json_out_object_end(json);
    json_out_key(json, "failures");
    json_out_object_begin(json);
    for (unsigned i = LOAD_ANSWERED + 1; i < LOAD_OUTCOMES; i++) {
        json_out_put_uint(json, load_outcome_name((enum load_outcome)i),
                          stats->ended[i]);
    }
    json_out_object_end(json);
}

static void
put_json_times(struct json_out *json, const char *key, struct load_times *times)
{
    json_out_key(json, key);
    json_out_object_begin(json);
    json_out_put_uint(json, "count", times->count);
    json_out_put_milli(json, "p50", load_times_at(times, 500));
    json_out_put_milli(json, "p90", load_times_at(times, 900));
    json_out_put_milli(json, "p99", load_times_at(times, 990));
    json_out_put_milli(json, "max", load_times_at(times, 1000));
    json_out_object_end(json);
}

/* Times: the mean of the requests that ended in that second. */
static void
put_json_seconds(struct json_out *json, const struct load_stats *stats)
{
    json_out_key(json, "per_second");
    json_out_array_begin(json);
    for (uint32_t i = 0; i < stats->seconds_count; i++) {
        const struct load_second *s = &stats->second[i];
        json_out_object_begin(json);
        json_out_put_uint(json, "answered", s->answered);
        json_out_put_uint(json, "failed", s->failed);
        json_out_put_uint(json, "retried", s->retried);
        json_out_put_uint(json, "prompt", s->prompt_tokens);
        json_out_put_uint(json, "cached", s->cached_tokens);
        json_out_put_milli(
            json, "ttft_ms",
            s->first_count != 0 ? s->first_us / s->first_count : 0);
        json_out_object_end(json);
    }
    json_out_array_end(json);
}

void
load_report_json(const struct load_report *report, struct buf *out)
{
    struct load_stats *stats = report->stats;
    struct json_out json;

    load_stats_sort(stats);
    json_out_init(&json, out);
    json_out_object_begin(&json);
    put_json_requests(report, &json);
    json_out_key(&json, "tokens");
    json_out_object_begin(&json);
    json_out_put_uint(&json, "prompt", stats->tokens.prompt_tokens);
    json_out_put_uint(&json, "cached", stats->tokens.cached_tokens);
    json_out_put_uint(&json, "completion", stats->tokens.completion_tokens);
    json_out_object_end(&json);
    json_out_put_milli(&json, "cached_ratio",
                       load_stats_cached_permille(stats));
    put_json_times(&json, "ttft_ms", &stats->first);
    put_json_times(&json, "whole_ms", &stats->whole);
    load_table_put(&json, "workers", &stats->workers);
    load_table_put(&json, "nodes", &stats->nodes);
    put_json_seconds(&json, stats);
    json_out_put_milli(&json, "seconds", report->elapsed_us / 1000);
    json_out_put_milli(&json, "requests_per_s", rate_milli(report));
    json_out_put_uint(&json, "seed", report->options->seed);
    json_out_object_end(&json);
    buf_add_text(out, "\n");
}

void
load_report_progress(const struct load_report *report, bool bar,
                     struct buf *out)
{
    const struct load_stats *stats = report->stats;
    uint64_t failed = load_stats_failed(stats);
    uint64_t answered = stats->ended[LOAD_ANSWERED];
    uint64_t all = planned(report);
    uint64_t over = answered + failed + report->not_sent;

    if (bar) {
        uint64_t full = over * BAR_CHARS / all;
        buf_add_text(out, "[");
        for (uint64_t i = 0; i < BAR_CHARS; i++) {
            buf_add_text(out, i < full ? "#" : ".");
        }
        buf_add_text(out, "] ");
    }
    buf_printf(out, "%3" PRIu64 " %%  ", over * 100 / all);
    put_count(out, answered);
    buf_add_text(out, " of ");
    put_count(out, all);
    buf_printf(out,
               " answered, %" PRIu64 " failed, %u %% cached, %" PRIu64 " s",
               failed, load_stats_cached_permille(stats) / 10,
               report->elapsed_us / 1000000);
}
