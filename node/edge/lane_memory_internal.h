/*
 * A lane's buffers: power-of-two sizes from 4 KiB, kept on free lists so that
 * the request path does not allocate once it is warm.
 *
 * Role: core. Owns: free buffers; a taken one belongs to the taker until it is
 * given back. Thread: the lane's. Limits: held bytes (taken, over all lanes of
 * the node) at most held_max; kept free bytes at most free_max_bytes.
 * Errors: NULL.
 */
#ifndef NODE_LANE_MEMORY_INTERNAL_H
#define NODE_LANE_MEMORY_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "index/base/counter.h"
#include "index/base/role.h"

#define LANE_MEMORY_SMALLEST 4096U
#define LANE_MEMORY_CLASSES  20U /* up to 2 GiB */

struct lane_memory {
    struct lane_memory_free *free[LANE_MEMORY_CLASSES];
    size_t free_bytes;
    size_t free_max_bytes;
    struct counter *held;    /* shared by all lanes: bytes taken now */
    uint64_t held_max_bytes; /* lane_memory_take() refuses above */
};

/* held outlives the memory; it is the node's one count of taken bytes. */
void lane_memory_init(struct lane_memory *memory, struct counter *held,
                      uint64_t held_max_bytes);

/* Frees what is free; everything taken must have been given back. */
void lane_memory_fini(struct lane_memory *memory);

/* At least size bytes; *got is how many. NULL: over the bound, or none left. */
char *lane_memory_take(struct lane_memory *memory, size_t size, size_t *got)
    ON_LANE;

/* Gives back a buffer of exactly the size that was got. */
void lane_memory_give(struct lane_memory *memory, char *buffer, size_t got)
    ON_LANE;

#endif
