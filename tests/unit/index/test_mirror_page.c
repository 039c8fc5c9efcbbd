/* A slot of the mirror, read page by page. */
#include <criterion/criterion.h>

#include "index/base/rng.h"
#include "index/mirror.h"
#include "index/mirror_internal.h"

#define BLOCKS 20000
#define FEW    60000  /* enough for strips of a shard */
#define MANY   500000 /* 2,000 for each shard */

static struct qsbr qsbr;
static struct mirror *mirror;
static uint32_t slot;
static uint64_t words[8192];

static void
setup(void)
{
    struct mirror_limits limits = {.bytes_max = 64 << 20};

    qsbr_init(&qsbr);
    cr_assert_eq(mirror_new(&mirror, &limits, &qsbr), 0);
    cr_assert_eq(mirror_open(mirror, &slot), 0);
}

static void
teardown(void)
{
    const char *reason;

    cr_expect(mirror_check(mirror, &reason), "%s", reason);
    mirror_free(mirror);
    qsbr_fini(&qsbr);
}

TestSuite(index_mirror_page, .init = setup, .fini = teardown);

static void
say(uint32_t to, enum event_kind kind, enum tier tier, uint64_t key)
{
    uint64_t record[] = {event_op(kind, tier, 1), key};

    cr_assert_eq(mirror_apply(mirror, to, record, 2, 0), 0);
}

static void
store(uint32_t to, uint64_t from, uint64_t count)
{
    for (uint64_t i = from; i < from + count; i++) {
        say(to, EVENT_STORE, TIER_DEVICE, rng_mix(i));
    }
}

/* What a run of pages had: how many blocks (each tier of one counts), and the
 * XOR of their mixed keys. */
struct heard {
    uint64_t cursor;
    uint64_t count;
    uint64_t digest;
    uint32_t pages;
};

static void
hear(struct heard *heard, uint32_t of, uint32_t max)
{
    struct event_words page = {.words = words, .max = max};

    heard->cursor = mirror_page(mirror, of, heard->cursor, &page);
    heard->pages++;
    cr_assert(event_check(words, page.count) && page.count <= max);
    for (uint32_t at = 0; at < page.count;
         at += 1 + event_op_count(words[at])) {
        cr_assert_eq(event_op_kind(words[at]), EVENT_STORE);
        for (uint32_t i = 1; i <= event_op_count(words[at]); i++) {
            heard->digest ^= rng_mix(words[at + i]);
            heard->count++;
        }
    }
}

static struct heard
hear_all(uint32_t of, uint32_t max)
{
    struct heard heard = {.cursor = 0};

    do {
        hear(&heard, of, max);
    } while (heard.cursor != MIRROR_PAGE_END);
    return heard;
}

Test(index_mirror_page, an_empty_slot_is_one_empty_page)
{
    struct heard heard = hear_all(slot, 8192);

    cr_assert_eq(heard.pages, 1);
    cr_assert_eq(heard.count, 0);
}

Test(index_mirror_page, all_blocks_are_on_pages_once_when_nothing_changes)
{
    store(slot, 0, BLOCKS);
    struct heard heard = hear_all(slot, 8192);

    cr_assert_eq(heard.count, BLOCKS);
    cr_assert_eq(heard.digest, mirror_slot_digest(mirror, slot));
    cr_assert_geq(heard.pages, 3);
}

Test(index_mirror_page, pages_of_the_least_size_hold_all_too)
{
    store(slot, 0, 1000);
    struct heard heard = hear_all(slot, MIRROR_PAGE_MIN);

    cr_assert_eq(heard.count, 1000);
    cr_assert_eq(heard.digest, mirror_slot_digest(mirror, slot));
}

Test(index_mirror_page, blocks_of_other_slots_are_on_none)
{
    uint32_t other;

    cr_assert_eq(mirror_open(mirror, &other), 0);
    store(other, 0, BLOCKS);
    store(slot, 5, 1);
    struct heard heard = hear_all(slot, 8192);

    cr_assert_eq(heard.count, 1);
    cr_assert_eq(heard.digest, rng_mix(rng_mix(5)));
}

