#include "index/order_internal.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "index/base/rng.h"
#include "index/radix_internal.h"

#define RECORDS 2000

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
static struct order order;
static uint32_t record[RECORDS];

static void
setup(void)
{
    cr_assert_eq(cell_init(&store, 4 << 20, &allocator), 0);
    order_init(&order, 1);
    for (int i = 0; i < RECORDS; i++) {
        record[i] = cell_alloc(&store, sizeof(struct radix_record));
        struct radix_record *r = cell_at(&store, record[i]);
        r->place[0] = r->place[1] = ORDER_NOWHERE;
    }
}

static void
teardown(void)
{
    order_fini(&order, &store);
    cell_fini(&store);
}

TestSuite(index_order, .init = setup, .fini = teardown);

Test(index_order, comes_out_sorted)
{
    uint64_t last = 0;

    for (int i = 0; i < RECORDS; i++) {
        cr_assert(order_reserve(&order, &store, 1));
        order_push(&order, &store, rng_mix((uint64_t)i) >> 8, record[i]);
    }
    cr_assert(order_check(&order, &store));
    for (int i = 0; i < RECORDS; i++) {
        uint64_t value = order_value(&order, &store, 0);
        cr_assert_geq(value, last);
        last = value;
        order_remove(&order, &store, 0);
    }
    cr_assert_eq(order.count, 0);
}

Test(index_order, anything_can_be_taken_out)
{
    uint64_t value[RECORDS] = {0};
    struct rng rng;

    rng_init(&rng, 1);
    for (int step = 0; step < 40000; step++) {
        uint64_t i = rng_below(&rng, RECORDS);
        const struct radix_record *r = cell_at(&store, record[i]);
        if (r->place[1] == ORDER_NOWHERE) {
            value[i] = rng_below(&rng, 1000);
            cr_assert(order_reserve(&order, &store, 1));
            order_push(&order, &store, value[i], record[i]);
        } else {
            cr_assert_eq(order_record(&order, &store, r->place[1]), record[i]);
            cr_assert_eq(order_value(&order, &store, r->place[1]), value[i]);
            order_remove(&order, &store, r->place[1]);
        }
        cr_assert_eq(r->place[0], ORDER_NOWHERE);
        if (step % 1000 == 0) {
            cr_assert(order_check(&order, &store));
        }
    }
}

Test(index_order, a_push_after_a_removal_needs_no_room)
{
    for (int i = 0; i < RECORDS; i++) {
        cr_assert(order_reserve(&order, &store, 1));
        order_push(&order, &store, (uint64_t)i, record[i]);
    }
    for (int i = 0; i < RECORDS; i++) {
        order_remove(&order, &store, 0);
        order_push(&order, &store, (uint64_t)(RECORDS + i), record[i]);
        order_remove(&order, &store, order.count / 2);
    }
    cr_assert(order_check(&order, &store));
}

Test(index_order, pages_go_back)
{
    size_t before = store.used_bytes;

    for (int i = 0; i < RECORDS; i++) {
        cr_assert(order_reserve(&order, &store, 1));
        order_push(&order, &store, (uint64_t)i, record[i]);
    }
    cr_assert_gt(store.used_bytes, before + RECORDS * 16);
    while (order.count > 0) {
        order_remove(&order, &store, order.count - 1);
    }
    cr_assert_lt(store.used_bytes, before + 4096);
    order_fini(&order, &store);
    cr_assert_eq(store.used_bytes, before);
}
