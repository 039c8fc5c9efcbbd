/*
 * Finds the first fault of a body, byte by byte.
 */
#include "node/scan/scan_fault_internal.h"

#include <stdbool.h>
#include <string.h>

#include "node/scan/scan.h"
#include "node/scan/scan_block_internal.h"

/* What may come next, between tokens. */
enum expect {
    EXPECT_VALUE,
    EXPECT_VALUE_OR_CLOSE, /* after [ */
    EXPECT_KEY,
    EXPECT_KEY_OR_CLOSE, /* after { */
    EXPECT_COLON,
    EXPECT_COMMA_OR_CLOSE,
    EXPECT_END,
};

struct reader {
    const unsigned char *body;
    size_t len;
    size_t at;
    uint32_t depth;
    uint32_t depth_max;
    enum expect expect;
    uint64_t objects[SCAN_DEPTH_MAX / 64 + 1]; /* by depth: is it one? */
    const char *what;
    int outcome;
};

static bool
fail(struct reader *r, int outcome, const char *what)
{
    CHECK(outcome != 0 && what != NULL);
    r->outcome = outcome;
    r->what = r->at < r->len || outcome != SCAN_E_SYNTAX
                  ? what
                  : "the body ends too early";
    return false;
}

static bool
syntax(struct reader *r, const char *what)
{
    return fail(r, SCAN_E_SYNTAX, what);
}

/* The byte at hand, or -1 at the end. */
static int
peek(const struct reader *r)
{
    CHECK_SLOW(r->at <= r->len);
    return r->at < r->len ? r->body[r->at] : -1;
}

static bool
in(int c, int low, int high)
{
    return c >= low && c <= high;
}

static void
skip_space(struct reader *r)
{
    int c = peek(r);

    while (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
        r->at++;
        c = peek(r);
    }
}

static bool
is_object(const struct reader *r)
{
    CHECK_SLOW(r->depth <= r->depth_max);
    return (r->objects[r->depth / 64] >> (r->depth % 64) & 1) != 0;
}

/* One character above 7F, as in the table of RFC 3629, section 4. */
static bool
read_utf8(struct reader *r)
{
    int lead = peek(r);
    int low = 0x80;
    int high = 0xBF;
    unsigned more;

    if (!in(lead, 0xC2, 0xF4)) {
        return syntax(r, "invalid UTF-8");
    }
    more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
    low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : low;
    high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : high;
    for (r->at++; more > 0; more--, r->at++) {
        if (!in(peek(r), low, high)) {
            return syntax(r, "invalid UTF-8");
        }
        low = 0x80;
        high = 0xBF;
    }
    return true;
}

static bool
read_escape(struct reader *r)
{
    int c;

    CHECK_SLOW(r->at < r->len);
    r->at++;
    c = peek(r);
    if (c <= 0 || strchr("\"\\/bfnrtu", c) == NULL) {
        return syntax(r, "invalid escape in a string");
    }
    r->at++;
    for (unsigned i = 0; c == 'u' && i < 4; i++) {
        int digit = peek(r);
        if (!in(digit, '0', '9') && !in(digit, 'a', 'f') &&
            !in(digit, 'A', 'F')) {
            return syntax(r, "\\u wants four hexadecimal digits");
        }
        r->at++;
    }
    return true;
}

static bool
read_string(struct reader *r)
{
    for (r->at++;;) {
        int c = peek(r);
        if (c == '"') {
            r->at++;
            return true;
        }
        if (c == '\\') {
            if (!read_escape(r)) {
                return false;
            }
        } else if (c >= 0x80) {
            if (!read_utf8(r)) {
                return false;
            }
        } else if (c < 0x20) {
            return syntax(r, "control character in a string");
        } else {
            r->at++;
        }
    }
}

static bool
read_literal(struct reader *r, const char *literal)
{
    CHECK_SLOW(r->at < r->len);
    for (; *literal != '\0'; literal++, r->at++) {
        if (peek(r) != *literal) {
            return syntax(r, "neither true, false nor null");
        }
    }
    return true;
}

static bool
read_digits(struct reader *r)
{
    if (!in(peek(r), '0', '9')) {
        return syntax(r, "a number wants a digit here");
    }
    while (in(peek(r), '0', '9')) {
        r->at++;
    }
    return true;
}

