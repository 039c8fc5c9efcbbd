/* Memory for large tables: runs of pages, the first that is long enough. */
#include "index/base/page_heap.h"

#include "index/base/counter.h"
#include "index/base/poison.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE    ((size_t)2 << 20)
#define REGION_BYTES ((size_t)32 << 20)
#define LARGE        ((size_t)4 << 20) /* has a region of its own */

static struct counter all_used;
static struct counter all_held;

struct page_region {
    struct page_region *next;
    unsigned char *memory;
    size_t pages;
    size_t used;
    size_t touched; /* pages: those behind were never given out */
    uint64_t map[]; /* a bit for each page that is used */
};

/* A process that has too many mappings to cut one in two keeps the addresses,
 * without memory. */
static void
unmap(void *memory, size_t bytes)
{
    if (bytes > 0 && munmap(memory, bytes) != 0) {
        (void)madvise(memory, bytes, MADV_DONTNEED);
    }
}

/* Bytes of addresses that begin at a huge page, or NULL. */
static void *
map_huge(size_t bytes)
{
    char *all = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (all == MAP_FAILED) {
        return NULL;
    }
    size_t before = (HUGE_PAGE - (uintptr_t)all % HUGE_PAGE) % HUGE_PAGE;
    unmap(all, before);
    unmap(all + before + bytes, HUGE_PAGE - before);
    /* A kernel that has none, or is told not to, gives small ones. */
    (void)madvise(all + before, bytes - bytes % HUGE_PAGE, MADV_HUGEPAGE);
    return all + before;
}

static struct page_region *
region_new(size_t bytes)
{
    size_t pages = bytes / PAGE_HEAP_PAGE;
    void *memory = map_huge(bytes);

    CHECK(bytes % PAGE_HEAP_PAGE == 0);
    if (memory == NULL) {
        return NULL;
    }
    struct page_region *region =
        calloc(1, sizeof(*region) + (pages + 63) / 64 * sizeof(uint64_t));
    if (region == NULL) {
        unmap(memory, bytes);
        return NULL;
    }
    region->memory = memory;
    region->pages = pages;
    poison(region->memory, bytes, true);
    return region;
}

static void
region_free(struct page_region *region)
{
    size_t bytes = region->pages * PAGE_HEAP_PAGE;
    size_t touched = region->touched * PAGE_HEAP_PAGE;

    poison(region->memory, bytes, false);
    unmap(region->memory, bytes);
    counter_add(&all_held, 0 - touched);
    free(region);
}

/* The bits of a word that lie in [from, to) of the map. */
static uint64_t
bits_of(size_t word, size_t from, size_t to)
{
    uint64_t bits = UINT64_MAX;

    CHECK_SLOW(from < to && word >= from / 64 && word <= (to - 1) / 64);
    bits = from > word * 64 ? bits << (from - word * 64) : bits;
    return to < word * 64 + 64 ? bits & ((UINT64_C(1) << (to - word * 64)) - 1)
                               : bits;
}

/* Where the last used page of [from, to) ends; from: none is used. */
static size_t
used_end(const struct page_region *region, size_t from, size_t to)
{
    for (size_t word = (to - 1) / 64;; word--) {
        uint64_t used = region->map[word] & bits_of(word, from, to);
        if (used != 0) {
            return word * 64 + 64 - (size_t)__builtin_clzll(used);
        }
        if (word == from / 64) {
            return from;
        }
    }
}

/* The first run of so many free pages, SIZE_MAX when there is none. */
static size_t
run_find(const struct page_region *region, size_t pages)
{
    size_t at = 0;

    CHECK_SLOW(pages > 0);
    while (region->pages - region->used >= pages &&
           at + pages <= region->pages) {
        size_t end = used_end(region, at, at + pages);
        if (end == at) {
            return at;
        }
        at = end;
    }
    return SIZE_MAX;
}

static void
run_mark(struct page_region *region, size_t at, size_t pages, bool used)
{
    uint64_t bytes = pages * PAGE_HEAP_PAGE;

    CHECK(at + pages <= region->pages);
    for (size_t word = at / 64; word <= (at + pages - 1) / 64; word++) {
        uint64_t bits = bits_of(word, at, at + pages);
        CHECK((region->map[word] & bits) == (used ? 0 : bits));
        region->map[word] ^= bits;
    }
    region->used = used ? region->used + pages : region->used - pages;
    counter_add(&all_used, used ? bytes : 0 - bytes);
}

