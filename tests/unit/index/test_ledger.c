/* The ledger's facts: what is news, what is refused, what is a hole. */
#include <criterion/criterion.h>
#include <errno.h>

#include "index/index.h"

#define WORDS 64

static uint64_t memory[WORDS];
static struct event_words out;
static struct ledger_done done;
static const uint64_t root = 7;

static struct ledger *
new_ledger(void)
{
    struct ledger_limits limits = {.bytes_max = (size_t)64 << 20};
    struct ledger *ledger;

    cr_assert_eq(ledger_new(&ledger, &limits), 0);
    return ledger;
}

static uint32_t
open_stream(struct ledger *ledger)
{
    uint32_t stream;

    cr_assert_eq(ledger_open(ledger, &stream), 0);
    return stream;
}

static void
free_checked(struct ledger *ledger)
{
    const char *reason;

    cr_assert(ledger_check(ledger, &reason), "%s", reason);
    ledger_free(ledger);
}

/* Stores `count` blocks named first, first + 1, ... below parent (0: the
 * root); the token of each is its name. */
static int
store_in(struct ledger *ledger, uint32_t stream, uint64_t parent,
         uint64_t first, uint32_t count, enum tier tier)
{
    uint64_t hashes[WORDS];
    uint32_t tokens[WORDS];

    for (uint32_t i = 0; i < count; i++) {
        hashes[i] = first + i;
        tokens[i] = (uint32_t)(first + i);
    }
    struct ledger_run run = {.has_parent = parent != 0,
                             .parent = parent,
                             .root = root,
                             .hashes = hashes,
                             .count = count,
                             .block_tokens = 1,
                             .tokens = tokens,
                             .tier = tier};
    out = (struct event_words){.words = memory, .max = WORDS};
    return ledger_store(ledger, stream, &run, &out, &done);
}

static int
store(struct ledger *ledger, uint32_t stream, uint64_t parent, uint64_t first,
      uint32_t count)
{
    return store_in(ledger, stream, parent, first, count, TIER_DEVICE);
}

static void
take_out(struct ledger *ledger, uint32_t stream, uint64_t name, enum tier tier)
{
    out = (struct event_words){.words = memory, .max = WORDS};
    ledger_remove(ledger, stream, &name, 1, NULL, tier, &out, &done);
}

static uint64_t
key_of(uint64_t parent_key, uint64_t name)
{
    uint32_t token = (uint32_t)name;

    return key_next(parent_key, &token, 4);
}

Test(ledger, a_run_becomes_chained_keys)
{
    struct ledger *ledger = new_ledger();
    uint32_t stream = open_stream(ledger);

    cr_assert_eq(store(ledger, stream, 0, 1, 2), 0);
    cr_assert_eq(out.count, 3);
    cr_assert_eq(memory[0], event_op(EVENT_STORE, TIER_DEVICE, 2));
    cr_assert_eq(memory[1], key_of(root, 1));
    cr_assert_eq(memory[2], key_of(key_of(root, 1), 2));
    uint64_t second = memory[2];
    cr_assert_eq(store(ledger, stream, 2, 3, 1), 0);
    cr_assert_eq(memory[1], key_of(second, 3));
    cr_assert_eq(ledger_blocks(ledger, stream), 3);
    free_checked(ledger);
}

Test(ledger, what_sets_a_block_apart_is_in_its_key)
{
    struct ledger *ledger = new_ledger();
    uint32_t stream = open_stream(ledger);
    uint64_t hash = 1;
    uint32_t tokens[2] = {5, 6};
    uint64_t extra = 99;
    struct ledger_run run = {.root = root,
                             .hashes = &hash,
                             .count = 1,
                             .block_tokens = 2,
                             .tokens = tokens,
                             .extras = &extra};

    out = (struct event_words){.words = memory, .max = WORDS};
    cr_assert_eq(ledger_store(ledger, stream, &run, &out, &done), 0);
    cr_assert_eq(memory[1], key_next_apart(root, 99, tokens, 8));
    free_checked(ledger);
}

