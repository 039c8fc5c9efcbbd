/*
 * Belief: a radix tree over chained block keys that remembers which workers
 * were sent which prefixes, bounded like the caches it stands for.
 *
 * (The essay: see the implementation task.)
 *
 * Role: core. Owns: its nodes; retired ones go through the caller's qsbr.
 * Thread: radix_match() by any registered reader that is online in the qsbr,
 * never waiting; everything else by the one writer.
 * Limits: struct radix_limits. Errors: named outcomes, -ENOMEM.
 */
#ifndef INDEX_RADIX_H
#define INDEX_RADIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/qsbr.h"
#include "index/base/worker_set.h"

struct radix;

/* Which block a full worker gives up next. */
enum radix_eviction {
    RADIX_LRU,      /* least recently used leaf */
    RADIX_LFU,      /* least frequently used leaf, then least recent */
    RADIX_FIFO,     /* oldest leaf */
    RADIX_MRU,      /* most recently used leaf */
    RADIX_FILO,     /* youngest leaf */
    RADIX_PRIORITY, /* lowest priority leaf, then least recent */
};

struct radix_limits {
    size_t bytes_max;        /* of everything the tree allocates */
    uint32_t namespaces_max; /* roots */
    uint32_t depth_max;      /* blocks of one prefix; longer ones are cut */
};

/* What a match found. */
struct radix_match {
    struct worker_set workers;   /* those with depth > 0 */
    uint32_t depth[WORKERS_MAX]; /* blocks; valid for those in workers */
    uint32_t best;               /* greatest depth, 0 when none */
};

enum {
    RADIX_E_FULL = 1, /* nothing was learned: a bound was reached */
};

/* 0 and *out, or -ENOMEM. qsbr outlives the tree. */
int radix_new(struct radix **out, const struct radix_limits *limits,
              struct qsbr *qsbr) MUST_CHECK;

/* No reader may be online. NULL is fine. */
void radix_free(struct radix *radix);

/*
 * For each worker, how many of the first blocks it is believed to hold.
 * root: key_root() of the namespace; keys: the chained keys, count of them.
 */
void radix_match(const struct radix *radix, uint64_t root, const uint64_t *keys,
                 size_t count, struct radix_match *match);

/*
 * Learns that worker was sent this prefix: its blocks are added or touched,
 * and the worker's own least valued blocks give way when it is over its
 * capacity. 0, or RADIX_E_FULL, or -ENOMEM (nothing changed).
 */
int radix_insert(struct radix *radix, uint64_t root, const uint64_t *keys,
                 size_t count, uint32_t worker, uint8_t priority,
                 uint64_t now_us) MUST_CHECK;

/*
 * Admits a worker to a slot, with the size of its cache in blocks and its
 * engine's policy; again for a change of these. A slot that is still being
 * swept refuses with RADIX_E_FULL: take another.
 */
int radix_worker_add(struct radix *radix, uint32_t worker, uint64_t blocks_max,
                     enum radix_eviction eviction) MUST_CHECK;

/* Takes a worker away: no match sees it from now on, its blocks are swept in
 * the background by radix_work(). */
void radix_worker_remove(struct radix *radix, uint32_t worker);

/*
 * Background work, at most budget steps: sweeping removed workers, evicting
 * over the byte bound, freeing what the qsbr allows. True when there is more.
 */
bool radix_work(struct radix *radix, uint32_t budget, uint64_t now_us);

struct radix_stats {
    size_t bytes; /* allocated now, retired but unfreed included */
    uint64_t nodes;
    uint64_t blocks;        /* distinct blocks */
    uint64_t holder_blocks; /* (worker, block) pairs */
    uint64_t namespaces;
    uint64_t inserts;
    uint64_t evicted_blocks; /* holder-blocks given up for capacity */
    uint64_t evicted_bound;  /* holder-blocks given up for bytes_max */
    uint64_t refused;        /* RADIX_E_FULL */
};

void radix_stats(const struct radix *radix, struct radix_stats *stats);

/* Holder-blocks of one worker. */
uint64_t radix_worker_blocks(const struct radix *radix, uint32_t worker);

/* Walks everything and verifies each invariant; for tests and simulations.
 * False and *reason (static text) when one is broken. */
bool radix_check(const struct radix *radix, const char **reason);

#endif
