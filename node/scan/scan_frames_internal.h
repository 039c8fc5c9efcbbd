/*
 * What is outside strings: the grammar, and the tokens that the walk will
 * see. Part of each of the scanner's kernels: see scan_window_internal.h.
 */
#include <limits.h>

#include "node/scan/scan_block_internal.h"

/* The masks of the blocks that have anything outside strings. */
SCAN_TARGET static inline void
read_frames(struct scan_blocks *b)
{
    struct scan_window *w = &b->window;
    struct scan_frames *f = &w->frames;
    unsigned k = 0;

    for (uint64_t left = w->busy; left != 0; left &= left - 1, k++) {
        unsigned i = (unsigned)__builtin_ctzll(left);
        struct frame_masks m = frame_masks(block_of(b, i));
        f->block[k] = i;
        f->quote[k] = w->quote[i];
        f->in_string[k] = w->in_string[i];
        f->bit_2[k] = m.bit_2;
        f->bit_5[k] = m.bit_5;
        f->bit_6[k] = m.bit_6;
        f->space[k] = m.space;
    }
    f->count = k;
    CHECK_SLOW(k <= w->count);
}

/*
 * Tells { [, } ], commas, colons, white space and scalars apart; the set of
 * the frames that have scalars. Also finds arrays that are whole within a
 * block and have no brackets inside: closes minus opens leaves, for each, the
 * bits from its open to before its close. Where that is not all there is to
 * square brackets, they are tangled.
 */
SCAN_TARGET static inline uint64_t
sort_frames(struct scan_frames *f, struct scan_frame_carry *c)
{
    words scalar_end = all_lanes(c->in_scalar);
    uint64_t scalars = 0;
    uint64_t tangled = 0;

    for (unsigned k = 0; k < f->count; k += SCAN_LANES) {
        words quote = load_words(&f->quote[k]);
        words outside = ~(quote | load_words(&f->in_string[k]));
        words bit_2 = load_words(&f->bit_2[k]) & outside;
        words bit_5 = load_words(&f->bit_5[k]) & outside;
        words bracket = load_words(&f->bit_6[k]) & outside;
        words separator = bit_5 & ~bracket;
        words rest = outside & ~(bracket | separator);
        words space = rest & load_words(&f->space[k]);
        words scalar = rest ^ space;
        words in_scalar = next_lane(scalar_end, scalar >> 63);
        words starts = scalar & ~(scalar << 1 | in_scalar);
        words square = bracket & ~bit_5;
        words close = square & bit_2;
        words open = square ^ close;
        words arrays = (close - open) << 1;

        scalar_end = scalar >> 63;
        store_words(&f->open[k], bracket & ~bit_2);
        store_words(&f->close[k], bracket & bit_2);
        store_words(&f->brace[k], bracket & bit_5);
        store_words(&f->comma[k], separator & bit_2);
        store_words(&f->colon[k], separator & ~bit_2);
        store_words(&f->space[k], space);
        store_words(&f->scalar[k], scalar);
        store_words(&f->starts[k], starts);
        store_words(&f->tokens[k], quote | bracket | starts);
        store_words(&f->objects[k], ~arrays);
        scalars |= (uint64_t)lanes_set(scalar) << k;
        tangled |= (uint64_t)lanes_set(((bracket & arrays) ^ close) |
                                       (words)(open > close))
                   << k;
    }
    c->in_scalar = last_of(scalar_end, f->count);
    f->tangled = tangled;
    return scalars & UINT64_MAX >> (64 - f->count);
}

/* Whether the scalar at this offset is a literal or a number. */
SCAN_TARGET static inline bool
is_scalar(const struct scan_blocks *b, size_t at)
{
    CHECK_SLOW(at < b->end);
    return scan_scalar(b->body, at, b->end) != SCAN_NOT_SCALAR;
}

/*
 * Checks scalars that are not only digits: by words those without an exponent;
 * one by one the others, and the one that goes on in the next block. at: where
 * the block is; mine: the scalars that begin in it.
 */
SCAN_TARGET static inline uint64_t
odd_scalars_fault(const struct scan_blocks *b, const unsigned char *block,
                  size_t at, uint64_t mine, uint64_t starts)
{
    struct digit_masks m = digit_masks(block);
    uint64_t digits = mine & m.digit;
    uint64_t minus = starts & byte_mask(block, '-');
    uint64_t first = (starts ^ minus) | minus << 1;
    uint64_t whole_end = (digits + (first & digits)) & ~digits;
    uint64_t point = whole_end & mine & byte_mask(block, '.');
    uint64_t part = point << 1;
    uint64_t part_end;
    uint64_t odd;
    uint64_t fault = 0;

    part_end = (digits + (part & digits)) & ~digits;
    odd = ((first | part) & ~digits) | (first & m.zero & digits >> 1);
    odd |= ((whole_end ^ point) | part_end) & mine;
    odd |= mine >> 63 << 63;
    for (; odd != 0; odd &= odd - 1) {
        uint64_t run = starts & (odd ^ (odd - 1));
        fault |= !is_scalar(b, at + 63 - (size_t)__builtin_clzll(run));
    }
    return fault;
}

