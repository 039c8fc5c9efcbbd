/*
 * The alphabets of HTTP/1.1 and how far a run of bytes stays within one.
 *
 * Each http_text_*_end() returns the first byte of [at, end) outside its
 * alphabet, or end. They read nothing outside [at, end): sixteen bytes at a
 * time with SSE2 where so many are left, one by one through a table otherwise.
 *
 * Role: core, private to the HTTP files. Owns: nothing. Thread: any.
 * Limits: none. Errors: none.
 */
#ifndef NODE_HTTP_TEXT_INTERNAL_H
#define NODE_HTTP_TEXT_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "index/base/slice.h"

/* HTTP_TEXT_SCALAR is how the tests reach the table on every machine. */
#if defined(__SSE2__) && !defined(HTTP_TEXT_SCALAR)
#define HTTP_TEXT_SSE2 1
#include <emmintrin.h>
#else
#define HTTP_TEXT_SSE2 0
#endif

enum {
    HTTP_TEXT_TOKEN = 1,  /* RFC 9110 section 5.6.2: names, methods */
    HTTP_TEXT_FIELD = 2,  /* values, reasons: blanks, visible, 0x80..0xFF */
    HTTP_TEXT_TARGET = 4, /* visible ASCII but '#', which no target holds */
    HTTP_TEXT_HOST = 8,   /* a registered name or IPv4 address: no ',' */
    HTTP_TEXT_DIGIT = 16,
    HTTP_TEXT_HEX = 32,
};

/* The alphabets that each byte belongs to. */
extern const uint8_t http_text_class[256];

/* Whether the byte belongs to the alphabet: one of the above, or several. */
static inline bool
http_text_is(char c, unsigned alphabet)
{
    return (http_text_class[(unsigned char)c] & alphabet) != 0;
}

/* The scalar search behind all that follow. */
static inline const char *
http_text_end(const char *at, const char *end, unsigned alphabet)
{
    while (at != end && http_text_is(*at, alphabet)) {
        at++;
    }
    return at;
}

#if HTTP_TEXT_SSE2

/* 0xFF where the byte is at most `most`, unsigned. */
static inline __m128i
http_text_at_most(__m128i bytes, char most)
{
    return _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(most)), bytes);
}

/* Bit i: the highest bit of byte i. */
static inline unsigned
http_text_mask(__m128i bytes)
{
    return (unsigned)_mm_movemask_epi8(bytes);
}

/* The 16 bytes at `at`, which needs no alignment. */
static inline __m128i
http_text_load(const char *at)
{
    return _mm_loadu_si128((const __m128i *)(const void *)at);
}

/* Letters, digits and '-', which is all that common names are made of. */
static inline unsigned
http_text_plain_mask(__m128i bytes)
{
    __m128i lower = _mm_or_si128(bytes, _mm_set1_epi8(0x20));
    __m128i letter =
        http_text_at_most(_mm_sub_epi8(lower, _mm_set1_epi8('a')), 25);
    __m128i digit =
        http_text_at_most(_mm_sub_epi8(bytes, _mm_set1_epi8('0')), 9);
    __m128i dash = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('-'));

    return http_text_mask(_mm_or_si128(letter, _mm_or_si128(digit, dash)));
}

/* Bit i: byte i may not stand in a field's value. */
static inline unsigned
http_text_not_field_mask(__m128i bytes)
{
    __m128i control = http_text_at_most(bytes, 0x1F);
    __m128i tab = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\t'));
    __m128i delete = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x7F));

    return http_text_mask(_mm_or_si128(_mm_andnot_si128(tab, control), delete));
}

/* Bit i: byte i may stand in a target. */
static inline unsigned
http_text_target_mask(__m128i bytes)
{
    __m128i visible =
        http_text_at_most(_mm_sub_epi8(bytes, _mm_set1_epi8(0x21)), 0x5D);
    __m128i hash = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('#'));

    return http_text_mask(_mm_andnot_si128(hash, visible));
}

#endif

/* Where the token, the value or the target that begins at `at` ends. */
static inline const char *
http_text_token_end(const char *at, const char *end)
{
#if HTTP_TEXT_SSE2
    while (end - at >= 16) {
        unsigned other = ~http_text_plain_mask(http_text_load(at)) & 0xFFFFU;

        if (other != 0) {
            at += __builtin_ctz(other);
            break;
        }
        at += 16;
    }
#endif
    return http_text_end(at, end, HTTP_TEXT_TOKEN);
}

static inline const char *
http_text_field_end(const char *at, const char *end)
{
#if HTTP_TEXT_SSE2
    while (end - at >= 16) {
        unsigned other = http_text_not_field_mask(http_text_load(at));

        if (other != 0) {
            return at + __builtin_ctz(other);
        }
        at += 16;
    }
#endif
    return http_text_end(at, end, HTTP_TEXT_FIELD);
}

static inline const char *
http_text_target_end(const char *at, const char *end)
{
#if HTTP_TEXT_SSE2
    while (end - at >= 16) {
        unsigned other = ~http_text_target_mask(http_text_load(at)) & 0xFFFFU;

        if (other != 0) {
            return at + __builtin_ctz(other);
        }
        at += 16;
    }
#endif
    return http_text_end(at, end, HTTP_TEXT_TARGET);
}

/* The next 8 (or 4) bytes with bit 5 set, which makes letters lower case. */
static inline uint64_t
http_text_folded_8(const char *at)
{
    uint64_t word;

    memcpy(&word, at, sizeof(word));
    return word | 0x2020202020202020U;
}

static inline uint32_t
http_text_folded_4(const char *at)
{
    uint32_t word;

    memcpy(&word, at, sizeof(word));
    return word | 0x20202020U;
}

/*
 * Compares size bytes of a token with lower-case letters and '-': exact for
 * these, because no other token byte becomes one of them by setting bit 5.
 * size is a constant wherever this is called, so it folds to word compares.
 */
static inline __attribute__((always_inline)) bool
http_text_token_is(const char *token, const char *lower, size_t size)
{
    size_t i = 0;

    if (size >= 8) {
        for (; i + 8 <= size; i += 8) {
            if (http_text_folded_8(token + i) !=
                http_text_folded_8(lower + i)) {
                return false;
            }
        }
        return http_text_folded_8(token + size - 8) ==
               http_text_folded_8(lower + size - 8);
    }
    if (size >= 4) {
        return http_text_folded_4(token) == http_text_folded_4(lower) &&
               http_text_folded_4(token + size - 4) ==
                   http_text_folded_4(lower + size - 4);
    }
    for (; i < size; i++) {
        if ((token[i] | 0x20) != lower[i]) {
            return false;
        }
    }
    return true;
}

/*
 * The next item of a comma-separated list without its blanks; empty items are
 * skipped. False: there is none left. *rest moves past what was read.
 */
bool http_text_list_next(struct slice *rest, struct slice *item);

#endif
