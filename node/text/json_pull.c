/* The JSON reader: one token per call, strict, in place. */
#include "node/text/json_pull.h"

#include <endian.h>

#include "index/base/ascii.h"
#include "node/text/json_text.h"

/* What may come next. */
enum json_expect {
    EXPECT_VALUE,
    EXPECT_VALUE_OR_END, /* just inside [ */
    EXPECT_KEY_OR_END,   /* just inside { */
    EXPECT_COMMA_OR_END, /* after a value */
    EXPECT_NOTHING,      /* after the document */
    EXPECT_FAILED,
};

void
json_pull_init(struct json_pull *pull, struct slice bytes)
{
    *pull = (struct json_pull){.bytes = bytes, .expect = EXPECT_VALUE};
}

static enum pull_token
bad(struct json_pull *pull, const char *fault)
{
    pull->fault = fault;
    pull->expect = EXPECT_FAILED;
    return PULL_BAD;
}

/* The byte at offset at, or -1 behind the end. */
static int
byte_at(const struct json_pull *pull, size_t at)
{
    return at < pull->bytes.len ? (unsigned char)pull->bytes.ptr[at] : -1;
}

static int
peek(const struct json_pull *pull)
{
    return byte_at(pull, pull->at);
}

static void
skip_blanks(struct json_pull *pull)
{
    int c = peek(pull);

    while (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
        pull->at++;
        c = peek(pull);
    }
}

static bool
is_digit(int c)
{
    return c >= '0' && c <= '9';
}

/* Four hex digits at text[at...], or -1. */
static int32_t
hex4(struct slice text, size_t at)
{
    int32_t value = 0;

    if (at + 4 > text.len) {
        return -1;
    }
    for (size_t i = at; i < at + 4; i++) {
        int digit = ascii_hex(text.ptr[i]);
        if (digit < 0) {
            return -1;
        }
        value = value * 16 + digit;
    }
    CHECK(value >= 0 && value <= 0xFFFF);
    return value;
}

/* Passes the escape that starts at pull->at. */
static bool
pass_escape(struct json_pull *pull)
{
    int c = byte_at(pull, pull->at + 1);

    CHECK(byte_at(pull, pull->at) == '\\');
    if (c == 'u') {
        if (hex4(pull->bytes, pull->at + 2) < 0) {
            return false;
        }
        pull->at += 6;
        return true;
    }
    pull->at += 2;
    return c > 0 && strchr("\"\\/bfnrt", c) != NULL;
}

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte)) /* of a word's 8 */

/* How many of a word's first bytes are letters of ASCII that stand for
 * themselves. A difference sets the highest bit of the lowest byte that is too
 * small for it, and of none below that one; a byte from 128 on shows by itself. */
static size_t
plain_of(uint64_t word)
{
    uint64_t low_first = le64toh(word);
    uint64_t controls = low_first - EACH(0x20);
    uint64_t quotes = (low_first ^ EACH('"')) - EACH(1);
    uint64_t escapes = (low_first ^ EACH('\\')) - EACH(1);
    uint64_t other = (low_first | controls | quotes | escapes) & EACH(0x80);

    return other != 0 ? (size_t)__builtin_ctzll(other) / 8 : sizeof word;
}

/* Passes letters that stand for themselves, all but the last few of the text:
 * up to eight of ASCII at a time, and characters of three bytes. */
static void
pass_letters(struct json_pull *pull)
{
    const char *bytes = pull->bytes.ptr;
    size_t len = pull->bytes.len;
    size_t at = pull->at;
    uint64_t word;

    while (at + sizeof word <= len) {
        memcpy(&word, bytes + at, sizeof word);
        size_t plain = plain_of(word);
        at += plain;
        if (plain == sizeof word) {
            continue;
        }
        size_t before = at;
        while (json_text_is_three((const uint8_t *)bytes + at, len - at)) {
            at += 3;
        }
        if (at == before) {
            break;
        }
    }
    pull->at = at;
}

static enum pull_token
read_string(struct json_pull *pull, enum pull_token token)
{
    size_t start = ++pull->at;

    CHECK(pull->bytes.ptr[start - 1] == '"');
    pull->escaped = false;
    for (;;) {
        pass_letters(pull);
        int c = peek(pull);
        if (c == '"') {
            break;
        }
        if (c < 0x20) {
            return bad(pull, c < 0 ? "string without an end"
                                   : "control character in a string");
        }
        if (c == '\\') {
            pull->escaped = true;
            if (!pass_escape(pull)) {
                return bad(pull, "unknown escape");
            }
        } else if (c < 0x80) {
            pull->at++;
        } else {
            size_t n = json_text_char((struct slice){
                pull->bytes.ptr + pull->at, pull->bytes.len - pull->at});
            if (n == 0) {
                return bad(pull, "not UTF-8");
            }
            pull->at += n;
        }
    }
    pull->text = (struct slice){pull->bytes.ptr + start, pull->at - start};
    pull->at++;
    return token;
}

