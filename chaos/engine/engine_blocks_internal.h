/*
 * The block pool of the engine model: which prefix blocks are in memory.
 *
 * It follows vLLM's pool rule by rule, because what a router wins or loses
 * depends on them:
 * - A block is free when no request holds it. Being free does not make it
 *   forgotten: it stays hittable until its slot is given to another block.
 *   Only then is its key evicted.
 * - Slots are given out from the front of one free list. A request's blocks
 *   come back tail first, to the end of the list, so that of one chain the
 *   children go before their parents, and a prefix that was used again moves
 *   to the end. Blocks that never got a key go to the front: nothing is lost
 *   with them.
 * - Equal blocks are not merged: a block computed twice occupies two slots,
 *   is announced twice and evicted twice. Hits go to the oldest twin, so the
 *   younger ones age and fall out.
 * Engines with a tree of prefixes (SGLang, TensorRT-LLM) differ in two points:
 * equal blocks are merged when they join the tree, and SGLang evicts a whole
 * node of it, the run of blocks that came together and was not split since.
 * Nodes are held and given back whole, so the free list is in SGLang's order,
 * too: the least recently used leaf is at its front.
 * One departure: vLLM keeps one of its blocks for itself (the null block); all
 * `count` blocks are usable here.
 *
 * Role: core. Owns: three arrays, allocated once. Thread: one owner.
 * Limits: count blocks. Errors: -ENOMEM at engine_blocks_init(); everything
 * else is the caller's promise (CHECK). Cost: constant per block, whatever
 * the number of twins.
 */
#ifndef CHAOS_ENGINE_BLOCKS_INTERNAL_H
#define CHAOS_ENGINE_BLOCKS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"

#define ENGINE_BLOCKS_MAX (UINT32_C(1) << 30)

/* One slot. Links are slot numbers. Half a cache line, for most of a block's cost
 * is the wait for it. */
struct engine_block {
    uint64_t key;       /* of the prefix that ends here; valid when cached */
    uint32_t refs : 29; /* requests that hold it; 0: on the free list */
    bool cached : 1;    /* has a key */
    bool leader : 1;    /* the oldest of its twins: the one that is found */
    bool windowed : 1;  /* cached: in a window group, not in full attention */
    uint32_t prev;      /* on the free list, towards its front */
    uint32_t next;      /* on the free list, towards its end */
    uint32_t chain;     /* leaders: the next leader of this bucket */
    uint32_t twin_prev; /* ring of equal blocks; before the leader: youngest */
    uint32_t twin_next; /* ring of equal blocks, by age from the leader */
};

_Static_assert(sizeof(struct engine_block) == 32, "half a cache line");

/* What only some engines ask of a slot. */
struct engine_block_more {
    uint64_t hash;  /* windowed: its name in the group */
    uint32_t group; /* windowed: which one */
    uint32_t node;  /* of the tree; blocks of one node have one number */
};

struct engine_blocks {
    struct engine_block *blocks;    /* count, and one more: the list's anchor */
    struct engine_block_more *more; /* count */
    uint32_t *buckets;              /* key -> first leader */
    uint32_t bucket_shift;          /* bucket = mixed key >> bucket_shift */
    uint32_t count;
    uint32_t free_count;   /* on the free list, cached ones included */
    uint32_t cached_count; /* with a key, held ones and twins included */
    uint32_t node_last;    /* the latest number of a node */
};

/* count: 1..ENGINE_BLOCKS_MAX. 0, or -ENOMEM. */
int engine_blocks_init(struct engine_blocks *pool, uint32_t count) MUST_CHECK;

/* Frees the pool's memory. */
void engine_blocks_fini(struct engine_blocks *pool);

/*
 * How many of the first `count` keys are in memory, without a hole. Changes
 * nothing. *free_count: how many of these are on the free list now, that is
 * what holding them would take from it.
 */
uint32_t engine_blocks_match(const struct engine_blocks *pool,
                             const uint64_t *keys, uint32_t count,
                             uint32_t *free_count);

/* Takes a reference to the block of each key (all of them matched just
 * before) and writes their slots to held. */
void engine_blocks_hold(struct engine_blocks *pool, const uint64_t *keys,
                        uint32_t count, uint32_t *held);

/*
 * Takes the slot at the front of the free list (there must be one) with one
 * reference and no key. True when a cached block was evicted for it, whose key
 * is then in *evicted.
 */
bool engine_blocks_take(struct engine_blocks *pool, uint32_t *slot,
                        uint64_t *evicted);

/* Of a slot that was just taken, with a cached block evicted for it: whether that
 * block had no twin, so that its key is not in memory any more. */
static inline bool
engine_blocks_was_last(const struct engine_blocks *pool, uint32_t slot)
{
    return pool->blocks[slot].twin_next == slot;
}

/* A key will be looked for soon. */
void engine_blocks_fetch(const struct engine_blocks *pool, uint64_t key);

/* Gives a key to a held block that has none: it is full and can be hit now. */
void engine_blocks_name(struct engine_blocks *pool, uint32_t slot,
                        uint64_t key);

/*
 * The same for a tree: true when the key is new there, and the block belongs to
 * the latest node then. False when an equal block is in the tree: the caller's
 * is given back, and *slot is the other one, held.
 */
bool engine_blocks_join(struct engine_blocks *pool, uint32_t *slot,
                        uint64_t key);

/* Splits a node of the tree behind the last of these blocks, a prefix that is
 * held from its root on. The latest node is the upper half then. */
void engine_blocks_split(struct engine_blocks *pool, const uint32_t *slots,
                         uint32_t count);

/*
 * Evicts the next block of the node that a slot was of when it was taken just
 * now: true and its key in *evicted, false when none is left. *last: the slot
 * at first, then as it was left. What is evicted stays at the list's front.
 */
bool engine_blocks_evict_mate(struct engine_blocks *pool, uint32_t slot,
                              uint32_t *last, uint64_t *evicted);

/* Drops a reference to each of a request's blocks, the last one first. */
void engine_blocks_release(struct engine_blocks *pool, const uint32_t *slots,
                           uint32_t count);

/* Forgets every key. False, and nothing changed, when a block is held. */
bool engine_blocks_clear(struct engine_blocks *pool);

/* Verifies every invariant; false and *reason (static text) when broken. */
bool engine_blocks_check(const struct engine_blocks *pool, const char **reason);

#endif
