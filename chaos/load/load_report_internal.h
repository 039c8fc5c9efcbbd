/*
 * What the load client prints: the result as a small table or as JSON, and one
 * line of progress.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: the caller's buffers.
 */
#ifndef CHAOS_LOAD_REPORT_INTERNAL_H
#define CHAOS_LOAD_REPORT_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "chaos/load/load_options_internal.h"
#include "chaos/load/load_stats.h"
#include "index/base/buf.h"

struct load_report {
    const struct load_options *options;
    struct load_stats *stats; /* gets sorted */
    uint64_t elapsed_us;
    uint64_t not_sent; /* turns left out so far */
};

/* Lines for people. */
void load_report_table(const struct load_report *report, struct buf *out);

/* One JSON object and a newline. Times are in milliseconds. */
void load_report_json(const struct load_report *report, struct buf *out);

/* One line without newline: how far it is; with a bar, or plain. */
void load_report_progress(const struct load_report *report, bool bar,
                          struct buf *out);

#endif
