/* The radix tree when memory ends: by its bound, by the allocator, by readers
 * that do not move on. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>

#include "index/base/rng.h"
#include "index/radix.h"
#include "index/radix_internal.h"

#define ROOT  UINT64_C(0x1234)
#define DEPTH 64

/* An allocator that counts, and fails from its n-th call on. */
struct counting {
    size_t live_bytes;
    size_t most_bytes;
    uint64_t calls;
    uint64_t fail_from; /* 0: never */
};

static void *
counting_alloc(void *context, size_t size)
{
    struct counting *counting = context;

    if (++counting->calls >= counting->fail_from && counting->fail_from > 0) {
        return NULL;
    }
    counting->live_bytes += size;
    if (counting->live_bytes > counting->most_bytes) {
        counting->most_bytes = counting->live_bytes;
    }
    return malloc(size);
}

static void
counting_free(void *context, void *memory, size_t size)
{
    struct counting *counting = context;

    counting->live_bytes -= size;
    free(memory);
}

static struct counting counting;
static const struct radix_allocator allocator = {
    .alloc = counting_alloc, .free = counting_free, .context = &counting};
static struct qsbr qsbr;
static struct radix *radix;

static void
setup(size_t bytes_max)
{
    struct radix_limits limits = {.bytes_max = bytes_max,
                                  .namespaces_max = 1000,
                                  .depth_max = DEPTH,
                                  .allocator = &allocator};

    counting = (struct counting){.calls = 0};
    qsbr_init(&qsbr);
    cr_assert_eq(radix_new(&radix, &limits, &qsbr), 0);
}

static void
sound(void)
{
    const char *reason = NULL;

    cr_assert(radix_check(radix, &reason), "%s", reason);
}

static void
teardown(void)
{
    sound();
    radix_free(radix);
    qsbr_fini(&qsbr);
    cr_assert_eq(counting.live_bytes, 0);
}

static struct radix_stats
stats(void)
{
    struct radix_stats s;

    radix_stats(radix, &s);
    return s;
}

static void
prompt(uint64_t *keys, size_t common, uint64_t variant)
{
    uint64_t key = ROOT;

    for (size_t i = 0; i < DEPTH; i++) {
        key = rng_mix(key ^ (i < common ? 0 : variant));
        keys[i] = key;
    }
}

static uint32_t
depth(uint32_t worker, const uint64_t *keys, size_t count)
{
    struct radix_match match;

    radix_match(radix, ROOT, keys, count, &match);
    return worker_set_has(&match.workers, worker) ? match.depth[worker] : 0;
}

Test(index_radix_bound, a_bound_below_an_empty_tree_is_refused)
{
    struct radix_limits limits = {
        .bytes_max = 1000, .namespaces_max = 1, .depth_max = 10};
    struct radix *none = NULL;

    qsbr_init(&qsbr);
    for (; limits.bytes_max < 200000; limits.bytes_max += 999) {
        int rc = radix_new(&none, &limits, &qsbr);
        if (rc == 0) {
            radix_free(none);
            break;
        }
        cr_assert_eq(rc, -EINVAL);
    }
    cr_assert_lt(limits.bytes_max, 200000);
    qsbr_fini(&qsbr);
}

Test(index_radix_bound, new_without_memory_leaves_nothing)
{
    struct radix_limits limits = {.bytes_max = 1 << 20,
                                  .namespaces_max = 10,
                                  .depth_max = 10,
                                  .allocator = &allocator};

    qsbr_init(&qsbr);
    for (uint64_t n = 1; n <= 2; n++) {
        counting = (struct counting){.fail_from = n};
        cr_assert_eq(radix_new(&radix, &limits, &qsbr), -ENOMEM);
        cr_assert_eq(counting.live_bytes, 0);
    }
    qsbr_fini(&qsbr);
}

/* As many prompts as ten a second make in an hour, none like another; the
 * benchmark runs a day of them. */
