/* Memory for one job: chunks that double, freed together. */
#include "index/base/arena.h"

#include <stdlib.h>

#define CHUNK_MIN ((size_t)4096)

struct arena_chunk {
    struct arena_chunk *next;
    size_t unused; /* keeps what follows aligned */
};

void
arena_init(struct arena *arena, size_t max_bytes)
{
    *arena = (struct arena){.chunk_bytes = CHUNK_MIN, .max_bytes = max_bytes};
}

void
arena_fini(struct arena *arena)
{
    struct arena_chunk *chunk = arena->chunks;

    while (chunk != NULL) {
        struct arena_chunk *next = chunk->next;
        free(chunk);
        chunk = next;
    }
    arena_init(arena, arena->max_bytes);
}

/* A chunk with room for n bytes behind its head, or NULL. */
static struct arena_chunk *
add_chunk(struct arena *arena, size_t n)
{
    size_t bytes = sizeof(struct arena_chunk) + n;
    struct arena_chunk *chunk = NULL;

    if (n > arena->max_bytes || arena->used_bytes > arena->max_bytes - n) {
        return NULL;
    }
    chunk = malloc(bytes);
    if (chunk != NULL) {
        chunk->next = arena->chunks;
        arena->chunks = chunk;
        arena->used_bytes += n;
    }
    return chunk;
}

void *
arena_take_slow(struct arena *arena, size_t n)
{
    size_t whole = (n + ARENA_ALIGN - 1) & ~(ARENA_ALIGN - 1);
    size_t room = arena->max_bytes - arena->used_bytes;
    struct arena_chunk *chunk = NULL;

    CHECK(arena->used_bytes <= arena->max_bytes);
    CHECK(arena->chunk_bytes != 0); /* initialised */
    whole = n != 0 ? whole : ARENA_ALIGN;
    if (whole < n || whole > room) {
        return NULL;
    }
    if (whole > arena->chunk_bytes / 4) { /* one of its own */
        chunk = add_chunk(arena, whole);
        return chunk != NULL ? chunk + 1 : NULL;
    }
    chunk =
        add_chunk(arena, arena->chunk_bytes < room ? arena->chunk_bytes : room);
    if (chunk == NULL) {
        return NULL;
    }
    arena->at = (char *)(chunk + 1);
    arena->end =
        arena->at + (arena->chunk_bytes < room ? arena->chunk_bytes : room);
    if (arena->chunk_bytes < ARENA_CHUNK_MAX) {
        arena->chunk_bytes *= 2;
    }
    arena->at += whole;
    return arena->at - whole;
}
