/*
 * Names: an engine's names for the blocks that one stream holds, as the ledger
 * of its reader has them, for nodes that do not read the engine.
 *
 * The ledger (ledger.h) belongs to whoever reads. It says what changed in it,
 * batch by batch, as words (struct names_said), and a table that applies the
 * words of all batches has the same names. From such a table a ledger is
 * filled (ledger_adopt_begin()), and the reading goes on where the table ends.
 *
 * Every op says how a name stands from then on, not what was added to it. So
 * applying words twice changes nothing, and the last word on a name wins.
 *
 *   op word: kind in bits 0..7, bit 8: has a parent, copies in bits 14..31,
 *   count in bits 32..63
 *   ENTER   [the parent's key], then count times a name and its key: blocks
 *           that are held now, once and in the device, each the parent of the
 *           next one
 *   COPIES  count names: of each so many copies: 9 bits for the device, from
 *           bit 0 on, 3 for each further tier
 *   LEAVE   count names, which are not held any more
 *   READER  count words of the reader's own, whose last ones count
 *
 * A table is 256 parts, so that growing moves few names at a time. Names are
 * ordered by a mix of their bits, and a page of a table is what lies in a range
 * of that order. So pages are exact however the table changes between them.
 * Bytes for each name: 40 to 50.
 *
 * Role: core. Owns: the table's memory. Thread: one owner. Limits: the bytes of
 * struct names_room, shared by tables; NAMES_READER_MAX. Errors: named
 * outcomes.
 */
#ifndef INDEX_NAMES_H
#define INDEX_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/words.h"
#include "index/event.h"

#define NAMES_PARTS      256U
#define NAMES_READER_MAX 32U        /* words that a reader says of itself */
#define NAMES_END        UINT64_MAX /* no page after this one */
#define NAMES_PLAIN      1U         /* copies: one in the device */
#define NAMES_COPIES_MAX ((UINT32_C(1) << 18) - 1)

enum names_kind {
    NAMES_ENTER,
    NAMES_COPIES,
    NAMES_LEAVE,
    NAMES_READER,
    NAMES_KINDS,
};

/* One name. */
struct names_block {
    uint64_t name;
    uint64_t key;
    uint64_t parent; /* key of the block before it, if there is one */
    uint32_t copies; /* as in COPIES; 0: it left (names_keep_left()) */
    bool has_parent;
    /* The table's. */
    bool used; /* the place is taken */
    bool bare; /* only its copies are known, until a page has the rest */
};

/* The most copies that are counted in a tier. */
static inline uint32_t
names_copies_most(enum tier tier)
{
    return tier == TIER_DEVICE ? 511 : 7;
}

/* Where a tier's copies begin. */
static inline uint32_t
names_copies_shift(enum tier tier)
{
    CHECK_SLOW(tier < TIERS);
    return tier == TIER_DEVICE ? 0 : 6 + 3 * (uint32_t)tier;
}

/* An op word. */
static inline uint64_t
names_op(enum names_kind kind, bool has_parent, uint32_t copies, uint32_t count)
{
    CHECK_SLOW(copies <= NAMES_COPIES_MAX);
    return (uint64_t)kind | (uint64_t)has_parent << 8 | (uint64_t)copies << 14 |
           (uint64_t)count << 32;
}

/* The kind in an op word, of unchecked words any number. */
static inline enum names_kind
names_op_kind(uint64_t op)
{
    return (enum names_kind)(op & 0xff);
}

/* Whether a parent follows. */
static inline bool
names_op_has_parent(uint64_t op)
{
    return (op >> 8 & 1) != 0;
}

/* The copies that an op says. */
static inline uint32_t
names_op_copies(uint64_t op)
{
    return (uint32_t)(op >> 14 & NAMES_COPIES_MAX);
}

/* The count in an op word. */
static inline uint32_t
names_op_count(uint64_t op)
{
    return (uint32_t)(op >> 32);
}

/* The words of an op, itself included; 0: it is none. */
size_t names_op_words(uint64_t op);

/* ---- what changed ---- */

/* Words of one batch. Its owner makes and frees `words`. */
struct names_said {
    struct words words;
    size_t last; /* the last op, when there are words */
};

/* Forgets what was said; the memory is kept. */
void names_said_clear(struct names_said *said);

/* The block of that name is held now, once and in the device. What does not
 * fit sets words.failed, here and below. */
void names_say_enter(struct names_said *said, const struct names_block *block);

/* So many copies of it are held; copies: not 0. */
void names_say_copies(struct names_said *said, uint64_t name, uint32_t copies);

/* It is not held any more. */
void names_say_leave(struct names_said *said, uint64_t name);

/* What the reader says of itself; count is at most NAMES_READER_MAX. */
void names_say_reader(struct names_said *said, const uint64_t *words,
                      uint32_t count);

/* How far words were taken. */
struct names_at {
    size_t at;    /* the op */
    size_t in_op; /* ... and how many of its count */
};

/* Takes as many of the words as there is room for: all that are left, or more
 * than NAMES_READER_MAX. A run that does not fit is parted. Returns how many
 * words were written. */
size_t names_take(const uint64_t *words, size_t count, struct names_at *at,
                  uint64_t *into, size_t max);

/* ---- tables ---- */

/* What several tables may allocate together. */
struct names_room {
    size_t bytes;
    size_t bytes_max;
};

