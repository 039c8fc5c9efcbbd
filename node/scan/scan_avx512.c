/*
 * The scanner's kernel for x86-64 with AVX-512: a block is one vector, and a
 * comparison is a mask. VBMI2 is asked for only because it tells processors
 * that do not slow down for wide vectors (2019 and later) from those that do.
 */
#if defined(__x86_64__)

#include <immintrin.h>

#include "node/scan/scan_block_internal.h"
#include "node/scan/scan_masks_internal.h"

#define SCAN_TARGET                                                  \
    __attribute__((target("avx2,avx512f,avx512bw,avx512dq,avx512vl," \
                          "avx512vbmi,bmi,bmi2,lzcnt,popcnt")))
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

/* The bytes of an escape. */
enum {
    LETTER = 1,
    U = 2,
    HEX = 4,
};
static const char escape_table[128] = {
    ['"'] = LETTER,
    ['/'] = LETTER,
    ['0' ... '9'] = HEX,
    ['A' ... 'F'] = HEX,
    ['\\'] = LETTER,
    ['a'] = HEX,
    ['b'] = HEX | LETTER,
    ['c' ... 'e'] = HEX,
    ['f'] = HEX | LETTER,
    ['n'] = LETTER,
    ['r'] = LETTER,
    ['t'] = LETTER,
    ['u'] = U,
};

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

SCAN_TARGET static inline struct text_masks
text_masks(const unsigned char *block, struct text_sum *sum)
{
    __m512i x = load(block);

    sum->bits = _mm512_or_si512(sum->bits, x);
    sum->least = _mm512_min_epu8(sum->least, x);
    return (struct text_masks){
        .quote = equal(x, '"'),
        .slash = equal(x, '\\'),
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
with_bits(__m512i x, int bits)
{
    return _mm512_test_epi8_mask(x, _mm512_set1_epi8((char)bits));
}

/* Bytes above 7F are looked up as 7F, which is nothing. */
SCAN_TARGET static inline struct escape_masks
escape_masks(const unsigned char *block)
{
    __m512i x = _mm512_min_epu8(load(block), _mm512_set1_epi8(0x7F));
    __m512i classes =
        _mm512_permutex2var_epi8(_mm512_loadu_si512(escape_table), x,
                                 _mm512_loadu_si512(escape_table + 64));

    return (struct escape_masks){
        .letter = with_bits(classes, LETTER),
        .u = with_bits(classes, U),
        .hex = with_bits(classes, HEX),
    };
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

typedef uint8_t bytes __attribute__((vector_size(64)));

SCAN_TARGET static inline bytes
load_bytes(const unsigned char *from)
{
    return (bytes)load(from);
}

/* A table of 16 bytes, each of them four times. */
SCAN_TARGET static inline __m512i
spread(const char by_nibble[16])
{
    static const char fours[64] = {
        0,  0,  0,  0,  1,  1,  1,  1,  2,  2,  2,  2,  3,  3,  3,  3,
        4,  4,  4,  4,  5,  5,  5,  5,  6,  6,  6,  6,  7,  7,  7,  7,
        8,  8,  8,  8,  9,  9,  9,  9,  10, 10, 10, 10, 11, 11, 11, 11,
        12, 12, 12, 12, 13, 13, 13, 13, 14, 14, 14, 14, 15, 15, 15, 15};

    return _mm512_shuffle_epi8(table(by_nibble), _mm512_loadu_si512(fours));
}

/* Of an index six bits are looked at, of which four mean anything. */
SCAN_TARGET static inline bytes
find_low(const char by_nibble[16], bytes x)
{
    return (bytes)_mm512_permutexvar_epi8((__m512i)x, table(by_nibble));
}

SCAN_TARGET static inline bytes
find_high(const char by_nibble[16], bytes x)
{
    return (bytes)_mm512_permutexvar_epi8(_mm512_srli_epi16((__m512i)x, 2),
                                          spread(by_nibble));
}

SCAN_TARGET static inline bytes
less(bytes x, bytes by)
{
    return (bytes)_mm512_subs_epu8((__m512i)x, (__m512i)by);
}

#define SHIFTED(before, x, n)                                                  \
    ((bytes)_mm512_alignr_epi8(                                                \
        (__m512i)(x), _mm512_alignr_epi64((__m512i)(x), (__m512i)(before), 6), \
        16 - (n)))

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

#include "node/scan/scan_utf8_tables_internal.h"
#include "node/scan/scan_window_internal.h"

static bool
usable(void)
{
    return __builtin_cpu_supports("avx512vbmi2") &&
           __builtin_cpu_supports("avx512vbmi") &&
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