Test(ledger, a_second_run_is_joined_to_the_first_ones_words)
{
    struct ledger *ledger = new_ledger();
    uint32_t stream = open_stream(ledger);
    uint64_t hash = 9;
    uint32_t token = 9;
    struct ledger_run run = {.root = root,
                             .hashes = &hash,
                             .count = 1,
                             .block_tokens = 1,
                             .tokens = &token};

    cr_assert_eq(store(ledger, stream, 0, 1, 2), 0);
    cr_assert_eq(ledger_store(ledger, stream, &run, &out, &done), 0);
    cr_assert_eq(out.count, 4);
    cr_assert_eq(memory[0], event_op(EVENT_STORE, TIER_DEVICE, 3));
    cr_assert_eq(memory[3], key_of(root, 9));
    free_checked(ledger);
}

Test(ledger, an_unknown_parent_is_refused_and_never_becomes_a_root)
{
    struct ledger *ledger = new_ledger();
    uint32_t stream = open_stream(ledger);

    cr_assert_eq(store(ledger, stream, 5, 6, 2), LEDGER_E_PARENT);
    cr_assert_eq(out.count, 0);
    cr_assert_eq(ledger_blocks(ledger, stream), 0);
    cr_assert_eq(store(ledger, stream, 0, 5, 1), 0);
    cr_assert_eq(store(ledger, stream, 5, 6, 2), 0);
    free_checked(ledger);
}

Test(ledger, a_parent_that_left_is_unknown_although_its_kids_stayed)
{
    struct ledger *ledger = new_ledger();
    uint32_t stream = open_stream(ledger);

    cr_assert_eq(store(ledger, stream, 0, 1, 2), 0);
    take_out(ledger, stream, 1, TIER_DEVICE);
    cr_assert_eq(store(ledger, stream, 1, 5, 1), LEDGER_E_PARENT);
    free_checked(ledger);
}

Test(ledger, a_parent_in_the_host_alone_is_a_parent)
{
    struct ledger *ledger = new_ledger();
    uint32_t stream = open_stream(ledger);

    cr_assert_eq(store_in(ledger, stream, 0, 1, 1, TIER_HOST), 0);
    cr_assert_eq(store(ledger, stream, 1, 2, 1), 0);
    free_checked(ledger);
}

Test(ledger, a_twin_is_stored_twice_and_gone_with_the_second_removal)
{
    struct ledger *ledger = new_ledger();
    uint32_t stream = open_stream(ledger);
    struct ledger_stats stats;

    cr_assert_eq(store(ledger, stream, 0, 1, 1), 0);
    cr_assert_eq(store(ledger, stream, 0, 1, 1), 0);
    cr_assert_eq(out.count, 0);
    cr_assert_eq(done.duplicates, 1);
    ledger_stats(ledger, &stats);
    cr_assert_eq(stats.copies, 1);
    take_out(ledger, stream, 1, TIER_DEVICE);
    cr_assert_eq(out.count, 0);
    cr_assert_eq(done.duplicates, 1);
    take_out(ledger, stream, 1, TIER_DEVICE);
    cr_assert_eq(memory[0], event_op(EVENT_REMOVE, TIER_DEVICE, 1));
    cr_assert_eq(memory[1], key_of(root, 1));
    cr_assert_eq(ledger_blocks(ledger, stream), 0);
    take_out(ledger, stream, 1, TIER_DEVICE);
    cr_assert_eq(done.unknown, 1);
    free_checked(ledger);
}

