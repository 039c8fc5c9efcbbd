/* The mirror: what it answers, after what records. */
#include <criterion/criterion.h>
#include <string.h>

#include "index/base/rng.h"
#include "index/mirror.h"

#define KEYS_MAX 600

static struct qsbr qsbr;
static struct mirror *mirror;
static uint64_t keys[KEYS_MAX]; /* of one chain */
static uint64_t words[4 * KEYS_MAX];
static struct event_words record;

static void
setup(void)
{
    struct mirror_limits limits = {.bytes_max = 64 << 20};
    uint64_t key = 99;

    qsbr_init(&qsbr);
    cr_assert_eq(mirror_new(&mirror, &limits, &qsbr), 0);
    for (uint32_t i = 0; i < KEYS_MAX; i++) {
        key = rng_mix(key);
        keys[i] = key;
    }
    record = (struct event_words){.words = words, .max = 4 * KEYS_MAX};
}

static void
teardown(void)
{
    const char *reason;

    cr_expect(mirror_check(mirror, &reason), "%s", reason);
    mirror_free(mirror);
    qsbr_fini(&qsbr);
}

TestSuite(index_mirror, .init = setup, .fini = teardown);

static uint32_t
open_slot(void)
{
    uint32_t slot = WORKER_NONE;

    cr_assert_eq(mirror_open(mirror, &slot), 0);
    return slot;
}

static void
say(enum event_kind kind, enum tier tier, uint32_t from, uint32_t count)
{
    uint64_t *to = event_words_add(&record, kind, tier, count);

    cr_assert_not_null(to);
    memcpy(to, keys + from, count * sizeof(uint64_t));
}

static void
apply(uint32_t slot, uint32_t holes)
{
    cr_assert_eq(mirror_apply(mirror, slot, record.words, record.count, holes),
                 0);
    record.count = 0;
}

static void
store(uint32_t slot, uint32_t from, uint32_t count, uint32_t holes)
{
    say(EVENT_STORE, TIER_DEVICE, from, count);
    apply(slot, holes);
}

static void
take(uint32_t slot, uint32_t from, uint32_t count, uint32_t holes)
{
    say(EVENT_REMOVE, TIER_DEVICE, from, count);
    apply(slot, holes);
}

static struct mirror_match
match(uint32_t count)
{
    struct mirror_match found;
    struct worker_set all;

    memset(&all, 0xFF, sizeof(all));
    mirror_match(mirror, &all, keys, count, &found);
    return found;
}

static uint32_t
depth(uint32_t slot, uint32_t count)
{
    struct mirror_match found = match(count);

    return worker_set_has(&found.slots, slot) ? found.depth[slot] : 0;
}

Test(index_mirror, an_empty_mirror_matches_nobody)
{
    struct mirror_match found = match(10);

    cr_assert(worker_set_empty(&found.slots));
    cr_assert_eq(found.best, 0);
}

Test(index_mirror, no_blocks_match_nobody)
{
    uint32_t slot = open_slot();

    store(slot, 0, 10, 0);
    struct mirror_match found = match(0);
    cr_assert(worker_set_empty(&found.slots));
}

Test(index_mirror, a_query_that_shares_one_of_130_blocks_scores_one)
{
    uint32_t slot = open_slot();
    uint64_t other[130];
    struct worker_set all;
    struct mirror_match found;

    store(slot, 0, 130, 0);
    memset(&all, 0xFF, sizeof(all));
    for (uint32_t i = 0; i < 130; i++) {
        other[i] = i == 0 ? keys[0] : rng_mix(keys[i] ^ 1);
    }
    mirror_match(mirror, &all, other, 130, &found);
    cr_assert_eq(found.depth[slot], 1);
    cr_assert_eq(found.best, 1);
}

Test(index_mirror, a_hole_of_59_in_130_blocks_ends_the_prefix)
{
    uint32_t slot = open_slot();

    store(slot, 0, 130, 0);
    take(slot, 40, 59, 1);
    cr_assert_eq(depth(slot, 130), 40);
    cr_assert_eq(mirror_slot_blocks(mirror, slot), 130 - 59);
}

