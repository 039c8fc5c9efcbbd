/* str() and repr() of values, and the joining of texts. */
#include "node/template/template_run_internal.h"
#include "node/template/template_unicode_internal.h"

#define GROW_FROM 1024 /* bytes from which a joined text gets room to grow */

static void
put_items(struct tpl_run *run, struct buf *out, struct json_value value)
{
    for (uint32_t i = 0; i < value.len; i++) {
        if (i > 0) {
            buf_add_text(out, ", ");
        }
        tpl_put_repr(run, out, value.as.items[i]);
    }
}

static void
put_members(struct tpl_run *run, struct buf *out,
            const struct json_member *members, uint32_t len)
{
    buf_add_text(out, "{");
    for (uint32_t i = 0; i < len; i++) {
        if (i > 0) {
            buf_add_text(out, ", ");
        }
        tpl_put_repr(run, out, members[i].key);
        buf_add_text(out, ": ");
        tpl_put_repr(run, out, members[i].value);
    }
    buf_add_text(out, "}");
}

static void
put_view(struct tpl_run *run, struct buf *out, struct json_value value)
{
    static const char *const names[] = {"dict_keys([", "dict_values([",
                                        "dict_items(["};
    struct tpl_walk walk;
    struct json_value item;
    bool first = true;

    buf_add_text(out, names[value.extra]);
    tpl_walk_start(run, &walk, value);
    while (tpl_walk_next(run, &walk, &item)) {
        buf_add_text(out, first ? "" : ", ");
        tpl_put_repr(run, out, item);
        first = false;
    }
    buf_add_text(out, "])");
}

static void
put_range(struct buf *out, struct json_value value)
{
    const struct tpl_range *range = value.as.thing;

    buf_printf(out, "range(%lld, %lld", (long long)range->start,
               (long long)range->end);
    if (range->step != 1) {
        buf_printf(out, ", %lld", (long long)range->step);
    }
    buf_add_text(out, ")");
}

static void
put_escape(struct buf *out, uint32_t c)
{
    switch (c) {
    case '\n':
        buf_add_text(out, "\\n");
        break;
    case '\r':
        buf_add_text(out, "\\r");
        break;
    case '\t':
        buf_add_text(out, "\\t");
        break;
    default:
        buf_printf(out,
                   c < 0x100     ? "\\x%02x"
                   : c < 0x10000 ? "\\u%04x"
                                 : "\\U%08x",
                   (unsigned)c);
    }
}

static void
put_quoted(struct buf *out, struct slice text)
{
    bool single = text.len > 0 && memchr(text.ptr, '\'', text.len) != NULL;
    bool twice = text.len > 0 && memchr(text.ptr, '"', text.len) != NULL;
    char quote = single && !twice ? '"' : '\'';

    buf_add(out, &quote, 1);
    for (size_t at = 0; at < text.len;) {
        size_t from = at;
        uint32_t c = tpl_text_next(text, &at);
        if (c == (unsigned char)quote || c == '\\') {
            buf_add_text(out, "\\");
            buf_add(out, text.ptr + from, 1);
        } else if (tpl_unicode_prints(c)) {
            buf_add(out, text.ptr + from, at - from);
        } else {
            put_escape(out, c);
        }
    }
    buf_add(out, &quote, 1);
}

static void
put_namespace(struct tpl_run *run, struct buf *out, struct json_value value)
{
    const struct tpl_namespace *ns = value.as.thing;

    buf_add_text(out, "<Namespace ");
    put_members(run, out, ns->members, ns->len);
    buf_add_text(out, ">");
}

/* What both print alike, but for texts and undefined. */
static void
put_thing(struct tpl_run *run, struct buf *out, struct json_value value)
{
    const struct tpl_macro *macro = value.as.thing;

    switch ((int)value.kind) {
    case JSON_ARRAY:
        buf_add_text(out, "[");
        put_items(run, out, value);
        buf_add_text(out, "]");
        break;
    case TPL_V_TUPLE:
        buf_add_text(out, "(");
        put_items(run, out, value);
        buf_add_text(out, value.len == 1 ? ",)" : ")");
        break;
    case JSON_OBJECT:
        put_members(run, out, value.as.members, value.len);
        break;
    case TPL_V_VIEW:
        put_view(run, out, value);
        break;
    case TPL_V_RANGE:
        put_range(out, value);
        break;
    case TPL_V_NAMESPACE:
        put_namespace(run, out, value);
        break;
    case TPL_V_MACRO:
        buf_add_text(out, "<Macro ");
        put_quoted(out, macro->function->name);
        buf_add_text(out, ">");
        break;
    case TPL_V_LOOP:
        tpl_loop_repr(run, value.as.thing, out);
        break;
    default:
        tpl_fail_type(run, "would print an address", value);
    }
}