Test(ledger, copies_beyond_the_cap_count_as_the_cap)
{
    struct ledger *ledger = new_ledger();
    uint32_t stream = open_stream(ledger);

    for (uint32_t i = 0; i < names_copies_most(TIER_DEVICE) + 5; i++) {
        cr_assert_eq(store(ledger, stream, 0, 1, 1), 0);
    }
    for (uint32_t i = 1; i < names_copies_most(TIER_DEVICE); i++) {
        take_out(ledger, stream, 1, TIER_DEVICE);
        cr_assert_eq(done.duplicates, 1);
    }
    take_out(ledger, stream, 1, TIER_DEVICE);
    cr_assert_eq(done.changed, 1);
    free_checked(ledger);
}

Test(ledger, the_engines_own_count_of_copies_is_believed)
{
    struct ledger *ledger = new_ledger();
    uint32_t stream = open_stream(ledger);
    uint64_t name = 1;
    uint32_t remaining = 2;

    cr_assert_eq(store(ledger, stream, 0, 1, 1), 0);
    out = (struct event_words){.words = memory, .max = WORDS};
    ledger_remove(ledger, stream, &name, 1, &remaining, TIER_DEVICE, &out,
                  &done);
    cr_assert_eq(done.duplicates, 1);
    take_out(ledger, stream, 1, TIER_DEVICE);
    cr_assert_eq(done.duplicates, 1);
    cr_assert_eq(store(ledger, stream, 0, 1, 1), 0);
    remaining = 0;
    out.count = 0;
    ledger_remove(ledger, stream, &name, 1, &remaining, TIER_DEVICE, &out,
                  &done);
    cr_assert_eq(done.changed, 1);
    cr_assert_eq(ledger_blocks(ledger, stream), 0);
    free_checked(ledger);
}

Test(ledger, tiers_come_and_go_apart)
{
    struct ledger *ledger = new_ledger();
    uint32_t stream = open_stream(ledger);

    cr_assert_eq(store(ledger, stream, 0, 1, 1), 0);
    out.count = 0;
    cr_assert_eq(ledger_place(ledger, stream, 1, TIER_HOST, &out, &done), 0);
    cr_assert_eq(memory[0], event_op(EVENT_STORE, TIER_HOST, 1));
    take_out(ledger, stream, 1, TIER_DEVICE);
    cr_assert_eq(memory[0], event_op(EVENT_REMOVE, TIER_DEVICE, 1));
    cr_assert_eq(ledger_blocks(ledger, stream), 1);
    take_out(ledger, stream, 1, TIER_DEVICE);
    cr_assert_eq(done.unknown, 1);
    take_out(ledger, stream, 1, TIER_HOST);
    cr_assert_eq(memory[0], event_op(EVENT_REMOVE, TIER_HOST, 1));
    cr_assert_eq(ledger_blocks(ledger, stream), 0);
    cr_assert_eq(ledger_place(ledger, stream, 1, TIER_HOST, &out, &done),
                 LEDGER_E_UNKNOWN);
    free_checked(ledger);
}

Test(ledger, a_hash_for_another_key_is_a_conflict_until_it_left)
{
    struct ledger *ledger = new_ledger();
    uint32_t stream = open_stream(ledger);

    cr_assert_eq(store(ledger, stream, 0, 1, 2), 0);
    cr_assert_eq(store(ledger, stream, 0, 2, 1), LEDGER_E_CONFLICT);
    cr_assert_eq(store(ledger, stream, 0, 3, 1), 0);
    cr_assert_eq(store(ledger, stream, 3, 1, 1), LEDGER_E_CONFLICT);
    take_out(ledger, stream, 2, TIER_DEVICE);
    cr_assert_eq(store(ledger, stream, 0, 2, 1), 0);
    cr_assert_eq(memory[1], key_of(root, 2));
    free_checked(ledger);
}

