/*
 * Sets of workers by load or cost, 64 workers at a time.
 */
#include "node/elect/elect_sets_internal.h"

#include <string.h>

#include "index/base/check.h"

static void
widen_full(struct elect_span *span, const uint32_t values[64])
{
    uint32_t min = UINT32_MAX;
    uint32_t max = 0;

    for (unsigned i = 0; i < 64; i++) {
        min = values[i] < min ? values[i] : min;
        max = values[i] > max ? values[i] : max;
    }
    span->min = min < span->min ? min : span->min;
    span->max = max > span->max ? max : span->max;
}

ELECT_WIDE struct elect_span
elect_span_of(const uint32_t *values, const struct worker_set *set)
{
    struct elect_span span = {.min = UINT32_MAX, .max = 0};

    for (unsigned i = 0; i < WORKER_WORDS; i++) {
        const uint32_t *some = &values[(size_t)i * 64];
        if (set->word[i] == UINT64_MAX) {
            widen_full(&span, some);
            continue;
        }
        for (uint64_t bits = set->word[i]; bits != 0; bits &= bits - 1) {
            uint32_t value = some[__builtin_ctzll(bits)];
            span.min = value < span.min ? value : span.min;
            span.max = value > span.max ? value : span.max;
        }
    }
    return span;
}

static uint32_t
least_full(const uint32_t values[64])
{
    uint32_t least = UINT32_MAX;

    for (unsigned i = 0; i < 64; i++) {
        least = values[i] < least ? values[i] : least;
    }
    return least;
}

ELECT_WIDE uint32_t
elect_least_of(const uint32_t *values, const struct worker_set *set)
{
    uint32_t least = UINT32_MAX;

    for (unsigned i = 0; i < WORKER_WORDS; i++) {
        const uint32_t *some = &values[(size_t)i * 64];
        uint64_t bits = set->word[i];
        if (bits == UINT64_MAX) {
            uint32_t full = least_full(some);
            least = full < least ? full : least;
            continue;
        }
        for (; bits != 0; bits &= bits - 1) {
            uint32_t value = some[__builtin_ctzll(bits)];
            least = value < least ? value : least;
        }
    }
    return least;
}

#define SUMMAND_MAX (UINT32_C(1) << 24)

ELECT_WIDE uint64_t
elect_sum_of(const uint32_t *values, const struct worker_set *set)
{
    uint64_t total = 0;

    for (unsigned i = 0; i < WORKER_WORDS; i++) {
        const uint32_t *some = &values[(size_t)i * 64];
        uint64_t bits = set->word[i];
        uint32_t sum = 0; /* 64 x 2^24 are less than 2^32 */
        if (bits == UINT64_MAX) {
            for (unsigned k = 0; k < 64; k++) {
                sum += some[k] < SUMMAND_MAX ? some[k] : SUMMAND_MAX;
            }
        }
        for (; bits != UINT64_MAX && bits != 0; bits &= bits - 1) {
            uint32_t value = some[__builtin_ctzll(bits)];
            sum += value < SUMMAND_MAX ? value : SUMMAND_MAX;
        }
        total += sum;
    }
    return total;
}

/* A bit for each of 64 numbers that is at most `most`. */
static uint64_t
full_up_to(const uint32_t values[64], uint32_t most)
{
    uint8_t keep[64];
    uint64_t out = 0;

    for (unsigned i = 0; i < 64; i++) {
        keep[i] = values[i] <= most;
    }
    for (unsigned i = 0; i < 8; i++) {
        uint64_t eight;
        memcpy(&eight, keep + (size_t)i * 8, sizeof eight);
        /* Gathers the low bits of the eight bytes in the top byte. */
        out |= (eight * UINT64_C(0x0102040810204080) >> 56) << (i * 8);
    }
    return out;
}

#define DENSE 16 /* members from which on looking at 64 costs less */

ELECT_WIDE struct worker_set
elect_up_to(const uint32_t *values, const struct worker_set *set, uint32_t most)
{
    struct worker_set out;

    for (unsigned i = 0; i < WORKER_WORDS; i++) {
        const uint32_t *some = &values[(size_t)i * 64];
        if (__builtin_popcountll(set->word[i]) >= DENSE) {
            out.word[i] = full_up_to(some, most) & set->word[i];
            continue;
        }
        out.word[i] = 0;
        for (uint64_t bits = set->word[i]; bits != 0; bits &= bits - 1) {
            unsigned bit = (unsigned)__builtin_ctzll(bits);
            uint64_t keep = some[bit] <= most;
            out.word[i] |= keep << bit;
        }
    }
    return out;
}

/* How much it takes to fill all of the set up to a level. */
static uint64_t
room_below(const uint32_t *values, const struct worker_set *set, uint32_t level)
{
    uint64_t room = 0;

    WORKER_SET_EACH (slot, set) {
        room += values[slot] < level ? level - values[slot] : 0;
    }
    return room;
}

static uint32_t
level_at(uint32_t least, uint32_t steps, uint32_t each)
{
    uint64_t level = least + (uint64_t)steps * each;

    return level < UINT32_MAX ? (uint32_t)level : UINT32_MAX;
}

uint32_t
elect_level(const uint32_t *values, const struct worker_set *set,
            uint32_t least, uint32_t count, uint32_t each)
{
    uint64_t amount = (uint64_t)count * each;
    uint32_t low = 0; /* has no more room than amount */
    uint32_t high = count;

    CHECK(each > 0);
    CHECK_SLOW(!worker_set_empty(set));
    while (low < high) {
        uint32_t middle = high - (high - low) / 2; /* above low */
        uint32_t level = level_at(least, middle, each);
        if (room_below(values, set, level) <= amount) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return level_at(least, low, each);
}
