/*
 * Strings: where they are, and whether what is in them is good. Part of each
 * of the scanner's kernels: see scan_window_internal.h.
 */
#include "node/scan/scan_block_internal.h"

#define EVEN_BITS UINT64_C(0x5555555555555555)

/*
 * The bytes that a backslash escapes. In a run of backslashes every second
 * one is escaped, and the byte behind a run of odd length: those behind a
 * backslash at the other parity than the run's first. Adding the first bits of
 * the runs that start at even places flips all of those runs and the byte
 * behind, which tells them from the others. *out: 1 in a lane whose next byte
 * is escaped.
 */
SCAN_TARGET static inline words
escaped_bytes(words slash, words *out)
{
    words before = *out;
    words in = next_lane(before, (words){0});

    for (;;) {
        words run = slash & ~in;
        words behind = run << 1;
        words even = (run + (run & ~behind & EVEN_BITS)) ^ run;
        words escaped = (behind & (even ^ EVEN_BITS)) | in;
        words next;
        *out = (run & ~escaped) >> 63;
        next = next_lane(before, *out);
        if (lanes_set(next ^ in) == 0) {
            return escaped;
        }
        in = next;
    }
}

/* Bit i of a lane: the parity of its bits 0 to i. */
SCAN_TARGET static inline words
parity(words x)
{
    x ^= x << 1;
    x ^= x << 2;
    x ^= x << 4;
    x ^= x << 8;
    x ^= x << 16;
    return x ^ x << 32;
}

/* Strings, from the opening quote up to the closing one. */
SCAN_TARGET static inline words
strings_of(words quote, uint64_t *in_string)
{
    words odd = parity(quote);
    unsigned ends = lane_tops(odd);

    ends ^= ends << 1;
    ends ^= ends << 2;
    ends ^= ends << 4;
    ends = ends << 1 ^ (unsigned)*in_string;
    *in_string = 0 - (uint64_t)(ends >> SCAN_LANES & 1);
    return odd ^ fill_lanes(ends);
}

/*
 * Escapes that are more than one letter: those blocks in which a backslash is
 * before something else, and those that the digits of \u may reach into.
 */
SCAN_TARGET static inline uint64_t
escapes_fault(struct scan_blocks *b, uint64_t set)
{
    struct scan_window *w = &b->window;
    uint64_t hex = b->strings.hex;
    uint64_t fault = 0;

    CHECK_SLOW(w->count >= 1 && w->count <= SCAN_WINDOW);
    set |= set << 1 | (hex != 0);
    set &= UINT64_MAX >> (SCAN_WINDOW - w->count);
    for (; set != 0; set &= set - 1) {
        unsigned i = (unsigned)__builtin_ctzll(set);
        const unsigned char *block = block_of(b, i);
        uint64_t u = w->odd[i] & byte_mask(block, 'u');
        uint64_t digits = u << 1 | u << 2 | u << 3 | u << 4 | hex;

        fault |= (w->odd[i] ^ u) | (digits & ~hex_mask(block));
        hex = u >> 63 | u >> 62 | u >> 61 | u >> 60;
    }
    b->strings.hex = hex;
    return fault;
}

/*
 * UTF-8 (RFC 3629): continuation bytes are exactly where the lead bytes want
 * them, and behind a special one the first is in the range that it leaves.
 */
SCAN_TARGET static inline uint64_t
utf8_fault(struct scan_utf8_carry *c, const unsigned char *block)
{
    struct utf8_masks m = utf8_masks(block);
    uint64_t wanted = m.from_c0 << 1 | m.from_e0 << 2 | m.from_f0 << 3;
    uint64_t fault = (wanted | c->continuation) ^ m.continuation;

    c->continuation = m.from_c0 >> 63 | m.from_e0 >> 62 | m.from_f0 >> 61;
    if ((m.special | c->special) != 0) {
        struct special_masks s = special_masks(block);
        fault |= m.special & ~(s.e0 | s.ed | s.f0 | s.f4);
        fault |= (s.e0 << 1 | c->e0) & ~s.from_a0;
        fault |= (s.ed << 1 | c->ed) & s.from_a0;
        fault |= (s.f0 << 1 | c->f0) & ~s.from_90;
        fault |= (s.f4 << 1 | c->f4) & s.from_90;
        c->e0 = s.e0 >> 63;
        c->ed = s.ed >> 63;
        c->f0 = s.f0 >> 63;
        c->f4 = s.f4 >> 63;
        c->special = c->e0 | c->ed | c->f0 | c->f4;
    }
    return fault;
}

