/*
 * The scanner's kernel for every x86-64: four vectors of 16 bytes.
 */
#if defined(__x86_64__)

#include <emmintrin.h>

#include "node/scan_block.h"
#include "node/scan_masks.h"

#define SCAN_TARGET

struct vectors {
    __m128i v[4];
};

static inline struct vectors
load(const unsigned char *block)
{
    const __m128i *at = (const __m128i *)(const void *)block;

    return (struct vectors){{_mm_loadu_si128(at), _mm_loadu_si128(at + 1),
                             _mm_loadu_si128(at + 2), _mm_loadu_si128(at + 3)}};
}

/* Bit i: the top bit of byte i. */
static inline uint64_t
tops(__m128i a, __m128i b, __m128i c, __m128i d)
{
    return (uint64_t)(uint32_t)_mm_movemask_epi8(a) |
           (uint64_t)(uint32_t)_mm_movemask_epi8(b) << 16 |
           (uint64_t)(uint32_t)_mm_movemask_epi8(c) << 32 |
           (uint64_t)(uint32_t)_mm_movemask_epi8(d) << 48;
}

static inline uint64_t
equal(struct vectors x, char c)
{
    __m128i want = _mm_set1_epi8(c);

    return tops(_mm_cmpeq_epi8(x.v[0], want), _mm_cmpeq_epi8(x.v[1], want),
                _mm_cmpeq_epi8(x.v[2], want), _mm_cmpeq_epi8(x.v[3], want));
}

/* Bytes of low or more, unsigned. */
static inline uint64_t
from(struct vectors x, unsigned low)
{
    __m128i least = _mm_set1_epi8((char)low);

    return tops(_mm_cmpeq_epi8(_mm_max_epu8(x.v[0], least), x.v[0]),
                _mm_cmpeq_epi8(_mm_max_epu8(x.v[1], least), x.v[1]),
                _mm_cmpeq_epi8(_mm_max_epu8(x.v[2], least), x.v[2]),
                _mm_cmpeq_epi8(_mm_max_epu8(x.v[3], least), x.v[3]));
}

/* With bit 20 set: letters in lower case, [ and ] as { and }. */
static inline struct vectors
folded(struct vectors x)
{
    __m128i bit = _mm_set1_epi8(0x20);

    return (struct vectors){
        {_mm_or_si128(x.v[0], bit), _mm_or_si128(x.v[1], bit),
         _mm_or_si128(x.v[2], bit), _mm_or_si128(x.v[3], bit)}};
}

static inline struct text_masks
text_masks(const unsigned char *block)
{
    struct vectors x = load(block);

    return (struct text_masks){
        .quote = equal(x, '"'),
        .slash = equal(x, '\\'),
        .control = ~from(x, 0x20),
        .high = tops(x.v[0], x.v[1], x.v[2], x.v[3]),
    };
}

static inline struct frame_masks
frame_masks(const unsigned char *block)
{
    struct vectors x = load(block), low = folded(x);

    return (struct frame_masks){
        .open = equal(low, '{'),
        .close = equal(low, '}'),
        .brace = from(x, '{'),
        .comma = equal(x, ','),
        .colon = equal(x, ':'),
        .space =
            equal(x, ' ') | equal(x, '\n') | equal(x, '\r') | equal(x, '\t'),
    };
}

static inline struct escape_masks
escape_masks(const unsigned char *block)
{
    struct vectors x = load(block);
    uint64_t u = equal(x, 'u');

    return (struct escape_masks){
        .allowed = equal(x, 'n') | equal(x, '"') | equal(x, '\\') |
                   equal(x, 't') | equal(x, 'r') | equal(x, '/') |
                   equal(x, 'b') | equal(x, 'f') | u,
        .u = u,
    };
}

static inline uint64_t
hex_mask(const unsigned char *block)
{
    struct vectors x = load(block), low = folded(x);

    return (from(x, '0') & ~from(x, '9' + 1)) |
           (from(low, 'a') & ~from(low, 'f' + 1));
}

static inline struct digit_masks
digit_masks(const unsigned char *block)
{
    struct vectors x = load(block);

    return (struct digit_masks){
        .digit = from(x, '0') & ~from(x, '9' + 1),
        .zero = equal(x, '0'),
    };
}

static inline struct utf8_masks
utf8_masks(const unsigned char *block)
{
    struct vectors x = load(block);
    uint64_t from_c0 = from(x, 0xC0);

    return (struct utf8_masks){
        .continuation = tops(x.v[0], x.v[1], x.v[2], x.v[3]) & ~from_c0,
        .from_90 = from(x, 0x90),
        .from_a0 = from(x, 0xA0),
        .from_c0 = from_c0,
        .from_e0 = from(x, 0xE0),
        .from_f0 = from(x, 0xF0),
        .never = (from_c0 & ~from(x, 0xC2)) | from(x, 0xF5),
        .e0 = equal(x, (char)0xE0),
        .ed = equal(x, (char)0xED),
        .f0 = equal(x, (char)0xF0),
        .f4 = equal(x, (char)0xF4),
    };
}

static inline uint64_t
parity(uint64_t word)
{
    word ^= word << 1;
    word ^= word << 2;
    word ^= word << 4;
    word ^= word << 8;
    word ^= word << 16;
    return word ^ word << 32;
}

#include "node/scan_advance.h"

static bool
usable(void)
{
    return true;
}

const struct scan_kernel scan_kernel_sse2 = {
    .name = "sse2",
    .usable = usable,
    .advance = advance,
};

#endif
