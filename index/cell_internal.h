/*
 * Bounded memory in cells: objects of any size up to a chunk, named by 32-bit
 * references instead of pointers, with a bound in bytes that holds.
 *
 * Memory comes from an allocator in chunks of up to 1 MiB and is divided into
 * runs of 16-byte units. Finding a run follows TLSF (Masmano, Ripoll, Crespo,
 * Real, ECRTS 2004): free runs hang in lists by size class, two bitmaps find
 * the first class that fits, neighbours merge when a run is freed. So alloc
 * and free take constant time, and whatever is freed can serve every size: a
 * bounded tree whose nodes change their sizes over the day must not starve
 * beside free memory of the wrong class, as it would in slabs. One departure:
 * the free-list link lives in the object header, where it also serves whoever
 * owns the object to chain it.
 *
 * A reference is (chunk << 16 | unit): half a pointer, and good for 32 GiB
 * with one bit to spare for the owner's tag. Zero is no object.
 *
 * Role: core. Owns: its chunks. Thread: one writer; cell_at() by any thread
 * that came to the reference by an acquire. Limits: bytes_max; one object
 * CELL_SIZE_MAX bytes. Errors: 0 for "no room", and cell_starved() says which
 * bound that was.
 */
#ifndef INDEX_CELL_INTERNAL_H
#define INDEX_CELL_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/radix.h"

#define CELL_UNIT       16
#define CELL_CHUNK_LOG2 16 /* units of one chunk, as a power of two: 1 MiB */
#define CELL_CHUNK_MAX  ((size_t)CELL_UNIT << CELL_CHUNK_LOG2)
#define CELL_SIZE_MAX   ((size_t)256 << 10)
#define CELL_CLASSES    ((CELL_CHUNK_LOG2 - 3) * 16)
#define CELL_NONE       0U

/* The head of every object; the rest is the owner's. */
struct cell {
    uint32_t size; /* units << 2 | flags, see cell.c */
    uint32_t link; /* the owner's, to chain objects; the free lists' after */
};

struct cell_store {
    unsigned char **chunk; /* by number, NULL where there is none */
    char apart[64];        /* readers need only what is above */
    uint32_t *chunk_units;
    uint32_t chunks_max;
    uint32_t chunks_count;
    uint32_t chunks_empty; /* chunks that are one free run */
    uint32_t row_bits;     /* rows of lists with a free run */
    uint16_t list_bits[CELL_CLASSES / 16];
    uint32_t list[CELL_CLASSES];
    size_t bytes;       /* taken from the allocator for chunks */
    size_t bytes_max;   /* of chunks */
    size_t used_bytes;  /* of objects, their heads and padding included */
    size_t fixed_bytes; /* of the tables above that were allocated */
    const struct radix_allocator *allocator;
    bool starved; /* the allocator, not the bound, refused last */
};

/*
 * bytes_max bounds tables and chunks together. 0; -EINVAL when it leaves no
 * room for two small chunks; -ENOMEM. allocator outlives the store.
 */
int cell_init(struct cell_store *store, size_t bytes_max,
              const struct radix_allocator *allocator) MUST_CHECK;

/* Gives everything back, live objects too. */
void cell_fini(struct cell_store *store);

/*
 * A new object of size bytes, head included, at most CELL_SIZE_MAX; its
 * content is undefined but for the head. CELL_NONE when there is no room.
 */
uint32_t cell_alloc(struct cell_store *store, size_t size);

/* Takes back an object that nobody reads any more. */
void cell_free(struct cell_store *store, uint32_t ref);

/* Bytes of an object, head and padding included. */
size_t cell_size(const struct cell_store *store, uint32_t ref);

/* After CELL_NONE: true when the allocator failed below the bound. */
static inline bool
cell_starved(const struct cell_store *store)
{
    return store->starved;
}

/* Bytes that could still be handed out, were they in one piece. */
static inline size_t
cell_room(const struct cell_store *store)
{
    CHECK_SLOW(store->used_bytes <= store->bytes_max);
    return store->bytes_max - store->used_bytes;
}

/* All that was taken from the allocator. */
static inline size_t
cell_bytes(const struct cell_store *store)
{
    return store->bytes + store->fixed_bytes;
}

/* The object of a reference. */
static inline void *
cell_at(const struct cell_store *store, uint32_t ref)
{
    CHECK_SLOW(ref >> CELL_CHUNK_LOG2 < store->chunks_max);
    return store->chunk[ref >> CELL_CHUNK_LOG2] +
           (size_t)(ref & ((1U << CELL_CHUNK_LOG2) - 1)) * CELL_UNIT;
}

/* Walks every run of every chunk; false and *reason when something is off. */
bool cell_check(const struct cell_store *store, const char **reason);

#endif
