/*
 * Classes of Unicode characters, one byte of flags for each, and UTF-8.
 *
 * The tables follow Unicode 16, which the `tokenizers` library's patterns know:
 * utf8proc of Debian 12 has Unicode 15 and PCRE2 has 14, so the characters
 * since are listed here (tok_later) and given to both.
 *
 * Role: core. Owns: nothing. Thread: any.
 */
#ifndef NODE_TOKENIZER_CLASS_INTERNAL_H
#define NODE_TOKENIZER_CLASS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "index/base/slice.h"
#include "index/base/utf8.h"

enum {
    TOK_LETTER = 1, /* L */
    TOK_NUMBER = 2, /* N */
    TOK_SPACE = 4,  /* White_Space */
    TOK_UPPER = 8,  /* Lu Lt Lm Lo M: what may begin a word of o200k */
    TOK_LOWER = 16, /* Ll Lm Lo M: what may end it */
    TOK_WORD = 32,  /* \w */
    TOK_PUNCT = 64, /* punctuation of BERT */
    TOK_NFC = 128,  /* needs a look before a text is known to be composed */
};

/* Categories of characters that are newer than PCRE2's. */
enum tok_category {
    TOK_LU,
    TOK_LT,
    TOK_LL,
    TOK_LM,
    TOK_LO,
    TOK_M,
    TOK_ND,
    TOK_N, /* without TOK_ND */
    TOK_P,
    TOK_S,
};

struct tok_range {
    uint32_t first;
    uint32_t last;
    enum tok_category category;
};

/* Assigned since Unicode 14, in order. */
extern const struct tok_range tok_later[];
extern const size_t tok_later_count;

#define TOK_PAGE_CHARS 256
#define TOK_PAGES      (0x110000 / TOK_PAGE_CHARS)

struct tok_classes {
    uint8_t ascii[128];
    uint16_t page[TOK_PAGES];
    uint8_t (*flags)[TOK_PAGE_CHARS];
};

struct tok_load;

/* Builds the tables in the tokenizer's memory; NULL: the load has failed. */
const struct tok_classes *tok_classes_new(struct tok_load *load);

static inline uint8_t
tok_class(const struct tok_classes *classes, uint32_t c)
{
    return c < 128 ? classes->ascii[c]
                   : classes->flags[classes->page[c / TOK_PAGE_CHARS]]
                                   [c % TOK_PAGE_CHARS];
}

