/*
 * Memory for one job: taken piece by piece, given back all at once.
 *
 * Role: core. Owns: its chunks, from malloc(). Thread: one owner.
 * Limits: max_bytes over all chunks. Errors: NULL, when the bound is reached or
 * memory is short; what was taken before stays valid.
 */
#ifndef INDEX_BASE_ARENA_H
#define INDEX_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"

#define ARENA_ALIGN     ((size_t)16)
#define ARENA_CHUNK_MAX ((size_t)1 << 20)

struct arena_chunk;

struct arena {
    char *at;                   /* the next free byte */
    char *end;                  /* behind the chunk that is being filled */
    struct arena_chunk *chunks; /* the newest first */
    size_t chunk_bytes;         /* of the next chunk */
    size_t used_bytes;          /* over all chunks */
    size_t max_bytes;
};

/* An empty arena. Allocates nothing yet. */
void arena_init(struct arena *arena, size_t max_bytes);

/* Frees everything that was taken. The arena may be initialised again. */
void arena_fini(struct arena *arena);

/* What arena_take() does when the chunk is full. */
void *arena_take_slow(struct arena *arena, size_t n) MUST_CHECK;

/* n bytes aligned to ARENA_ALIGN, not zeroed, until arena_fini(); or NULL. */
static inline void *
arena_take(struct arena *arena, size_t n)
{
    size_t whole = (n + ARENA_ALIGN - 1) & ~(ARENA_ALIGN - 1);

    whole = whole != 0 || n != 0 ? whole : ARENA_ALIGN;
    if (UNLIKELY(whole < n || (size_t)(arena->end - arena->at) < whole)) {
        return arena_take_slow(arena, n);
    }
    arena->at += whole;
    return arena->at - whole;
}

#endif
