/*
 * A flag that one side arms before it goes to sleep and the other side takes
 * once: who takes it armed must wake the sleeper.
 *
 * The sleeper arms, then looks once more for work, then sleeps; the waker
 * makes work visible, then takes. Both orders are store-then-load, hence
 * the full fences: else each side could miss the other.
 *
 * Thread: any.
 */
#ifndef INDEX_BASE_LATCH_H
#define INDEX_BASE_LATCH_H

#include <stdatomic.h>
#include <stdbool.h>

#include "index/base/fence.h"

struct latch {
    _Atomic bool armed;
};

static inline void
latch_arm(struct latch *latch)
{
    atomic_store(&latch->armed, true);
    fence_full();
}

/* True for exactly one taker per arming. */
static inline bool
latch_take(struct latch *latch)
{
    fence_full();
    return atomic_load(&latch->armed) && atomic_exchange(&latch->armed, false);
}

#endif
