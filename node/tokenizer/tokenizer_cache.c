/*
 * A thread's cache of words and their ids: two tables in which each word has
 * one place, so that a miss costs one comparison and strangers' words can do no
 * worse than miss. Short words with few ids are nearly all of a text; their
 * entries are half a cache line, and a hit copies three ids without a branch.
 */
#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "node/tokenizer/tokenizer_internal.h"

#define SHORT_BITS  14 /* of pairs of entries */
#define AHEAD       16 /* words that are found before they are looked up */
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
    struct short_entry shorts[1 << SHORT_BITS][2]; /* the newer one first */
    struct long_entry longs[1 << LONG_BITS];
};

/* A word of up to SHORT_BYTES on its way. */
struct short_word {
    uint64_t key[2];
    struct short_entry *entries; /* the two places where it may be */
    const char *ptr;
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

/* Finds where a word is kept, and asks for that memory. */
static inline void
short_find(struct word_cache *cache, struct short_word *word)
{
    uint64_t hash =
        (word->key[0] ^ word->key[1] * UINT64_C(0x9e3779b97f4a7c15)) *
        UINT64_C(0xff51afd7ed558ccd);

    hash ^= hash >> 32;
    word->entries =
        cache->shorts[hash * UINT64_C(0xc4ceb9fe1a85ec53) >> (64 - SHORT_BITS)];
    __builtin_prefetch(word->entries);
}

/* Encodes a word that is not in the cache, and keeps it. */
static void
short_miss(struct tokenizer_scratch *s, const struct short_word *word)
{
    struct tokenizer_ids *ids = s->ids;
    size_t before = ids->count;

    bpe_word(s, (struct slice){.ptr = word->ptr, .len = word->key[1] >> 56});
    size_t count = ids->count - before;
    if (s->fault == TOKENIZER_OK && count <= SHORT_IDS) {
        struct short_entry *entry = word->entries;
        entry[1] = entry[0];
        memcpy(entry->key, word->key, sizeof entry->key);
        memcpy(entry->ids, ids->ptr + before, count * sizeof entry->ids[0]);
        entry->count = (uint32_t)count;
    }
}

/* Appends the ids of a word. */
static inline void
short_emit(struct tokenizer_scratch *s, const struct short_word *word)
{
    struct tokenizer_ids *ids = s->ids;
    const struct short_entry *entry = word->entries;

    if (UNLIKELY(entry->key[0] != word->key[0] ||
                 entry->key[1] != word->key[1])) {
        entry++;
        if (entry->key[0] != word->key[0] || entry->key[1] != word->key[1]) {
            short_miss(s, word);
            return;
        }
    }
    if (LIKELY(ids->room - ids->count >= SHORT_IDS)) {
        memcpy(ids->ptr + ids->count, entry->ids, sizeof entry->ids);
        ids->count += entry->count;
    } else {
        tok_emit_many(s, entry->ids, entry->count);
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
    struct short_word one = {.ptr = word.ptr};

    if (word.len == 0) {
        return;
    }
    if (LIKELY(word.len <= SHORT_BYTES)) {
        short_key(word, one.key);
        short_find(s->cache, &one);
        short_emit(s, &one);
    } else if (word.len <= LONG_BYTES) {
        long_word(s, word);
    } else {
        bpe_word(s, word);
    }
}

#ifdef __SSE2__

/* The bytes from `low` to `low + count - 1`, as bits. */
static inline unsigned
bytes_in(__m128i bytes, int low, int count)
{
    /* Compared as signed: `low` moves down to the least there is. */
    __m128i moved = _mm_sub_epi8(bytes, _mm_set1_epi8((char)(low - 128)));

    return (unsigned)_mm_movemask_epi8(
        _mm_cmplt_epi8(moved, _mm_set1_epi8((char)(count - 128))));
}

/* Whether a word may begin with this byte and go on with letters. */
static inline bool
is_prefix(uint8_t lead, tok_scan *scan)
{
    if (scan == scan_gpt2) {
        return lead == ' ';
    }
    return lead < 0x80 && lead != '\r' && lead != '\n' && lead != '\'' &&
           (lead < '0' || lead > '9');
}

/*
 * Most words are ASCII letters, with one character before them or none: the end
 * of such a word at bytes[0, 16), or 0 where it is none, or does not certainly
 * end there, and the scanner must look. o200k ends words before a capital, and
 * takes an apostrophe along.
 */
static inline unsigned
plain_word(__m128i bytes, tok_scan *scan)
{
    bool cased = scan == scan_o200k;
    unsigned letters =
        bytes_in(_mm_or_si128(bytes, _mm_set1_epi8(0x20)), 'a', 26);
    unsigned run = cased ? bytes_in(bytes, 'a', 26) : letters;
    unsigned beyond = (unsigned)_mm_movemask_epi8(bytes);
    unsigned first = 1 - (letters & 1); /* letter of the word */
    unsigned len = first + 1 + (unsigned)__builtin_ctz(~(run >> (first + 1)));

    if (cased) {
        beyond |= (unsigned)_mm_movemask_epi8(
            _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\'')));
        beyond |= len == first + 1 ? letters : 0;
    }
    if ((letters >> first & 1) == 0 || len > SHORT_BYTES ||
        (beyond >> len & 1) != 0) {
        return 0;
    }
    uint8_t lead = (uint8_t)_mm_cvtsi128_si32(bytes);
    return first == 0 || is_prefix(lead, scan) ? len : 0;
}