Test(index_mirror_page, a_block_is_told_in_each_of_its_tiers)
{
    say(slot, EVENT_STORE, TIER_DEVICE, 7);
    say(slot, EVENT_STORE, TIER_DISK, 7);
    say(slot, EVENT_STORE, TIER_HOST, 8);
    struct event_words page = {.words = words, .max = MIRROR_PAGE_MIN};
    uint32_t seen[TIERS] = {0};

    cr_assert_eq(mirror_page(mirror, slot, 0, &page), MIRROR_PAGE_END);
    for (uint32_t at = 0; at < page.count; at += 2) {
        cr_assert_eq(event_op_count(words[at]), 1);
        seen[event_op_tier(words[at])] += (uint32_t)words[at + 1];
    }
    cr_assert_eq(seen[TIER_DEVICE], 7);
    cr_assert_eq(seen[TIER_DISK], 7);
    cr_assert_eq(seen[TIER_HOST], 8);
    cr_assert_eq(seen[TIER_EXTERNAL], 0);
}

Test(index_mirror_page, what_stays_is_on_a_page_though_tables_grow_meanwhile)
{
    struct heard heard = {.cursor = 0};
    struct mirror_stats before;
    struct mirror_stats after;

    store(slot, 0, FEW);
    mirror_stats(mirror, &before);
    uint64_t digest = mirror_slot_digest(mirror, slot);
    uint32_t other;
    cr_assert_eq(mirror_open(mirror, &other), 0);
    for (uint64_t more = FEW; heard.cursor != MIRROR_PAGE_END; more += 1000) {
        hear(&heard, slot, 2048);
        store(other, more, 1000);
        (void)mirror_work(mirror, 10000);
    }
    mirror_stats(mirror, &after);
    cr_assert_gt(after.grown, before.grown);
    cr_assert_eq(heard.count, FEW);
    cr_assert_eq(heard.digest, digest);
}

Test(index_mirror_page, any_number_serves_as_a_cursor)
{
    store(slot, 0, BLOCKS);
    for (uint64_t i = 0; i < 64; i++) {
        struct heard heard = {.cursor = UINT64_MAX - i};
        hear(&heard, slot, MIRROR_PAGE_MIN);
        cr_assert_eq(heard.cursor, MIRROR_PAGE_END);
        uint64_t from = (UINT64_MAX >> i) - i;
        heard.cursor = from;
        hear(&heard, slot, MIRROR_PAGE_MIN);
        cr_assert(heard.cursor > from || from == MIRROR_PAGE_END);
    }
}

Test(index_mirror_page, one_page_looks_at_a_bounded_part_of_the_tables)
{
    uint32_t other;

    cr_assert_eq(mirror_open(mirror, &other), 0);
    store(other, 0, 300000);
    struct heard heard = hear_all(slot, 8192);
    cr_assert_eq(heard.count, 0);
    cr_assert_gt(heard.pages, 1);
}

/* The most entries that came by one line and lie further on. */
static uint32_t
most_past(const struct mirror *of)
{
    uint32_t most = 0;

    for (uint32_t shard = 0; shard < MIRROR_SHARDS; shard++) {
        const char *handle = mirror_handle_get(of, MIRROR_HOLDERS, shard);
        uint32_t lines = handle == NULL ? 0 : mirror_lines(of, shard, handle);
        for (uint32_t i = 0; i < lines; i++) {
            uint32_t past = line_past(&mirror_handle_lines(handle)[i]);
            most = past > most ? past : most;
        }
    }
    return most;
}

/* A peer enters the keys as they come. If they came in the order of hashes, they
 * would lie ever further from their places, and a large state take minutes. */
Test(index_mirror_page, who_enters_pages_does_not_push_blocks_far)
{
    struct mirror_limits limits = {.bytes_max = 64 << 20};
    struct mirror *peer = NULL;
    uint64_t cursor = 0;
    uint32_t pages = 0;
    uint32_t most = 0;

    store(slot, 0, MANY);
    cr_assert_eq(mirror_new(&peer, &limits, &qsbr), 0);
    cr_assert_eq(mirror_open_at(peer, slot), 0);
    while (cursor != MIRROR_PAGE_END) {
        struct event_words page = {.words = words, .max = 8192};
        uint32_t past = pages++ % 16 == 0 ? most_past(peer) : 0;
        most = past > most ? past : most;
        cursor = mirror_page(mirror, slot, cursor, &page);
        cr_assert_eq(mirror_apply(peer, slot, page.words, page.count, 0), 0);
    }
    cr_assert_eq(mirror_slot_digest(peer, slot),
                 mirror_slot_digest(mirror, slot));
    cr_assert_lt(most, 300, "%u", most);
    mirror_free(peer);
}
