/* The mirror when memory ends: by its bound, by the allocator, by readers that
 * do not move on. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "index/base/rng.h"
#include "index/mirror.h"
#include "index/mirror_internal.h"
#include "tests/unit/failing_alloc.h"

#define KEYS  3000
#define SLOTS 8

static struct qsbr qsbr;
static struct mirror *mirror;
static uint64_t words[KEYS + 1];

static void
begin(size_t bytes_max)
{
    struct mirror_limits limits = {.bytes_max = bytes_max};

    qsbr_init(&qsbr);
    cr_assert_eq(mirror_new(&mirror, &limits, &qsbr), 0);
}

static void
end(void)
{
    const char *reason;

    cr_assert(mirror_check(mirror, &reason), "%s", reason);
    mirror_free(mirror);
    qsbr_fini(&qsbr);
}

/* A record of one op on count keys of a chain, in words. */
static uint32_t
chain(enum event_kind kind, enum tier tier, uint64_t seed, uint32_t count)
{
    words[0] = event_op(kind, tier, count);
    for (uint32_t i = 1; i <= count; i++) {
        words[i] = seed = rng_mix(seed);
    }
    return count + 1;
}

static int
store(uint32_t slot, enum tier tier, uint64_t seed, uint32_t count)
{
    return mirror_apply(mirror, slot, words,
                        chain(EVENT_STORE, tier, seed, count), 0);
}

static uint32_t
depth(uint32_t slot, uint32_t count)
{
    struct worker_set asked = {.word = {0}};
    struct mirror_match found;

    worker_set_add(&asked, slot);
    mirror_match(mirror, &asked, words + 1, count, &found);
    return found.best;
}

Test(index_mirror_memory, a_bound_below_an_empty_index_is_refused)
{
    struct mirror_limits limits = {.bytes_max = 100};

    qsbr_init(&qsbr);
    cr_assert_eq(mirror_new(&mirror, &limits, &qsbr), -EINVAL);
    limits.bytes_max = sizeof(struct mirror);
    cr_assert_eq(mirror_new(&mirror, &limits, &qsbr), 0);
    mirror_free(mirror);
    mirror_free(NULL);
}

/* Each shard's table gets a hundred keys, one at a time. Growing as little as
 * possible would take eleven tables for each. */
Test(index_mirror_memory, small_tables_grow_in_few_steps)
{
    struct mirror_stats stats;
    uint32_t slot;

    begin(64 << 20);
    cr_assert_eq(mirror_open(mirror, &slot), 0);
    for (uint64_t i = 0; i < 25600; i++) {
        cr_assert_eq(store(slot, TIER_DEVICE, i, 1), 0);
    }
    mirror_stats(mirror, &stats);
    cr_assert_eq(stats.holder_blocks, 25600);
    cr_assert_leq(stats.grown, 256 * 6);
    end();
}

Test(index_mirror_memory, the_bound_refuses_and_holds)
{
    struct mirror_stats stats;
    uint32_t slot;
    uint64_t refused = 0;

    begin(sizeof(struct mirror) + 80000);
    cr_assert_eq(mirror_open(mirror, &slot), 0);
    for (uint64_t i = 0; i < 10; i++) {
        int rc = store(slot, TIER_DEVICE, i, KEYS);
        mirror_stats(mirror, &stats);
        cr_assert(stats.bytes <= sizeof(struct mirror) + 80000);
        cr_assert_eq(rc == MIRROR_E_FULL, stats.refused > refused);
        refused = stats.refused;
    }
    cr_assert_gt(refused, 0);
    cr_assert_eq(stats.holder_blocks + refused, 10 * KEYS);
    end();
}

Test(index_mirror_memory, a_refused_block_is_a_hole_that_is_seen)
{
    uint32_t slot;
    uint64_t seed = 0;

    begin(sizeof(struct mirror) + 40000);
    cr_assert_eq(mirror_open(mirror, &slot), 0);
    while (store(slot, TIER_DEVICE, seed, KEYS) == 0) {
        seed++;
    }
    /* Blocks after the first one left out were stored here and there. */
    uint32_t found = depth(slot, KEYS);
    cr_assert_lt(found, KEYS);
    for (uint32_t count = 1; count <= KEYS; count++) {
        cr_assert_eq(depth(slot, count), count < found ? count : found);
    }
    end();
}

Test(index_mirror_memory, a_closed_slot_makes_room_again)
{
    uint32_t slot;

    begin(sizeof(struct mirror) + 80000);
    for (uint32_t i = 0; i < 20; i++) {
        cr_assert_eq(mirror_open(mirror, &slot), 0);
        cr_assert_eq(store(slot, TIER_DEVICE, i, KEYS - 1000), 0);
        cr_assert_eq(depth(slot, KEYS - 1000), KEYS - 1000);
        mirror_close(mirror, slot);
        while (mirror_work(mirror, 1000)) {
        }
    }
    end();
}

