/*
 * The inside of the ledger: entries, sets of holders, rows, and their links.
 *
 * An entry is one block as engines name it: (name, key, entry of the block
 * before it). Streams that name the block alike share the entry as its holders.
 * A table of lines finds entries by name: a line is a cache line of ten numbers
 * of entries, each with bits of its name's hash, so a name that is not there
 * costs one line and no entry. Exceptions of one (entry, stream) pair are rows
 * of 8 bytes in side tables: its copies, unless it is one in the device; and how
 * many kids the stream holds below an entry that has many.
 *
 * Role: core, private. Owns: nothing. Thread: one owner.
 */
#ifndef INDEX_LEDGER_INTERNAL_H
#define INDEX_LEDGER_INTERNAL_H

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "index/base/page_heap.h"
#include "index/base/rng.h"
#include "index/ledger.h"

#define REF_BITS 29
#define REF_MASK ((UINT32_C(1) << REF_BITS) - 1)
#define REF_NONE 0U

/* entry.link: the next of its parent's kids, or when LINK_UP the parent, 0 for
 * a root. Zero altogether: the entry is free. */
#define LINK_UP      (UINT32_C(1) << 31)
#define LINK_ODD     (UINT32_C(1) << 30) /* there may be rows of its copies */
#define LINK_COUNTED (UINT32_C(1) << 29) /* the parent's kids are counted */

/* entry.kid: the first kid, or when KID_COUNTED how many there are; who holds
 * them is then in rows. */
#define KID_COUNTED   (UINT32_C(1) << 31)
#define KIDS_LIST_MAX 8

/* Packed, for there are many; the pool uses its first word while it is free. */
struct __attribute__((packed, aligned(4))) entry {
    uint64_t name;
    uint64_t key;
    uint32_t holders; /* ledger_holders.c */
    uint32_t kid;
    uint32_t link;
};
_Static_assert(sizeof(struct entry) == 28, "what a block costs");

/* Things of one size in segments of so many bytes at most, named by numbers
 * from 1. */
#define SEGMENT_BYTES ((size_t)64 << 10)

struct pool {
    unsigned char **segment;
    uint32_t segments;
    uint32_t segments_max;
    uint32_t size;  /* bytes of one thing */
    uint32_t shift; /* a segment holds 1 << shift */
    uint32_t fresh; /* the lowest number never given out */
    uint32_t free;  /* the first that was given back */
    uint32_t used;
    uint32_t claimed; /* promised, not yet taken */
};

/* A row: entry, stream and a value that is not 0. */
#define ROW_SHARD_BITS 10
#define ROW_SHARDS     (1 << ROW_SHARD_BITS)
#define ROW_VALUE_BITS 24
#define ROW_VALUE_MAX  ((UINT32_C(1) << ROW_VALUE_BITS) - 1)
#define STREAM_BITS    10
_Static_assert(LEDGER_STREAMS_MAX <= 1 << STREAM_BITS, "streams fit in rows");
_Static_assert(REF_BITS + STREAM_BITS + ROW_VALUE_BITS <= 64, "rows fit");

struct row_shard {
    uint64_t *row;
    uint32_t size;
    uint32_t count;
    uint32_t claimed;
};

struct rows {
    struct row_shard shard[ROW_SHARDS];
    uint64_t claimed; /* over all shards */
    uint32_t tidied;  /* the shard to look at next */
};

enum stream_state {
    STREAM_FREE,
    STREAM_OPEN,
    STREAM_CLOSED,   /* waits for the next sweep */
    STREAM_SWEEPING, /* this one clears it */
};

struct stream {
    enum stream_state state;
    uint32_t holes;
    uint64_t blocks;
    uint64_t copies; /* blocks with several copies in a tier */
};

/*
 * Names, in 1024 tables of lines. The hash of a name chooses the table, then by
 * its next bits, which stay with the number, the line where it belongs: a table
 * grows without a look at its entries. A name for which there is no room there
 * lies in a line further on, until one leaves and it can come closer.
 */
