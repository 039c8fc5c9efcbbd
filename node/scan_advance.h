/*
 * The heart of the scanner: from the masks of a block to its verdict and its
 * tokens. Included once by each kernel (scan_portable.c, scan_sse2.c, ...),
 * which defines SCAN_TARGET and the mask functions named below; what follows
 * is the same for all.
 *
 * The algorithm. Finding strings by arithmetic on quote masks is Langdale and
 * Lemire's ("Parsing gigabytes of JSON per second", VLDB Journal 2019), and
 * so is the idea of one word per 64 bytes; runs passed by the carry of an
 * addition are Cameron's (Parabix). Where simdjson goes on to walk every
 * token with a state machine, here the grammar itself is decided on words:
 *
 *   Let follow(M) be the first bytes of the tokens that come next after the
 *   tokens ending at M: M shifted by one, then carried over white space by an
 *   addition. With the context of each byte (is the innermost container an
 *   object?), a text with matching brackets is JSON exactly when
 *
 *     1. values begin only at follow(open) and follow(comma, colon);
 *     2. what follows a comma or colon is a value;
 *     3. what follows an open bracket is a value or a close bracket;
 *     4. what follows { or a comma in an object is a string, the key (or, as 3
 *        allows, a close bracket);
 *     5. the colons are exactly what follows the keys' closing quotes;
 *     6. each close bracket is of the kind of its container.
 *
 *   Rules 1 and 2 also say that after a value comes no value: what is not a
 *   value there can only be a comma, a close bracket or, by 5, a colon after a
 *   key. Each rule is a handful of instructions for 64 bytes, without a
 *   branch. Only brackets are visited one by one, to know the contexts.
 *
 * Strings: control characters, escapes, the four digits of \u, and UTF-8 are
 * checked the same way, when a block has any. Numbers made of digits only are
 * checked as words; other scalars one by one.
 *
 * So what nobody asks about (tool schemas, response formats) costs no walk,
 * and text costs little more than reading it.
 */
#include <string.h>

#include "node/scan_block.h"

/*
 * The kernel defines, all `SCAN_TARGET static inline`:
 *
 *   struct text_masks text_masks(const unsigned char *block)
 *   struct frame_masks frame_masks(const unsigned char *block)
 *   struct escape_masks escape_masks(const unsigned char *block)
 *   struct digit_masks digit_masks(const unsigned char *block)
 *   struct utf8_masks utf8_masks(const unsigned char *block)
 *   uint64_t hex_mask(const unsigned char *block)
 *   uint64_t parity(uint64_t word): bit i is the parity of bits 0..i
 *
 * The structs are in scan_masks.h.
 */

#define EVEN_BITS UINT64_C(0x5555555555555555)

/* Sum and carry of a + b; bits of *carry: 1 when it overflowed. */
SCAN_TARGET static inline uint64_t
add_carry(uint64_t a, uint64_t b, uint64_t *carry)
{
    uint64_t sum = a + b;

    *carry = sum < a;
    return sum;
}

/* The first bytes of the tokens that come next after tokens ending at ends. */
SCAN_TARGET static inline uint64_t
follow(uint64_t ends, uint64_t space, uint64_t *carry)
{
    uint64_t overflow;
    uint64_t sum = add_carry(ends << 1 | *carry, space, &overflow);

    *carry = ends >> 63 | overflow;
    return sum & ~space;
}

/*
 * The bytes that a backslash escapes and that end their run of backslashes;
 * checks that they may be escaped, and the digits after \u.
 */
