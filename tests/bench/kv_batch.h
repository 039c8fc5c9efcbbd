/*
 * Batches as vLLM publishes them, to be published by benchmarks: one
 * BlockStored each, of blocks that begin a prefix of their own.
 *
 * Role: core. Owns: nothing.
 */
#ifndef TESTS_BENCH_KV_BATCH_H
#define TESTS_BENCH_KV_BATCH_H

#include <stddef.h>
#include <stdint.h>

#include "index/base/rng.h"

#define KV_BATCH_BLOCKS 8U
#define KV_BATCH_TOKENS 16U /* of a block */
#define KV_BATCH_BYTES  1024U

struct kv_batch {
    size_t len;
    unsigned char bytes[KV_BATCH_BYTES]; /* the payload frame */
    uint64_t keys[KV_BATCH_BLOCKS];      /* by which lookups find it */
};

/* batch: all zero. */
void kv_batch_fill(struct kv_batch *batch, struct rng *rng);

#endif
