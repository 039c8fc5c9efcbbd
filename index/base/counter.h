/*
 * Counters and gauges that several threads may touch without waiting.
 *
 * Every operation is relaxed: a counter orders nothing. Whoever reads one
 * sees some recent value, and the sum of all additions once writers rest. All
 * zero is a counter or a gauge at 0.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: none. Errors: none.
 */
#ifndef INDEX_BASE_COUNTER_H
#define INDEX_BASE_COUNTER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "index/base/check.h"

struct counter {
    _Atomic uint64_t value;
};

/* A level that goes up and down; a transient below-zero reads as 0. */
struct gauge {
    _Atomic int32_t value;
};

/* Adds n to a counter with many writers. */
static inline void
counter_add(struct counter *c, uint64_t n)
{
    (void)atomic_fetch_add_explicit(&c->value, n, memory_order_relaxed);
}

/* Adds n to a counter with one writer: a plain add that readers may see. */
static inline void
counter_bump(struct counter *c, uint64_t n)
{
    uint64_t v = atomic_load_explicit(&c->value, memory_order_relaxed);
    atomic_store_explicit(&c->value, v + n, memory_order_relaxed);
}

/* Replaces the value; for a counter with one writer. */
static inline void
counter_set(struct counter *c, uint64_t n)
{
    atomic_store_explicit(&c->value, n, memory_order_relaxed);
}

/* Some recent value. */
static inline uint64_t
counter_read(const struct counter *c)
{
    return atomic_load_explicit(&c->value, memory_order_relaxed);
}

/* Reads and resets in one step: each addition is taken exactly once. */
static inline uint64_t
counter_take(struct counter *c)
{
    return atomic_exchange_explicit(&c->value, 0, memory_order_relaxed);
}

/* Moves the level by n, up or down. */
static inline void
gauge_add(struct gauge *g, int32_t n)
{
    (void)atomic_fetch_add_explicit(&g->value, n, memory_order_relaxed);
}

/* Replaces the level; n is 0 or more. */
static inline void
gauge_set(struct gauge *g, int32_t n)
{
    CHECK_SLOW(n >= 0);
    atomic_store_explicit(&g->value, n, memory_order_relaxed);
}

/* Raises a gauge that stands at 0 to 1: true for the one caller that did. It
 * guards no memory, so it is relaxed like the rest. */
static inline bool
gauge_claim(struct gauge *g)
{
    int32_t idle = 0;
    return atomic_compare_exchange_strong_explicit(
        &g->value, &idle, 1, memory_order_relaxed, memory_order_relaxed);
}

/* Some recent level, 0 when it is below zero for a moment. */
static inline uint32_t
gauge_read(const struct gauge *g)
{
    int32_t v = atomic_load_explicit(&g->value, memory_order_relaxed);
    return v > 0 ? (uint32_t)v : 0;
}

#endif
