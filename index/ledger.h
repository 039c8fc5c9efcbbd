/*
 * The ledger: which of our keys each engine's block hashes stand for, and how
 * often each block is held, per stream.
 *
 * Engines name blocks by hashes of their own: opaque, seeded, sometimes
 * truncated. The ledger turns a run of such names with its tokens into keys
 * (key.h) by chaining on from the parent's key, and removals back into the
 * same keys. It counts copies (vLLM stores equal blocks twice and removes them
 * twice) and tiers, so that what comes out (event.h) is what changed for a
 * reader: the first copy in a tier, the last one out of it. A run whose parent
 * the stream does not hold is refused and never becomes a root. It also counts
 * holes: blocks held while the block before them is not.
 * [the essay: layout, sharing between streams, copies, holes, the bound]
 *
 * Role: core. Owns: its tables. Thread: one owner. Limits: struct
 * ledger_limits, LEDGER_STREAMS_MAX, LEDGER_COPIES_MAX.
 * Errors: named outcomes, -ENOMEM; after any but 0 nothing changed.
 */
#ifndef INDEX_LEDGER_H
#define INDEX_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/worker_set.h"
#include "index/event.h"

#define LEDGER_STREAMS_MAX WORKERS_MAX
#define LEDGER_COPIES_MAX  8 /* of a block in one tier; more count as this */

struct ledger;

struct ledger_limits {
    size_t bytes_max; /* of everything it allocates */
};

/* Consecutive blocks of one prefix, as one event stores them. */
struct ledger_run {
    bool has_parent;
    uint64_t parent;        /* engine hash of the block before the first one */
    uint64_t root;          /* key_root() of the namespace; without a parent */
    const uint64_t *hashes; /* engine's, count of them, all different */
    uint32_t count;
    uint32_t block_tokens;  /* 1 or more */
    const uint32_t *tokens; /* count * block_tokens */
    const uint64_t *extras; /* per block, what beside its tokens sets it apart
                               (media), 0: nothing; or NULL */
    enum tier tier;
};

enum {
    LEDGER_E_PARENT = 1, /* the stream does not hold the parent */
    LEDGER_E_UNKNOWN,    /* the stream does not hold this hash */
    LEDGER_E_CONFLICT,   /* this hash stands for another key in this stream */
    LEDGER_E_FULL,       /* bytes_max, or no stream is free */
};

/* What one call did. */
struct ledger_done {
    uint32_t changed;    /* blocks that are news for a reader */
    uint32_t duplicates; /* further copies, or copies of several removed */
    uint32_t unknown;    /* removed hashes that the stream does not hold */
};

int ledger_new(struct ledger **out, const struct ledger_limits *limits)
    MUST_CHECK;

void ledger_free(struct ledger *ledger);

/* A new, empty stream. 0 and *stream, or LEDGER_E_FULL, -ENOMEM. */
int ledger_open(struct ledger *ledger, uint32_t *stream) MUST_CHECK;

/* Forgets a stream: at once for every other call, its memory by
 * ledger_work(). */
void ledger_close(struct ledger *ledger, uint32_t stream);

/* Sweeps closed streams and tidies tables, at most budget entries. True when
 * there is more. */
bool ledger_work(struct ledger *ledger, uint32_t budget);

/* The blocks of a run are in its tier now. Appends STOREs to out (room for
 * count + 1 words is promised by the caller). 0, or LEDGER_E_PARENT,
 * LEDGER_E_CONFLICT, LEDGER_E_FULL, -ENOMEM. */
int ledger_store(struct ledger *ledger, uint32_t stream,
                 const struct ledger_run *run, struct event_words *out,
                 struct ledger_done *done) MUST_CHECK;

/* A block the stream holds already is in a further tier (an event without
 * tokens). 0, or LEDGER_E_UNKNOWN. */
int ledger_place(struct ledger *ledger, uint32_t stream, uint64_t hash,
                 enum tier tier, struct event_words *out,
                 struct ledger_done *done) MUST_CHECK;

/*
 * One copy of each of these blocks has left the tier; remaining: how many
 * copies are left of each, where the engine says so, else NULL. Hashes that
 * are not held are counted in done->unknown. Appends REMOVEs (room as above).
 */
void ledger_remove(struct ledger *ledger, uint32_t stream,
                   const uint64_t *hashes, uint32_t count,
                   const uint32_t *remaining, enum tier tier,
                   struct event_words *out, struct ledger_done *done);

/* Blocks the stream holds, in any tier, and those of them that it holds
 * without the block before them. */
uint64_t ledger_blocks(const struct ledger *ledger, uint32_t stream);
uint32_t ledger_holes(const struct ledger *ledger, uint32_t stream);

struct ledger_stats {
    size_t bytes;      /* allocated now; <= bytes_max */
    uint64_t names;    /* engine hashes known */
    uint64_t blocks;   /* (stream, hash) pairs held */
    uint64_t copies;   /* of these, pairs with more than one copy */
    uint32_t open;     /* streams */
    uint32_t sweeping; /* streams */
};

void ledger_stats(const struct ledger *ledger, struct ledger_stats *stats);

bool ledger_check(const struct ledger *ledger, const char **reason);

#endif