struct names_part {
    struct names_block *block; /* size places, or NULL */
    uint32_t size;
    uint32_t count; /* taken, those that left included */
};

/* A table. All zeros: empty, and nothing is allocated. */
struct names {
    uint64_t count;    /* held */
    uint64_t left;     /* kept though they left, or are bare */
    uint64_t digest;   /* XOR over what is held, see names_block_digest() */
    uint32_t missing;  /* the last parts, which a twin does not have yet */
    bool keeps;        /* names that leave are kept */
    bool reader_known; /* a READER was applied */
    uint32_t reader_count;
    uint64_t reader[NAMES_READER_MAX];
    struct names_part part[NAMES_PARTS];
};

enum {
    NAMES_E_FULL = 1, /* the room's bound, or no memory: part was applied */
    NAMES_E_BAD,      /* no such words: what stood before them was applied */
};

/* What one name adds to a table's digest. */
uint64_t names_block_digest(const struct names_block *block);

/* Forgets all names and frees the memory. */
void names_clear(struct names *names, struct names_room *room);

/* What the table counts for in its room. */
size_t names_bytes(const struct names *names);

/* Applies words, which may come from a peer. 0, NAMES_E_FULL or NAMES_E_BAD. */
int names_apply(struct names *names, struct names_room *room,
                const uint64_t *words, size_t count) MUST_CHECK;

/* The block of that name, or NULL. Valid until the next change. */
const struct names_block *names_find(const struct names *names, uint64_t name);

/* From now on names that leave are kept with 0 copies, and copies of names that
 * are not known, so that names_fill() does not bring back what was before. */
void names_keep_left(struct names *names);

/* Puts in a block from a page unless its name is known, or known to have left.
 * 0 or NAMES_E_FULL. */
int names_fill(struct names *names, struct names_room *room,
               const struct names_block *block) MUST_CHECK;

/* Names that left are forgotten, and no longer kept. */
void names_settle(struct names *names);

/* Copies the blocks from `cursor` (0: the first) on, up to max (1 or more), in
 * order. *next: the cursor of the next page, or NAMES_END. Returns how many. */
uint32_t names_page(const struct names *names, uint64_t cursor,
                    struct names_block *into, uint32_t max, uint64_t *next);

/* ---- a twin ---- */

/*
 * A copy of one table that is made part by part while the table changes. What
 * is applied to the table is applied to the twin as well, so both are equal
 * once no part is missing. The table has no names that left, and keeps none.
 */
struct names_twin {
    struct names table;
    struct names_room room; /* its own: without a bound */
    bool failed;            /* no memory: the twin is good for names_clear() */
};

/* An empty twin. Allocates nothing. */
void names_twin_init(struct names_twin *twin);

/* Copies further parts, of about so many bytes, one part at least. True: none is
 * missing, or it failed. */
bool names_twin_copy(struct names_twin *twin, const struct names *table,
                     size_t bytes) MUST_CHECK;

/* What was just applied to the table. */
void names_twin_apply(struct names_twin *twin, const uint64_t *words,
                      size_t count);

/* Moves what a part holds to `into` (room for the part's count), in any order,
 * and frees the part; the digest stays as it was. Returns how many. */
uint32_t names_take_part(struct names *names, struct names_room *room,
                         uint32_t part, struct names_block *into);

/* ---- copies ---- */

/*
 * A copy of tables that change meanwhile (a snapshot): their pages, each read at
 * a moment of its own, and then a journal of what was done to them from before
 * the first page until after the last one. Because the last word on a name wins,
 * both, in this order, give the tables as of the journal's end.
 *
 * An entry is an op (its kind in bits 0..7, the count of words in bits 32..63),
 * the stream's worker and rank, and the words, as names_apply() takes them.
 */
enum names_copy_kind {
    NAMES_COPY_SAID,  /* pages, too */
    NAMES_COPY_BEGIN, /* the table is empty, and the reader is not known */
    NAMES_COPY_CLEAR, /* the table is empty */
    NAMES_COPY_LOST,  /* it is another one, and not in the copy, until it begins
                         or is cleared */
    NAMES_COPY_KINDS,
};

struct names_copy {
    enum names_copy_kind kind;
    struct event_stream stream;
    const uint64_t *words;
    size_t count;
};

/* Appends an entry; into may be NULL: nobody copies. */
void names_copy_put(struct words *into, const struct names_copy *entry);

/* Appends what is held from *part on, in about so many words, one part more at
 * most, and raises *part. The table is through at NAMES_PARTS. */
void names_copy_page(const struct names *names, struct event_stream stream,
                     uint32_t *part, size_t words, struct words *into);

/* The entry at *at, which is moved on; its words are borrowed. False: there is
 * none, or it is malformed, and *at is not the end. */
bool names_copy_get(const uint64_t *words, size_t count, size_t *at,
                    struct names_copy *entry);

/* A table that is filled from a copy. */
struct names_copied {
    struct names table;
    bool any;  /* an entry spoke of it */
    bool lost; /* it is not in the copy */
};

/* Does what an entry says. 0; NAMES_E_BAD; or NAMES_E_FULL, and the table is
 * lost. */
int names_copied_take(struct names_copied *copied, struct names_room *room,
                      const struct names_copy *entry) MUST_CHECK;

/* Walks the table and verifies its counts and its digest. False: *reason
 * (static text) says what is wrong. */
bool names_check(const struct names *names, const char **reason);

#endif
