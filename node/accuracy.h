/*
 * Holds predictions against what engines report: for every answer with
 * cached_tokens, how many were expected and how many there were.
 *
 * [the essay: what is compared, the window, when a mirror counts as
 * persistently wrong, how trust comes back]
 *
 * Role: core. Owns: nothing, a plain value. Thread: one owner.
 * Limits: ACCURACY_WINDOW answers are remembered. Errors: none.
 */
#ifndef NODE_ACCURACY_H
#define NODE_ACCURACY_H

#include <stdbool.h>
#include <stdint.h>

#define ACCURACY_WINDOW 64U

struct accuracy_config {
    uint32_t answers_min;       /* before anything is judged */
    uint32_t wrong_permille;    /* of the window: persistently wrong */
    uint32_t reread_ms;         /* least time between two re-reads; doubles */
    uint32_t discount_permille; /* trust while wrong */
};

/* One answer. */
struct accuracy_answer {
    uint32_t prompt_tokens;
    uint32_t predicted_tokens;
    uint32_t cached_tokens; /* as reported */
    uint32_t block_tokens;
};

/* All zero is a good name. */
struct accuracy {
    uint64_t answers; /* ever */
    uint64_t exact;
    uint64_t over;  /* more was predicted */
    uint64_t under; /* less was */
    uint64_t over_tokens;
    uint64_t under_tokens;
    uint64_t wrong_bits; /* the window, newest in bit 0; within one block is
                            not wrong */
    uint32_t window_count;
    uint32_t rereads; /* in a row without recovery */
    uint64_t reread_at_us;
    bool wrong; /* persistently, now */
};

/* True when the stream is to be read from scratch now. */
bool accuracy_note(struct accuracy *accuracy,
                   const struct accuracy_config *config,
                   const struct accuracy_answer *answer, uint64_t now_us);

/* The window starts anew: what the mirror says was read again. */
void accuracy_reread(struct accuracy *accuracy);

/* How far to trust the mirror: 1000, or the discount while it is wrong. */
uint32_t accuracy_trust(const struct accuracy *accuracy,
                        const struct accuracy_config *config);

#endif
