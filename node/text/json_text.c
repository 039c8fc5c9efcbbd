/* UTF-8 validation and JSON escapes, byte by byte. */
#include "node/text/json_text.h"

#include <string.h>

#include "index/base/check.h"

#define REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */

static unsigned char
byte_at(struct slice text, size_t i)
{
    return (unsigned char)text.ptr[i];
}

/* What a first byte asks for. The second byte's range is what rules out
 * overlong forms, surrogates and code points that do not exist. */
struct lead {
    size_t len; /* of the character; 0: no first byte */
    unsigned char low;
    unsigned char high;
};

static struct lead
lead_of(unsigned char first)
{
    if (first >= 0xC2 && first <= 0xDF) {
        return (struct lead){2, 0x80, 0xBF};
    }
    switch (first) {
    case 0xE0:
        return (struct lead){3, 0xA0, 0xBF};
    case 0xED:
        return (struct lead){3, 0x80, 0x9F};
    case 0xF0:
        return (struct lead){4, 0x90, 0xBF};
    case 0xF4:
        return (struct lead){4, 0x80, 0x8F};
    default:
        break;
    }
    if (first > 0xE0 && first <= 0xEF) {
        return (struct lead){3, 0x80, 0xBF};
    }
    if (first > 0xF0 && first < 0xF4) {
        return (struct lead){4, 0x80, 0xBF};
    }
    return (struct lead){.len = 0};
}

size_t
json_text_char(struct slice text)
{
    CHECK(text.len >= 1);
    if (byte_at(text, 0) < 0x80) {
        return 1;
    }
    struct lead lead = lead_of(byte_at(text, 0));
    if (lead.len == 0 || lead.len > text.len || byte_at(text, 1) < lead.low ||
        byte_at(text, 1) > lead.high) {
        return 0;
    }
    for (size_t i = 2; i < lead.len; i++) {
        if ((byte_at(text, i) & 0xC0U) != 0x80) {
            return 0;
        }
    }
    return lead.len;
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

    CHECK(len <= text.len && len <= 4);
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
        CHECK(size >= 1 && size <= sizeof(one));
        if (size > room - used) {
            break;
        }
        memcpy(out + used, one, size);
        used += size;
        slice_skip(text, len != 0 ? len : 1);
    }
    return used;
}
