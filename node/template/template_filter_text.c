/* Filters that make text. */
#include "node/template/template_filter_internal.h"
#include "node/template/template_method_internal.h"
#include "node/template/template_unicode_internal.h"

TPL_FILTER(upper)
{
    (void)params;
    return tpl_case(run, tpl_soft_str(run, subject), TPL_UPPER);
}

TPL_FILTER(lower)
{
    (void)params;
    return tpl_case(run, tpl_soft_str(run, subject), TPL_LOWER);
}

TPL_FILTER(capitalize)
{
    (void)params;
    return tpl_case(run, tpl_soft_str(run, subject), TPL_CAPITALIZE);
}

/* Whether jinja2's title filter begins a new word behind this. */
static bool
begins_word(uint32_t c)
{
    return tpl_text_is_space(c) || c == '-' || c == '(' || c == '{' ||
           c == '[' || c == '<';
}

/* Word by word: the first letter upper, the others lower, each word for itself
 * (a final sigma is one of its word). */
TPL_FILTER(title)
{
    struct slice text = tpl_str(run, subject);
    size_t from = run->out->len;

    (void)params;
    for (size_t at = 0; at < text.len;) {
        size_t start = at;
        size_t first = 0;
        bool separators = begins_word(tpl_text_next(text, &at));
        first = at;
        while (at < text.len) {
            size_t next = at;
            if (begins_word(tpl_text_next(text, &next)) != separators) {
                break;
            }
            at = next;
        }
        buf_add_slice(run->out,
                      tpl_slice(tpl_case(run,
                                         json_tree_text((struct slice){
                                             text.ptr + start, first - start}),
                                         TPL_UPPER)));
        buf_add_slice(run->out,
                      tpl_slice(tpl_case(run,
                                         json_tree_text((struct slice){
                                             text.ptr + first, at - first}),
                                         TPL_LOWER)));
    }
    return tpl_text(run, tpl_caught(run, from));
}

TPL_FILTER(trim)
{
    return tpl_str_strip(run, tpl_soft_str(run, subject), params);
}

TPL_FILTER(replace)
{
    int64_t count = -1;

    if (params[2] != NULL && params[2]->kind != JSON_NULL) {
        count = tpl_index(run, *params[2]);
    }
    return tpl_text(
        run, tpl_replace(run, tpl_str(run, subject), tpl_str(run, *params[0]),
                         tpl_str(run, *params[1]), count));
}

/* The text of one level, from a number of blanks or a text. */
static struct slice
indention(struct tpl_run *run, const struct json_value *width)
{
    char *blanks = NULL;
    int64_t n = 4;

    if (width != NULL && width->kind == JSON_STRING) {
        return tpl_slice(*width);
    }
    if (width != NULL) {
        n = tpl_index(run, *width);
    }
    n = n < 0 ? 0 : n;
    tpl_step(run, (uint64_t)n);
    blanks = tpl_take(run, (size_t)n);
    memset(blanks, ' ', (size_t)n);
    return (struct slice){blanks, (size_t)n};
}

/* indent(width=4, first=False, blank=False) */
TPL_FILTER(indent)
{
    struct slice by = indention(run, params[0]);
    bool blank = tpl_flag(params[2]);
    size_t from = run->out->len;
    struct slice rest;
    struct slice end;
    struct slice line;

    if (subject.kind != JSON_STRING) {
        tpl_fail_type(run, "indent", subject);
    }
    rest = tpl_join2(run, tpl_slice(subject), SLICE("\n"));
    if (tpl_flag(params[1])) {
        buf_add_slice(run->out, by);
    }
    buf_add_slice(run->out, tpl_text_line(&rest, &end));
    while (rest.len > 0) {
        tpl_step(run, 1);
        buf_add_text(run->out, "\n");
        line = tpl_text_line(&rest, &end);
        if (blank || line.len > 0) {
            buf_add_slice(run->out, by);
        }
        buf_add_slice(run->out, line);
        tpl_check_out(run);
    }
    subject.mark &= TPL_MARK_SAFE;
    line = tpl_caught(run, from);
    subject.as.text = line.ptr;
    subject.len = (uint32_t)line.len;
    return subject;
}

TPL_FILTER(string)
{
    (void)params;
    return tpl_soft_str(run, subject);
}

TPL_FILTER(safe)
{
    struct json_value text = tpl_soft_str(run, subject);

    (void)params;
    text.mark |= TPL_MARK_SAFE;
    return text;
}

TPL_FILTER(escape)
{
    (void)params;
    return tpl_escape(run, subject);
}

TPL_FILTER(forceescape)
{
    (void)params;
    return tpl_escape(run, json_tree_text(tpl_str(run, subject)));
}

TPL_FILTER(center)
{
    struct json_value width = params[0] != NULL ? *params[0] : tpl_int(80);
    const struct json_value *given[2] = {&width, NULL};

    return tpl_str_center(run, tpl_soft_str(run, subject), given);
}

