/* Filters of numbers and of single values. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "index/base/ascii.h"
#include "node/template/template_filter_internal.h"

/* A number's text without blanks around and single underscores inside, with a
 * NUL. NULL: it cannot be one. */
static char *
number_text(struct tpl_run *run, struct slice text)
{
    char *out = NULL;
    size_t len = 0;

    text = tpl_text_rstrip(tpl_text_lstrip(text));
    out = tpl_take(run, text.len + 1);
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (c == '_') {
            if (i == 0 || i + 1 == text.len || ascii_hex(text.ptr[i - 1]) < 0 ||
                ascii_hex(text.ptr[i + 1]) < 0) {
                return NULL;
            }
            continue;
        }
        if ((unsigned char)c >= 0x80 || c == '\0') {
            return NULL;
        }
        out[len++] = c;
    }
    out[len] = '\0';
    return len > 0 ? out : NULL;
}

/* The digits behind a prefix that the base allows ("0x"). */
static const char *
behind_prefix(const char *digits, int64_t *base)
{
    char mark = digits[0] == '0' ? ascii_lower(digits[1]) : '\0';
    int64_t meant = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;

    if (meant != 0 && (*base == meant || *base == 0)) {
        *base = meant;
        return digits + 2;
    }
    *base = *base == 0 ? 10 : *base;
    return digits;
}

/* Python's int(text, base). False: it is no integer. */
static bool
parse_int(struct tpl_run *run, struct slice text, int64_t base,
          struct json_value *value)
{
    char *number = number_text(run, text);
    const char *digits = number;
    char *end = NULL;

    if (number == NULL || (base != 0 && (base < 2 || base > 36))) {
        return false;
    }
    digits += *digits == '-' || *digits == '+';
    digits = behind_prefix(digits, &base);
    if (ascii_hex(*digits) < 0 && !(base > 16 && *digits > ' ')) {
        return false;
    }
    errno = 0;
    *value = tpl_int(strtoll(digits, &end, (int)base));
    if (*end != '\0' || *digits == '-' || *digits == '+') {
        return false;
    }
    if (errno == ERANGE) {
        tpl_fail(run, "integers beyond 64 bits are not supported here");
    }
    if (number[0] == '-') {
        value->as.integer = -value->as.integer;
    }
    return true;
}

/* Python's float(text). */
static bool
parse_real(struct tpl_run *run, struct slice text, double *real)
{
    char *number = number_text(run, text);
    char *end = NULL;

    if (number == NULL || strpbrk(number, "xXpP(") != NULL) {
        return false;
    }
    *real = strtod(number, &end);
    return *end == '\0' && end != number;
}

/* int(float(value)), or the default. */
static struct json_value
int_of_real(struct tpl_run *run, struct json_value value,
            struct json_value preset)
{
    double real = 0;

    if (value.kind == JSON_STRING) {
        if (!parse_real(run, tpl_slice(value), &real)) {
            return preset;
        }
    } else if (value.kind == JSON_REAL) {
        real = value.as.real;
    } else {
        return preset;
    }
    return isfinite(real) ? tpl_to_int(run, tpl_real(real)) : preset;
}

/* int(default=0, base=10) */
TPL_FILTER(int)
{
    struct json_value preset = params[0] != NULL ? *params[0] : tpl_int(0);
    int64_t base = params[1] != NULL ? tpl_index(run, *params[1]) : 10;
    struct json_value value;

    switch ((int)subject.kind) {
    case TPL_V_UNDEFINED:
        tpl_fail_type(run, "int", subject);
    case JSON_BOOL:
    case JSON_INT:
        return tpl_int(subject.as.integer);
    case JSON_BIG:
        return subject;
    case JSON_REAL:
        if (isinf(subject.as.real)) {
            tpl_fail(run, "cannot convert float infinity to integer");
        }
        return int_of_real(run, subject, preset);
    case JSON_STRING:
        if (parse_int(run, tpl_slice(subject), base, &value)) {
            return value;
        }
        return int_of_real(run, subject, preset);
    default:
        return preset;
    }
}

/* float(default=0.0) */
TPL_FILTER(float)
{
    struct json_value preset = params[0] != NULL ? *params[0] : tpl_real(0);
    double real = 0;

    if (subject.kind == TPL_V_UNDEFINED) {
        tpl_fail_type(run, "float", subject);
    }
    if (tpl_is_number(subject)) {
        return tpl_real(tpl_as_real(run, subject));
    }
    if (subject.kind == JSON_STRING &&
        parse_real(run, tpl_slice(subject), &real)) {
        return tpl_real(real);
    }
    return preset;
}

