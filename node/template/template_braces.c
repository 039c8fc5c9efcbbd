/* "...".format(...): fields, conversions and format specifications. */
#include "index/base/ascii.h"
#include "node/template/template_format_internal.h"

struct braces {
    struct tpl_run *run;
    const struct tpl_args *args;
    uint32_t next;  /* of the automatic numbers */
    bool automatic; /* "{}" was used */
    bool manual;    /* "{0}" was used */
};

static void put_all(struct braces *braces, struct slice format, int depth);

static bool
is_number(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (!ascii_is_digit(text.ptr[i])) {
            return false;
        }
    }
    return text.len > 0 && text.len < 9;
}

static int64_t
number(struct slice text)
{
    int64_t value = 0;

    for (size_t i = 0; i < text.len; i++) {
        value = value * 10 + (text.ptr[i] - '0');
    }
    return value;
}

/* The value that a field's name begins with. */
static struct json_value
first_value(struct braces *braces, struct slice name)
{
    uint32_t at = 0;

    if (name.len == 0 || is_number(name)) {
        braces->automatic |= name.len == 0;
        braces->manual |= name.len != 0;
        if (braces->automatic && braces->manual) {
            tpl_fail(braces->run, "cannot switch between automatic and manual "
                                  "field numbering");
        }
        at = name.len == 0 ? braces->next++ : (uint32_t)number(name);
        if (at >= braces->args->count) {
            tpl_fail(braces->run, "Replacement index out of range");
        }
        return braces->args->at[at];
    }
    for (uint32_t i = 0; i < braces->args->kw_count; i++) {
        if (slice_equal(tpl_slice(braces->args->kw[(size_t)2 * i]), name)) {
            return braces->args->kw[(size_t)2 * i + 1];
        }
    }
    tpl_fail(braces->run, "no argument '%.*s'", (int)name.len, name.ptr);
}

static size_t
name_end(struct slice text, size_t at)
{
    while (at < text.len && text.ptr[at] != '.' && text.ptr[at] != '[') {
        at++;
    }
    return at;
}

/* "0.name[key]" */
static struct json_value
field_value(struct braces *braces, struct slice field)
{
    size_t at = name_end(field, 0);
    struct json_value value =
        first_value(braces, (struct slice){field.ptr, at});

    while (at < field.len) {
        size_t from = at + 1;
        struct slice name;
        if (field.ptr[at] == '.') {
            at = name_end(field, from);
            name = (struct slice){field.ptr + from, at - from};
            value = tpl_getattr(braces->run, value, name);
        } else {
            while (at < field.len && field.ptr[at] != ']') {
                at++;
            }
            if (at == field.len) {
                tpl_fail(braces->run, "Missing ']' in format string");
            }
            name = (struct slice){field.ptr + from, at - from};
            value = tpl_getitem(
                braces->run, value,
                is_number(name) ? tpl_int(number(name)) : json_tree_text(name));
            at++;
            if (at < field.len && field.ptr[at] != '.' &&
                field.ptr[at] != '[') {
                tpl_fail(braces->run, "Only '.' or '[' may follow ']'");
            }
        }
        if (name.len == 0) {
            tpl_fail(braces->run, "Empty attribute in format string");
        }
    }
    return value;
}

static size_t
take_number(struct tpl_run *run, struct slice text, size_t *at)
{
    size_t value = 0;

    while (*at < text.len && ascii_is_digit(text.ptr[*at])) {
        value = value * 10 + (size_t)(text.ptr[(*at)++] - '0');
        if (value > TPL_FORMAT_WIDTH_MAX) {
            tpl_fail(run, "format: width too big");
        }
    }
    return value;
}

static bool
is_align(char c)
{
    return c == '<' || c == '>' || c == '^' || c == '=';
}

/* The fill and the alignment; returns the offset behind. */
static size_t
take_align(struct slice text, struct tpl_format_spec *spec)
{
    size_t first = 0;

    if (text.len > 0) {
        (void)tpl_text_next(text, &first);
    }
    if (first > 0 && first < text.len && is_align(text.ptr[first])) {
        memcpy(spec->fill, text.ptr, first);
        spec->fill_len = first;
        spec->align = text.ptr[first];
        return first + 1;
    }
    if (text.len > 0 && is_align(text.ptr[0])) {
        spec->align = text.ptr[0];
        return 1;
    }
    return 0;
}

static char
at_or_nul(struct slice text, size_t at)
{
    return at < text.len ? text.ptr[at] : '\0';
}

/* [[fill]align][sign][#][0][width][grouping][.precision][type] */
static struct tpl_format_spec
parse_spec(struct tpl_run *run, struct slice text)
{
    struct tpl_format_spec spec = {.fill = " ", .fill_len = 1};
    size_t at = take_align(text, &spec);
    char c = at_or_nul(text, at);

    if (c == '+' || c == '-' || c == ' ') {
        spec.sign = c == '-' ? '\0' : c;
        c = at_or_nul(text, ++at);
    }
    if (c == '#') {
        spec.alternate = true;
        c = at_or_nul(text, ++at);
    }
    if (c == '0' && spec.align == '\0') {
        spec.fill[0] = '0';
        spec.align = '=';
    }
    spec.width = take_number(run, text, &at);
    c = at_or_nul(text, at);
    if (c == ',' || c == '_') {
        spec.grouping = c;
        c = at_or_nul(text, ++at);
    }
    if (c == '.') {
        at++;
        spec.precision_given = true;
        if (!ascii_is_digit(at_or_nul(text, at))) {
            tpl_fail(run, "Format specifier missing precision");
        }
        spec.precision = take_number(run, text, &at);
    }
    spec.type = at_or_nul(text, at);
    if (at + (spec.type != '\0') != text.len) {
        tpl_fail(run, "Invalid format specifier '%.*s'", (int)text.len,
                 text.ptr);
    }
    return spec;
}

