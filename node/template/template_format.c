/* "..." % values and "...".format(...), with Python's format specifications. */
#include "node/template/template_format_internal.h"

#include <math.h>
#include <stdio.h>

#include "index/base/ascii.h"

/* Pads what was appended to the output since `from`. */
void
tpl_format_pad(struct tpl_run *run, size_t from,
               const struct tpl_format_spec *spec, char align)
{
    struct slice text = {run->out->ptr + from, run->out->len - from};
    size_t count = tpl_text_count(text);
    size_t sign = 0;
    struct slice done;
    size_t missing = 0;
    size_t left = 0;

    if (spec->width <= count) {
        return;
    }
    missing = spec->width - count;
    tpl_step(run, missing / 16);
    if (align == '=' && text.len > 0 && strchr("+- ", text.ptr[0]) != NULL) {
        sign = 1;
    }
    if (align == '=' && spec->alternate && text.len > sign + 1 &&
        text.ptr[sign] == '0' && !ascii_is_digit(text.ptr[sign + 1]) &&
        text.ptr[sign + 1] != '.') {
        sign += 2;
    }
    done = tpl_caught(run, from);
    left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
    buf_add(run->out, done.ptr, sign);
    for (size_t i = 0; i < left; i++) {
        buf_add(run->out, spec->fill, spec->fill_len);
    }
    buf_add(run->out, done.ptr + sign, done.len - sign);
    for (size_t i = left; i < missing; i++) {
        buf_add(run->out, spec->fill, spec->fill_len);
    }
    tpl_check_out(run);
}

static void
put_sign(struct tpl_run *run, const struct tpl_format_spec *spec, bool negative)
{
    if (negative) {
        buf_add_text(run->out, "-");
    } else if (spec->sign == '+' || spec->sign == ' ') {
        buf_add(run->out, &spec->sign, 1);
    }
}

/* Digits with a separator after each group from the right. */
static void
put_grouped(struct tpl_run *run, const char *digits, size_t n, char separator,
            size_t group)
{
    for (size_t i = 0; i < n; i++) {
        if (separator != '\0' && i > 0 && (n - i) % group == 0) {
            buf_add(run->out, &separator, 1);
        }
        buf_add(run->out, digits + i, 1);
    }
}

void
tpl_format_int(struct tpl_run *run, struct json_value value,
               const struct tpl_format_spec *spec, char type)
{
    char digits[72];
    char *at = digits + sizeof digits;
    bool negative = value.as.integer < 0;
    uint64_t rest = negative ? (uint64_t)0 - (uint64_t)value.as.integer
                             : (uint64_t)value.as.integer;
    unsigned base = type == 'b'                  ? 2
                    : type == 'o'                ? 8
                    : type == 'x' || type == 'X' ? 16
                                                 : 10;
    char prefix[3] = {'0', type, '\0'};

    do {
        *--at = (type == 'X' ? "0123456789ABCDEF"
                             : "0123456789abcdef")[rest % base];
        rest /= base;
    } while (rest > 0);
    put_sign(run, spec, negative);
    if (spec->alternate && base != 10) {
        buf_add(run->out, prefix, 2);
    }
    for (size_t n = (size_t)(digits + sizeof digits - at);
         spec->precision_given && n < spec->precision && spec->percent; n++) {
        buf_add_text(run->out, "0");
    }
    put_grouped(run, at, (size_t)(digits + sizeof digits - at), spec->grouping,
                base == 10 ? 3 : 4);
}

/* What C's printf makes of it, with digits grouped before the point. */
static void
put_printf(struct tpl_run *run, const struct tpl_format_spec *spec, char type,
           double real)
{
    char form[8];
    char *text = NULL;
    size_t n = 0;
    size_t whole = 0;
    int len = 0;

    (void)snprintf(form, sizeof form, "%%%s.*%c", spec->alternate ? "#" : "",
                   type);
    text = tpl_take(run, (size_t)spec->precision + 400);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    len = snprintf(text, (size_t)spec->precision + 400, form,
                   (int)spec->precision, real);
#pragma GCC diagnostic pop
    CHECK(len > 0 && (size_t)len < (size_t)spec->precision + 400);
    n = (size_t)len;
    while (whole < n && ascii_is_digit(text[whole])) {
        whole++;
    }
    put_grouped(run, text, whole, spec->grouping, 3);
    buf_add(run->out, text + whole, n - whole);
}

/* format(real, "") and "n" precision without a type: as repr(), or as "g" with
 * a point. */
static void
put_default(struct tpl_run *run, const struct tpl_format_spec *spec,
            double real)
{
    size_t from = run->out->len;
    struct slice text;
    struct tpl_format_spec plain = *spec;

    if (!spec->precision_given) {
        tpl_put_repr(run, run->out, tpl_real(real));
        return;
    }
    plain.precision = spec->precision == 0 ? 1 : spec->precision;
    put_printf(run, &plain, 'g', real);
    text = (struct slice){run->out->ptr + from, run->out->len - from};
    if (memchr(text.ptr, '.', text.len) == NULL &&
        memchr(text.ptr, 'e', text.len) == NULL) {
        buf_add_text(run->out, ".0");
    }
}

void
tpl_format_real(struct tpl_run *run, double real,
                const struct tpl_format_spec *given, char type)
{
    struct tpl_format_spec spec = *given;
    bool negative = signbit(real) != 0 && !isnan(real);

    if (spec.precision > 1000) {
        tpl_fail(run, "format: precision too large");
    }
    if (!spec.precision_given) {
        spec.precision = 6;
    }
    put_sign(run, &spec, negative);
    real = fabs(real);
    if (type == '%') {
        real *= 100;
    }
    if (!isfinite(real)) {
        buf_add_text(run->out, isnan(real) ? "nan" : "inf");
        buf_add_text(run->out, type == '%' ? "%" : "");
        return;
    }
    if (type == '%') {
        put_printf(run, &spec, 'f', real);
        buf_add_text(run->out, "%");
    } else if (type == '\0') {
        put_default(run, &spec, real);
    } else {
        if ((type == 'g' || type == 'G' || type == 'n') &&
            spec.precision == 0) {
            spec.precision = 1;
        }
        put_printf(run, &spec, type == 'n' ? 'g' : type, real);
    }
}

/* A text, cut to the precision. */
void
tpl_format_text(struct tpl_run *run, struct slice text,
                const struct tpl_format_spec *spec)
{
    if (spec->precision_given) {
        text.len = tpl_text_offset(text, spec->precision);
    }
    buf_add_slice(run->out, text);
}

/* ascii(): repr() with everything else escaped. */
void
tpl_format_ascii(struct tpl_run *run, struct json_value value)
{
    size_t from = run->out->len;
    struct slice text;

    tpl_put_repr(run, run->out, value);
    text = tpl_caught(run, from);
    for (size_t at = 0; at < text.len;) {
        size_t start = at;
        uint32_t c = tpl_text_next(text, &at);
        if (c < 0x80) {
            buf_add(run->out, text.ptr + start, 1);
        } else {
            buf_printf(run->out,
                       c < 0x100     ? "\\x%02x"
                       : c < 0x10000 ? "\\u%04x"
                                     : "\\U%08x",
                       (unsigned)c);
        }
    }
}
