/*
 * Holds predictions against what engines report: for every answer with
 * cached_tokens, how many were expected and how many there were.
 *
 * What is compared. An engine reports whole blocks, keeps the last token of a
 * prompt for computing (a prompt of 640 that it holds whole counts 624), may
 * lose the block in use to the next scheduler step, and has stored or given up
 * some between our look and its own. So two numbers that differ by a block
 * describe the same cache, and an answer is wrong when they are apart by more
 * than one block of that worker, in either direction. Too much predicted sends
 * requests to the wrong place, too little keeps them away from the right one;
 * both are counted, both are wrong. An answer without a block size, or with a
 * prompt that does not fill one block, says nothing and is not counted.
 *
 * When it is persistent. The last ACCURACY_WINDOW answers are remembered.
 * Once there are answers_min of them, a mirror is wrong while wrong_permille
 * of them or more are: single surprises (an eviction under way, a prompt
 * with an image) do not move it. While it is wrong it is trusted no further
 * than discount_permille, and is to be read from scratch.
 *
 * How trust comes back. Reading again starts the window anew, for old answers
 * say nothing about new content; the discount stays, because nothing has been
 * proved yet. Once answers_min answers to what was read again are in the
 * window and fewer than wrong_permille of them are wrong, trust is whole and
 * the re-read helped. If they are still wrong it did not: the next one is
 * asked for no earlier than twice as long after the one before as that had to
 * wait (reread_ms, then 2, 4, ... times that, at most 2^ACCURACY_DOUBLINGS):
 * an engine that predicts differently than we do, for a reason that reading
 * cannot cure, is read ever more seldom and routed with a discount. Trust
 * also comes back without a re-read when the window becomes good by itself.
 * After recovery the wait begins at reread_ms again, but still counts from
 * the last re-read.
 *
 * Role: core. Owns: nothing, a plain value. Thread: one owner.
 * Limits: ACCURACY_WINDOW answers are remembered. Errors: none.
 */
#ifndef NODE_ACCURACY_H
#define NODE_ACCURACY_H

#include <stdbool.h>
#include <stdint.h>

#define ACCURACY_WINDOW    64U /* bits of wrong_bits */
#define ACCURACY_DOUBLINGS 10U /* of reread_ms */

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
};

/*
 * True when the stream is to be read from scratch now: the caller does it, and
 * says accuracy_reread() once the old content is gone. It is not said again
 * before the wait is over. now_us: monotonic.
 */
bool accuracy_note(struct accuracy *accuracy,
                   const struct accuracy_config *config,
                   const struct accuracy_answer *answer, uint64_t now_us);

/* The window starts anew: what the mirror says was read again, or belongs to
 * another process. Trust stays where it was until that is proved good. */
void accuracy_reread(struct accuracy *accuracy);

/* How far to trust the mirror: 1000, or the discount while it is wrong. */
uint32_t accuracy_trust(const struct accuracy *accuracy,
                        const struct accuracy_config *config);

#endif
