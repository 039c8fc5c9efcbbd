/*
 * The words of a text by a known pattern, each looked up in the cache.
 *
 * Most text is ASCII letters, digits, spaces and signs. Of 64 such bytes all
 * beginnings of words are found at once, as bits: what begins a word follows
 * from a byte's kind and its neighbours'. Whatever else comes (a newline, a tab,
 * an apostrophe, a character beyond ASCII) is left to the scanner, one word at a
 * time, and so is the word before it, which may end otherwise because of it.
 *
 * Words are found before the first of them is looked up, so that the table's
 * memory is on its way meanwhile.
 */
#include "node/tokenizer/tokenizer_cache_internal.h"
#ifdef __SSE2__
#include <emmintrin.h>

#define BLOCK     64U
#define AHEAD_MAX ((size_t)128)
#define AHEAD     32U /* words that are found before the first is looked up */

/* Bytes of a block by kind, the first byte in the lowest bit. */
struct kinds {
    uint64_t letters;
    uint64_t capitals;
    uint64_t digits;
    uint64_t spaces; /* blanks alone */
    uint64_t signs;
};

/* The bytes from `low` to `low + count - 1`, as bits. */
static inline uint64_t
bytes_in(__m128i bytes, int low, int count)
{
    /* Compared as signed: `low` moves down to the least there is. */
    __m128i moved = _mm_sub_epi8(bytes, _mm_set1_epi8((char)(low - 128)));

    return (unsigned)_mm_movemask_epi8(
        _mm_cmplt_epi8(moved, _mm_set1_epi8((char)(count - 128))));
}

static inline struct kinds
kinds_of(const char *text, tok_scan *scan)
{
    struct kinds k = {0};
    uint64_t printed = 0;
    uint64_t quotes = 0;

    for (unsigned i = 0; i < BLOCK; i += 16) {
        __m128i bytes = _mm_loadu_si128((const void *)(text + i));
        __m128i folded = _mm_or_si128(bytes, _mm_set1_epi8(0x20));
        k.letters |= bytes_in(folded, 'a', 26) << i;
        k.digits |= bytes_in(bytes, '0', 10) << i;
        k.spaces |= (uint64_t)(unsigned)_mm_movemask_epi8(
                        _mm_cmpeq_epi8(bytes, _mm_set1_epi8(' ')))
                    << i;
        printed |= (uint64_t)(unsigned)_mm_movemask_epi8(_mm_cmpgt_epi8(
                       bytes, _mm_set1_epi8(' '))) /* 0x80 on are negative */
                   << i;
        quotes |= (uint64_t)(unsigned)_mm_movemask_epi8(
                      _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('\'')),
                                   _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x7f))))
                  << i;
        if (scan == scan_o200k) {
            k.capitals |= bytes_in(bytes, 'A', 26) << i;
        }
    }
    k.signs = printed & ~(k.letters | k.digits | quotes);
    return k;
}

/*
 * Where words begin, of those whose beginning is certain; the first byte is one.
 * prev bits are shifted up by one: a bit of `letters << 1` says that a letter is
 * before.
 */
static inline uint64_t
starts_of(const char *text, tok_scan *scan)
{
    const struct kinds k = kinds_of(text, scan);
    uint64_t stop = ~(k.letters | k.digits | k.spaces | k.signs);
    uint64_t after_letter = k.letters << 1;
    uint64_t after_digit = k.digits << 1;
    uint64_t after_space = k.spaces << 1;
    uint64_t after_sign = k.signs << 1;
    /* A blank goes with the signs (and in gpt2 the digits) behind it; with the
     * letters in all. */
    uint64_t signs = k.signs & ~after_sign & ~after_space;
    /* Of several blanks the last one goes with what is behind them. */
    uint64_t spaces = k.spaces & (~after_space | ~(k.spaces >> 1));
    uint64_t letters;
    uint64_t digits;

    if (scan == scan_gpt2) {
        letters = k.letters & ~after_letter & ~after_space;
        digits = k.digits & ~after_digit & ~after_space;
    } else {
        /* A sign that begins a word by itself goes with the letters behind it,
         * if it is the only one. */
        letters = k.letters & (after_digit | (after_sign & ~(signs << 1)));
        digits = k.digits;
        if (scan != scan_qwen2) { /* three at most, and no need to count */
            digits &= ~after_digit;
            stop |=
                k.digits & after_digit & after_digit << 1 & after_digit << 2;
        }
        if (scan == scan_o200k) {
            letters |= k.capitals & after_letter & ~(k.capitals << 1);
        }
    }
    /* A blank's beginning depends on the byte behind it. */
    unsigned end = stop != 0 ? (unsigned)__builtin_ctzll(stop) : BLOCK;
    uint64_t certain = end > 1 ? ~UINT64_C(0) >> (65 - end) : 0;
    return ((letters | digits | signs | spaces) & certain) | 1;
}