SCAN_TARGET static inline uint64_t
escapes(struct scan_blocks *b, const unsigned char *block, uint64_t slash,
        uint64_t *fault)
{
    uint64_t first = b->escape, overflow, ignored;
    uint64_t run = slash & ~first;
    uint64_t start = run & ~(run << 1);
    uint64_t after_even = add_carry(run, start & EVEN_BITS, &ignored) & ~run;
    uint64_t after_odd = add_carry(run, start & ~EVEN_BITS, &overflow) & ~run;
    uint64_t escaped =
        (after_even & ~EVEN_BITS) | (after_odd & EVEN_BITS) | first;
    struct escape_masks m = escape_masks(block);
    uint64_t u = m.u & escaped;
    uint64_t digits = u << 1 | u << 2 | u << 3 | u << 4 | b->hex;

    *fault |= escaped & ~m.allowed;
    if (digits != 0) {
        *fault |= digits & ~hex_mask(block);
    }
    b->escape = overflow;
    b->hex = u >> 63 | u >> 62 | u >> 61 | u >> 60;
    return escaped;
}

/*
 * UTF-8 (RFC 3629): continuation bytes are exactly where the lead bytes want
 * them, and the first one is in the range that its lead byte leaves.
 */
SCAN_TARGET static inline uint64_t
utf8_fault(struct scan_blocks *b, const unsigned char *block)
{
    struct utf8_masks m = utf8_masks(block);
    uint64_t wanted = m.from_c0 << 1 | m.from_e0 << 2 | m.from_f0 << 3;
    uint64_t fault = ((wanted | b->continuation) ^ m.continuation) | m.never;

    fault |= (m.e0 << 1 | b->after_e0) & ~m.from_a0;
    fault |= (m.ed << 1 | b->after_ed) & m.from_a0;
    fault |= (m.f0 << 1 | b->after_f0) & ~m.from_90;
    fault |= (m.f4 << 1 | b->after_f4) & m.from_90;
    b->continuation = m.from_c0 >> 63 | m.from_e0 >> 62 | m.from_f0 >> 61;
    b->after_e0 = m.e0 >> 63;
    b->after_ed = m.ed >> 63;
    b->after_f0 = m.f0 >> 63;
    b->after_f4 = m.f4 >> 63;
    return fault;
}

/* Visits the brackets: the bytes whose innermost container is an object. */
SCAN_TARGET static inline uint64_t
contexts(struct scan_blocks *b, const struct frame_masks *m, int32_t *lowest,
         uint64_t *fault)
{
    uint8_t *kinds = b->kinds + SCAN_KINDS_BELOW;
    int32_t depth = b->depth, deepest = depth;
    uint64_t objects = 0 - (uint64_t)kinds[depth];

    for (uint64_t left = m->open | m->close; left != 0; left &= left - 1) {
        uint64_t bit = left & (0 - left);
        uint64_t through = left ^ (left - 1);

        /* Above the top nobody looks: no harm when this one closes. */
        kinds[depth + 1] = (m->brace & bit) != 0;
        depth += (m->open & bit) != 0 ? 1 : -1;
        uint64_t kind = 0 - (uint64_t)kinds[depth];
        objects = (objects & through) | (kind & ~through);
        *lowest = depth < *lowest ? depth : *lowest;
        deepest = depth > deepest ? depth : deepest;
    }
    b->depth = depth;
    *fault |= deepest > b->depth_max;
    return objects;
}

/* Checks the scalars that start in this block; which of them are plain. */
SCAN_TARGET static inline uint64_t
scalars(struct scan_blocks *b, const unsigned char *block, uint64_t scalar,
        uint64_t *fault)
{
    uint64_t starts = scalar & ~(scalar << 1 | b->in_scalar);
    uint64_t carried = b->in_scalar != 0 ? scalar & ~(scalar + 1) : 0;
    uint64_t mine = scalar & ~carried;
    struct digit_masks m = digit_masks(block);
    uint64_t leading_zero = starts & m.zero & mine >> 1;

    if (((mine & ~m.digit) | leading_zero | mine >> 63) == 0) {
        return starts;
    }
    uint64_t plain = 0;
    for (uint64_t left = starts; left != 0; left &= left - 1) {
        size_t at = b->at + (size_t)__builtin_ctzll(left);
        enum scan_scalar kind = scan_scalar(b->body, at, b->end);
        *fault |= kind == SCAN_NOT_SCALAR;
        plain |= kind == SCAN_PLAIN ? left & (0 - left) : 0;
    }
    return plain;
}

