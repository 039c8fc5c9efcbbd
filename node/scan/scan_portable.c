/*
 * The scanner's kernel for any processor: a byte at a time from a table.
 * Also what the others are tested against.
 */
#include "node/scan/scan_block_internal.h"
#include "node/scan/scan_masks_internal.h"

#define SCAN_TARGET
#define SCAN_LANES 1

#include "node/scan/scan_words_internal.h"

/* Classes of bytes; a mask is made by collecting one class. */
enum {
    QUOTE = 1U << 0,
    SLASH = 1U << 1,
    CONTROL = 1U << 2,
    FRAME = 1U << 3,
    SPACE = 1U << 8,
    ESCAPE = 1U << 9,
    DIGIT = 1U << 10,
    HEX = 1U << 11,
};

static const uint16_t classes[256] = {
    [0 ... 8] = CONTROL,
    ['\t'] = CONTROL | SPACE,
    ['\n'] = CONTROL | SPACE,
    [11 ... 12] = CONTROL,
    ['\r'] = CONTROL | SPACE,
    [14 ... 31] = CONTROL,
    [' '] = SPACE,
    ['"'] = QUOTE | ESCAPE,
    [','] = FRAME,
    ['/'] = ESCAPE,
    ['0' ... '9'] = DIGIT | HEX,
    [':'] = FRAME,
    ['A' ... 'F'] = HEX,
    ['['] = FRAME,
    ['\\'] = SLASH | ESCAPE,
    [']'] = FRAME,
    ['a'] = HEX,
    ['b'] = HEX | ESCAPE,
    ['c' ... 'e'] = HEX,
    ['f'] = HEX | ESCAPE,
    ['n'] = ESCAPE,
    ['r'] = ESCAPE,
    ['t'] = ESCAPE,
    ['{'] = FRAME,
    ['}'] = FRAME,
};

static inline uint64_t
mask_of(const unsigned char *block, unsigned class)
{
    uint64_t mask = 0;

    for (unsigned i = 0; i < SCAN_BLOCK; i++) {
        mask |= (uint64_t)((classes[block[i]] & class) != 0) << i;
    }
    return mask;
}

/* The bytes from low to high, both included. */
static inline uint64_t
range_of(const unsigned char *block, unsigned low, unsigned high)
{
    uint64_t mask = 0;

    for (unsigned i = 0; i < SCAN_BLOCK; i++) {
        mask |= (uint64_t)(block[i] >= low && block[i] <= high) << i;
    }
    return mask;
}

/* The classes of a window's bytes. */
struct text_sum {
    bool control;
    bool high;
};

static inline struct text_sum
text_none(void)
{
    return (struct text_sum){.control = false};
}

static inline uint64_t
control_mask(const unsigned char *block)
{
    return mask_of(block, CONTROL);
}

static inline uint64_t
high_mask(const unsigned char *block)
{
    return range_of(block, 0x80, 0xFF);
}

static inline struct text_masks
text_masks(const unsigned char *block, struct text_sum *sum)
{
    sum->control |= control_mask(block) != 0;
    sum->high |= high_mask(block) != 0;
    return (struct text_masks){
        .quote = mask_of(block, QUOTE),
        .slash = mask_of(block, SLASH),
    };
}

static inline bool
text_has_control(struct text_sum sum)
{
    return sum.control;
}

static inline bool
text_has_high(struct text_sum sum)
{
    return sum.high;
}

static inline uint64_t
space_mask(const unsigned char *block)
{
    return mask_of(block, SPACE);
}

static inline struct frame_masks
frame_masks(const unsigned char *block)
{
    struct frame_masks m = {.space = space_mask(block)};

    for (unsigned i = 0; i < SCAN_BLOCK; i++) {
        unsigned c = (classes[block[i]] & FRAME) != 0 ? block[i] : 0;
        m.bit_2 |= (uint64_t)(c >> 2 & 1) << i;
        m.bit_5 |= (uint64_t)(c >> 5 & 1) << i;
        m.bit_6 |= (uint64_t)(c >> 6 & 1) << i;
    }
    return m;
}

static inline uint64_t
byte_mask(const unsigned char *block, char c)
{
    return range_of(block, (unsigned char)c, (unsigned char)c);
}

static inline struct escape_masks
escape_masks(const unsigned char *block)
{
    return (struct escape_masks){
        .letter = mask_of(block, ESCAPE),
        .u = byte_mask(block, 'u'),
        .hex = mask_of(block, HEX),
    };
}

static inline struct digit_masks
digit_masks(const unsigned char *block)
{
    return (struct digit_masks){
        .digit = mask_of(block, DIGIT),
        .zero = range_of(block, '0', '0'),
    };
}

static inline struct utf8_masks
utf8_masks(const unsigned char *block)
{
    return (struct utf8_masks){
        .continuation = range_of(block, 0x80, 0xBF),
        .from_c0 = range_of(block, 0xC0, 0xFF),
        .from_e0 = range_of(block, 0xE0, 0xFF),
        .from_f0 = range_of(block, 0xF0, 0xFF),
        .special = range_of(block, 0xC0, 0xC1) | range_of(block, 0xE0, 0xE0) |
                   range_of(block, 0xED, 0xED) | range_of(block, 0xF0, 0xF0) |
                   range_of(block, 0xF4, 0xFF),
    };
}

static inline struct special_masks
special_masks(const unsigned char *block)
{
    return (struct special_masks){
        .from_90 = range_of(block, 0x90, 0xFF),
        .from_a0 = range_of(block, 0xA0, 0xFF),
        .e0 = range_of(block, 0xE0, 0xE0),
        .ed = range_of(block, 0xED, 0xED),
        .f0 = range_of(block, 0xF0, 0xF0),
        .f4 = range_of(block, 0xF4, 0xF4),
    };
}

static inline unsigned
lane_tops(words x)
{
    return (unsigned)(x[0] >> 63);
}

static inline unsigned
lanes_set(words x)
{
    return x[0] != 0;
}

static inline words
fill_lanes(unsigned bits)
{
    return (words){0 - (uint64_t)(bits & 1)};
}

#include "node/scan/scan_utf8_masks_internal.h"
#include "node/scan/scan_window_internal.h"

static bool
usable(void)
{
    return true;
}

const struct scan_kernel scan_kernel_portable = {
    .name = "portable",
    .usable = usable,
    .read = read_window,
};
