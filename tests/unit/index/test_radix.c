#include "index/radix.h"

#include <criterion/criterion.h>

#include "index/base/rng.h"
#include "index/radix_internal.h"

#define ROOT   UINT64_C(0x1234)
#define BIG    ((size_t)8 << 20)
#define BLOCKS 256 /* of the longest prompt here */

static struct qsbr qsbr;
static struct radix *radix;
static uint64_t now;

static void
setup_with(const struct radix_limits *limits)
{
    qsbr_init(&qsbr);
    now = 1000;
    cr_assert_eq(radix_new(&radix, limits, &qsbr), 0);
}

static void
setup(void)
{
    setup_with(&(struct radix_limits){
        .bytes_max = BIG, .namespaces_max = 64, .depth_max = BLOCKS});
}

static void
sound(void)
{
    const char *reason = NULL;
    struct radix_stats stats;

    cr_assert(radix_check(radix, &reason), "%s", reason);
    radix_stats(radix, &stats);
    cr_assert_leq(stats.bytes_used, stats.bytes);
}

static void
teardown(void)
{
    sound();
    radix_free(radix);
    qsbr_fini(&qsbr);
}

/* The chained keys of a prompt: common blocks, then ones of its own. */
static void
prompt(uint64_t *keys, uint64_t root, size_t common, size_t count,
       uint64_t variant)
{
    uint64_t key = root;

    for (size_t i = 0; i < count; i++) {
        key = rng_mix(key ^ (i < common ? 0 : variant));
        keys[i] = key;
    }
}

static int
learn(uint32_t worker, size_t common, size_t count, uint64_t variant)
{
    uint64_t keys[BLOCKS * 2];

    prompt(keys, ROOT, common, count, variant);
    return radix_insert(radix, ROOT, keys, count, worker, 0, ++now);
}

static uint32_t
depth_in(uint64_t root, uint32_t worker, size_t common, size_t count,
         uint64_t variant)
{
    uint64_t keys[BLOCKS * 2];
    struct radix_match match;

    prompt(keys, root, common, count, variant);
    radix_match(radix, root, keys, count, &match);
    return worker_set_has(&match.workers, worker) ? match.depth[worker] : 0;
}

static uint32_t
depth(uint32_t worker, size_t common, size_t count, uint64_t variant)
{
    return depth_in(ROOT, worker, common, count, variant);
}

static void
admit(uint32_t worker, uint64_t blocks_max, enum radix_eviction eviction)
{
    cr_assert_eq(radix_worker_add(radix, worker, blocks_max, eviction), 0);
}

static struct radix_stats
stats(void)
{
    struct radix_stats s;

    radix_stats(radix, &s);
    return s;
}

TestSuite(index_radix, .init = setup, .fini = teardown);

Test(index_radix, empty_tree_knows_nobody)
{
    struct radix_match match;
    uint64_t key = 5;

    radix_match(radix, ROOT, &key, 1, &match);
    cr_assert(worker_set_empty(&match.workers));
    cr_assert_eq(match.best, 0);
    radix_match(radix, ROOT, NULL, 0, &match);
    cr_assert_eq(match.best, 0);
}

Test(index_radix, depth_is_exact_for_every_length)
{
    admit(3, 1000, RADIX_LRU);
    cr_assert_eq(learn(3, 0, 100, 1), 0);
    for (size_t count = 0; count <= 130; count++) {
        cr_assert_eq(depth(3, 0, count, 1), count < 100 ? count : 100);
    }
    cr_assert_eq(depth(4, 0, 100, 1), 0);
}

Test(index_radix, sharing_one_block_of_130_scores_one)
{
    admit(0, 1000, RADIX_LRU);
    cr_assert_eq(learn(0, 1, 130, 1), 0);
    cr_assert_eq(depth(0, 1, 130, 2), 1);
    for (size_t common = 0; common <= 130; common++) {
        uint64_t keys[130];
        struct radix_match match;
        prompt(keys, ROOT, 1, 130, 1);
        uint64_t key = common > 0 ? keys[common - 1] : ROOT;
        for (size_t i = common; i < 130; i++) {
            key = rng_mix(key ^ 99);
            keys[i] = key;
        }
        radix_match(radix, ROOT, keys, 130, &match);
        cr_assert_eq(match.best, common);
    }
}