/* truncate(length=255, killwords=False, end="...", leeway=5) */
TPL_FILTER(truncate)
{
    int64_t length = params[0] != NULL ? tpl_index(run, *params[0]) : 255;
    struct slice end =
        params[2] != NULL ? tpl_str(run, *params[2]) : SLICE("...");
    int64_t leeway = params[3] != NULL && params[3]->kind != JSON_NULL
                         ? tpl_index(run, *params[3])
                         : 5;
    int64_t end_len = (int64_t)tpl_text_count(end);
    struct slice text;

    if (subject.kind == TPL_V_UNDEFINED) {
        return subject;
    }
    if (subject.kind != JSON_STRING || length < end_len || leeway < 0) {
        tpl_fail_type(run, "truncate: wrong arguments", subject);
    }
    text = tpl_slice(subject);
    if ((int64_t)tpl_text_count(text) <= length + leeway) {
        return subject;
    }
    text.len = tpl_text_offset(text, (size_t)(length - end_len));
    if (!tpl_flag(params[1])) {
        size_t at = tpl_text_rfind(text, SLICE(" "), text.len);
        text.len = at != SIZE_MAX ? at : text.len;
    }
    return tpl_text(run, tpl_join2(run, text, end));
}

TPL_FILTER(wordcount)
{
    struct slice text = tpl_str(run, subject);
    int64_t count = 0;
    bool inside = false;

    (void)params;
    tpl_step(run, text.len / 16);
    for (size_t at = 0; at < text.len;) {
        bool word = tpl_unicode_is_word(tpl_text_next(text, &at));
        count += word && !inside;
        inside = word;
    }
    return tpl_int(count);
}

/* urllib.parse.quote(), with "/" safe or, in a query, blanks as "+". */
static void
put_url(struct tpl_run *run, struct json_value value, bool query)
{
    struct slice text = tpl_str(run, value);

    tpl_step(run, text.len / 16);
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        bool plain = (unsigned char)c < 0x80 && c != '_' &&
                     tpl_unicode_is_alnum((unsigned char)c);
        if (plain || (c != '\0' && strchr("_.-~", c) != NULL) ||
            (c == '/' && !query)) {
            buf_add(run->out, &c, 1);
        } else if (c == ' ' && query) {
            buf_add_text(run->out, "+");
        } else {
            buf_printf(run->out, "%%%02X", (unsigned)(unsigned char)c);
        }
    }
    tpl_check_out(run);
}

TPL_FILTER(urlencode)
{
    size_t from = run->out->len;
    struct tpl_walk walk;
    struct json_value item;
    bool first = true;
    const struct json_value *none[TPL_PARAMS_MAX] = {NULL};

    (void)params;
    if (subject.kind == JSON_STRING || !tpl_can_walk(subject)) {
        put_url(run, subject, false);
        return tpl_text(run, tpl_caught(run, from));
    }
    if (subject.kind == JSON_OBJECT) {
        subject = tpl_filter_items(run, subject, none);
    }
    tpl_walk_start(run, &walk, subject);
    while (tpl_walk_next(run, &walk, &item)) {
        struct json_value pair = tpl_list(run, item);
        if (pair.len != 2) {
            tpl_fail(run, "urlencode: expected pairs");
        }
        buf_add_text(run->out, first ? "" : "&");
        put_url(run, pair.as.items[0], true);
        buf_add_text(run->out, "=");
        put_url(run, pair.as.items[1], true);
        first = false;
    }
    return tpl_text(run, tpl_caught(run, from));
}

/* join(d="", attribute=None) */
TPL_FILTER(join)
{
    struct slice by =
        params[0] != NULL ? tpl_str(run, *params[0]) : (struct slice){NULL, 0};
    size_t from = run->out->len;
    struct tpl_walk walk;
    struct json_value item;
    bool first = true;

    tpl_walk_start(run, &walk, subject);
    while (tpl_walk_next(run, &walk, &item)) {
        tpl_step(run, 1);
        if (params[1] != NULL && params[1]->kind != JSON_NULL) {
            item = tpl_follow(run, item, *params[1], NULL);
        }
        if (!first) {
            buf_add_slice(run->out, by);
        }
        tpl_put_str(run, run->out, item);
        tpl_check_out(run);
        first = false;
    }
    return tpl_text(run, tpl_caught(run, from));
}

TPL_FILTER_RAW(format)
{
    struct tpl_dict dict = {.len = 0};
    struct json_value text = tpl_soft_str(run, subject);

    if (args->count > 0 && args->kw_count > 0) {
        tpl_fail(run, "can't handle positional and keyword arguments at the "
                      "same time");
    }
    if (args->kw_count == 0) {
        return tpl_percent(run, text,
                           tpl_array(TPL_V_TUPLE, args->at, args->count));
    }
    for (uint32_t i = 0; i < args->kw_count; i++) {
        tpl_dict_put(run, &dict, args->kw[(size_t)2 * i],
                     args->kw[(size_t)2 * i + 1]);
    }
    return tpl_percent(run, text, tpl_dict_value(&dict));
}
