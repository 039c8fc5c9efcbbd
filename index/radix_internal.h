/*
 * The inside of the radix tree: nodes, fans, holder sets, records. The essay
 * is at the head of radix.h.
 *
 * What readers see is immutable once published, or is one atomic word:
 *   node    key run, length                       immutable
 *           children, holder_set, hold[].word     atomic
 *   fan     bitmap                                immutable, copied to grow
 *           slot[]                                atomic
 *   set     member                                immutable, copied to grow
 *           full, some, hold[].word               atomic
 * Records belong to the writer alone.
 */
#ifndef INDEX_RADIX_INTERNAL_H
#define INDEX_RADIX_INTERNAL_H

#include <stdatomic.h>
#include <stddef.h>

#include "index/base/page_heap.h"
#include "index/cell_internal.h"
#include "index/order_internal.h"
#include "index/radix.h"

/* Keys of one node; longer runs become chains. Another value for tests. */
#ifndef EDGE_MAX
#define EDGE_MAX 2048
#endif
#define INLINE_MAX 2 /* holders a node keeps without a holder set */

/*
 * A slot is an atomic word that holds CELL_NONE, a node, or a fan (FAN_TAG
 * set). Readers load it with acquire, the writer stores it with release.
 */
#define FAN_TAG    0x80000000U
#define FAN_BITS   6
#define FAN_LEVELS 11 /* 10 of six bits, one of four */

/*
 * One holder of a node. word: (worker + 1) << 16 | blocks missing at the
 * edge's tail, 0 for nobody.
 */
struct radix_hold {
    _Atomic uint32_t word;
    uint32_t record; /* the writer's */
};

struct radix_node {
    struct cell cell;
    uint64_t last_key; /* of the edge: equal means the whole edge is */
    _Atomic uint32_t children;
    _Atomic uint32_t holder_set; /* CELL_NONE: the holders are inline */
    struct radix_hold hold[INLINE_MAX];
    uint32_t len;   /* blocks of the edge, 1 to EDGE_MAX */
    uint32_t space; /* 1: a namespace, its edge is the root key alone */
    uint64_t key[]; /* len - 1, all but the last */
};

/* Children by six bits of their first key's hash (Bagwell's trie). */
struct radix_fan {
    struct cell cell;
    uint64_t bitmap; /* which of 64 have a slot */
    uint32_t live;   /* slots that are not empty; the writer's */
    _Atomic uint32_t slot[];
};

/* The holders of a node that has many. */
struct radix_holder_set {
    struct cell cell;
    uint32_t members; /* entries, by rising worker */
    uint32_t live;    /* entries that are not empty; the writer's */
    uint64_t member[WORKER_WORDS];
    _Atomic uint64_t full[WORKER_WORDS]; /* those that miss nothing */
    _Atomic uint64_t some[WORKER_WORDS]; /* those whose entry is not empty */
    struct radix_hold hold[];
};

/*
 * One worker's hold of one node. The four values are those of touches that
 * ended here and of children that are gone; those of living children come to
 * a parent when it loses them, which is when it may become a leaf and needs
 * them: most recent, sum, greatest.
 */
struct radix_record {
    struct cell cell;
    uint32_t node;
    uint32_t parent;   /* record of the same worker, CELL_NONE at the top */
    uint32_t kids;     /* records whose parent this is; 0: a leaf */
    uint32_t place[2]; /* in the worker's two orders */
    uint32_t worker;
    uint64_t touched : 48; /* stamp */
    uint64_t count : 16;   /* touches, saturating */
    uint64_t created : 48; /* stamp */
    uint64_t priority : 8;
};

#define STAMP_MAX ((UINT64_C(1) << 48) - 1)
#define COUNT_MAX 65535U

enum worker_state {
    WORKER_FREE,
    WORKER_LIVE,
    WORKER_DEAD, /* being swept */
};

#define BY_POLICY  0 /* every worker's first order */
#define BY_RECENCY 1 /* the second, of workers that are not RADIX_LRU */

struct radix_worker {
    enum worker_state state;
    enum radix_eviction eviction;
    uint64_t blocks;
    uint64_t blocks_max;
    struct order order[2];
};

/* Objects that readers may still see, retired together. */
struct limbo {
    struct qsbr_node node;
    struct radix *radix;
    uint32_t first; /* chained by cell.link */
    bool busy;      /* with the qsbr */
};

