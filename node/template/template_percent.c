/* "..." % values, as printf: %s %r %a %d %i %u %c %x %o %e %f %g %%. */
#include "node/template/template_format_internal.h"

#include "index/base/ascii.h"

struct percent {
    struct tpl_run *run;
    struct slice format;
    size_t at;
    struct json_value values; /* a tuple, or one value */
    uint32_t used;
    bool named; /* values are taken by name */
};

static struct json_value
next_value(struct percent *percent)
{
    bool tuple = percent->values.kind == TPL_V_TUPLE;
    uint32_t count = tuple ? percent->values.len : 1;

    if (percent->used >= count) {
        tpl_fail(percent->run, "not enough arguments for format string");
    }
    percent->used++;
    return tuple ? percent->values.as.items[percent->used - 1]
                 : percent->values;
}

static char
peek(const struct percent *percent)
{
    if (percent->at >= percent->format.len) {
        tpl_fail(percent->run, "incomplete format");
    }
    return percent->format.ptr[percent->at];
}

/* "(name)": the value of that name. */
static bool
take_name(struct percent *percent, struct json_value *value)
{
    size_t from = percent->at + 1;
    uint32_t depth = 1;
    const struct json_value *found = NULL;
    struct slice name;

    if (peek(percent) != '(') {
        return false;
    }
    if (percent->values.kind != JSON_OBJECT) {
        tpl_fail(percent->run, "format requires a mapping");
    }
    while (depth > 0) {
        char c = '\0';
        percent->at++;
        c = peek(percent);
        depth += c == '(';
        depth -= c == ')';
    }
    name = (struct slice){percent->format.ptr + from, percent->at - from};
    percent->at++;
    found = tpl_dict_get(percent->run, percent->values, json_tree_text(name));
    if (found == NULL) {
        tpl_fail(percent->run, "no value named '%.*s'", (int)name.len,
                 name.ptr);
    }
    percent->named = true;
    *value = *found;
    return true;
}

/* Digits, or "*" for a value. */
static size_t
take_size(struct percent *percent, bool *left)
{
    size_t size = 0;

    if (peek(percent) == '*') {
        int64_t given = tpl_index(percent->run, next_value(percent));
        percent->at++;
        *left |= given < 0;
        given = given < 0 ? -given : given;
        if (given < 0 || given > TPL_FORMAT_WIDTH_MAX) {
            tpl_fail(percent->run, "width too big");
        }
        return (size_t)given;
    }
    while (ascii_is_digit(peek(percent))) {
        size = size * 10 + (size_t)(percent->format.ptr[percent->at++] - '0');
        if (size > TPL_FORMAT_WIDTH_MAX) {
            tpl_fail(percent->run, "width too big");
        }
    }
    return size;
}

static void
take_flags(struct percent *percent, struct tpl_format_spec *spec)
{
    for (;; percent->at++) {
        switch (peek(percent)) {
        case '-':
            spec->left = true;
            break;
        case '+':
            spec->sign = '+';
            break;
        case ' ':
            spec->sign = spec->sign == '+' ? '+' : ' ';
            break;
        case '#':
            spec->alternate = true;
            break;
        case '0':
            spec->fill[0] = '0';
            break;
        default:
            return;
        }
    }
}

static void
put_char(struct tpl_run *run, struct json_value value)
{
    char text[4];

    if (value.kind == JSON_STRING && tpl_text_count(tpl_slice(value)) == 1) {
        buf_add_slice(run->out, tpl_slice(value));
        return;
    }
    if (value.kind != JSON_INT || value.as.integer < 0 ||
        value.as.integer > 0x10FFFF ||
        (value.as.integer >= 0xD800 && value.as.integer <= 0xDFFF)) {
        tpl_fail_type(run, "%c requires int or char", value);
    }
    buf_add(run->out, text, utf8_write((uint32_t)value.as.integer, text));
}

