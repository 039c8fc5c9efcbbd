/*
 * A lane's buffers: power-of-two sizes from 4 KiB, kept on free lists so that
 * the request path does not allocate once it is warm.
 *
 * A buffer is charged to somebody, and taken only if he and the node may hold
 * that much more. A buffer without an owner is not charged: the taker sees to
 * it that there are only so many.
 *
 * Role: core. Owns: free buffers; a taken one belongs to the taker until it is
 * given back. Thread: the lane's. Limits: charged bytes (taken, over all lanes
 * of the node) at most held_max, and an eighth more for answers that are sent;
 * those of one owner as quota.h says; kept free bytes at most free_max_bytes.
 * Errors: NULL.
 */
#ifndef NODE_LANE_MEMORY_INTERNAL_H
#define NODE_LANE_MEMORY_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/counter.h"
#include "index/base/role.h"
#include "node/base/quota.h"

#define LANE_MEMORY_SMALLEST 4096U
#define LANE_MEMORY_CLASSES  20U /* up to 2 GiB */
#define LANE_MEMORY_SMALL    ((size_t)16 << 10)

struct lane_memory {
    struct lane_memory_free *free[LANE_MEMORY_CLASSES];
    size_t free_bytes;
    size_t free_max_bytes;
    struct counter *held;     /* shared by all lanes: bytes charged now */
    uint64_t held_max_bytes;  /* lane_memory_take() refuses above */
    uint64_t owner_max_bytes; /* the same for one owner; 0: see quota.h */
    uint64_t owner_min_bytes; /* what an owner gets whatever is free */
    bool over_share; /* the last refusal was because of its owner alone */
};

/* held outlives the memory; it is the node's one count of charged bytes. An
 * owner may hold any amount as far as as much is free, until the caller sets
 * owner_max_bytes or owner_min_bytes. */
void lane_memory_init(struct lane_memory *memory, struct counter *held,
                      uint64_t held_max_bytes);

/* Frees what is free; everything taken must have been given back. */
void lane_memory_fini(struct lane_memory *memory);

/* At least size bytes, charged to the owner if there is one; *got is how many.
 * NULL: over a bound, or none left. */
char *lane_memory_take(struct lane_memory *memory, struct quota_bucket *owner,
                       size_t size, size_t *got) ON_LANE;

/* The same for an answer that its client has yet to take: an eighth more than
 * held_max may be held for these, so that requests that come keep nobody from
 * the answer that he waits for. */
char *lane_memory_take_out(struct lane_memory *memory,
                           struct quota_bucket *owner, size_t size, size_t *got)
    ON_LANE;

/* Whether what could be given back may be kept: half of the memory is for requests
 * that are still to be served. */
static inline bool
lane_memory_is_free(const struct lane_memory *memory)
{
    return counter_read(memory->held) < memory->held_max_bytes / 2;
}

/* Whom a buffer of that size is charged to: a small one to nobody. There are only
 * so many connections and exchanges, each with one of a kind, and so what is
 * small is served however much is held. */
static inline struct quota_bucket *
lane_memory_owner(struct quota_bucket *owner, size_t size)
{
    return size > LANE_MEMORY_SMALL ? owner : NULL;
}

/* Gives back a buffer of exactly the size that was got, with its owner. */
void lane_memory_give(struct lane_memory *memory, struct quota_bucket *owner,
                      char *buffer, size_t got) ON_LANE;

#endif
