/*
 * Token ids of conversations' earlier turns, for all lanes and threads: so that
 * of a long conversation's next turn only the new part is tokenised.
 *
 * A turn is kept under its conversation's name (token_cache.h). It holds the ids
 * of its rendered text up to some cuts: places behind special tokens, where
 * tokenising can begin anew and give the same ids (tokenizer_cut()). Each cut
 * has a digest of all text before it. A later turn's text is compared with
 * these: so the answer is exact even where a template rewrites history, and the
 * longest common beginning at a cut is what is taken over.
 *
 * Memory is in SHARDS parts, each with its own lock, for which nobody waits: who
 * finds it taken goes without (and counts that).
 *
 * Role: core. Owns: copies of ids. Thread: any. Limits: bytes_max; the least
 * recently used turns of a part give way. LOCAL_CUTS_MAX cuts of a turn.
 * Errors: what finds no memory is not kept.
 */
#ifndef NODE_LOCAL_TURNS_H
#define NODE_LOCAL_TURNS_H

#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/slice.h"
#include "node/tokenizer/tokenizer.h"

#define LOCAL_CUTS_MAX 16

struct local_cut {
    size_t bytes; /* of text before it */
    size_t ids;   /* ... and how many ids these are */
};

struct local_turns;

/* 0 and *out, the caller's to local_turns_free(), or -ENOMEM. */
int local_turns_new(struct local_turns **out, size_t bytes_max) MUST_CHECK;

/* Nobody uses it any more. NULL is fine. */
void local_turns_free(struct local_turns *turns);

/* A place that a turn was found up to, and the cuts before it. */
struct local_found {
    struct local_cut cuts[LOCAL_CUTS_MAX]; /* the last one is the place */
    uint32_t count;                        /* 0: nothing is known */
};

/*
 * Appends the ids of the longest known beginning of text. version: of the
 * model. names: of the conversation's turns, the latest last.
 */
void local_turns_find(struct local_turns *turns, uint64_t version,
                      const uint64_t *names, uint32_t names_count,
                      struct slice text, struct tokenizer_ids *ids,
                      struct local_found *found);

/* Keeps a turn: its ids up to the last of the cuts, which grow and are at most
 * LOCAL_CUTS_MAX. All is copied. */
void local_turns_add(struct local_turns *turns, uint64_t version, uint64_t name,
                     struct slice text, const uint32_t *ids,
                     const struct local_cut *cuts, uint32_t cuts_count);

struct local_turns_stats {
    size_t bytes;
    uint64_t turns;
    uint64_t found;   /* lookups that found something */
    uint64_t missed;  /* ... and nothing */
    uint64_t evicted; /* turns that gave way */
    uint64_t passed;  /* lookups and additions that found a part locked */
};

/* Some recent values. */
void local_turns_stats(const struct local_turns *turns,
                       struct local_turns_stats *stats);

#endif