static void
pass_digits(struct json_pull *pull)
{
    while (is_digit(peek(pull))) {
        pull->at++;
    }
}

static enum pull_token
read_number(struct json_pull *pull)
{
    size_t start = pull->at;

    pull->at += peek(pull) == '-';
    if (!is_digit(peek(pull))) {
        return bad(pull, "digit expected");
    }
    if (peek(pull) == '0') {
        pull->at++;
    } else {
        pass_digits(pull);
    }
    if (peek(pull) == '.') {
        pull->at++;
        if (!is_digit(peek(pull))) {
            return bad(pull, "digit expected");
        }
        pass_digits(pull);
    }
    if (peek(pull) == 'e' || peek(pull) == 'E') {
        pull->at++;
        pull->at += peek(pull) == '+' || peek(pull) == '-';
        if (!is_digit(peek(pull))) {
            return bad(pull, "digit expected");
        }
        pass_digits(pull);
    }
    pull->text = (struct slice){pull->bytes.ptr + start, pull->at - start};
    CHECK(pull->text.len > 0 && pull->at <= pull->bytes.len);
    return PULL_NUMBER;
}

static enum pull_token
read_word(struct json_pull *pull, struct slice word, enum pull_token token)
{
    if (pull->bytes.len - pull->at < word.len ||
        memcmp(pull->bytes.ptr + pull->at, word.ptr, word.len) != 0) {
        return bad(pull, "value expected");
    }
    pull->at += word.len;
    return token;
}

static enum pull_token
open_container(struct json_pull *pull, bool array)
{
    if (pull->depth == JSON_PULL_DEPTH_MAX) {
        return bad(pull, "nested too deep");
    }
    pull->at++;
    pull->depth++;
    pull->in_array = pull->in_array << 1 | array;
    pull->expect = array ? EXPECT_VALUE_OR_END : EXPECT_KEY_OR_END;
    CHECK(pull->depth <= JSON_PULL_DEPTH_MAX);
    return array ? PULL_ARRAY : PULL_OBJECT;
}

static void
value_ended(struct json_pull *pull)
{
    CHECK(pull->at <= pull->bytes.len && pull->depth <= JSON_PULL_DEPTH_MAX);
    pull->expect = pull->depth > 0 ? EXPECT_COMMA_OR_END : EXPECT_NOTHING;
}

static enum pull_token
close_container(struct json_pull *pull)
{
    bool array = (pull->in_array & 1) != 0;

    CHECK(pull->depth > 0);
    pull->at++;
    pull->depth--;
    pull->in_array >>= 1;
    value_ended(pull);
    return array ? PULL_ARRAY_END : PULL_OBJECT_END;
}

static enum pull_token
read_value(struct json_pull *pull)
{
    enum pull_token token;

    switch (peek(pull)) {
    case '{':
        return open_container(pull, false);
    case '[':
        return open_container(pull, true);
    case '"':
        token = read_string(pull, PULL_STRING);
        break;
    case 't':
        token = read_word(pull, SLICE("true"), PULL_TRUE);
        break;
    case 'f':
        token = read_word(pull, SLICE("false"), PULL_FALSE);
        break;
    case 'n':
        token = read_word(pull, SLICE("null"), PULL_NULL);
        break;
    case -1:
        return bad(pull, "value expected, not the end");
    default:
        token = peek(pull) == '-' || is_digit(peek(pull))
                    ? read_number(pull)
                    : bad(pull, "value expected");
        break;
    }
    if (token != PULL_BAD) {
        value_ended(pull);
    }
    return token;
}

static enum pull_token
read_key(struct json_pull *pull)
{
    if (peek(pull) != '"') {
        return bad(pull, "key expected");
    }
    enum pull_token token = read_string(pull, PULL_KEY);
    if (token == PULL_BAD) {
        return PULL_BAD;
    }
    skip_blanks(pull);
    if (peek(pull) != ':') {
        return bad(pull, "colon expected");
    }
    pull->at++;
    pull->expect = EXPECT_VALUE;
    return token;
}

static enum pull_token
after_value(struct json_pull *pull, bool array)
{
    if (peek(pull) == (array ? ']' : '}')) {
        return close_container(pull);
    }
    if (peek(pull) != ',') {
        return bad(pull, array ? "comma or ] expected" : "comma or } expected");
    }
    pull->at++;
    skip_blanks(pull);
    return array ? read_value(pull) : read_key(pull);
}