/* Bytes of the character that begins with this byte; text is well-formed. */
static inline size_t
utf8_len(uint8_t lead)
{
    return lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

/* The first byte of text[at, ...) that is not ASCII; text.len: all of it is. */
static inline size_t
ascii_until(struct slice text, size_t at)
{
#ifdef __SSE2__
    for (; text.len - at >= 64; at += 64) {
        const char *p = text.ptr + at;
        __m128i a = _mm_loadu_si128((const void *)p);
        __m128i b = _mm_loadu_si128((const void *)(p + 16));
        __m128i c = _mm_loadu_si128((const void *)(p + 32));
        __m128i d = _mm_loadu_si128((const void *)(p + 48));
        if (_mm_movemask_epi8(
                _mm_or_si128(_mm_or_si128(a, b), _mm_or_si128(c, d))) != 0) {
            break;
        }
    }
    for (; text.len - at >= 16; at += 16) {
        int beyond =
            _mm_movemask_epi8(_mm_loadu_si128((const void *)(text.ptr + at)));
        if (beyond != 0) {
            return at + (unsigned)__builtin_ctz((unsigned)beyond);
        }
    }
    if (text.len >= 16) { /* the last ones with some that were seen */
        unsigned beyond = (unsigned)_mm_movemask_epi8(
            _mm_loadu_si128((const void *)(text.ptr + text.len - 16)));
        beyond >>= 16 - (text.len - at);
        return beyond != 0 ? at + (unsigned)__builtin_ctz(beyond) : text.len;
    }
#endif
    while (at < text.len && (uint8_t)text.ptr[at] < 0x80) {
        at++;
    }
    return at;
}

/* Characters of three bytes, five at a time: what every third byte of a text that
 * begins with one leads. The first whose lead is not wanted ends it. */
#define TOK_FIVE       15U
#define TOK_FIVE_LEADS 0x1249U /* bits of their first bytes */

static inline size_t
tok_five_until(unsigned unwanted)
{
    return unwanted == 0 ? TOK_FIVE : (size_t)__builtin_ctz(unwanted) / 3 * 3;
}

/* A place up to which text[at, ...) is characters from U+5000 to U+9FFF, or to
 * U+8FFF if the last lead is e8 and not e9, all of them letters without a case
 * that compose with nothing: most of Chinese. text[at] is the beginning of a
 * character; the text is well-formed. */
static inline size_t
tok_han_until(struct slice text, size_t at, unsigned last)
{
#ifdef __SSE2__
    bool is_han =
        (uint8_t)text.ptr[at] >= 0xe5 && (uint8_t)text.ptr[at] <= last;
    size_t passed = is_han ? TOK_FIVE : 0;

    while (passed == TOK_FIVE && text.len - at > TOK_FIVE) {
        __m128i bytes = _mm_loadu_si128((const void *)(text.ptr + at));
        __m128i from = _mm_sub_epi8(bytes, _mm_set1_epi8((char)0xe5));
        __m128i over = _mm_subs_epu8(from, _mm_set1_epi8((char)(last - 0xe5)));
        unsigned fits = (unsigned)_mm_movemask_epi8(
            _mm_cmpeq_epi8(over, _mm_setzero_si128()));
        passed = tok_five_until(~fits & TOK_FIVE_LEADS);
        at += passed;
    }
#endif
    (void)text;
    (void)last;
    return at;
}

#ifdef __SSE2__
/* The bytes from `low` to `low + count - 1`, as bits. */
static inline unsigned
tok_bytes_in(__m128i bytes, unsigned low, unsigned count)
{
    /* Compared as signed: `low` moves down to the least there is. */
    __m128i moved = _mm_sub_epi8(bytes, _mm_set1_epi8((char)(low - 128)));

    return (unsigned)_mm_movemask_epi8(
        _mm_cmplt_epi8(moved, _mm_set1_epi8((char)(count - 128))));
}
#endif

/* A place up to which text[at, ...) is characters of three bytes that compose with
 * nothing before them: U+2010 to U+2027, U+3000 to U+3029, U+3040 to U+9FFF
 * without the two marks, U+FF00 to U+FF7F. text[at] is the beginning of a
 * character; the text is well-formed. */
static inline size_t
tok_inert_until(struct slice text, size_t at)
{
#ifdef __SSE2__
    size_t passed = (uint8_t)text.ptr[at] >= 0xe2 ? TOK_FIVE : 0;

    while (passed == TOK_FIVE && text.len - at > TOK_FIVE) {
        __m128i bytes = _mm_loadu_si128((const void *)(text.ptr + at));
        unsigned fits = tok_bytes_in(bytes, 0xe4, 6);
        if ((~fits & TOK_FIVE_LEADS) != 0) {
            unsigned e2 = tok_bytes_in(bytes, 0xe2, 1);
            unsigned e3 = tok_bytes_in(bytes, 0xe3, 1);
            unsigned second_80 = tok_bytes_in(bytes, 0x80, 1) >> 1;
            unsigned second_82 = tok_bytes_in(bytes, 0x82, 1) >> 1;
            unsigned kana = tok_bytes_in(bytes, 0x81, 3) >> 1;
            unsigned marks = second_82 & tok_bytes_in(bytes, 0x99, 2) >> 2;
            fits |= e2 & second_80 & tok_bytes_in(bytes, 0x90, 0x18) >> 2;
            fits |= e3 & second_80 & tok_bytes_in(bytes, 0x80, 0x2a) >> 2;
            fits |= e3 & kana & ~marks;
            fits |= tok_bytes_in(bytes, 0xef, 1) &
                    tok_bytes_in(bytes, 0xbc, 2) >> 1;
        }
        passed = tok_five_until(~fits & TOK_FIVE_LEADS);
        at += passed;
    }
#endif
    (void)text;
    return at;
}

/* Whether a character is \\p{P} or \\p{S}, in Unicode 16. */
bool tok_is_sign(uint32_t c);

/* Whether a character may take part in a composition (tokenizer_nfc.c). */
bool norm_needs_look(int32_t c);

/* The character at text; it is well-formed. */
static inline uint32_t
utf8_read(const char *text)
{
    const uint8_t *b = (const uint8_t *)text;

    if (b[0] < 0x80) {
        return b[0];
    }
    if (b[0] < 0xe0) {
        return (uint32_t)(b[0] & 0x1f) << 6 | (b[1] & 0x3f);
    }
    if (b[0] < 0xf0) {
        return (uint32_t)(b[0] & 0xf) << 12 | (uint32_t)(b[1] & 0x3f) << 6 |
               (b[2] & 0x3f);
    }
    return (uint32_t)(b[0] & 7) << 18 | (uint32_t)(b[1] & 0x3f) << 12 |
           (uint32_t)(b[2] & 0x3f) << 6 | (b[3] & 0x3f);
}

/* The start of the character before text[at]; at > 0. */
static inline size_t
utf8_back(const char *text, size_t at)
{
    do {
        at--;
    } while (((uint8_t)text[at] & 0xc0) == 0x80);
    return at;
}

static inline uint8_t
tok_class_at(const struct tok_classes *classes, const char *text)
{
    uint8_t lead = (uint8_t)text[0];

    return lead < 0x80 ? classes->ascii[lead]
                       : tok_class(classes, utf8_read(text));
}

#endif
