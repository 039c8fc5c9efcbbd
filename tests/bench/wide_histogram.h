/*
 * A histogram of 64-bit values in fixed memory: exact below 64, within 1/32
 * above (log-linear, 32 steps to each power of two).
 *
 * Role: core. Owns: nothing. Thread: one owner.
 */
#ifndef TESTS_BENCH_WIDE_HISTOGRAM_H
#define TESTS_BENCH_WIDE_HISTOGRAM_H

#include <stdint.h>

#define WIDE_HISTOGRAM_BUCKETS (60 * 32)

struct wide_histogram {
    uint64_t count;
    uint64_t max;
    uint64_t buckets[WIDE_HISTOGRAM_BUCKETS];
};

/* The bucket of a value, and the least value of a bucket. */
static inline unsigned
wide_histogram_bucket(uint64_t value)
{
    unsigned shift;

    if (value < 64) {
        return (unsigned)value;
    }
    shift = 58U - (unsigned)__builtin_clzll(value);
    return shift * 32 + (unsigned)(value >> shift);
}

static inline uint64_t
wide_histogram_floor(unsigned bucket)
{
    unsigned shift = bucket < 64 ? 0 : bucket / 32 - 1;

    return bucket < 64 ? bucket : (uint64_t)(bucket - shift * 32) << shift;
}

static inline void
wide_histogram_add(struct wide_histogram *h, uint64_t value)
{
    h->count++;
    h->max = value > h->max ? value : h->max;
    h->buckets[wide_histogram_bucket(value)]++;
}

/* The least value that at least `share` (0..1) of all values do not exceed,
 * rounded down to its bucket; 0 when nothing was added. */
static inline uint64_t
wide_histogram_quantile(const struct wide_histogram *h, double share)
{
    uint64_t wanted = (uint64_t)(share * (double)h->count);
    uint64_t seen = 0;

    for (unsigned i = 0; i < WIDE_HISTOGRAM_BUCKETS; i++) {
        seen += h->buckets[i];
        if (seen > wanted) {
            return wide_histogram_floor(i);
        }
    }
    return h->max;
}

#endif
