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

/* Of raw up to the limit, and of a character that begins before it all. How many
 * of raw's bytes; *written to out, which has room for four more than the limit. */
static size_t
unescape(struct slice raw, size_t limit, char *out, size_t *written)
{
    size_t at = 0;
    char *to = out;

    CHECK_SLOW(limit <= raw.len);
    while (at < limit) {
        const char *from = raw.ptr + at;
        const char *slash = memchr(from, '\\', limit - at);
        size_t run = slash != NULL ? (size_t)(slash - from) : limit - at;
        memmove(to, from, run);
        at += run;
        to += run;
        while (at < limit && raw.ptr[at] == '\\') {
            size_t used = 2;
            if (raw.ptr[at + 1] == 'u') {
                to += put_utf8(unicode(raw.ptr + at, raw.len - at, &used), to);
            } else {
                *to++ = simple_escape(raw.ptr[at + 1]);
            }
            at += used;
        }
    }
    *written = (size_t)(to - out);
    return at;
}

size_t
scan_unescape(const char *raw, size_t len, char *out)
{
    size_t written = 0;

    CHECK_SLOW(len == 0 || (raw != NULL && out != NULL));
    (void)unescape((struct slice){raw, len}, len, out, &written);
    return written;
}

/* Where raw is cut that no character as it comes is torn; at most `most`. */
static size_t
whole_up_to(struct slice raw, size_t most)
{
    size_t cut = most;

    if (raw.len <= most) {
        return raw.len;
    }
    while (cut > most - 3 && ((uint8_t)raw.ptr[cut] & 0xC0U) == 0x80U) {
        cut--;
    }
    return cut;
}

struct slice
scan_unescape_next(struct slice *raw, char *room)
{
    const size_t most = SCAN_PIECE_BYTES - 4;
    struct slice piece = *raw;
    const char *slash = raw->len != 0 ? memchr(raw->ptr, '\\', raw->len) : NULL;
    size_t used = slash != NULL ? (size_t)(slash - raw->ptr) : raw->len;

    if (slash == NULL || used > most) {
        piece.len = used;
    } else {
        piece.ptr = room;
        used = unescape(*raw, whole_up_to(*raw, most), room, &piece.len);
    }
    CHECK(used <= raw->len);
    raw->ptr += used;
    raw->len -= used;
    return piece;
}
