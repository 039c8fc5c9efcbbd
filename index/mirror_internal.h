/*
 * The inside of the mirror: tables, holders, holder sets, tiers. The essay is
 * at the head of mirror.h.
 *
 * One kind of table serves both what the mirror keeps by key:
 *   HOLDERS  key -> the slots that hold the block
 *   TIERS    (key, slot) -> the tiers it is in, where that is not the device
 *            alone
 * An entry is a key and a word, both atomic. The low two bits of the word are 1
 * to 3: so many slots, of ten bits each, from bit 2 up (HOLDERS). Or they are 0
 * and the low four bits say what it is:
 *   0    all of it is 0: nobody was ever here; the key means nothing
 *   4    a holder set, its number from bit 4 up (HOLDERS)
 *   8    a tomb: somebody was here, until the grace period from bit 4 up
 *   12   tiers in bits 4 to 7, the slot from bit 8 up (TIERS)
 */
#ifndef INDEX_MIRROR_INTERNAL_H
#define INDEX_MIRROR_INTERNAL_H

#include <stdatomic.h>
#include <stddef.h>

#include "index/base/page_heap.h"
#include "index/mirror.h"

#define MIRROR_SHARDS       256
#define MIRROR_SIZES        64 /* a table's size is named by six bits */
#define MIRROR_LINE_ENTRIES 5
#define MIRROR_SEGMENTS     136 /* of holder sets: nearly 2^28 of them */
#define MIRROR_HOLDER_SETS  256 /* of the first segments */

#define WORD_COUNT       3U /* the bits that say how many slots it names */
#define WORD_INLINE      3U /* slots that a word can name */
#define WORD_SLOTS       2  /* shift of the first of them */
#define WORD_EMPTY       0U
#define WORD_KIND        15U
#define WORD_HOLDER_SET  4U
#define WORD_TOMB        8U
#define WORD_TIERS       12U
#define WORD_SHIFT       4 /* of what these three have */
#define SLOT_BITS        10
#define SLOT_MASK        ((1U << SLOT_BITS) - 1)
#define HOLDER_SET_LEAVE 2 /* holders at which a holder set is given up */
#define TIERED_SHIFT     8 /* of the slot in a word of TIERS */
#define TIERS_MASK       ((UINT64_C(1) << TIERS) - 1)
#define TIERS_DEVICE     (UINT64_C(1) << TIER_DEVICE) /* and no other */

_Static_assert(WORKERS_MAX <= 1 << SLOT_BITS, "a slot fits a holder's bits");
_Static_assert(UINT64_C(8) * MIRROR_HOLDER_SETS << MIRROR_SEGMENTS / 8 <=
                   UINT64_C(1) << (32 - WORD_SHIFT),
               "a holder set's number fits a word");
_Static_assert(WORD_SLOTS + WORD_INLINE * SLOT_BITS == 32, "slots fit a word");
_Static_assert(WORD_SHIFT + TIERS == TIERED_SHIFT, "tiers fit below the slot");

/*
 * A cache line, to which memory is aligned. An entry for which there was no
 * room in its line lies in one further on and is counted in each line that it
 * passed: a search ends where nothing lies further on.
 */
struct mirror_line {
    _Atomic uint64_t key[MIRROR_LINE_ENTRIES];
    _Atomic uint32_t word[MIRROR_LINE_ENTRIES];
    _Atomic uint32_t past; /* live entries further on that came by here */
};

/* Where an entry is; line is NULL: nowhere. */
struct mirror_entry {
    struct mirror_line *line;
    uint32_t at;
};

/* In front of a table's lines, on a cache line of its own. */
struct mirror_table {
    struct qsbr_node node;
    struct mirror *mirror;
    size_t bytes;
};

/*
 * A table as readers see it is one atomic word, its handle: the address of its
 * first line plus the number of its size, which fits the bits that alignment
 * leaves. NULL: no table yet.
 */

struct mirror_holder_set {
    _Atomic uint64_t word[WORKER_WORDS];
};

enum mirror_kind {
    MIRROR_HOLDERS,
    MIRROR_TIERS,
    MIRROR_KINDS,
};

/* The writer's count of a table's entries. */
struct mirror_fill {
    uint32_t live;
    uint32_t used;   /* live entries and tombs */
    uint32_t tables; /* that were published so far */
};

enum mirror_state {
    SLOT_FREE,
    SLOT_OPEN,
    SLOT_DEAD, /* being swept, or waiting for readers */
};

struct mirror_slot {
    enum mirror_state state;
    bool lossy;    /* something was refused: there may be holes */
    bool walked;   /* as readers see it */
    uint64_t held; /* blocks */
    uint64_t digest;
    uint64_t tiered; /* entries of TIERS */
};

