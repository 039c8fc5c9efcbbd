/*
 * What a replay prints: a table, JSON, or a plot of the ladder as SVG.
 *
 * Role: core. Owns: nothing. Thread: any. Errors: none; a buffer that is full
 * says so itself.
 */
#ifndef CHAOS_REPLAY_REPORT_H
#define CHAOS_REPLAY_REPORT_H

#include <stdint.h>

#include "chaos/replay/replay_count.h"
#include "chaos/replay/replay_world.h"
#include "index/base/buf.h"

/* One policy at one load. */
struct replay_row {
    enum replay_policy policy;
    uint32_t load_permille;
    struct replay_result result;
    const struct replay_count *real; /* NULL: simulated, by the policy */
};

struct replay_report {
    const char *load; /* name of the trace or workload */
    const char *timing;
    uint32_t nodes;
    uint32_t engines;
    uint32_t kv_tokens; /* of one engine */
    uint64_t seed;
    uint64_t requests;
    uint32_t sharing_permille; /* what one cache without end would find */
    uint32_t bound_share; /* of prompt tokens, in tenths of a permille: what
                             clairvoyant eviction over pooled memory finds */
    const struct replay_row *rows; /* by load, then policy */
    uint32_t rows_count;
    const char
        *scaler; /* NULL: engines are fixed, and nothing is said of them */
    const char *nodes_at; /* of the real row, HOST:PORT,...; NULL: none */
    const char *model;    /* that these were asked for */
};

/* A table for people, one line per policy. */
void replay_report_table(const struct replay_report *report, struct buf *out);
/* One object, with everything of each row. */
void replay_report_json(const struct replay_report *report, struct buf *out);

/* Three panels over the load: cached share, TTFT p99, output tokens/s. */
void replay_report_svg(const struct replay_report *report, struct buf *out);

/* Output tokens per second. */
uint64_t replay_output_rate(const struct replay_result *result);

/* Of the tokens of prompts, in tenths of a permille. */
uint32_t replay_cached_share(const struct replay_result *result);

#endif
