/*
 * A bounded queue of variable-size records from one thread to one other.
 *
 * The producer reserves room, fills it in place and commits; the consumer
 * peeks at the oldest record in place and consumes it. Neither ever waits:
 * a full ring is an outcome, and counting the loss is the caller's.
 *
 * Role: core. Owns: its memory. Thread: reserve/commit by the producer,
 * peek/consume by the consumer. Limits: size_bytes at ring_init; one record
 * at most a quarter of that, so that one record never blocks the ring.
 * Errors: NULL when it is full or empty; -ENOMEM.
 */
#ifndef INDEX_BASE_RING_H
#define INDEX_BASE_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"

struct ring {
    unsigned char *bytes;
    uint64_t size_bytes;                /* a power of two */
    _Alignas(64) _Atomic uint64_t head; /* written by the consumer, and by the
                                           producer of an empty ring */
    _Alignas(64) _Atomic uint64_t tail; /* written by the producer */
    uint64_t reserved;   /* producer's: where the open record will end, or 0 */
    uint64_t known_head; /* producer's last view of head */
};

/* size_bytes: a power of two, 4096 or more. 0, or -ENOMEM. */
int ring_init(struct ring *ring, size_t size_bytes) MUST_CHECK;

/* Frees the memory, records in it too. Neither side may be using it. */
void ring_fini(struct ring *ring);

/*
 * Room for a record of size bytes, 8-byte aligned, to be filled before
 * ring_commit(); reserving again instead forgets it. NULL: no room now, or
 * the record is over a quarter of the ring.
 */
void *ring_reserve(struct ring *ring, size_t size);

/* Hands the reserved record to the consumer; one was reserved. */
void ring_commit(struct ring *ring);

/* The oldest record and its size in bytes, borrowed until ring_consume(); NULL
 * when there is none. */
const void *ring_peek(struct ring *ring, size_t *size);

/* What waits to be consumed, in bytes of the ring. For the consumer. */
uint64_t ring_waiting_bytes(const struct ring *ring);

/* Gives the record that ring_peek() returned back to the producer. */
void ring_consume(struct ring *ring);

#endif