/* Numbers of holder sets, chained. */
struct mirror_chain {
    uint32_t first;
    uint32_t last;
    uint32_t count;
};

/*
 * One grace period runs at a time, and others wait for the next one. So a tomb
 * whose grace period has not passed has one of two numbers: those after the
 * last one that has. Its bits have to tell only these two from older ones.
 */
#define MIRROR_GRACES     2U
#define MIRROR_GRACE_MASK ((1U << (32 - WORD_SHIFT)) - 1)

struct mirror_grace {
    struct qsbr_node node;
    struct mirror *mirror;
    bool busy;                       /* with the qsbr */
    bool tombs;                      /* some tombs wait for the next one */
    uint64_t next;                   /* the number of the next one */
    uint64_t done;                   /* of the last one that passed */
    struct mirror_chain holder_sets; /* for the next one */
    struct mirror_chain leaving;
    struct worker_set slots; /* swept slots, for the next one */
    struct worker_set freeing;
};

struct mirror_sweep {
    struct worker_set now;  /* slots of this pass */
    struct worker_set next; /* closed since it began */
    bool active;
    uint32_t table; /* kind * MIRROR_SHARDS + shard */
    uint32_t line;
};

struct mirror {
    /* What readers need, on cache lines that seldom change. */
    _Atomic uint64_t alive[WORKER_WORDS];
    _Atomic uint64_t walked[WORKER_WORDS]; /* slots that may have holes */
    _Atomic uint64_t tiered[WORKER_WORDS];
    _Atomic uint64_t opened; /* how often a slot got holes */
    uint32_t size_lines[MIRROR_SIZES];
    _Atomic(const char *) table[MIRROR_KINDS][MIRROR_SHARDS];
    _Atomic(struct mirror_holder_set *) segment[MIRROR_SEGMENTS];
    _Atomic uint64_t opened_at[WORKERS_MAX];
    /* Begun and ended removals from a slot that may have holes; odd while one
     * goes on. */
    _Atomic uint64_t torn[WORKERS_MAX];
    char apart[64];

    /* From here on the writer's. */
    struct page_heap heap;
    struct qsbr *qsbr;
    size_t bytes_max;
    int fault;        /* why memory was refused last */
    uint32_t applied; /* keys since memory was last reclaimed */
    struct mirror_fill fill[MIRROR_KINDS][MIRROR_SHARDS];
    struct mirror_slot slot[WORKERS_MAX];
    struct mirror_chain holder_sets_free;
    uint32_t holder_sets_made;
    uint32_t holder_sets_used;
    uint32_t segments;
    uint32_t *segment_link[MIRROR_SEGMENTS];
    struct mirror_grace grace;
    struct mirror_sweep sweep;
    uint32_t tidied; /* table that was looked after last */
    uint64_t untidy[MIRROR_KINDS * MIRROR_SHARDS / 64]; /* those that changed */
    struct watch *watch;
    struct mirror_stats stats;
};

/* ---- where a key lies ---- */

/* The hash of a key in HOLDERS. */
static inline uint64_t
mirror_hash(uint64_t key)
{
    return key * 0x9E3779B97F4A7C15U;
}

/* The hash of a key in TIERS. */
static inline uint64_t
mirror_hash_tiers(uint64_t key, uint32_t slot)
{
    return mirror_hash(key ^ (slot + 1) * 0xD6E8FEB86659FD93U);
}

/* The shard of a hash. */
static inline uint32_t
mirror_shard(uint64_t hash)
{
    return (uint32_t)(hash >> 56);
}

/* The handle of a table as readers see it, NULL when there is none. */
static inline const char *
mirror_handle_get(const struct mirror *mirror, enum mirror_kind kind,
                  uint32_t shard)
{
    CHECK_SLOW(kind < MIRROR_KINDS && shard < MIRROR_SHARDS);
    return atomic_load_explicit(&mirror->table[kind][shard],
                                memory_order_acquire);
}

/* The number of the table's size in its handle. */
static inline uint32_t
mirror_handle_size(const char *handle)
{
    return (uint32_t)((uintptr_t)handle & (MIRROR_SIZES - 1));
}

/*
 * Lines of a table. Each shard has sizes of its own, up to a quarter apart:
 * keys come to all alike, and so they do not all grow at the same time.
 */