static bool
read_number(struct reader *r)
{
    r->at += peek(r) == '-';
    if (peek(r) == '0') {
        r->at++;
    } else if (!read_digits(r)) {
        return false;
    }
    if (peek(r) == '.') {
        r->at++;
        if (!read_digits(r)) {
            return false;
        }
    }
    if (peek(r) == 'e' || peek(r) == 'E') {
        r->at++;
        r->at += peek(r) == '+' || peek(r) == '-';
        return read_digits(r);
    }
    return true;
}

static void
after_value(struct reader *r)
{
    r->expect = r->depth == 0 ? EXPECT_END : EXPECT_COMMA_OR_CLOSE;
}

static bool
read_open(struct reader *r, bool object)
{
    uint64_t bit;

    CHECK_SLOW(r->depth <= r->depth_max);
    if (r->depth == r->depth_max) {
        return fail(r, SCAN_E_DEPTH, "nested too deeply");
    }
    r->depth++;
    r->at++;
    bit = UINT64_C(1) << (r->depth % 64);
    r->objects[r->depth / 64] &= ~bit;
    r->objects[r->depth / 64] |= object ? bit : 0;
    r->expect = object ? EXPECT_KEY_OR_CLOSE : EXPECT_VALUE_OR_CLOSE;
    return true;
}

static bool
read_close(struct reader *r, bool object)
{
    CHECK_SLOW(r->depth > 0);
    if (object != is_object(r)) {
        return syntax(r, object ? "} closes an array" : "] closes an object");
    }
    r->depth--;
    r->at++;
    after_value(r);
    return true;
}

static bool
read_value(struct reader *r)
{
    int c = peek(r);
    bool good;

    switch (c) {
    case '{':
    case '[':
        return read_open(r, c == '{');
    case '"':
        good = read_string(r);
        break;
    case 't':
        good = read_literal(r, "true");
        break;
    case 'f':
        good = read_literal(r, "false");
        break;
    case 'n':
        good = read_literal(r, "null");
        break;
    default:
        if (c != '-' && !in(c, '0', '9')) {
            return syntax(r, "a value was expected");
        }
        good = read_number(r);
        break;
    }
    after_value(r);
    return good;
}

static bool
read_key(struct reader *r)
{
    if (peek(r) != '"') {
        return syntax(r, "a key was expected");
    }
    r->expect = EXPECT_COLON;
    return read_string(r);
}

static bool
read_comma_or_close(struct reader *r)
{
    int c = peek(r);

    if (c == '}' || c == ']') {
        return read_close(r, c == '}');
    }
    if (c != ',') {
        return syntax(r, "a comma or the end of the array or object was "
                         "expected");
    }
    r->at++;
    r->expect = is_object(r) ? EXPECT_KEY : EXPECT_VALUE;
    return true;
}

static bool
read_colon(struct reader *r)
{
    if (peek(r) != ':') {
        return syntax(r, "a colon was expected");
    }
    r->at++;
    r->expect = EXPECT_VALUE;
    return true;
}

/* One token. */
static bool
step(struct reader *r)
{
    switch (r->expect) {
    case EXPECT_VALUE_OR_CLOSE:
        return peek(r) == ']' ? read_close(r, false) : read_value(r);
    case EXPECT_VALUE:
        return read_value(r);
    case EXPECT_KEY_OR_CLOSE:
        return peek(r) == '}' ? read_close(r, true) : read_key(r);
    case EXPECT_KEY:
        return read_key(r);
    case EXPECT_COLON:
        return read_colon(r);
    case EXPECT_COMMA_OR_CLOSE:
        return read_comma_or_close(r);
    case EXPECT_END:
        return syntax(r, "something follows the end of the object");
    }
    return false;
}

int
scan_fault_find(const char *body, size_t len, uint32_t depth_max,
                struct scan_fault *fault)
{
    struct reader r = {.body = (const unsigned char *)body,
                       .len = len,
                       .depth_max = depth_max};
    size_t first;
    bool good;

    CHECK(depth_max <= SCAN_DEPTH_MAX);
    CHECK(body != NULL || len == 0);
    skip_space(&r);
    first = r.at;
    for (good = step(&r); good; good = step(&r)) {
        skip_space(&r);
        if (r.expect == EXPECT_END && r.at == r.len) {
            break;
        }
    }
    if (good && body[first] != '{') {
        r.at = first;
        good = fail(&r, SCAN_E_NOT_OBJECT, "a JSON object was expected");
    }
    *fault = (struct scan_fault){.what = good ? NULL : r.what, .at = r.at};
    return good ? 0 : r.outcome;
}
