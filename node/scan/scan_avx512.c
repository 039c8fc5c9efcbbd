/*
 * The scanner's kernel for x86-64 with AVX-512: a block is one vector, and a
 * comparison is a mask. VBMI2 is asked for only because it tells processors
 * that do not slow down for wide vectors (2019 and later) from those that do.
 */
#if defined(__x86_64__)

#include <immintrin.h>

#include "node/scan/scan_block_internal.h"
#include "node/scan/scan_masks_internal.h"

#define SCAN_TARGET        \
    __attribute__((target( \
        "avx2,avx512f,avx512bw,avx512dq,avx512vl,bmi,bmi2,lzcnt,popcnt")))
#define SCAN_LANES 8

#include "node/scan/scan_words_internal.h"

SCAN_TARGET static inline __m512i
load(const unsigned char *block)
{
    return _mm512_loadu_si512(block);
}

SCAN_TARGET static inline uint64_t
equal(__m512i x, char c)
{
    return _mm512_cmpeq_epi8_mask(x, _mm512_set1_epi8(c));
}

/* Bytes of low or more, unsigned. */
SCAN_TARGET static inline uint64_t
from(__m512i x, unsigned low)
{
    return _mm512_cmpge_epu8_mask(x, _mm512_set1_epi8((char)low));
}

/* Bytes from low to high, both included. */
SCAN_TARGET static inline uint64_t
range(__m512i x, char low, char high)
{
    return _mm512_cmple_epu8_mask(_mm512_sub_epi8(x, _mm512_set1_epi8(low)),
                                  _mm512_set1_epi8((char)(high - low)));
}

/* With bit 20 set: letters in lower case, [ and ] as { and }. */
SCAN_TARGET static inline __m512i
folded(__m512i x)
{
    return _mm512_or_si512(x, _mm512_set1_epi8(0x20));
}

/* A table of 16 bytes, in each quarter of a vector. */
SCAN_TARGET static inline __m512i
table(const char bytes[16])
{
    return _mm512_broadcast_i32x4(
        _mm_loadu_si128((const __m128i *)(const void *)bytes));
}

/*
 * The brackets, the comma and the colon, [ and ] as { and }, at their low
 * nibbles; the bytes for other nibbles are of none.
 */
static const char frame_table[16] = {
    [10] = ':', [11] = '{', [12] = ',', [13] = '}'};

/* White space, likewise. */
static const char space_table[16] = {
    [0] = ' ', [9] = '\t', [10] = '\n', [13] = '\r'};

/* Bit h - 2 of entry l: the byte of nibbles h, l may be escaped. */
static const char escape_table[16] = {
    [0x2] = 1 | 1 << 4 | 1 << 5, /* " b r */
    [0x4] = 1 << 5,              /* t */
    [0x6] = 1 << 4,              /* f */
    [0xC] = 1 << 3,              /* \ */
    [0xE] = 1 << 4,              /* n */
    [0xF] = 1,                   /* / */
};
static const char escape_rows[16] = {
    [2] = 1, [5] = 1 << 3, [6] = 1 << 4, [7] = 1 << 5};

/* Likewise: C0, C1, E0, ED, F0, F4 and above. */
static const char special_table[16] = {
    [0x0] = 1 | 2 | 4, [0x1] = 1,     [0x4] = 4, [0x5] = 4, [0x6] = 4,
    [0x7] = 4,         [0x8] = 4,     [0x9] = 4, [0xA] = 4, [0xB] = 4,
    [0xC] = 4,         [0xD] = 2 | 4, [0xE] = 4, [0xF] = 4};
static const char special_rows[16] = {[0xC] = 1, [0xE] = 2, [0xF] = 4};

/* Least byte of a window and all its bits, at each of 64 places. */
struct text_sum {
    __m512i least;
    __m512i bits;
};

SCAN_TARGET static inline struct text_sum
text_none(void)
{
    return (struct text_sum){.least = _mm512_set1_epi8((char)0xFF),
                             .bits = _mm512_setzero_si512()};
}

/* The bytes for whose nibbles the two tables have a bit in common. */
SCAN_TARGET static inline uint64_t
in_table(__m512i x, const char by_low[16], const char by_high[16])
{
    __m512i nibble = _mm512_set1_epi8(0x0F);
    __m512i low = _mm512_and_si512(x, nibble);
    __m512i high = _mm512_and_si512(_mm512_srli_epi16(x, 4), nibble);

    return _mm512_test_epi8_mask(_mm512_shuffle_epi8(table(by_low), low),
                                 _mm512_shuffle_epi8(table(by_high), high));
}

