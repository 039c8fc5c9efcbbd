/*
 * Chained keys: 64 bits that name a whole prefix, not just one block.
 *
 *   key_0 = XXH3_64(block_0, seed = root)
 *   key_i = XXH3_64(block_i, seed = key_{i-1})
 *
 * The root is the hash of the namespace: model, LoRA adapter and cache salt.
 * Two prefixes have the same key exactly when they have the same blocks under
 * the same namespace, up to the chance of a 64-bit collision (3e-6 over 10
 * million blocks).
 *
 * Role: core. Owns: nothing; what it is given is borrowed for the call.
 * Thread: any. Limits: none. Errors: none. Source: XXH3 of xxHash 0.8.
 */
#ifndef INDEX_KEY_H
#define INDEX_KEY_H

#include <stddef.h>
#include <stdint.h>

#include "index/base/slice.h"

/* The root of a namespace. Parts may be empty; ("a","") differs from
 * ("","a"). */
uint64_t key_root(struct slice model, struct slice lora, struct slice salt);

/*
 * The root of prefixes of token ids (32 bits each, little endian), for engines
 * whose blocks are known exactly. The model is not in it: which workers serve
 * the request's model is known elsewhere, and names of models have aliases.
 */
uint64_t key_token_root(struct slice lora, struct slice salt);

/* The key of one block of size bytes below parent. */
uint64_t key_next(uint64_t parent, const void *block, size_t size);

/* The same for a block that something beside its bytes sets apart (an image
 * behind placeholder tokens); extra 0 is key_next(). */
uint64_t key_next_apart(uint64_t parent, uint64_t extra, const void *block,
                        size_t size);

/* What `count` tokens behind a block set it apart by, beside `extra`: for
 * key_next_apart(). extra when there are none. */
uint64_t key_ahead(uint64_t extra, const uint32_t *tokens, uint32_t count);

#define KEY_WINDOW UINT64_C(0x77696e646f7773) /* sets apart: see below */

/* The name of the same block, or its key, in one window group (shape.h) of an
 * engine's cache: number 0 to SHAPE_WINDOWS_MAX - 1. It is the key of a block of
 * one token, the number, behind it, which KEY_WINDOW sets apart from others. */
uint64_t key_in_window(uint64_t key, uint32_t number);

/*
 * The keys of count blocks of size_bytes each, laid out one after another.
 * Returns the last key (parent when count is 0).
 */
uint64_t key_chain(uint64_t parent, const void *blocks, size_t count,
                   size_t size_bytes, uint64_t *keys);

/* The keys of count blocks of tokens at a grain (shape.h), laid out one after
 * another; the tokens that the grain looks ahead at stand behind the last. */
void key_chain_grain(uint64_t parent, const uint32_t *tokens, size_t count,
                     uint32_t grain, uint64_t *keys);

/* A plain hash of bytes, for media digests and the like. */
uint64_t key_digest(struct slice bytes);

/* A name of 128 bits: of 10 million different things no two are likely to share
 * one before the sun is cold (1.5e-25). */
struct key_wide {
    uint64_t low;
    uint64_t high;
};

/* The same of bytes, for whoever knows the seed. */
struct key_wide key_wide_digest(struct slice bytes, uint64_t seed);

#endif
