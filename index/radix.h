/*
 * Belief: a radix tree over chained block keys that remembers which workers
 * were sent which prefixes, bounded like the caches it stands for.
 *
 * A key names its whole prefix (key.h), and the tree leans on that everywhere.
 * A node is a run of keys without a branch. To see that a prompt has the whole
 * run it is enough to compare the last key, which lies in the node's head; to
 * find where the two part, to halve. So a match costs a hop for each branch of
 * the path and nothing for each block, where trees over tokens (SGLang's
 * RadixAttention, Zheng et al. 2023, from which the eviction policies come)
 * compare every token.
 *
 * Holders of a node. A worker's blocks are evicted from the tail of its leaves
 * only. So what it holds of a run is a length, and what it holds of the tree is
 * closed under prefixes. A node names its holders with that length: up to two
 * in the node itself, more in a holder set beside it, which is a bitmap of the
 * workers that hold all of the run and a length for each. A match walks down
 * with the set of workers alive, keeps those that hold everything matched so
 * far, and records the depth of each one where it drops out. It looks only at
 * workers that hold something. Because a length is kept for each holder, and
 * nodes are not split where holders end, evicting one block is one store.
 *
 * Readers. An edge never changes once it is published: a node that has to be
 * split is replaced by two new ones and retired through the qsbr. Children hang
 * in one atomic slot, or in a trie of slots that is copied to grow. So a
 * reader never waits, never retries, and finds for each worker a depth that was
 * true at some moment of the call.
 *
 * Eviction order. Each (worker, node) pair has a record. It holds what orders
 * the worker's leaves: last touch, number of touches, creation, priority. An
 * insert writes them in the last record of its path only; the records above
 * get their share later. A parent takes its children's values over (latest,
 * sum, greatest) when it loses them, and it becomes a leaf, whose values count,
 * only after it has lost all of them. So an insert touches one record however
 * long the path is, and the eviction order is the same, block by block, as if
 * it had touched every block (tests/property/property_radix.c verifies that).
 * Leaves wait in a 4-ary heap per worker, O(log n) per touch. All blocks of a
 * record have the same values; an insert that ends within a record, or goes on
 * after blocks were evicted, splits it.
 *
 * Stamps are now_us made strictly rising, so there are no ties: the leaves of
 * a worker are never reached by the same insert.
 *
 * The bound. All memory comes from one store (cell_internal.h) whose chunks,
 * tables and waste count, retired objects included. When it is full, an insert
 * evicts the least recently used runs of all workers, in a number of
 * steps bounded by its own length, and takes shorter nodes where free memory
 * is in pieces; radix_work() keeps some room ahead of it. While readers hold
 * on to what was retired there may be no room for a moment: the insert is
 * refused, which costs one request's knowledge. A prefix in one namespace too
 * many evicts in the same order until one is gone, or is refused.
 *
 * Turned down: splitting nodes wherever a holder ends (tried: learning takes
 * 1.3 and 1.6 times as long when two and four workers share each prompt); hash
 * tables for children (a wide fan stops the writer when it grows); slabs (free
 * memory of the wrong size class is lost under a bound); one list over all
 * records for recency (a touch walks the whole path); keys of 32 bits inside
 * an edge, proved by a whole one at its end (half the memory, but a depth
 * would no longer be exact).
 *
 * What it costs (tests/bench/bench_radix.c; one core of a shared virtual
 * machine, a million blocks, six-turn conversations below shared prompts):
 * match 0.2-0.5 us from 32 to 4,096 blocks and from 8 to 256 workers, learning
 * a turn 0.7-2.7 us, a prompt known already 0.15 us, 13 bytes per holder-block
 * where a conversation has 24 blocks of its own and 6 to 9 where it has more.
 *
 * Role: core. Owns: its nodes; retired ones go through the caller's qsbr,
 * which radix_insert() and radix_work() also reclaim from.
 * Thread: radix_match() by any registered reader that is online in the qsbr,
 * never waiting; everything else by the one writer.
 * Limits: struct radix_limits; WORKERS_MAX. Errors: named outcomes, -ENOMEM.
 * After any outcome but 0 no match, and no worker's blocks, are different,
 * but for what was evicted to make room.
 */
#ifndef INDEX_RADIX_H
#define INDEX_RADIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/qsbr.h"
#include "index/base/words.h"
#include "index/base/worker_set.h"

struct radix;

#define RADIX_BYTES_MAX ((size_t)31 << 30)  /* greatest bytes_max */
#define RADIX_DEPTH_MAX (UINT32_C(1) << 20) /* greatest depth_max */

/* Which block a full worker gives up next. */
enum radix_eviction {
    RADIX_LRU,      /* least recently used leaf */
    RADIX_LFU,      /* least frequently used leaf, then least recent */
    RADIX_FIFO,     /* oldest leaf */
    RADIX_MRU,      /* most recently used leaf */
    RADIX_FILO,     /* youngest leaf */
    RADIX_PRIORITY, /* lowest priority leaf, then least recent */
};

/* Where memory comes from, for tests that count it or let it fail. */
struct radix_allocator {
    void *(*alloc)(void *context, size_t size);
    void (*free)(void *context, void *memory, size_t size);
    void *context;
};

struct radix_limits {
    size_t bytes_max;        /* of everything the tree allocates, but for the
                                rest of a chunk's last page; 32 GiB */
    uint32_t namespaces_max; /* roots */
    uint32_t depth_max; /* blocks of one prefix; longer ones are truncated */
    const struct radix_allocator
        *allocator; /* outlives the tree; NULL: malloc and a page heap */
};