#define NAME_SHARD_BITS 10
#define NAME_SHARDS     (1U << NAME_SHARD_BITS)
#define NAME_PART_BITS  19 /* bits of a hash that a line keeps */
#define NAME_TAG_BITS   16 /* ... of these apart from the number */
#define NAME_SLOTS      10

struct name_line {
    uint32_t slot[NAME_SLOTS]; /* a number, REF_NONE: free; above it 3 bits */
    uint16_t tag[NAME_SLOTS];
    uint32_t past; /* names that lie further on, but came by here */
};
_Static_assert(sizeof(struct name_line) == 64, "a cache line");
_Static_assert(REF_BITS + NAME_PART_BITS - NAME_TAG_BITS == 32, "a slot");

struct name_shard {
    struct name_line *line;
    uint32_t lines;
    uint32_t used; /* slots */
};

struct name_table {
    struct name_shard shard[NAME_SHARDS];
    uint32_t tidied; /* the shard to look at next */
};

struct ledger {
    struct page_heap heap;
    size_t bytes;
    size_t bytes_max;
    int refusal; /* why the last take() failed */
    struct pool entries;
    struct pool sets;
    struct name_table names;
    struct rows copies;
    struct rows kids;
    uint32_t *scratch;
    size_t scratch_len;
    uint32_t cursor; /* of the sweep, 0 when there is none */
    bool litter;     /* entries nobody needs were left for a sweep */
    struct watch *watch;
    struct names_said *said; /* NULL: nobody listens */
    uint32_t said_stream;    /* ... to any other stream's changes */
    struct watch_slots loading;
    struct stream stream[LEDGER_STREAMS_MAX];
};

/* ---- ledger_memory.c: bytes within the bound, and pools ---- */

/* Zeroed memory, aligned to PAGE_HEAP_ALIGN. NULL and l->refusal: there is no
 * room. */
void *ledger_take(struct ledger *l, size_t size);

/* Frees what ledger_take() returned, of this size. NULL is fine. */
void ledger_give(struct ledger *l, void *memory, size_t size);

/* Makes an empty pool of things of size bytes. 0, LEDGER_E_FULL or -ENOMEM. */
int ledger_pool_init(struct ledger *l, struct pool *pool, uint32_t size)
    MUST_CHECK;

/* Frees all segments; a pool of zeros is fine. */
void ledger_pool_fini(struct ledger *l, struct pool *pool);

/* Adds a segment. False and l->refusal: there is no room. */
bool ledger_pool_grow(struct ledger *l, struct pool *pool) MUST_CHECK;

/* Takes a number back. */
void ledger_pool_give(struct pool *pool, uint32_t ref);

/* The thing of this number, which was given out. */
static inline void *
pool_at(const struct pool *pool, uint32_t ref)
{
    CHECK_SLOW(ref >> pool->shift < pool->segments);
    return pool->segment[ref >> pool->shift] +
           (size_t)(ref & ((1U << pool->shift) - 1)) * pool->size;
}

/* Numbers there is memory for, given out or not. */
static inline uint32_t
pool_numbers(const struct pool *pool)
{
    return pool->segments == 0 ? 0 : (pool->segments << pool->shift) - 1;
}

/* Promises room for one more thing. False and l->refusal: there is none. */
static inline bool
ledger_pool_claim(struct ledger *l, struct pool *pool)
{
    CHECK_SLOW(pool->used + pool->claimed <= pool_numbers(pool));
    if (UNLIKELY(pool_numbers(pool) - pool->used <= pool->claimed) &&
        !ledger_pool_grow(l, pool)) {
        return false;
    }
    pool->claimed++;
    return true;
}

/* Takes a number that was claimed. The thing's content is undefined: the pool
 * uses its first word while it is free. */