Test(ledger, a_run_that_names_a_block_twice_changes_nothing)
{
    struct ledger *ledger = new_ledger();
    uint32_t stream = open_stream(ledger);
    uint64_t hashes[20];
    uint32_t tokens[20] = {0};

    for (uint32_t count = 2; count <= 20; count++) {
        for (uint32_t i = 0; i < count; i++) {
            hashes[i] = 100 + i;
        }
        hashes[count - 1] = 100;
        struct ledger_run run = {.root = root,
                                 .hashes = hashes,
                                 .count = count,
                                 .block_tokens = 1,
                                 .tokens = tokens};
        out = (struct event_words){.words = memory, .max = WORDS};
        cr_assert_eq(ledger_store(ledger, stream, &run, &out, &done),
                     LEDGER_E_CONFLICT);
        cr_assert_eq(ledger_blocks(ledger, stream), 0);
    }
    free_checked(ledger);
}

Test(ledger, a_block_is_not_its_own_ancestor)
{
    struct ledger *ledger = new_ledger();
    uint32_t stream = open_stream(ledger);

    cr_assert_eq(store(ledger, stream, 0, 1, 1), 0);
    cr_assert_eq(store(ledger, stream, 1, 1, 1), LEDGER_E_CONFLICT);
    free_checked(ledger);
}

Test(ledger, removing_a_parent_makes_holes_and_its_return_heals_them)
{
    struct ledger *ledger = new_ledger();
    uint32_t stream = open_stream(ledger);

    cr_assert_eq(store(ledger, stream, 0, 1, 3), 0);
    cr_assert_eq(store(ledger, stream, 2, 10, 1), 0);
    take_out(ledger, stream, 2, TIER_DEVICE); /* before 3 and 10 */
    cr_assert_eq(ledger_holes(ledger, stream), 2);
    take_out(ledger, stream, 1, TIER_DEVICE); /* nothing held follows it */
    cr_assert_eq(ledger_holes(ledger, stream), 2);
    take_out(ledger, stream, 10, TIER_DEVICE);
    cr_assert_eq(ledger_holes(ledger, stream), 1);
    cr_assert_eq(store(ledger, stream, 0, 1, 2), 0);
    cr_assert_eq(ledger_holes(ledger, stream), 0);
    free_checked(ledger);
}

Test(ledger, a_root_is_never_a_hole)
{
    struct ledger *ledger = new_ledger();
    uint32_t stream = open_stream(ledger);

    cr_assert_eq(store(ledger, stream, 0, 1, 1), 0);
    cr_assert_eq(store(ledger, stream, 0, 2, 1), 0);
    take_out(ledger, stream, 1, TIER_DEVICE);
    cr_assert_eq(ledger_holes(ledger, stream), 0);
    free_checked(ledger);
}

Test(ledger, holes_are_exact_below_a_block_with_many_kids)
{
    struct ledger *ledger = new_ledger();
    uint32_t stream[2] = {open_stream(ledger), open_stream(ledger)};

    for (uint32_t s = 0; s < 2; s++) {
        cr_assert_eq(store(ledger, stream[s], 0, 1, 1), 0);
        for (uint32_t i = 0; i < 50 + 10 * s; i++) {
            cr_assert_eq(store(ledger, stream[s], 1, 100 + i, 1), 0);
        }
    }
    take_out(ledger, stream[0], 1, TIER_DEVICE);
    cr_assert_eq(ledger_holes(ledger, stream[0]), 50);
    cr_assert_eq(ledger_holes(ledger, stream[1]), 0);
    for (uint32_t i = 0; i < 20; i++) {
        take_out(ledger, stream[0], 100 + i, TIER_DEVICE);
    }
    cr_assert_eq(ledger_holes(ledger, stream[0]), 30);
    take_out(ledger, stream[1], 1, TIER_DEVICE);
    cr_assert_eq(ledger_holes(ledger, stream[1]), 60);
    cr_assert_eq(store(ledger, stream[0], 0, 1, 1), 0);
    cr_assert_eq(ledger_holes(ledger, stream[0]), 0);
    cr_assert_eq(ledger_holes(ledger, stream[1]), 60);
    free_checked(ledger);
}

