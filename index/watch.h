/*
 * How a copy of the index (a snapshot) follows its changes.
 *
 * A copy is made of parts, which are read one after another while the index
 * changes. Two things make it exact all the same. `dirty` says which parts
 * changed since they were read, so that the next copy reads only those. And the
 * journal has everything that changed since it was attached, in order. Parts,
 * each read at a moment of its own, and then the journal from before the first
 * of them until after the last, give the state at the journal's end: what no
 * entry of the journal touched is in its part as it was, and for the rest the
 * last entry counts.
 *
 * Slots (of the mirror; of the ledger, its streams) are reused. In a copy,
 * parts count for slots that were open all the time the journal was kept
 * (`kept`); for one that was opened in that time, the journal alone.
 *
 * Words of a journal: an op, its kind in the low four bits and the slot in the
 * ten above, then what the kind says.
 *
 * Role: core. Owns: nothing. Thread: the index's writer.
 */
#ifndef INDEX_WATCH_H
#define INDEX_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/words.h"
#include "index/base/worker_set.h"

struct watch {
    bool *dirty; /* by part */
    uint32_t parts_max;
    struct words *journal; /* NULL: nothing is being copied */
};

enum watch_kind {
    WATCH_OPEN = 1, /* the slot is new, and empty */
    WATCH_CLOSE,
    WATCH_APPLY, /* mirror: count of words in bits 32.., the words */
    WATCH_BLOCK, /* ledger: number in bits 32..; name, key, number of the block
                    before it. Nobody holds it yet */
    WATCH_FREE,  /* ledger: nobody knows the number any more */
    WATCH_ENTER, /* ledger: the slot holds the number */
    WATCH_LEAVE,
    WATCH_COPIES, /* ledger: and so many copies, in bits 14 to 31 */
};

#define WATCH_SLOT_SHIFT   4
#define WATCH_COPIES_SHIFT 14
#define WATCH_ARG_SHIFT    32

/* An op of a journal; arg's meaning depends on the kind. */
static inline uint64_t
watch_op(enum watch_kind kind, uint32_t slot, uint32_t arg)
{
    CHECK_SLOW(slot < WORKERS_MAX);
    return (uint64_t)kind | (uint64_t)slot << WATCH_SLOT_SHIFT |
           (uint64_t)arg << WATCH_ARG_SHIFT;
}

/* The slot of an op: of words from elsewhere up to 1023. */
static inline uint32_t
watch_slot(uint64_t op)
{
    return (uint32_t)(op >> WATCH_SLOT_SHIFT & 1023);
}

/* The kind of an op, of unchecked words any number. */
static inline enum watch_kind
watch_kind(uint64_t op)
{
    return (enum watch_kind)(op & 15);
}

/* What bits 32 and up of an op say. */
static inline uint32_t
watch_arg(uint64_t op)
{
    return (uint32_t)(op >> WATCH_ARG_SHIFT);
}

/* A part changed. NULL: nobody watches. */
static inline void
watch_mark(struct watch *watch, uint32_t part)
{
    if (watch != NULL && part < watch->parts_max) {
        watch->dirty[part] = true;
    }
}

/* Where n words of the journal go, or NULL: there is none, or it is full. */
static inline uint64_t *
watch_add(struct watch *watch, size_t n)
{
    CHECK_SLOW(n > 0);
    return watch == NULL || watch->journal == NULL
               ? NULL
               : words_add(watch->journal, n);
}

/* Appends an op to the journal, if there is one. */
static inline void
watch_tell(struct watch *watch, uint64_t op)
{
    uint64_t *at = watch_add(watch, 1);

    if (at != NULL) {
        *at = op;
    }
}

/* Which slots are to be filled from a copy. */
struct watch_slots {
    struct worker_set live; /* open at the end */
    struct worker_set kept; /* of these, those whose parts count */
};

/* The words of one op; 0 when it is none, or not whole. */
size_t watch_op_words(const uint64_t *words, size_t count);

/*
 * Walks a journal that came from a copy. after[slot]: the word after the last
 * OPEN or CLOSE of each slot. False: it is malformed.
 */
bool watch_journal_check(const uint64_t *words, size_t count,
                         size_t after[WORKERS_MAX]);

#endif
