/*
 * A latency histogram with fixed bounds, one writer and any readers.
 *
 * Role: core. Owns: nothing, a plain value. Thread: histogram_add() by one
 * thread; reading by any. Limits: HISTOGRAM_BOUNDS buckets and one above.
 */
#ifndef NODE_HISTOGRAM_H
#define NODE_HISTOGRAM_H

#include <stdint.h>

#include "index/base/buf.h"
#include "index/base/counter.h"

#define HISTOGRAM_BOUNDS 22U

struct histogram {
    struct counter bucket[HISTOGRAM_BOUNDS + 1];
    struct counter sum_us;
};

/* 10 us to 100 s, in 1-2-5 steps. */
extern const uint64_t histogram_bound_us[HISTOGRAM_BOUNDS];

/* Counts one latency in microseconds. By one thread only. */
void histogram_add(struct histogram *h, uint64_t us);

/* Adds from, which another thread may be writing, to total, which only the
 * caller has. */
void histogram_merge(struct histogram *total, const struct histogram *from);

/* How many were counted. */
uint64_t histogram_count(const struct histogram *h);

/* Prometheus text, in seconds: NAME_bucket{le=""}, NAME_sum, NAME_count. */
void histogram_print(const struct histogram *h, const char *name,
                     const char *help, struct buf *out);

/* The same without comments, as one of several series: labels ("": none) is
 * what else stands between the braces, as `mode="x"`, escaped already. */
void histogram_print_series(const struct histogram *h, const char *name,
                            const char *labels, struct buf *out);

#endif
