/*
 * The mirror: an exact index of which blocks each worker's caches hold, kept
 * from their own events.
 *
 * A slot of the mirror is one incarnation of one stream (a worker's rank).
 * 256 shards, chosen by the top bits of key * 0x9E3779B97F4A7C15; a shard is an
 * open-addressing table from key to the set of slots that hold the block. An
 * entry is the key, of 8 bytes, and a word of 4 that names up to three holders
 * or refers to a holder set, a bitmap of them beside the tables. Five entries
 * make a cache line, where the search for a key begins and mostly ends. What
 * is left of the line counts the entries for which there was no room in it:
 * where there are none, the search ends.
 *
 * Readers. Key and word are atomic. A change of holders is one store: of the
 * word, or of one word of the holder set's bitmap. An entry whose last holder
 * is gone is a tombstone (tomb). It takes another key only after a grace period
 * of the qsbr, so a reader that finds the same key before and after it read the
 * word has read that key's word. Holder sets are reused after a grace period
 * too. An entry never moves within its table. One that lies further on is
 * counted in the lines before its own until it is a tomb, and from before its
 * key is there: so a reader misses none that is there all the time, and where
 * a line counts none, what it looks for was absent at a moment since it looked
 * into that line. By acquire and release it then sees what the writer did
 * before the entry left, as it does by a tomb. A full table is copied to one a
 * quarter larger, which is published by one store; the old one is retired.
 * Readers see either of them and never wait.
 * A copy moves one shard, a 256th of all blocks: that takes the writer 0.8 ms
 * of CPU time at 10 million blocks on a busy machine, once in about 10,000 new
 * blocks.
 *
 * Removal in two phases. mirror_close() clears the slot's bit in the alive
 * bitmap, with which every search begins: all its blocks are gone in O(1).
 * mirror_work() then sweeps the slot's bits out of the tables, line by line.
 * After that and a grace period the slot is free: no reader that saw the old
 * owner alive can meet bits of the new one.
 *
 * Tiers. A block in the device alone, the common case, costs nothing more. Any
 * other has an entry in a second set of 256 tables, from (key, slot) to its
 * tiers; mirror_tiered() says which slots have such entries.
 *
 * The search (mirror_match.c). A slot without holes holds all blocks before
 * one it holds, so its depth is found by splitting intervals, for all slots
 * together and with 8 to 64 keys looked up at a time, whose cache misses
 * overlap: three rounds for 512 blocks. A slot with holes is walked block by
 * block, the next 32 keys being fetched ahead. Both give the depth that
 * walking an index at rest gives. While a record is being applied to a slot,
 * its depth is one between those before and after. In short: a depth was true
 * at some moment of the call, except that of a slot with holes from which
 * blocks are removed again and again while it is walked three times over.
 *
 * What it costs (tests/bench/bench_mirror.c, two cores of a shared, busy
 * virtual machine, 10 million blocks, 64 slots, 512 blocks asked): a match of
 * which one slot holds all 0.8 to 0.9 us, of which all do 0.7 to 1.2, with four
 * different depths 1.5 to 1.8, with 64 of them 4.7 to 4.9; walked, 11 to 14; the
 * radix tree, which follows edges, answers the same in 0.1 to 3. Records at 10
 * million blocks a second, half stores and half removals. 16 bytes for a block
 * of one to three holders, 0.8 for each of 64; four to six, whom a word does not
 * name, are 9 to 14 each. Most of a match is waiting for memory: of that for
 * addresses to be translated huge pages (page_heap.h) have taken a part.
 *
 * Role: core. Owns: its tables; retired memory goes through the caller's qsbr.
 * Thread: mirror_match() and mirror_score() by any registered reader that is
 * online in the qsbr, never waiting; everything else by the one writer.
 * Limits: struct mirror_limits, WORKERS_MAX slots. Errors: named outcomes,
 * -ENOMEM.
 */
