/*
 * A thread's cache of words, and of the pieces that long words are parted into,
 * with their ids: tokenizer_cache_internal.h for short ones with few ids; the
 * others, up to a length, in a second table.
 */
#include <stdlib.h>

#include "node/tokenizer/tokenizer_cache_internal.h"

#define CACHE_COPY (CACHE_SHORT_IDS + 1) /* ids, and their number */
#define LONG_BITS  13
#define LONG_BYTES 127
#define LONG_IDS   31
#define PIECE      0x80U /* beside a length: no word, but a piece of one */

/* Most take two lines of memory, as the ids follow the bytes. */
struct long_entry {
    uint8_t len; /* 0: free */
    uint8_t count;
    uint32_t room[(LONG_BYTES + 3) / 4 + LONG_IDS]; /* bytes, filled up to
                                                       fours; ids */
};

struct word_cache {
    _Alignas(64) struct cache_entry shorts[1 << CACHE_SHORT_BITS];
    struct long_entry longs[1 << LONG_BITS][2]; /* the newer one first */
    void *memory;                               /* that all this is in */
};

struct word_cache *
cache_new(void)
{
    /* Pages that no word ever comes to are never touched. */
    char *memory = calloc(1, sizeof(struct word_cache) + 63);

    if (memory == NULL) {
        return NULL;
    }
    struct word_cache *cache =
        (void *)(memory + (-(uintptr_t)memory & (uintptr_t)63));
    cache->memory = memory;
    return cache;
}

void
cache_free(struct word_cache *cache)
{
    if (cache != NULL) {
        free(cache->memory);
    }
}

