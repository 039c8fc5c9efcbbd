/*
 * A library to preload into programs under test. It counts how much of the heap
 * they hold, so that a test can see whether that grows. Resident memory does
 * not tell: it grows for as long as memory allocated at the start is touched
 * for the first time, and it hides what the allocator keeps after free().
 *
 * What the index has in page heaps (index/base/page_heap.h), of 2 MiB and more, is
 * not counted.
 *
 * KVASIR_CHAOS_HEAP names a file of two native 64-bit numbers: the bytes
 * allocated and the bytes freed so far. Not for programs with a sanitizer,
 * which has a heap of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "index/base/counter.h"

/* glibc's own, under the names that remain when others are replaced. */
/* NOLINTBEGIN(clang-diagnostic-reserved-identifier) */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *memory);
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

struct heap {
    struct counter taken_bytes;
    struct counter given_bytes;
};

static struct heap unseen;
static struct heap *heap = &unseen;

__attribute__((constructor)) static void
open_held(void)
{
    const char *path = getenv("KVASIR_CHAOS_HEAP");
    int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;

    if (fd >= 0) {
        void *at =
            mmap(NULL, sizeof *heap, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (at != MAP_FAILED) {
            heap = at;
            counter_add(&heap->taken_bytes, counter_read(&unseen.taken_bytes));
            counter_add(&heap->given_bytes, counter_read(&unseen.given_bytes));
        }
        (void)close(fd);
    }
}

static void *
count(void *memory)
{
    if (memory != NULL) {
        counter_add(&heap->taken_bytes, malloc_usable_size(memory));
    }
    return memory;
}

void *
malloc(size_t size)
{
    return count(__libc_malloc(size));
}

void *
calloc(size_t nmemb, size_t size)
{
    return count(__libc_calloc(nmemb, size));
}

void *
realloc(void *ptr, size_t size)
{
    size_t was = ptr != NULL ? malloc_usable_size(ptr) : 0;
    void *new = __libc_realloc(ptr, size);

    if (new != NULL || size == 0) {
        counter_add(&heap->given_bytes, was);
    }
    return count(new);
}

void *
aligned_alloc(size_t alignment, size_t size)
{
    return count(__libc_memalign(alignment, size));
}

int
posix_memalign(void **memptr, size_t alignment, size_t size)
{
    *memptr = count(__libc_memalign(alignment, size));
    return *memptr != NULL ? 0 : ENOMEM;
}

void
free(void *ptr)
{
    if (ptr != NULL) {
        counter_add(&heap->given_bytes, malloc_usable_size(ptr));
    }
    __libc_free(ptr);
}