TPL_FILTER(abs)
{
    (void)params;
    if (subject.kind == JSON_REAL) {
        return tpl_real(fabs(subject.as.real));
    }
    if (tpl_index(run, subject) < 0) {
        return tpl_negate(run, subject, true);
    }
    return tpl_int(subject.as.integer);
}

/* Python's round(x, n): the nearest decimal, by way of its text. */
static double
round_real(double x, int64_t n)
{
    char text[400];
    double scale = 0;

    if (!isfinite(x) || n > 300) {
        return x;
    }
    if (n < -300) {
        return 0 * x;
    }
    if (n >= 0) {
        (void)snprintf(text, sizeof text, "%.*f", (int)n, x);
        return strtod(text, NULL);
    }
    scale = pow(10, (double)-n);
    return nearbyint(x / scale) * scale;
}

static double
scale_of(struct tpl_run *run, int64_t precision)
{
    if (precision > 300 || precision < -300) {
        tpl_fail(run, "round: precision out of range");
    }
    return pow(10, (double)precision);
}

/* An integer to tens or hundreds: to the nearest even one at a half. */
static int64_t
round_int(struct tpl_run *run, int64_t x, int64_t precision)
{
    int64_t unit = 1;
    int64_t rest = 0;
    int64_t down = 0;

    for (; precision < 0; precision++) {
        if (__builtin_mul_overflow(unit, 10, &unit)) {
            return 0;
        }
    }
    rest = x % unit < 0 ? x % unit + unit : x % unit;
    down = x - rest;
    if (rest > unit - rest || (rest == unit - rest && down / unit % 2 != 0)) {
        if (__builtin_add_overflow(down, unit, &down)) {
            tpl_fail(run, "integers beyond 64 bits are not supported here");
        }
    }
    return down;
}

/* round(precision=0, method="common") */
TPL_FILTER(round)
{
    int64_t precision = params[0] != NULL ? tpl_index(run, *params[0]) : 0;
    struct slice method = SLICE("common");
    double scale = 0;
    double x = 0;
    bool up = false;

    if (params[1] != NULL) {
        method = tpl_str(run, *params[1]);
    }
    up = slice_equal(method, SLICE("ceil"));
    if (!up && !slice_equal(method, SLICE("floor"))) {
        if (!slice_equal(method, SLICE("common"))) {
            tpl_fail(run, "method must be common, ceil or floor");
        }
        if (subject.kind != JSON_REAL) {
            return tpl_int(round_int(run, tpl_index(run, subject), precision));
        }
        return tpl_real(round_real(subject.as.real, precision));
    }
    scale = scale_of(run, precision);
    x = tpl_as_real(run, subject) * scale;
    if (!isfinite(x)) {
        tpl_fail(run, "cannot convert float infinity or NaN to integer");
    }
    return tpl_real((up ? ceil(x) : floor(x)) / scale);
}

TPL_FILTER(length)
{
    int64_t len = 0;

    (void)params;
    if (subject.kind == TPL_V_LOOP) {
        return tpl_int(tpl_loop_length(run, subject.as.thing));
    }
    tpl_step(run, subject.kind == JSON_STRING ? subject.len / 64 : 0);
    if (!tpl_length(subject, &len)) {
        tpl_fail_type(run, "has no len()", subject);
    }
    return tpl_int(len);
}

/* default(default_value="", boolean=False) */
TPL_FILTER(default)
{
    (void)run;
    if (subject.kind == TPL_V_UNDEFINED ||
        (tpl_flag(params[1]) && !tpl_truth(subject))) {
        return params[0] != NULL ? *params[0] : json_tree_text(SLICE(""));
    }
    return subject;
}

/* sum(attribute=None, start=0) */
TPL_FILTER(sum)
{
    struct json_value sum = params[1] != NULL ? *params[1] : tpl_int(0);
    struct tpl_walk walk;
    struct json_value item;

    if (sum.kind == JSON_STRING) {
        tpl_fail(run, "sum() can't sum strings");
    }
    tpl_walk_start(run, &walk, subject);
    while (tpl_walk_next(run, &walk, &item)) {
        tpl_step(run, 1);
        if (params[0] != NULL && params[0]->kind != JSON_NULL) {
            item = tpl_follow(run, item, *params[0], NULL);
        }
        sum = tpl_binary(run, TPL_ADD, sum, item);
    }
    return sum;
}

/* attr(name): only attributes, no items. */
TPL_FILTER(attr)
{
    if (subject.kind == TPL_V_UNDEFINED || params[0]->kind != JSON_STRING) {
        tpl_fail_type(run, "attr", subject);
    }
    if (subject.kind == JSON_OBJECT &&
        tpl_method_of(subject, tpl_slice(*params[0])) == NULL) {
        return tpl_undefined(tpl_slice(*params[0]));
    }
    return tpl_getattr(run, subject, tpl_slice(*params[0]));
}
