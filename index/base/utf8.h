/*
 * UTF-8: writes one character.
 *
 * Role: pure functions. Owns: nothing. Thread: any.
 */
#ifndef INDEX_BASE_UTF8_H
#define INDEX_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Writes a code point, which is no surrogate and below 0x110000, as 1 to 4
 * bytes; how many. */
static inline size_t
utf8_write(uint32_t c, char *out)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

#endif
