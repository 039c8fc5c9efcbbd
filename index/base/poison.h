/*
 * Memory that nobody may touch for now: AddressSanitizer reports who does.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: none. Errors: none.
 */
#ifndef INDEX_BASE_POISON_H
#define INDEX_BASE_POISON_H

#include <stdbool.h>
#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#define POISON 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POISON 1
#endif
#endif
#if defined(POISON)
#include <sanitizer/asan_interface.h>
#endif

/* Whether the bytes may be touched from now on. Elsewhere it does nothing. */
static inline void
poison(const void *memory, size_t bytes, bool bad)
{
#if defined(POISON)
    if (bad) {
        __asan_poison_memory_region(memory, bytes);
    } else {
        __asan_unpoison_memory_region(memory, bytes);
    }
#else
    (void)memory;
    (void)bytes;
    (void)bad;
#endif
}

#endif