Test(index_radix, each_worker_drops_out_where_it_stops)
{
    for (uint32_t worker = 0; worker < 40; worker++) {
        admit(worker, 1000, RADIX_LRU);
        cr_assert_eq(learn(worker, 100, worker * 2 + 1, 0), 0);
        sound();
    }
    for (uint32_t worker = 0; worker < 40; worker++) {
        cr_assert_eq(depth(worker, 100, 100, 0), worker * 2 + 1);
        cr_assert_eq(radix_worker_blocks(radix, worker), worker * 2 + 1);
    }
    cr_assert_eq(stats().blocks, 79);
}

Test(index_radix, many_stop_together_at_several_depths)
{
    for (uint32_t worker = 0; worker < 60; worker++) {
        admit(worker, 1000, RADIX_LRU);
        cr_assert_eq(learn(worker, 100, 10 + worker / 20 * 10, 0), 0);
    }
    for (uint32_t worker = 0; worker < 60; worker++) {
        cr_assert_eq(depth(worker, 100, 50, 0), 10 + worker / 20 * 10);
    }
    for (uint32_t worker = 0; worker < 60; worker += 2) {
        radix_worker_remove(radix, worker);
    }
    for (uint32_t worker = 0; worker < 60; worker++) {
        cr_assert_eq(depth(worker, 100, 50, 0),
                     worker % 2 == 0 ? 0 : 10 + worker / 20 * 10);
    }
}

Test(index_radix, a_full_house_shares_one_node_and_leaves_it)
{
    for (uint32_t worker = 0; worker < WORKERS_MAX; worker++) {
        admit(worker, 1000, RADIX_LRU);
        cr_assert_eq(learn(worker, 50, 50, 0), 0);
    }
    cr_assert_eq(stats().nodes, 2); /* the namespace and the edge */
    sound();
    for (uint32_t worker = 0; worker < WORKERS_MAX; worker++) {
        cr_assert_eq(depth(worker, 50, 60, 0), 50);
        radix_worker_remove(radix, worker);
        cr_assert_eq(depth(worker, 50, 60, 0), 0);
        cr_assert_eq(depth(WORKERS_MAX - 1, 50, 60, 0),
                     worker == WORKERS_MAX - 1 ? 0 : 50);
        while (radix_work(radix, 4, now)) {
        }
        if (worker % 16 == 0) {
            sound();
        }
    }
    cr_assert_eq(stats().nodes, 0);
    cr_assert_eq(stats().namespaces, 0);
}

/* The node in which a worker's only leaf ends. */
static const struct radix_node *
leaf_node(uint32_t worker)
{
    const struct order *order = &radix->worker[worker].order[BY_POLICY];
    uint32_t record = order_record(order, &radix->store, 0);

    cr_assert_eq(order->count, 1);
    return node_at(radix, record_at(radix, record)->node);
}

/* A reader may be at the node since before the holder set: see radix_node.c. */
Test(index_radix, who_outlasts_a_holder_set_is_where_it_was_before)
{
    for (uint32_t worker = 0; worker < 5; worker++) {
        admit(worker, 1000, RADIX_LRU);
        cr_assert_eq(learn(worker, 50, 50, 0), 0);
    }
    const struct radix_node *node = leaf_node(1);
    cr_assert_neq(slot_load(&node->holder_set), CELL_NONE);
    cr_assert_eq(slot_load(&node->hold[1].word) >> 16, 2);
    for (uint32_t worker = 0; worker < 5; worker++) {
        if (worker != 1 && worker != 3) {
            radix_worker_remove(radix, worker);
        }
    }
    while (radix_work(radix, 1, now)) {
        sound();
    }
    cr_assert_eq(leaf_node(1), node);
    cr_assert_eq(slot_load(&node->holder_set), CELL_NONE);
    cr_assert_eq(slot_load(&node->hold[0].word) >> 16, 4);
    cr_assert_eq(slot_load(&node->hold[1].word) >> 16, 2);
}