/* Of all blocks that have characters above 7F, or the end of one. */
SCAN_TARGET static inline uint64_t
characters_fault(struct scan_blocks *b)
{
    struct scan_utf8_carry c = b->utf8;
    uint64_t fault = 0;

    for (unsigned i = 0; i < b->window.count; i++) {
        const unsigned char *block = block_of(b, i);
        if ((high_mask(block) | c.continuation) != 0) {
            fault |= utf8_fault(&c, block);
        }
    }
    b->utf8 = c;
    return fault;
}

/* Control characters: outside strings they must be white space. */
SCAN_TARGET static inline uint64_t
controls_fault(const struct scan_blocks *b)
{
    const struct scan_window *w = &b->window;
    uint64_t fault = 0;

    for (unsigned i = 0; i < w->count; i++) {
        const unsigned char *block = block_of(b, i);
        fault |= control_mask(block) & (w->in_string[i] | ~space_mask(block));
    }
    return fault;
}

/*
 * Whether the string that is open at the end of the window has had a
 * backslash: behind the last quote, or, when there is none, anywhere.
 */
SCAN_TARGET static inline uint64_t
slashed_after(const struct scan_window *w)
{
    uint64_t slashed = 0;

    CHECK_SLOW(w->count >= 1);
    for (unsigned i = w->count; i-- > 0;) {
        if (w->quote[i] != 0) {
            int last = __builtin_clzll(w->quote[i]);
            return slashed | (w->slash[i] & ~(UINT64_MAX >> last));
        }
        slashed |= w->slash[i];
    }
    return slashed | w->carried;
}

/*
 * The masks of all blocks, and none for those that fill up the last group.
 * All of them before any is used: a vector that was just stored word by word
 * is slow to load.
 */
SCAN_TARGET static inline struct text_sum
read_text(struct scan_blocks *b)
{
    struct scan_window *w = &b->window;
    struct text_sum sum = text_none();

    for (unsigned i = 0; i < w->count; i++) {
        struct text_masks m = text_masks(block_of(b, i), &sum);
        w->quote[i] = m.quote;
        w->slash[i] = m.slash;
        w->odd[i] = m.escapable;
    }
    store_words(&w->quote[w->count], (words){0});
    store_words(&w->slash[w->count], (words){0});
    return sum;
}

/*
 * Finds the strings, and the blocks that have anything outside them. No
 * branches here that a processor would often guess wrong. *odd: the blocks
 * with a backslash before something other than a letter.
 */
SCAN_TARGET static inline void
find_strings(struct scan_blocks *b, uint64_t *odd)
{
    struct scan_window *w = &b->window;
    struct scan_string_carry *c = &b->strings;
    CHECK_SLOW(w->count >= 1 && w->count <= SCAN_WINDOW);
    words escape = all_lanes(c->escape);
    uint64_t in_string = c->in_string;
    uint64_t busy = 0;
    uint64_t slashed = 0;
    unsigned last = w->count - 1;

    *odd = 0;
    for (unsigned i = 0; i < w->count; i += SCAN_LANES) {
        words slash = load_words(&w->slash[i]);
        words escaped = escaped_bytes(slash, &escape);
        words wrong = escaped & ~load_words(&w->odd[i]);
        words quote = load_words(&w->quote[i]) & ~escaped;
        words strings = strings_of(quote, &in_string);

        store_words(&w->odd[i], wrong);
        store_words(&w->quote[i], quote);
        store_words(&w->in_string[i], strings);
        *odd |= (uint64_t)lanes_set(wrong) << i;
        busy |= (uint64_t)lanes_set(quote | ~strings) << i;
        slashed |= (uint64_t)lanes_set(slash | escaped) << i;
    }
    *odd &= UINT64_MAX >> (63 - last);
    w->busy = busy & UINT64_MAX >> (63 - last);
    w->slashed = slashed;
    w->carried = c->slashed;
    c->slashed = in_string != 0 ? slashed_after(w) : 0;
    c->in_string = in_string;
    c->escape = last_of(escape, w->count);
}

/* What is in strings is looked at again only if there is anything to see. */
SCAN_TARGET static inline uint64_t
strings_fault(struct scan_blocks *b)
{
    struct text_sum sum = read_text(b);
    uint64_t odd;
    uint64_t fault = 0;

    find_strings(b, &odd);
    if ((odd | b->strings.hex) != 0) {
        fault |= escapes_fault(b, odd);
    }
    if (text_has_control(sum)) {
        fault |= controls_fault(b);
    }
    if (text_has_high(sum) || b->utf8.continuation != 0) {
        fault |= characters_fault(b);
    }
    return fault;
}
