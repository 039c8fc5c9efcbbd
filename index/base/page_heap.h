/*
 * Memory for large tables: runs of pages in regions that the kernel is asked to
 * back by huge pages.
 *
 * A table of many megabytes is read at unpredictable places, so with pages of
 * 4 KiB most of a look-up is the wait for an address to be translated. malloc()
 * gets huge pages only for what is larger than one, and our tables come in 256
 * or 1,024 parts of less. So a heap has regions of 32 MiB, takes the first run
 * of free pages that is long enough, and gives a region back when nothing is
 * left in it (it keeps one). A piece of 4 MiB or more has a region of its own.
 * A heap that has given out little takes it from malloc(), so that a small
 * index stays small.
 *
 * What a heap gives is zeroed by writing to it, but for those large pieces,
 * which would take long. Memory that is read before it is written, as
 * calloc()'s, is first mapped to the page of zeros and then copied, and each
 * copy interrupts all other processors that run a thread of the process.
 *
 * Role: core. Owns: its regions. Thread: one owner; others may use what it
 * gave. Limits: the caller's, of bytes given out; free pages between runs come
 * on top. Errors: NULL, when memory is short.
 */
#ifndef INDEX_BASE_PAGE_HEAP_H
#define INDEX_BASE_PAGE_HEAP_H

#include <stddef.h>

#include "index/base/check.h"

#define PAGE_HEAP_PAGE  ((size_t)4 << 10)
#define PAGE_HEAP_ALIGN ((size_t)64)      /* of everything it gives */
#define PAGE_HEAP_SMALL ((size_t)2 << 20) /* in all, of malloc()'s */

struct page_region;

/* All zeros: an empty heap. */
struct page_heap {
    struct page_region *first;
    size_t bytes; /* given out */
};

/* Frees the regions; everything was given back. */
void page_heap_fini(struct page_heap *heap);

/* Bytes that a piece of so many takes. */
static inline size_t
page_heap_size(size_t bytes)
{
    size_t grain = bytes < PAGE_HEAP_PAGE ? PAGE_HEAP_ALIGN : PAGE_HEAP_PAGE;

    CHECK_SLOW(bytes > 0);
    return (bytes + grain - 1) & ~(grain - 1);
}

/* Zeroed memory, or NULL. */
void *page_heap_take(struct page_heap *heap, size_t bytes) MUST_CHECK;

/* Takes back what page_heap_take() gave for so many bytes. */
void page_heap_give(struct page_heap *heap, void *memory, size_t bytes);

/* Bytes of all runs that are given out, and of what was taken from the system
 * for them (huge pages may round that up), over all heaps of the process. By
 * any thread. */
void page_heap_total(size_t *used, size_t *held);

#endif