Test(index_radix, a_holder_set_is_copied_when_most_have_left)
{
    for (uint32_t worker = 0; worker < 40; worker++) {
        admit(worker, 1000, RADIX_LRU);
        cr_assert_eq(learn(worker, 50, 50, 0), 0);
    }
    for (uint32_t worker = 0; worker < 35; worker++) {
        radix_worker_remove(radix, worker);
    }
    while (radix_work(radix, 1, now)) {
    }
    const struct radix_holder_set *holder_set =
        holder_set_at(radix, slot_load(&leaf_node(39)->holder_set));
    cr_assert_eq(holder_set->live, 5);
    cr_assert_leq(holder_set->members, 10);
    cr_assert_eq(depth(39, 50, 50, 0), 50);
}

Test(index_radix, thousands_of_children_are_all_found)
{
    admit(1, 1 << 20, RADIX_LRU);
    for (uint64_t child = 1; child <= 5000; child++) {
        cr_assert_eq(learn(1, 10, 12, child), 0);
    }
    sound();
    for (uint64_t child = 1; child <= 5000; child++) {
        cr_assert_eq(depth(1, 10, 12, child), 12);
    }
    cr_assert_eq(depth(1, 10, 12, 5001), 10);
    cr_assert_eq(radix_worker_blocks(radix, 1), 10 + 5000 * 2);
}

/* Keys whose hashes share all bits but the last, the worst for a trie. */
Test(index_radix, children_that_differ_in_the_last_bit_are_apart)
{
    uint64_t inverse = 0x9E3779B97F4A7C15U;

    for (int i = 0; i < 6; i++) {
        inverse *= 2 - 0x9E3779B97F4A7C15U * inverse;
    }
    admit(1, 1000, RADIX_LRU);
    for (uint64_t i = 0; i < 16; i++) {
        uint64_t key = (UINT64_C(0xABCDEF0123456780) + i) * inverse;
        cr_assert_eq(radix_insert(radix, ROOT, &key, 1, 1, 0, ++now), 0);
        sound();
    }
    cr_assert_eq(radix_worker_blocks(radix, 1), 16);
    admit(1, 3, RADIX_LRU);
    while (radix_work(radix, 1, now)) {
        sound();
    }
    cr_assert_eq(radix_worker_blocks(radix, 1), 3);
    for (uint64_t i = 0; i < 16; i++) {
        uint64_t key = (UINT64_C(0xABCDEF0123456780) + i) * inverse;
        struct radix_match match;
        radix_match(radix, ROOT, &key, 1, &match);
        cr_assert_eq(match.best, i >= 13);
    }
}

Test(index_radix, namespaces_do_not_see_each_other)
{
    uint64_t keys[20];

    admit(1, 1000, RADIX_LRU);
    prompt(keys, 7, 0, 20, 1);
    cr_assert_eq(radix_insert(radix, 7, keys, 20, 1, 0, ++now), 0);
    cr_assert_eq(depth_in(7, 1, 0, 20, 1), 20);
    cr_assert_eq(depth_in(8, 1, 0, 20, 1), 0);
    struct radix_match match;
    radix_match(radix, 8, keys, 20, &match);
    cr_assert_eq(match.best, 0);
    cr_assert_eq(stats().namespaces, 1);
}

Test(index_radix, prefixes_are_truncated_at_depth_max)
{
    admit(1, 1000, RADIX_LRU);
    cr_assert_eq(learn(1, 0, BLOCKS + 50, 1), 0);
    cr_assert_eq(radix_worker_blocks(radix, 1), BLOCKS);
    cr_assert_eq(depth(1, 0, BLOCKS + 50, 1), BLOCKS);
}

Test(index_radix, learning_twice_counts_once)
{
    admit(1, 1000, RADIX_LRU);
    cr_assert_eq(learn(1, 0, 30, 1), 0);
    size_t used = stats().bytes_used;
    cr_assert_eq(learn(1, 0, 30, 1), 0);
    cr_assert_eq(radix_worker_blocks(radix, 1), 30);
    cr_assert_eq(stats().bytes_used, used);
    cr_assert_eq(stats().holder_blocks, 30);
}