/* As many zeroed pages, or NULL. */
static void *
run_take(struct page_heap *heap, size_t pages)
{
    size_t bytes = pages * PAGE_HEAP_PAGE;
    bool large = bytes >= LARGE;
    struct page_region **link = &heap->first;
    size_t at = 0;

    while (*link != NULL &&
           (large || (at = run_find(*link, pages)) == SIZE_MAX)) {
        link = &(*link)->next;
    }
    if (*link == NULL) {
        *link = region_new(large ? bytes : REGION_BYTES);
        if (*link == NULL) {
            return NULL;
        }
        at = 0;
    }
    struct page_region *region = *link;
    unsigned char *memory = region->memory + at * PAGE_HEAP_PAGE;
    if (at + pages > region->touched) {
        counter_add(&all_held, (at + pages - region->touched) * PAGE_HEAP_PAGE);
        region->touched = at + pages;
    }
    run_mark(region, at, pages, true);
    poison(memory, bytes, false);
    if (!large) { /* a new region is zero, and may stay so until it is used */
        memset(memory, 0, bytes);
    }
    return memory;
}

/* Frees regions without used pages, except for one of the usual size. */
static void
trim(struct page_heap *heap)
{
    bool kept = false;

    for (struct page_region **link = &heap->first; *link != NULL;) {
        struct page_region *region = *link;
        bool usual = region->pages == REGION_BYTES / PAGE_HEAP_PAGE;
        if (region->used == 0 && (kept || !usual)) {
            *link = region->next;
            region_free(region);
            continue;
        }
        kept = kept || region->used == 0;
        link = &region->next;
    }
}

/* The region that an address is in, NULL: malloc() gave it. */
static struct page_region *
region_of(const struct page_heap *heap, const unsigned char *memory)
{
    struct page_region *region = heap->first;

    CHECK_SLOW(memory != NULL);
    while (region != NULL && (uintptr_t)memory - (uintptr_t)region->memory >=
                                 region->pages * PAGE_HEAP_PAGE) {
        region = region->next;
    }
    return region;
}

static void *
small_take(size_t size)
{
    void *memory = aligned_alloc(PAGE_HEAP_ALIGN, size);

    CHECK(size % PAGE_HEAP_ALIGN == 0);
    if (memory != NULL) {
        memset(memory, 0, size);
    }
    return memory;
}

void *
page_heap_take(struct page_heap *heap, size_t bytes)
{
    size_t size = page_heap_size(bytes);
    bool small = size < PAGE_HEAP_PAGE || heap->bytes + size <= PAGE_HEAP_SMALL;

    CHECK(bytes > 0 && size >= bytes);
    void *memory =
        small ? small_take(size) : run_take(heap, size / PAGE_HEAP_PAGE);
    heap->bytes += memory != NULL ? size : 0;
    return memory;
}

void
page_heap_give(struct page_heap *heap, void *memory, size_t bytes)
{
    size_t size = page_heap_size(bytes);
    struct page_region *region = region_of(heap, memory);

    CHECK(bytes > 0 && heap->bytes >= size);
    heap->bytes -= size;
    if (region == NULL) {
        free(memory);
        return;
    }
    size_t at = (size_t)((unsigned char *)memory - region->memory);
    CHECK(at % PAGE_HEAP_PAGE == 0);
    poison(memory, size, true);
    run_mark(region, at / PAGE_HEAP_PAGE, size / PAGE_HEAP_PAGE, false);
    if (region->used == 0) {
        trim(heap);
    }
}

void
page_heap_fini(struct page_heap *heap)
{
    CHECK(heap->bytes == 0);
    while (heap->first != NULL) {
        struct page_region *region = heap->first;
        heap->first = region->next;
        region_free(region);
    }
}

void
page_heap_total(size_t *used, size_t *held)
{
    *used = counter_read(&all_used);
    *held = counter_read(&all_held);
}
