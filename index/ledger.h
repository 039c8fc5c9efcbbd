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
 *
 * A block as engines name it, (hash, key, block before it), is one entry of 28
 * bytes. All streams that name it so are its holders: three by number, more as
 * a bitmap. So engines with the same names share entries, and engines with
 * other names (other seeds, hashes that ignore the adapter) have entries of
 * their own; the answer for a stream depends on its own entries alone. Copies
 * other than one in the device are the exception, kept for one stream and block
 * in a row of 8 bytes elsewhere. A hash of one stream stands for one key as
 * long as the stream holds it. The converse is assumed, not verified: if an
 * engine names one key by two hashes, the key is gone for readers when the
 * first of them is removed.
 *
 * Copies of a block in one tier count up to names_copies_most(), so a block of
 * more copies is gone for readers before its last copy leaves, never after. In
 * the device these are many: an engine whose sliding windows do not serve a
 * common beginning computes it again for each request.
 *
 * Holes are exact at each moment. A store never makes one, because the parent
 * is held. When a block leaves or returns, the ledger counts which of its kids
 * the stream holds. Up to 8 kids are walked; a block with more has counts per
 * stream instead, in rows of 8 bytes, no more rows than held kids. A block
 * that nobody holds stays known while blocks behind it are held.
 *
 * What one call costs: for each block a line of names, and where one of them
 * may be the block's its entry; and its parent and kids as above. The names and
 * the rows grow in 1024 parts, so the longest pause is one such part that moves:
 * 0.1 ms with 6 million rows. A block that leaves frees at most 64 others that
 * only it kept; ledger_work() frees the rest. At the bound lines get fuller
 * before stores fail. Memory of entries is kept for new ones.
 *
 * Bytes for each block a stream holds (tests/bench/bench_ledger.c): 36 when it
 * is alone with it, 18 when two share, 1.2 when 64 do; 8 to 14 more for a row.
 *
 * Role: core. Owns: its tables. Thread: one owner. Limits: struct
 * ledger_limits, LEDGER_STREAMS_MAX.
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
#include "index/names.h"
#include "index/watch.h"

#define LEDGER_STREAMS_MAX WORKERS_MAX

struct ledger;

struct ledger_limits {
    size_t bytes_max; /* of everything it allocates */
};

/* Consecutive blocks of one prefix, as one event stores them. */
struct ledger_run {
    bool has_parent;
    uint64_t parent;        /* engine hash of the block before the first one */
    uint64_t root;          /* key_root() of the namespace; without a parent */
    const uint64_t *hashes; /* engine's, count of them */
    uint32_t count;
    uint32_t block_tokens;  /* 1 or more */
    const uint32_t *tokens; /* count * block_tokens */
    const uint64_t *extras; /* per block, what beside its tokens sets it apart
                               (media), 0: nothing; or NULL */
    enum tier tier;
    bool distinct; /* no name is there twice, the parent's included: the caller
                      knows. Otherwise that is looked for */
};

enum {
    LEDGER_E_PARENT = 1, /* the stream does not hold the parent */
    LEDGER_E_UNKNOWN,    /* the stream does not hold this hash */
    LEDGER_E_CONFLICT,   /* this hash stands for another key in this stream,
                            or twice in the run */
    LEDGER_E_FULL,       /* bytes_max, or no stream is free */
    LEDGER_E_BAD,        /* what is to be loaded makes no sense */
    LEDGER_E_MORE,       /* it is not done yet */
};

/* What one call did. */
struct ledger_done {
    uint32_t changed;    /* blocks that are news for a reader */
    uint32_t duplicates; /* further copies, or copies of several removed */
    uint32_t unknown;    /* removed hashes that the stream does not hold */
};

/* 0 and *out, -EINVAL when bytes_max is below what an empty ledger needs, or
 * -ENOMEM. */
int ledger_new(struct ledger **out, const struct ledger_limits *limits)
    MUST_CHECK;

/* Frees all of it, streams that are open too. NULL is fine. */
void ledger_free(struct ledger *ledger);

/* A new, empty stream. 0 and *stream, or LEDGER_E_FULL, -ENOMEM. */
int ledger_open(struct ledger *ledger, uint32_t *stream) MUST_CHECK;

/* Closes an open stream. No other call knows it any more; ledger_work() gives
 * its memory back, and then its number may be given out again. */
void ledger_close(struct ledger *ledger, uint32_t stream);

/* Sweeps closed streams and tidies tables, at most budget entries. True when
 * there is more. */
bool ledger_work(struct ledger *ledger, uint32_t budget);

/*
 * Asks the memory for what calls with these hashes will touch: a hint that
 * changes nothing. Stores and removals of several hashes do so themselves;
 * for single ones that come together, telling 8 to 64 ahead saves most of
 * their time.
 */
void ledger_prefetch(const struct ledger *ledger, const uint64_t *hashes,
                     uint32_t count);

/* The blocks of a run are in its tier now. Appends STOREs to out (room for
 * count + 1 words is promised by the caller). 0, or LEDGER_E_PARENT,
 * LEDGER_E_CONFLICT, LEDGER_E_FULL, -ENOMEM. */
