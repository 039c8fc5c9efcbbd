/*
 * Taking a share of a counter that many threads take from.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: none. Errors: none.
 */
#ifndef INDEX_BASE_CLAIM_H
#define INDEX_BASE_CLAIM_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/counter.h"

/* Adds n to a counter with many writers if its value is below `open` and will
 * not be above `most`; whether it did. Relaxed like every counter: the word
 * carries all there is to agree on. */
static inline bool
counter_claim(struct counter *c, uint64_t n, uint64_t open, uint64_t most)
{
    uint64_t v = atomic_load_explicit(&c->value, memory_order_relaxed);

    do {
        if (v >= open || n > most || v > most - n) {
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(
        &c->value, &v, v + n, memory_order_relaxed, memory_order_relaxed));
    return true;
}

#endif