#ifndef INDEX_MIRROR_H
#define INDEX_MIRROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/qsbr.h"
#include "index/base/worker_set.h"
#include "index/event.h"
#include "index/shape.h"
#include "index/watch.h"

struct mirror;

struct mirror_limits {
    size_t bytes_max; /* of everything it allocates, retired included */
};

/* For each slot of the asked set, how many of the first blocks it holds
 * without a hole. */
struct mirror_match {
    struct worker_set slots;     /* those with depth > 0 */
    uint32_t depth[WORKERS_MAX]; /* blocks; valid for those in slots */
    uint32_t best;               /* greatest depth, 0 when none */
};

enum {
    MIRROR_E_FULL = 1, /* bytes_max is reached: what was left out is counted,
                          and the slot is to be closed or re-read */
    MIRROR_E_NO_SLOT,  /* all slots are open or being swept */
    MIRROR_E_BAD,      /* what is to be loaded makes no sense */
};

/* 0 and *out, -EINVAL when bytes_max is below what an empty index needs, or
 * -ENOMEM. qsbr outlives it. */
int mirror_new(struct mirror **out, const struct mirror_limits *limits,
               struct qsbr *qsbr) MUST_CHECK;

/* Frees all of it. No reader may be online. NULL is fine. */
void mirror_free(struct mirror *mirror);

/* Takes a free slot, alive and empty. 0 and *slot, or MIRROR_E_NO_SLOT. */
int mirror_open(struct mirror *mirror, uint32_t *slot) MUST_CHECK;

/* The same for one slot: 0, or MIRROR_E_NO_SLOT when it is not free. */
int mirror_open_at(struct mirror *mirror, uint32_t slot) MUST_CHECK;

/* Closes an open slot: no match sees it from now on, in O(1). mirror_work()
 * sweeps its bits, and the slot is free again after that, and after every
 * reader that may have known it alive. */
void mirror_close(struct mirror *mirror, uint32_t slot);

/*
 * Applies the words of a record (event.h; checked) to an open slot; a CLEAR
 * is for the caller to turn into a close and an open, and is refused by CHECK.
 * holes: the record's; when it is not 0, the slot is walked block by block.
 * 0, MIRROR_E_FULL or -ENOMEM: part of it was applied.
 */
int mirror_apply(struct mirror *mirror, uint32_t slot, const uint64_t *words,
                 uint32_t count, uint32_t holes) MUST_CHECK;

/* Background work, at most budget table slots looked at: sweeping dead slots,
 * growing and shrinking tables ahead of need; then freeing what the qsbr
 * allows. True when there is more. */
bool mirror_work(struct mirror *mirror, uint32_t budget);

/*
 * The depth of each asked slot that is alive: the longest run of keys[0..count)
 * from the first that it holds in any tier, without a hole. Wait-free.
 */
void mirror_match(const struct mirror *mirror, const struct worker_set *asked,
                  const uint64_t *keys, size_t count,
                  struct mirror_match *match);

/*
 * For slots of one shape (shape.h) with window groups, after mirror_match() with
 * the same keys: lowers each depth to the longest prefix, `most` blocks at most,
 * that all groups serve. A walk back of 16,384 lookups at most; a slot that is
 * left then has depth 0. Wait-free.
 */
void mirror_match_windows(const struct mirror *mirror,
                          const struct worker_set *slots, const uint64_t *keys,
                          uint32_t shape, uint32_t most,
                          struct mirror_match *match);

/* What a block in each tier is worth, in permille of one in the device. */
struct mirror_weights {
    uint32_t permille[TIERS];
};

/*
 * What the first `depth` blocks of a slot are worth: the sum over them of the
 * weight of the nearest tier each is in, in thousandths of a block. *worst:
 * the farthest tier among them (TIER_DEVICE for depth 0). O(1) for a slot that
 * holds nothing outside the device, else O(depth). Wait-free.
 */
uint64_t mirror_score(const struct mirror *mirror, uint32_t slot,
                      const uint64_t *keys, uint32_t depth,
                      const struct mirror_weights *weights, enum tier *worst);