Test(index_radix, the_tail_of_the_oldest_leaf_goes_first)
{
    admit(1, 100, RADIX_LRU);
    cr_assert_eq(learn(1, 0, 40, 1), 0);
    cr_assert_eq(learn(1, 0, 40, 2), 0);
    cr_assert_eq(learn(1, 0, 35, 3), 0); /* 15 too many */
    cr_assert_eq(depth(1, 0, 40, 1), 25);
    cr_assert_eq(depth(1, 0, 40, 2), 40);
    cr_assert_eq(depth(1, 0, 35, 3), 35);
    cr_assert_eq(stats().evicted_blocks, 15);
    cr_assert_eq(radix_worker_blocks(radix, 1), 100);
}

Test(index_radix, others_keep_what_one_gives_up)
{
    admit(1, 60, RADIX_LRU);
    admit(2, 1000, RADIX_LRU);
    cr_assert_eq(learn(1, 0, 40, 1), 0);
    cr_assert_eq(learn(2, 0, 40, 1), 0);
    cr_assert_eq(learn(1, 0, 50, 2), 0);
    cr_assert_eq(depth(1, 0, 40, 1), 10);
    cr_assert_eq(depth(2, 0, 40, 1), 40);
    sound();
    cr_assert_eq(learn(1, 0, 40, 1), 0); /* comes back to it */
    cr_assert_eq(depth(1, 0, 40, 1), 40);
    cr_assert_eq(depth(1, 0, 50, 2), 20);
}

Test(index_radix, a_prefix_in_use_outlives_its_branches)
{
    admit(1, 40, RADIX_LRU);
    cr_assert_eq(learn(1, 20, 30, 1), 0);
    cr_assert_eq(learn(1, 20, 30, 2), 0);
    cr_assert_eq(learn(1, 20, 30, 3), 0);
    cr_assert_eq(depth(1, 20, 30, 1), 20);
    cr_assert_eq(depth(1, 20, 30, 2), 30);
    cr_assert_eq(depth(1, 20, 30, 3), 30);
}

/* Three leaves: variant 1 used three times, 2 once and first, 3 once and last;
 * priorities 1, 2, 0. Which one is short after ten blocks too many? */
static uint64_t
who_gives_way(enum radix_eviction eviction)
{
    static const struct {
        uint64_t variant;
        uint8_t priority;
    } use[] = {{2, 2}, {1, 1}, {1, 1}, {3, 0}, {1, 1}};
    uint64_t keys[20];

    admit(1, 60, eviction);
    for (size_t i = 0; i < 5; i++) {
        prompt(keys, ROOT, 0, 20, use[i].variant);
        cr_assert_eq(
            radix_insert(radix, ROOT, keys, 20, 1, use[i].priority, ++now), 0);
    }
    prompt(keys, ROOT, 0, 10, 4);
    cr_assert_eq(radix_insert(radix, ROOT, keys, 10, 1, 3, ++now), 0);
    cr_assert_eq(depth(1, 0, 10, 4), 10);
    for (uint64_t variant = 1; variant <= 3; variant++) {
        if (depth(1, 0, 20, variant) == 10) {
            return variant;
        }
    }
    return 0;
}

Test(index_radix, lru_gives_up_the_least_recently_used)
{
    cr_assert_eq(who_gives_way(RADIX_LRU), 2);
}

Test(index_radix, lfu_gives_up_the_least_used_then_the_older)
{
    cr_assert_eq(who_gives_way(RADIX_LFU), 2);
}

Test(index_radix, fifo_gives_up_the_first_made)
{
    cr_assert_eq(who_gives_way(RADIX_FIFO), 2);
}

Test(index_radix, mru_gives_up_the_last_used)
{
    cr_assert_eq(who_gives_way(RADIX_MRU), 1);
}

Test(index_radix, filo_gives_up_the_last_made)
{
    cr_assert_eq(who_gives_way(RADIX_FILO), 3);
}

Test(index_radix, priority_gives_up_the_least_important)
{
    cr_assert_eq(who_gives_way(RADIX_PRIORITY), 3);
}