enum pull_token
json_pull_next(struct json_pull *pull)
{
    bool array = (pull->in_array & 1) != 0;

    skip_blanks(pull);
    switch ((enum json_expect)pull->expect) {
    case EXPECT_VALUE:
        return read_value(pull);
    case EXPECT_VALUE_OR_END:
        return peek(pull) == ']' ? close_container(pull) : read_value(pull);
    case EXPECT_KEY_OR_END:
        return peek(pull) == '}' ? close_container(pull) : read_key(pull);
    case EXPECT_COMMA_OR_END:
        return after_value(pull, array);
    case EXPECT_NOTHING:
        return peek(pull) < 0 ? PULL_END : bad(pull, "text after the value");
    case EXPECT_FAILED:
        break;
    }
    return PULL_BAD;
}

bool
json_pull_skip(struct json_pull *pull)
{
    uint32_t outside = pull->depth;

    if (pull->expect == EXPECT_KEY_OR_END ||
        pull->expect == EXPECT_VALUE_OR_END) {
        outside--; /* already inside what is to be skipped */
    } else if (pull->expect != EXPECT_VALUE || pull->depth == 0) {
        return pull->expect != EXPECT_FAILED;
    }
    do {
        if (json_pull_next(pull) == PULL_BAD) {
            return false;
        }
    } while (pull->depth > outside);
    CHECK(pull->depth == outside);
    return true;
}

/* UTF-8 of a code point that is no surrogate; returns its bytes. */
static size_t
encode(uint32_t code, char out[4])
{
    CHECK(code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF));
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xC0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3F));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xE0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3F));
        out[2] = (char)(0x80 | (code & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3F));
    out[2] = (char)(0x80 | (code >> 6 & 0x3F));
    out[3] = (char)(0x80 | (code & 0x3F));
    return 4;
}

/* The code point of the \u escape at *at of valid text, moved past it and
 * past the second half of a surrogate pair. */
static uint32_t
take_code(struct slice text, size_t *at)
{
    uint32_t code = (uint32_t)hex4(text, *at + 2);

    *at += 6;
    if (code < 0xD800 || code > 0xDFFF) {
        return code;
    }
    bool pair = code < 0xDC00 && *at + 6 <= text.len && text.ptr[*at] == '\\' &&
                text.ptr[*at + 1] == 'u';
    int32_t low = pair ? hex4(text, *at + 2) : -1;
    if (low < 0xDC00 || low > 0xDFFF) {
        return 0xFFFD;
    }
    *at += 6;
    CHECK(*at <= text.len);
    return 0x10000 + ((code - 0xD800) << 10) + ((uint32_t)low - 0xDC00);
}

/* The next character of valid raw text, unescaped, into out; moves *at. */
static size_t
take_char(struct slice text, size_t *at, char out[4])
{
    static const char names[] = "\"\\/bfnrt";
    static const char meant[] = "\"\\/\b\f\n\r\t";

    CHECK(*at < text.len);
    if (text.ptr[*at] != '\\') {
        out[0] = text.ptr[(*at)++];
        return 1;
    }
    if (text.ptr[*at + 1] == 'u') {
        return encode(take_code(text, at), out);
    }
    const char *name = strchr(names, text.ptr[*at + 1]);
    CHECK(name != NULL);
    out[0] = meant[name - names];
    *at += 2;
    CHECK(*at <= text.len);
    return 1;
}

int
json_pull_copy(const struct json_pull *pull, char *out, size_t room)
{
    size_t len = 0;

    for (size_t at = 0; at < pull->text.len;) {
        char piece[4];
        size_t n = take_char(pull->text, &at, piece);
        if (len + n + 1 > room || piece[0] == '\0') {
            return -1;
        }
        memcpy(out + len, piece, n);
        len += n;
    }
    if (room == 0 || len > INT32_MAX) {
        return -1;
    }
    out[len] = '\0';
    return (int)len;
}

bool
json_pull_is_slowly(const struct json_pull *pull, struct slice text)
{
    size_t len = 0;

    for (size_t at = 0; at < pull->text.len;) {
        char piece[4];
        size_t n = take_char(pull->text, &at, piece);
        if (len + n > text.len || memcmp(text.ptr + len, piece, n) != 0) {
            return false;
        }
        len += n;
    }
    return len == text.len;
}

bool
json_pull_uint(const struct json_pull *pull, uint64_t max, uint64_t *value)
{
    uint64_t number = 0;

    for (size_t i = 0; i < pull->text.len; i++) {
        if (!is_digit((unsigned char)pull->text.ptr[i])) {
            return false;
        }
        uint64_t digit = (uint64_t)(pull->text.ptr[i] - '0');
        if (number > (max - (digit < max ? digit : max)) / 10) {
            return false;
        }
        number = number * 10 + digit;
    }
    *value = number;
    return pull->text.len > 0 && number <= max;
}
