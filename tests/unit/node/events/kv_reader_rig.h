/*
 * Reads a batch that a test wrote, step by step.
 */
#ifndef TESTS_UNIT_NODE_KV_READER_RIG_H
#define TESTS_UNIT_NODE_KV_READER_RIG_H

#include <criterion/criterion.h>

#include <stdio.h>

#include "node/events/kv_wire_internal.h"
#include "tests/unit/node/events/kv_batch.h"

static struct kv_reader *reader;
static struct kv_batch batch;
static struct kv_event event;
static enum kv_fault fault;

static inline void
setup(void)
{
    cr_assert_eq(kv_reader_new(&reader, &KV_LIMITS_DEFAULT), 0);
    batch.len = 0;
}

static inline void
teardown(void)
{
    kv_reader_free(reader);
}

static inline void
begin(void)
{
    cr_assert_eq(kv_reader_begin(reader, kv_batch_slice(&batch)), 0);
}

static inline void
begin_hex(const char *hex)
{
    unsigned byte;

    batch.len = 0;
    for (; sscanf(hex, "%2x", &byte) == 1; hex += 2) {
        put_byte(&batch, byte);
    }
    begin();
}

static inline int
next(void)
{
    return kv_reader_next(reader, &event, &fault, NULL);
}

static inline void
expect_skipped(enum kv_fault why)
{
    cr_assert_eq(next(), KV_E_SKIPPED);
    cr_assert_eq(fault, why, "%s", kv_fault_name(fault));
}

static inline void
expect_end(int64_t rank)
{
    cr_assert_eq(next(), KV_E_END);
    cr_assert_eq(kv_reader_rank(reader), rank);
    cr_assert_eq(next(), KV_E_END, "and so it stays");
}

static inline void
expect_hashes(uint32_t count, uint64_t first, uint64_t second)
{
    cr_assert_eq(event.hashes_count, count);
    cr_assert_eq(event.hashes[0], first);
    cr_assert(count < 2 || event.hashes[1] == second);
}

/* first, first + 1, ... */
static inline void
expect_tokens(uint32_t count, uint32_t first, uint32_t block_tokens)
{
    cr_assert_eq(event.tokens_count, count);
    for (uint32_t i = 0; i < count; i++) {
        cr_assert_eq(event.tokens[i], first + i);
    }
    cr_assert_eq(event.block_tokens, block_tokens);
    cr_assert_not(event.tokens_opaque);
}

static inline void
expect_text(struct slice got, const char *want)
{
    cr_assert(slice_equal(got, slice_of(want)), "%.*s", (int)got.len, got.ptr);
}

/* One event of the batch that was written. */
static inline void
read_one(void)
{
    begin();
    cr_assert_eq(next(), 0, "%s", kv_fault_name(fault));
}

static inline void
expect_removed(uint64_t hash)
{
    cr_assert_eq(next(), 0);
    cr_assert_eq(event.kind, KV_REMOVED);
    expect_hashes(1, hash, 0);
}

static inline void
expect_cleared(void)
{
    cr_assert_eq(next(), 0);
    cr_assert_eq(event.kind, KV_CLEARED);
}

#endif