static inline uint32_t
ledger_pool_take(struct pool *pool)
{
    uint32_t ref = pool->free;

    CHECK(pool->claimed > 0);
    pool->claimed--;
    pool->used++;
    if (ref != REF_NONE) {
        pool->free = *(const uint32_t *)pool_at(pool, ref);
        return ref;
    }
    CHECK(pool->fresh <= pool_numbers(pool));
    return pool->fresh++;
}

/* The entry of this number, which is not REF_NONE. */
static inline struct entry *
entry_at(const struct ledger *l, uint32_t ref)
{
    CHECK_SLOW(ref != REF_NONE);
    return pool_at(&l->entries, ref);
}

/* ---- ledger_names.c: entries by name ---- */

#define NAMES_GROUP 32 /* names whose misses overlap */

/* Frees the table; one of zeros, which is empty, is fine. */
void ledger_names_fini(struct ledger *l);

/* The hash's table. */
static inline uint32_t
name_shard(uint64_t hash)
{
    return (uint32_t)(hash >> (64 - NAME_SHARD_BITS));
}

/* The hash's bits that a line keeps. */
static inline uint32_t
name_part(uint64_t hash)
{
    return (uint32_t)(hash << NAME_SHARD_BITS >> (64 - NAME_PART_BITS));
}

/* The line where these bits belong: rising with them, so that a larger table
 * has its names in the same order. */
static inline uint32_t
name_home(uint32_t part, uint32_t lines)
{
    CHECK_SLOW(lines > 0);
    return (uint32_t)((uint64_t)part * lines >> NAME_PART_BITS);
}

/* A search for a name: what it still has to look at. */
struct name_walk {
    const struct name_line *line;
    uint32_t lines;
    uint32_t at;
    uint32_t further; /* lines after this one, at the most */
    uint32_t hits;    /* slots of this line, as bits */
    uint16_t tag;
};

/* The slots of a line with this tag, as bits. All are compared and nothing is
 * branched on: where in a line a name lies cannot be foretold. */
static inline uint32_t
name_hits(const struct name_line *line, uint16_t tag)
{
    uint32_t hits = 0;
    uint32_t i = 0;

#ifdef __SSE2__ /* eight in five instructions, not in forty */
    __m128i same = _mm_cmpeq_epi16(_mm_loadu_si128((const void *)line->tag),
                                   _mm_set1_epi16((int16_t)tag));
    hits =
        (uint32_t)_mm_movemask_epi8(_mm_packs_epi16(same, _mm_setzero_si128()));
    i = 8;
#endif
    for (; i < NAME_SLOTS; i++) {
        hits |= (uint32_t)(line->tag[i] == tag) << i;
    }
    return hits;
}

/* Begins a search. */
static inline struct name_walk
name_walk(const struct name_table *names, uint64_t name)
{
    uint64_t hash = rng_mix(name);
    const struct name_shard *shard = &names->shard[name_shard(hash)];
    uint32_t part = name_part(hash);
    struct name_walk walk = {
        .line = shard->line, .lines = shard->lines, .tag = (uint16_t)part};

    if (shard->lines > 0) {
        walk.at = name_home(part, shard->lines);
        walk.further = shard->lines - 1;
        walk.hits = name_hits(&walk.line[walk.at], walk.tag);
    }
    return walk;
}

/* The next entry that may have the name, REF_NONE after the last one. */
static inline uint32_t
name_next(struct name_walk *walk)
{
    for (;;) {
        while (walk->hits == 0) {
            if (walk->lines == 0 || walk->line[walk->at].past == 0 ||
                walk->further == 0) {
                return REF_NONE;
            }
            walk->further--;
            walk->at = walk->at + 1 < walk->lines ? walk->at + 1 : 0;
            walk->hits = name_hits(&walk->line[walk->at], walk->tag);
        }
        uint32_t slot = (uint32_t)__builtin_ctz(walk->hits);
        walk->hits &= walk->hits - 1;
        uint32_t ref = walk->line[walk->at].slot[slot] & REF_MASK;
        if (LIKELY(ref != REF_NONE)) {
            return ref;
        }
    }
}

