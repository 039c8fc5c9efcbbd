#include "index/cell_internal.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/rng.h"

static void *
plain_alloc(void *context, size_t size)
{
    (void)context;
    return malloc(size);
}

static void
plain_free(void *context, void *memory, size_t size)
{
    (void)context;
    (void)size;
    free(memory);
}

static const struct radix_allocator allocator = {.alloc = plain_alloc,
                                                 .free = plain_free};
static struct cell_store store;

static void
sound(void)
{
    const char *reason = NULL;

    cr_assert(cell_check(&store, &reason), "%s", reason);
}

Test(index_cell, objects_keep_what_is_in_them)
{
    struct rng rng;
    uint32_t ref[300] = {0};
    size_t size[300];

    rng_init(&rng, 7);
    cr_assert_eq(cell_init(&store, 1 << 20, &allocator), 0);
    for (uint32_t i = 0; i < 60000; i++) {
        size_t at = (size_t)rng_below(&rng, 300);
        if (ref[at] != CELL_NONE) {
            const unsigned char *bytes = cell_at(&store, ref[at]);
            for (size_t k = sizeof(struct cell); k < size[at]; k++) {
                cr_assert_eq(bytes[k], (unsigned char)at);
            }
            cell_free(&store, ref[at]);
            ref[at] = CELL_NONE;
        } else {
            size[at] =
                sizeof(struct cell) +
                (size_t)rng_below(&rng, UINT64_C(1) << rng_below(&rng, 13));
            ref[at] = cell_alloc(&store, size[at]);
            if (ref[at] != CELL_NONE) {
                cr_assert_geq(cell_size(&store, ref[at]), size[at]);
                memset((unsigned char *)cell_at(&store, ref[at]) +
                           sizeof(struct cell),
                       (int)at, size[at] - sizeof(struct cell));
            }
        }
        if (i % 500 == 0) {
            sound();
        }
    }
    cell_fini(&store);
}

Test(index_cell, the_bound_holds_and_is_reached)
{
    size_t bound = 1 << 20;
    size_t count = 0;

    cr_assert_eq(cell_init(&store, bound, &allocator), 0);
    while (cell_alloc(&store, 48) != CELL_NONE) {
        count++;
        cr_assert_leq(cell_bytes(&store), bound);
    }
    cr_assert_not(cell_starved(&store));
    cr_assert_gt(count * 48, bound * 95 / 100);
    sound();
    cell_fini(&store);
}

Test(index_cell, freed_small_objects_make_room_for_a_large_one)
{
    static uint32_t ref[100000];
    size_t count = 0;

    cr_assert_eq(cell_init(&store, 1 << 20, &allocator), 0);
    while ((ref[count] = cell_alloc(&store, 32)) != CELL_NONE) {
        count++;
    }
    cr_assert_eq(cell_alloc(&store, 16384), CELL_NONE);
    for (size_t i = 0; i < count; i += 2) {
        cell_free(&store, ref[i]);
    }
    cr_assert_eq(cell_alloc(&store, 16384), CELL_NONE);
    for (size_t i = 1; i < count; i += 2) {
        cell_free(&store, ref[i]);
    }
    sound();
    cr_assert_eq(store.used_bytes, 0);
    cr_assert_neq(cell_alloc(&store, 16384), CELL_NONE);
    cell_fini(&store);
}

Test(index_cell, empty_chunks_go_back_but_one)
{
    static uint32_t ref[400];

    cr_assert_eq(cell_init(&store, 16 << 20, &allocator), 0);
    for (int i = 0; i < 400; i++) {
        ref[i] = cell_alloc(&store, 32768);
        cr_assert_neq(ref[i], CELL_NONE);
    }
    size_t most = cell_bytes(&store);
    for (int i = 0; i < 400; i++) {
        cell_free(&store, ref[i]);
    }
    sound();
    cr_assert_eq(store.chunks_count, 1);
    cr_assert_lt(cell_bytes(&store), most / 8);
    cell_fini(&store);
}

Test(index_cell, too_small_a_bound_is_refused)
{
    cr_assert_eq(cell_init(&store, 1000, &allocator), -EINVAL);
}
