/* What was sent to a rank, in order: it counts once it is full, and gives up
 * what was sent there longest ago. */
#include <criterion/criterion.h>

#include "index/base/role.h"
#include "node/view/decided.h"

#define SLOT   5U
#define BLOCK  16U
#define STRIDE 8U /* 128 tokens */
#define KEPT   8U /* of one prompt */
#define BLOCKS (KEPT * STRIDE)

static struct qsbr qsbr;
static struct qsbr_reader *reader;
static struct decided *decided;

static void
open_rig(void)
{
    role_is_control();
    qsbr_init(&qsbr);
    reader = qsbr_register(&qsbr);
    cr_assert_eq(decided_new(&decided, (size_t)16 << 20, 1024, &qsbr), 0);
    cr_assert_eq(
        decided_open(decided, SLOT, (uint64_t)2 * BLOCKS, BLOCK, RADIX_LRU), 0);
}

static void
close_rig(void)
{
    decided_free(decided);
    qsbr_fini(&qsbr);
}

TestSuite(decided, .init = open_rig, .fini = close_rig);

/* The kept keys of the prompt of this name, which has a few blocks more. */
static uint32_t
kept_of(uint64_t name, uint64_t *kept)
{
    uint64_t keys[BLOCKS + 3];
    uint64_t key = name;

    for (uint32_t i = 0; i < BLOCKS + 3; i++) {
        key = key_next(key, &i, sizeof(i));
        keys[i] = key;
    }
    uint32_t count = decided_keys(keys, BLOCKS + 3, BLOCK, kept);
    cr_assert_eq(kept[0], keys[STRIDE - 1]);
    cr_assert_eq(kept[count - 1], keys[BLOCKS - 1]);
    return count;
}

/* Of which a worker held the first `held` kept keys. */
static void
decide_held(uint64_t name, uint32_t held, uint64_t at_us)
{
    role_is_control();
    uint64_t kept[BLOCKS + 4];
    uint32_t count = kept_of(name, kept);

    cr_assert_eq(count, KEPT);
    kept[count] = held > 0 ? kept[held - 1] : 0;
    decided_add(decided, SLOT, kept, count + 1, at_us);
}

static void
decide(uint64_t name, uint64_t at_us)
{
    decide_held(name, 0, at_us);
}

static uint32_t
depth(uint64_t name)
{
    struct radix_match match;
    uint64_t kept[BLOCKS + 3];
    uint32_t count = kept_of(name, kept);

    qsbr_online(&qsbr, reader);
    radix_match(decided_tree(decided), DECIDED_ROOT, kept, count, &match);
    qsbr_offline(reader);
    return worker_set_has(&match.workers, SLOT) ? match.depth[SLOT] : 0;
}

Test(decided, it_counts_once_it_is_full)
{
    decide(1, 10);
    cr_assert(!decided_counts(decided, SLOT));
    decide(2, 20);
    cr_assert(decided_counts(decided, SLOT));
    cr_assert(!decided_counts(decided, SLOT + 1));
}

Test(decided, what_was_sent_longest_ago_is_given_up_first)
{
    decide(1, 10);
    decide(2, 20);
    decide(1, 30);
    decide(3, 40);
    cr_assert_eq(depth(1), KEPT);
    cr_assert_eq(depth(2), 0);
    cr_assert_eq(depth(3), KEPT);
}

Test(decided, a_larger_cache_has_room_again)
{
    role_is_control();
    decide(1, 10);
    decide(2, 20);
    cr_assert_eq(
        decided_open(decided, SLOT, (uint64_t)4 * BLOCKS, BLOCK, RADIX_LRU), 0);
    cr_assert(!decided_counts(decided, SLOT));
    decide(3, 30);
    cr_assert_eq(depth(1), KEPT);
}

Test(decided, nothing_is_kept_of_a_slot_without_an_owner)
{
    role_is_control();
    decide(1, 10);
    decide(2, 20);
    decided_close(decided, SLOT);
    cr_assert(!decided_counts(decided, SLOT));
    decide(3, 30);
    cr_assert_eq(depth(3), 0);
    for (uint32_t i = 0; i < 100 && decided_work(decided, 100, 40); i++) {
    }
    cr_assert_eq(decided_open(decided, SLOT, BLOCKS, BLOCK, RADIX_LRU), 0);
    cr_assert_eq(depth(1), 0);
}

Test(decided, a_request_counts_where_the_longest_prefix_ends)
{
    uint64_t kept[BLOCKS + 4];

    decide_held(1, 0, 1000);
    decide_held(1, 3, 1000);
    decide_held(1, 3, 1000);
    (void)kept_of(1, kept);
    cr_assert_eq(decided_heat(decided, kept[2]), 2000);
    cr_assert_eq(decided_heat(decided, kept[0]), 0);
    cr_assert_eq(decided_heat(decided, kept[KEPT - 1]), 0);
}

Test(decided, what_is_told_ends_with_the_longest_prefix)
{
    const uint64_t keys[2] = {11, 12};
    uint64_t out[3];

    cr_assert_eq(decided_told(keys, 2, 512, 12, out), 3);
    cr_assert_eq(out[2], 12);
    cr_assert_eq(decided_told(keys, 2, 16, 12, out), 0);
}

Test(decided, a_large_block_is_kept_as_it_is)
{
    const uint64_t keys[3] = {11, 12, 13};
    uint64_t kept[3];

    cr_assert_eq(decided_keys(keys, 3, 512, kept), 3);
    cr_assert_arr_eq(kept, keys, sizeof(keys));
}
