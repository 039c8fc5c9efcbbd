/* The filter tojson: Python's json.dumps() with the options that transformers
 * hands on. */
#include "node/template/template_run_internal.h"

#include <math.h>

struct dump {
    struct tpl_run *run;
    struct buf *out;
    bool ascii;
    bool sorted;
    bool indented;
    struct slice indent; /* of one level */
    struct slice between_items;
    struct slice after_key;
    uint32_t level;
};

static void dump_value(struct dump *dump, struct json_value value);

static void
dump_unit(struct dump *dump, unsigned unit)
{
    buf_printf(dump->out, "\\u%04x", unit);
}

static void
dump_char(struct dump *dump, struct slice text, size_t from, size_t *at)
{
    static const char plain[] = "\"\\\b\f\n\r\t";
    static const char letters[] = "\"\\bfnrt";
    uint32_t c = tpl_text_next(text, at);
    const char *short_form = c != 0 && c < 0x80 ? strchr(plain, (int)c) : NULL;
    char escape[2] = {'\\', '\0'};

    if (short_form != NULL) {
        escape[1] = letters[short_form - plain];
        buf_add(dump->out, escape, 2);
    } else if (c < 0x20) {
        dump_unit(dump, c);
    } else if (c < 0x7f || !dump->ascii) { /* DEL is escaped, too */
        buf_add(dump->out, text.ptr + from, *at - from);
    } else if (c < 0x10000) {
        dump_unit(dump, c);
    } else {
        dump_unit(dump, 0xD800 + ((c - 0x10000) >> 10));
        dump_unit(dump, 0xDC00 + ((c - 0x10000) & 0x3FF));
    }
}

static void
dump_text(struct dump *dump, struct slice text)
{
    size_t from = 0; /* what was not written yet */

    tpl_step(dump->run, text.len / 64);
    buf_add_text(dump->out, "\"");
    for (size_t at = 0; at < text.len;) {
        unsigned char c = (unsigned char)text.ptr[at];
        if (c >= 0x20 && c != '"' && c != '\\' && (c < 0x7f || !dump->ascii)) {
            at++;
            continue;
        }
        buf_add(dump->out, text.ptr + from, at - from);
        from = at;
        dump_char(dump, text, from, &at);
        from = at;
    }
    buf_add(dump->out, text.ptr + from, text.len - from);
    buf_add_text(dump->out, "\"");
}

static bool
dump_scalar(struct dump *dump, struct json_value value)
{
    switch ((int)value.kind) {
    case JSON_NULL:
        buf_add_text(dump->out, "null");
        return true;
    case JSON_BOOL:
        buf_add_text(dump->out, value.as.integer != 0 ? "true" : "false");
        return true;
    case JSON_REAL:
        if (!isfinite(value.as.real)) {
            buf_add_text(dump->out, isnan(value.as.real) ? "NaN"
                                    : value.as.real > 0  ? "Infinity"
                                                         : "-Infinity");
            return true;
        }
        tpl_put_repr(dump->run, dump->out, value);
        return true;
    case JSON_INT:
    case JSON_BIG:
        tpl_put_repr(dump->run, dump->out, value);
        return true;
    default:
        return false;
    }
}

static void
new_line(struct dump *dump)
{
    if (dump->indented) {
        tpl_step(dump->run, dump->level);
        buf_add_text(dump->out, "\n");
        for (uint32_t i = 0; i < dump->level; i++) {
            buf_add_slice(dump->out, dump->indent);
        }
        tpl_check_out(dump->run);
    }
}

static void
dump_items(struct dump *dump, struct json_value value)
{
    buf_add_text(dump->out, "[");
    dump->level++;
    for (uint32_t i = 0; i < value.len; i++) {
        if (i > 0) {
            buf_add_slice(dump->out, dump->between_items);
        }
        new_line(dump);
        dump_value(dump, value.as.items[i]);
    }
    dump->level--;
    if (value.len > 0) {
        new_line(dump);
    }
    buf_add_text(dump->out, "]");
}

static void
dump_key(struct dump *dump, struct json_value key)
{
    if (key.kind == JSON_STRING) {
        dump_text(dump, tpl_slice(key));
        return;
    }
    buf_add_text(dump->out, "\"");
    if (!dump_scalar(dump, key)) {
        tpl_fail_type(dump->run, "keys must be str, int, float, bool or None",
                      key);
    }
    buf_add_text(dump->out, "\"");
}

