/* Methods of texts that look for something, or ask what they are made of. */
#include "node/template/template_method_internal.h"
#include "node/template/template_unicode_internal.h"

/* text[start:end] as offsets; false: start lies behind the end. */
struct window {
    struct slice text;
    size_t start;
    size_t end;
    int64_t first; /* the code point that start stands on */
};

static int64_t
bound(struct tpl_run *run, const struct json_value *given, int64_t len,
      int64_t preset)
{
    int64_t at = preset;

    if (given != NULL && given->kind != JSON_NULL) {
        at = tpl_index(run, *given);
        at += at < 0 ? len : 0;
        at = at < 0 ? 0 : at;
    }
    return at;
}

static bool
window(struct tpl_run *run, struct json_value self,
       const struct json_value *start, const struct json_value *end,
       struct window *out)
{
    struct slice text = tpl_slice(self);
    int64_t len = 0;
    int64_t from = 0;
    int64_t to = 0;

    tpl_step(run, text.len / 64);
    *out = (struct window){.text = text, .end = text.len};
    if (start == NULL && end == NULL) {
        return true;
    }
    len = (int64_t)tpl_text_count(text);
    from = bound(run, start, len, 0);
    to = bound(run, end, len, len);
    to = to > len ? len : to;
    if (from > to) {
        return false;
    }
    out->first = from;
    out->start = tpl_text_offset(text, (size_t)from);
    out->end = tpl_text_offset(text, (size_t)to);
    return true;
}

static struct slice
needle(struct tpl_run *run, struct json_value value)
{
    if (value.kind != JSON_STRING) {
        tpl_fail_type(run, "expected a string", value);
    }
    return tpl_slice(value);
}

/* The code point at which the text was found, or -1. */
static int64_t
search(struct tpl_run *run, struct json_value self,
       const struct json_value *const *params, bool right)
{
    struct window in;
    struct slice what = needle(run, *params[0]);
    struct slice part;
    size_t at = 0;

    if (!window(run, self, params[1], params[2], &in)) {
        return -1;
    }
    part = (struct slice){in.text.ptr + in.start, in.end - in.start};
    at = right ? tpl_text_rfind(part, what, part.len)
               : tpl_text_find(part, what, 0);
    if (at == SIZE_MAX) {
        return -1;
    }
    part.len = at;
    return in.first + (int64_t)tpl_text_count(part);
}

TPL_STR_METHOD(find)
{
    return tpl_int(search(run, self, params, false));
}

TPL_STR_METHOD(rfind)
{
    return tpl_int(search(run, self, params, true));
}

TPL_STR_METHOD(index)
{
    int64_t at = search(run, self, params, false);

    if (at < 0) {
        tpl_fail(run, "substring not found");
    }
    return tpl_int(at);
}

TPL_STR_METHOD(rindex)
{
    int64_t at = search(run, self, params, true);

    if (at < 0) {
        tpl_fail(run, "substring not found");
    }
    return tpl_int(at);
}

TPL_STR_METHOD(count)
{
    struct window in;
    struct slice what = needle(run, *params[0]);
    int64_t count = 0;

    if (!window(run, self, params[1], params[2], &in)) {
        return tpl_int(0);
    }
    in.text.len = in.end;
    if (what.len == 0) {
        slice_skip(&in.text, in.start);
        return tpl_int((int64_t)tpl_text_count(in.text) + 1);
    }
    for (size_t at = in.start;; count++) {
        at = tpl_text_find(in.text, what, at);
        if (at == SIZE_MAX) {
            return tpl_int(count);
        }
        at += what.len;
    }
}

/* Whether the window begins or ends with this. */
static bool
matches(const struct window *in, struct slice what, bool at_end)
{
    size_t from = in->start;

    if (what.len > in->end - in->start) {
        return false;
    }
    if (at_end) {
        from = in->end - what.len;
    }
    return what.len == 0 ||
           memcmp(in->text.ptr + from, what.ptr, what.len) == 0;
}

