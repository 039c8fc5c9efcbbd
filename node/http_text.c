#include "node/http_text.h"

#define SEEN   (HTTP_TEXT_FIELD | HTTP_TEXT_TARGET)
#define MARK   (SEEN | HTTP_TEXT_TOKEN)
#define LETTER (MARK | HTTP_TEXT_HOST)
#define DIGIT  (LETTER | HTTP_TEXT_DIGIT | HTTP_TEXT_HEX)

const uint8_t http_text_class[256] = {
    ['\t'] = HTTP_TEXT_FIELD,
    [' '] = HTTP_TEXT_FIELD,
    ['!'] = LETTER,
    ['"'] = SEEN,
    ['#'] = HTTP_TEXT_FIELD | HTTP_TEXT_TOKEN,
    ['$'] = LETTER,
    ['%'] = LETTER,
    ['&'] = LETTER,
    ['\''] = LETTER,
    ['('] = SEEN | HTTP_TEXT_HOST,
    [')'] = SEEN | HTTP_TEXT_HOST,
    ['*'] = LETTER,
    ['+'] = LETTER,
    [','] = SEEN,
    ['-'] = LETTER,
    ['.'] = LETTER,
    ['/'] = SEEN,
    ['0' ... '9'] = DIGIT,
    [':'] = SEEN,
    [';'] = SEEN | HTTP_TEXT_HOST,
    ['<'] = SEEN,
    ['='] = SEEN | HTTP_TEXT_HOST,
    ['>'] = SEEN,
    ['?'] = SEEN,
    ['@'] = SEEN,
    ['A' ... 'F'] = LETTER | HTTP_TEXT_HEX,
    ['G' ... 'Z'] = LETTER,
    ['['] = SEEN,
    ['\\'] = SEEN,
    [']'] = SEEN,
    ['^'] = MARK,
    ['_'] = LETTER,
    ['`'] = MARK,
    ['a' ... 'f'] = LETTER | HTTP_TEXT_HEX,
    ['g' ... 'z'] = LETTER,
    ['{'] = SEEN,
    ['|'] = MARK,
    ['}'] = SEEN,
    ['~'] = LETTER,
    [0x80 ... 0xFF] = HTTP_TEXT_FIELD,
};

bool
http_text_list_next(struct slice *rest, struct slice *item)
{
    while (rest->len != 0) {
        const char *comma = memchr(rest->ptr, ',', rest->len);
        size_t len = comma != NULL ? (size_t)(comma - rest->ptr) : rest->len;
        size_t used = comma != NULL ? len + 1 : len;

        *item = slice_trim((struct slice){.ptr = rest->ptr, .len = len});
        rest->ptr += used;
        rest->len -= used;
        if (item->len != 0) {
            return true;
        }
    }
    return false;
}
