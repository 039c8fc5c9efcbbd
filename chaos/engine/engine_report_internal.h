/*
 * The engine's Prometheus page, under the names of its make.
 *
 * Role: core. Owns: nothing. Thread: one owner. Limits: fixed buckets.
 * Source: the metric names of vLLM 0.31, SGLang 0.5.23, TensorRT-LLM 1.3 and TGI
 * 3.3, and vLLM's buckets.
 */
#ifndef CHAOS_ENGINE_REPORT_INTERNAL_H
#define CHAOS_ENGINE_REPORT_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "chaos/engine/engine_make_internal.h"
#include "chaos/engine/engine_model.h"
#include "index/base/buf.h"

#define ENGINE_BUCKETS_MAX 24

struct engine_histogram {
    uint64_t counts[ENGINE_BUCKETS_MAX + 1]; /* the last: above all bounds */
    uint64_t count;
    double sum_s;
};

struct engine_report {
    struct engine_histogram first_token; /* from arrival */
    struct engine_histogram inter_token;
    struct engine_histogram queue; /* from arrival to admission */
    struct engine_histogram whole; /* from arrival to the end */
    uint64_t cached_tokens;        /* prompt tokens not computed again */
    uint64_t finished;
    uint64_t aborted; /* the client went away, or was left */
};

/* One observation each, in seconds: until the first token, between two tokens,
 * in the queue, of a whole request. */
void engine_report_first_token(struct engine_report *report, double s);
void engine_report_inter_token(struct engine_report *report, double s);
void engine_report_queue(struct engine_report *report, double s);
void engine_report_whole(struct engine_report *report, double s);

/* One rank's part of the page. */
struct engine_report_source {
    const struct engine_report *report;
    const struct engine *engine;
};

/* Appends the page of `count` ranks, which a label tells apart. */
void engine_report_write(const struct engine_report_source *sources,
                         uint32_t count, enum engine_make make,
                         const char *model, struct buf *out);

#endif