#define LIMBOS 8

/* One step of the way an insert takes. */
struct radix_step {
    uint32_t node;
    uint32_t record;     /* the worker's, or the one prepared for it */
    uint32_t holder_set; /* prepared, or CELL_NONE */
    uint32_t spare;
};

/* A holder, while nodes are rebuilt. */
struct radix_holder {
    uint32_t worker;
    uint32_t missing;
    uint32_t record;
};

struct radix {
    /* What readers need, on cache lines that seldom change. */
    _Atomic uint64_t alive[WORKER_WORDS];
    _Atomic uint32_t roots;
    uint32_t depth_max;
    struct cell_store store;

    /* From here on the writer's. */
    struct qsbr *qsbr;
    const struct radix_allocator *allocator; /* of this struct */
    struct page_heap heap;
    struct radix_allocator heap_allocator; /* of the store, without another */
    size_t fixed_bytes;                    /* of this struct and its tables */
    size_t room_wanted; /* bytes that radix_work() keeps free */
    uint32_t namespaces_max;
    uint64_t clock; /* the last stamp given */
    struct worker_set live;
    struct worker_set dead;
    struct worker_set over; /* above blocks_max since it was lowered */
    struct radix_worker worker[WORKERS_MAX];
    struct radix_stats stats;

    struct limbo limbo[LIMBOS];
    uint32_t limbo_open; /* objects not yet with the qsbr */
    size_t limbo_bytes;  /* of both kinds */

    uint32_t plan; /* objects of an unfinished change, chained */
    struct radix_holder holder[WORKERS_MAX]; /* for whoever rebuilds a node */
    struct radix_holder upper[WORKERS_MAX];
    struct radix_step *step; /* depth_max + 1 */
};

/* What a slot holds. Acquire: with it comes what it refers to. */
static inline uint32_t
slot_load(const _Atomic uint32_t *slot)
{
    return atomic_load_explicit(slot, memory_order_acquire);
}

/* Changes what a slot holds. Release: with it goes what it refers to. */
static inline void
slot_store(_Atomic uint32_t *slot, uint32_t value)
{
    atomic_store_explicit(slot, value, memory_order_release);
}

/* The node of a reference. */
static inline struct radix_node *
node_at(const struct radix *radix, uint32_t ref)
{
    CHECK_SLOW(ref != CELL_NONE && (ref & FAN_TAG) == 0);
    return cell_at(&radix->store, ref);
}

/* The fan of a reference, its tag set or not. */
static inline struct radix_fan *
fan_at(const struct radix *radix, uint32_t ref)
{
    CHECK_SLOW((ref & ~FAN_TAG) != CELL_NONE);
    return cell_at(&radix->store, ref & ~FAN_TAG);
}

/* The holder set of a reference. */
static inline struct radix_holder_set *
holder_set_at(const struct radix *radix, uint32_t ref)
{
    return cell_at(&radix->store, ref);
}

/* The record of a reference. */
static inline struct radix_record *
record_at(const struct radix *radix, uint32_t ref)
{
    CHECK_SLOW(ref != CELL_NONE);
    return cell_at(&radix->store, ref);
}

/* The first key of a node's edge. */
static inline uint64_t
node_first_key(const struct radix_node *node)
{
    return node->len > 1 ? node->key[0] : node->last_key;
}

/* Bits that are set. The builtin is a call into the compiler's library where
 * the instruction cannot be assumed, as on plain x86-64. */
static inline uint32_t
ones(uint64_t x)
{
#if defined(__POPCNT__) || !defined(__x86_64__)
    return (uint32_t)__builtin_popcountll(x);
#else
    x -= x >> 1 & 0x5555555555555555U;
    x = (x & 0x3333333333333333U) + (x >> 2 & 0x3333333333333333U);
    x = (x + (x >> 4)) & 0x0F0F0F0F0F0F0F0FU;
    return (uint32_t)(x * 0x0101010101010101U >> 56);
#endif
}

/* Which of 64 a child is at a level; an odd factor keeps keys distinct. */
static inline uint64_t
fan_bit(uint64_t key, uint32_t level)
{
    uint64_t h = key * 0x9E3779B97F4A7C15U;
    uint32_t shift = 64 - FAN_BITS - FAN_BITS * level;

    CHECK_SLOW(level < FAN_LEVELS);
    return UINT64_C(1) << (level < FAN_LEVELS - 1 ? h >> shift & 63U : h & 15U);
}

