/* The wrapped allocators, which count down to the failure. */
#include "failing_alloc.h"

#include <stddef.h>
#include <sys/mman.h>

/* NOLINTBEGIN(clang-diagnostic-reserved-identifier) */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);
void *__real_mmap(void *at, size_t size, int access, int flags, int file,
                  off_t from);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);
void *__wrap_mmap(void *at, size_t size, int access, int flags, int file,
                  off_t from);
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

static bool armed;
static uint64_t left;

bool
failing_alloc_after(uint64_t n)
{
    bool reached = n == 0 || !armed;

    left = n;
    armed = reached;
    return reached;
}

void
failing_alloc_stop(void)
{
    armed = false;
}

static bool
fails(void)
{
    if (!armed || left-- > 0) {
        return false;
    }
    armed = false;
    return true;
}

void *
__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *
__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *
__wrap_realloc(void *old, size_t size)
{
    return fails() ? NULL : __real_realloc(old, size);
}

void *
__wrap_aligned_alloc(size_t align, size_t size)
{
    return fails() ? NULL : __real_aligned_alloc(align, size);
}

void *
__wrap_mmap(void *at, size_t size, int access, int flags, int file, off_t from)
{
    return fails() ? MAP_FAILED
                   : __real_mmap(at, size, access, flags, file, from);
}
