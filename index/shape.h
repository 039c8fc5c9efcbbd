/*
 * The shape of a stream's blocks: how many tokens each has and, for a model
 * with sliding windows, what a hit needs of these.
 *
 * Such a model's engine (vLLM) keeps a cache in several groups. The group of
 * full attention keeps whole prefixes; a window group only what its layers look
 * back at, the last blocks of a prefix: of layers that keep a state (Mamba,
 * linear attention) the last one. A prefix of n blocks is a hit when full
 * attention holds all of them and each window group the last `window` of them,
 * or all n if that is less. The engine takes the longest such prefix.
 *
 * The mirror knows a block in a window group as a block of its own, without a
 * parent, under the key that key_in_window() gives, in the same slot. So
 * records, gossip, transfers, snapshots and names carry window groups as they
 * carry anything else, and only the shape says that there are some. It is one
 * number, and for a model without windows the block size:
 *
 *   bits 0..15   tokens of a block; 0: not known yet
 *   bits 16..27  window, in blocks; SHAPE_UNRULED: some group of the engine
 *                follows no rule that is known, so no hit can be told
 *   bits 28..31  how many window groups, numbered from 0
 *
 * Role: core. Owns: nothing. Thread: any. Limits: below. Errors: none; any
 * number is a shape. Source: vLLM 0.32, SlidingWindowManager, MambaManager.
 */
#ifndef INDEX_SHAPE_H
#define INDEX_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/check.h"

#define SHAPE_TOKENS_MAX  UINT16_MAX
#define SHAPE_WINDOW_MAX  0xffeU /* blocks */
#define SHAPE_UNRULED     0xfffU
#define SHAPE_WINDOWS_MAX 15U /* groups */

/* The shape of these numbers, each within its limit. */
static inline uint32_t
shape_of(uint32_t tokens, uint32_t window, uint32_t windows)
{
    CHECK(tokens <= SHAPE_TOKENS_MAX && window <= SHAPE_UNRULED &&
          windows <= SHAPE_WINDOWS_MAX);
    return tokens | window << 16 | windows << 28;
}

/* The tokens of a block, 0: not known yet. */
static inline uint32_t
shape_tokens(uint32_t shape)
{
    return shape & SHAPE_TOKENS_MAX;
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