/* The key of the first len of the bytes. */
static inline void
plain_key(__m128i bytes, unsigned len, uint64_t key[2])
{
    static const char ones[32] = "\xff\xff\xff\xff\xff\xff\xff\xff"
                                 "\xff\xff\xff\xff\xff\xff\xff\xff";
    __m128i mask = _mm_loadu_si128((const void *)(ones + 16 - len));

    _mm_storeu_si128((void *)key, _mm_and_si128(bytes, mask));
    key[1] |= (uint64_t)len << 56;
}

/*
 * Words of which 16 bytes can be read; returns where the next one begins. Some
 * are found before the first of them is looked up, so that the table's memory
 * is on its way meanwhile.
 */
static inline size_t
plain_words(struct tokenizer_scratch *s, struct slice text, tok_scan *scan)
{
    const struct tok_classes *classes = s->tokenizer->classes;
    struct word_cache *cache = s->cache;
    struct short_word ahead[AHEAD];
    size_t at = 0;
    size_t len = 0;

    while (text.len - at >= 16 && s->fault == TOKENIZER_OK) {
        size_t count = 0;
        for (; count < AHEAD && text.len - at >= 16; at += len) {
            __m128i bytes = _mm_loadu_si128((const void *)(text.ptr + at));
            len = plain_word(bytes, scan);
            if (UNLIKELY(len == 0)) {
                len = scan(classes, text, at) - at;
            }
            if (UNLIKELY(len > SHORT_BYTES)) {
                break;
            }
            ahead[count].ptr = text.ptr + at;
            plain_key(bytes, (unsigned)len, ahead[count].key);
            short_find(cache, &ahead[count++]);
        }
        for (size_t i = 0; i < count; i++) {
            short_emit(s, &ahead[i]);
        }
        if (len > SHORT_BYTES) {
            cache_word(s, (struct slice){.ptr = text.ptr + at, .len = len});
            at += len;
            len = 0;
        }
    }
    return at;
}

#else

static inline size_t
plain_words(struct tokenizer_scratch *s, struct slice text, tok_scan *scan)
{
    (void)s;
    (void)text;
    (void)scan;
    return 0;
}

#endif

/* Made for each scanner so that it is inlined. */
#define SCAN_WORDS(scan)                                                      \
    for (size_t at = plain_words(s, text, scan);                              \
         at < text.len && s->fault == TOKENIZER_OK;) {                        \
        size_t end = scan(s->tokenizer->classes, text, at);                   \
        cache_word(s, (struct slice){.ptr = text.ptr + at, .len = end - at}); \
        at = end;                                                             \
    }

void
cache_words(struct tokenizer_scratch *s, struct slice text, tok_scan *scan)
{
    if (scan == scan_gpt2) {
        SCAN_WORDS(scan_gpt2);
    } else if (scan == scan_o200k) {
        SCAN_WORDS(scan_o200k);
    } else if (scan == scan_qwen2) {
        SCAN_WORDS(scan_qwen2);
    } else {
        SCAN_WORDS(scan_cl100k);
    }
}