Test(index_radix, lfu_counts_uses_of_branches_that_are_gone)
{
    admit(1, 60, RADIX_LFU);
    for (uint64_t variant = 1; variant <= 3; variant++) {
        cr_assert_eq(learn(1, 10, 20, variant), 0); /* the stem: 3 uses */
    }
    cr_assert_eq(learn(1, 0, 20, 9), 0);
    cr_assert_eq(learn(1, 0, 20, 9), 0); /* 2 uses */
    cr_assert_eq(radix_worker_blocks(radix, 1), 60);
    cr_assert_eq(learn(1, 0, 35, 8), 0); /* the branches go, then some of 9 */
    cr_assert_eq(depth(1, 10, 20, 1), 10);
    cr_assert_eq(depth(1, 10, 20, 2), 10);
    cr_assert_eq(depth(1, 10, 20, 3), 10);
    cr_assert_eq(depth(1, 0, 20, 9), 15);
}

Test(index_radix, what_was_just_learned_stays_whatever_the_policy)
{
    for (uint32_t eviction = RADIX_LRU; eviction <= RADIX_PRIORITY;
         eviction++) {
        admit(eviction, 50, (enum radix_eviction)eviction);
        for (uint64_t variant = 1; variant < 20; variant++) {
            cr_assert_eq(learn(eviction, 10, 30, variant), 0);
            cr_assert_eq(depth(eviction, 10, 30, variant), 30);
            cr_assert_leq(radix_worker_blocks(radix, eviction), 50);
        }
        sound();
    }
}

Test(index_radix, a_prefix_over_capacity_is_truncated)
{
    admit(1, 30, RADIX_MRU);
    cr_assert_eq(learn(1, 0, 20, 1), 0);
    cr_assert_eq(learn(1, 0, 90, 2), 0);
    cr_assert_eq(depth(1, 0, 90, 2), 30);
    cr_assert_eq(depth(1, 0, 20, 1), 0);
    admit(2, 0, RADIX_LRU);
    cr_assert_eq(learn(2, 0, 20, 1), 0);
    cr_assert_eq(radix_worker_blocks(radix, 2), 0);
}

Test(index_radix, a_smaller_capacity_is_reached_in_steps)
{
    admit(1, 1000, RADIX_LRU);
    for (uint64_t variant = 1; variant <= 30; variant++) {
        cr_assert_eq(learn(1, 0, 30, variant), 0);
    }
    admit(1, 100, RADIX_LRU);
    cr_assert(radix_work(radix, 1, now));
    cr_assert_gt(radix_worker_blocks(radix, 1), 100);
    sound();
    while (radix_work(radix, 5, now)) {
    }
    cr_assert_eq(radix_worker_blocks(radix, 1), 100);
    cr_assert_eq(depth(1, 0, 30, 30), 30);
    cr_assert_eq(depth(1, 0, 30, 1), 0);
}

Test(index_radix, another_policy_reorders_what_is_there)
{
    admit(1, 60, RADIX_LRU);
    cr_assert_eq(learn(1, 0, 20, 1), 0);
    cr_assert_eq(learn(1, 0, 20, 2), 0);
    cr_assert_eq(learn(1, 0, 20, 3), 0);
    admit(1, 60, RADIX_MRU);
    sound();
    cr_assert_eq(learn(1, 0, 5, 4), 0);
    cr_assert_eq(depth(1, 0, 20, 3), 15);
    admit(1, 60, RADIX_LRU);
    sound();
    cr_assert_eq(learn(1, 0, 5, 5), 0);
    cr_assert_eq(depth(1, 0, 20, 1), 15);
}

