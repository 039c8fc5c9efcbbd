/*
 * A growing run of 64-bit words with an upper bound.
 *
 * The first thing that does not fit sets `failed`, and nothing is appended
 * after it. So the caller appends freely and tests `failed` once, at the end.
 *
 * Role: core. Owns: its memory. Thread: one owner. Limits: words_max.
 * Errors: `failed`, when the bound is reached or memory is short.
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

/* An empty run of at most words_max words. Allocates nothing yet. */
void words_init(struct words *words, size_t words_max);

/* Frees the memory. The run is empty then, with the same bound. */
void words_fini(struct words *words);

/* Makes it empty again, and not failed. Its memory is kept. */
void words_clear(struct words *words);

/* Makes room for n more words where memory and the bound allow it, so that
 * appending them moves nothing. Never fails. */
void words_reserve(struct words *words, size_t n);

/* Appends n words and returns where the caller writes them, before the next
 * call. NULL: `failed` is set. */
uint64_t *words_add(struct words *words, size_t n);

/* Appends one word. */
static inline void
words_push(struct words *words, uint64_t word)
{
    uint64_t *at = words_add(words, 1);

    if (at != NULL) {
        *at = word;
    }
}

#endif
