/*
 * A thread's cache of words and their ids: two tables in which each word has
 * one place, so that a miss costs one comparison and strangers' words can do no
 * worse than miss. Short words with few ids are nearly all of a text; their
 * entries are half a cache line, and a hit copies three ids without a branch.
 */
#include <stdlib.h>
#include <string.h>

#include "node/tokenizer/tokenizer_internal.h"

#define SHORT_BITS  15
#define LONG_BITS   12
#define SHORT_BYTES 15
#define SHORT_IDS   3
#define LONG_BYTES  63
#define LONG_IDS    15

struct short_entry {
    uint64_t key[2]; /* the bytes, zeros, and the length in the last one */
    uint32_t ids[SHORT_IDS];
    uint32_t count;
};

struct long_entry {
    char bytes[LONG_BYTES];
    uint8_t len; /* 0: free */
    uint32_t ids[LONG_IDS];
    uint32_t count;
};

struct word_cache {
    struct short_entry shorts[1 << SHORT_BITS];
    struct long_entry longs[1 << LONG_BITS];
};

struct word_cache *
cache_new(void)
{
    return calloc(1, sizeof(struct word_cache));
}

void
cache_free(struct word_cache *cache)
{
    free(cache);
}

static inline uint64_t
load32(const char *bytes)
{
    uint32_t word;

    memcpy(&word, bytes, 4);
    return word;
}

/* The bytes of a word of 1 to 15, without a look past its end. */
static inline void
short_key(struct slice word, uint64_t key[2])
{
    const char *p = word.ptr;
    size_t len = word.len;

    key[1] = (uint64_t)len << 56;
    if (len >= 8) {
        key[0] = tok_load64(p);
        if (len > 8) {
            key[1] |= tok_load64(p + len - 8) >> (8 * (16 - len));
        }
    } else if (len >= 4) {
        key[0] = load32(p) | load32(p + len - 4) << (8 * (len - 4));
    } else {
        key[0] = (uint64_t)(uint8_t)p[0] |
                 (uint64_t)(uint8_t)p[len / 2] << (8 * (len / 2)) |
                 (uint64_t)(uint8_t)p[len - 1] << (8 * (len - 1));
    }
}

static void
short_word(struct tokenizer_scratch *s, struct slice word)
{
    uint64_t key[2];
    struct tokenizer_ids *ids = s->ids;

    short_key(word, key);
    uint64_t hash = (key[0] ^ key[1] * UINT64_C(0x9e3779b97f4a7c15)) *
                    UINT64_C(0xff51afd7ed558ccd);
    hash ^= hash >> 32;
    struct short_entry *entry =
        &s->cache
             ->shorts[hash * UINT64_C(0xc4ceb9fe1a85ec53) >> (64 - SHORT_BITS)];
    if (LIKELY(entry->key[0] == key[0] && entry->key[1] == key[1])) {
        if (LIKELY(ids->room - ids->count >= SHORT_IDS)) {
            memcpy(ids->ptr + ids->count, entry->ids, sizeof entry->ids);
            ids->count += entry->count;
        } else {
            tok_emit_many(s, entry->ids, entry->count);
        }
        return;
    }
    size_t before = ids->count;
    bpe_word(s, word);
    size_t count = ids->count - before;
    if (s->fault == TOKENIZER_OK && count <= SHORT_IDS) {
        memcpy(entry->key, key, sizeof key);
        memcpy(entry->ids, ids->ptr + before, count * sizeof entry->ids[0]);
        entry->count = (uint32_t)count;
    }
}

static void
long_word(struct tokenizer_scratch *s, struct slice word)
{
    struct tokenizer_ids *ids = s->ids;
    uint64_t hash = tok_hash(word.ptr, word.len);
    struct long_entry *entry = &s->cache->longs[hash >> (64 - LONG_BITS)];

    if (entry->len == word.len &&
        memcmp(entry->bytes, word.ptr, word.len) == 0) {
        tok_emit_many(s, entry->ids, entry->count);
        return;
    }
    size_t before = ids->count;
    bpe_word(s, word);
    size_t count = ids->count - before;
    if (s->fault == TOKENIZER_OK && count <= LONG_IDS) {
        memcpy(entry->bytes, word.ptr, word.len);
        memcpy(entry->ids, ids->ptr + before, count * sizeof entry->ids[0]);
        entry->len = (uint8_t)word.len;
        entry->count = (uint32_t)count;
    }
}

void
cache_word(struct tokenizer_scratch *s, struct slice word)
{
    if (word.len == 0) {
        return;
    }
    if (LIKELY(word.len <= SHORT_BYTES)) {
        short_word(s, word);
    } else if (word.len <= LONG_BYTES) {
        long_word(s, word);
    } else {
        bpe_word(s, word);
    }
}
