/*
 * Sets of workers by load or cost, 64 workers at a time.
 */
#include "node/elect/elect_sets_internal.h"

#include <stddef.h>

#include "index/base/check.h"

/* Of 64 neighbours, where low and high are their bits. */
static inline uint32_t
word_least(const uint32_t *values, uint32_t low, uint32_t high)
{
    uint32_t least = UINT32_MAX;

    for (uint32_t i = 0; i < 32; i++) {
        uint32_t a = values[i] | ~elect_mask(low, i);
        uint32_t b = values[i + 32] | ~elect_mask(high, i);
        uint32_t less = a < b ? a : b;
        least = less < least ? less : least;
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
        uint32_t here = UINT32_MAX;
        if (bits == UINT64_MAX) {
            here = word_least(some, UINT32_MAX, UINT32_MAX);
        } else if (bits != 0) {
            here = word_least(some, (uint32_t)bits, (uint32_t)(bits >> 32));
        }
        least = here < least ? here : least;
    }
    return least;
}

static inline uint32_t
word_most(const uint32_t *values, uint32_t low, uint32_t high)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < 32; i++) {
        uint32_t a = values[i] & elect_mask(low, i);
        uint32_t b = values[i + 32] & elect_mask(high, i);
        uint32_t more = a > b ? a : b;
        most = more > most ? more : most;
    }
    return most;
}

ELECT_WIDE uint32_t
elect_most_of(const uint32_t *values, const struct worker_set *set)
{
    uint32_t most = 0;

    for (unsigned i = 0; i < WORKER_WORDS; i++) {
        const uint32_t *some = &values[(size_t)i * 64];
        uint64_t bits = set->word[i];
        uint32_t here = 0;
        if (bits == UINT64_MAX) {
            here = word_most(some, UINT32_MAX, UINT32_MAX);
        } else if (bits != 0) {
            here = word_most(some, (uint32_t)bits, (uint32_t)(bits >> 32));
        }
        most = here > most ? here : most;
    }
    return most;
}

struct elect_span
elect_span_of(const uint32_t *values, const struct worker_set *set)
{
    return (struct elect_span){.min = elect_least_of(values, set),
                               .max = elect_most_of(values, set)};
}

#define SUMMAND_MAX (UINT32_C(1) << 24) /* 64 of them are less than 2^32 */

static inline uint32_t
summand(uint32_t value, uint32_t mask)
{
    return (value < SUMMAND_MAX ? value : SUMMAND_MAX) & mask;
}

static inline uint32_t
word_sum(const uint32_t *values, uint32_t low, uint32_t high)
{
    uint32_t sum = 0;

    for (uint32_t i = 0; i < 32; i++) {
        sum += summand(values[i], elect_mask(low, i)) +
               summand(values[i + 32], elect_mask(high, i));
    }
    return sum;
}

ELECT_WIDE uint64_t
elect_sum_of(const uint32_t *values, const struct worker_set *set)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < WORKER_WORDS; i++) {
        uint64_t bits = set->word[i];
        if (bits != 0) {
            sum += word_sum(&values[(size_t)i * 64], (uint32_t)bits,
                            (uint32_t)(bits >> 32));
        }
    }
    return sum;
}

/* A bit for each of 32 that is at most `most`. */
static inline uint32_t
half_up_to(const uint32_t *values, uint32_t most)
{
    uint32_t out = 0;

    for (uint32_t i = 0; i < 32; i++) {
        out |= -(uint32_t)(values[i] <= most) & UINT32_C(1) << i;
    }
    return out;
}

ELECT_WIDE void
elect_up_to(const uint32_t *values, const struct worker_set *set, uint32_t most,
            struct worker_set *out)
{
    for (unsigned i = 0; i < WORKER_WORDS; i++) {
        const uint32_t *some = &values[(size_t)i * 64];
        uint64_t bits = set->word[i];
        if (bits != 0) {
            bits &= (uint64_t)half_up_to(some + 32, most) << 32 |
                    half_up_to(some, most);
        }
        out->word[i] = bits;
    }
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
