/*
 * The shape of a stream's blocks: how many tokens each has, how many more its
 * name covers and, for a model with sliding windows, what a hit needs of these.
 *
 * Such a model's engine (vLLM) keeps a cache in several groups. The group of
 * full attention keeps whole prefixes; a window group only what its layers look
 * back at, the last blocks of a prefix: of layers that keep a state (Mamba,
 * linear attention) the last one. A prefix of n blocks is a hit when full
 * attention holds all of them and each window group the last `window` of them,
 * or all n if that is less. The engine takes the longest such prefix.
 *
 * Where a draft layer reads ahead (EAGLE, MTP), what it keeps for a block's last
 * token depends on the tokens behind the block, `ahead` of them. So the engine's
 * name of a block covers these, too: it is known only once they are, and one
 * block before other tokens is another block. Our key covers them as well
 * (key_ahead()). Tokens and ahead make the grain: streams of one grain have the
 * same keys for the same prompt. Without a look ahead it is the block size.
 *
 * The mirror knows a block in a window group as a block of its own, without a
 * parent, under the key that key_in_window() gives, in the same slot. So
 * records, gossip, transfers, snapshots and names carry window groups as they
 * carry anything else, and only the shape says that there are some. It is one
 * number, and for a model without windows the block size:
 *
 *   bits 0..12   tokens of a block; 0: not known yet
 *   bits 13..15  tokens behind it that its name covers; SHAPE_PAIRS: one, and
 *                what can be cached of a prompt ends one token sooner, as where
 *                SGLang keeps pairs of tokens
 *   bits 16..27  window, in blocks; SHAPE_UNRULED: some group of the engine
 *                follows no rule that is known, so no hit can be told
 *   bits 28..31  how many window groups, numbered from 0
 *
 * Role: core. Owns: nothing. Thread: any. Limits: below. Errors: none; any
 * number is a shape. Source: vLLM 0.33, SlidingWindowManager, MambaManager,
 * get_request_block_hasher(); SGLang 0.5.23, RadixKey.is_bigram.
 */
#ifndef INDEX_SHAPE_H
#define INDEX_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/check.h"

#define SHAPE_TOKENS_MAX  0x1fffU
#define SHAPE_AHEAD_MAX   6U /* tokens */
#define SHAPE_PAIRS       7U
#define SHAPE_GRAIN_MAX   0xffffU
#define SHAPE_WINDOW_MAX  0xffeU /* blocks */
#define SHAPE_UNRULED     0xfffU
#define SHAPE_WINDOWS_MAX 15U /* groups */

/* The grain of blocks of so many tokens whose names cover `ahead` more, or are
 * SHAPE_PAIRS. */
static inline uint32_t
shape_grain_of(uint32_t tokens, uint32_t ahead)
{
    CHECK(tokens <= SHAPE_TOKENS_MAX && ahead <= SHAPE_PAIRS);
    return tokens | ahead << 13;
}

/* The shape of these numbers, each within its limit. */
static inline uint32_t
shape_of(uint32_t grain, uint32_t window, uint32_t windows)
{
    CHECK(grain <= SHAPE_GRAIN_MAX && window <= SHAPE_UNRULED &&
          windows <= SHAPE_WINDOWS_MAX);
    return grain | window << 16 | windows << 28;
}

/* The grain of a shape, or of a grain. */
static inline uint32_t
shape_grain(uint32_t shape)
{
    return shape & SHAPE_GRAIN_MAX;
}

/* The tokens of a block, of a shape or a grain; 0: not known yet. */
static inline uint32_t
shape_tokens(uint32_t shape)
{
    return shape & SHAPE_TOKENS_MAX;
}

/* How many tokens behind a block its name covers. */
static inline uint32_t
shape_ahead(uint32_t shape)
{
    uint32_t ahead = shape >> 13 & SHAPE_PAIRS;

    return ahead == SHAPE_PAIRS ? 1 : ahead;
}

/* The same as shape_grain_of() takes it. */
static inline uint32_t
shape_ahead_kind(uint32_t shape)
{
    return shape >> 13 & SHAPE_PAIRS;
}

/* How many blocks of this shape or grain so many tokens name. */
static inline uint32_t
shape_blocks(uint32_t shape, uint32_t tokens)
{
    uint32_t ahead = shape_ahead(shape);

    CHECK(shape_tokens(shape) != 0);
    return tokens < ahead ? 0 : (tokens - ahead) / shape_tokens(shape);
}

/* Of a prompt of so many tokens, what can be cached: the last token is always
 * computed, and a block is named by those behind it, too. */
static inline uint32_t
shape_usable(uint32_t shape, uint32_t tokens)
{
    uint32_t ahead = shape_ahead(shape);
    uint32_t least = ahead > 1 ? ahead : 1;

    CHECK(shape_tokens(shape) != 0);
    least += shape_ahead_kind(shape) == SHAPE_PAIRS;
    return tokens < least
               ? 0
               : (tokens - least) / shape_tokens(shape) * shape_tokens(shape);
}

/* How many of its last blocks a hit needs in each window group. */
static inline uint32_t
shape_window(uint32_t shape)
{
    return shape >> 16 & SHAPE_UNRULED;
}

/* How many window groups there are. */
static inline uint32_t
shape_windows(uint32_t shape)
{
    return shape >> 28;
}

/* Whether hits can be told from what is held. */
static inline bool
shape_is_ruled(uint32_t shape)
{
    return shape_window(shape) != SHAPE_UNRULED;
}

#endif
