/* Outcomes and times of requests, counted and sorted. */
#include "chaos/load/load_stats.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *
load_outcome_name(enum load_outcome outcome)
{
    static const char *const names[LOAD_OUTCOMES] = {
        [LOAD_ANSWERED] = "answered", [LOAD_CONNECT] = "connect",
        [LOAD_TIMEOUT] = "timeout",   [LOAD_STATUS] = "status",
        [LOAD_SEVERED] = "severed",   [LOAD_NO_DONE] = "no_done",
        [LOAD_BAD] = "bad",           [LOAD_STOPPED] = "stopped",
    };

    CHECK(outcome < LOAD_OUTCOMES);
    return names[outcome];
}

enum load_outcome
load_outcome_of(const struct httpc_answer *answer, bool done)
{
    switch (answer->outcome) {
    case HTTPC_OK:
        CHECK(answer->head != NULL);
        if (answer->head->status / 100 != 2) {
            return LOAD_STATUS;
        }
        return done ? LOAD_ANSWERED : LOAD_NO_DONE;
    case HTTPC_RESOLVE:
    case HTTPC_CONNECT:
    case HTTPC_TLS:
        return LOAD_CONNECT;
    case HTTPC_TIMEOUT:
        return LOAD_TIMEOUT;
    case HTTPC_CLOSED:
        return LOAD_SEVERED;
    case HTTPC_BAD:
    case HTTPC_TOO_LARGE:
        return LOAD_BAD;
    }
    return LOAD_BAD;
}

struct slice
load_header_of(const struct http_head *head, struct slice name)
{
    const struct http_header *header =
        head == NULL ? NULL : http_head_find_name(head, name);

    return header == NULL ? (struct slice){.ptr = NULL} : header->value;
}

int
load_stats_init(struct load_stats *stats, size_t requests_max)
{
    CHECK(requests_max > 0);
    *stats = (struct load_stats){.requests_max = requests_max};
    stats->first.us = calloc(requests_max, sizeof(*stats->first.us));
    stats->whole.us = calloc(requests_max, sizeof(*stats->whole.us));
    if (stats->first.us == NULL || stats->whole.us == NULL) {
        load_stats_fini(stats);
        return -ENOMEM;
    }
    return 0;
}

void
load_stats_fini(struct load_stats *stats)
{
    free(stats->first.us);
    free(stats->whole.us);
    *stats = (struct load_stats){.sent = 0};
}

void
load_stats_send(struct load_stats *stats)
{
    CHECK(stats->sent < stats->requests_max);
    stats->sent++;
}

static uint64_t
ended(const struct load_stats *stats)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < LOAD_OUTCOMES; i++) {
        sum += stats->ended[i];
    }
    return sum;
}

uint32_t
load_table_row(struct load_table *table, struct slice name)
{
    if (name.len > LOAD_WORKER_BYTES_MAX) {
        name.len = LOAD_WORKER_BYTES_MAX;
    }
    for (uint32_t i = 0; i < table->count; i++) {
        if (slice_equal(slice_of(table->row[i].name), name)) {
            return i;
        }
    }
    if (table->count == LOAD_WORKERS_MAX) {
        return LOAD_WORKERS_MAX - 1;
    }
    struct load_worker *row = &table->row[table->count];
    memcpy(row->name, name.ptr, name.len);
    row->name[name.len] = '\0';
    return table->count++;
}

void
load_table_put(struct json_out *json, const char *key,
               const struct load_table *table)
{
    json_out_key(json, key);
    json_out_array_begin(json);
    for (uint32_t i = 0; i < table->count; i++) {
        json_out_object_begin(json);
        json_out_put_text(json, "id", table->row[i].name);
        json_out_put_uint(json, "requests", table->row[i].requests);
        json_out_put_uint(json, "failed", table->row[i].failed);
        json_out_object_end(json);
    }
    json_out_array_end(json);
}

static void
charge(struct load_table *table, struct slice name, enum load_outcome outcome)
{
    if (name.len != 0) {
        struct load_worker *row = &table->row[load_table_row(table, name)];
        row->requests++;
        row->failed += outcome != LOAD_ANSWERED;
    }
}

static struct load_second *
second_at(struct load_stats *stats, uint64_t at_us)
{
    uint64_t at = at_us / 1000000;

    at = at < LOAD_SECONDS_MAX ? at : LOAD_SECONDS_MAX - 1;
    if (stats->seconds_count <= at) {
        stats->seconds_count = (uint32_t)at + 1;
    }
    return &stats->second[at];
}

static void
add_to_second(struct load_stats *stats, const struct load_end *end)
{
    struct load_second *second = second_at(stats, end->at_us);

    if (end->outcome == LOAD_ANSWERED) {
        second->answered++;
        second->prompt_tokens += end->usage.prompt_tokens;
        second->cached_tokens += end->usage.cached_tokens;
    } else {
        second->failed++;
    }
    if (end->has_first) {
        second->first_us += end->first_us;
        second->first_count++;
    }
}

static void
add_time(struct load_times *times, uint64_t us)
{
    times->us[times->count++] = us;
    times->sorted = false;
}

void
load_stats_retry(struct load_stats *stats, uint64_t at_us)
{
    stats->retried++;
    second_at(stats, at_us)->retried++;
}

void
load_stats_end(struct load_stats *stats, const struct load_end *end)
{
    CHECK(ended(stats) < stats->sent && end->outcome < LOAD_OUTCOMES);
    stats->ended[end->outcome]++;
    charge(&stats->workers, end->worker, end->outcome);
    charge(&stats->nodes, end->node, end->outcome);
    add_to_second(stats, end);
    if (end->has_first) {
        add_time(&stats->first, end->first_us);
    }
    if (end->outcome == LOAD_ANSWERED) {
        add_time(&stats->whole, end->whole_us);
        stats->tokens.prompt_tokens += end->usage.prompt_tokens;
        stats->tokens.cached_tokens += end->usage.cached_tokens;
        stats->tokens.completion_tokens += end->usage.completion_tokens;
    }
    CHECK(stats->first.count <= stats->sent);
    CHECK(stats->whole.count == stats->ended[LOAD_ANSWERED]);
}

uint64_t
load_stats_failed(const struct load_stats *stats)
{
    return ended(stats) - stats->ended[LOAD_ANSWERED];
}

uint32_t
load_stats_cached_permille(const struct load_stats *stats)
{
    uint64_t all = stats->tokens.prompt_tokens;

    return all == 0 ? 0 : (uint32_t)(stats->tokens.cached_tokens * 1000 / all);
}

static int
compare_times(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;

    return (*x > *y) - (*x < *y);
}

uint64_t
load_times_at(struct load_times *times, uint32_t permille)
{
    CHECK(permille <= 1000);
    if (times->count == 0) {
        return 0;
    }
    if (!times->sorted) {
        qsort(times->us, times->count, sizeof(*times->us), compare_times);
        times->sorted = true;
    }
    size_t rank = (times->count * permille + 999) / 1000;
    return times->us[rank > 0 ? rank - 1 : 0];
}

static int
compare_workers(const void *a, const void *b)
{
    const struct load_worker *x = a;
    const struct load_worker *y = b;

    return strcmp(x->name, y->name);
}

void
load_stats_sort(struct load_stats *stats)
{
    qsort(stats->workers.row, stats->workers.count,
          sizeof(stats->workers.row[0]), compare_workers);
    qsort(stats->nodes.row, stats->nodes.count, sizeof(stats->nodes.row[0]),
          compare_workers);
}
