/* Points of a mix: from where they come, in order, and parts of them. */
#include "chaos/plan/plan_mix.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define SIZE_MIN      1024U
#define LENGTH_SLICES 64U  /* of one bucket */
#define OUTPUT_SLICES 256U /* of the output's share */
#define OUTPUT_LEAST  0.02
#define OUTPUT_MOST   0.95

void
plan_mix_init(struct plan_mix *mix)
{
    *mix = (struct plan_mix){.points = NULL};
}

void
plan_mix_fini(struct plan_mix *mix)
{
    free(mix->points);
    *mix = (struct plan_mix){.points = NULL};
}

int
plan_mix_add(struct plan_mix *mix, uint32_t prompt, uint32_t output,
             double weight)
{
    CHECK(prompt > 0 && output > 0 && weight > 0);
    CHECK(prompt <= PLAN_TOKENS_MAX && output <= PLAN_TOKENS_MAX);
    if (mix->count == PLAN_POINTS_MAX) {
        return PLAN_MIX_E_FULL;
    }
    if (mix->count == mix->size) {
        uint32_t size = mix->size == 0 ? SIZE_MIN : mix->size * 2;
        void *points = realloc(mix->points, size * sizeof(*mix->points));
        if (points == NULL) {
            return -ENOMEM;
        }
        mix->points = points;
        mix->size = size;
    }
    mix->points[mix->count++] = (struct plan_point){
        .prompt = prompt, .output = output, .weight = weight};
    return 0;
}

/* Where this share of a standard normal lies below: bisection of erfc(). */
static double
normal_quantile(double share)
{
    double low = -9;
    double high = 9;

    CHECK(share > 0 && share < 1);
    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        if (0.5 * erfc(-middle / sqrt(2)) < share) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return (low + high) / 2;
}

/* Requests of one total length; a part of a token takes a step of its own, so
 * outputs are rounded up. */
static int
add_total(struct plan_mix *mix, double total, const double *outputs,
          double weight)
{
    for (uint32_t i = 0; i < OUTPUT_SLICES; i++) {
        uint32_t tokens = (uint32_t)fmax(2, round(total));
        uint32_t output = (uint32_t)fmax(1, ceil(total * outputs[i]));
        output = output < tokens ? output : tokens - 1;
        int outcome = plan_mix_add(mix, tokens - output, output, weight);
        if (outcome != 0) {
            return outcome;
        }
    }
    return 0;
}

int
plan_mix_add_cdf(struct plan_mix *mix, const struct plan_cdf *cdf)
{
    double outputs[OUTPUT_SLICES];
    double below = 0;
    uint32_t from = 0;

    for (uint32_t i = 0; i < OUTPUT_SLICES; i++) {
        double share =
            cdf->output_mean +
            cdf->output_deviation * normal_quantile((i + 0.5) / OUTPUT_SLICES);
        outputs[i] = fmin(fmax(share, OUTPUT_LEAST), OUTPUT_MOST);
    }
    for (uint32_t b = 0; b < cdf->count; b++) {
        const struct plan_bucket *bucket = &cdf->buckets[b];
        double weight =
            (bucket->share - below) / (LENGTH_SLICES * OUTPUT_SLICES);
        CHECK(bucket->tokens > from && bucket->share >= below);
        for (uint32_t i = 0; weight > 0 && i < LENGTH_SLICES; i++) {
            double total =
                from + (bucket->tokens - from) * (i + 0.5) / LENGTH_SLICES;
            int outcome = add_total(mix, total, outputs, weight);
            if (outcome != 0) {
                return outcome;
            }
        }
        below = bucket->share;
        from = bucket->tokens;
    }
    return 0;
}

static int
by_total(const void *a, const void *b)
{
    const struct plan_point *left = a;
    const struct plan_point *right = b;
    uint32_t l = plan_point_total(left);
    uint32_t r = plan_point_total(right);

    if (l != r) {
        return l < r ? -1 : 1;
    }
    return left->output < right->output ? -1 : left->output > right->output;
}

void
plan_mix_finish(struct plan_mix *mix)
{
    double sum = 0;
    double upto = 0;

    CHECK(mix->count > 0);
    qsort(mix->points, mix->count, sizeof(*mix->points), by_total);
    for (uint32_t i = 0; i < mix->count; i++) {
        sum += mix->points[i].weight;
    }
    for (uint32_t i = 0; i < mix->count; i++) {
        mix->points[i].weight /= sum;
        upto += mix->points[i].weight;
        mix->points[i].upto = upto;
    }
}

/* The first point of more than this total. */
static uint32_t
find_above(const struct plan_mix *mix, uint32_t tokens)
{
    uint32_t low = 0;
    uint32_t high = mix->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (plan_point_total(&mix->points[middle]) <= tokens) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

struct plan_part
plan_mix_part(const struct plan_mix *mix, uint32_t above, uint32_t upto)
{
    uint32_t from = find_above(mix, above);
    uint32_t to = find_above(mix, upto);
    struct plan_part part = {.points = mix->points + from};

    CHECK(above <= upto && from <= to);
    part.count = to - from;
    for (uint32_t i = 0; i < part.count; i++) {
        part.share += part.points[i].weight;
    }
    return part;
}

uint32_t
plan_mix_longest(const struct plan_mix *mix)
{
    CHECK(mix->count > 0);
    return plan_point_total(&mix->points[mix->count - 1]);
}

/* The point in which this share of the part's requests ends. */
static const struct plan_point *
point_at(const struct plan_part *part, double share)
{
    double before = part->points[0].upto - part->points[0].weight;
    double wanted = before + share * part->share;
    uint32_t low = 0;
    uint32_t high = part->count - 1;

    CHECK(part->count > 0);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (part->points[middle].upto < wanted) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return &part->points[low];
}

uint32_t
plan_part_quantile(const struct plan_part *part, double share)
{
    return plan_point_total(point_at(part, share));
}

const struct plan_point *
plan_part_draw(const struct plan_part *part, struct rng *rng)
{
    return point_at(part, rng_unit(rng));
}
