/* The tables behind HTTP's alphabets. */
#include "node/http/http_text_internal.h"

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
        *item = slice_trim(slice_take(rest, ','));
        if (item->len != 0) {
            return true;
        }
    }
    return false;
}
