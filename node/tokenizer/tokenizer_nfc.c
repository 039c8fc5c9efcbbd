/*
 * NFC, NFD, NFKC, NFKD on utf8proc. Most text is composed already: a character
 * that can take part in a composition carries a flag, the others are passed by
 * the thousand, and only the run around a character that really changes is
 * given to utf8proc.
 */
#include <utf8proc.h>

#include "node/tokenizer/tokenizer_internal.h"

#define RUN_BYTES     4096  /* of a run before it is cut where it can be */
#define RUN_BYTES_MAX 16384 /* marks are sorted one by one: n squared */

/* Whether NFC leaves it alone, whatever comes before: then it is a boundary. */
bool
norm_needs_look(int32_t c)
{
    utf8proc_int32_t parts[32];
    int bound = 0;

    if (c < 0xc0 || norm_is_inert((uint32_t)c)) {
        return false;
    }
    const utf8proc_property_t *property = utf8proc_get_property(c);
    if (property->combining_class != 0 || property->comb_index >= 0x8000) {
        if (property->combining_class != 0 || property->comb_index != 0xffff) {
            return true;
        }
    }
    if ((c >= 0x1161 && c <= 0x1175) || (c >= 0x11a8 && c <= 0x11c2)) {
        return true; /* vowels and finals of Hangul */
    }
    if (property->decomp_seqindex == UINT16_MAX) {
        return false;
    }
    utf8proc_ssize_t count = utf8proc_decompose_char(
        c, parts, 32, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE, &bound);
    if (count < 1 || count > 32) {
        return true;
    }
    count = utf8proc_normalize_utf32(parts, count,
                                     UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    return count != 1 || parts[0] != c;
}

/* What must be looked at closely: 0 it stays, else it may change. */
static bool
may_change(uint32_t c, unsigned *last_class)
{
    utf8proc_int32_t parts[32];
    int bound = 0;
    const utf8proc_property_t *property =
        utf8proc_get_property((utf8proc_int32_t)c);
    unsigned class = (unsigned)property->combining_class;
    unsigned before = *last_class;

    *last_class = class;
    if (class == 0 || class < before) {
        return true;
    }
    if (property->comb_index >= 0x8000 && property->comb_index != 0xffff) {
        return true; /* composes with what is before */
    }
    return utf8proc_decompose_char((utf8proc_int32_t)c, parts, 32,
                                   UTF8PROC_STABLE | UTF8PROC_DECOMPOSE,
                                   &bound) != 1 ||
           parts[0] != (utf8proc_int32_t)c;
}

/* The end of what is certainly composed from `at` on; *boundary is the last
 * place before it that nothing composes across. */
static size_t
composed_until(const struct tok_classes *classes, struct slice text, size_t at,
               size_t *boundary)
{
    unsigned class = 0;

    *boundary = at;
    while (at < text.len) {
        if ((uint8_t)text.ptr[at] < 0x80) {
            at = ascii_until(text, at);
            *boundary = at - 1;
            class = 0;
            continue;
        }
        size_t han = tok_inert_until(text, at);
        if (han > at) {
            at = han;
            *boundary = at - 3;
            class = 0;
            continue;
        }
        if ((tok_class_at(classes, text.ptr + at) & TOK_NFC) == 0) {
            *boundary = at;
            class = 0;
        } else if (may_change(utf8_read(text.ptr + at), &class)) {
            return at;
        }
        at += utf8_len((uint8_t)text.ptr[at]);
    }
    return at;
}

bool
norm_is_nfc(const struct tok_classes *classes, struct slice text)
{
    size_t boundary = 0;

    return composed_until(classes, text, 0, &boundary) == text.len;
}

static utf8proc_option_t
options_of(enum norm_kind kind)
{
    unsigned options = UTF8PROC_STABLE;

    options |= kind == NORM_NFKC || kind == NORM_NFKD ? UTF8PROC_COMPAT : 0;
    options |= kind == NORM_NFC || kind == NORM_NFKC ? UTF8PROC_COMPOSE
                                                     : UTF8PROC_DECOMPOSE;
    return (utf8proc_option_t)options;
}

/* One run without characters that the library does not know. */
static void
put_run(struct slice run, enum norm_kind kind, struct buf *out)
{
    struct buf wide;
    size_t room = run.len * 20 + 4; /* a character becomes 18 at most */
    utf8proc_option_t options = options_of(kind);

    if (run.len == 0) {
        return;
    }
    if (run.len > RUN_BYTES_MAX) {
        out->failed = true;
        return;
    }
    buf_init(&wide, room * sizeof(utf8proc_int32_t));
    char *at = buf_reserve(&wide, room * sizeof(utf8proc_int32_t));
    utf8proc_ssize_t count = -1;
    if (at != NULL) {
        utf8proc_int32_t *characters = (utf8proc_int32_t *)(void *)at;
        count = utf8proc_decompose(
            (const utf8proc_uint8_t *)run.ptr, (utf8proc_ssize_t)run.len,
            characters, (utf8proc_ssize_t)room, (utf8proc_option_t)options);
        if (count > 0 && (options & UTF8PROC_COMPOSE) != 0) {
            count = utf8proc_normalize_utf32(characters, count,
                                             (utf8proc_option_t)options);
        }
        for (utf8proc_ssize_t i = 0; i < count; i++) {
            char *text = buf_reserve(out, 4);
            if (text != NULL) {
                out->len += utf8_write((uint32_t)characters[i], text);
            }
        }
    }
    out->failed = out->failed || count < 0;
    buf_fini(&wide);
}

/* Whether nothing composes or moves across the front of a character. */
static bool
is_boundary(uint32_t c)
{
    utf8proc_int32_t code = (utf8proc_int32_t)c;
    utf8proc_int32_t parts[32];
    int bound = 0;

    return !norm_needs_look(code) &&
           utf8proc_decompose_char(
               code, parts, 32,
               UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT,
               &bound) == 1 &&
           parts[0] == code;
}

/* A run that may hold characters newer than the library: these stand alone. */
static void
put_known(struct slice run, enum norm_kind kind, struct buf *out)
{
    size_t taken = 0;

    for (size_t at = 0, len = 0; at < run.len; at += len) {
        len = utf8_len((uint8_t)run.ptr[at]);
        if (at - taken >= RUN_BYTES && is_boundary(utf8_read(run.ptr + at))) {
            put_run((struct slice){run.ptr + taken, at - taken}, kind, out);
            taken = at;
        }
        if (len >= 2 && norm_is_inert(utf8_read(run.ptr + at))) {
            put_run((struct slice){run.ptr + taken, at - taken}, kind, out);
            buf_add(out, run.ptr + at, len);
            taken = at + len;
        }
    }
    put_run((struct slice){run.ptr + taken, run.len - taken}, kind, out);
}

static bool
is_ascii_run(struct slice text, size_t at)
{
    return (uint8_t)text.ptr[at] < 0x80;
}

/* Decompositions and NFKC: from each character that is not ASCII up to the next
 * two that are. */
static void
put_around_ascii(struct slice text, enum norm_kind kind, struct buf *out)
{
    size_t at = 0;

    while (at < text.len) {
        size_t end = at;
        while (end < text.len && is_ascii_run(text, end)) {
            end++;
        }
        size_t keep = end == text.len || end == at ? end - at : end - at - 1;
        buf_add(out, text.ptr + at, keep);
        at += keep;
        while (end < text.len && !is_ascii_run(text, end)) {
            end += utf8_len((uint8_t)text.ptr[end]);
        }
        put_known((struct slice){text.ptr + at, end - at}, kind, out);
        at = end;
    }
}

void
norm_unicode(struct tokenizer_scratch *s, struct slice text,
             enum norm_kind kind, struct buf *out)
{
    const struct tok_classes *classes = s->tokenizer->classes;
    size_t taken = 0;

    if (kind != NORM_NFC) {
        put_around_ascii(text, kind, out);
        return;
    }
    while (taken < text.len) {
        size_t boundary = 0;
        size_t end = composed_until(classes, text, taken, &boundary);
        if (end == text.len) {
            boundary = end;
        }
        buf_add(out, text.ptr + taken, boundary - taken);
        taken = boundary;
        while (end < text.len &&
               (tok_class_at(classes, text.ptr + end) & TOK_NFC) != 0) {
            end += utf8_len((uint8_t)text.ptr[end]);
        }
        put_known((struct slice){text.ptr + taken, end - taken}, kind, out);
        taken = end;
    }
}