Test(ledger, streams_do_not_answer_for_each_other)
{
    struct ledger *ledger = new_ledger();
    uint32_t a = open_stream(ledger);
    uint32_t b = open_stream(ledger);

    cr_assert_eq(store(ledger, a, 0, 1, 2), 0);
    cr_assert_eq(store(ledger, b, 1, 2, 1), LEDGER_E_PARENT);
    take_out(ledger, b, 1, TIER_DEVICE);
    cr_assert_eq(done.unknown, 1);
    /* The same hash for something else. */
    cr_assert_eq(store(ledger, b, 0, 2, 1), 0);
    cr_assert_eq(memory[1], key_of(root, 2));
    take_out(ledger, a, 2, TIER_DEVICE);
    cr_assert_eq(memory[1], key_of(key_of(root, 1), 2));
    cr_assert_eq(ledger_blocks(ledger, a), 1);
    cr_assert_eq(ledger_blocks(ledger, b), 1);
    free_checked(ledger);
}

Test(ledger, equal_blocks_of_many_streams_are_one_name)
{
    struct ledger *ledger = new_ledger();
    struct ledger_stats stats;
    uint32_t stream[64];

    for (uint32_t i = 0; i < 64; i++) {
        stream[i] = open_stream(ledger);
        cr_assert_eq(store(ledger, stream[i], 0, 1, 32), 0);
        cr_assert_eq(done.changed, 32);
    }
    ledger_stats(ledger, &stats);
    cr_assert_eq(stats.names, 32);
    cr_assert_eq(stats.blocks, 64 * 32);
    for (uint32_t i = 0; i < 64; i++) {
        take_out(ledger, stream[i], 32, TIER_DEVICE);
        cr_assert_eq(done.changed, 1);
    }
    ledger_stats(ledger, &stats);
    cr_assert_eq(stats.names, 31);
    free_checked(ledger);
}

Test(ledger, a_closed_stream_is_forgotten_at_once_and_swept_by_budget)
{
    struct ledger *ledger = new_ledger();
    struct ledger_stats stats;
    uint32_t stream = open_stream(ledger);
    uint32_t calls = 0;

    for (uint32_t i = 0; i < 10; i++) {
        cr_assert_eq(store(ledger, stream, 0, 1000 + 40 * i, 40), 0);
    }
    ledger_close(ledger, stream);
    uint32_t next = open_stream(ledger);
    cr_assert_neq(next, stream);
    cr_assert_eq(ledger_blocks(ledger, next), 0);
    ledger_stats(ledger, &stats);
    cr_assert_eq(stats.blocks, 0);
    cr_assert_eq(stats.names, 400);
    cr_assert_eq(stats.sweeping, 1);
    while (ledger_work(ledger, 100)) {
        calls++;
    }
    cr_assert_geq(calls, 3);
    ledger_stats(ledger, &stats);
    cr_assert_eq(stats.names, 0);
    cr_assert_eq(stats.sweeping, 0);
    free_checked(ledger);
}

Test(ledger, streams_run_out_and_come_back)
{
    struct ledger *ledger = new_ledger();
    uint32_t stream = 0;

    for (uint32_t i = 0; i < LEDGER_STREAMS_MAX; i++) {
        stream = open_stream(ledger);
    }
    cr_assert_eq(store(ledger, stream, 0, 1, 1), 0);
    cr_assert_eq(ledger_open(ledger, &stream), LEDGER_E_FULL);
    ledger_close(ledger, LEDGER_STREAMS_MAX - 1);
    cr_assert_eq(ledger_open(ledger, &stream), LEDGER_E_FULL);
    while (ledger_work(ledger, 100)) {
    }
    cr_assert_eq(ledger_open(ledger, &stream), 0);
    free_checked(ledger);
}

Test(ledger, a_bound_that_holds_nothing_is_an_error)
{
    struct ledger *ledger;

    for (size_t bytes = 0; bytes < 64 << 10; bytes += 997) {
        struct ledger_limits limits = {.bytes_max = bytes};
        cr_assert_eq(ledger_new(&ledger, &limits), -EINVAL);
    }
}
