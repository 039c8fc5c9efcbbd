/*
 * From the raw bytes of a JSON string to the text it stands for.
 */
#include <string.h>

#include "node/scan/scan.h"

#define REPLACEMENT 0xFFFDU

static unsigned
hex_value(char c)
{
    unsigned char digit = (unsigned char)c;

    return (digit & 0xFU) + (digit >> 6) * 9U;
}

/* The four hex digits at s. */
static unsigned
hex_unit(const char *s)
{
    return hex_value(s[0]) << 12 | hex_value(s[1]) << 8 | hex_value(s[2]) << 4 |
           hex_value(s[3]);
}

/* How many bytes; out has room for four. */
static size_t
put_utf8(unsigned c, char *out)
{
    CHECK_SLOW(c <= 0x10FFFF);
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xC0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xE0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3F));
        out[2] = (char)(0x80 | (c & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3F));
    out[2] = (char)(0x80 | (c >> 6 & 0x3F));
    out[3] = (char)(0x80 | (c & 0x3F));
    return 4;
}

/* The character of the \u at s; *used is how many bytes it is written in. */
static unsigned
unicode(const char *s, size_t left, size_t *used)
{
    unsigned high = hex_unit(s + 2);

    CHECK_SLOW(left >= 6 && s[0] == '\\' && s[1] == 'u');
    *used = 6;
    if (high < 0xD800 || high > 0xDFFF) {
        return high;
    }
    if (high < 0xDC00 && left >= 12 && s[6] == '\\' && s[7] == 'u') {
        unsigned low = hex_unit(s + 8);
        if (low >= 0xDC00 && low <= 0xDFFF) {
            *used = 12;
            return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
        }
    }
    return REPLACEMENT;
}

static char
simple_escape(char c)
{
    switch (c) {
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    default:
        return c; /* " \ / */
    }
}

size_t
scan_unescape(const char *raw, size_t len, char *out)
{
    size_t at = 0;
    size_t written = 0;

    CHECK_SLOW(len == 0 || (raw != NULL && out != NULL));
    while (at < len) {
        const char *slash = memchr(raw + at, '\\', len - at);
        size_t run = slash != NULL ? (size_t)(slash - raw) - at : len - at;
        memmove(out + written, raw + at, run);
        at += run;
        written += run;
        while (at < len && raw[at] == '\\') {
            size_t used = 2;
            if (raw[at + 1] == 'u') {
                unsigned c = unicode(raw + at, len - at, &used);
                written += put_utf8(c, out + written);
            } else {
                out[written++] = simple_escape(raw[at + 1]);
            }
            at += used;
        }
    }
    return written;
}

/* Bytes of the escape at raw; the scan has checked its grammar. */
static size_t
escape_len(const char *raw)
{
    CHECK_SLOW(raw[0] == '\\');
    return raw[1] == 'u' ? 6 : 2;
}

/* Whether the escape at raw is that half of a pair. */
static bool
is_half(const char *raw, unsigned half)
{
    CHECK_SLOW(raw[0] == '\\');
    return raw[1] == 'u' && (hex_unit(raw + 2) & 0xFC00U) == half;
}

/* Length of the run of escapes at raw, ended where no pair is torn. */
static size_t
escapes_len(const char *raw, size_t len)
{
    size_t n = 0;
    bool high = false;

    while (n < len && raw[n] == '\\' &&
           (n < SCAN_PIECE_BYTES - 12 || (high && is_half(raw + n, 0xDC00U)))) {
        high = is_half(raw + n, 0xD800U);
        n += escape_len(raw + n);
    }
    return n;
}

struct slice
scan_unescape_next(struct slice *raw, char *room)
{
    struct slice piece = *raw;
    const char *slash = raw->len != 0 ? memchr(raw->ptr, '\\', raw->len) : NULL;

    if (slash == raw->ptr && raw->len != 0) {
        size_t run = escapes_len(raw->ptr, raw->len);
        CHECK(run != 0 && run <= SCAN_PIECE_BYTES);
        piece.ptr = room;
        piece.len = scan_unescape(raw->ptr, run, room);
        raw->ptr += run;
        raw->len -= run;
        return piece;
    }
    if (slash != NULL) {
        piece.len = (size_t)(slash - raw->ptr);
    }
    raw->ptr += piece.len;
    raw->len -= piece.len;
    return piece;
}