Test(index_radix_bound, unique_prompts_stay_within_the_bound)
{
    uint64_t keys[DEPTH];
    size_t bound = 1 << 20;

    setup(bound);
    for (uint32_t worker = 0; worker < 8; worker++) {
        cr_assert_eq(radix_worker_add(radix, worker, UINT64_MAX,
                                      (enum radix_eviction)(worker % 6)),
                     0);
    }
    for (uint64_t i = 1; i <= 36000; i++) {
        uint32_t worker = (uint32_t)(i % 8);
        prompt(keys, i % 4, i);
        cr_assert_eq(
            radix_insert(radix, ROOT, keys, DEPTH, worker, 0, i * 100000), 0);
        cr_assert_eq(depth(worker, keys, DEPTH), DEPTH);
        if (i % 10 == 0) {
            (void)radix_work(radix, 4, i * 100000);
        }
        if (i % 1000 == 0) {
            sound();
        }
        cr_assert_leq(counting.live_bytes, bound);
        cr_assert_eq(stats().bytes, counting.live_bytes);
    }
    cr_assert_leq(counting.most_bytes, bound);
    cr_assert_gt(stats().evicted_bound, 36000 * DEPTH / 2);
    cr_assert_gt(stats().holder_blocks * 16, bound / 2, "most of it is used");
    teardown();
}

Test(index_radix_bound, the_least_recently_used_go_first)
{
    uint64_t keys[DEPTH];
    uint64_t old[DEPTH];
    uint64_t hot[DEPTH];

    setup(1 << 20);
    cr_assert_eq(radix_worker_add(radix, 0, UINT64_MAX, RADIX_LRU), 0);
    cr_assert_eq(radix_worker_add(radix, 1, UINT64_MAX, RADIX_MRU), 0);
    prompt(old, 0, 1);
    prompt(hot, 0, 2);
    cr_assert_eq(radix_insert(radix, ROOT, old, DEPTH, 1, 0, 1), 0);
    for (uint64_t i = 3; stats().evicted_bound < 10 * DEPTH; i++) {
        prompt(keys, 0, i);
        cr_assert_eq(
            radix_insert(radix, ROOT, keys, DEPTH, (uint32_t)i % 2, 0, i), 0);
        cr_assert_eq(radix_insert(radix, ROOT, hot, DEPTH, 1, 0, i), 0);
    }
    cr_assert_eq(depth(1, old, DEPTH), 0);
    cr_assert_eq(depth(1, hot, DEPTH), DEPTH);
    teardown();
}

/* Takes all memory but some bytes away. */
static uint32_t
hoard(size_t leave)
{
    uint32_t chain = CELL_NONE;

    for (size_t size = 32768; size >= CELL_UNIT; size /= 2) {
        for (;;) {
            uint32_t ref = cell_alloc(&radix->store, size);
            if (ref == CELL_NONE) {
                break;
            }
            if (cell_room(&radix->store) < leave) {
                cell_free(&radix->store, ref);
                break;
            }
            struct cell *cell = cell_at(&radix->store, ref);
            cell->link = chain;
            chain = ref;
        }
    }
    return chain;
}

static void
give_back(uint32_t chain)
{
    while (chain != CELL_NONE) {
        const struct cell *cell = cell_at(&radix->store, chain);
        uint32_t next = cell->link;
        cell_free(&radix->store, chain);
        chain = next;
    }
}

Test(index_radix_bound, work_keeps_room_free)
{
    uint64_t keys[DEPTH];

    setup(1 << 20);
    cr_assert_eq(radix_worker_add(radix, 0, UINT64_MAX, RADIX_LRU), 0);
    for (uint64_t i = 1; i < 3000; i++) {
        prompt(keys, 0, i);
        cr_assert_eq(radix_insert(radix, ROOT, keys, DEPTH, 0, 0, i), 0);
    }
    uint32_t chain = hoard(0);
    cr_assert_lt(cell_room(&radix->store), radix->room_wanted);
    cr_assert(radix_work(radix, 1, 3000));
    while (radix_work(radix, 1, 3000)) {
    }
    cr_assert_geq(cell_room(&radix->store), radix->room_wanted);
    give_back(chain);
    teardown();
}