/*
 * The scalars of the frames of the set. Most are digits and nothing else;
 * those need no look one by one, nor when they go on in the next block.
 */
SCAN_TARGET static inline uint64_t
scalars_fault(struct scan_blocks *b, uint64_t set)
{
    struct scan_frames *f = &b->window.frames;
    uint64_t fault = 0;
    uint64_t plain = 0;

    for (; set != 0; set &= set - 1) {
        unsigned k = (unsigned)__builtin_ctzll(set);
        const unsigned char *block = block_of(b, f->block[k]);
        size_t at = b->window.at + (size_t)f->block[k] * SCAN_BLOCK;
        uint64_t scalar = f->scalar[k];
        uint64_t starts = f->starts[k];
        uint64_t mine = scalar & (0 - (starts & (0 - starts)));
        struct digit_masks m = digit_masks(block);
        uint64_t odd = scalar & ~m.digit;

        odd |= starts & m.zero & (mine >> 1 | UINT64_C(1) << 63);
        if (odd == 0) {
            plain |= UINT64_C(1) << k;
        } else {
            if ((odd & ~mine) != 0) {
                fault |= !is_scalar(b, b->frame.scalar_at);
            }
            fault |= odd_scalars_fault(b, block, at, mine, starts);
        }
        if (starts != 0) {
            b->frame.scalar_at = at + 63 - (size_t)__builtin_clzll(starts);
        }
    }
    f->plain = plain;
    return fault;
}

/* Whether a bracket of the block goes deeper than depth_max. */
SCAN_TARGET static inline bool
too_deep(int32_t depth, int32_t depth_max, uint64_t open, uint64_t close)
{
    CHECK_SLOW(depth_max <= SCAN_DEPTH_MAX);
    for (uint64_t left = open | close; left != 0; left &= left - 1) {
        depth += (open & left & (0 - left)) != 0 ? 1 : -1;
        if (depth > depth_max) {
            return true;
        }
    }
    return false;
}

/*
 * Visits the brackets one by one: the bytes whose innermost container is an
 * object. At a bracket that is the outer container.
 */
SCAN_TARGET static inline uint64_t
visit_brackets(const struct scan_frames *f, unsigned k, uint64_t *kinds)
{
    uint64_t open = f->open[k];
    uint64_t brace = f->brace[k];
    uint64_t objects = 0 - (*kinds >> 63);

    CHECK_SLOW(k < f->count);
    for (uint64_t left = open | f->close[k]; left != 0; left &= left - 1) {
        uint64_t bit = left & (0 - left);
        uint64_t inner = *kinds >> 1 | (uint64_t)((brace & bit) != 0) << 63;
        *kinds = (open & bit) != 0 ? inner : *kinds << 1;
        objects ^= (objects ^ (0 - (*kinds >> 63))) & ~(left ^ (left - 1));
    }
    return objects;
}

/*
 * Sets the bytes of frame k whose innermost container is an object. Mostly no
 * bracket needs a visit: arrays are not tangled, and curly brackets close only
 * what lies in objects.
 */
SCAN_TARGET static inline void
find_context(struct scan_frames *f, unsigned k, uint64_t *kinds, int opens,
             int closes)
{
    int objects = *kinds != UINT64_MAX ? __builtin_clzll(~*kinds) : 64;

    CHECK_SLOW(k < f->count && opens >= 0 && closes >= 0);
    if ((f->tangled >> k & 1) != 0 || closes >= objects) {
        f->objects[k] = visit_brackets(f, k, kinds);
        return;
    }
    /* As many innermost objects as are closed and opened: all ones. */
    *kinds = opens >= closes ? (uint64_t)((int64_t)*kinds >> (opens - closes))
                             : *kinds << (closes - opens);
}

/* The same for each frame, and the depths. */
SCAN_TARGET static inline uint64_t
contexts_fault(struct scan_blocks *b)
{
    struct scan_frames *f = &b->window.frames;
    struct scan_frame_carry *c = &b->frame;
    uint64_t fault = 0;

    for (unsigned k = 0; k < f->count; k++) {
        int opens = __builtin_popcountll(f->open[k]);
        int closes = __builtin_popcountll(f->close[k]);

        if (c->depth + opens <= 64) {
            find_context(f, k, &c->kinds, opens, closes);
        } else {
            f->objects[k] = scan_deep_objects(b, k);
        }
        if (c->depth + opens > b->depth_max) {
            fault |= too_deep(c->depth, b->depth_max, f->open[k], f->close[k]);
        }
        f->lowest[k] = c->depth - closes;
        c->depth += opens - closes;
        f->depth[k] = c->depth;
        if ((c->depth <= 0 && closes != 0) || c->depth > b->depth_max) {
            /* The end, or so deep that deep_kinds might not hold more. */
            f->count = k + 1;
            b->closed = true;
        }
    }
    return fault;
}