/* The entry that the stream holds under this name, or REF_NONE. */
uint32_t ledger_held(const struct ledger *l, uint32_t stream, uint64_t name);

/* Enters an entry, which has its name and is not there yet. False and
 * l->refusal: there is no room. */
bool ledger_names_insert(struct ledger *l, uint32_t ref) MUST_CHECK;

/* Takes an entry out; it is there. */
void ledger_names_remove(struct ledger *l, uint32_t ref);

/* Makes an empty table large enough for all entries there are. 0, or as
 * l->refusal says. */
int ledger_names_reserve(struct ledger *l) MUST_CHECK;

/* Fetches the line where a name is going to be entered. */
void ledger_names_fetch(const struct ledger *l, uint64_t name);

/* Looks at one shard and shrinks it when it is far too large. */
void ledger_names_tidy(struct ledger *l);

/* ---- ledger_image.c: what the journal is told ---- */

#define IMAGE_ALIVE        (UINT64_C(1) << 63)
#define IMAGE_COPIES       (UINT64_C(1) << 62)
#define IMAGE_SET          (UINT64_C(1) << 61)
#define IMAGE_PARENT_SHIFT 32
#define IMAGE_COPIES_SHIFT 16

/* ledger_tell_block() and ledger_tell() where somebody listens. */
void ledger_told_block(struct ledger *l, uint32_t ref, uint32_t parent);
void ledger_told(struct ledger *l, enum watch_kind kind, uint32_t ref,
                 uint32_t stream, uint32_t copies);

/* Tells of a new entry. */
static inline void
ledger_tell_block(struct ledger *l, uint32_t ref, uint32_t parent)
{
    CHECK_SLOW(ref != REF_NONE && ref != parent);
    if (l->watch != NULL) {
        ledger_told_block(l, ref, parent);
    }
}

/* Tells of FREE, ENTER, LEAVE or COPIES. */
static inline void
ledger_tell(struct ledger *l, enum watch_kind kind, uint32_t ref,
            uint32_t stream, uint32_t copies)
{
    CHECK_SLOW(stream < LEDGER_STREAMS_MAX && copies <= NAMES_COPIES_MAX);
    if (l->watch != NULL || l->said != NULL) {
        ledger_told(l, kind, ref, stream, copies);
    }
}

/* ---- ledger_holders.c: sets of streams in a word ---- */

/*
 * Low two bits 1 to 3: so many streams, 10 bits each from bit 2 on. Low two
 * bits 0: the number of a bitmap in l->sets from bit 2 on, or 0 for nobody.
 */
#define HOLDERS_INLINE 3

/* Whether one more holder may need a bitmap. */
static inline bool
holders_tight(uint32_t word)
{
    return (word & 3) == HOLDERS_INLINE;
}

/* The i-th stream that a word names. */
static inline uint32_t
holders_inline(uint32_t word, uint32_t i)
{
    CHECK_SLOW(i < HOLDERS_INLINE);
    return word >> (2 + i * STREAM_BITS) & ((1U << STREAM_BITS) - 1);
}

/* Whether the stream is among the holders of this word. */
static inline bool
holders_has(const struct ledger *l, uint32_t word, uint32_t stream)
{
    uint32_t count = word & 3;

    CHECK_SLOW(stream < LEDGER_STREAMS_MAX);
    if (count == 0) {
        return word != 0 &&
               worker_set_has(pool_at(&l->sets, word >> 2), stream);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (holders_inline(word, i) == stream) {
            return true;
        }
    }
    return false;
}

/* The word of one holder. */
static inline uint32_t
holders_one(uint32_t stream)
{
    CHECK_SLOW(stream < LEDGER_STREAMS_MAX);
    return 1 | stream << 2;
}

/* The word with one more holder, which was not in it. A bitmap was claimed if
 * holders_tight(). */
