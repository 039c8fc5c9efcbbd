/*
 * What of a node hears KV events, for benchmarks: a decoder, a ledger and a
 * mirror, and streams that tell them.
 *
 * Role: core. Owns: what hearer_open() made. Thread: one; others may match in
 * the mirror. Limits: as below; 8 GiB each. Errors: end the process.
 */
#ifndef TESTS_BENCH_HEARER_H
#define TESTS_BENCH_HEARER_H

#include <stdint.h>

#include "index/index.h"
#include "node/events/kv_apply_internal.h"
#include "node/events/kv_wire_internal.h"

#define HEARER_STREAMS   64
#define HEARER_TOKENS    16            /* of a block */
#define HEARER_WORDS_MAX (2 * 64 * 33) /* that a batch may make */

struct hearer {
    struct ledger *ledger;
    struct mirror *mirror;
    struct qsbr qsbr;
    struct kv_reader *reader;
    struct kv_counters counters;
    struct kv_apply apply[HEARER_STREAMS];
    uint32_t stream[HEARER_STREAMS];
    uint32_t slot[HEARER_STREAMS];
    uint64_t words[HEARER_WORDS_MAX];
};

void hearer_open(struct hearer *h);
void hearer_close(struct hearer *h);

/* A batch of stream `who`, as its engine sent it. */
void hearer_take(struct hearer *h, uint32_t who, struct slice batch);

/* Both tables' share of growing. */
void hearer_work(struct hearer *h);

/* The tokens of the block of this name. */
void hearer_tokens(uint64_t name, uint32_t tokens[HEARER_TOKENS]);

#endif
