/* Early messages by seq: places, bounds. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "node/events/kv_held_internal.h"

static struct kv_held held;

static void
setup(void)
{
    kv_held_init(&held, 4096);
}

static void
teardown(void)
{
    const char *reason = "";

    cr_assert(kv_held_check(&held, &reason), "%s", reason);
    kv_held_clear(&held);
}

static bool
put(uint64_t seq)
{
    return kv_held_put(&held, seq, seq, SLICE("payload"));
}

TestSuite(node_kv_held, .init = setup, .fini = teardown);

Test(node_kv_held, nothing_is_found_when_nothing_is_held)
{
    cr_assert_null(kv_held_find(&held, 0));
    cr_assert_null(kv_held_take(&held, 0));
    cr_assert_eq(kv_held_lowest(&held), UINT64_MAX);
}

Test(node_kv_held, a_message_is_found_by_its_own_seq_alone)
{
    cr_assert(put(7));
    cr_assert_eq(kv_held_find(&held, 7)->seq, 7);
    cr_assert_null(kv_held_find(&held, 8));
    cr_assert_null(kv_held_find(&held, 7 + KV_HELD_WINDOW));
    cr_assert_null(kv_held_take(&held, 7 + KV_HELD_WINDOW));
    cr_assert_eq(held.count, 1);
}

Test(node_kv_held, a_taken_place_refuses_the_later_comer)
{
    cr_assert(put(7));
    cr_assert_not(put(7 + KV_HELD_WINDOW));
    cr_assert_eq(kv_held_find(&held, 7)->seq, 7);
}

Test(node_kv_held, the_lowest_is_told_and_what_is_below_dropped)
{
    cr_assert(put(9));
    cr_assert(put(5));
    cr_assert(put(7));
    cr_assert_eq(kv_held_lowest(&held), 5);
    kv_held_drop_below(&held, 7);
    cr_assert_null(kv_held_find(&held, 5));
    cr_assert_eq(kv_held_lowest(&held), 7);
    cr_assert_eq(held.count, 2);
}

Test(node_kv_held, the_lowest_is_told_of_places_in_any_order)
{
    const char *reason = NULL;

    cr_assert(put(KV_HELD_WINDOW - 1));
    cr_assert(put(KV_HELD_WINDOW + 3)); /* its place comes first */
    cr_assert(put(2 * KV_HELD_WINDOW + 9));
    cr_assert_eq(kv_held_lowest(&held), KV_HELD_WINDOW - 1);
    free(kv_held_take(&held, KV_HELD_WINDOW - 1));
    cr_assert_eq(kv_held_lowest(&held), KV_HELD_WINDOW + 3);
    cr_assert(kv_held_check(&held, &reason), "%s", reason);
    kv_held_drop_below(&held, 2 * KV_HELD_WINDOW);
    cr_assert_eq(kv_held_lowest(&held), 2 * KV_HELD_WINDOW + 9);
    kv_held_clear(&held);
    cr_assert(put(4));
    cr_assert_eq(kv_held_lowest(&held), 4);
}

Test(node_kv_held, bytes_are_bounded_but_one_message_is_always_held)
{
    static const char large[8192];
    uint64_t seq = 0;

    cr_assert(kv_held_put(&held, 1, 1, (struct slice){large, sizeof large}));
    cr_assert_not(put(2));
    free(kv_held_take(&held, 1));
    while (put(seq)) {
        seq++;
    }
    cr_assert_gt(seq, 1);
    cr_assert_leq(held.bytes, held.bytes_max);
}