Test(index_mirror, a_filled_hole_makes_the_prefix_whole)
{
    uint32_t slot = open_slot();

    store(slot, 0, 130, 0);
    take(slot, 40, 1, 1);
    store(slot, 40, 1, 0);
    cr_assert_eq(depth(slot, 130), 130);
}

Test(index_mirror, a_block_without_its_prefix_is_never_a_root)
{
    uint32_t slot = open_slot();

    store(slot, 5, 20, 1);
    cr_assert_eq(depth(slot, 130), 0);
    store(slot, 0, 4, 1);
    cr_assert_eq(depth(slot, 130), 4);
}

Test(index_mirror, one_slots_removal_never_drops_anothers)
{
    uint32_t slots[12];

    for (uint32_t i = 0; i < 12; i++) {
        slots[i] = open_slot();
        store(slots[i], 0, 100, 0);
    }
    for (uint32_t i = 11; i > 0; i--) {
        take(slots[i], 0, 100, 0);
        for (uint32_t k = 0; k < 12; k++) {
            cr_assert_eq(depth(slots[k], 100), k < i ? 100 : 0);
        }
    }
}

Test(index_mirror, unknown_holes_are_walked)
{
    uint32_t slot = open_slot();

    store(slot, 0, 130, EVENT_HOLES_UNKNOWN);
    take(slot, 70, 1, EVENT_HOLES_UNKNOWN);
    cr_assert_eq(depth(slot, 130), 70);
}

Test(index_mirror, each_slot_has_its_own_depth)
{
    uint32_t slots[WORKERS_MAX];

    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        slots[i] = open_slot();
        store(slots[i], 0, 1 + i % KEYS_MAX, 0);
    }
    struct mirror_match found = match(KEYS_MAX);
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        cr_assert_eq(found.depth[slots[i]], 1 + i % KEYS_MAX);
    }
    cr_assert_eq(worker_set_count(&found.slots), WORKERS_MAX);
}

Test(index_mirror, only_those_asked_for_answer)
{
    uint32_t a = open_slot();
    uint32_t b = open_slot();
    struct worker_set asked = {.word = {0}};
    struct mirror_match found;

    store(a, 0, 10, 0);
    store(b, 0, 20, 0);
    worker_set_add(&asked, a);
    mirror_match(mirror, &asked, keys, 30, &found);
    cr_assert_eq(worker_set_count(&found.slots), 1);
    cr_assert_eq(found.best, 10);
}

Test(index_mirror, applying_twice_changes_nothing)
{
    uint32_t slot = open_slot();
    struct mirror_stats stats;

    store(slot, 0, 10, 0);
    store(slot, 0, 10, 0);
    cr_assert_eq(mirror_slot_blocks(mirror, slot), 10);
    take(slot, 5, 5, 0);
    take(slot, 5, 5, 0);
    mirror_stats(mirror, &stats);
    cr_assert_eq(stats.stored, 10);
    cr_assert_eq(stats.removed, 5);
    cr_assert_eq(stats.repeated, 15);
    cr_assert_eq(depth(slot, 10), 5);
}

Test(index_mirror, a_key_of_zero_is_a_key)
{
    uint32_t slot = open_slot();

    keys[0] = 0;
    cr_assert_eq(depth(slot, 3), 0);
    store(slot, 0, 3, 0);
    cr_assert_eq(depth(slot, 3), 3);
    take(slot, 0, 3, 0);
    cr_assert_eq(depth(slot, 3), 0);
}

Test(index_mirror, a_closed_slot_is_gone_at_once)
{
    uint32_t slot = open_slot();

    store(slot, 0, 10, 0);
    mirror_close(mirror, slot);
    cr_assert_eq(depth(slot, 10), 0);
}

