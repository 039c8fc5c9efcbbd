/*
 * Reads the lengths of a service's requests: a trace of kvasir replay, or a CDF
 * of total lengths,
 *
 *   [[tokens, share], ...]  or  {"cdf": [[tokens, share], ...], ...}
 *
 * both rising, the last share 1.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: PLAN_BUCKETS_MAX, those of
 * the mix. Errors: PLAN_READ_E_BAD and one line in fault; -ENOMEM.
 */
#ifndef CHAOS_PLAN_READ_H
#define CHAOS_PLAN_READ_H

#include <stddef.h>

#include "chaos/plan/plan_mix.h"
#include "index/base/slice.h"

enum {
    PLAN_READ_E_BAD = 16, /* fault says why */
};

/* Adds a point for each request, and says how many came a second, 0 when the
 * trace has no times. */
int plan_read_trace(struct slice bytes, struct plan_mix *mix, double *rate,
                    char *fault, size_t fault_size) MUST_CHECK;

/* Fills buckets, PLAN_BUCKETS_MAX of them, and cdf's pointer and count. */
int plan_read_cdf(struct slice bytes, struct plan_bucket *buckets,
                  struct plan_cdf *cdf, char *fault, size_t fault_size)
    MUST_CHECK;

#endif
