/*
 * What tokenizer_cache.c and tokenizer_words.c share: the table of short words.
 *
 * Words are nearly all short, with few ids. Each has two places in one line of
 * memory, and two more where those are taken, so that strangers' words can do no
 * worse than miss. A hit copies its ids without a branch.
 *
 * Role: core, private to node/tokenizer. Owns: nothing. Thread: the scratch's.
 */
#ifndef NODE_TOKENIZER_CACHE_INTERNAL_H
#define NODE_TOKENIZER_CACHE_INTERNAL_H

#include <string.h>

#include "node/tokenizer/tokenizer_internal.h"

#define CACHE_SHORT_BITS  16 /* of entries, in pairs */
#define CACHE_SHORT_BYTES 15
#define CACHE_SHORT_IDS   3

struct cache_entry {
    uint64_t key[2]; /* the bytes, zeros, and the length in the last one */
    uint32_t ids[CACHE_SHORT_IDS];
    uint32_t count;
};

/* The last one of a key's bytes: of a longer word, whose length is the first
 * number, and whose place among such words is in the second. */
#define CACHE_LONG 0xffU

/* A word on its way. */
struct cache_short {
    uint64_t key[2];
    struct cache_entry *entries; /* the two places where it may be */
    const char *ptr;
};

/* The table of short words: pairs, the newer one first. */
struct cache_entry *cache_shorts(struct word_cache *cache);

/* The key of a word of more than CACHE_SHORT_BYTES at word->ptr: no entry has
 * such a one. Asks for the memory where the word may be. */
void cache_find_long(struct word_cache *cache, struct cache_short *word,
                     size_t len);

/* A word that is in neither of its first places. */
void cache_miss(struct tokenizer_scratch *s, const struct cache_short *word);

/* Appends the ids of many words, in order, until there is a fault. */
void cache_emit_all(struct tokenizer_scratch *s,
                    const struct cache_short *words, size_t count);

static inline uint64_t
cache_hash(const uint64_t key[2])
{
    return key[0] * UINT64_C(0x9e3779b97f4a7c15) ^
           key[1] * UINT64_C(0xff51afd7ed558ccd);
}

/* The key of a word of 1 to CACHE_SHORT_BYTES, of which 16 bytes can be read. */
static inline void
cache_key(const char *ptr, size_t len, uint64_t key[2])
{
#define ONES(n) (~UINT64_C(0) >> (64 - 8 * (n)))
    static const uint64_t kept[CACHE_SHORT_BYTES + 1][2] = {{0, 0},
                                                            {ONES(1), 0},
                                                            {ONES(2), 0},
                                                            {ONES(3), 0},
                                                            {ONES(4), 0},
                                                            {ONES(5), 0},
                                                            {ONES(6), 0},
                                                            {ONES(7), 0},
                                                            {ONES(8), 0},
                                                            {ONES(8), ONES(1)},
                                                            {ONES(8), ONES(2)},
                                                            {ONES(8), ONES(3)},
                                                            {ONES(8), ONES(4)},
                                                            {ONES(8), ONES(5)},
                                                            {ONES(8), ONES(6)},
                                                            {ONES(8), ONES(7)}};
#undef ONES

    key[0] = tok_load64(ptr) & kept[len][0];
    key[1] = (tok_load64(ptr + 8) & kept[len][1]) | (uint64_t)len << 56;
}

/* Finds where a word is kept, and asks for that memory. */
static inline void
cache_find(struct cache_entry *shorts, struct cache_short *word)
{
    word->entries =
        shorts + (cache_hash(word->key) >> (65 - CACHE_SHORT_BITS)) * 2;
    __builtin_prefetch(word->entries);
}

static inline bool
cache_is(const struct cache_entry *entry, const uint64_t key[2])
{
    return ((entry->key[0] ^ key[0]) | (entry->key[1] ^ key[1])) == 0;
}

/* Appends the ids of an entry. */
static inline void
cache_take(struct tokenizer_ids *ids, struct tokenizer_scratch *s,
           const struct cache_entry *entry)
{
    if (LIKELY(ids->room - ids->count >= CACHE_SHORT_IDS)) {
        memcpy(ids->ptr + ids->count, entry->ids, sizeof entry->ids);
        ids->count += entry->count;
    } else {
        tok_emit_many(s, entry->ids, entry->count);
    }
}

/* Appends the ids of a word. */
static inline void
cache_emit(struct tokenizer_scratch *s, const struct cache_short *word)
{
    const struct cache_entry *entry = word->entries;

    entry += !cache_is(entry, word->key); /* without a branch */
    if (UNLIKELY(!cache_is(entry, word->key))) {
        cache_miss(s, word);
        return;
    }
    cache_take(s->ids, s, entry);
}

#endif