/* The members in the order of their keys. Stable; bounded for any input. */
static const struct json_member *
sort_members(struct dump *dump, struct json_value value)
{
    struct json_member *from =
        tpl_take(dump->run, ((size_t)value.len + 1) * sizeof *from);
    struct json_member *to =
        tpl_take(dump->run, ((size_t)value.len + 1) * sizeof *to);

    memcpy(from, value.as.members, value.len * sizeof *from);
    for (uint64_t width = 1; width < value.len; width *= 2) {
        struct json_member *swap = from;
        tpl_step(dump->run, value.len);
        for (uint64_t at = 0; at < value.len; at += 2 * width) {
            uint64_t mid = at + width < value.len ? at + width : value.len;
            uint64_t end = mid + width < value.len ? mid + width : value.len;
            uint64_t a = at;
            uint64_t b = mid;
            for (uint64_t i = at; i < end; i++) {
                bool right =
                    a == mid || (b < end && tpl_order(dump->run, from[b].key,
                                                      from[a].key) < 0);
                to[i] = right ? from[b++] : from[a++];
            }
        }
        from = to;
        to = swap;
    }
    return from;
}

static void
dump_members(struct dump *dump, struct json_value value)
{
    const struct json_member *members = value.as.members;

    if (dump->sorted && value.len > 1) {
        members = sort_members(dump, value);
    }
    buf_add_text(dump->out, "{");
    dump->level++;
    for (uint32_t i = 0; i < value.len; i++) {
        if (i > 0) {
            buf_add_slice(dump->out, dump->between_items);
        }
        new_line(dump);
        dump_key(dump, members[i].key);
        buf_add_slice(dump->out, dump->after_key);
        dump_value(dump, members[i].value);
    }
    dump->level--;
    if (value.len > 0) {
        new_line(dump);
    }
    buf_add_text(dump->out, "}");
}

static void
dump_value(struct dump *dump, struct json_value value)
{
    tpl_step(dump->run, 1);
    if (value.kind == JSON_STRING) {
        dump_text(dump, tpl_slice(value));
        return;
    }
    if (dump_scalar(dump, value)) {
        return;
    }
    tpl_enter(dump->run);
    if (tpl_is_sequence(value)) {
        dump_items(dump, value);
    } else if (value.kind == JSON_OBJECT) {
        dump_members(dump, value);
    } else {
        tpl_fail(dump->run, "Object of type %s is not JSON serializable",
                 tpl_type_name(value));
    }
    tpl_check_out(dump->run);
    tpl_leave(dump->run);
}

/* json.dumps(indent=...): a number of blanks, or a text. */
static void
set_indent(struct dump *dump, struct json_value indent)
{
    char *blanks = NULL;
    int64_t n = 0;

    dump->indented = true;
    if (indent.kind == JSON_STRING) {
        dump->indent = tpl_slice(indent);
        return;
    }
    n = tpl_index(dump->run, indent);
    if (n > 4096) {
        tpl_fail(dump->run, "indented too far");
    }
    n = n < 0 ? 0 : n;
    blanks = tpl_take(dump->run, (size_t)n);
    memset(blanks, ' ', (size_t)n);
    dump->indent = (struct slice){blanks, (size_t)n};
}

static void
set_separators(struct dump *dump, struct json_value separators)
{
    struct json_value pair = tpl_list(dump->run, separators);

    if (pair.len != 2 || pair.as.items[0].kind != JSON_STRING ||
        pair.as.items[1].kind != JSON_STRING) {
        tpl_fail(dump->run, "separators must be two strings");
    }
    dump->between_items = tpl_slice(pair.as.items[0]);
    dump->after_key = tpl_slice(pair.as.items[1]);
}

/* tojson(ensure_ascii=False, indent=None, separators=None, sort_keys=False) */
struct json_value
tpl_filter_tojson(struct tpl_run *run, struct json_value subject,
                  const struct json_value *const *params)
{
    size_t from = run->out->len;
    struct dump dump = {.run = run,
                        .out = run->out,
                        .between_items = SLICE(", "),
                        .after_key = SLICE(": ")};

    dump.ascii = params[0] != NULL && tpl_truth(*params[0]);
    if (params[1] != NULL && params[1]->kind != JSON_NULL) {
        set_indent(&dump, *params[1]);
        dump.between_items = SLICE(",");
    }
    if (params[2] != NULL && params[2]->kind != JSON_NULL) {
        set_separators(&dump, *params[2]);
    }
    dump.sorted = params[3] != NULL && tpl_truth(*params[3]);
    dump_value(&dump, subject);
    return tpl_text(run, tpl_caught(run, from));
}
