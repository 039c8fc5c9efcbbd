/*
 * The words of a text by a known pattern, each looked up in the cache: a kernel
 * for each kind of processor, all of them with the same words.
 *
 * Role: core, private to node/tokenizer. Owns: nothing. Thread: the scratch's.
 */
#ifndef NODE_TOKENIZER_WORDS_INTERNAL_H
#define NODE_TOKENIZER_WORDS_INTERNAL_H

#include "node/tokenizer/tokenizer_internal.h"

struct words_kernel {
    const char *name;
    bool (*usable)(void);
    /* Emits all words that the scanner finds in the text, or sets s->fault. */
    void (*run)(struct tokenizer_scratch *s, struct slice text, tok_scan *scan);
};

extern const struct words_kernel words_kernel_avx512;
extern const struct words_kernel words_kernel_avx2;
extern const struct words_kernel words_kernel_sse2;
extern const struct words_kernel words_kernel_portable;

/* All kernels, the fastest first; NULL: there are no more. The last one is
 * always usable. */
const struct words_kernel *words_kernel_nth(unsigned i);

/* The first one that this processor has. */
const struct words_kernel *words_kernel_best(void);

#endif
