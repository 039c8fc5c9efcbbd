/*
 * Literals and numbers: whether a scalar is one, and its value as an integer.
 */
#include <string.h>

#include "index/base/ascii.h"
#include "node/scan/scan_block_internal.h"
#include "node/scan/scan_walk_internal.h"

/* Bytes that end a scalar; the grammar says later whether they may. */
static bool
ends_scalar(char c)
{
    switch (c) {
    case ' ':
    case '\t':
    case '\n':
    case '\r':
    case ',':
    case ':':
    case '[':
    case ']':
    case '{':
    case '}':
    case '"':
        return true;
    default:
        return false;
    }
}

static size_t
skip_digits(const char *body, size_t at, size_t end)
{
    CHECK_SLOW(at <= end);
    while (at < end && ascii_is_digit(body[at])) {
        at++;
    }
    return at;
}

/* The length of the literal at s, of which left bytes are there; or 0. */
static size_t
literal_len(const char *s, size_t left)
{
    if (left >= 4 && (memcmp(s, "true", 4) == 0 || memcmp(s, "null", 4) == 0)) {
        return 4;
    }
    return left >= 5 && memcmp(s, "false", 5) == 0 ? 5 : 0;
}

/* The offset after the number at `at`, or `at` when there is none. */
static size_t
number_end(const char *body, size_t at, size_t end)
{
    size_t i = at + (body[at] == '-');
    size_t digits = i;

    CHECK_SLOW(at < end);
    i = skip_digits(body, i, end);
    if (i == digits || (body[digits] == '0' && i != digits + 1)) {
        return at;
    }
    if (i < end && body[i] == '.') {
        digits = i + 1;
        i = skip_digits(body, digits, end);
        if (i == digits) {
            return at;
        }
    }
    if (i < end && (body[i] == 'e' || body[i] == 'E')) {
        i++;
        i += i < end && (body[i] == '+' || body[i] == '-');
        digits = i;
        i = skip_digits(body, digits, end);
        if (i == digits) {
            return at;
        }
    }
    return i;
}

enum scan_scalar
scan_scalar(const char *body, size_t at, size_t end)
{
    size_t after = at + literal_len(body + at, end - at);
    enum scan_scalar kind = SCAN_LITERAL;

    CHECK_SLOW(at < end);
    if (after == at) {
        after = number_end(body, at, end);
        kind = ascii_is_digit(body[at]) && skip_digits(body, at, end) == after
                   ? SCAN_PLAIN
                   : SCAN_NUMBER;
    }
    if (after == at || (after < end && !ends_scalar(body[after]))) {
        return SCAN_NOT_SCALAR;
    }
    return kind;
}

/* An unsigned decimal that stops growing far beyond every use of it. */
static int64_t
saturating(const char *body, size_t at, size_t end)
{
    CHECK_SLOW(at <= end);
    int64_t value = 0;

    for (; at < end && ascii_is_digit(body[at]); at++) {
        value = value < INT64_MAX / 20 ? value * 10 + (body[at] - '0') : value;
    }
    return value;
}

/* A number as sign, digits and a power of ten. */
struct decimal {
    bool negative;
    size_t digits_at;
    size_t digits_end; /* past the last digit that is not 0; maybe a point
                          between */
    int64_t exponent;  /* of the last of those digits */
};

static struct decimal
decimal_of(const char *body, size_t at, size_t end)
{
    struct decimal d = {.negative = body[at] == '-'};
    size_t point;
    size_t i;

    CHECK_SLOW(at < end);
    d.digits_at = at + d.negative;
    point = skip_digits(body, d.digits_at, end);
    i = point;
    if (i < end && body[i] == '.') {
        i = skip_digits(body, i + 1, end);
    }
    d.digits_end = i;
    if (i < end && (body[i] == 'e' || body[i] == 'E')) {
        bool below = i + 1 < end && body[i + 1] == '-';
        bool above = i + 1 < end && body[i + 1] == '+';
        i += below || above ? 2 : 1;
        d.exponent = saturating(body, i, end);
        d.exponent = below ? -d.exponent : d.exponent;
    }
    d.exponent -=
        d.digits_end > point ? (int64_t)(d.digits_end - point - 1) : 0;
    while (d.digits_end > d.digits_at &&
           !(body[d.digits_end - 1] >= '1' && body[d.digits_end - 1] <= '9')) {
        d.digits_end--;
        d.exponent += body[d.digits_end] == '0';
    }
    return d;
}

/* value * 10 + digit, away from zero (value is not above 0). */
static int64_t
append_digit(int64_t value, int digit)
{
    CHECK_SLOW(value <= 0 && digit >= 0 && digit <= 9);
    int64_t more;

    if (__builtin_mul_overflow(value, 10, &more) ||
        __builtin_sub_overflow(more, digit, &more)) {
        return INT64_MIN;
    }
    return more;
}

bool
scan_integer(const char *body, size_t at, size_t end, int64_t *value)
{
    CHECK_SLOW(at < end && value != NULL);
    if (!ascii_is_digit(body[at]) && body[at] != '-') {
        return false;
    }
    struct decimal d = decimal_of(body, at, end);
    int64_t v = 0; /* minus the magnitude: there is one more below zero */

    if (d.digits_end == d.digits_at) {
        *value = 0;
        return true;
    }
    if (d.exponent < 0) {
        return false;
    }
    for (size_t i = d.digits_at; i < d.digits_end; i++) {
        v = ascii_is_digit(body[i]) ? append_digit(v, body[i] - '0') : v;
    }
    for (int64_t i = 0; i < d.exponent && v != INT64_MIN; i++) {
        v = append_digit(v, 0);
    }
    *value = d.negative ? v : v == INT64_MIN ? INT64_MAX : -v;
    return true;
}
