/*
 * Batches as vLLM publishes them, to be published by benchmarks: one
 * BlockStored each, of blocks that begin a prefix of their own.
 *
 * Role: core. Owns: nothing.
 */
#ifndef TESTS_BENCH_STORED_BATCH_H
#define TESTS_BENCH_STORED_BATCH_H

#include <stddef.h>
#include <stdint.h>

#include "index/base/rng.h"

#define STORED_BATCH_BLOCKS 8U
#define STORED_BATCH_TOKENS 16U /* of a block */
#define STORED_BATCH_BYTES  1024U

struct stored_batch {
    size_t len;
    unsigned char bytes[STORED_BATCH_BYTES]; /* the payload frame */
    uint64_t keys[STORED_BATCH_BLOCKS];      /* by which lookups find it */
};

/* batch: all zero. */
void stored_batch_fill(struct stored_batch *batch, struct rng *rng);

#endif
