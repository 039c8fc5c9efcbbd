#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

#include "index/base/page_heap.h"
#include "index/base/rng.h"
#include "tests/unit/failing_alloc.h"

#define PIECES 256

struct piece {
    unsigned char *memory;
    size_t bytes;
    unsigned char fill;
};

static struct page_heap heap;
static struct piece piece[PIECES];

static void
give(struct piece *p)
{
    page_heap_give(&heap, p->memory, p->bytes);
    *p = (struct piece){.memory = NULL};
}

static void
give_all(void)
{
    for (size_t i = 0; i < PIECES; i++) {
        if (piece[i].memory != NULL) {
            give(&piece[i]);
        }
    }
    page_heap_fini(&heap);
}

static void
take(struct piece *p, size_t bytes)
{
    *p = (struct piece){.memory = page_heap_take(&heap, bytes), .bytes = bytes};
    cr_assert_not_null(p->memory);
    cr_assert_eq((uintptr_t)p->memory % PAGE_HEAP_ALIGN, 0);
}

/* Takes all that malloc() gives. */
static struct piece
take_small(void)
{
    struct piece small;

    take(&small, PAGE_HEAP_SMALL);
    return small;
}

TestSuite(base_page_heap, .fini = give_all);

Test(base_page_heap, counts_what_a_piece_takes)
{
    cr_assert_eq(page_heap_size(1), 64);
    cr_assert_eq(page_heap_size(64), 64);
    cr_assert_eq(page_heap_size(4095), 4096);
    cr_assert_eq(page_heap_size(4096), 4096);
    cr_assert_eq(page_heap_size(4097), 8192);
    take(&piece[0], 100);
    take(&piece[1], 5000);
    cr_assert_eq(heap.bytes, 128 + 8192);
    give(&piece[0]);
    cr_assert_eq(heap.bytes, 8192);
}

static void
check_zero(const struct piece *p)
{
    for (size_t i = 0; i < p->bytes; i++) {
        cr_assert_eq(p->memory[i], 0);
    }
}

static void
check_fill(const struct piece *p)
{
    for (size_t i = 0; i < p->bytes; i++) {
        cr_assert_eq(p->memory[i], p->fill);
    }
}

Test(base_page_heap, gives_zeroed_pieces_that_do_not_touch)
{
    struct rng rng;

    rng_init(&rng, 11);
    for (uint32_t round = 0; round < 4000; round++) {
        struct piece *p = &piece[rng_below(&rng, PIECES)];
        if (p->memory != NULL) {
            check_fill(p);
            give(p);
            continue;
        }
        take(p,
             (size_t)1 + (size_t)rng_below(
                             &rng, (uint64_t)1 << (3 + rng_below(&rng, 16))));
        check_zero(p);
        p->fill = (unsigned char)round;
        memset(p->memory, p->fill, p->bytes);
    }
}

Test(base_page_heap, gives_a_run_again_that_came_back)
{
    struct piece small = take_small();

    for (size_t i = 0; i < 8; i++) {
        take(&piece[i], 10 * PAGE_HEAP_PAGE);
    }
    unsigned char *second = piece[1].memory;
    unsigned char *fifth = piece[4].memory;
    give(&piece[1]);
    give(&piece[4]);
    give(&piece[5]);
    take(&piece[1], 10 * PAGE_HEAP_PAGE + 1); /* only neighbours are enough */
    cr_assert_eq(piece[1].memory, fifth);
    take(&piece[4], 9 * PAGE_HEAP_PAGE);
    cr_assert_eq(piece[4].memory, second);
    give(&small);
}

static size_t
held_now(void)
{
    size_t used;
    size_t held;

    page_heap_total(&used, &held);
    cr_assert_leq(used, held);
    return held;
}

Test(base_page_heap, gives_large_pieces_regions_of_their_own)
{
    struct piece small = take_small();

    take(&piece[0], ((size_t)40 << 20) + 5);
    take(&piece[1], (size_t)3 << 20);
    take(&piece[2], (size_t)5 << 20);
    memset(piece[0].memory, 1, piece[0].bytes);
    check_zero(&piece[1]);
    check_zero(&piece[2]);
    cr_assert_eq(held_now(), ((size_t)48 << 20) + PAGE_HEAP_PAGE);
    give(&piece[2]);
    give(&piece[0]);
    cr_assert_eq(held_now(), (size_t)3 << 20);
    give(&small);
}

Test(base_page_heap, keeps_one_empty_region_and_frees_the_others)
{
    struct piece small = take_small();

    for (size_t i = 0; i < 40; i++) { /* ten fit into a region */
        take(&piece[i], (size_t)3 << 20);
    }
    cr_assert_eq(held_now(), (size_t)120 << 20);
    for (size_t i = 0; i < 40; i++) {
        give(&piece[i]);
    }
    cr_assert_eq(held_now(), (size_t)30 << 20);
    take(&piece[0], (size_t)3 << 20); /* what was kept */
    cr_assert_eq(held_now(), (size_t)30 << 20);
    give(&small);
}

Test(base_page_heap, is_unchanged_when_memory_is_short)
{
    static const size_t sizes[] = {PAGE_HEAP_SMALL, PAGE_HEAP_PAGE,
                                   (size_t)8 << 20};

    for (uint64_t n = 0; failing_alloc_after(n); n++) {
        for (size_t i = 0; i < 3; i++) {
            size_t before = heap.bytes;
            size_t bytes = sizes[i];
            void *memory = page_heap_take(&heap, bytes);
            cr_assert_eq(heap.bytes - before, memory != NULL ? bytes : 0);
            piece[i] = (struct piece){.memory = memory, .bytes = bytes};
        }
        for (size_t i = 0; i < 3; i++) {
            if (piece[i].memory != NULL) {
                give(&piece[i]);
            }
        }
        page_heap_fini(&heap);
    }
    failing_alloc_stop();
}
