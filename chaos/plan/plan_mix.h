/*
 * How long the requests of a service are: the mix that a fleet is planned for.
 *
 * A mix is a list of points, each a length of prompt and output in tokens and
 * its share of all requests. A trace gives a point for each request. A CDF
 * knows only total lengths: it is spread evenly inside each of its buckets, and
 * the output's share of a total is normal, cut off at 2 and 95 % (arXiv
 * 2604.09613, appendix A). Both axes are cut into equal slices, so that what
 * comes of it is an expectation without the noise of a sample.
 *
 * Role: core. Owns: its points. Thread: one owner. Limits: PLAN_POINTS_MAX.
 * Errors: PLAN_MIX_E_FULL, -ENOMEM.
 */
#ifndef CHAOS_PLAN_MIX_H
#define CHAOS_PLAN_MIX_H

#include <stdint.h>

#include "index/base/check.h"
#include "index/base/rng.h"

#define PLAN_POINTS_MAX  (UINT32_C(1) << 22)
#define PLAN_BUCKETS_MAX 256U
#define PLAN_TOKENS_MAX  (UINT32_C(1) << 24) /* of one request */

enum {
    PLAN_MIX_E_FULL = 1, /* PLAN_POINTS_MAX: what came before is kept */
};

struct plan_point {
    uint32_t prompt; /* tokens, 1 or more */
    uint32_t output; /* tokens, 1 or more */
    double weight;   /* its share of all requests, once finished */
    double upto;     /* with all before it */
};

struct plan_mix {
    struct plan_point *points; /* once finished, by total length */
    uint32_t count;
    uint32_t size;
};

/* A bucket ends at `tokens`; `share` of all requests, 0..1, are no longer. */
struct plan_bucket {
    uint32_t tokens;
    double share;
};

/* Total lengths, and how they divide. */
struct plan_cdf {
    const struct plan_bucket *buckets; /* both rising; the last share is 1 */
    uint32_t count;
    double output_mean; /* of the output's share of a total */
    double output_deviation;
};

/* Some neighbours of a finished mix: the requests of one pool. */
struct plan_part {
    const struct plan_point *points;
    uint32_t count;
    double share; /* of all requests */
};

#define PLAN_SEEN_HOURS 168U
#define PLAN_NAME_MAX   64U /* of a model or a tenant, with its NUL */

/* What nodes told beside lengths. */
struct plan_seen {
    uint32_t nodes;      /* 0: it is not from nodes */
    uint32_t rows;       /* models and tenants, on each node */
    double mean_rate;    /* requests/s */
    double busiest_rate; /* of the busiest whole hour, or the mean */
    double cached;       /* share of prompts' tokens that were in caches */
    double span_s;       /* the time that counts speak of, as it fades */
    uint32_t longest;    /* request */
};

/* An empty mix. */
void plan_mix_init(struct plan_mix *mix);
/* Frees its points. */
void plan_mix_fini(struct plan_mix *mix);

/* weight: above 0, in any unit that all points share. 0, PLAN_MIX_E_FULL or
 * -ENOMEM. */
int plan_mix_add(struct plan_mix *mix, uint32_t prompt, uint32_t output,
                 double weight) MUST_CHECK;

/* Adds a whole CDF. The same errors. */
int plan_mix_add_cdf(struct plan_mix *mix, const struct plan_cdf *cdf)
    MUST_CHECK;

/* Sorts the points and makes their weights shares; there is at least one.
 * Nothing is added any more. */
void plan_mix_finish(struct plan_mix *mix);

/* The requests of more than `above` tokens in all and no more than `upto`. */
struct plan_part plan_mix_part(const struct plan_mix *mix, uint32_t above,
                               uint32_t upto);

/* The longest total. */
uint32_t plan_mix_longest(const struct plan_mix *mix);

/* The total that this share of a part's requests, 0..1, does not exceed. The
 * part is not empty. */
uint32_t plan_part_quantile(const struct plan_part *part, double share);

/* Draws a request of a part that is not empty. */
const struct plan_point *plan_part_draw(const struct plan_part *part,
                                        struct rng *rng);

/* Prompt and output together. */
static inline uint32_t
plan_point_total(const struct plan_point *point)
{
    return point->prompt + point->output;
}

#endif
