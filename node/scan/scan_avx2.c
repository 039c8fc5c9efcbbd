/*
 * The scanner's kernel for x86-64 with AVX2: two vectors of 32 bytes.
 */
#if defined(__x86_64__)

#include <immintrin.h>

#include "node/scan/scan_block_internal.h"
#include "node/scan/scan_masks_internal.h"

#define SCAN_TARGET __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))
#define SCAN_LANES  4

#include "node/scan/scan_words_internal.h"

struct vectors {
    __m256i low;
    __m256i high;
};

SCAN_TARGET static inline struct vectors
load(const unsigned char *block)
{
    const __m256i *at = (const __m256i *)(const void *)block;

    return (struct vectors){.low = _mm256_loadu_si256(at),
                            .high = _mm256_loadu_si256(at + 1)};
}

/* Bit i: the top bit of byte i. */
SCAN_TARGET static inline uint64_t
tops(__m256i low, __m256i high)
{
    return (uint64_t)(uint32_t)_mm256_movemask_epi8(low) |
           (uint64_t)(uint32_t)_mm256_movemask_epi8(high) << 32;
}

SCAN_TARGET static inline uint64_t
equal(struct vectors x, char c)
{
    __m256i want = _mm256_set1_epi8(c);

    return tops(_mm256_cmpeq_epi8(x.low, want),
                _mm256_cmpeq_epi8(x.high, want));
}

/* Bytes of low or more, unsigned. */
SCAN_TARGET static inline uint64_t
from(struct vectors x, unsigned low)
{
    __m256i least = _mm256_set1_epi8((char)low);

    return tops(_mm256_cmpeq_epi8(_mm256_max_epu8(x.low, least), x.low),
                _mm256_cmpeq_epi8(_mm256_max_epu8(x.high, least), x.high));
}

/* With bit 20 set: letters in lower case, [ and ] as { and }. */
SCAN_TARGET static inline struct vectors
folded(struct vectors x)
{
    __m256i bit = _mm256_set1_epi8(0x20);

    return (struct vectors){.low = _mm256_or_si256(x.low, bit),
                            .high = _mm256_or_si256(x.high, bit)};
}