static inline uint32_t
mirror_size_lines(const struct mirror *mirror, uint32_t shard, uint32_t size)
{
    CHECK_SLOW(shard < MIRROR_SHARDS && size < MIRROR_SIZES);
    return (uint32_t)((uint64_t)mirror->size_lines[size] *
                      (UINT64_C(4) * MIRROR_SHARDS + shard) /
                      (UINT64_C(4) * MIRROR_SHARDS));
}

/* Lines of the table of this handle. */
static inline uint32_t
mirror_lines(const struct mirror *mirror, uint32_t shard, const char *handle)
{
    return mirror_size_lines(mirror, shard, mirror_handle_size(handle));
}

/* The writer changes what readers see through the same pointer. */
static inline struct mirror_line *
mirror_handle_lines(const char *handle)
{
    union {
        const char *bytes;
        struct mirror_line *lines;
    } at = {.bytes = handle - mirror_handle_size(handle)};

    return at.lines;
}

/* The line where the search for a hash begins, from bits that did not choose
 * the shard: rising with them, so that a larger table has its entries in the
 * same order. */
static inline uint32_t
mirror_home(uint64_t hash, uint32_t lines)
{
    return (uint32_t)((hash << 8 >> 32) * lines >> 32);
}

/* The line where the search for a hash begins. */
static inline const struct mirror_line *
mirror_line_at(const struct mirror *mirror, const char *handle, uint64_t hash)
{
    uint32_t lines = mirror_lines(mirror, mirror_shard(hash), handle);

    CHECK_SLOW(handle != NULL);
    return mirror_handle_lines(handle) + mirror_home(hash, lines);
}

/* ---- entries ---- */

/* The word of an entry. */
static inline uint32_t
word_load(const struct mirror_line *line, uint32_t at)
{
    return atomic_load_explicit(&line->word[at], memory_order_acquire);
}

/* Release: a reader that sees the word sees what it refers to. */
static inline void
word_store(struct mirror_entry entry, uint32_t word)
{
    atomic_store_explicit(&entry.line->word[entry.at], word,
                          memory_order_release);
}

/* The key of an entry. */
static inline uint64_t
key_load(const struct mirror_line *line, uint32_t at)
{
    return atomic_load_explicit(&line->key[at], memory_order_acquire);
}

/* How many live entries that came by this line lie further on. Acquire: a
 * reader that sees that one left sees its tomb. */
static inline uint32_t
line_past(const struct mirror_line *line)
{
    return atomic_load_explicit(&line->past, memory_order_acquire);
}

/* Whether an entry with this word holds something. */
static inline bool
word_live(uint32_t word)
{
    return (word & (WORD_KIND & ~WORD_TOMB)) != 0;
}

/* Whether it refers to a holder set. */
static inline bool
word_is_set(uint32_t word)
{
    return (word & WORD_KIND) == WORD_HOLDER_SET;
}

/* What is looked for: a key, and in TIERS the slot in its word. */
struct mirror_wanted {
    uint64_t key;
    uint32_t mask;
    uint32_t word;
};

/* What to look for in TIERS. */
static inline struct mirror_wanted
mirror_wanted_tiers(uint64_t key, uint32_t slot)
{
    CHECK_SLOW(slot < WORKERS_MAX);
    return (struct mirror_wanted){
        .key = key,
        .mask = SLOT_MASK << TIERED_SHIFT,
        .word = slot << TIERED_SHIFT,
    };
}

/*
 * The word of an entry whose key is the wanted one, WORD_EMPTY when it turned
 * out to be another. An entry gets another key only as a tomb, and only after
 * every reader who may have known it before is gone: so a key that is the same
 * before and after the word was its key all the time.
 */
static inline uint32_t
mirror_word_of(const struct mirror_line *line, uint32_t at,
               const struct mirror_wanted *wanted)
{
    uint32_t word = word_load(line, at);

    if (!word_live(word) || (word & wanted->mask) != wanted->word ||
        atomic_load_explicit(&line->key[at], memory_order_relaxed) !=
            wanted->key) {
        return WORD_EMPTY;
    }
    return word;
}

/* The entries of a line with this key, as bits. All are compared and nothing
 * is branched on: where in a line a key lies cannot be foretold. Written out,
 * for the compiler leaves a loop over atomics a loop. */
static inline uint32_t
line_hits(const struct mirror_line *line, uint64_t key)
{
    return (uint32_t)(key_load(line, 0) == key) |
           (uint32_t)(key_load(line, 1) == key) << 1 |
           (uint32_t)(key_load(line, 2) == key) << 2 |
           (uint32_t)(key_load(line, 3) == key) << 3 |
           (uint32_t)(key_load(line, 4) == key) << 4;
}

_Static_assert(MIRROR_LINE_ENTRIES == 5, "line_hits() counts on it");

