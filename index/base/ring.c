/*
 * The bounded ring between two threads: reserving, committing, consuming.
 */
#include "index/base/ring.h"

#include <errno.h>
#include <stdlib.h>

/*
 * Positions only grow; a record lies at position & (size - 1). Each record has
 * an 8-byte header with its size; SKIP says that the rest of this lap is
 * unused because the next record would not have fitted before its end.
 */
#define HEADER UINT64_C(8)
#define SKIP   UINT64_MAX

/*
 * An empty ring begins again at the start of its memory once a lap is so far
 * on: a consumer that keeps up then touches this part of the ring alone, again
 * and again, and the rest of it stays untouched (and out of memory and caches).
 */
#define RESTART_DIVISOR 64

static uint64_t
round_up(uint64_t size)
{
    return (size + 7) & ~UINT64_C(7);
}

static uint64_t *
header_at(struct ring *ring, uint64_t position)
{
    unsigned char *at = ring->bytes + (position & (ring->size_bytes - 1));
    CHECK_SLOW((position & 7) == 0);
    return (uint64_t *)(void *)__builtin_assume_aligned(at, 8);
}

int
ring_init(struct ring *ring, size_t size_bytes)
{
    CHECK(size_bytes >= 4096 && (size_bytes & (size_bytes - 1)) == 0);
    *ring = (struct ring){.size_bytes = size_bytes};
    ring->bytes = malloc(size_bytes);
    return ring->bytes != NULL ? 0 : -ENOMEM;
}

void
ring_fini(struct ring *ring)
{
    free(ring->bytes);
    ring->bytes = NULL;
}

static bool
has_room(struct ring *ring, uint64_t end)
{
    CHECK_SLOW(end >= ring->known_head);
    if (end - ring->known_head <= ring->size_bytes) {
        return true;
    }
    /* Acquire: the consumer is done with the bytes before head. */
    ring->known_head = atomic_load_explicit(&ring->head, memory_order_acquire);
    return end - ring->known_head <= ring->size_bytes;
}

/* Where the next lap begins if this one may end early, for nothing of it waits
 * to be consumed; else tail. */
static uint64_t
restart(struct ring *ring, uint64_t tail)
{
    uint64_t used = tail & (ring->size_bytes - 1);

    if (used < ring->size_bytes / RESTART_DIVISOR) {
        return tail;
    }
    /* Acquire: as in has_room(). */
    ring->known_head = atomic_load_explicit(&ring->head, memory_order_acquire);
    if (ring->known_head != tail) {
        return tail;
    }
    /* The consumer writes its position only when there is a record, and comes
     * to know of one by the tail: until then the position is the producer's to
     * move, and no part of the ring is taken by what was left out. Relaxed: the
     * next store to tail releases both. */
    tail += ring->size_bytes - used;
    ring->known_head = tail;
    atomic_store_explicit(&ring->head, tail, memory_order_relaxed);
    atomic_store_explicit(&ring->tail, tail, memory_order_release);
    return tail;
}

void *
ring_reserve(struct ring *ring, size_t size)
{
    uint64_t need = HEADER + round_up(size);
    uint64_t tail =
        restart(ring, atomic_load_explicit(&ring->tail, memory_order_relaxed));
    uint64_t lap_left = ring->size_bytes - (tail & (ring->size_bytes - 1));
    uint64_t start = lap_left < need ? tail + lap_left : tail;

    CHECK(ring->bytes != NULL);
    if (size > ring->size_bytes / 4 || !has_room(ring, start + need)) {
        return NULL;
    }
    if (start != tail) {
        *header_at(ring, tail) = SKIP;
    }
    *header_at(ring, start) = size;
    ring->reserved = start + need;
    return header_at(ring, start) + 1;
}

void
ring_commit(struct ring *ring)
{
    CHECK(ring->reserved != 0);
    /* Release: the record's bytes come before the tail that shows them. */
    atomic_store_explicit(&ring->tail, ring->reserved, memory_order_release);
    ring->reserved = 0;
    CHECK_SLOW(ring->reserved == 0);
}

const void *
ring_peek(struct ring *ring, size_t *size)
{
    /* Acquire: pairs with ring_commit(). The tail first: a position that
     * restart() moved is then seen with, or before, the tail that it precedes. */
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);

    if (head >= tail) {
        return NULL;
    }
    uint64_t *header = header_at(ring, head);
    if (*header == SKIP) {
        head += ring->size_bytes - (head & (ring->size_bytes - 1));
        atomic_store_explicit(&ring->head, head, memory_order_release);
        header = header_at(ring, head);
    }
    *size = (size_t)*header;
    return header + 1;
}

uint64_t
ring_waiting_bytes(const struct ring *ring)
{
    /* The tail first, as in ring_peek(). */
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);

    return head < tail ? tail - head : 0;
}

void
ring_consume(struct ring *ring)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    uint64_t next = head + HEADER + round_up(*header_at(ring, head));

    /* Release: the consumer's reads come before the producer's reuse. */
    atomic_store_explicit(&ring->head, next, memory_order_release);
    CHECK_SLOW(next <= atomic_load_explicit(&ring->tail, memory_order_relaxed));
}
