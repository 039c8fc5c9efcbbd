/*
 * The precompiled map of SentencePiece: a double array (Darts) from characters
 * to texts. The library looks a whole grapheme up first when it has less than
 * six bytes, and takes the shortest prefix that it finds for all of it; then
 * each character by itself. Odd, but so are the models' ids.
 */
#include <string.h>
#include <utf8proc.h>

#include "node/tokenizer/tokenizer_internal.h"

#define GRAPHEME_MAX 5 /* bytes of one that is looked up whole */

static int
sextet(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

size_t
tok_base64(struct slice text, char *out)
{
    uint32_t bits = 0;
    unsigned held = 0;
    size_t len = 0;

    while (text.len > 0 && text.ptr[text.len - 1] == '=') {
        text.len--;
    }
    for (size_t i = 0; i < text.len; i++) {
        int six = sextet(text.ptr[i]);
        if (six < 0) {
            return SIZE_MAX;
        }
        bits = bits << 6 | (uint32_t)six;
        held += 6;
        if (held >= 8) {
            held -= 8;
            out[len++] = (char)(bits >> held & 0xff);
        }
    }
    return len;
}

bool
norm_charsmap_load(struct tok_load *load, struct slice base64,
                   struct norm_stage *stage)
{
    char *bytes = tok_alloc(load, base64.len + 4);
    size_t len = bytes != NULL ? tok_base64(base64, bytes) : SIZE_MAX;
    uint32_t trie_bytes = 0;

    if (len == SIZE_MAX || len < 4) {
        return tok_fail(load, "normalizer: a charsmap that is no base64");
    }
    memcpy(&trie_bytes, bytes, 4);
    if (trie_bytes > len - 4 || trie_bytes % 4 != 0 || trie_bytes == 0) {
        return tok_fail(load, "normalizer: a charsmap with a broken trie");
    }
    stage->trie = (const uint32_t *)(const void *)(bytes + 4);
    stage->trie_count = trie_bytes / 4;
    stage->mapped = (struct slice){.ptr = bytes + 4 + trie_bytes,
                                   .len = len - 4 - trie_bytes};
    return true;
}

static uint32_t
unit_offset(uint32_t unit)
{
    return unit >> 10 << ((unit & (1U << 9)) >> 6);
}

/* The text that the shortest known prefix of the key becomes. */
static bool
transform(const struct norm_stage *stage, struct slice key, struct slice *to)
{
    size_t at = unit_offset(stage->trie[0]);

    for (size_t i = 0; i < key.len && key.ptr[i] != '\0'; i++) {
        uint32_t label = (uint8_t)key.ptr[i];
        at ^= label;
        if (at >= stage->trie_count) {
            return false;
        }
        uint32_t unit = stage->trie[at];
        if ((unit & ((1U << 31) | 0xff)) != label) {
            return false;
        }
        at ^= unit_offset(unit);
        if (at >= stage->trie_count) {
            return false;
        }
        if ((unit >> 8 & 1) != 0) {
            size_t index = stage->trie[at] & ((1U << 31) - 1);
            if (index >= stage->mapped.len) {
                return false;
            }
            const char *text = stage->mapped.ptr + index;
            const char *end = memchr(text, '\0', stage->mapped.len - index);
            *to =
                (struct slice){.ptr = text,
                               .len = end != NULL ? (size_t)(end - text)
                                                  : stage->mapped.len - index};
            return true;
        }
    }
    return false;
}

static size_t
grapheme_len(struct slice text)
{
    utf8proc_int32_t state = 0;
    size_t len = utf8_len((uint8_t)text.ptr[0]);
    uint32_t last = utf8_read(text.ptr);

    while (len < text.len) {
        uint32_t next = utf8_read(text.ptr + len);
        bool both_ascii = last < 0x80 && next < 0x80;
        if (both_ascii
                ? !(last == '\r' && next == '\n')
                : utf8proc_grapheme_break_stateful(
                      (utf8proc_int32_t)last, (utf8proc_int32_t)next, &state)) {
            break;
        }
        last = next;
        len += utf8_len((uint8_t)text.ptr[len]);
    }
    return len;
}

void
norm_charsmap(const struct norm_stage *stage, struct slice text,
              struct buf *out)
{
    struct slice to;

    while (text.len > 0) {
        struct slice whole = {.ptr = text.ptr, .len = grapheme_len(text)};
        text.ptr += whole.len;
        text.len -= whole.len;
        if (whole.len <= GRAPHEME_MAX && transform(stage, whole, &to)) {
            buf_add_slice(out, to);
            continue;
        }
        for (size_t at = 0, len = 0; at < whole.len; at += len) {
            len = utf8_len((uint8_t)whole.ptr[at]);
            struct slice one = {.ptr = whole.ptr + at, .len = len};
            buf_add_slice(out, transform(stage, one, &to) ? to : one);
        }
    }
}