/*
 * The live entry from this line on and its word. Bounded by the size of the
 * table. An entry that is there all the time is found: it was counted in the
 * lines before its own before its key was entered, and is until it is a tomb.
 */
static inline struct mirror_entry
mirror_find_from(const struct mirror *mirror, const char *handle, uint64_t hash,
                 const struct mirror_wanted *wanted, uint32_t *word)
{
    uint32_t lines = mirror_lines(mirror, mirror_shard(hash), handle);
    struct mirror_line *first = mirror_handle_lines(handle);
    uint32_t at = mirror_home(hash, lines);

    CHECK_SLOW(lines > 0);
    for (uint32_t n = 0; n < lines; n++) {
        struct mirror_line *line = &first[at];
        for (uint32_t hits = line_hits(line, wanted->key); hits != 0;
             hits &= hits - 1) {
            uint32_t i = (uint32_t)__builtin_ctz(hits);
            *word = mirror_word_of(line, i, wanted);
            if (LIKELY(*word != WORD_EMPTY)) {
                return (struct mirror_entry){.line = line, .at = i};
            }
        }
        if (line_past(line) == 0) {
            break;
        }
        at = at + 1 < lines ? at + 1 : 0;
    }
    *word = WORD_EMPTY;
    return (struct mirror_entry){.line = NULL};
}

/* The word of a key's holders, WORD_EMPTY when nobody has it. */
static inline uint32_t
mirror_find_holders(const struct mirror *mirror, const char *handle,
                    uint64_t hash, uint64_t key)
{
    struct mirror_wanted wanted = {.key = key};
    uint32_t word = WORD_EMPTY;

    if (LIKELY(handle != NULL)) {
        (void)mirror_find_from(mirror, handle, hash, &wanted, &word);
    }
    return word;
}

/* ---- holders ---- */

/* The i-th slot that a word of HOLDERS names. */
static inline uint32_t
word_slot(uint32_t word, uint32_t i)
{
    CHECK_SLOW(i < WORD_INLINE);
    return word >> (WORD_SLOTS + i * SLOT_BITS) & SLOT_MASK;
}

/* The slot of a word of TIERS. */
static inline uint32_t
word_tiered(uint32_t word)
{
    return word >> TIERED_SHIFT & SLOT_MASK;
}

/* The number of the holder set in a word of HOLDERS. */
static inline uint32_t
word_holder_set(uint32_t word)
{
    CHECK_SLOW(word_is_set(word));
    return word >> WORD_SHIFT;
}

/* Where a holder set lies: its segment (eight of a size, then eight of twice
 * that) and its place there. */
static inline uint32_t
mirror_holder_set_segment(uint32_t number, uint32_t *place)
{
    uint64_t x = (uint64_t)number + (uint64_t)8 * MIRROR_HOLDER_SETS;
    uint32_t shift = (uint32_t)(63 - __builtin_clzll(x)) - 3;

    *place = (uint32_t)(x & ((UINT64_C(1) << shift) - 1));
    return (shift - 8) * 8 + (uint32_t)(x >> shift & 7);
}

_Static_assert(MIRROR_HOLDER_SETS == 1 << 8,
               "mirror_holder_set_segment() counts on it");

/* The holder set of a number that was made. */
static inline struct mirror_holder_set *
mirror_holder_set_at(const struct mirror *mirror, uint32_t number)
{
    uint32_t place;
    uint32_t segment = mirror_holder_set_segment(number, &place);

    return atomic_load_explicit(&mirror->segment[segment],
                                memory_order_acquire) +
           place;
}

/* The slots that a word of HOLDERS names. */
static inline void
mirror_holders(const struct mirror *mirror, uint32_t word,
               struct worker_set *set)
{
    if (word_is_set(word)) {
        const struct mirror_holder_set *holder_set =
            mirror_holder_set_at(mirror, word_holder_set(word));
        for (uint32_t i = 0; i < WORKER_WORDS; i++) {
            set->word[i] = atomic_load_explicit(&holder_set->word[i],
                                                memory_order_acquire);
        }
        return;
    }
    worker_set_clear(set);
    for (uint32_t i = 0; i < (word & WORD_COUNT); i++) {
        worker_set_add(set, word_slot(word, i));
    }
}

/* Whether the slot is among the holders of this word. */
static inline bool
mirror_word_has(const struct mirror *mirror, uint32_t word, uint32_t slot)
{
    CHECK_SLOW(slot < WORKERS_MAX);
    if (word_is_set(word)) {
        const struct mirror_holder_set *set =
            mirror_holder_set_at(mirror, word_holder_set(word));
        return (atomic_load_explicit(&set->word[slot / 64],
                                     memory_order_acquire) >>
                    slot % 64 &
                1) != 0;
    }
    for (uint32_t i = 0; i < (word & WORD_COUNT); i++) {
        if (word_slot(word, i) == slot) {
            return true;
        }
    }
    return false;
}