/*
 * The first bytes of the tokens that come next after tokens ending at ends.
 * *out: 1 in a lane whose next token comes in a later one.
 */
SCAN_TARGET static inline words
follow(words ends, words space, bool spaced, words *out)
{
    words before = *out;
    words shifted = ends >> 63;
    words in = next_lane(before, shifted);

    *out = shifted;
    if (!spaced) {
        return ends << 1 | in;
    }
    for (;;) {
        words sum = (ends << 1 | in) + space;
        words next;
        /* White space up to the end, and something before it? */
        *out = shifted | (space & ~sum) >> 63;
        next = next_lane(before, *out);
        if (lanes_set(next ^ in) == 0) {
            return sum & ~space;
        }
        in = next;
    }
}

/* The closing quotes of the strings that begin at starts. */
SCAN_TARGET static inline words
string_ends(words starts, words in_string, words *out)
{
    words before = *out;
    words in = next_lane(before, (words){0});
    words sum;
    words next;

    sum = (starts | in) + in_string;
    in = next_lane(before, (in_string & ~sum) >> 63);
    for (;;) {
        sum = (starts | in) + in_string;
        *out = (in_string & ~sum) >> 63;
        next = next_lane(before, *out);
        if (lanes_set(next ^ in) == 0) {
            return sum & ~in_string;
        }
        in = next;
    }
}

/* What a group of frames leaves to the next, as in struct scan_frame_carry. */
struct frame_words {
    words opened;
    words separated;
    words key;
    words keyed;
    words in_key;
};

/* Rules 1 to 6 of the essay, for the group that begins with frame k. */
SCAN_TARGET static inline words
group_fault(const struct scan_frames *f, unsigned k, struct frame_words *c)
{
    CHECK_SLOW(k < f->count);
    words in_string = load_words(&f->in_string[k]);
    words string = load_words(&f->quote[k]) & in_string;
    words open = load_words(&f->open[k]);
    words close = load_words(&f->close[k]);
    words comma = load_words(&f->comma[k]);
    words colon = load_words(&f->colon[k]);
    words brace = load_words(&f->brace[k]);
    words objects = load_words(&f->objects[k]);
    words space = load_words(&f->space[k]);
    bool spaced = lanes_set(space) != 0;
    words value = string | open | load_words(&f->starts[k]);
    words opened = follow(open, space, spaced, &c->opened);
    words separated = follow(comma | colon, space, spaced, &c->separated);
    words key =
        follow((open & brace) | (comma & objects), space, spaced, &c->key);
    words ends = string_ends(key & string, in_string, &c->in_key);
    words fault = value & ~(opened | separated);

    fault |= separated & ~value;
    fault |= opened & ~(value | close);
    fault |= key & ~(string | close);
    fault |= follow(ends, space, spaced, &c->keyed) ^ colon;
    return fault | (close & (brace ^ objects));
}

/* The grammar of all frames. */
SCAN_TARGET static inline uint64_t
grammar_fault(struct scan_blocks *b)
{
    const struct scan_frames *f = &b->window.frames;
    struct scan_frame_carry *c = &b->frame;
    struct frame_words w = {.opened = all_lanes(c->opened),
                            .separated = all_lanes(c->separated),
                            .key = all_lanes(c->key),
                            .keyed = all_lanes(c->keyed),
                            .in_key = all_lanes(c->in_key)};
    unsigned fault = 0;

    for (unsigned k = 0; k < f->count; k += SCAN_LANES) {
        unsigned left = f->count - k;
        unsigned lanes = left < SCAN_LANES ? (1U << left) - 1 : UINT_MAX;
        fault |= lanes_set(group_fault(f, k, &w)) & lanes;
    }
    c->opened = last_of(w.opened, f->count);
    c->separated = last_of(w.separated, f->count);
    c->key = last_of(w.key, f->count);
    c->keyed = last_of(w.keyed, f->count);
    c->in_key = last_of(w.in_key, f->count);
    return fault;
}

/* All steps, for a window whose strings are known; 0: no fault. */
SCAN_TARGET static inline uint64_t
frames_fault(struct scan_blocks *b)
{
    if (b->window.busy == 0) {
        return 0;
    }
    read_frames(b);
    uint64_t fault =
        scalars_fault(b, sort_frames(&b->window.frames, &b->frame));
    fault |= contexts_fault(b);
    return fault | grammar_fault(b);
}