/* Rules 1 to 6 of the essay; sets the masks that the walk uses. */
SCAN_TARGET static inline uint64_t
frame_fault(struct scan_blocks *b, const unsigned char *block, uint64_t quote,
            uint64_t in_string, int32_t *lowest)
{
    struct frame_masks m = frame_masks(block);
    uint64_t outside = ~(in_string | quote), fault = 0, in_key;

    m.open &= outside;
    m.close &= outside;
    m.comma &= outside;
    m.colon &= outside;
    m.space &= outside;
    uint64_t objects = contexts(b, &m, lowest, &fault);
    uint64_t scalar =
        outside & ~(m.open | m.close | m.comma | m.colon | m.space);
    uint64_t starts = scalar & ~(scalar << 1 | b->in_scalar);
    b->plain = scalar != 0 ? scalars(b, block, scalar, &fault) : 0;
    b->in_scalar = scalar >> 63;

    uint64_t string = quote & in_string;
    uint64_t value = string | starts | m.open;
    uint64_t opened = follow(m.open, m.space, &b->after_open);
    uint64_t separated =
        follow(m.comma | m.colon, m.space, &b->after_separator);
    uint64_t key = follow((m.open & m.brace) | (m.comma & objects), m.space,
                          &b->before_key);
    uint64_t key_end =
        add_carry((key & string) | b->in_key, in_string, &in_key) & ~in_string;
    b->in_key = in_key;
    uint64_t keyed = follow(key_end, m.space, &b->before_colon);

    fault |= value & ~(opened | separated);
    fault |= separated & ~value;
    fault |= opened & ~(value | m.close);
    fault |= key & ~(string | m.close);
    fault |= keyed ^ m.colon;
    fault |= m.close & (m.brace ^ objects);
    b->opens = m.open;
    b->closes = m.close;
    b->tokens = quote | starts | m.open | m.close;
    return fault;
}

/* See struct scan_kernel. */
SCAN_TARGET static bool
advance(struct scan_blocks *b, int32_t depth)
{
    b->tokens = 0;
    while (b->ok && b->next < b->end) {
        const unsigned char *block =
            b->end - b->next >= SCAN_BLOCK
                ? (const unsigned char *)b->body + b->next
                : scan_blocks_tail(b);
        struct text_masks m = text_masks(block);
        uint64_t pending = b->escape | b->hex | b->continuation;

        b->at = b->next;
        b->next += SCAN_BLOCK;
        if (b->in_string != 0 &&
            (m.quote | m.slash | m.control | m.high | pending) == 0) {
            continue;
        }
        uint64_t fault = 0, quote = m.quote;
        b->slashes = m.slash;
        b->slash_before = b->slash_through;
        if ((m.slash | b->escape | b->hex) != 0) {
            quote &= ~escapes(b, block, m.slash, &fault);
            if (m.slash != 0) {
                b->slash_through =
                    b->at + 64 - (size_t)__builtin_clzll(m.slash);
            }
        }
        if ((m.high | b->continuation) != 0) {
            fault |= utf8_fault(b, block);
        }
        uint64_t in_string = parity(quote) ^ b->in_string;
        b->in_string = 0 - (in_string >> 63);
        fault |= m.control & in_string;
        int32_t lowest = SCAN_ANY_DEPTH;
        if (quote != 0 || in_string == 0) {
            fault |= frame_fault(b, block, quote, in_string, &lowest);
        }
        b->ok = fault == 0;
        if (b->tokens != 0 && lowest <= depth && b->ok) {
            return true;
        }
        b->tokens = 0;
    }
    return false;
}
