/*
 * Workers by hash: of a prefix and a worker (rendezvous), or on a ring.
 * Private to elect*.c.
 *
 * Role: core. Owns: nothing. Thread: any.
 */
#ifndef NODE_ELECT_HASH_INTERNAL_H
#define NODE_ELECT_HASH_INTERNAL_H

#include "node/elect/elect.h"

/* The member with the highest hash of (prefix_key, worker): Thaler and
 * Ravishankar 1998; WORKER_NONE of an empty set. */
uint32_t elect_hash_highest(const struct elect_input *input,
                            const struct worker_set *set);

/*
 * The member whose place on the ring is the next after prefix_key's. Each
 * worker has ELECT_RING_PLACES places, one in each of as many equal arcs, where
 * a hash says. So which of a worker's places comes next takes two hashes, and
 * no ring is kept. WORKER_NONE of an empty set.
 */
#define ELECT_RING_PLACES 150U
uint32_t elect_hash_ring(const struct elect_input *input,
                         const struct worker_set *set);

/* The most load with which a worker may take one more: 5/4 of the mean of the
 * set (not empty), this request counted. The least loaded has no more than
 * that, unless all have more than 2^24. */
uint32_t elect_hash_bound(const uint32_t *load, const struct worker_set *set);

#endif
