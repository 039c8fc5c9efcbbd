/*
 * Escapes arbitrary bytes as the inside of a JSON string (RFC 8259 section 7).
 *
 * The result is always valid UTF-8 on one line: controls and DEL become
 * escapes, each byte that is not part of well-formed UTF-8 (Unicode 15 table
 * 3-7: no overlong forms, no surrogates, nothing above U+10FFFF) becomes one
 * U+FFFD.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: the caller's room.
 */
#ifndef NODE_JSON_TEXT_H
#define NODE_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/slice.h"

#define JSON_TEXT_CHAR_MAX 6 /* bytes of output for one character at most */

/*
 * Bytes of the well-formed UTF-8 character at the start of text: 1 to 4, or 0
 * when there is none (then its first byte is not UTF-8). text.len >= 1.
 */
size_t json_text_char(struct slice text);

/* Whether a well-formed character of three bytes begins at b, where `left` bytes
 * are, as most letters beyond Latin do. */
static inline bool
json_text_is_three(const uint8_t *b, size_t left)
{
    return left >= 3 && (b[0] & 0xf0) == 0xe0 && (b[1] & 0xc0) == 0x80 &&
           (b[2] & 0xc0) == 0x80 && (b[0] != 0xe0 || b[1] >= 0xa0) &&
           (b[0] != 0xed || b[1] < 0xa0);
}

/*
 * Escapes as many whole characters from the start of *text as fit in room
 * bytes at out, moves *text past them, and returns how many bytes were
 * written. With room >= JSON_TEXT_CHAR_MAX it always moves.
 */
size_t json_text_escape(struct slice *text, char *out, size_t room);

#endif
