/*
 * Strings: where they are, and whether what is in them is good. Part of each
 * of the scanner's kernels: see scan_window_internal.h.
 */
#include "node/scan/scan_block_internal.h"

#define EVEN_BITS UINT64_C(0x5555555555555555)

/*
 * The same where a backslash escapes another. In a run of backslashes every
 * second one is escaped, and the byte behind a run of odd length: those behind
 * a backslash at the other parity than the run's first. Adding the first bits
 * of the runs that start at even places flips all of those runs and the byte
 * behind, which tells them from the others.
 */
SCAN_TARGET static inline words
escaped_in_runs(words slash, words before, words *out)
{
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

/*
 * The bytes that a backslash escapes: each one behind a backslash, unless one
 * of them is a backslash. *out: 1 in a lane whose next byte is escaped.
 */
SCAN_TARGET static inline words
escaped_bytes(words slash, words *out)
{
    words before = *out;
    words last = slash >> 63;
    words escaped = slash << 1 | next_lane(before, last);

    if (UNLIKELY(lanes_set(escaped & slash) != 0)) {
        return escaped_in_runs(slash, before, out);
    }
    *out = last;
    return escaped;
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
 * Escapes, in the blocks that have any: a letter follows the backslash, or u
 * and four digits, which may reach into the next block.
 */
SCAN_TARGET static inline uint64_t
escapes_fault(struct scan_blocks *b)
{
    const struct scan_window *w = &b->window;
    uint64_t blocks = UINT64_MAX >> (SCAN_WINDOW - w->count);
    uint64_t hex = b->strings.hex;
    uint64_t set = w->slashed | (hex != 0);
    uint64_t fault = 0;

    CHECK_SLOW(w->count >= 1 && w->count <= SCAN_WINDOW);
    for (; (set & blocks) != 0; set &= set - 1) {
        unsigned i = (unsigned)__builtin_ctzll(set);
        struct escape_masks m = escape_masks(block_of(b, i));
        uint64_t odd = w->escaped[i] & ~m.letter;
        if ((odd | hex) != 0) {
            uint64_t u = odd & m.u;
            uint64_t two = u | u << 1;
            uint64_t last = u >> 60 | u >> 61;
            uint64_t digits = two << 1 | two << 3 | hex;
            fault |= (odd ^ u) | (digits & ~m.hex);
            hex = last | last >> 2;
            if ((set >> i & 2) == 0 && hex != 0) {
                set |= UINT64_C(2) << i;
            }
        }
    }
    b->strings.hex = hex;
    return fault;
}

/*
 * UTF-8, in the blocks that have characters above 7F and in those that come
 * next. The block before the window is where it was; before the first window
 * no character is torn.
 */
SCAN_TARGET static inline uint64_t
characters_fault(const struct scan_blocks *b)
{
    const struct scan_window *w = &b->window;
    struct utf8_state state = utf8_none();
    uint64_t before = 0;

    if (w->at >= SCAN_BLOCK) {
        const char *last = b->body + w->at - SCAN_BLOCK;
        before = high_mask((const unsigned char *)last);
        utf8_before(&state, (const unsigned char *)last);
    }
    for (unsigned i = 0; i < w->count; i++) {
        const unsigned char *block = block_of(b, i);
        uint64_t high = high_mask(block);
        if ((high | before) != 0) {
            utf8_next(&state, block);
        }
        before = high;
    }
    return utf8_fault(&state);
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
    }
    store_words(&w->quote[w->count], (words){0});
    store_words(&w->slash[w->count], (words){0});
    return sum;
}

/*
 * Finds the strings, and the blocks that have anything outside them. No
 * branches here that a processor would often guess wrong.
 */
SCAN_TARGET static inline void
find_strings(struct scan_blocks *b)
{
    struct scan_window *w = &b->window;
    struct scan_string_carry *c = &b->strings;
    CHECK_SLOW(w->count >= 1 && w->count <= SCAN_WINDOW);
    words escape = all_lanes(c->escape);
    uint64_t in_string = c->in_string;
    uint64_t busy = 0;
    uint64_t slashed = 0;

    for (unsigned i = 0; i < w->count; i += SCAN_LANES) {
        words slash = load_words(&w->slash[i]);
        words escaped = escaped_bytes(slash, &escape);
        words quote = load_words(&w->quote[i]) & ~escaped;
        words strings = strings_of(quote, &in_string);

        store_words(&w->escaped[i], escaped);
        store_words(&w->quote[i], quote);
        store_words(&w->in_string[i], strings);
        busy |= (uint64_t)lanes_set(quote | ~strings) << i;
        slashed |= (uint64_t)lanes_set(slash | escaped) << i;
    }
    w->busy = busy & UINT64_MAX >> (SCAN_WINDOW - w->count);
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

    find_strings(b);
    uint64_t fault = escapes_fault(b);
    if (text_has_control(sum)) {
        fault |= controls_fault(b);
    }
    if (text_has_high(sum) ||
        (b->window.at != 0 && (b->body[b->window.at - 1] & 0x80) != 0)) {
        fault |= characters_fault(b);
    }
    return fault;
}