/* Which of a fan's slots the bit has. */
static inline uint32_t
fan_rank(const struct radix_fan *fan, uint64_t bit)
{
    return ones(fan->bitmap & (bit - 1));
}

/* The only child that can begin with key, or CELL_NONE. Wait-free. */
static inline uint32_t
fan_find(const struct radix *radix, const _Atomic uint32_t *slot, uint64_t key)
{
    uint32_t ref = slot_load(slot);

    for (uint32_t level = 0; (ref & FAN_TAG) != 0; level++) {
        const struct radix_fan *fan = fan_at(radix, ref);
        uint64_t bit = fan_bit(key, level);
        if ((fan->bitmap & bit) == 0) {
            return CELL_NONE;
        }
        ref = slot_load(&fan->slot[fan_rank(fan, bit)]);
    }
    return ref;
}

/*
 * How many of the node's blocks the keys begin with. Chained keys name whole
 * prefixes: the last one being equal proves all before it, and where the two
 * part can be found by halving.
 */
static inline uint32_t
node_match(const struct radix_node *node, const uint64_t *keys, size_t count)
{
    uint32_t low = 0;
    uint32_t high = node->len;

    CHECK_SLOW(count > 0);
    if (count >= high) {
        high--;
        if (keys[high] == node->last_key) {
            return node->len;
        }
    } else {
        high = (uint32_t)count;
        if (keys[high - 1] == node->key[high - 1]) {
            return high;
        }
        high--;
    }
    if (high > 0 && keys[0] != node->key[0]) {
        return 0; /* a child that only shares bits of its hash */
    }
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (keys[middle] == node->key[middle]) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* radix_fan.c: children */

/* A child to add, prepared so that the rest cannot fail. */
struct fan_change {
    _Atomic uint32_t *slot;
    uint32_t value;   /* what it will hold */
    uint32_t retired; /* the fan this replaces, or CELL_NONE */
    uint32_t grown;   /* the fan that gets one more live slot in place */
};

/* Prepares child as one more below slot; its objects join the plan. False:
 * no room. */
bool radix_fan_prepare(struct radix *radix, _Atomic uint32_t *slot,
                       uint64_t key, uint32_t child, struct fan_change *change)
    MUST_CHECK;

/* Carries a prepared change out. */
void radix_fan_commit(struct radix *radix, const struct fan_change *change);

/* The slot that holds the child beginning with key; it is there. */
_Atomic uint32_t *radix_fan_place(const struct radix *radix,
                                  _Atomic uint32_t *slot, uint64_t key);

/* Takes the child beginning with key out; it is there. */
void radix_fan_remove(struct radix *radix, _Atomic uint32_t *slot,
                      uint64_t key);

/* radix_node.c: nodes and their holders */

/* A worker's entry in a holder set, UINT32_MAX when it has none. */
static inline uint32_t
radix_holder_set_rank(const struct radix_holder_set *holder_set,
                      uint32_t worker)
{
    uint64_t bit = UINT64_C(1) << (worker % 64);
    uint32_t word = worker / 64;
    uint32_t rank = 0;

    if (worker >= WORKERS_MAX || (holder_set->member[word] & bit) == 0) {
        return UINT32_MAX;
    }
    for (uint32_t i = 0; i < word; i++) {
        rank += ones(holder_set->member[i]);
    }
    return rank + ones(holder_set->member[word] & (bit - 1));
}

/* The worker's hold of a node, NULL when it has none. */
struct radix_hold *radix_hold_find(const struct radix *radix,
                                   struct radix_node *node, uint32_t worker);

/* How many hold some of a node. */
uint32_t radix_hold_count(const struct radix *radix,
                          const struct radix_node *node);

/* All holders, by rising worker in a holder set; how many. */
uint32_t radix_hold_list(const struct radix *radix,
                         const struct radix_node *node,
                         struct radix_holder *list);

/* Blocks that a holder misses at the edge's tail. */
static inline uint32_t
hold_missing(const struct radix_hold *hold)
{
    return atomic_load_explicit(&hold->word, memory_order_relaxed) & 0xFFFFU;
}

/* Changes how much of the edge's tail a holder misses, less than all. */
void radix_hold_set(struct radix *radix, struct radix_node *node,
                    struct radix_hold *hold, uint32_t missing);

/*
 * Prepares one more holder: sets *holder_set to a holder set that has it
 * already, or to CELL_NONE when there is a place in the node. False: no room.
 */
bool radix_hold_prepare(struct radix *radix, const struct radix_node *node,
                        const struct radix_holder *holder, uint32_t *holder_set)
    MUST_CHECK;

/* Enters the holder that was prepared. */
void radix_hold_commit(struct radix *radix, struct radix_node *node,
                       const struct radix_holder *holder, uint32_t holder_set);

/* Takes a holder's hold of the node away; it has one. */
void radix_hold_remove(struct radix *radix, struct radix_node *node,
                       uint32_t worker);

/* A node of len blocks, keys[0..len - 1) and last_key, with these holders, on
 * the plan; CELL_NONE: no room. Children are empty. */
uint32_t radix_node_build(struct radix *radix, const uint64_t *keys,
                          uint32_t len, uint64_t last_key,
                          const struct radix_holder *holders, uint32_t count);

/* radix_split.c: nodes in the tree */

/*
 * Splits a node in two after its first len blocks; what nobody holds of the
 * second part is let go. Changes nothing that a match can see. False: no
 * room, nothing changed.
 */
bool radix_node_split(struct radix *radix, uint32_t ref, uint32_t len)
    MUST_CHECK;

/* Puts a node that begins with the same key in the place of another, which
 * is retired. parent: the record whose node it hangs below. */
void radix_node_replace(struct radix *radix, uint32_t ref, uint32_t by,
                        uint32_t parent);

/* Takes a node that nobody holds any more out of the tree. parent: the
 * record whose node it hangs below, CELL_NONE at the top. */
void radix_node_drop(struct radix *radix, uint32_t ref, uint32_t parent);

/* radix_evict.c: values, leaves, giving way */

/* Enters a leaf into its worker's orders; there is room. */
void radix_leaf_add(struct radix *radix, uint32_t worker, uint32_t ref);

/* Takes a record out of them, if it is in. */
void radix_leaf_remove(struct radix *radix, uint32_t worker, uint32_t ref);

/* The value a leaf is ordered by. */
uint64_t radix_leaf_value(enum radix_eviction eviction,
                          const struct radix_record *record);

/* Room for n more leaves in the worker's orders. False: no room. */
bool radix_leaf_reserve(struct radix *radix, uint32_t worker, uint32_t n)
    MUST_CHECK;

/* One worker's least valued leaves, until it is within its capacity or the
 * steps are used up. keep: a record that stays, or CELL_NONE. */
void radix_evict_worker(struct radix *radix, uint32_t worker, uint32_t keep,
                        uint64_t steps);

/* The least recently used run of blocks anywhere. False: there is none. */
bool radix_evict_oldest(struct radix *radix);

/* One leaf of a worker that is being swept. False: it has none left. */
bool radix_evict_dead(struct radix *radix, uint32_t worker);

/* The stamp of the least recently used leaf, UINT64_MAX when there is none. */
uint64_t radix_oldest(const struct radix *radix, uint32_t *worker);

/* radix.c: memory in use and memory retired */

/* A new object on the plan, CELL_NONE when there is no room. */
uint32_t radix_plan_alloc(struct radix *radix, size_t size);

/* A new record on the plan, as given but for its head, and in no order;
 * CELL_NONE when there is no room. */
uint32_t radix_record_new(struct radix *radix, const struct radix_record *as);

/* The plan was carried out: its objects are part of the tree. */
void radix_plan_done(struct radix *radix);

/* It was not: they are freed. */
void radix_plan_abort(struct radix *radix);

/* Frees an object once no reader can see it. */
void radix_retire(struct radix *radix, uint32_t ref);

/* Hands what was retired to the qsbr. */
void radix_limbo_flush(struct radix *radix);

/* The same, and frees what the qsbr allows. */
void radix_reclaim(struct radix *radix);

/* Bytes of objects, without the retired ones. */
size_t radix_live_bytes(const struct radix *radix);

/* A step of the sweep if a worker is gone, else the least recently used run.
 * False: the tree is empty. */
bool radix_evict_any(struct radix *radix);

/* A stamp later than every one before, and not before now_us. */
void radix_tick(struct radix *radix, uint64_t now_us);

#endif