/* What a match found. */
struct radix_match {
    struct worker_set workers;   /* those with depth > 0 */
    uint32_t depth[WORKERS_MAX]; /* blocks; valid for those in workers */
    uint32_t best;               /* greatest depth, 0 when none */
};

enum {
    RADIX_E_FULL = 1, /* nothing was learned: a bound was reached */
    RADIX_E_GONE,     /* nothing was learned: no worker lives in this slot */
    RADIX_E_BAD,      /* what is to be loaded makes no sense */
};

/*
 * 0 and *out, -EINVAL when bytes_max is below what an empty tree needs (about
 * 16 bytes for each of depth_max, and 128 KiB), or -ENOMEM. qsbr outlives the
 * tree.
 */
int radix_new(struct radix **out, const struct radix_limits *limits,
              struct qsbr *qsbr) MUST_CHECK;

/* Frees all of it. No reader may be online. NULL is fine. */
void radix_free(struct radix *radix);

/*
 * For each worker, how many of the first blocks it is believed to hold.
 * root: key_root() of the namespace; keys: the chained keys, count of them,
 * of which depth_max are looked at. Wait-free.
 */
void radix_match(const struct radix *radix, uint64_t root, const uint64_t *keys,
                 size_t count, struct radix_match *match);

/*
 * Learns that worker was sent this prefix: its blocks are added or touched,
 * and the worker's own least valued blocks give way when it is over its
 * capacity, never those of this prefix; one longer than the capacity or than
 * depth_max is truncated. priority: kept as the greatest a block was ever
 * given. now_us: monotonic, below 2^48.
 *
 * 0; RADIX_E_FULL: a bound holds it up, later inserts may succeed;
 * RADIX_E_GONE; -ENOMEM: the allocator failed below the bound.
 */
int radix_insert(struct radix *radix, uint64_t root, const uint64_t *keys,
                 size_t count, uint32_t worker, uint8_t priority,
                 uint64_t now_us) MUST_CHECK;

/*
 * Admits a worker to a slot, with the size of its cache in blocks and its
 * engine's policy; again for a change of these. A smaller capacity is reached
 * by radix_work(); another policy takes O(leaves) once, and goes by what was
 * kept under the old one.
 *
 * 0; RADIX_E_FULL: the slot is still being swept, take another, or (for a
 * change of policy) there is no room and nothing changed; -ENOMEM likewise.
 */
int radix_worker_add(struct radix *radix, uint32_t worker, uint64_t blocks_max,
                     enum radix_eviction eviction) MUST_CHECK;

/*
 * Takes a worker away: no match sees it from now on, its blocks are swept in
 * the background by radix_work(), and its slot can be taken again after that.
 * Nobody in the slot is fine.
 */
void radix_worker_remove(struct radix *radix, uint32_t worker);

/*
 * Background work, at most budget steps of one leaf each: sweeping removed
 * workers, shrinking to a smaller capacity, evicting to keep room below the
 * byte bound; then freeing what the qsbr allows. True when there is more.
 */
bool radix_work(struct radix *radix, uint32_t budget, uint64_t now_us);

/*
 * Belief, page by page, for a snapshot. The tree may change between pages:
 * nothing is on them that was not held, and a leaf that was touched meanwhile
 * may be missed.
 */
struct radix_pages;

/* Begins before the first page. The tree outlives it. NULL: no memory. */
struct radix_pages *radix_pages_new(const struct radix *radix);

/* NULL is fine. */
void radix_pages_free(struct radix_pages *pages);

/* Appends leaves until out has count words or a few more. True when there are
 * more leaves; out->failed when there was no room. */
bool radix_pages_next(struct radix_pages *pages, struct words *out,
                      size_t count) MUST_CHECK;

/*
 * Learns what pages, all in one, had: the least recently used first. slot_of:
 * for each of WORKERS_MAX slots of then, the slot now, or WORKER_NONE. A prefix
 * whose beginning is on no page is left out. 0, RADIX_E_BAD or -ENOMEM (some of
 * it was learned).
 */
int radix_load(struct radix *radix, const uint64_t *words, size_t count,
               const uint32_t *slot_of, uint64_t now_us) MUST_CHECK;

struct radix_stats {
    size_t bytes;         /* allocated now, of everything; <= bytes_max */
    size_t bytes_used;    /* of these, in objects and tables */
    size_t bytes_retired; /* of these, waiting for readers to move on */
    uint64_t oldest_us;   /* last touch of the least recently used leaf, 0 when
                             there is none: how far back belief reaches */
    uint64_t nodes;
    uint64_t blocks; /* distinct blocks stored, tails being given up included */
    uint64_t holder_blocks; /* (worker, block) pairs */
    uint64_t namespaces;
    uint64_t inserts;
    uint64_t evicted_blocks; /* holder-blocks given up for capacity */
    uint64_t evicted_bound;  /* holder-blocks given up for bytes_max */
    uint64_t refused;        /* RADIX_E_FULL */
};

/* How large it is, what it holds, what it did. */
void radix_stats(const struct radix *radix, struct radix_stats *stats);

/* How many blocks a worker is believed to hold, 0 when nobody is in the
 * slot. */
uint64_t radix_worker_blocks(const struct radix *radix, uint32_t worker);

/* Walks everything and verifies each invariant; for tests and simulations.
 * False and *reason (static text) when one is broken. */
bool radix_check(const struct radix *radix, const char **reason);

#endif