/* Fills this many slots alike, until little of the bound is left. */
static struct worker_set
fill_most(uint32_t slots, size_t bytes_max)
{
    struct worker_set filled = {.word = {0}};
    struct mirror_stats stats = {.bytes = 0};
    uint32_t slot;

    for (uint32_t i = 0; i < slots; i++) {
        cr_assert_eq(mirror_open(mirror, &slot), 0);
        worker_set_add(&filled, slot);
    }
    for (uint64_t seed = 1; stats.bytes < bytes_max / 32 * 31; seed++) {
        WORKER_SET_EACH (to, &filled) {
            cr_assert_eq(store(to, TIER_DEVICE, seed, 100), 0);
        }
        (void)mirror_work(mirror, 1000);
        mirror_stats(mirror, &stats);
    }
    return filled;
}

static void
load_all(struct mirror *into, const struct worker_set *filled)
{
    struct watch_slots slots = {.live = *filled, .kept = *filled};

    WORKER_SET_EACH (slot, filled) {
        cr_assert_eq(mirror_open_at(into, slot), 0);
    }
    for (uint32_t part = 0; part < mirror_parts(); part++) {
        struct mirror_reading at = {0};
        struct words image;
        words_init(&image, (size_t)1 << 24);
        cr_assert_not(mirror_image(mirror, part, UINT32_MAX, &at, &image));
        cr_assert_eq(mirror_load(into, image.word, image.count, &slots), 0,
                     "part %u", part);
        words_fini(&image);
    }
}

/* Else a node whose mirror is nearly full would start cold. */
Test(index_mirror_memory, what_is_held_near_the_bound_can_be_loaded_again)
{
    struct mirror_limits limits = {.bytes_max = (size_t)4 << 20};

    for (uint32_t slots = 1; slots <= 8; slots += 7) {
        struct mirror *copy = NULL;
        begin(limits.bytes_max);
        cr_assert_eq(mirror_new(&copy, &limits, &qsbr), 0);
        struct worker_set filled = fill_most(slots, limits.bytes_max);
        load_all(copy, &filled);
        WORKER_SET_EACH (slot, &filled) {
            cr_assert_eq(mirror_slot_digest(copy, slot),
                         mirror_slot_digest(mirror, slot));
        }
        mirror_free(copy);
        end();
    }
}

Test(index_mirror_memory, retired_tables_count_until_readers_move_on)
{
    struct mirror_stats stats;
    struct qsbr_reader *reader;
    uint32_t slot;

    begin(64 << 20);
    reader = qsbr_register(&qsbr);
    qsbr_online(&qsbr, reader);
    cr_assert_eq(mirror_open(mirror, &slot), 0);
    cr_assert_eq(store(slot, TIER_DEVICE, 1, KEYS), 0);
    (void)mirror_work(mirror, 1);
    mirror_stats(mirror, &stats);
    cr_assert_gt(stats.grown, 0);
    cr_assert_gt(stats.bytes_retired, 0);
    size_t held = stats.bytes;
    qsbr_offline(reader);
    (void)mirror_work(mirror, 1);
    mirror_stats(mirror, &stats);
    cr_assert_eq(stats.bytes_retired, 0);
    cr_assert_lt(stats.bytes, held);
    end();
}

Test(index_mirror_memory, a_holder_set_is_used_again_after_its_readers_left)
{
    struct qsbr_reader *reader;
    uint32_t slots[SLOTS];

    begin(64 << 20);
    reader = qsbr_register(&qsbr);
    for (uint32_t i = 0; i < SLOTS; i++) {
        cr_assert_eq(mirror_open(mirror, &slots[i]), 0);
        cr_assert_eq(store(slots[i], TIER_DEVICE, 1, 50), 0);
    }
    cr_assert_eq(mirror->holder_sets_used, 50);
    qsbr_online(&qsbr, reader);
    uint32_t count = chain(EVENT_REMOVE, TIER_DEVICE, 1, 50);
    for (uint32_t i = 0; i < SLOTS; i++) {
        cr_assert_eq(mirror_apply(mirror, slots[i], words, count, 0), 0);
    }
    (void)mirror_work(mirror, 1);
    cr_assert_eq(mirror->holder_sets_used, 0);
    cr_assert_eq(mirror->holder_sets_free.count, 0);
    qsbr_offline(reader);
    (void)mirror_work(mirror, 1);
    cr_assert_eq(mirror->holder_sets_free.count, 50);
    end();
}

/* The next key of one shard, from *seed on. */
static uint64_t
key_of_shard(uint64_t *seed)
{
    do {
        *seed = rng_mix(*seed);
    } while (mirror_shard(mirror_hash(*seed)) != 0);
    return *seed;
}

static void
say(uint32_t slot, enum event_kind kind, uint64_t key)
{
    uint64_t record[] = {event_op(kind, TIER_DEVICE, 1), key};

    cr_assert_eq(mirror_apply(mirror, slot, record, 2, 0), 0);
}