/* ---- mirror_table.c: memory and tables ---- */

/* Zeroed memory that counts, aligned to PAGE_HEAP_ALIGN, or NULL and
 * mirror->fault. */
void *mirror_alloc(struct mirror *mirror, size_t bytes);

/* Frees what mirror_alloc() returned, of this size. */
void mirror_release(struct mirror *mirror, void *memory, size_t bytes);

/* A writer's lookup: the live entry and its word. */
struct mirror_entry mirror_find(const struct mirror *mirror,
                                enum mirror_kind kind, uint64_t hash,
                                const struct mirror_wanted *wanted,
                                uint32_t *word);

/* Enters a key that is not there, growing the table when it has to. False:
 * no room, mirror->fault says why. */
bool mirror_enter(struct mirror *mirror, enum mirror_kind kind, uint64_t hash,
                  uint64_t key, uint32_t word) MUST_CHECK;

/* Makes the shard's table large enough for so many more blocks, where memory
 * allows it, and no larger: else what one mirror held would not fit another one
 * of its bound. Blocks that come in the order of their hashes, as from another
 * mirror, need that: in a table that grows as they come, all would gather in
 * its first part. */
void mirror_reserve(struct mirror *mirror, uint32_t shard, uint64_t live);

/* Makes a live entry a tomb. */
void mirror_bury(struct mirror *mirror, enum mirror_kind kind, uint32_t shard,
                 struct mirror_entry entry);

/* A table of another size where that is wanted: larger ahead of need, smaller
 * when most of it is unused. How many entries that moved. */
uint32_t mirror_resize(struct mirror *mirror, enum mirror_kind kind,
                       uint32_t shard);

/* Frees the tables; nobody reads. */
void mirror_tables_free(struct mirror *mirror);

/* ---- mirror_apply.c: one block ---- */

/* The block is in the tier. False: no room, nothing changed. */
bool mirror_store(struct mirror *mirror, uint32_t slot, uint64_t key,
                  enum tier tier) MUST_CHECK;

/* ---- mirror_holder_set.c: sets of holders ---- */

/* Adds a holder to a live entry. False: no room. */
bool mirror_holder_add(struct mirror *mirror, struct mirror_entry entry,
                       uint32_t word, uint32_t slot) MUST_CHECK;

/* Takes one away; the last one buries the entry. */
void mirror_holder_drop(struct mirror *mirror, uint32_t shard,
                        struct mirror_entry entry, uint32_t slot);

/* Puts a chain at the end of another. */
void mirror_holder_sets_join(struct mirror *mirror, struct mirror_chain *to,
                             struct mirror_chain *from);

/* Every holder set that was made is used, free or waits for readers. */
bool mirror_holder_sets_sound(const struct mirror *mirror);

/* Bytes of all segments. */
size_t mirror_holder_sets_bytes(const struct mirror *mirror);

/* Frees all segments; nobody reads. */
void mirror_holder_sets_free(struct mirror *mirror);

/* ---- mirror.c ---- */

/* Begins a grace period if something waits for one and none runs. */
void mirror_grace(struct mirror *mirror);

/* Says that a slot may have holes, before it gets one. */
void mirror_walk_set(struct mirror *mirror, uint32_t slot);

/* Says that it has none any more, after the last one was filled. */
void mirror_walk_clear(struct mirror *mirror, uint32_t slot);

/* Says that blocks are going to be removed from a slot that may have holes,
 * and again that they have been. */
void mirror_tear(struct mirror *mirror, uint32_t slot);

/* Says whether a slot has entries in TIERS: before the first, after the
 * last. */
void mirror_tiered_mark(struct mirror *mirror, uint32_t slot, bool tiered);

/* ---- mirror_apply.c ---- */

/* A slot does not hold the block of this entry any more: counts, and takes it
 * out. */
void mirror_unhold(struct mirror *mirror, uint32_t shard,
                   struct mirror_entry entry, uint32_t slot);

/* The tiers that a block is in which the slot holds, a bit for each. */
uint64_t mirror_tiers_of(const struct mirror *mirror, uint32_t slot,
                         uint64_t key);

/* Takes an entry of TIERS out. */
void mirror_untier(struct mirror *mirror, uint32_t shard,
                   struct mirror_entry entry, uint32_t slot);

#endif
