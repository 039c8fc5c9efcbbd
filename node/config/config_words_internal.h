/*
 * What the reference of keys says beside each key: which ones to tune first, and
 * what its words mean.
 *
 * Role: core. Owns: static tables. Thread: any. Limits, errors: none.
 */
#ifndef NODE_CONFIG_WORDS_INTERNAL_H
#define NODE_CONFIG_WORDS_INTERNAL_H

#include <stddef.h>

struct config_word {
    const char *word; /* a key's name, or a word of the keys' descriptions */
    const char *meaning;
};

/* The at-th key to tune, the first one first; NULL when at is too high. */
const struct config_word *config_words_first(size_t at);

/* The at-th word, in the order of the alphabet; NULL when at is too high. */
const struct config_word *config_words_meaning(size_t at);

#endif