/* The key of the first len of 16 bytes. */
static inline void
key_of(const char *text, size_t len, uint64_t key[2])
{
    static const char ones[32] = "\xff\xff\xff\xff\xff\xff\xff\xff"
                                 "\xff\xff\xff\xff\xff\xff\xff\xff";
    __m128i bytes = _mm_loadu_si128((const void *)text);
    __m128i mask = _mm_loadu_si128((const void *)(ones + 16 - len));

    bytes = _mm_and_si128(bytes, mask);
    key[0] = (uint64_t)_mm_cvtsi128_si64(bytes);
    key[1] = (uint64_t)_mm_cvtsi128_si64(_mm_unpackhi_epi64(bytes, bytes)) |
             (uint64_t)len << 56;
}

/* Words found, and not looked up yet; none is longer than CACHE_SHORT_BYTES. */
struct ahead {
    size_t first; /* both only grow; places are taken in a ring */
    size_t end;
    struct cache_short words[AHEAD_MAX];
};

#define PLACE(number) ((number) % AHEAD_MAX)

/* Looks up those before `end`. */
static inline void
emit_until(struct tokenizer_scratch *s, struct ahead *ahead, size_t end)
{
    for (size_t i = ahead->first; i < end; i++) {
        cache_emit(s, &ahead->words[PLACE(i)]);
    }
    ahead->first = end;
}

static inline void
find_word(struct tokenizer_scratch *s, struct cache_entry *shorts,
          struct ahead *ahead, struct slice word)
{
    if (LIKELY(word.len <= CACHE_SHORT_BYTES)) {
        struct cache_short *next = &ahead->words[PLACE(ahead->end++)];
        next->ptr = word.ptr;
        key_of(word.ptr, word.len, next->key);
        cache_find(shorts, next);
    } else {
        emit_until(s, ahead, ahead->end);
        cache_word(s, word);
    }
}

/* Words of which a block can be read; returns where the next one begins. */
static inline size_t
block_words(struct tokenizer_scratch *s, struct slice text, tok_scan *scan)
{
    const struct tok_classes *classes = s->tokenizer->classes;
    struct cache_entry *shorts = cache_shorts(s->cache);
    struct ahead ahead;
    size_t at = 0;

    ahead.first = 0;
    ahead.end = 0;
    while (text.len - at >= BLOCK + 16 && s->fault == TOKENIZER_OK) {
        const char *block = text.ptr + at;
        uint64_t starts = starts_of(block, scan);
        unsigned from = 0;
        while ((starts &= starts - 1) != 0) {
            unsigned to = (unsigned)__builtin_ctzll(starts);
            find_word(s, shorts, &ahead,
                      (struct slice){.ptr = block + from, .len = to - from});
            from = to;
        }
        at += from;
        if (from == 0) {
            size_t end = scan(classes, text, at);
            find_word(s, shorts, &ahead,
                      (struct slice){.ptr = block, .len = end - at});
            at = end;
        }
        if (ahead.end - ahead.first >= AHEAD) {
            emit_until(s, &ahead, ahead.end - AHEAD / 2);
        }
    }
    emit_until(s, &ahead, ahead.end);
    return at;
}

#else

static inline size_t
block_words(struct tokenizer_scratch *s, struct slice text, tok_scan *scan)
{
    (void)s;
    (void)text;
    (void)scan;
    return 0;
}

#endif

/* Made for each scanner so that it is inlined. */
#define SCAN_WORDS(scan)                                                      \
    for (size_t at = block_words(s, text, scan);                              \
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
