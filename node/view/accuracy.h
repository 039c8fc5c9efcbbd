/*
 * Compares predictions with what engines report: for every answer with
 * cached_tokens, how many were predicted and how many there were.
 *
 * What is compared. An engine reports whole blocks; it always computes the last
 * token of a prompt (a prompt of 640 that it holds whole counts 624); it may
 * lose the block in use to the next scheduler step; and it has stored or
 * evicted some blocks between our look and its own. So two numbers that differ
 * by a block describe the same cache, and an answer is wrong when they differ
 * by more than one block of that worker, in either direction. A prediction that
 * is too high sends requests to the wrong place, one that is too low keeps them
 * away from the right one; both are counted, and both are wrong. An answer
 * without a block size, or with a prompt shorter than one block, proves nothing
 * and is not counted.
 *
 * What no node can know. Between the election and the request's turn at the
 * engine its cache goes on changing. Another node may elect the same engine for
 * the same prompt before it hears of ours, and be served first: more is found
 * than was predicted. And prompts that wait before ours may push out what was
 * there: less is found. tests/bench/predictions.py counts both.
 *
 * When it is persistent. The last ACCURACY_WINDOW answers are remembered. Once
 * there are answers_min of them, a mirror is wrong while at least
 * wrong_permille of them are: single surprises (an eviction in progress, a
 * prompt with an image) do not matter. While it is wrong it is trusted at most
 * to discount_permille, and must be read from scratch.
 *
 * How trust comes back. A new reading starts the window again, because old
 * answers prove nothing about new content; the discount stays, because nothing
 * has been proved yet. Once answers_min answers to the new content are in the
 * window and fewer than wrong_permille of them are wrong, trust is full and the
 * reading helped. If they are still wrong, it did not help, and the wait until
 * the next reading doubles (reread_ms, then 2, 4, ... times that, at most
 * 2^ACCURACY_DOUBLINGS). So an engine that differs from our predictions for a
 * reason that reading cannot cure is read ever more rarely and routed with a
 * discount. Trust also comes back without a reading when the window becomes
 * good by itself. After recovery the wait begins at reread_ms again, but still
 * counts from the last reading.
 *
 * A mirror that cannot claim to be complete (its engine is older than anything
 * that is known of it) predicts too little, and an answer that found more is no
 * mistake. How far its word is the whole truth is learned from the last
 * ACCURACY_WINDOW answers: each of them found about what was predicted, or more.
 * Before there are answers_min of them it is trusted to least_permille; then by
 * eighths from there up to ACCURACY_PARTIAL, as the share of those that found no
 * more grows, which it does as blocks are stored, found and evicted anew.
 *
 * The last block. An engine that drafts with EAGLE or MTP computes the last block
 * again that it finds in its cache (vLLM: use_eagle_block_drop; since 0.33 only
 * with a KV connector or where it is told to, for elsewhere a block's hash covers
 * the next tokens, see index/shape.h), because the draft needs the hidden states
 * behind it. No event, metric or model list tells of that, so answers do:
 * ACCURACY_RUN of them in a row that found exactly one block less than predicted.
 * From then on predictions leave that block out, until as many in
 * a row found exactly one more. Other answers prove nothing in this, but one that
 * found just what was predicted ends the row.
 *
 * Role: core. Owns: nothing, a plain value. Thread: one owner. Limits:
 * ACCURACY_WINDOW answers are remembered. Errors: none.
 */
#ifndef NODE_ACCURACY_H
#define NODE_ACCURACY_H

#include <stdbool.h>
#include <stdint.h>

#define ACCURACY_WINDOW    64U  /* bits of wrong_bits */
#define ACCURACY_DOUBLINGS 10U  /* of reread_ms */
#define ACCURACY_RUN       8U   /* answers that tell of the last block */
#define ACCURACY_PARTIAL   999U /* the most trust in an incomplete mirror */

struct accuracy_config {
    uint32_t answers_min;       /* before anything is judged; more than
                                   ACCURACY_WINDOW counts as that */
    uint32_t wrong_permille;    /* of the window: persistently wrong */
    uint32_t reread_ms;         /* least time between two re-reads; doubles */
    uint32_t discount_permille; /* trust while wrong */
};

/* One answer. */
struct accuracy_answer {
    uint32_t prompt_tokens;
    uint32_t predicted_tokens;
    uint32_t cached_tokens; /* as reported */
    uint32_t block_tokens;  /* of that worker */
};

/* All zero is a good name. */
struct accuracy {
    uint64_t answers; /* ever */
    uint64_t exact;   /* within one block */
    uint64_t over;    /* more was predicted */
    uint64_t under;   /* less was */
    uint64_t over_tokens;
    uint64_t under_tokens;
    uint64_t wrong_bits; /* the window, newest in bit 0; within one block is
                            not wrong */
    uint32_t window_count;
    uint32_t rereads;      /* in a row without recovery */
    uint64_t reread_at_us; /* when the last one was asked for; 0: never */
    bool wrong;            /* persistently, now */
    bool recomputes;       /* the last block is left out of predictions */
    uint32_t apart_run;    /* answers in a row that say otherwise */
    uint64_t more; /* answers ever that found more than an incomplete mirror
                           predicted; not among `answers` */
    uint64_t more_bits; /* their window, newest in bit 0 */
    uint32_t more_count;
};

/*
 * True when the stream must be read from scratch now: the caller does so, and
 * calls accuracy_reread() once the old content is gone. It does not return true
 * again before the wait is over. now_us: monotonic.
 */
bool accuracy_note(struct accuracy *accuracy,
                   const struct accuracy_config *config,
                   const struct accuracy_answer *answer, uint64_t now_us);

/* An answer while the mirror is incomplete; accuracy_note() is for the caller to
 * call. True: it found more than was predicted, which proves nothing wrong. */
bool accuracy_note_partial(struct accuracy *accuracy,
                           const struct accuracy_answer *answer);

/* Trust in an incomplete mirror, if it is not wrong. */
uint32_t accuracy_partial_trust(const struct accuracy *accuracy,
                                const struct accuracy_config *config,
                                uint32_t least_permille);

/* The windows start again: the mirror's content was read again, or belongs to
 * another process. Trust stays as it is until the content is proved good, and so
 * does what is known of the last block. */
void accuracy_reread(struct accuracy *accuracy);

/* How far to trust the mirror: 1000, or the discount while it is wrong. */
uint32_t accuracy_trust(const struct accuracy *accuracy,
                        const struct accuracy_config *config);

#endif