Test(index_mirror, a_swept_slot_is_not_free_before_its_readers_left)
{
    struct qsbr_reader *reader = qsbr_register(&qsbr);
    uint32_t slot;
    uint32_t again;

    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        slot = open_slot();
    }
    store(slot, 0, 10, 0);
    qsbr_online(&qsbr, reader);
    mirror_close(mirror, slot);
    while (mirror_work(mirror, 100)) {
    }
    cr_assert_eq(mirror_slot_blocks(mirror, slot), 0);
    cr_assert_eq(mirror_open(mirror, &again), MIRROR_E_NO_SLOT);
    qsbr_offline(reader);
    (void)mirror_work(mirror, 100);
    cr_assert_eq(mirror_open(mirror, &again), 0);
    cr_assert_eq(again, slot);
    cr_assert_eq(depth(again, 10), 0);
}

Test(index_mirror, a_slot_is_not_free_before_it_was_swept)
{
    uint32_t slot;
    uint32_t again;

    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        slot = open_slot();
    }
    store(slot, 0, KEYS_MAX, 0);
    mirror_close(mirror, slot);
    cr_assert(mirror_work(mirror, 8));
    cr_assert_eq(mirror_open(mirror, &again), MIRROR_E_NO_SLOT);
    while (mirror_work(mirror, 8)) {
    }
    cr_assert_eq(mirror_open(mirror, &again), 0);
}

Test(index_mirror, a_closed_slots_blocks_leave_others_alone)
{
    uint32_t a = open_slot();
    uint32_t b = open_slot();

    store(a, 0, 100, 0);
    store(b, 0, 90, 0);
    mirror_close(mirror, a);
    while (mirror_work(mirror, 64)) {
    }
    cr_assert_eq(depth(b, 100), 90);
    struct mirror_stats stats;
    mirror_stats(mirror, &stats);
    cr_assert_eq(stats.blocks, 90);
    cr_assert_eq(stats.holder_blocks, 90);
}

Test(index_mirror, digests_are_equal_when_the_blocks_are)
{
    uint32_t a = open_slot();
    uint32_t b = open_slot();

    store(a, 0, 100, 0);
    store(b, 50, 50, 1);
    cr_assert_neq(mirror_slot_digest(mirror, a), mirror_slot_digest(mirror, b));
    store(b, 0, 50, 0);
    cr_assert_eq(mirror_slot_digest(mirror, a), mirror_slot_digest(mirror, b));
}

Test(index_mirror, emptied_tables_are_given_back)
{
    uint32_t slot = open_slot();
    struct mirror_stats before;
    struct mirror_stats after;

    mirror_stats(mirror, &before);
    store(slot, 0, KEYS_MAX, 0);
    take(slot, 0, KEYS_MAX, 0);
    while (mirror_work(mirror, 1000)) {
    }
    mirror_stats(mirror, &after);
    cr_assert_eq(after.bytes, before.bytes);
    cr_assert_eq(after.bytes_retired, 0);
}

/* With two blocks left, two lines are sparse and one is too full. */
Test(index_mirror, work_on_tables_of_few_blocks_ends)
{
    uint32_t slot = open_slot();
    uint32_t rounds = 0;

    store(slot, 0, KEYS_MAX, 0);
    for (uint32_t left = KEYS_MAX; left > 0; left--) {
        take(slot, left - 1, 1, 0);
        for (rounds = 0; mirror_work(mirror, 1000) && rounds < 5000; rounds++) {
        }
        cr_assert_lt(rounds, 5000, "with %u blocks", left - 1);
    }
}

/* ---- tiers ---- */

static const struct mirror_weights weights = {
    .permille = {1000, 600, 300, 100}};

static uint64_t
score(uint32_t slot, uint32_t count, enum tier *worst)
{
    return mirror_score(mirror, slot, keys, count, &weights, worst);
}

Test(index_mirror, a_block_in_any_tier_counts_as_held)
{
    uint32_t slot = open_slot();

    say(EVENT_STORE, TIER_DEVICE, 0, 4);
    say(EVENT_STORE, TIER_HOST, 4, 4);
    say(EVENT_STORE, TIER_DISK, 8, 4);
    apply(slot, 0);
    cr_assert_eq(depth(slot, 20), 12);
}

