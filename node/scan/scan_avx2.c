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

/*
 * The bytes of an escape, by their low and their high nibbles: what a byte is
 * has its bit in both. Letters are in a bit for each row, of digits there are
 * two rows, and u is by itself.
 */
#define LETTERS (1 | 2 | 4 | 8)
#define HEX     (16 | 32)
static const char escape_table[16] = {
    [0x0] = 16,
    [0x1] = 16 | 32,
    [0x2] = 16 | 32 | 1 | 4 | 8, /* " b r */
    [0x3] = 16 | 32,
    [0x4] = 16 | 32 | 8,  /* t */
    [0x5] = 16 | 32 | 64, /* u */
    [0x6] = 16 | 32 | 4,  /* f */
    [0x7] = 16,
    [0x8] = 16,
    [0x9] = 16,
    [0xC] = 2, /* \ */
    [0xE] = 4, /* n */
    [0xF] = 1, /* / */
};
static const char escape_rows[16] = {
    [2] = 1, [3] = 16, [4] = 32, [5] = 2, [6] = 4 | 32, [7] = 8 | 64};

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

/* The bits that the two tables both have at a byte's nibbles. Low nibbles of
 * bytes above 7F are looked up all the same. */
SCAN_TARGET static inline __m256i
in_tables(__m256i x, const char by_low[16], const char by_high[16])
{
    __m256i nibble = _mm256_set1_epi8(0x0F);
    __m256i low = _mm256_and_si256(x, nibble);
    __m256i high = _mm256_and_si256(_mm256_srli_epi16(x, 4), nibble);

    return _mm256_and_si256(_mm256_shuffle_epi8(table(by_low), low),
                            _mm256_shuffle_epi8(table(by_high), high));
}

/* The bytes of which x has any of these bits. */
SCAN_TARGET static inline uint64_t
with_bits(struct vectors x, int bits)
{
    __m256i wanted = _mm256_set1_epi8((char)bits);
    __m256i none = _mm256_setzero_si256();

    return ~tops(_mm256_cmpeq_epi8(_mm256_and_si256(x.low, wanted), none),
                 _mm256_cmpeq_epi8(_mm256_and_si256(x.high, wanted), none));
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

SCAN_TARGET static inline struct escape_masks
escape_masks(const unsigned char *block)
{
    struct vectors x = load(block);

    x.low = in_tables(x.low, escape_table, escape_rows);
    x.high = in_tables(x.high, escape_table, escape_rows);
    return (struct escape_masks){
        .letter = with_bits(x, LETTERS),
        .u = plane(x, 6),
        .hex = with_bits(x, HEX),
    };
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

typedef uint8_t bytes __attribute__((vector_size(32)));

SCAN_TARGET static inline bytes
load_bytes(const unsigned char *from)
{
    return (bytes)_mm256_loadu_si256((const __m256i *)(const void *)from);
}

SCAN_TARGET static inline bytes
find_low(const char by_nibble[16], bytes x)
{
    __m256i low = _mm256_and_si256((__m256i)x, _mm256_set1_epi8(0x0F));

    return (bytes)_mm256_shuffle_epi8(table(by_nibble), low);
}

SCAN_TARGET static inline bytes
find_high(const char by_nibble[16], bytes x)
{
    return find_low(by_nibble, (bytes)_mm256_srli_epi16((__m256i)x, 4));
}

SCAN_TARGET static inline bytes
less(bytes x, bytes by)
{
    return (bytes)_mm256_subs_epu8((__m256i)x, (__m256i)by);
}

#define SHIFTED(before, x, n)                                             \
    ((bytes)_mm256_alignr_epi8(                                           \
        (__m256i)(x),                                                     \
        _mm256_permute2x128_si256((__m256i)(before), (__m256i)(x), 0x21), \
        16 - (n)))

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

#include "node/scan/scan_utf8_tables_internal.h"
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
