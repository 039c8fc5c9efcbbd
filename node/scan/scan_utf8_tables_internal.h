/*
 * UTF-8 by three tables: each pair of bytes that follow each other is looked
 * up by the four bits that tell, and faults that all three find are faults
 * (Keiser and Lemire, "Validating UTF-8 in less than one instruction per byte",
 * Software: Practice and Experience 2021). Part of each of the kernels that
 * can look bytes up: see scan_window_internal.h. They define, all `SCAN_TARGET
 * static inline`, for as many bytes as a vector has:
 *
 *   bytes                                a vector of uint8_t
 *   bytes load_bytes(const unsigned char *)
 *   bytes find_low(const char table[16], bytes)
 *   bytes find_high(const char table[16], bytes)
 *                                        what the table has for their nibbles
 *   bytes less(bytes x, bytes by)        x - by, and at least 0
 *   bytes SHIFTED(before, x, N)          x moved up by N bytes, a constant;
 *                                        the last N of before come first
 */
#include "node/scan/scan_block_internal.h"

/* What two bytes show to be wrong. Not so TWICE: it is right where a lead byte
 * of three or four stands before these. */
enum {
    SHORT = 1,      /* a lead byte, and no continuation */
    LONG = 2,       /* a continuation behind ASCII */
    OVER_3 = 4,     /* three bytes, but two would do */
    ABOVE = 8,      /* beyond 10FFFF: F4 90 and more */
    SURROGATE = 16, /* D800 to DFFF */
    OVER_2 = 32,
    OVER_4 = 64, /* also F5 80 and more */
    TWICE = 128, /* a continuation behind one */
    ANY_LOW = SHORT | LONG | TWICE,
};

/* By the high and the low nibble of the first byte, and the high one of the
 * second. */
static const char utf8_first_high[16] = {
    LONG,
    LONG,
    LONG,
    LONG,
    LONG,
    LONG,
    LONG,
    LONG,
    (char)TWICE,
    (char)TWICE,
    (char)TWICE,
    (char)TWICE,
    SHORT | OVER_2,
    SHORT,
    SHORT | OVER_3 | SURROGATE,
    SHORT | ABOVE | OVER_4,
};
static const char utf8_first_low[16] = {
    (char)(ANY_LOW | OVER_2 | OVER_3 | OVER_4),
    (char)(ANY_LOW | OVER_2),
    (char)ANY_LOW,
    (char)ANY_LOW,
    (char)(ANY_LOW | ABOVE),
    (char)(ANY_LOW | ABOVE | OVER_4),
    (char)(ANY_LOW | ABOVE | OVER_4),
    (char)(ANY_LOW | ABOVE | OVER_4),
    (char)(ANY_LOW | ABOVE | OVER_4),
    (char)(ANY_LOW | ABOVE | OVER_4),
    (char)(ANY_LOW | ABOVE | OVER_4),
    (char)(ANY_LOW | ABOVE | OVER_4),
    (char)(ANY_LOW | ABOVE | OVER_4),
    (char)(ANY_LOW | ABOVE | OVER_4 | SURROGATE),
    (char)(ANY_LOW | ABOVE | OVER_4),
    (char)(ANY_LOW | ABOVE | OVER_4),
};
static const char utf8_second_high[16] = {
    SHORT,
    SHORT,
    SHORT,
    SHORT,
    SHORT,
    SHORT,
    SHORT,
    SHORT,
    (char)(LONG | TWICE | OVER_2 | OVER_3 | OVER_4),
    (char)(LONG | TWICE | OVER_2 | OVER_3 | ABOVE),
    (char)(LONG | TWICE | OVER_2 | SURROGATE | ABOVE),
    (char)(LONG | TWICE | OVER_2 | SURROGATE | ABOVE),
    SHORT,
    SHORT,
    SHORT,
    SHORT,
};

/* The bytes before, the faults so far, and constants. */
struct utf8_state {
    bytes before;
    bytes fault;
    bytes below_e0; /* taken off, they leave lead bytes of three and more their
                       top bit; the next, those of four */
    bytes below_f0;
    bytes top;
};

/* That byte in each; gcc 12 would make it anew for each block if it knew that
 * it is a constant. */
SCAN_TARGET static inline bytes
all(uint8_t byte)
{
    bytes x = (bytes){0} + byte;

    __asm__("" : "+x"(x));
    return x;
}

SCAN_TARGET static inline struct utf8_state
utf8_none(void)
{
    return (struct utf8_state){.below_e0 = all(0xE0 - 0x80),
                               .below_f0 = all(0xF0 - 0x80),
                               .top = all(0x80)};
}

SCAN_TARGET static inline void
utf8_step(struct utf8_state *s, bytes x)
{
    bytes one = SHIFTED(s->before, x, 1);
    bytes two = SHIFTED(s->before, x, 2);
    bytes three = SHIFTED(s->before, x, 3);
    bytes found = find_high(utf8_first_high, one) &
                  find_low(utf8_first_low, one) &
                  find_high(utf8_second_high, x);
    bytes led = less(two, s->below_e0) | less(three, s->below_f0);

    s->fault |= found ^ (led & s->top);
    s->before = x;
}

SCAN_TARGET static inline void
utf8_next(struct utf8_state *s, const unsigned char *block)
{
    for (size_t i = 0; i < SCAN_BLOCK; i += sizeof(bytes)) {
        utf8_step(s, load_bytes(block + i));
    }
}

/* The block before the first. */
SCAN_TARGET static inline void
utf8_before(struct utf8_state *s, const unsigned char *block)
{
    s->before = load_bytes(block + SCAN_BLOCK - sizeof(bytes));
}

SCAN_TARGET static inline uint64_t
utf8_fault(const struct utf8_state *s)
{
    uint64_t lanes[sizeof(bytes) / 8];
    uint64_t fault = 0;

    memcpy(lanes, &s->fault, sizeof(lanes));
    for (size_t i = 0; i < sizeof(lanes) / 8; i++) {
        fault |= lanes[i];
    }
    return fault;
}