static struct json_value
edge(struct tpl_run *run, struct json_value self,
     const struct json_value *const *params, bool at_end)
{
    struct window in;
    bool fits = window(run, self, params[1], params[2], &in);

    if (params[0]->kind != TPL_V_TUPLE) {
        struct slice what = needle(run, *params[0]);
        return tpl_bool(fits && matches(&in, what, at_end));
    }
    for (uint32_t i = 0; i < params[0]->len; i++) {
        struct slice what = needle(run, params[0]->as.items[i]);
        if (fits && matches(&in, what, at_end)) {
            return tpl_bool(true);
        }
    }
    return tpl_bool(false);
}

TPL_STR_METHOD(startswith)
{
    return edge(run, self, params, false);
}

TPL_STR_METHOD(endswith)
{
    return edge(run, self, params, true);
}

/* --- what a text is made of */

/* Whether every character passes, and there is one. */
static struct json_value
all(struct tpl_run *run, struct json_value self, bool (*passes)(uint32_t c))
{
    struct slice text = tpl_slice(self);
    size_t at = 0;

    tpl_step(run, text.len / 16);
    while (at < text.len) {
        if (!passes(tpl_text_next(text, &at))) {
            return tpl_bool(false);
        }
    }
    return tpl_bool(text.len > 0);
}

#define ALL(name, passes)              \
    TPL_STR_METHOD(name)               \
    {                                  \
        (void)params;                  \
        return all(run, self, passes); \
    }

ALL(isspace, tpl_text_is_space)
ALL(isdecimal, tpl_unicode_is_decimal)
ALL(isdigit, tpl_unicode_is_digit)
ALL(isnumeric, tpl_unicode_is_numeric)
ALL(isalpha, tpl_unicode_is_alpha)
ALL(isalnum, tpl_unicode_is_alnum)

TPL_STR_METHOD(isprintable)
{
    (void)params;
    return tpl_bool(self.len == 0 ||
                    tpl_truth(all(run, self, tpl_unicode_prints)));
}

TPL_STR_METHOD(isascii)
{
    (void)params;
    (void)run;
    for (uint32_t i = 0; i < self.len; i++) {
        if ((unsigned char)self.as.text[i] >= 0x80) {
            return tpl_bool(false);
        }
    }
    return tpl_bool(true);
}

/* Whether there are cased characters, and all of them of this case. */
static struct json_value
cased(struct tpl_run *run, struct json_value self, bool upper)
{
    struct slice text = tpl_slice(self);
    bool any = false;
    size_t at = 0;

    tpl_step(run, text.len / 16);
    while (at < text.len) {
        uint32_t c = tpl_text_next(text, &at);
        bool is_upper = tpl_unicode_is_upper(c);
        bool is_lower = tpl_unicode_is_lower(c);
        if ((upper ? is_lower : is_upper) || tpl_unicode_is_title(c)) {
            return tpl_bool(false);
        }
        any |= upper ? is_upper : is_lower;
    }
    return tpl_bool(any);
}

TPL_STR_METHOD(islower)
{
    (void)params;
    return cased(run, self, false);
}

TPL_STR_METHOD(isupper)
{
    (void)params;
    return cased(run, self, true);
}

TPL_STR_METHOD(isidentifier)
{
    struct slice text = tpl_slice(self);

    (void)params;
    for (size_t at = 0; at < text.len;) {
        bool first = at == 0;
        uint32_t c = tpl_text_next(text, &at);
        if (c >= 0x80) {
            tpl_fail(run, "isidentifier() of other than ASCII");
        }
        if (c != '_' &&
            !(first ? tpl_unicode_is_alpha(c) : tpl_unicode_is_alnum(c))) {
            return tpl_bool(false);
        }
    }
    return tpl_bool(text.len > 0);
}
