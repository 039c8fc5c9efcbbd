/*
 * Reads the lengths of a service's requests: a trace of kvasir replay, a CDF of
 * total lengths,
 *
 *   [[tokens, share], ...]  or  {"cdf": [[tokens, share], ...], ...}
 *
 * both rising, the last share 1; or what nodes have seen in the last days, as
 * they answer GET /admin/mix, one answer after another.
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

/* Of which requests. */
struct plan_wanted {
    const char *model; /* NULL: of all */
    const char *tenant;
};

/*
 * Adds a point for each class of length of each row that is wanted. Requests
 * whose length no engine told are taken to be as long as the others of their
 * row. Classes of several nodes stand beside each other, by their rates.
 */
int plan_read_mix(struct slice bytes, const struct plan_wanted *wanted,
                  struct plan_mix *mix, struct plan_seen *seen, char *fault,
                  size_t fault_size) MUST_CHECK;

#endif