Test(index_radix, a_removed_worker_vanishes_at_once_and_alone)
{
    admit(1, 1000, RADIX_LRU);
    admit(2, 1000, RADIX_LRU);
    for (uint64_t variant = 1; variant <= 50; variant++) {
        cr_assert_eq(learn(1, 10, 20, variant), 0);
        cr_assert_eq(learn(2, 10, 20, variant), 0);
    }
    radix_worker_remove(radix, 1);
    cr_assert_eq(depth(1, 10, 20, 7), 0);
    cr_assert_eq(depth(2, 10, 20, 7), 20);
    cr_assert_eq(radix_worker_blocks(radix, 1), 0);
    cr_assert_eq(learn(1, 0, 5, 1), RADIX_E_GONE);
    cr_assert_eq(radix_worker_add(radix, 1, 10, RADIX_LRU), RADIX_E_FULL);
    while (radix_work(radix, 3, now)) {
        sound();
    }
    cr_assert_eq(stats().holder_blocks, radix_worker_blocks(radix, 2));
    admit(1, 10, RADIX_FIFO);
    cr_assert_eq(depth(1, 10, 20, 7), 0);
    cr_assert_eq(depth(2, 10, 20, 7), 20);
}

Test(index_radix, removing_nobody_is_fine)
{
    radix_worker_remove(radix, 9);
    cr_assert_eq(learn(9, 0, 5, 1), RADIX_E_GONE);
    cr_assert_eq(radix_worker_add(radix, 9, 10, RADIX_LRU), 0);
}

Test(index_radix, an_emptied_tree_gives_its_memory_back)
{
    size_t empty = stats().bytes_used;

    for (uint32_t worker = 0; worker < 8; worker++) {
        admit(worker, 5000, (enum radix_eviction)(worker % 6));
        for (uint64_t variant = 1; variant <= 100; variant++) {
            cr_assert_eq(learn(worker, 20, 60, variant * (worker / 2 + 1)), 0);
        }
    }
    cr_assert_gt(stats().bytes_used, empty + 100000);
    for (uint32_t worker = 0; worker < 8; worker++) {
        radix_worker_remove(radix, worker);
    }
    while (radix_work(radix, 100, now)) {
    }
    cr_assert_eq(stats().bytes_used, empty);
    cr_assert_eq(stats().nodes, 0);
    cr_assert_leq(stats().bytes, empty + CELL_CHUNK_MAX);
}

Test(index_radix, a_namespace_too_many_replaces_the_least_recent)
{
    uint64_t keys[20];

    admit(1, 100000, RADIX_LRU);
    for (uint64_t root = 1; root <= 64; root++) {
        prompt(keys, root, 0, 20, 1);
        cr_assert_eq(radix_insert(radix, root, keys, 20, 1, 0, ++now), 0);
    }
    cr_assert_eq(depth_in(1, 1, 0, 20, 1), 20);
    prompt(keys, 65, 0, 20, 1);
    cr_assert_eq(radix_insert(radix, 65, keys, 20, 1, 0, ++now), 0);
    cr_assert_eq(depth_in(65, 1, 0, 20, 1), 20);
    cr_assert_eq(depth_in(1, 1, 0, 20, 1), 0);
    cr_assert_eq(depth_in(2, 1, 0, 20, 1), 20);
    cr_assert_eq(stats().namespaces, 64);
    cr_assert_eq(stats().evicted_bound, 20);
}

Test(index_radix, a_conversation_stays_one_node_while_its_blocks_are_alike)
{
    admit(1, 1000, RADIX_LRU);
    admit(2, 1000, RADIX_LFU);
    for (size_t turn = 1; turn <= 10; turn++) {
        cr_assert_eq(learn(1, 0, turn * 10, 1), 0);
        cr_assert_eq(stats().nodes, 2);
        cr_assert_eq(depth(1, 0, 100, 1), turn * 10);
        sound();
    }
    for (size_t turn = 1; turn <= 10; turn++) {
        cr_assert_eq(learn(2, 0, turn * 10, 2), 0);
        cr_assert_eq(stats().nodes, 2 + turn);
    }
    cr_assert_eq(learn(2, 0, 100, 1), 0); /* now two hold it */
    cr_assert_eq(learn(1, 0, 120, 1), 0);
    cr_assert_eq(stats().nodes, 13);
    cr_assert_eq(depth(1, 0, 120, 1), 120);
    cr_assert_eq(depth(2, 0, 120, 1), 100);
}