/* Slots that hold something outside the device: only their score differs from
 * their depth. Wait-free. */
struct worker_set mirror_tiered(const struct mirror *mirror);

#define MIRROR_PAGE_MIN 32U        /* words of a page, at least */
#define MIRROR_PAGE_END UINT64_MAX /* no page after this one */

/*
 * What an open slot holds, as STOREs in every tier that a block is in. cursor:
 * 0, or what the page before returned (whatever number it is, no harm is
 * done); out: empty, max MIRROR_PAGE_MIN or more. Returns the cursor of the
 * next page or MIRROR_PAGE_END. A page may be empty before the end: what one
 * call looks at is bounded. The slot may change between pages, and tables may
 * grow: each block held from the first page until the last is on one of them,
 * each that was never held meanwhile on none.
 */
uint64_t mirror_page(const struct mirror *mirror, uint32_t slot,
                     uint64_t cursor, struct event_words *out) MUST_CHECK;

/*
 * Tells the watch (watch.h) of every change from now on, until the next call;
 * NULL: nobody. The watch is borrowed, and has mirror_parts() parts.
 */
void mirror_watch(struct mirror *mirror, struct watch *watch);

/* How many parts there are: the shards, numbered from 0. */
uint32_t mirror_parts(void);

/* How far a part was read; all zero before the first piece. */
struct mirror_reading {
    uint32_t line;
    uint32_t tables;
};

/*
 * Appends what open slots hold in the next `lines` lines of a part (of up to
 * five blocks each); true: there is more. The mirror may change in between:
 * what was not touched since the first piece is there once, as it is. A part
 * whose table was replaced meanwhile is begun anew, and *out emptied.
 */
bool mirror_image(const struct mirror *mirror, uint32_t part, uint32_t lines,
                  struct mirror_reading *at, struct words *out) MUST_CHECK;

/*
 * Fills slots, open and empty before the first call, with the words of a part.
 * Words come from outside and are checked. 0; MIRROR_E_BAD: they are
 * malformed, and some of them were loaded; or as mirror_apply().
 */
int mirror_load(struct mirror *mirror, const uint64_t *words, size_t count,
                const struct watch_slots *slots) MUST_CHECK;

/* The same for the journal, after all parts. Then each slot is to be given its
 * holes, by mirror_apply() without words. */
int mirror_load_journal(struct mirror *mirror, const uint64_t *words,
                        size_t count, const struct watch_slots *slots)
    MUST_CHECK;

struct mirror_stats {
    size_t bytes;           /* allocated now, of everything; <= bytes_max */
    size_t bytes_retired;   /* of these, waiting for readers */
    uint64_t blocks;        /* distinct keys held by someone */
    uint64_t holder_blocks; /* (slot, key) pairs, dead slots' included */
    uint64_t tiered_blocks; /* (slot, key) pairs outside the device alone */
    uint64_t stored;        /* STOREs that changed something */
    uint64_t removed;       /* REMOVEs that did */
    uint64_t repeated;      /* of both, those that changed nothing */
    uint64_t refused;       /* blocks left out for bytes_max */
    uint64_t grown;         /* tables replaced by larger ones */
    uint32_t open;          /* slots */
    uint32_t sweeping;      /* slots */
};

/* How large it is, what it holds, what it did. O(slots + shards). */
void mirror_stats(const struct mirror *mirror, struct mirror_stats *stats);

/* How many blocks an open slot holds, in any tier. */
uint64_t mirror_slot_blocks(const struct mirror *mirror, uint32_t slot);

/* An order-independent digest of what an open slot holds: the XOR of
 * rng_mix(key) over its blocks, to be compared along with their count. */
uint64_t mirror_slot_digest(const struct mirror *mirror, uint32_t slot);

/* Walks everything and verifies each invariant; for tests and simulations.
 * False and *reason (static text) when one is broken. */
bool mirror_check(const struct mirror *mirror, const char **reason);

#endif