uint32_t ledger_holders_add(struct ledger *l, uint32_t word, uint32_t stream);
/* The word without a holder that was in it. */
uint32_t ledger_holders_remove(struct ledger *l, uint32_t word,
                               uint32_t stream);

/* All holders of this word. */
struct worker_set ledger_holders_set(const struct ledger *l, uint32_t word);

/* ---- ledger_rows.c: the side tables ---- */

/* The value of a row; 0: there is no row. */
uint32_t ledger_rows_get(const struct rows *rows, uint32_t ref,
                         uint32_t stream);
/* Claims room for a row of this pair. False and l->refusal: there is none. */
bool ledger_rows_claim(struct ledger *l, struct rows *rows, uint32_t ref,
                       uint32_t stream) MUST_CHECK;
/* Sets a row's value; 0 removes the row. A new row was claimed. */
void ledger_rows_put(struct rows *rows, uint32_t ref, uint32_t stream,
                     uint32_t value);

/* Gives up every claim that was not used. */
void ledger_rows_unclaim(struct rows *rows);
/* Looks at one shard and shrinks it when it is far too large. */
void ledger_rows_tidy(struct ledger *l, struct rows *rows);

/* Frees the rows. */
void ledger_rows_fini(struct ledger *l, struct rows *rows);

/* False when a row is not where it is found, or miscounted. */
bool ledger_rows_check(const struct rows *rows);

/* ---- ledger_kids.c: which block comes before which ---- */

/* The entry before this one, REF_NONE for a root's first block. */
uint32_t ledger_parent(const struct ledger *l, const struct entry *entry);
/* Claims room for a new kid of ref that the stream will hold. */
bool ledger_kids_claim(struct ledger *l, uint32_t ref, uint32_t stream)
    MUST_CHECK;
/* Adds a new entry without holders below parent (or REF_NONE). */
void ledger_kids_add(struct ledger *l, uint32_t parent, uint32_t ref);
/* Removes an entry without holders from its parent, and returns the parent. */
uint32_t ledger_kids_remove(struct ledger *l, uint32_t ref);
/* How many kids of the entry the stream holds. */
uint32_t ledger_kids_held(const struct ledger *l, uint32_t ref,
                          uint32_t stream);

/* ---- ledger_pair.c: a stream and an entry ---- */

/* Copies of a block per tier, as names.h has them. */
#define COPIES_PLAIN 1U /* one in the device: no row */

/* How many copies are in this tier. */
static inline uint32_t
copies_in(uint32_t copies, enum tier tier)
{
    return copies >> names_copies_shift(tier) & names_copies_most(tier);
}

/* The same copies, except that this tier has so many. */
static inline uint32_t
copies_with(uint32_t copies, enum tier tier, uint32_t count)
{
    uint32_t shift = names_copies_shift(tier);

    CHECK_SLOW(count <= names_copies_most(tier));
    return (copies & ~(names_copies_most(tier) << shift)) | count << shift;
}

/* The copies of a pair that is held. */
uint32_t ledger_copies(const struct ledger *l, uint32_t ref, uint32_t stream);
/* Claims room for whatever the pair's copies may become. */
bool ledger_copies_claim(struct ledger *l, uint32_t ref, uint32_t stream)
    MUST_CHECK;

/* Sets the copies, not 0, of a pair that is held; room was claimed. */
void ledger_copies_set(struct ledger *l, uint32_t ref, uint32_t stream,
                       uint32_t copies);

/* The stream holds the entry from now on, once and in the device. */
void ledger_enter(struct ledger *l, uint32_t ref, uint32_t stream);
/* The stream no longer holds the entry, which goes when nobody needs it. */
void ledger_leave(struct ledger *l, uint32_t ref, uint32_t stream);
/* Frees an entry without holders and kids, and what only it kept. */
void ledger_release(struct ledger *l, uint32_t ref);

#endif
