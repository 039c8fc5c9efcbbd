/*
 * Sets of workers chosen by a number that each worker has, such as its load or
 * its cost. Private to elect*.c.
 *
 * Numbers are arrays of WORKERS_MAX by slot. 32 neighbours of which one is in
 * the set are processed at once, in loops without branches, which compilers
 * vectorise: whoever is not in the set is masked. gcc unrolls loops of sixteen
 * before it looks at them, and does not vectorise masks then.
 *
 * Role: core. Owns: nothing. Thread: any.
 */
#ifndef NODE_ELECT_SETS_INTERNAL_H
#define NODE_ELECT_SETS_INTERNAL_H

#include <stdint.h>

#include "index/base/worker_set.h"

/* Compiled for vectors of 128, 256 and, where gcc knows the level, 512 bits;
 * which of them runs is chosen as the program starts, before the thread sanitizer
 * does. Clang 14 gives such functions a name that no other file finds. */
#if !defined(__x86_64__) || !defined(__gnu_linux__) || defined(__clang__) || \
    defined(__SANITIZE_THREAD__)
#define ELECT_WIDE
#elif __GNUC__ < 12
#define ELECT_WIDE __attribute__((target_clones("avx2", "default")))
#else
#define ELECT_WIDE \
    __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#endif

#define ELECT_SOME 32 /* neighbours, of one word */

/* Which of some neighbours from `at`, a multiple of ELECT_SOME, are in the set:
 * the first is the lowest bit. */
static inline uint32_t
elect_some_of(const struct worker_set *set, uint32_t at)
{
    return (uint32_t)(set->word[at / 64] >> at % 64);
}

/* All ones for a member, whose bit is the i-th, else zero. */
static inline uint32_t
elect_mask(uint32_t bits, uint32_t i)
{
    return -(bits >> i & 1);
}

/* ELECT_SOME_EACH(at, &set) { ... } visits them in rising order, with those of
 * them that are not in the set. */
#define ELECT_SOME_EACH(at, set)                                  \
    for (uint32_t at = 0; (at) < WORKERS_MAX; (at) += ELECT_SOME) \
        if (elect_some_of((set), (at)) != 0)

struct elect_span {
    uint32_t min; /* UINT32_MAX of an empty set */
    uint32_t max;
};

/* The least and the greatest number in a set. */
struct elect_span elect_span_of(const uint32_t *values,
                                const struct worker_set *set);

/* The least number in a set; UINT32_MAX of an empty one. */
uint32_t elect_least_of(const uint32_t *values, const struct worker_set *set);

/* The greatest number in a set; 0 of an empty one. */
uint32_t elect_most_of(const uint32_t *values, const struct worker_set *set);

/* The sum of the numbers in a set, each of which counts as at most 2^24. */
uint64_t elect_sum_of(const uint32_t *values, const struct worker_set *set);

/* The members of the set whose number is at most `most`. Not returned, for it
 * is copied then; *out may be the set. */
void elect_up_to(const uint32_t *values, const struct worker_set *set,
                 uint32_t most, struct worker_set *out);

/* The level that `count` things of size `each` (1 or more) reach if each goes
 * to the member with the least number: the set's least plus a multiple of each,
 * at most count times. */
uint32_t elect_level(const uint32_t *values, const struct worker_set *set,
                     uint32_t least, uint32_t count, uint32_t each);

/* The sum, or UINT32_MAX where it does not fit. */
static inline uint32_t
elect_add(uint32_t a, uint32_t b)
{
    return a > UINT32_MAX - b ? UINT32_MAX : a + b;
}

#endif
