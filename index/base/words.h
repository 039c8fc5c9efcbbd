/*
 * A growing run of 64-bit words with an upper bound.
 *
 * The first thing that does not fit sets `failed`; the caller appends freely
 * and tests once at the end.
 *
 * Role: core. Owns: its memory. Thread: one owner. Limits: words_max.
 */
#ifndef INDEX_BASE_WORDS_H
#define INDEX_BASE_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct words {
    uint64_t *word;
    size_t count;     /* in use */
    size_t room;      /* allocated */
    size_t words_max; /* never more */
    bool failed;      /* over the bound, or out of memory */
};

/* Allocates nothing yet. */
void words_init(struct words *words, size_t words_max);

void words_fini(struct words *words);

/* Empty again, not failed, memory kept. */
void words_clear(struct words *words);

/* Room for n words more, where memory and the bound allow it: nothing has to
 * be moved as they come. */
void words_reserve(struct words *words, size_t n);

/* n more words, to be written by the caller, or NULL (and failed). */
uint64_t *words_add(struct words *words, size_t n);

/* One more. */
static inline void
words_push(struct words *words, uint64_t word)
{
    uint64_t *at = words_add(words, 1);

    if (at != NULL) {
        *at = word;
    }
}

#endif