static bool
one_of(char c, const char *set)
{
    return c == '\0' || strchr(set, c) != NULL;
}

/* format(value, spec) */
static void
put_formatted(struct tpl_run *run, struct json_value value, struct slice text)
{
    size_t from = run->out->len;
    struct tpl_format_spec spec;

    if (text.len == 0) {
        tpl_put_str(run, run->out, value);
        return;
    }
    spec = parse_spec(run, text);
    if (value.kind == JSON_STRING) {
        if (!one_of(spec.type, "s") || spec.align == '=' || spec.sign != '\0' ||
            spec.grouping != '\0' || spec.alternate) {
            tpl_fail(run, "Unknown format code for object of type 'str'");
        }
        tpl_format_text(run, tpl_slice(value), &spec);
        tpl_format_pad(run, from, &spec, spec.align != '\0' ? spec.align : '<');
        return;
    }
    if ((value.kind == JSON_INT || value.kind == JSON_BOOL) &&
        one_of(spec.type, "dboxXn")) {
        if (spec.precision_given) {
            tpl_fail(run, "Precision not allowed in integer format specifier");
        }
        tpl_format_int(run, value, &spec, spec.type);
    } else if (tpl_is_number(value) && one_of(spec.type, "eEfFgGn%")) {
        tpl_format_real(run, tpl_as_real(run, value), &spec, spec.type);
    } else {
        tpl_fail_type(run, "unsupported format string", value);
    }
    if (spec.fill[0] == '0' && spec.align == '=' && spec.grouping != '\0') {
        tpl_fail(run, "format: zeros with grouping are not supported");
    }
    tpl_format_pad(run, from, &spec, spec.align != '\0' ? spec.align : '>');
}

/* One field: what stands between the braces. */
static void
put_field(struct braces *braces, struct slice field, int depth)
{
    struct tpl_run *run = braces->run;
    size_t end = 0;
    size_t from = run->out->len;
    struct slice spec = {NULL, 0};
    struct json_value value;
    char conversion = '\0';

    for (int open = 0; end < field.len; end++) {
        char c = field.ptr[end];
        open += c == '[';
        open -= c == ']';
        if (open <= 0 && (c == '!' || c == ':')) {
            break;
        }
    }
    value = field_value(braces, (struct slice){field.ptr, end});
    if (at_or_nul(field, end) == '!') {
        conversion = at_or_nul(field, end + 1);
        end += 2;
        if (end < field.len && field.ptr[end] != ':') {
            tpl_fail(run, "expected ':' after conversion specifier");
        }
    }
    if (end < field.len) {
        put_all(braces,
                (struct slice){field.ptr + end + 1, field.len - end - 1},
                depth + 1);
        spec = tpl_caught(run, from);
    }
    if (conversion == 'r') {
        tpl_put_repr(run, run->out, value);
        value = tpl_text(run, tpl_caught(run, from));
    } else if (conversion == 's') {
        value = json_tree_text(tpl_str(run, value));
    } else if (conversion == 'a') {
        tpl_format_ascii(run, value);
        value = tpl_text(run, tpl_caught(run, from));
    } else if (conversion != '\0') {
        tpl_fail(run, "Unknown conversion specifier '%c'", conversion);
    }
    put_formatted(run, value, spec);
}

/* The offset of the brace that closes the field at this offset. */
static size_t
field_end(struct tpl_run *run, struct slice format, size_t at)
{
    int open = 1;

    for (; at < format.len; at++) {
        open += format.ptr[at] == '{';
        open -= format.ptr[at] == '}';
        if (open == 0) {
            return at;
        }
    }
    tpl_fail(run, "expected '}' before end of string");
}

static void
put_all(struct braces *braces, struct slice format, int depth)
{
    struct tpl_run *run = braces->run;

    if (depth > 1 && memchr(format.ptr, '{', format.len) != NULL) {
        tpl_fail(run, "Max string recursion exceeded");
    }
    for (size_t at = 0; at < format.len; at++) {
        char c = format.ptr[at];
        size_t end = 0;
        tpl_step(run, 1);
        if (c != '{' && c != '}') {
            buf_add(run->out, &c, 1);
            continue;
        }
        if (at_or_nul(format, at + 1) == c && depth == 0) {
            buf_add(run->out, &c, 1);
            at++;
            continue;
        }
        if (c == '}') {
            tpl_fail(run, "Single '}' encountered in format string");
        }
        end = field_end(run, format, at + 1);
        put_field(braces, (struct slice){format.ptr + at + 1, end - at - 1},
                  depth);
        tpl_check_out(run);
        at = end;
    }
}

struct json_value
tpl_format(struct tpl_run *run, struct json_value format,
           const struct tpl_args *args)
{
    struct braces braces = {.run = run, .args = args};
    size_t from = run->out->len;

    if ((format.mark & TPL_MARK_SAFE) != 0) {
        tpl_fail(run, "format() of a safe text is not supported");
    }
    put_all(&braces, tpl_slice(format), 0);
    return tpl_text(run, tpl_caught(run, from));
}
