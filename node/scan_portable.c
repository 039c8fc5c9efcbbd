/*
 * The scanner's kernel for any processor: a byte at a time from a table.
 * Also what the others are tested against.
 */
#include "node/scan_block.h"
#include "node/scan_masks.h"

#define SCAN_TARGET

/* Classes of bytes; a mask is made by collecting one class. */
enum {
    QUOTE = 1U << 0,
    SLASH = 1U << 1,
    CONTROL = 1U << 2,
    OPEN = 1U << 3,
    CLOSE = 1U << 4,
    BRACE = 1U << 5,
    COMMA = 1U << 6,
    COLON = 1U << 7,
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
    [','] = COMMA,
    ['/'] = ESCAPE,
    ['0' ... '9'] = DIGIT | HEX,
    [':'] = COLON,
    ['A' ... 'F'] = HEX,
    ['['] = OPEN,
    ['\\'] = SLASH | ESCAPE,
    [']'] = CLOSE,
    ['a'] = HEX,
    ['b'] = HEX | ESCAPE,
    ['c' ... 'e'] = HEX,
    ['f'] = HEX | ESCAPE,
    ['n'] = ESCAPE,
    ['r'] = ESCAPE,
    ['t' ... 'u'] = ESCAPE,
    ['{'] = OPEN | BRACE,
    ['}'] = CLOSE | BRACE,
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

static inline struct text_masks
text_masks(const unsigned char *block)
{
    return (struct text_masks){
        .quote = mask_of(block, QUOTE),
        .slash = mask_of(block, SLASH),
        .control = mask_of(block, CONTROL),
        .high = range_of(block, 0x80, 0xFF),
    };
}

static inline struct frame_masks
frame_masks(const unsigned char *block)
{
    return (struct frame_masks){
        .open = mask_of(block, OPEN),
        .close = mask_of(block, CLOSE),
        .brace = mask_of(block, BRACE),
        .comma = mask_of(block, COMMA),
        .colon = mask_of(block, COLON),
        .space = mask_of(block, SPACE),
    };
}

static inline struct escape_masks
escape_masks(const unsigned char *block)
{
    return (struct escape_masks){
        .allowed = mask_of(block, ESCAPE),
        .u = range_of(block, 'u', 'u'),
    };
}

static inline uint64_t
hex_mask(const unsigned char *block)
{
    return mask_of(block, HEX);
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
        .from_90 = range_of(block, 0x90, 0xFF),
        .from_a0 = range_of(block, 0xA0, 0xFF),
        .from_c0 = range_of(block, 0xC0, 0xFF),
        .from_e0 = range_of(block, 0xE0, 0xFF),
        .from_f0 = range_of(block, 0xF0, 0xFF),
        .never = range_of(block, 0xC0, 0xC1) | range_of(block, 0xF5, 0xFF),
        .e0 = range_of(block, 0xE0, 0xE0),
        .ed = range_of(block, 0xED, 0xED),
        .f0 = range_of(block, 0xF0, 0xF0),
        .f4 = range_of(block, 0xF4, 0xF4),
    };
}

static inline uint64_t
parity(uint64_t word)
{
    for (unsigned shift = 1; shift < 64; shift *= 2) {
        word ^= word << shift;
    }
    return word;
}

#include "node/scan_advance.h"

static bool
usable(void)
{
    return true;
}

const struct scan_kernel scan_kernel_portable = {
    .name = "portable",
    .usable = usable,
    .advance = advance,
};
