/*
 * From the raw bytes of a JSON string to the text it stands for.
 */
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

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

/* What an escape stands for, by the letter behind its backslash. */
static const char simple[128] = {
    ['"'] = '"',  ['/'] = '/',  ['\\'] = '\\', ['b'] = '\b',
    ['f'] = '\f', ['n'] = '\n', ['r'] = '\r',  ['t'] = '\t'};

/*
 * Copies up to the next backslash, or all that is left; how many bytes. More of
 * what is left may be written behind them.
 */
static size_t
copy_run(char *restrict to, const char *restrict from, size_t left)
{
    size_t at = 0;

#if defined(__SSE2__)
    const __m128i slash = _mm_set1_epi8('\\');
    for (; left - at >= sizeof(__m128i); at += sizeof(__m128i)) {
        __m128i x = _mm_loadu_si128((const __m128i *)(const void *)(from + at));
        _mm_storeu_si128((__m128i *)(void *)(to + at), x);
        unsigned found = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(x, slash));
        if (found != 0) {
            return at + (unsigned)__builtin_ctz(found);
        }
    }
#endif
    for (; at < left && from[at] != '\\'; at++) {
        to[at] = from[at];
    }
    return at;
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
        size_t run = copy_run(to, raw.ptr + at, limit - at);
        at += run;
        to += run;
        if (at >= limit) {
            break;
        }
        if (raw.ptr[at + 1] != 'u') {
            *to++ = simple[(uint8_t)raw.ptr[at + 1] & 127U];
            at += 2;
        }
        /* Where there is one, more follow: text that is not Latin. */
        while (at < limit && raw.ptr[at] == '\\' && raw.ptr[at + 1] == 'u') {
            size_t used;
            to += put_utf8(unicode(raw.ptr + at, raw.len - at, &used), to);
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
    size_t near = whole_up_to(*raw, SCAN_RUN_BYTES);
    const char *slash = near != 0 ? memchr(raw->ptr, '\\', near) : NULL;
    size_t used = slash != NULL ? (size_t)(slash - raw->ptr) : near;

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
