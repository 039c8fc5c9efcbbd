/*
 * A rate limit that any number of threads share without waiting, and that
 * remembers how many it turned away.
 *
 * The generic cell rate algorithm (ITU-T I.371) on one word: the time at
 * which the bucket will be empty again. A pass moves it one interval on; it
 * may run ahead of the clock by burst intervals.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: none. Errors: none.
 */
#ifndef INDEX_BASE_GATE_H
#define INDEX_BASE_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "index/base/check.h"

/* All zero is a gate that let nothing through yet. */
struct gate {
    _Atomic uint64_t empty_us; /* when the bucket is empty again */
    _Atomic uint64_t refused;  /* since the last pass */
};

/*
 * May one more pass at now_us (monotonic)? At most `burst` (1 or more) at
 * once, then one per interval_us. True: *refused is how many were turned away
 * since the last pass. False: this one was counted among them.
 */
static inline bool
gate_pass(struct gate *gate, uint64_t now_us, uint64_t interval_us,
          uint32_t burst, uint64_t *refused)
{
    CHECK_SLOW(burst >= 1);
    /* Relaxed throughout: the word carries all there is to agree on. */
    uint64_t empty =
        atomic_load_explicit(&gate->empty_us, memory_order_relaxed);
    uint64_t next;

    do {
        next = (empty > now_us ? empty : now_us) + interval_us;
        if (next - now_us > burst * interval_us) {
            (void)atomic_fetch_add_explicit(&gate->refused, 1,
                                            memory_order_relaxed);
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(&gate->empty_us, &empty,
                                                    next, memory_order_relaxed,
                                                    memory_order_relaxed));
    *refused =
        atomic_exchange_explicit(&gate->refused, 0, memory_order_relaxed);
    return true;
}

#endif