/* A table of 16 bytes, in both halves of a vector. */
SCAN_TARGET static inline __m256i
table(const char bytes[16])
{
    return _mm256_broadcastsi128_si256(
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

/* Least byte of a window and all its bits, at each of 32 places. */
struct text_sum {
    __m256i least;
    __m256i bits;
};

SCAN_TARGET static inline struct text_sum
text_none(void)
{
    return (struct text_sum){.least = _mm256_set1_epi8((char)0xFF),
                             .bits = _mm256_setzero_si256()};
}

/* All ones in the bytes whose nibbles the two tables do not both have a bit
 * for. Low nibbles of bytes above 7F are looked up all the same. */
SCAN_TARGET static inline __m256i
not_in_table(__m256i x, const char by_low[16], const char by_high[16])
{
    __m256i nibble = _mm256_set1_epi8(0x0F);
    __m256i low = _mm256_and_si256(x, nibble);
    __m256i high = _mm256_and_si256(_mm256_srli_epi16(x, 4), nibble);
    __m256i found = _mm256_and_si256(_mm256_shuffle_epi8(table(by_low), low),
                                     _mm256_shuffle_epi8(table(by_high), high));

    return _mm256_cmpeq_epi8(found, _mm256_setzero_si256());
}

SCAN_TARGET static inline struct text_masks
text_masks(const unsigned char *block, struct text_sum *sum)
{
    struct vectors x = load(block);

    sum->bits = _mm256_or_si256(sum->bits, _mm256_or_si256(x.low, x.high));
    sum->least = _mm256_min_epu8(sum->least, _mm256_min_epu8(x.low, x.high));
    return (struct text_masks){
        .quote = equal(x, '"'),
        .slash = equal(x, '\\'),
        .escapable = ~tops(not_in_table(x.low, escape_table, escape_rows),
                           not_in_table(x.high, escape_table, escape_rows)),
    };
}

SCAN_TARGET static inline bool
text_has_control(struct text_sum sum)
{
    __m256i limit = _mm256_set1_epi8(0x1F);
    __m256i low =
        _mm256_cmpeq_epi8(_mm256_min_epu8(sum.least, limit), sum.least);

    return _mm256_movemask_epi8(low) != 0;
}

SCAN_TARGET static inline bool
text_has_high(struct text_sum sum)
{
    return _mm256_movemask_epi8(sum.bits) != 0;
}

SCAN_TARGET static inline uint64_t
control_mask(const unsigned char *block)
{
    return ~from(load(block), 0x20);
}

SCAN_TARGET static inline uint64_t
high_mask(const unsigned char *block)
{
    struct vectors x = load(block);

    return tops(x.low, x.high);
}

/* Bit i: this bit of byte i. */
SCAN_TARGET static inline uint64_t
plane(struct vectors x, int bit)
{
    return tops(_mm256_slli_epi16(x.low, 7 - bit),
                _mm256_slli_epi16(x.high, 7 - bit));
}

/* All ones in the bytes that are what the table has at their low nibble. */
SCAN_TARGET static inline __m256i
looked_up(__m256i x, __m256i table)
{
    return _mm256_cmpeq_epi8(x, _mm256_shuffle_epi8(table, x));
}

SCAN_TARGET static inline struct frame_masks
frame_masks(const unsigned char *block)
{
    struct vectors x = load(block);
    struct vectors low = folded(x);
    __m256i frames = table(frame_table);
    __m256i spaces = table(space_table);
    uint64_t space = tops(looked_up(x.low, spaces), looked_up(x.high, spaces));

    x.low = _mm256_and_si256(x.low, looked_up(low.low, frames));
    x.high = _mm256_and_si256(x.high, looked_up(low.high, frames));
    return (struct frame_masks){
        .bit_2 = plane(x, 2),
        .bit_5 = plane(x, 5),
        .bit_6 = plane(x, 6),
        .space = space,
    };
}

SCAN_TARGET static inline uint64_t
space_mask(const unsigned char *block)
{
    struct vectors x = load(block);
    __m256i spaces = table(space_table);

    return tops(looked_up(x.low, spaces), looked_up(x.high, spaces));
}

SCAN_TARGET static inline uint64_t
byte_mask(const unsigned char *block, char c)
{
    return equal(load(block), c);
}

SCAN_TARGET static inline uint64_t
hex_mask(const unsigned char *block)
{
    struct vectors x = load(block);
    struct vectors low = folded(x);

    return (from(x, '0') & ~from(x, '9' + 1)) |
           (from(low, 'a') & ~from(low, 'f' + 1));
}

SCAN_TARGET static inline struct digit_masks
digit_masks(const unsigned char *block)
{
    struct vectors x = load(block);

    return (struct digit_masks){
        .digit = from(x, '0') & ~from(x, '9' + 1),
        .zero = equal(x, '0'),
    };
}

SCAN_TARGET static inline struct utf8_masks
utf8_masks(const unsigned char *block)
{
    struct vectors x = load(block);
    uint64_t from_c0 = from(x, 0xC0);

    return (struct utf8_masks){
        .continuation = tops(x.low, x.high) & ~from_c0,
        .from_c0 = from_c0,
        .from_e0 = from(x, 0xE0),
        .from_f0 = from(x, 0xF0),
        .special = ~tops(not_in_table(x.low, special_table, special_rows),
                         not_in_table(x.high, special_table, special_rows)),
    };
}

SCAN_TARGET static inline struct special_masks
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

SCAN_TARGET static inline unsigned
lane_tops(words x)
{
    return (unsigned)_mm256_movemask_pd((__m256d)x);
}

SCAN_TARGET static inline unsigned
lanes_set(words x)
{
    return lane_tops((words)(x != 0));
}

SCAN_TARGET static inline words
fill_lanes(unsigned bits)
{
    words lane = {1, 2, 4, 8};

    return (words)((lane & bits) != 0);
}

#include "node/scan/scan_window_internal.h"

static bool
usable(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2");
}

const struct scan_kernel scan_kernel_avx2 = {
    .name = "avx2",
    .usable = usable,
    .read = read_window,
};

#endif
