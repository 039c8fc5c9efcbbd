/* The ledger grown large: the byte bound, long chains of blocks nobody holds,
 * tables that grow and shrink. */
#include <criterion/criterion.h>

#include "index/index.h"
#include "index/ledger_internal.h"

#define RUN 1024

static uint64_t hashes[RUN];
static uint32_t tokens[RUN];
static uint64_t words[2 * RUN];

static struct ledger *
new_ledger(size_t bytes_max, uint32_t *stream)
{
    struct ledger_limits limits = {.bytes_max = bytes_max};
    struct ledger *ledger;

    cr_assert_eq(ledger_new(&ledger, &limits), 0);
    cr_assert_eq(ledger_open(ledger, stream), 0);
    return ledger;
}

/* The chain's next RUN blocks, from number on, below the ones before. */
static int
extend(struct ledger *ledger, uint32_t stream, uint64_t number)
{
    struct event_words out = {.words = words, .max = RUN + 1};
    struct ledger_done done;

    for (uint32_t i = 0; i < RUN; i++) {
        hashes[i] = number + i;
        tokens[i] = (uint32_t)(number + i);
    }
    struct ledger_run run = {.has_parent = number > 1,
                             .parent = number - 1,
                             .root = 3,
                             .hashes = hashes,
                             .count = RUN,
                             .block_tokens = 1,
                             .tokens = tokens};
    return ledger_store(ledger, stream, &run, &out, &done);
}

static void
take_out(struct ledger *ledger, uint32_t stream, uint64_t from, uint32_t count)
{
    struct event_words out = {.words = words, .max = 2 * RUN};
    struct ledger_done done;

    for (uint32_t i = 0; i < count; i++) {
        hashes[i] = from + i;
    }
    ledger_remove(ledger, stream, hashes, count, NULL, TIER_DEVICE, &out,
                  &done);
    cr_assert_eq(done.changed, count);
}

static void
require_check(const struct ledger *ledger)
{
    const char *reason;

    cr_assert(ledger_check(ledger, &reason), "%s", reason);
}

Test(ledger_bound, full_is_an_outcome_that_changes_nothing)
{
    uint32_t stream;
    size_t bytes_max = (size_t)1 << 20;
    struct ledger *ledger = new_ledger(bytes_max, &stream);
    struct ledger_stats stats;
    uint64_t number = 1;

    while (extend(ledger, stream, number) == 0) {
        number += RUN;
    }
    cr_assert_eq(extend(ledger, stream, number), LEDGER_E_FULL);
    cr_assert_eq(ledger_blocks(ledger, stream), number - 1);
    ledger_stats(ledger, &stats);
    cr_assert_leq(stats.bytes, bytes_max);
    cr_assert_gt(number, 15000);
    require_check(ledger);
    take_out(ledger, stream, number - RUN, RUN);
    cr_assert_eq(extend(ledger, stream, number - RUN), 0);
    require_check(ledger);
    ledger_free(ledger);
}

Test(ledger_bound, tables_grow_and_shrink_around_what_is_held)
{
    uint32_t stream;
    struct ledger *ledger = new_ledger((size_t)64 << 20, &stream);
    struct ledger_stats most;
    struct ledger_stats least;
    uint64_t number = 1;

    for (; number < 100000; number += RUN) {
        cr_assert_eq(extend(ledger, stream, number), 0);
    }
    require_check(ledger);
    ledger_stats(ledger, &most);
    cr_assert_eq(ledger_blocks(ledger, stream), number - 1);
    while (number > 1 + 2 * RUN) {
        number -= RUN;
        take_out(ledger, stream, number, RUN);
    }
    while (ledger_work(ledger, 1000)) {
    }
    require_check(ledger);
    ledger_stats(ledger, &least);
    cr_assert_lt(least.bytes, most.bytes);
    cr_assert_eq(ledger_blocks(ledger, stream), 2 * RUN);
    take_out(ledger, stream, 1, RUN);
    cr_assert_eq(ledger_holes(ledger, stream), 1);
    ledger_free(ledger);
}

Test(ledger_bound, a_long_chain_that_only_its_end_kept_goes_bit_by_bit)
{
    uint32_t stream;
    struct ledger *ledger = new_ledger((size_t)8 << 20, &stream);
    struct ledger_stats stats;

    cr_assert_eq(extend(ledger, stream, 1), 0);
    take_out(ledger, stream, 1, RUN - 1);
    cr_assert_eq(ledger_holes(ledger, stream), 1);
    ledger_stats(ledger, &stats);
    cr_assert_eq(stats.names, RUN);
    take_out(ledger, stream, RUN, 1);
    cr_assert_eq(ledger_holes(ledger, stream), 0);
    ledger_stats(ledger, &stats);
    cr_assert_gt(stats.names, 0);
    cr_assert_lt(stats.names, RUN);
    while (ledger_work(ledger, 10)) {
    }
    ledger_stats(ledger, &stats);
    cr_assert_eq(stats.names, 0);
    require_check(ledger);
    ledger_free(ledger);
}

/* A block without a block before it. */
static void
store_lone(struct ledger *ledger, uint32_t stream, uint64_t name)
{
    struct event_words out = {.words = words, .max = 2};
    struct ledger_done done;
    uint32_t token = (uint32_t)name;
    struct ledger_run run = {.root = 3,
                             .hashes = &name,
                             .count = 1,
                             .block_tokens = 1,
                             .tokens = &token};

    cr_assert_eq(ledger_store(ledger, stream, &run, &out, &done), 0);
}

/* How many lines names lie after their own, all together. */
static uint64_t
lines_past(const struct ledger *ledger)
{
    uint64_t past = 0;

    for (uint32_t i = 0; i < NAME_SHARDS; i++) {
        const struct name_shard *shard = &ledger->names.shard[i];
        for (uint32_t at = 0; at < shard->lines; at++) {
            past += shard->line[at].past;
        }
    }
    return past;
}

Test(ledger_bound, names_that_come_and_go_stay_near_their_lines)
{
    enum {
        NAMES = 64 * 1024
    };
    uint32_t stream;
    struct ledger *ledger = new_ledger((size_t)64 << 20, &stream);
    uint64_t next = 1;

    while (next <= NAMES) {
        store_lone(ledger, stream, next++);
    }
    uint64_t past = lines_past(ledger);
    cr_assert_gt(past, 0);
    for (uint32_t i = 0; i < 3 * NAMES; i++, next++) {
        take_out(ledger, stream, next - NAMES, 1);
        store_lone(ledger, stream, next);
    }
    require_check(ledger);
    cr_assert_lt(lines_past(ledger), past);
    ledger_free(ledger);
}
