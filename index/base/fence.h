/*
 * A full fence: no store before it passes a load after it.
 *
 * ThreadSanitizer knows no fences. For it a read-modify-write of a word that
 * everyone touches orders the same; it is slow, and never in a real build.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: none. Errors: none.
 */
#ifndef INDEX_BASE_FENCE_H
#define INDEX_BASE_FENCE_H

#include <stdatomic.h>

#if defined(__SANITIZE_THREAD__)
#define FENCE_BY_RMW 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FENCE_BY_RMW 1
#endif
#endif

#if defined(FENCE_BY_RMW)
extern _Atomic unsigned fence_word;
#endif

/* Orders every earlier store of this thread before every later load. */
static inline void
fence_full(void)
{
#if defined(FENCE_BY_RMW)
    (void)atomic_fetch_add_explicit(&fence_word, 1, memory_order_seq_cst);
#else
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

#endif
