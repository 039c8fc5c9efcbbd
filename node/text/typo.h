/*
 * Finds the known word that a misspelt one probably stands for.
 *
 * The distance is optimal string alignment (Damerau-Levenshtein without
 * repeated edits of one place): insertions, deletions, substitutions and
 * swaps of neighbours cost one each.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: words of TYPO_WORD_MAX.
 */
#ifndef NODE_TYPO_H
#define NODE_TYPO_H

#include <stddef.h>

#include "index/base/slice.h"

#define TYPO_WORD_MAX 48 /* longer words are not compared */

/* The best candidate so far; all zero at first. */
struct typo {
    const char *best; /* NULL: none is near enough */
    size_t distance;
};

/* Offers one candidate; it is kept if it is near the word, and nearer than
 * earlier candidates. */
void typo_offer(struct typo *typo, struct slice word, const char *candidate);

#endif
