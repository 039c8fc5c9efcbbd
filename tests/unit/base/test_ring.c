#include <criterion/criterion.h>
#include <string.h>

#include "index/base/ring.h"
#include "index/base/rng.h"

static void
put(struct ring *ring, size_t size, unsigned char fill)
{
    void *at = ring_reserve(ring, size);
    cr_assert_not_null(at);
    memset(at, fill, size);
    ring_commit(ring);
}

Test(base_ring, gives_back_records_in_order_across_many_laps)
{
    struct ring ring;
    struct rng rng;
    unsigned char next_in = 0;
    unsigned char next_out = 0;
    size_t sizes[256];

    rng_init(&rng, 7);
    cr_assert_eq(ring_init(&ring, 4096), 0);
    for (int round = 0; round < 5000; round++) {
        size_t size = (size_t)rng_below(&rng, 900);
        if (rng_below(&rng, 2) == 0 && ring_reserve(&ring, size) != NULL) {
            sizes[next_in] = size;
            put(&ring, size, next_in++);
        } else if (next_in != next_out) {
            size_t got;
            const unsigned char *at = ring_peek(&ring, &got);
            cr_assert_not_null(at);
            cr_assert_eq(got, sizes[next_out]);
            for (size_t i = 0; i < got; i++) {
                cr_assert_eq(at[i], next_out);
            }
            next_out++;
            ring_consume(&ring);
        }
    }
    ring_fini(&ring);
}

Test(base_ring, an_idle_ring_has_room_for_as_much_as_a_new_one)
{
    struct ring ring;
    size_t size;

    cr_assert_eq(ring_init(&ring, 1 << 16), 0);
    for (int lap = 0; lap < 300; lap++) {
        put(&ring, 100, 1);
        (void)ring_peek(&ring, &size);
        ring_consume(&ring);
    }
    int room = 0;
    while (ring_reserve(&ring, 120) != NULL) {
        ring_commit(&ring);
        room++;
    }
    cr_assert_geq(room, (1 << 16) / 128 - 9, "%d", room);
    ring_fini(&ring);
}

Test(base_ring, a_consumer_that_keeps_up_leaves_most_of_the_memory_untouched)
{
    struct ring ring;
    size_t size;

    cr_assert_eq(ring_init(&ring, 1 << 16), 0);
    memset(ring.bytes, 0xee, ring.size_bytes);
    for (int i = 0; i < 10000; i++) {
        put(&ring, 100, 1);
        put(&ring, 100, 2);
        cr_assert_eq(*(const char *)ring_peek(&ring, &size), 1);
        ring_consume(&ring);
        cr_assert_eq(*(const char *)ring_peek(&ring, &size), 2);
        ring_consume(&ring);
        cr_assert_null(ring_peek(&ring, &size));
    }
    for (size_t i = 2048; i < ring.size_bytes; i++) {
        cr_assert_eq(ring.bytes[i], 0xee);
    }
    ring_fini(&ring);
}

Test(base_ring, full_is_an_answer)
{
    struct ring ring;
    size_t size;
    int held = 0;

    cr_assert_eq(ring_init(&ring, 4096), 0);
    while (ring_reserve(&ring, 1000) != NULL) {
        put(&ring, 1000, 1);
        held++;
    }
    cr_assert_eq(held, 4);
    cr_assert_not_null(ring_peek(&ring, &size));
    ring_consume(&ring);
    cr_assert_not_null(ring_reserve(&ring, 1000));
    ring_fini(&ring);
}

Test(base_ring, a_record_over_a_quarter_is_refused)
{
    struct ring ring;

    cr_assert_eq(ring_init(&ring, 4096), 0);
    cr_assert_null(ring_reserve(&ring, 1025));
    cr_assert_not_null(ring_reserve(&ring, 1024));
    ring_fini(&ring);
}

Test(base_ring, says_how_much_waits)
{
    struct ring ring;
    size_t size;

    cr_assert_eq(ring_init(&ring, 4096), 0);
    cr_assert_eq(ring_waiting_bytes(&ring), 0);
    put(&ring, 100, 1);
    put(&ring, 8, 2);
    cr_assert_eq(ring_waiting_bytes(&ring), 112 + 16);
    (void)ring_peek(&ring, &size);
    ring_consume(&ring);
    cr_assert_eq(ring_waiting_bytes(&ring), 16);
    (void)ring_peek(&ring, &size);
    ring_consume(&ring);
    put(&ring, 8, 3); /* at the beginning of another lap */
    cr_assert_eq(ring_waiting_bytes(&ring), 16);
    ring_fini(&ring);
}
