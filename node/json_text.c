#include "node/json_text.h"

#include <stdbool.h>
#include <string.h>

#include "index/base/check.h"

#define REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */

static unsigned char
byte_at(struct slice text, size_t i)
{
    return (unsigned char)text.ptr[i];
}

static bool
is_tail(struct slice text, size_t i)
{
    return i < text.len && (byte_at(text, i) & 0xC0U) == 0x80;
}

/* The second byte is what rules out overlong forms and surrogates. */
static bool
is_second(struct slice text, unsigned char low, unsigned char high)
{
    return text.len > 1 && byte_at(text, 1) >= low && byte_at(text, 1) <= high;
}

size_t
json_text_char(struct slice text)
{
    CHECK(text.len >= 1);
    unsigned char first = byte_at(text, 0);

    if (first < 0x80) {
        return 1;
    }
    if (first >= 0xC2 && first <= 0xDF) {
        return is_tail(text, 1) ? 2 : 0;
    }
    if (first >= 0xE0 && first <= 0xEF) {
        unsigned char low = first == 0xE0 ? 0xA0 : 0x80;
        unsigned char high = first == 0xED ? 0x9F : 0xBF;
        return is_second(text, low, high) && is_tail(text, 2) ? 3 : 0;
    }
    if (first >= 0xF0 && first <= 0xF4) {
        unsigned char low = first == 0xF0 ? 0x90 : 0x80;
        unsigned char high = first == 0xF4 ? 0x8F : 0xBF;
        return is_second(text, low, high) && is_tail(text, 2) &&
                       is_tail(text, 3)
                   ? 4
                   : 0;
    }
    return 0;
}

/* The escape of an ASCII byte that needs one; its length. */
static size_t
escape_ascii(unsigned char c, char out[JSON_TEXT_CHAR_MAX])
{
    static const char hex[] = "0123456789abcdef";
    static const char plain[] = "\"\\\b\f\n\r\t";
    static const char letter[] = "\"\\bfnrt";
    const char *found = c != 0 ? strchr(plain, c) : NULL;

    out[0] = '\\';
    if (found != NULL) {
        out[1] = letter[found - plain];
        return 2;
    }
    memcpy(out + 1, "u00", 3);
    out[4] = hex[c >> 4];
    out[5] = hex[c & 15U];
    return 6;
}

static size_t
escape_one(struct slice text, size_t len, char out[JSON_TEXT_CHAR_MAX])
{
    unsigned char first = byte_at(text, 0);

    if (len == 0) {
        memcpy(out, REPLACEMENT, 3);
        return 3;
    }
    if (len == 1 &&
        (first < 0x20 || first == '"' || first == '\\' || first == 0x7F)) {
        return escape_ascii(first, out);
    }
    memcpy(out, text.ptr, len);
    return len;
}

size_t
json_text_escape(struct slice *text, char *out, size_t room)
{
    size_t used = 0;

    while (text->len != 0) {
        char one[JSON_TEXT_CHAR_MAX];
        size_t len = json_text_char(*text);
        size_t size = escape_one(*text, len, one);
        if (size > room - used) {
            break;
        }
        memcpy(out + used, one, size);
        used += size;
        text->ptr += len != 0 ? len : 1;
        text->len -= len != 0 ? len : 1;
    }
    return used;
}