SCAN_TARGET static inline struct text_masks
text_masks(const unsigned char *block, struct text_sum *sum)
{
    __m512i x = load(block);

    sum->bits = _mm512_or_si512(sum->bits, x);
    sum->least = _mm512_min_epu8(sum->least, x);
    return (struct text_masks){
        .quote = equal(x, '"'),
        .slash = equal(x, '\\'),
        .escapable = in_table(x, escape_table, escape_rows),
    };
}

SCAN_TARGET static inline bool
text_has_control(struct text_sum sum)
{
    return _mm512_cmplt_epu8_mask(sum.least, _mm512_set1_epi8(0x20)) != 0;
}

SCAN_TARGET static inline bool
text_has_high(struct text_sum sum)
{
    return _mm512_movepi8_mask(sum.bits) != 0;
}

SCAN_TARGET static inline uint64_t
control_mask(const unsigned char *block)
{
    return _mm512_cmplt_epu8_mask(load(block), _mm512_set1_epi8(0x20));
}

SCAN_TARGET static inline uint64_t
high_mask(const unsigned char *block)
{
    return _mm512_movepi8_mask(load(block));
}

/* The bytes that are what the table has at their low nibble. */
SCAN_TARGET static inline __mmask64
looked_up(__m512i x, const char bytes[16])
{
    return _mm512_cmpeq_epi8_mask(x, _mm512_shuffle_epi8(table(bytes), x));
}

/* Of the bytes in the set, those that have this bit. */
SCAN_TARGET static inline uint64_t
plane(__mmask64 set, __m512i x, int bit)
{
    return _mm512_mask_test_epi8_mask(set, x,
                                      _mm512_set1_epi8((char)(1 << bit)));
}

SCAN_TARGET static inline struct frame_masks
frame_masks(const unsigned char *block)
{
    __m512i x = load(block);
    __mmask64 frames = looked_up(folded(x), frame_table);

    return (struct frame_masks){
        .bit_2 = plane(frames, x, 2),
        .bit_5 = plane(frames, x, 5),
        .bit_6 = plane(frames, x, 6),
        .space = looked_up(x, space_table),
    };
}

SCAN_TARGET static inline uint64_t
space_mask(const unsigned char *block)
{
    return looked_up(load(block), space_table);
}

SCAN_TARGET static inline uint64_t
byte_mask(const unsigned char *block, char c)
{
    return equal(load(block), c);
}

SCAN_TARGET static inline uint64_t
hex_mask(const unsigned char *block)
{
    __m512i x = load(block);

    return range(x, '0', '9') | range(folded(x), 'a', 'f');
}

SCAN_TARGET static inline struct digit_masks
digit_masks(const unsigned char *block)
{
    __m512i x = load(block);

    return (struct digit_masks){
        .digit = range(x, '0', '9'),
        .zero = equal(x, '0'),
    };
}

SCAN_TARGET static inline struct utf8_masks
utf8_masks(const unsigned char *block)
{
    __m512i x = load(block);
    uint64_t from_c0 = from(x, 0xC0);

    return (struct utf8_masks){
        .continuation = _mm512_movepi8_mask(x) & ~from_c0,
        .from_c0 = from_c0,
        .from_e0 = from(x, 0xE0),
        .from_f0 = from(x, 0xF0),
        .special = in_table(x, special_table, special_rows),
    };
}

SCAN_TARGET static inline struct special_masks
special_masks(const unsigned char *block)
{
    __m512i x = load(block);

    return (struct special_masks){
        .from_90 = from(x, 0x90),
        .from_a0 = from(x, 0xA0),
        .e0 = equal(x, (char)0xE0),
        .ed = equal(x, (char)0xED),
        .f0 = equal(x, (char)0xF0),
        .f4 = equal(x, (char)0xF4),
    };
}

SCAN_TARGET static inline unsigned
lane_tops(words x)
{
    return _mm512_movepi64_mask((__m512i)x);
}

SCAN_TARGET static inline unsigned
lanes_set(words x)
{
    return _mm512_test_epi64_mask((__m512i)x, (__m512i)x);
}

SCAN_TARGET static inline words
fill_lanes(unsigned bits)
{
    return (words)_mm512_movm_epi64((__mmask8)bits);
}

#include "node/scan/scan_window_internal.h"

static bool
usable(void)
{
    return __builtin_cpu_supports("avx512vbmi2") &&
           __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("bmi2");
}

const struct scan_kernel scan_kernel_avx512 = {
    .name = "avx512",
    .usable = usable,
    .read = read_window,
};

#endif
