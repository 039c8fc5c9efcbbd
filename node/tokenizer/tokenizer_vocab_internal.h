/*
 * A vocabulary: from the bytes of a token to its id, and back.
 *
 * Role: core. Owns: nothing; its memory is the tokenizer's. Thread: constant
 * after the load.
 */
#ifndef NODE_TOKENIZER_VOCAB_INTERNAL_H
#define NODE_TOKENIZER_VOCAB_INTERNAL_H

#include "node/tokenizer/tokenizer_load_internal.h"

struct vocab_slot {
    uint32_t hash; /* upper half of tok_hash() */
    uint32_t id;   /* TOK_NONE: free */
};

struct vocab {
    struct slice *tokens;     /* by id; ptr NULL: no such token */
    uint32_t ids_end;         /* one more than the largest id */
    uint32_t count;           /* different tokens */
    const struct slice *keys; /* by id: what the table looks for */
    struct vocab_slot *slots; /* open addressing */
    uint64_t mask;
};

static inline uint64_t
tok_load64(const char *bytes)
{
    uint64_t word;

    memcpy(&word, bytes, 8);
    return word;
}

/* Fast, not keyed: where texts of strangers are hashed, a collision must cost
 * one miss and no more. */
static inline uint64_t
tok_hash(const char *bytes, size_t len)
{
    uint64_t hash = len * UINT64_C(0x9e3779b97f4a7c15);

    for (; len >= 8; bytes += 8, len -= 8) {
        hash = (hash ^ tok_load64(bytes)) * UINT64_C(0xff51afd7ed558ccd);
        hash ^= hash >> 32;
    }
    if (len > 0) {
        uint64_t tail = 0;
        memcpy(&tail, bytes, len);
        hash = (hash ^ tail) * UINT64_C(0xff51afd7ed558ccd);
        hash ^= hash >> 32;
    }
    return hash * UINT64_C(0xc4ceb9fe1a85ec53);
}

/* Reads an object of tokens and ids. */
bool vocab_load(struct tok_load *load, struct slice object);

/* Makes a vocabulary of tokens by id; those of ptr NULL are holes. The array
 * and what it points at are kept. */
bool vocab_make(struct tok_load *load, struct slice *tokens, uint32_t ids_end);

/* Builds the table anew, over other keys by id; ptr NULL: none. */
bool vocab_index(struct tok_load *load, struct vocab *vocab,
                 const struct slice *keys);

/* Puts the key of an id into the table; the last id of equal keys counts. */
void vocab_put(struct vocab *vocab, uint32_t id);

/* The id of a token, or TOK_NONE. */
uint32_t vocab_find(const struct vocab *vocab, struct slice token);

#endif
