/*
 * The scanner's kernel for every x86-64: four vectors of 16 bytes.
 */
#if defined(__x86_64__)

#include <emmintrin.h>

#include "node/scan/scan_block_internal.h"
#include "node/scan/scan_masks_internal.h"

#define SCAN_TARGET
#define SCAN_LANES 2

#include "node/scan/scan_words_internal.h"

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

/* Least and greatest byte of a window, at each of 16 places. */
struct text_sum {
    __m128i least;
    __m128i most;
};

static inline struct text_sum
text_none(void)
{
    return (struct text_sum){.least = _mm_set1_epi8((char)0xFF),
                             .most = _mm_setzero_si128()};
}

static inline struct text_masks
text_masks(const unsigned char *block, struct text_sum *sum)
{
    struct vectors x = load(block);
    __m128i most = _mm_or_si128(_mm_or_si128(x.v[0], x.v[1]),
                                _mm_or_si128(x.v[2], x.v[3]));
    __m128i least = _mm_min_epu8(_mm_min_epu8(x.v[0], x.v[1]),
                                 _mm_min_epu8(x.v[2], x.v[3]));

    sum->most = _mm_or_si128(sum->most, most);
    sum->least = _mm_min_epu8(sum->least, least);
    return (struct text_masks){
        .quote = equal(x, '"'),
        .slash = equal(x, '\\'),
    };
}

static inline bool
text_has_control(struct text_sum sum)
{
    __m128i limit = _mm_set1_epi8(0x1F);
    __m128i low = _mm_cmpeq_epi8(_mm_min_epu8(sum.least, limit), sum.least);

    return _mm_movemask_epi8(low) != 0;
}

static inline bool
text_has_high(struct text_sum sum)
{
    return _mm_movemask_epi8(sum.most) != 0;
}

static inline uint64_t
control_mask(const unsigned char *block)
{
    return ~from(load(block), 0x20);
}

static inline uint64_t
high_mask(const unsigned char *block)
{
    struct vectors x = load(block);

    return tops(x.v[0], x.v[1], x.v[2], x.v[3]);
}

/* Bit i: this bit of byte i. */
static inline uint64_t
plane(struct vectors x, int bit)
{
    return tops(
        _mm_slli_epi16(x.v[0], 7 - bit), _mm_slli_epi16(x.v[1], 7 - bit),
        _mm_slli_epi16(x.v[2], 7 - bit), _mm_slli_epi16(x.v[3], 7 - bit));
}

/* The bytes { } [ ] , : and 0 for all others. */
static inline __m128i
frame_bytes(__m128i x, __m128i low)
{
    __m128i open = _mm_cmpeq_epi8(low, _mm_set1_epi8('{'));
    __m128i close = _mm_cmpeq_epi8(low, _mm_set1_epi8('}'));
    __m128i comma = _mm_cmpeq_epi8(x, _mm_set1_epi8(','));
    __m128i colon = _mm_cmpeq_epi8(x, _mm_set1_epi8(':'));

    return _mm_and_si128(
        x, _mm_or_si128(_mm_or_si128(open, close), _mm_or_si128(comma, colon)));
}

static inline uint64_t
spaces(struct vectors x)
{
    return equal(x, ' ') | equal(x, '\n') | equal(x, '\r') | equal(x, '\t');
}

static inline uint64_t
space_mask(const unsigned char *block)
{
    return spaces(load(block));
}

static inline struct frame_masks
frame_masks(const unsigned char *block)
{
    struct vectors x = load(block);
    struct vectors low = folded(x);
    uint64_t space = spaces(x);

    for (unsigned i = 0; i < 4; i++) {
        x.v[i] = frame_bytes(x.v[i], low.v[i]);
    }
    return (struct frame_masks){
        .bit_2 = plane(x, 2),
        .bit_5 = plane(x, 5),
        .bit_6 = plane(x, 6),
        .space = space,
    };
}

static inline uint64_t
byte_mask(const unsigned char *block, char c)
{
    return equal(load(block), c);
}

static inline struct escape_masks
escape_masks(const unsigned char *block)
{
    struct vectors x = load(block);
    struct vectors low = folded(x);

    return (struct escape_masks){
        .letter = equal(x, 'n') | equal(x, '"') | equal(x, '\\') |
                  equal(x, 't') | equal(x, 'r') | equal(x, '/') |
                  equal(x, 'b') | equal(x, 'f'),
        .u = equal(x, 'u'),
        .hex = (from(x, '0') & ~from(x, '9' + 1)) |
               (from(low, 'a') & ~from(low, 'f' + 1)),
    };
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
        .from_c0 = from_c0,
        .from_e0 = from(x, 0xE0),
        .from_f0 = from(x, 0xF0),
        .special = (from_c0 & ~from(x, 0xC2)) | equal(x, (char)0xE0) |
                   equal(x, (char)0xED) | equal(x, (char)0xF0) | from(x, 0xF4),
    };
}

static inline struct special_masks
special_masks(const unsigned char *block)
{
    struct vectors x = load(block);

    return (struct special_masks){
        .from_90 = from(x, 0x90),
        .from_a0 = from(x, 0xA0),
        .e0 = equal(x, (char)0xE0),
        .ed = equal(x, (char)0xED),
        .f0 = equal(x, (char)0xF0),
        .f4 = equal(x, (char)0xF4),
    };
}

static inline unsigned
lane_tops(words x)
{
    return (unsigned)_mm_movemask_pd((__m128d)x);
}

static inline unsigned
lanes_set(words x)
{
    return lane_tops((words)(x != 0));
}

static inline words
fill_lanes(unsigned bits)
{
    return (words){0 - (uint64_t)(bits & 1), 0 - (uint64_t)(bits >> 1 & 1)};
}

#include "node/scan/scan_utf8_masks_internal.h"
#include "node/scan/scan_window_internal.h"

static bool
usable(void)
{
    return true;
}

const struct scan_kernel scan_kernel_sse2 = {
    .name = "sse2",
    .usable = usable,
    .read = read_window,
};

#endif