Test(index_mirror, the_nearest_tier_of_each_block_is_scored)
{
    uint32_t slot = open_slot();
    enum tier worst;

    say(EVENT_STORE, TIER_DEVICE, 0, 4);
    say(EVENT_STORE, TIER_HOST, 0, 6);
    apply(slot, 0);
    cr_assert_eq(score(slot, 4, &worst), 4000);
    cr_assert_eq(worst, TIER_DEVICE);
    cr_assert_eq(score(slot, 6, &worst), 5200);
    cr_assert_eq(worst, TIER_HOST);
}

Test(index_mirror, each_tier_of_a_block_is_stored_once)
{
    uint32_t slot = open_slot();
    struct mirror_stats stats;

    store(slot, 0, 4, 0);
    for (uint32_t times = 0; times < 2; times++) {
        say(EVENT_STORE, TIER_HOST, 0, 4);
        apply(slot, 0);
    }
    mirror_stats(mirror, &stats);
    cr_assert_eq(stats.stored, 8);
    cr_assert_eq(stats.repeated, 4);
}

Test(index_mirror, a_block_moves_from_the_device_to_the_host)
{
    uint32_t slot = open_slot();
    enum tier worst;

    store(slot, 0, 3, 0);
    say(EVENT_STORE, TIER_HOST, 0, 3);
    say(EVENT_REMOVE, TIER_DEVICE, 0, 3);
    apply(slot, 0);
    cr_assert_eq(depth(slot, 3), 3);
    cr_assert_eq(score(slot, 3, &worst), 1800);
    say(EVENT_REMOVE, TIER_HOST, 0, 3);
    apply(slot, 0);
    cr_assert_eq(depth(slot, 3), 0);
}

Test(index_mirror, who_has_tiers_is_told_apart)
{
    uint32_t slot = open_slot();
    uint32_t other = open_slot();
    struct worker_set tiered;

    store(slot, 0, 3, 0);
    store(other, 0, 3, 0);
    say(EVENT_STORE, TIER_DISK, 2, 1);
    apply(slot, 0);
    tiered = mirror_tiered(mirror);
    cr_assert(worker_set_has(&tiered, slot) && !worker_set_has(&tiered, other));
    say(EVENT_REMOVE, TIER_DISK, 2, 1);
    apply(slot, 0);
    tiered = mirror_tiered(mirror);
    cr_assert(worker_set_empty(&tiered));
}

Test(index_mirror, tiers_of_two_slots_are_apart)
{
    uint32_t a = open_slot();
    uint32_t b = open_slot();
    enum tier worst;

    say(EVENT_STORE, TIER_HOST, 0, 9);
    apply(a, 0);
    say(EVENT_STORE, TIER_EXTERNAL, 0, 9);
    apply(b, 0);
    cr_assert_eq(score(a, 9, &worst), 5400);
    cr_assert_eq(score(b, 9, &worst), 900);
    mirror_close(mirror, a);
    while (mirror_work(mirror, 100)) {
    }
    cr_assert_eq(score(b, 9, &worst), 900);
    cr_assert_eq(worst, TIER_EXTERNAL);
}

/* More depths than intervals fit into a round: some slots are searched alone. */
Test(index_mirror, each_of_many_slots_has_a_depth_of_its_own)
{
    enum {
        MANY = 200
    };
    uint32_t depth[MANY];

    for (uint32_t i = 0; i < MANY; i++) {
        depth[i] = i * 7919 % KEYS_MAX + 1;
        cr_assert_eq(open_slot(), i);
        store(i, 0, depth[i], 0);
    }
    for (uint32_t count = KEYS_MAX; count > 0; count /= 2) {
        struct mirror_match found = match(count);
        for (uint32_t i = 0; i < MANY; i++) {
            cr_assert_eq(found.depth[i], depth[i] < count ? depth[i] : count);
        }
    }
}
