/*
 * Places in a word that no merge bridges, so that what is before and behind
 * them merges by itself. In Chinese a word is a whole run of text up to the next
 * punctuation mark, and most of its characters never merge with their
 * neighbour.
 *
 * The first merge that bridges the place between two characters has a token
 * before it that ends there and one behind it that begins there. So when a file
 * is read, its merges are gone through: where both tokens have the whole
 * character at that place, the two characters are noted; where one has only a
 * part of it, its byte at the place and the other's. What is in neither list is
 * a gap, by whichever merges, in whatever order.
 */

#include "node/tokenizer/tokenizer_internal.h"

static inline bool
continues(uint8_t byte)
{
    return (byte & 0xC0) == 0x80;
}

/* The whole character that bytes begin with, or 0: it is not one, or not all of
 * it is there. */
static inline uint32_t
char_first(const uint8_t *bytes, size_t len)
{
    uint8_t lead = bytes[0];
    size_t n = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    uint32_t c = 0;

    if (n == 3 && len >= 3 && continues(bytes[1]) && continues(bytes[2])) {
        return (uint32_t)lead << 16 | (uint32_t)bytes[1] << 8 | bytes[2];
    }
    if (continues(lead) || n > len) {
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && !continues(bytes[i])) {
            return 0;
        }
        c = c << 8 | bytes[i];
    }
    return c;
}

/* The same of the one that they end with. */
static inline uint32_t
char_last(const uint8_t *bytes, size_t len)
{
    size_t at = len - 1;

    while (at > 0 && len - at < 4 && continues(bytes[at])) {
        at--;
    }
    size_t n = len - at;
    uint32_t c = char_first(bytes + at, n);
    uint32_t least = n == 1 ? 0 : n == 2 ? 0xFF : n == 3 ? 0xFFFF : 0xFFFFFF;
    return c > least ? c : 0;
}

/* Its low bits are a place among the bridges, its high ones in the filter. */
static inline uint64_t
bridge_hash(uint64_t bridge)
{
    bridge *= UINT64_C(0x9e3779b97f4a7c15);
    return bridge ^ bridge >> 29;
}

static void
note_bridge(struct bpe_gaps *gaps, uint64_t bridge)
{
    uint64_t hash = bridge_hash(bridge);
    uint64_t at = hash & gaps->mask;

    gaps->filter[hash >> gaps->shift >> 6] |= UINT64_C(1)
                                              << (hash >> gaps->shift & 63);
    while (gaps->bridges[at] != 0 && gaps->bridges[at] != bridge) {
        at = (at + 1) & gaps->mask;
    }
    gaps->bridges[at] = bridge;
}

static inline bool
has_bridge(const struct bpe_gaps *gaps, uint64_t bridge)
{
    uint64_t hash = bridge_hash(bridge);
    uint64_t bit = hash >> gaps->shift;

    if ((gaps->filter[bit >> 6] >> (bit & 63) & 1) == 0) {
        return false;
    }
    uint64_t at = hash & gaps->mask;
    while (gaps->bridges[at] != 0) {
        if (gaps->bridges[at] == bridge) {
            return true;
        }
        at = (at + 1) & gaps->mask;
    }
    return false;
}

/* One merge. Returns whether it takes a place among the bridges. */
static bool
note_merge(struct bpe_gaps *gaps, struct slice left, struct slice right,
           bool set)
{
    const uint8_t *l = (const uint8_t *)left.ptr;
    const uint8_t *r = (const uint8_t *)right.ptr;

    if (left.len == 0 || right.len == 0 || continues(r[0])) {
        return false; /* within a character */
    }
    uint64_t before = char_last(l, left.len);
    uint64_t behind = char_first(r, right.len);
    if (before == 0 || behind == 0) {
        unsigned pair = (unsigned)l[left.len - 1] << 8 | r[0];
        gaps->parts[pair / 8] |= (uint8_t)(1U << pair % 8);
        return false;
    }
    if (before < 0x80 && behind < 0x80) {
        return false; /* no gap is looked for there */
    }
    if (set) {
        note_bridge(gaps, before << 32 | behind);
    }
    return true;
}

bool
bpe_find_gaps(struct tok_load *load, const struct slice *keys)
{
    struct bpe *bpe = &load->t->bpe;
    struct bpe_gaps *gaps = &bpe->gaps;
    uint64_t size = 64;
    size_t count = 0;

    for (int set = 0; set < 2; set++) {
        for (uint64_t i = 0; i <= bpe->merges_mask; i++) {
            const struct bpe_merge *merge = &bpe->merges[i];
            if (merge->right != TOK_NONE) {
                count += note_merge(gaps, keys[merge->left], keys[merge->right],
                                    set != 0);
            }
        }
        while (set == 0 && size < count * 2) {
            size *= 2;
        }
        if (set == 0) {
            gaps->mask = size - 1;
            /* At most one bit of eight is set. */
            gaps->shift = 62 - (unsigned)__builtin_ctzll(size);
            gaps->filter = tok_alloc_many(load, size / 16, 8);
            gaps->bridges = tok_alloc_many(load, size, sizeof gaps->bridges[0]);
            if (gaps->bridges == NULL || gaps->filter == NULL) {
                return false;
            }
        }
    }
    return true;
}

size_t
bpe_gap(const struct bpe *bpe, struct slice word, size_t from)
{
    const struct bpe_gaps *gaps = &bpe->gaps;
    const uint8_t *bytes = (const uint8_t *)word.ptr;
    uint64_t before = 0; /* the character that ends at `at` */

    for (size_t at = from, len = 0; at < word.len; at += len) {
        uint64_t behind = char_first(bytes + at, word.len - at);
        len = utf8_len(bytes[at]);
        if (before != 0 && behind != 0 && (before | behind) >= 0x80) {
            if (!bpe_parts(bpe, bytes[at - 1], bytes[at]) &&
                !has_bridge(gaps, before << 32 | behind)) {
                return at;
            }
        }
        before = behind;
    }
    return word.len;
}