struct cache_entry *
cache_shorts(struct word_cache *cache)
{
    return cache->shorts;
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
short_key(struct slice word, uint8_t piece, uint64_t key[2])
{
    const char *p = word.ptr;
    size_t len = word.len;

    key[1] = (uint64_t)(len | piece) << 56;
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

/* The two other places of a word. */
static struct cache_entry *
second_places(struct word_cache *cache, const uint64_t key[2])
{
    uint64_t mask = (1U << (CACHE_SHORT_BITS - 1)) - 1;

    return cache->shorts +
           (cache_hash(key) * UINT64_C(0xc4ceb9fe1a85ec53) >> 32 & mask) * 2;
}

/* Puts a word first in its first places; the last there moves on. */
static void
keep_short(struct word_cache *cache, const struct cache_short *word,
           const uint32_t *ids, size_t count)
{
    struct cache_entry *kept = word->entries;

    if (kept[1].key[1] != 0) {
        struct cache_entry *second = second_places(cache, kept[1].key);
        second[1] = second[0];
        second[0] = kept[1];
    }
    kept[1] = kept[0];
    memcpy(kept->key, word->key, sizeof kept->key);
    if (count != 0) { /* of signs that the model leaves out: ids is NULL */
        memcpy(kept->ids, ids, count * sizeof ids[0]);
    }
    kept->count = (uint32_t)count;
}

static inline bool
is_long(const struct long_entry *entry, struct slice word, uint8_t len)
{
    return entry->len == len && memcmp(entry->room, word.ptr, word.len) == 0;
}

/* The number of a long word's two places. */
static inline uint64_t
long_place(struct slice word)
{
    return tok_hash(word.ptr, word.len) >> (64 - LONG_BITS);
}

/* A word that the table of short ones has not, or cannot have. shorts: where it
 * is kept if it has few ids; NULL: it is too long for that. */
static void
long_word(struct tokenizer_scratch *s, struct slice word, uint8_t piece,
          const struct cache_short *shorts, uint64_t place)
{
    struct tokenizer_ids *ids = s->ids;
    uint8_t len = (uint8_t)(word.len | piece);
    struct long_entry *entry = s->cache->longs[place];
    size_t behind = (word.len + 3) / 4; /* where its ids are */

    for (int i = 0; i < 2; i++) {
        if (is_long(&entry[i], word, len)) {
            tok_emit_many(s, entry[i].room + behind, entry[i].count);
            return;
        }
    }
    size_t before = ids->count;
    if (piece != 0) {
        bpe_piece(s, word);
    } else {
        bpe_word(s, word);
    }
    size_t count = ids->count - before;
    const uint32_t *made = ids->ptr + before;
    if (s->fault != TOKENIZER_OK || count > LONG_IDS) {
        return;
    }
    if (shorts != NULL && count <= CACHE_SHORT_IDS) {
        keep_short(s->cache, shorts, made, count);
        return;
    }
    entry[1] = entry[0];
    memcpy(entry->room, word.ptr, word.len);
    memcpy(entry->room + behind, made, count * sizeof made[0]);
    entry->len = len;
    entry->count = (uint8_t)count;
}

void
cache_find_long(struct word_cache *cache, struct cache_short *word, size_t len)
{
    uint64_t place = 0;

    if (len <= LONG_BYTES) {
        place = long_place((struct slice){.ptr = word->ptr, .len = len});
        __builtin_prefetch(cache->longs[place]);
        __builtin_prefetch((const char *)cache->longs[place] + 64);
    }
    word->key[0] = len;
    word->key[1] = (uint64_t)CACHE_LONG << 56 | place;
    word->entries = cache->shorts;
}

void
cache_miss(struct tokenizer_scratch *s, const struct cache_short *word)
{
    struct cache_entry *entry = second_places(s->cache, word->key);
    uint8_t len = (uint8_t)(word->key[1] >> 56);

    if (len == CACHE_LONG) {
        struct slice text = {.ptr = word->ptr, .len = word->key[0]};
        if (text.len <= LONG_BYTES) {
            long_word(s, text, 0, NULL, (uint32_t)word->key[1]);
        } else {
            bpe_word(s, text);
        }
        return;
    }
    entry += !cache_is(entry, word->key);
    if (cache_is(entry, word->key)) {
        cache_take(s->ids, s, entry);
        /* What is asked for goes first again. */
        struct cache_entry found = *entry;
        entry->key[1] = 0;
        keep_short(s->cache, word, found.ids, found.count);
        return;
    }
    struct slice text = {.ptr = word->ptr, .len = len & ~PIECE};
    long_word(s, text, (uint8_t)(len & PIECE), word, long_place(text));
}

static inline void
look_up(struct tokenizer_scratch *s, struct slice word, uint8_t piece)
{
    struct cache_short one = {.ptr = word.ptr};

    if (LIKELY(word.len <= CACHE_SHORT_BYTES)) {
        short_key(word, piece, one.key);
        cache_find(s->cache->shorts, &one);
        cache_emit(s, &one);
    } else if (word.len <= LONG_BYTES) {
        long_word(s, word, piece, NULL, long_place(word));
    } else if (piece != 0) {
        bpe_piece(s, word);
    } else {
        bpe_word(s, word);
    }
}

/* Those before the first miss; how many. There is room for the ids of all, and
 * for one entry's copy behind them. */
static size_t
emit_hits(struct tokenizer_ids *ids, const struct cache_short *words,
          size_t count)
{
    uint32_t *out = ids->ptr + ids->count;
    size_t i = 0;

    for (; i < count; i++) {
        const struct cache_entry *entry = words[i].entries;
        entry += !cache_is(entry, words[i].key); /* without a branch */
        memcpy(out, entry->ids, CACHE_COPY * sizeof out[0]);
        if (UNLIKELY(!cache_is(entry, words[i].key))) {
            break;
        }
        out += entry->count;
    }
    ids->count = (size_t)(out - ids->ptr);
    return i;
}

void
cache_emit_all(struct tokenizer_scratch *s, const struct cache_short *words,
               size_t count)
{
    size_t i = 0;

    while (i < count && s->fault == TOKENIZER_OK) {
        if (tok_has_room(s, (count - i) * CACHE_SHORT_IDS + CACHE_COPY)) {
            i += emit_hits(s->ids, words + i, count - i);
            if (i == count) {
                break;
            }
            cache_miss(s, &words[i]);
        } else {
            cache_emit(s, &words[i]);
        }
        i++;
    }
}

void
cache_word(struct tokenizer_scratch *s, struct slice word)
{
    if (word.len != 0) {
        look_up(s, word, 0);
    }
}

void
cache_piece(struct tokenizer_scratch *s, struct slice piece)
{
    look_up(s, piece, PIECE);
}
