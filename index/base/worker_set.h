/*
 * A fixed set of worker slots as a bitmap: 256 bits by default.
 *
 * Role: core. Owns: nothing, a plain value. Thread: as the memory it is in.
 * Limits: WORKERS_MAX slots, a build-time constant (64, 256 or 1024); every
 * slot is below it. Errors: none.
 */
#ifndef INDEX_BASE_WORKER_SET_H
#define INDEX_BASE_WORKER_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/check.h"

#ifndef WORKERS_MAX
#define WORKERS_MAX 256
#endif
_Static_assert(WORKERS_MAX % 64 == 0, "whole 64-bit words");

#define WORKER_WORDS (WORKERS_MAX / 64)
#define WORKER_NONE  UINT32_MAX /* not a slot */

struct worker_set {
    uint64_t word[WORKER_WORDS];
};

/* Empties the set, which need not be initialised. */
static inline void
worker_set_clear(struct worker_set *set)
{
    for (unsigned i = 0; i < WORKER_WORDS; i++) {
        set->word[i] = 0;
    }
}

/* Adds a slot, in the set already or not. */
static inline void
worker_set_add(struct worker_set *set, uint32_t slot)
{
    CHECK_SLOW(slot < WORKERS_MAX);
    set->word[slot / 64] |= UINT64_C(1) << (slot % 64);
}

/* Removes a slot, in the set or not. */
static inline void
worker_set_remove(struct worker_set *set, uint32_t slot)
{
    CHECK_SLOW(slot < WORKERS_MAX);
    set->word[slot / 64] &= ~(UINT64_C(1) << (slot % 64));
}

/* True when the slot is in the set. */
static inline bool
worker_set_has(const struct worker_set *set, uint32_t slot)
{
    CHECK_SLOW(slot < WORKERS_MAX);
    return (set->word[slot / 64] >> (slot % 64) & 1) != 0;
}

/* True when no slot is in the set. */
static inline bool
worker_set_empty(const struct worker_set *set)
{
    uint64_t any = 0;
    for (unsigned i = 0; i < WORKER_WORDS; i++) {
        any |= set->word[i];
    }
    return any == 0;
}

/* How many slots are in the set. */
static inline uint32_t
worker_set_count(const struct worker_set *set)
{
    uint32_t count = 0;
    for (unsigned i = 0; i < WORKER_WORDS; i++) {
        if (set->word[i] != 0) { /* some builds call a function to count */
            count += (uint32_t)__builtin_popcountll(set->word[i]);
        }
    }
    return count;
}

/* The slots that are in both. */
static inline struct worker_set
worker_set_and(const struct worker_set *a, const struct worker_set *b)
{
    struct worker_set out;
    for (unsigned i = 0; i < WORKER_WORDS; i++) {
        out.word[i] = a->word[i] & b->word[i];
    }
    return out;
}

/* The slots of either. */
static inline struct worker_set
worker_set_or(const struct worker_set *a, const struct worker_set *b)
{
    struct worker_set out;
    for (unsigned i = 0; i < WORKER_WORDS; i++) {
        out.word[i] = a->word[i] | b->word[i];
    }
    return out;
}

/* The slots of a that are not in b. */
static inline struct worker_set
worker_set_minus(const struct worker_set *a, const struct worker_set *b)
{
    struct worker_set out;
    for (unsigned i = 0; i < WORKER_WORDS; i++) {
        out.word[i] = a->word[i] & ~b->word[i];
    }
    return out;
}

/*
 * The first slot of the set at or after `from`, or WORKER_NONE.
 *   for (s = worker_set_next(&w, 0); s != WORKER_NONE;
 *        s = worker_set_next(&w, s + 1))
 */
static inline uint32_t
worker_set_next(const struct worker_set *set, uint32_t from)
{
    if (from >= WORKERS_MAX) {
        return WORKER_NONE;
    }
    uint32_t i = from / 64;
    uint64_t bits = set->word[i] >> (from % 64) << (from % 64);
    while (bits == 0) {
        if (++i == WORKER_WORDS) {
            return WORKER_NONE;
        }
        bits = set->word[i];
    }
    return i * 64 + (uint32_t)__builtin_ctzll(bits);
}

/* WORKER_SET_EACH(slot, &set) { ... } visits the slots in rising order. */
#define WORKER_SET_EACH(slot, set)                                         \
    for (uint32_t slot = worker_set_next((set), 0); (slot) != WORKER_NONE; \
         (slot) = worker_set_next((set), (slot) + 1))

#endif
