/* Case: str.upper() and its like, by Unicode's full mappings. */
#include "node/template/template_method_internal.h"
#include "node/template/template_unicode_internal.h"

/* Whether the sigma at text[at], which ends at next, stands at a word's end. */
static bool
is_final_sigma(struct slice text, size_t at, size_t next)
{
    bool before = false;

    while (at > 0) {
        size_t from = at - tpl_text_before(text, at);
        uint32_t c = 0;
        at = from;
        c = tpl_text_next(text, &from);
        if (!tpl_unicode_is_case_ignorable(c)) {
            before = tpl_unicode_is_cased(c);
            break;
        }
    }
    while (before && next < text.len) {
        uint32_t c = tpl_text_next(text, &next);
        if (!tpl_unicode_is_case_ignorable(c)) {
            return !tpl_unicode_is_cased(c);
        }
    }
    return before;
}

static size_t
lower(struct slice text, size_t at, size_t next, uint32_t c,
      uint32_t out[TPL_UNICODE_CASE_MAX])
{
    if (c == 0x3A3) {
        out[0] = is_final_sigma(text, at, next) ? 0x3C2 : 0x3C3;
        return 1;
    }
    return tpl_unicode_lower(c, out);
}

static size_t
same(uint32_t c, uint32_t out[TPL_UNICODE_CASE_MAX])
{
    out[0] = c;
    return 1;
}

/* What one character becomes; *cased: the one before had a case. */
static size_t
convert(struct slice text, size_t at, size_t next, uint32_t c,
        enum tpl_case how, bool *cased, uint32_t out[TPL_UNICODE_CASE_MAX])
{
    bool first = at == 0;
    bool was = *cased;

    switch (how) {
    case TPL_UPPER:
        return tpl_unicode_upper(c, out);
    case TPL_LOWER:
        return lower(text, at, next, c, out);
    case TPL_CAPITALIZE:
        return first ? tpl_unicode_title(c, out)
                     : lower(text, at, next, c, out);
    case TPL_TITLE:
        *cased = tpl_unicode_is_cased(c);
        return was ? lower(text, at, next, c, out) : tpl_unicode_title(c, out);
    case TPL_SWAPCASE:
        if (tpl_unicode_is_upper(c)) {
            return lower(text, at, next, c, out);
        }
        return tpl_unicode_is_lower(c) ? tpl_unicode_upper(c, out)
                                       : same(c, out);
    case TPL_CASEFOLD:
        return tpl_unicode_fold(c, out);
    }
    return 0;
}

struct json_value
tpl_case(struct tpl_run *run, struct json_value value, enum tpl_case how)
{
    struct slice text = tpl_slice(value);
    char *to = NULL;
    size_t len = 0;
    bool cased = false;
    uint8_t mark = value.mark & TPL_MARK_SAFE;

    CHECK(value.kind == JSON_STRING);
    tpl_step(run, text.len / 16);
    /* No character becomes more than three times as long. */
    to = tpl_take(run, text.len * 3 + 4);
    for (size_t at = 0; at < text.len;) {
        uint32_t out[TPL_UNICODE_CASE_MAX];
        size_t from = at;
        uint32_t c = tpl_text_next(text, &at);
        size_t n = convert(text, from, at, c, how, &cased, out);
        for (size_t i = 0; i < n; i++) {
            len += utf8_write(out[i], to + len);
        }
    }
    value = tpl_text(run, (struct slice){to, len});
    value.mark = mark;
    return value;
}

#define CASE(name, how)                  \
    TPL_STR_METHOD(name)                 \
    {                                    \
        (void)params;                    \
        return tpl_case(run, self, how); \
    }

CASE(upper, TPL_UPPER)
CASE(lower, TPL_LOWER)
CASE(title, TPL_TITLE)
CASE(capitalize, TPL_CAPITALIZE)
CASE(swapcase, TPL_SWAPCASE)
CASE(casefold, TPL_CASEFOLD)