Test(index_radix_bound, a_reader_that_stays_costs_knowledge_not_the_bound)
{
    uint64_t keys[DEPTH];
    uint64_t held;
    size_t bound = 1 << 20;

    setup(bound);
    struct qsbr_reader *reader = qsbr_register(&qsbr);
    cr_assert_eq(radix_worker_add(radix, 0, UINT64_MAX, RADIX_LRU), 0);
    qsbr_online(&qsbr, reader);
    for (uint64_t i = 1; stats().refused < 500; i++) {
        prompt(keys, 0, i);
        int rc = radix_insert(radix, ROOT, keys, DEPTH, 0, 0, i);
        cr_assert(rc == 0 || rc == RADIX_E_FULL);
        cr_assert_leq(counting.live_bytes, bound);
        (void)radix_work(radix, 10, i);
    }
    sound();
    /* Refusing, it does not go on to evict all there is. */
    held = stats().holder_blocks;
    cr_assert_gt(held, 10000);
    cr_assert_gt(stats().bytes_retired, 0);
    qsbr_offline(reader);
    prompt(keys, 0, 1 << 20);
    cr_assert_eq(radix_insert(radix, ROOT, keys, DEPTH, 0, 0, 1 << 20), 0);
    cr_assert_eq(depth(0, keys, DEPTH), DEPTH);
    teardown();
}

/* Whatever the n-th chunk is needed for, refusing it changes nothing. */
Test(index_radix_bound, a_failing_allocator_leaves_the_tree_unchanged)
{
    uint64_t keys[DEPTH];

    for (uint64_t n = 3; n < 9; n++) {
        bool failed = false;
        setup(4 << 20);
        counting.fail_from = n;
        cr_assert_eq(radix_worker_add(radix, 0, UINT64_MAX, RADIX_LFU), 0);
        for (uint64_t i = 1; i < 4000 && !failed; i++) {
            struct radix_stats before = stats();
            prompt(keys, (size_t)(i % 40), i);
            int rc = radix_insert(radix, ROOT, keys, DEPTH, 0, 0, i);
            failed = rc != 0;
            if (failed) {
                cr_assert_eq(rc, -ENOMEM);
                cr_assert_eq(stats().holder_blocks, before.holder_blocks);
                cr_assert_eq(stats().evicted_bound, 0);
                sound();
                counting.fail_from = 0;
                cr_assert_eq(radix_insert(radix, ROOT, keys, DEPTH, 0, 0, i),
                             0);
            }
        }
        cr_assert(failed, "call %lu never came", n);
        teardown();
    }
}

/* A small world in which one more insert needs every kind of object: a split, a
 * holder set, records, a fan, a tail. */
static void
small_world(uint64_t *keys)
{
    for (uint32_t worker = 0; worker < 6; worker++) {
        cr_assert_eq(radix_worker_add(radix, worker, 1000, RADIX_FIFO), 0);
    }
    for (uint32_t worker = 0; worker < 5; worker++) {
        prompt(keys, 30, 1);
        cr_assert_eq(
            radix_insert(radix, ROOT, keys, 20U + worker * 5, worker, 0, 1), 0);
        prompt(keys, 10, 2);
        cr_assert_eq(radix_insert(radix, ROOT, keys, 40, worker % 2, 0, 2), 0);
    }
    prompt(keys, 25, 3);
}