static struct mirror_entry
entry_of(uint64_t key)
{
    struct mirror_wanted wanted = {.key = key};
    uint32_t word;
    struct mirror_entry entry =
        mirror_find(mirror, MIRROR_HOLDERS, mirror_hash(key), &wanted, &word);

    cr_assert_neq(word, WORD_EMPTY);
    return entry;
}

/* Three blocks in a table of one line. One leaves while a grace period is
 * under way and `done` was the last one to pass: others do not take its place,
 * until that and the next one have passed as well. */
static void
bury_at(uint64_t done)
{
    uint64_t seed = done;
    uint32_t slot;

    begin(64 << 20);
    cr_assert_eq(mirror_open(mirror, &slot), 0);
    say(slot, EVENT_STORE, key_of_shard(&seed));
    uint64_t gone = key_of_shard(&seed);
    say(slot, EVENT_STORE, gone);
    struct mirror_entry entry = entry_of(gone);
    mirror->grace.done = done;
    mirror->grace.next = done + 2;
    say(slot, EVENT_REMOVE, gone);
    for (uint64_t passed = 0; passed < 2; passed++) {
        mirror->grace.done = done + passed;
        uint64_t other = key_of_shard(&seed);
        say(slot, EVENT_STORE, other);
        struct mirror_entry place = entry_of(other);
        cr_assert(place.line == entry.line && place.at != entry.at);
        say(slot, EVENT_REMOVE, other);
    }
    mirror->grace.done = done + 2;
    mirror->grace.next = done + 3;
    uint64_t next = key_of_shard(&seed);
    say(slot, EVENT_STORE, next);
    cr_assert_eq(entry_of(next).at, entry.at);
    end();
}

Test(index_mirror_memory, a_tomb_outlives_its_readers_when_its_number_wraps)
{
    uint64_t wrap = (uint64_t)MIRROR_GRACE_MASK + 1;

    for (uint64_t done = wrap - 4; done < wrap + 4; done++) {
        bury_at(done);
    }
}

/* A table of a few full lines: some blocks lie further on. */
Test(index_mirror_memory, blocks_that_lie_further_on_are_counted_on_the_way)
{
    enum {
        BLOCKS = 200
    };
    uint64_t key[BLOCKS];
    uint64_t seed = 1;
    uint64_t past = 0;
    const char *reason;
    uint32_t slot;

    begin(64 << 20);
    cr_assert_eq(mirror_open(mirror, &slot), 0);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        key[i] = key_of_shard(&seed);
        say(slot, EVENT_STORE, key[i]);
        cr_assert(mirror_check(mirror, &reason), "%s", reason);
    }
    const char *handle = mirror_handle_get(mirror, MIRROR_HOLDERS, 0);
    uint32_t lines = mirror_lines(mirror, 0, handle);
    for (uint32_t i = 0; i < lines; i++) {
        past += line_past(&mirror_handle_lines(handle)[i]);
    }
    cr_assert_gt(past, 0);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        say(slot, EVENT_REMOVE, key[i]);
        cr_assert(mirror_check(mirror, &reason), "%s", reason);
    }
    cr_assert_eq(handle, mirror_handle_get(mirror, MIRROR_HOLDERS, 0));
    for (uint32_t i = 0; i < lines; i++) {
        cr_assert_eq(line_past(&mirror_handle_lines(handle)[i]), 0);
    }
    end();
}

/* All that allocates: tables that grow, holder sets, tiers. */
static int
fill(void)
{
    int worst = 0;
    uint32_t slot;

    for (uint32_t i = 0; i < SLOTS; i++) {
        cr_assert_eq(mirror_open(mirror, &slot), 0);
        int rc = store(slot, i == 0 ? TIER_HOST : TIER_DEVICE, 1, 300);
        worst = rc != 0 ? rc : worst;
    }
    return worst;
}

static bool
live(void)
{
    struct mirror_limits limits = {.bytes_max = 64 << 20};
    struct mirror_stats stats;
    const char *reason;

    qsbr_init(&qsbr);
    int rc = mirror_new(&mirror, &limits, &qsbr);
    if (rc != 0) {
        cr_assert_eq(rc, -ENOMEM);
        return true;
    }
    rc = fill();
    mirror_stats(mirror, &stats);
    cr_assert(rc == 0 || rc == -ENOMEM);
    cr_assert_eq(rc == 0, stats.refused == 0);
    /* The check allocates too. */
    bool sound = mirror_check(mirror, &reason);
    cr_assert(sound || strcmp(reason, "no memory to check with") == 0, "%s",
              reason);
    mirror_free(mirror);
    qsbr_fini(&qsbr);
    return rc != 0;
}

Test(index_mirror_memory, any_allocation_may_fail_once)
{
    uint64_t n = 0;
    uint64_t failed = 0;

    for (; failing_alloc_after(n); n++) {
        failed += live();
    }
    failing_alloc_stop();
    cr_assert_gt(failed, 100);
}
