/* Operators of two values, by Python's rules. */
#include "node/template/template_run_internal.h"

#include <math.h>

static bool
is_integer(struct json_value value)
{
    return value.kind == JSON_INT || value.kind == JSON_BOOL;
}

static bool
is_marked(struct json_value value)
{
    return value.kind == JSON_STRING && (value.mark & TPL_MARK_SAFE) != 0;
}

NORETURN static void
too_large(struct tpl_run *run)
{
    tpl_fail(run, "integers beyond 64 bits are not supported here");
}

static struct json_value
add_texts(struct tpl_run *run, struct json_value a, struct json_value b)
{
    struct json_value sum;
    bool safe = is_marked(a) || is_marked(b);

    if (safe) { /* what is not marked is escaped */
        a = tpl_escape(run, a);
        b = tpl_escape(run, b);
    }
    sum = tpl_text(run, tpl_join2(run, tpl_slice(a), tpl_slice(b)));
    sum.mark = safe ? TPL_MARK_SAFE : 0;
    return sum;
}

static struct json_value
add_items(struct tpl_run *run, struct json_value a, struct json_value b)
{
    struct json_value *items = tpl_take_values(run, (size_t)a.len + b.len);

    if (a.len > 0) {
        memcpy(items, a.as.items, a.len * sizeof *items);
    }
    if (b.len > 0) {
        memcpy(items + a.len, b.as.items, b.len * sizeof *items);
    }
    return tpl_array(a.kind, items, (size_t)a.len + b.len);
}

/* A text or list n times. */
static struct json_value
repeat(struct tpl_run *run, struct json_value of, int64_t n)
{
    size_t unit = of.kind == JSON_STRING ? 1 : sizeof(struct json_value);
    size_t bytes = of.len * unit;
    char *to = NULL;
    struct json_value result = of;

    n = n < 0 || bytes == 0 ? 0 : n;
    if (n > 0 && bytes > run->limits->memory_bytes / (size_t)n) {
        tpl_fail(run, "out of memory: repeated too often");
    }
    tpl_step(run, bytes * (size_t)n / 64);
    to = tpl_take(run, bytes * (size_t)n);
    for (int64_t i = 0; i < n; i++) {
        memcpy(to + (size_t)i * bytes, of.as.text, bytes);
    }
    result.len = (uint32_t)(of.len * (uint32_t)n);
    result.mark &= TPL_MARK_SAFE;
    result.as.text = to;
    return result;
}