static bool
put_scalar(struct buf *out, struct json_value value)
{
    char text[JSON_TREE_REAL_MAX];

    switch ((int)value.kind) {
    case JSON_NULL:
        buf_add_text(out, "None");
        return true;
    case JSON_BOOL:
        buf_add_text(out, value.as.integer != 0 ? "True" : "False");
        return true;
    case JSON_INT:
        if (value.as.integer < 0) {
            buf_add_text(out, "-");
        }
        buf_add_uint(out, value.as.integer < 0
                              ? (uint64_t)0 - (uint64_t)value.as.integer
                              : (uint64_t)value.as.integer);
        return true;
    case JSON_BIG:
        buf_add_slice(out, tpl_slice(value));
        return true;
    case JSON_REAL:
        buf_add(out, text, json_tree_real(value.as.real, text));
        return true;
    default:
        return false;
    }
}

void
tpl_put_repr(struct tpl_run *run, struct buf *out, struct json_value value)
{
    tpl_step(run, 1);
    if (put_scalar(out, value)) {
        return;
    }
    if (value.kind == TPL_V_UNDEFINED) {
        buf_add_text(out, "Undefined");
        return;
    }
    if (value.kind == JSON_STRING) {
        tpl_step(run, value.len / 64);
        if ((value.mark & TPL_MARK_SAFE) != 0) {
            buf_add_text(out, "Markup(");
        }
        put_quoted(out, tpl_slice(value));
        if ((value.mark & TPL_MARK_SAFE) != 0) {
            buf_add_text(out, ")");
        }
        return;
    }
    tpl_enter(run);
    put_thing(run, out, value);
    tpl_check_out(run);
    tpl_leave(run);
}

void
tpl_put_str(struct tpl_run *run, struct buf *out, struct json_value value)
{
    if (value.kind == JSON_STRING) {
        tpl_step(run, value.len / 64);
        buf_add_slice(out, tpl_slice(value));
        return;
    }
    if (value.kind != TPL_V_UNDEFINED && !put_scalar(out, value)) {
        tpl_enter(run);
        put_thing(run, out, value);
        tpl_leave(run);
    }
}

struct slice
tpl_caught(struct tpl_run *run, size_t from)
{
    size_t len = run->out->len - from;
    char *text = NULL;

    tpl_check_out(run);
    CHECK(run->out->len >= from);
    tpl_step(run, len / 64);
    text = tpl_take(run, len);
    if (len > 0) {
        memcpy(text, run->out->ptr + from, len);
    }
    run->out->len = from;
    return (struct slice){text, len};
}

struct slice
tpl_str(struct tpl_run *run, struct json_value value)
{
    size_t from = run->out->len;

    if (value.kind == JSON_STRING) {
        return tpl_slice(value);
    }
    tpl_put_str(run, run->out, value);
    return tpl_caught(run, from);
}

struct json_value
tpl_soft_str(struct tpl_run *run, struct json_value value)
{
    return value.kind == JSON_STRING ? value
                                     : tpl_text(run, tpl_str(run, value));
}

/* A text that grows piece by piece is copied once in a while, not each time:
 * behind the last large one there is room. */
struct slice
tpl_join2(struct tpl_run *run, struct slice a, struct slice b)
{
    size_t len = a.len + b.len;
    char *text = NULL;

    if (b.len == 0) {
        return a;
    }
    if (a.len == 0) {
        return b;
    }
    if (len > JSON_TREE_LEN_MAX) {
        tpl_fail(run, "text too long");
    }
    if (a.ptr + a.len == run->grow_at && b.len <= run->grow_room) {
        tpl_step(run, b.len / 64);
        memcpy(run->grow_at, b.ptr, b.len);
        run->grow_at += b.len;
        run->grow_room -= b.len;
        return (struct slice){a.ptr, len};
    }
    tpl_step(run, len / 64);
    text = tpl_take(run, len < GROW_FROM ? len : len * 2);
    memcpy(text, a.ptr, a.len);
    memcpy(text + a.len, b.ptr, b.len);
    if (len >= GROW_FROM) {
        run->grow_at = text + len;
        run->grow_room = len;
    }
    return (struct slice){text, len};
}

/* What a character becomes, or NULL. */
static const char *
entity(char c)
{
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '\'':
        return "&#39;";
    case '"':
        return "&#34;";
    default:
        return NULL;
    }
}

struct json_value
tpl_escape(struct tpl_run *run, struct json_value value)
{
    struct slice text = tpl_str(run, value);
    size_t from = run->out->len;

    if (value.kind == JSON_STRING && (value.mark & TPL_MARK_SAFE) != 0) {
        return value;
    }
    for (size_t i = 0; i < text.len; i++) {
        const char *as = entity(text.ptr[i]);
        if (as != NULL) {
            buf_add_text(run->out, as);
        } else {
            buf_add(run->out, text.ptr + i, 1);
        }
    }
    value = tpl_text(run, tpl_caught(run, from));
    value.mark = TPL_MARK_SAFE;
    return value;
}
