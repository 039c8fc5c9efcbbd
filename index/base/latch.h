/*
 * A flag that one side arms before it goes to sleep and the other side takes
 * once: who takes it armed must wake the sleeper.
 *
 * The sleeper arms, then looks once more for work, then sleeps; the waker
 * makes work visible, then takes. Both orders are store-then-load, hence
 * the full fences: else each side could miss the other.
 *
 * Role: core. Owns: nothing. Thread: arm by the sleeper, take by any waker.
 * Limits: none. Errors: none.
 */
#ifndef INDEX_BASE_LATCH_H
#define INDEX_BASE_LATCH_H

#include <stdatomic.h>
#include <stdbool.h>

#include "index/base/fence.h"

struct latch {
    _Atomic bool armed;
};

/*
 * ThreadSanitizer knows no fences. Read-modify-writes of the flag on both
 * sides order the same for it: whichever comes second sees what came before
 * the first. Not so otherwise, since every look would then take the flag's
 * cache line away from the other takers.
 */
#if defined(__SANITIZE_THREAD__)
#define LATCH_BY_RMW 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define LATCH_BY_RMW 1
#endif
#endif

#if defined(LATCH_BY_RMW)

/* As below. */
static inline void
latch_arm(struct latch *latch)
{
    (void)atomic_exchange(&latch->armed, true);
}

/* As below. */
static inline bool
latch_take(struct latch *latch)
{
    return atomic_exchange(&latch->armed, false);
}

#else

/* Arms the flag. The sleeper looks for work once more after this call. */
static inline void
latch_arm(struct latch *latch)
{
    atomic_store(&latch->armed, true);
    fence_full();
}

/* True for exactly one taker per arming, who then wakes the sleeper. */
static inline bool
latch_take(struct latch *latch)
{
    fence_full();
    return atomic_load(&latch->armed) && atomic_exchange(&latch->armed, false);
}

#endif

#endif