static int64_t
floor_div(int64_t a, int64_t b)
{
    int64_t q = a / b;

    return q - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t
floor_mod(int64_t a, int64_t b)
{
    int64_t r = a % b;

    return r + (r != 0 && (r < 0) != (b < 0) ? b : 0);
}

static struct json_value
int_pow(struct tpl_run *run, int64_t base, int64_t exponent)
{
    int64_t result = 1;

    if (exponent < 0) {
        if (base == 0) {
            tpl_fail(run, "0 cannot be raised to a negative power");
        }
        return tpl_real(pow((double)base, (double)exponent));
    }
    if (exponent > 64 && (base > 1 || base < -1)) {
        too_large(run);
    }
    if (exponent > 64) {
        exponent = 2 + exponent % 2;
    }
    for (; exponent > 0; exponent--) {
        if (__builtin_mul_overflow(result, base, &result)) {
            too_large(run);
        }
    }
    return tpl_int(result);
}

static struct json_value
int_binary(struct tpl_run *run, enum tpl_op op, int64_t a, int64_t b)
{
    int64_t result = 0;
    bool over = false;

    if (b == 0 && (op == TPL_DIV || op == TPL_FLOORDIV || op == TPL_MOD)) {
        tpl_fail(run, "division by zero");
    }
    switch ((int)op) {
    case TPL_ADD:
        over = __builtin_add_overflow(a, b, &result);
        break;
    case TPL_SUB:
        over = __builtin_sub_overflow(a, b, &result);
        break;
    case TPL_MUL:
        over = __builtin_mul_overflow(a, b, &result);
        break;
    case TPL_DIV:
        return tpl_real((double)((long double)a / (long double)b));
    case TPL_FLOORDIV:
        over = b == -1 && a == INT64_MIN;
        result = over ? 0 : floor_div(a, b);
        break;
    case TPL_MOD:
        result = b == -1 ? 0 : floor_mod(a, b);
        break;
    default:
        return int_pow(run, a, b);
    }
    if (over) {
        too_large(run);
    }
    return tpl_int(result);
}

/* Python's float // and %: the remainder has the divisor's sign. */
static double
real_mod(double a, double b, double *floored)
{
    double mod = fmod(a, b);
    double div = (a - mod) / b;

    if (mod != 0) {
        if ((b < 0) != (mod < 0)) {
            mod += b;
            div -= 1;
        }
    } else {
        mod = copysign(0, b);
    }
    if (div != 0) {
        *floored = floor(div);
        *floored += div - *floored > 0.5;
    } else {
        *floored = copysign(0, a / b);
    }
    return mod;
}

static double
real_pow(struct tpl_run *run, double a, double b)
{
    double result = 0;

    if (a == 0 && b < 0) {
        tpl_fail(run, "0.0 cannot be raised to a negative power");
    }
    if (a < 0 && isfinite(a) && isfinite(b) && floor(b) != b) {
        tpl_fail(run, "complex numbers are not supported");
    }
    result = pow(a, b);
    if (isinf(result) && isfinite(a) && isfinite(b)) {
        tpl_fail(run, "Numerical result out of range");
    }
    return result;
}

static struct json_value
real_binary(struct tpl_run *run, enum tpl_op op, double a, double b)
{
    double floored = 0;
    double mod = 0;

    if (b == 0 && (op == TPL_DIV || op == TPL_FLOORDIV || op == TPL_MOD)) {
        tpl_fail(run, "division by zero");
    }
    switch ((int)op) {
    case TPL_ADD:
        return tpl_real(a + b);
    case TPL_SUB:
        return tpl_real(a - b);
    case TPL_MUL:
        return tpl_real(a * b);
    case TPL_DIV:
        return tpl_real(a / b);
    case TPL_POW:
        return tpl_real(real_pow(run, a, b));
    default:
        mod = real_mod(a, b, &floored);
        return tpl_real(op == TPL_MOD ? mod : floored);
    }
}

struct json_value
tpl_binary(struct tpl_run *run, enum tpl_op op, struct json_value a,
           struct json_value b)
{
    if (op == TPL_MOD && a.kind == JSON_STRING) {
        return tpl_percent(run, a, b);
    }
    if (tpl_is_number(a) && tpl_is_number(b)) {
        if (is_integer(a) && is_integer(b)) {
            return int_binary(run, op, a.as.integer, b.as.integer);
        }
        return real_binary(run, op, tpl_as_real(run, a), tpl_as_real(run, b));
    }
    if (op == TPL_ADD && a.kind == b.kind) {
        if (a.kind == JSON_STRING) {
            return add_texts(run, a, b);
        }
        if (tpl_is_sequence(a)) {
            return add_items(run, a, b);
        }
    }
    if (op == TPL_MUL) {
        if ((a.kind == JSON_STRING || tpl_is_sequence(a)) && is_integer(b)) {
            return repeat(run, a, b.as.integer);
        }
        if ((b.kind == JSON_STRING || tpl_is_sequence(b)) && is_integer(a)) {
            return repeat(run, b, a.as.integer);
        }
    }
    tpl_fail_type(run, "unsupported operand",
                  b.kind == TPL_V_UNDEFINED ? b : a);
}

struct json_value
tpl_negate(struct tpl_run *run, struct json_value a, bool minus)
{
    if (a.kind == JSON_REAL) {
        return tpl_real(minus ? -a.as.real : a.as.real);
    }
    if (a.kind == JSON_BIG) {
        too_large(run);
    }
    if (!is_integer(a)) {
        tpl_fail_type(run, "bad operand for unary operator", a);
    }
    if (minus && a.as.integer == INT64_MIN) {
        too_large(run);
    }
    return tpl_int(minus ? -a.as.integer : a.as.integer);
}

struct json_value
tpl_to_int(struct tpl_run *run, struct json_value real)
{
    double x = real.as.real;

    CHECK(real.kind == JSON_REAL && isfinite(x));
    if (!(x > -9223372036854775808.0 && x < 9223372036854775808.0)) {
        too_large(run);
    }
    return tpl_int((int64_t)x);
}