/* An integer for %d; %x and %o take no reals. */
static struct json_value
integer_for(struct tpl_run *run, struct json_value value, char type)
{
    if (value.kind == JSON_REAL &&
        (type == 'd' || type == 'i' || type == 'u') &&
        value.as.real - value.as.real == 0) {
        return tpl_to_int(run, value);
    }
    return tpl_int(tpl_index(run, value));
}

static void
put_value(struct percent *percent, struct json_value value, char type,
          const struct tpl_format_spec *spec)
{
    struct tpl_run *run = percent->run;
    size_t from = run->out->len;

    switch (type) {
    case 's':
        tpl_format_text(run, tpl_str(run, value), spec);
        break;
    case 'r':
        tpl_put_repr(run, run->out, value);
        tpl_format_text(run, tpl_caught(run, from), spec);
        break;
    case 'a':
        tpl_format_ascii(run, value);
        tpl_format_text(run, tpl_caught(run, from), spec);
        break;
    case 'c':
        put_char(run, value);
        break;
    case 'd':
    case 'i':
    case 'u':
    case 'o':
    case 'x':
    case 'X':
        tpl_format_int(run, integer_for(run, value, type), spec,
                       type == 'i' || type == 'u' ? 'd' : type);
        break;
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
        tpl_format_real(run, tpl_as_real(run, value), spec, type);
        break;
    default:
        tpl_fail(run, "unsupported format character '%c'", type);
    }
}

/* What stands behind a "%". */
static void
put_one(struct percent *percent)
{
    struct tpl_format_spec spec = {.fill = " ", .fill_len = 1, .percent = true};
    struct json_value value = tpl_none();
    bool named = take_name(percent, &value);
    bool unused = false;
    size_t from = percent->run->out->len;
    char type = '\0';
    bool number = false;

    take_flags(percent, &spec);
    spec.width = take_size(percent, &spec.left);
    if (peek(percent) == '.') {
        percent->at++;
        spec.precision_given = true;
        spec.precision = take_size(percent, &unused);
    }
    while (strchr("hlL", peek(percent)) != NULL) {
        percent->at++;
    }
    type = peek(percent);
    percent->at++;
    if (type == '%') {
        buf_add_text(percent->run->out, "%");
        return;
    }
    if (!named) {
        value = next_value(percent);
    }
    put_value(percent, value, type, &spec);
    number = type != '\0' && strchr("srac", type) == NULL;
    if (!number || spec.left) {
        spec.fill[0] = ' ';
    }
    tpl_format_pad(percent->run, from, &spec,
                   spec.left                       ? '<'
                   : number && spec.fill[0] == '0' ? '='
                                                   : '>');
}

struct json_value
tpl_percent(struct tpl_run *run, struct json_value format,
            struct json_value values)
{
    struct percent percent = {
        .run = run, .format = tpl_slice(format), .values = values};
    size_t from = run->out->len;
    struct json_value result;

    if ((format.mark & TPL_MARK_SAFE) != 0) {
        tpl_fail(run, "%% of a safe text is not supported");
    }
    while (percent.at < percent.format.len) {
        const char *rest = percent.format.ptr + percent.at;
        size_t left = percent.format.len - percent.at;
        const char *next = memchr(rest, '%', left);
        size_t n = next != NULL ? (size_t)(next - rest) : left;
        buf_add(run->out, rest, n);
        percent.at += n;
        if (next != NULL) {
            percent.at++;
            tpl_step(run, 1);
            put_one(&percent);
        }
        tpl_check_out(run);
    }
    if (!percent.named && values.kind != JSON_OBJECT &&
        percent.used < (values.kind == TPL_V_TUPLE ? values.len : 1)) {
        /* Lists and dictionaries may be left over: they could be mappings. */
        if (values.kind != JSON_ARRAY) {
            tpl_fail(run, "not all arguments converted during string "
                          "formatting");
        }
    }
    result = tpl_text(run, tpl_caught(run, from));
    return result;
}