static int
insert_with(size_t room, uint64_t *keys, bool *more)
{
    setup(1 << 18);
    small_world(keys);
    while (radix_work(radix, 100, 5)) {
    }
    struct radix_stats before = stats();
    uint32_t chain = hoard(room);
    /* One attempt: evicting would change the tree, and is tested above. */
    worker_set_clear(&radix->live);
    int rc = radix_insert(radix, ROOT, keys, DEPTH, 5, 0, 10);
    for (uint32_t worker = 0; worker < 6; worker++) {
        worker_set_add(&radix->live, worker);
    }
    give_back(chain);
    sound();
    *more = rc != 0;
    cr_assert_eq(depth(5, keys, DEPTH), rc == 0 ? DEPTH : 0);
    cr_assert_eq(stats().holder_blocks,
                 before.holder_blocks + (rc == 0 ? DEPTH : 0));
    for (uint32_t worker = 0; worker < 5; worker++) {
        prompt(keys, 30, 1);
        cr_assert_eq(depth(worker, keys, DEPTH), 20U + worker * 5);
    }
    cr_assert_eq(radix_insert(radix, ROOT, keys, DEPTH, 5, 0, 11), 0);
    teardown();
    return rc;
}

Test(index_radix_bound, running_out_anywhere_in_an_insert_changes_nothing)
{
    uint64_t keys[DEPTH];
    bool more = true;
    size_t refused = 0;

    for (size_t room = 0; more; room += CELL_UNIT) {
        int rc = insert_with(room, keys, &more);
        cr_assert(rc == 0 || rc == RADIX_E_FULL);
        refused += rc != 0;
    }
    cr_assert_gt(refused, 20);
}

Test(index_radix_bound, a_policy_is_not_changed_without_room)
{
    uint64_t keys[DEPTH];

    setup(1 << 18);
    small_world(keys);
    uint32_t chain = hoard(0);
    cr_assert_eq(radix_worker_add(radix, 0, 1000, RADIX_LFU), RADIX_E_FULL);
    give_back(chain);
    sound();
    cr_assert_eq(radix_worker_add(radix, 0, 1000, RADIX_LFU), 0);
    teardown();
}

Test(index_radix_bound, a_tenant_per_request_does_not_starve_the_others)
{
    uint64_t keys[DEPTH];

    setup(4 << 20);
    cr_assert_eq(radix_worker_add(radix, 0, 4000000, RADIX_LRU), 0);
    for (uint64_t i = 1; i < 5000; i++) {
        prompt(keys, 0, i);
        cr_assert_eq(radix_insert(radix, i, keys, 3, 0, 0, i), 0);
        cr_assert_leq(stats().namespaces, 1000);
    }
    teardown();
}

/* Free memory is in pieces the size of small prompts, and there is room to be
 * made from hundreds of them. */
Test(index_radix_bound, a_long_prompt_finds_room_among_short_ones)
{
    static uint64_t keys[6000];
    struct radix_limits limits = {
        .bytes_max = 1 << 20, .namespaces_max = 10, .depth_max = 6000};
    struct rng rng;
    uint64_t key = 1;

    rng_init(&rng, 9);
    qsbr_init(&qsbr);
    cr_assert_eq(radix_new(&radix, &limits, &qsbr), 0);
    for (uint32_t worker = 0; worker < 16; worker++) {
        cr_assert_eq(radix_worker_add(radix, worker, UINT64_MAX, RADIX_LRU), 0);
    }
    for (uint64_t i = 0; i < 20000; i++) {
        size_t count =
            i > 5000 && i % 100 == 0 ? 6000 : 4 + (size_t)rng_below(&rng, 24);
        for (size_t k = 0; k < count; k++) {
            key = rng_mix(key);
            keys[k] = key;
        }
        cr_assert_eq(
            radix_insert(radix, ROOT, keys, count, (uint32_t)i % 16, 0, i), 0);
    }
    cr_assert_gt(stats().bytes_used, (size_t)9 << 20 >> 4);
    sound();
    radix_free(radix);
    qsbr_fini(&qsbr);
}
