/* Batches into a ledger, and the words that came out of the last one. */
#ifndef TESTS_UNIT_NODE_KV_APPLY_RIG_H
#define TESTS_UNIT_NODE_KV_APPLY_RIG_H

#include <criterion/criterion.h>
#include <stdio.h>

#include "node/events/kv_apply_internal.h"
#include "tests/unit/node/events/kv_batch.h"

#define A UINT64_C(0x84b146b151d55111)
#define B UINT64_C(0xd43b57df56b58fb1)

#define WORDS KV_APPLY_WORDS(KV_BATCH_BYTES)

static struct kv_reader *reader;
static struct ledger *ledger;
static uint32_t stream;
static struct kv_apply apply;
static struct kv_counters counters;
static struct kv_batch batch;
static uint64_t words[WORDS];
static struct event_words out = {.max = WORDS};

static inline void
kv_apply_open(void)
{
    struct ledger_limits limits = {.bytes_max = (size_t)64 << 20};

    cr_assert_eq(kv_reader_new(&reader, &KV_LIMITS_DEFAULT), 0);
    cr_assert_eq(ledger_new(&ledger, &limits), 0);
    cr_assert_eq(ledger_open(ledger, &stream), 0);
    apply = (struct kv_apply){.rank = -1};
}

static inline void
kv_apply_close(void)
{
    const char *reason;

    cr_assert(ledger_check(ledger, &reason), "%s", reason);
    cr_assert(event_check(words, out.count));
    kv_reader_free(reader);
    ledger_free(ledger);
}

static inline int
go_on(void)
{
    out = (struct event_words){.words = words, .max = out.max};
    return kv_apply(&apply, reader, ledger, stream, &counters, &out);
}

/* Applies the batch that was written. */
static inline int
run(void)
{
    cr_assert_eq(kv_reader_begin(reader, kv_batch_slice(&batch)), 0);
    return go_on();
}

static inline int
run_hex(const char *hex)
{
    unsigned byte;

    batch.len = 0;
    for (; sscanf(hex, "%2x", &byte) == 1; hex += 2) {
        put_byte(&batch, byte);
    }
    return run();
}

#define EXPECT_COUNT(name, n)                                         \
    cr_assert_eq(counter_read(&counters.name), (n), #name " is %llu", \
                 (unsigned long long)counter_read(&counters.name))

static inline void
expect_held(uint64_t blocks)
{
    cr_assert_eq(ledger_blocks(ledger, stream), blocks);
}

/* The key of the last of n blocks of tokens that count up from `token`. */
static inline uint64_t
key_of(uint64_t root, uint32_t token, uint32_t n, uint32_t size)
{
    uint32_t tokens[256];
    uint64_t keys[256];

    for (uint32_t i = 0; i < n * size; i++) {
        tokens[i] = token + i;
    }
    return key_chain(root, tokens, n, size * sizeof(uint32_t), keys);
}

static inline uint64_t
plain_root(void)
{
    return key_token_root((struct slice){0}, (struct slice){0});
}

/* The op at word `at` of what came out, with count keys, the last of them
 * this one. */
static inline void
expect_op(uint32_t at, enum event_kind kind, enum tier tier, uint32_t count,
          uint64_t last)
{
    cr_assert_lt(at + count, out.count);
    cr_assert_eq(words[at], event_op(kind, tier, count));
    cr_assert_eq(words[at + count], last);
}

static inline void
expect_only(enum event_kind kind, enum tier tier, uint32_t count, uint64_t last)
{
    expect_op(0, kind, tier, count, last);
    cr_assert_eq(out.count, count + 1);
}

/* ---- what engines send ---- */

#endif
