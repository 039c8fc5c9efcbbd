/*
 * Token ids: nearly all bytes of a batch. Their widths (1, 2, 3 or 5 bytes)
 * come in unpredictable order. So a loop that branches on them pays for a wrong
 * guess every few ids, and a loop that does not has to wait for each lead byte
 * before it knows where the next one is. With SSSE3, four ids are read at a
 * time: for each of 16 bytes we compute how wide an id would be that began
 * there, which makes a table of steps; four steps from the first byte are two
 * shuffles of that table by itself.
 */
#include "node/events/kv_wire_event_internal.h"

#define LOOK_BYTES 8 /* that are read at a lead byte, whatever it says */

/* An id by its lead byte: so many bytes in all, of which `mask` is left after
 * a shift; width 0 is everything else. */
struct id_shape {
    uint8_t width;
    uint8_t shift;
    uint32_t mask;
};

#define ID_1        \
    {               \
        1, 56, 0x7f \
    }
#define ID_8  ID_1, ID_1, ID_1, ID_1, ID_1, ID_1, ID_1, ID_1
#define ID_32 ID_8, ID_8, ID_8, ID_8

static const struct id_shape shapes[256] = {
    ID_32,
    ID_32,
    ID_32,
    ID_32,
    [0xcc] = {2, 48, 0xff},
    [0xcd] = {3, 40, 0xffff},
    [0xce] = {5, 24, 0xffffffff},
};

/* At most count ids, one by one. */
static uint32_t
read_each(const uint8_t **cursor, const uint8_t *end, uint32_t *out,
          uint32_t count)
{
    const uint8_t *at = *cursor;
    uint32_t i = 0;

    for (; i < count && end - at >= LOOK_BYTES; i++) {
        struct id_shape shape = shapes[at[0]];
        if (shape.width == 0) {
            break;
        }
        out[i] = (uint32_t)(token_be64(at) >> shape.shift) & shape.mask;
        at += shape.width;
    }
    *cursor = at;
    return i;
}

#if defined(__x86_64__)

#include <immintrin.h>

#define WINDOW 16 /* bytes */
#define NO_ID  0x40
#define TARGET __attribute__((target("ssse3")))

/* For each of 16 bytes where the next id would begin, were it a lead byte.
 * NO_ID is set where it cannot be one; as shuffles heed but four bits of it,
 * the steps from there lead there again and keep it set. */
TARGET static inline __m128i
steps_of(__m128i bytes)
{
    const __m128i of_c0 = /* by the lower half: 0xcc, 0xcd, 0xce */
        _mm_setr_epi8(NO_ID, NO_ID, NO_ID, NO_ID, NO_ID, NO_ID, NO_ID, NO_ID,
                      NO_ID, NO_ID, NO_ID, NO_ID, 2, 3, 5, NO_ID);
    const __m128i of_all = /* by the upper half: 0x00 to 0x7f, 0xc0 to 0xcf */
        _mm_setr_epi8(1, 1, 1, 1, 1, 1, 1, 1, NO_ID, NO_ID, NO_ID, NO_ID, 0,
                      NO_ID, NO_ID, NO_ID);
    const __m128i index =
        _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    /* 0xc0 to 0xcf become 0x70 to 0x7f, all else has its top bit set, for
     * which a shuffle gives 0. */
    __m128i lower = _mm_adds_epu8(
        _mm_xor_si128(bytes, _mm_set1_epi8((char)0xc0)), _mm_set1_epi8(0x70));
    __m128i upper =
        _mm_and_si128(_mm_srli_epi16(bytes, 4), _mm_set1_epi8(0x0f));

    return _mm_add_epi8(_mm_add_epi8(index, _mm_shuffle_epi8(of_all, upper)),
                        _mm_shuffle_epi8(of_c0, lower));
}

/* Where the 2nd to 5th id begin, one byte each, the 2nd lowest. */
TARGET static inline __m128i
starts_of(__m128i steps)
{
    __m128i two = _mm_shuffle_epi8(steps, steps);
    __m128i three = _mm_shuffle_epi8(steps, two);
    __m128i four = _mm_shuffle_epi8(two, two);

    return _mm_unpacklo_epi16(_mm_unpacklo_epi8(steps, two),
                              _mm_unpacklo_epi8(three, four));
}

/* Four ids, big endian between these starts, to four lanes. The lowest byte of
 * each is the one before the next id, and so on downwards to the lead byte,
 * which is the id itself when there is no other. */
TARGET static inline __m128i
lanes_of(__m128i bytes, __m128i starts)
{
    const __m128i spread =
        _mm_setr_epi8(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    const __m128i back =
        _mm_setr_epi8(1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4);
    const __m128i upper = _mm_set1_epi32((int)0xffffff00);
    __m128i next = _mm_shuffle_epi8(starts, spread);
    __m128i lead = _mm_shuffle_epi8(_mm_slli_epi32(starts, 8), spread);
    __m128i from = _mm_sub_epi8(next, back);
    __m128i is_out = _mm_andnot_si128(_mm_cmpgt_epi8(from, lead), upper);

    return _mm_shuffle_epi8(bytes, _mm_or_si128(from, is_out));
}

TARGET static uint32_t
read_by_four(const uint8_t **cursor, const uint8_t *end, uint32_t *out,
             uint32_t count)
{
    const uint8_t *at = *cursor;
    uint32_t i = 0;

    while (count - i >= 4 && end - at >= WINDOW) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at);
        __m128i starts = starts_of(steps_of(bytes));
        uint32_t ends = (uint32_t)_mm_cvtsi128_si32(starts);
        uint32_t three = ends >> 16 & 0xff;
        uint32_t four = ends >> 24;
        /* Of ids of 5 bytes only three fit: which it is cannot be foretold. */
        uint32_t is_three = four > WINDOW;
        if (UNLIKELY(three > WINDOW)) { /* these are no ids */
            uint32_t n = read_each(&at, end, out + i, 4);
            i += n;
            if (n < 4) {
                break;
            }
            continue;
        }
        _mm_storeu_si128((__m128i *)(void *)(out + i), lanes_of(bytes, starts));
        at += is_three ? three : four;
        i += 4 - is_three;
    }
    *cursor = at;
    return i;
}

static uint32_t
read_most(const uint8_t **cursor, const uint8_t *end, uint32_t *out,
          uint32_t count)
{
    return __builtin_cpu_supports("ssse3")
               ? read_by_four(cursor, end, out, count)
               : 0;
}

#else

static uint32_t
read_most(const uint8_t **cursor, const uint8_t *end, uint32_t *out,
          uint32_t count)
{
    (void)cursor;
    (void)end;
    (void)out;
    (void)count;
    return 0;
}

#endif

uint32_t
kv_read_ids(const uint8_t **cursor, const uint8_t *end, uint32_t *out,
            uint32_t count)
{
    uint32_t n = read_most(cursor, end, out, count);

    return n + read_each(cursor, end, out + n, count - n);
}