int ledger_store(struct ledger *ledger, uint32_t stream,
                 const struct ledger_run *run, struct event_words *out,
                 struct ledger_done *done) MUST_CHECK;

/* A block the stream holds already is in a further tier (an event without
 * tokens). 0, or LEDGER_E_UNKNOWN, LEDGER_E_FULL, -ENOMEM. */
int ledger_place(struct ledger *ledger, uint32_t stream, uint64_t hash,
                 enum tier tier, struct event_words *out,
                 struct ledger_done *done) MUST_CHECK;

/*
 * One copy of each of these blocks has left the tier; remaining: how many
 * copies are left of each, where the engine says so, else NULL. Hashes that
 * are not held in this tier are counted in done->unknown. Appends REMOVEs
 * (room as above).
 */
void ledger_remove(struct ledger *ledger, uint32_t stream,
                   const uint64_t *hashes, uint32_t count,
                   const uint32_t *remaining, enum tier tier,
                   struct event_words *out, struct ledger_done *done);

/* How many blocks an open stream holds, in any tier. */
uint64_t ledger_blocks(const struct ledger *ledger, uint32_t stream);

/* The key of a block that an open stream holds; false: it holds none of that
 * name. */
bool ledger_key(const struct ledger *ledger, uint32_t stream, uint64_t hash,
                uint64_t *key) MUST_CHECK;

/* How many of them it holds without the block before them. */
uint32_t ledger_holes(const struct ledger *ledger, uint32_t stream);

/*
 * Says to `said` (names.h) what changes in that stream from now on, until the
 * next call; NULL: nobody listens. It is borrowed.
 */
void ledger_say(struct ledger *ledger, uint32_t stream,
                struct names_said *said);

/*
 * Filling an open, empty stream with what another reader's ledger held, in any
 * order, step by step; other streams may change between two steps. Each name is
 * there once; a block whose parent is not among them is a hole. The blocks are
 * borrowed until the end. Until the stream is filled, it is good for
 * ledger_close() alone.
 */
struct ledger_adoption;

/* 0 and *out, LEDGER_E_FULL or -ENOMEM. */
int ledger_adopt_begin(struct ledger *ledger, uint32_t stream,
                       const struct names_block *blocks, size_t count,
                       struct ledger_adoption **out) MUST_CHECK;

/* 0: the stream is filled. LEDGER_E_MORE: not yet; a block takes two or three
 * of the budget. LEDGER_E_BAD (the parents form a circle, or copies make no
 * sense), LEDGER_E_FULL, -ENOMEM: it never will be. */
int ledger_adopt_step(struct ledger_adoption *adoption, uint32_t budget)
    MUST_CHECK;

/* Frees the adoption, filled or not. NULL is fine. */
void ledger_adopt_end(struct ledger_adoption *adoption);

/* Says every name that an open stream holds. */
void ledger_say_all(const struct ledger *ledger, uint32_t stream,
                    struct names_said *said);

#define LEDGER_PARTS_MAX (UINT32_C(1) << 18)

/*
 * Tells the watch (watch.h) of every change from now on, until the next call;
 * NULL: nobody. The watch is borrowed, and has LEDGER_PARTS_MAX parts.
 */
void ledger_watch(struct ledger *ledger, struct watch *watch);

/* How many parts there are now: runs of entries, numbered from 0. */
uint32_t ledger_parts(const struct ledger *ledger);

/* Appends the entries of a part and which open streams hold them, in the words
 * of ledger_image.c. out->failed: there was no room. */
void ledger_image(const struct ledger *ledger, uint32_t part,
                  struct words *out);

/*
 * Filling an empty ledger from a copy: begin, all parts in any order, the
 * journal, the end; then it can be used. Words come from outside and are
 * checked. After any outcome but 0 the ledger is good for ledger_free() alone.
 */

/* Opens the streams. */
void ledger_load_begin(struct ledger *ledger, const struct watch_slots *slots);

/* The words of one part. 0, LEDGER_E_BAD, LEDGER_E_FULL or -ENOMEM. */
int ledger_load(struct ledger *ledger, const uint64_t *words, size_t count)
    MUST_CHECK;

/* The words of the whole journal. Outcomes as above. */
int ledger_load_journal(struct ledger *ledger, const uint64_t *words,
                        size_t count) MUST_CHECK;

/* Hangs the entries together and counts holes. Outcomes as above; blocks held
 * are for the caller to compare with what it knows. */
int ledger_load_end(struct ledger *ledger) MUST_CHECK;

struct ledger_stats {
    size_t bytes;      /* allocated now; <= bytes_max */
    uint64_t names;    /* entries: engine hashes known, equal ones shared */
    uint64_t blocks;   /* (stream, hash) pairs held */
    uint64_t copies;   /* of these, pairs with several copies in one tier */
    uint32_t open;     /* streams */
    uint32_t sweeping; /* streams */
};

/* How large it is, and what it holds. O(streams). */
void ledger_stats(const struct ledger *ledger, struct ledger_stats *stats);

/* Walks everything and verifies each invariant; for tests and simulations.
 * False and *reason (static text) when one is broken. */
bool ledger_check(const struct ledger *ledger, const char **reason);

#endif