Test(index_radix, priority_grows_a_node_only_when_it_is_not_lowered)
{
    static const uint8_t priority[] = {1, 1, 3, 2};
    static const uint64_t nodes[] = {2, 2, 2, 3};
    uint64_t keys[40];

    admit(1, 30, RADIX_PRIORITY);
    prompt(keys, ROOT, 0, 40, 1);
    for (size_t turn = 0; turn < 4; turn++) {
        cr_assert_eq(radix_insert(radix, ROOT, keys, 5 + turn * 5, 1,
                                  priority[turn], ++now),
                     0);
        cr_assert_eq(stats().nodes, nodes[turn]);
    }
    prompt(keys, ROOT, 0, 20, 2);
    cr_assert_eq(radix_insert(radix, ROOT, keys, 20, 1, 2, ++now), 0);
    cr_assert_eq(depth(1, 0, 40, 1), 10);
}

Test(index_radix, prompts_longer_than_a_node_are_chained)
{
    static uint64_t keys[9000];
    struct radix_match match;

    radix_free(radix);
    setup_with(&(struct radix_limits){
        .bytes_max = BIG, .namespaces_max = 4, .depth_max = 8000});
    admit(1, 6000, RADIX_LRU);
    admit(2, 10000, RADIX_FIFO);
    prompt(keys, ROOT, 0, 9000, 1);
    for (size_t count = 1500; count <= 9000; count += 1500) {
        cr_assert_eq(radix_insert(radix, ROOT, keys, count, 2, 0, ++now), 0);
        cr_assert_eq(radix_insert(radix, ROOT, keys, count, 1, 0, ++now), 0);
        sound();
        for (size_t asked = 0; asked <= 9000; asked += 123) {
            size_t two = asked < count ? asked : count;
            two = two < 8000 ? two : 8000;
            radix_match(radix, ROOT, keys, asked, &match);
            cr_assert_eq(match.best, two);
            cr_assert(two == 0 || match.depth[1] == (two < 6000 ? two : 6000));
        }
    }
    cr_assert_eq(radix_worker_blocks(radix, 1), 6000);
    cr_assert_eq(radix_worker_blocks(radix, 2), 8000);
    prompt(keys, ROOT, 0, 5500, 2);
    cr_assert_eq(radix_insert(radix, ROOT, keys, 5500, 1, 0, ++now), 0);
    prompt(keys, ROOT, 0, 9000, 1);
    radix_match(radix, ROOT, keys, 9000, &match);
    cr_assert_eq(match.depth[1], 500);
    cr_assert_eq(match.depth[2], 8000);
}

Test(index_radix, the_rest_of_a_long_leaf_is_copied_to_its_size)
{
    admit(1, 220, RADIX_LRU);
    cr_assert_eq(learn(1, 0, 200, 1), 0);
    size_t before = stats().bytes_used;
    cr_assert_eq(learn(1, 0, 30, 2), 0); /* 10 gone, 190 left */
    cr_assert_eq(stats().blocks, 230);
    cr_assert_eq(learn(1, 0, 110, 3), 0); /* 80 left */
    while (radix_work(radix, 1, now)) {
    }
    cr_assert_eq(stats().blocks, 220);
    cr_assert_eq(depth(1, 0, 200, 1), 80);
    cr_assert_lt(stats().bytes_used, before + 80 * 8 + 600);
}

Test(index_radix, keys_that_are_no_chain_do_no_harm)
{
    struct rng rng;
    uint64_t keys[64];
    struct radix_match match;

    rng_init(&rng, 3);
    admit(1, 60, RADIX_LRU);
    admit(2, 90, RADIX_LFU);
    for (int round = 0; round < 3000; round++) {
        size_t count = 1 + (size_t)rng_below(&rng, 64);
        for (size_t i = 0; i < count; i++) {
            keys[i] = rng_below(&rng, 4);
        }
        cr_assert_eq(radix_insert(radix, rng_below(&rng, 3), keys, count,
                                  1 + (uint32_t)rng_below(&rng, 2), 0, ++now),
                     0);
        radix_match(radix, 1, keys, count, &match);
        cr_assert_leq(match.best, count);
        if (round % 50 == 0) {
            sound();
        }
    }
}
