/*
 * Translates a pattern for PCRE2.
 *
 * Classes are spelled out: \s, \d, \w and \p{..} mean Unicode 16 there, and
 * PCRE2 gets the characters that it does not know yet (tok_later) beside its
 * own; its \s also holds U+180E, which has not been a space since Unicode 6.3.
 * {n,m}+ is a group repeated in Oniguruma and possessive elsewhere, {n}? a group
 * that may be left out and lazy elsewhere. A class
 * [A&&[^B]] becomes a look-ahead. Everything else that is not known to mean the
 * same is refused.
 */
#include <string.h>

#include "node/tokenizer/tokenizer_internal.h"

#define GROUPS_MAX 32

struct translation {
    struct tok_load *load;
    struct slice in;
    size_t at;
    enum pattern_dialect dialect;
    struct buf *out;
    size_t atom; /* where the last atom begins in out; SIZE_MAX: none */
    size_t groups[GROUPS_MAX]; /* where open groups begin in out */
    size_t depth;
};

static const char spaces[] =
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}"
    "\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";
static const char not_spaces[] =
    "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{84}\\x{86}-\\x{9f}"
    "\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}"
    "\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}"
    "\\x{3001}-\\x{10ffff}";
/* Oniguruma's \w holds these, and its [\w] does not. */
static const char word_numbers[] = "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}";
static const char word_symbols[] =
    "\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}"
    "\\x{1f170}-\\x{1f189}";
/* The script's characters since Unicode 14. */
static const char later_han[] =
    "\\x{2b739}\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}";

struct property {
    const char *name;
    unsigned later; /* a bit for each enum tok_category */
    const char *pcre;
    const char *more;
};

#define LETTERS \
    (1U << TOK_LU | 1U << TOK_LT | 1U << TOK_LL | 1U << TOK_LM | 1U << TOK_LO)

static const struct property properties[] = {
    {"L", LETTERS, "\\p{L}", ""},
    {"Letter", LETTERS, "\\p{L}", ""},
    {"Lu", 1U << TOK_LU, "\\p{Lu}", ""},
    {"Lt", 1U << TOK_LT, "\\p{Lt}", ""},
    {"Ll", 1U << TOK_LL, "\\p{Ll}", ""},
    {"Lm", 1U << TOK_LM, "\\p{Lm}", ""},
    {"Lo", 1U << TOK_LO, "\\p{Lo}", ""},
    {"M", 1U << TOK_M, "\\p{M}", ""},
    {"N", 1U << TOK_ND | 1U << TOK_N, "\\p{N}", ""},
    {"Number", 1U << TOK_ND | 1U << TOK_N, "\\p{N}", ""},
    {"Nd", 1U << TOK_ND, "\\p{Nd}", ""},
    {"P", 1U << TOK_P, "\\p{P}", ""},
    {"Punctuation", 1U << TOK_P, "\\p{P}", ""},
    {"S", 1U << TOK_S, "\\p{S}", ""},
    {"Han", 0, "\\p{sc:Han}", later_han},
    {"w", LETTERS | 1U << TOK_M | 1U << TOK_ND,
     "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}", word_symbols},
};

static bool
refuse(struct translation *tr, const char *what)
{
    char shown[TOK_SHOWN + 4];

    return tok_fail(tr->load, "pattern %s: %s at %zu is not understood",
                    tok_show(tr->in, shown), what, tr->at);
}

static const struct property *
property_of(struct slice name)
{
    for (size_t i = 0; i < sizeof properties / sizeof properties[0]; i++) {
        if (slice_equal(name, slice_of(properties[i].name))) {
            return &properties[i];
        }
    }
    return NULL;
}

/* A property as the inside of a class. */
static void
put_property(struct translation *tr, const struct property *property)
{
    buf_add_text(tr->out, property->pcre);
    buf_add_text(tr->out, property->more);
    for (size_t i = 0; i < tok_later_count; i++) {
        if ((property->later >> tok_later[i].category & 1) != 0) {
            buf_printf(tr->out, "\\x{%x}-\\x{%x}", (unsigned)tok_later[i].first,
                       (unsigned)tok_later[i].last);
        }
    }
}

/* \p{..} or \P{..} at in[at]. */
static bool
put_named(struct translation *tr, bool in_class)
{
    bool negated = tr->in.ptr[tr->at + 1] == 'P';
    const char *open = tr->in.ptr + tr->at + 2;
    size_t left = tr->in.len - tr->at - 2;
    const char *close =
        left > 0 && *open == '{' ? memchr(open, '}', left) : NULL;

    if (close == NULL) {
        return refuse(tr, "a property without braces");
    }
    struct slice name = {.ptr = open + 1, .len = (size_t)(close - open - 1)};
    if (name.len > 0 && name.ptr[0] == '^') {
        negated = !negated;
        name.ptr++;
        name.len--;
    }
    const struct property *property = property_of(name);
    if (property == NULL || (in_class && negated)) {
        return refuse(tr, "a property");
    }
    buf_add_text(tr->out, in_class ? "" : negated ? "[^" : "[");
    put_property(tr, property);
    buf_add_text(tr->out, in_class ? "" : "]");
    tr->at = (size_t)(close - tr->in.ptr) + 1;
    return true;
}

/* \s \S \d \D \w \W at in[at]. */
static bool
put_shorthand(struct translation *tr, char c, bool in_class)
{
    bool negated = c < 'a';
    char kind = (char)(c | 0x20);

    if (in_class && negated && kind != 's') {
        return refuse(tr, "a negated class within a class");
    }
    if (kind == 's' && in_class) {
        buf_add_text(tr->out, negated ? not_spaces : spaces);
    } else {
        buf_add_text(tr->out, in_class ? "" : negated ? "[^" : "[");
        if (kind == 's') {
            buf_add_text(tr->out, spaces);
        } else {
            put_property(tr,
                         property_of(kind == 'd' ? SLICE("Nd") : SLICE("w")));
        }
        if (kind == 'w' && !in_class && tr->dialect == PATTERN_ONIGURUMA) {
            buf_add_text(tr->out, word_numbers);
        }
        buf_add_text(tr->out, in_class ? "" : "]");
    }
    tr->at += 2;
    return true;
}

static bool
is_hex(char c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}

/* \xHH, \x{H...}, \uHHHH at in[at]. */
static bool
put_hex(struct translation *tr)
{
    bool braces = tr->at + 2 < tr->in.len && tr->in.ptr[tr->at + 2] == '{';
    size_t most = braces ? 6 : tr->in.ptr[tr->at + 1] == 'u' ? 4 : 2;
    size_t from = tr->at + 2 + braces;
    size_t to = from;

    while (to < tr->in.len && to - from < most && is_hex(tr->in.ptr[to])) {
        to++;
    }
    if ((!braces && to - from != most) || to == from ||
        (braces && (to == tr->in.len || tr->in.ptr[to] != '}'))) {
        return refuse(tr, "a character by number");
    }
    buf_printf(tr->out, "\\x{%.*s}", (int)(to - from), tr->in.ptr + from);
    tr->at = to + braces;
    return true;
}

/* An escape at in[at]. */
static bool
put_escape(struct translation *tr, bool in_class)
{
    char c = tr->at + 1 < tr->in.len ? tr->in.ptr[tr->at + 1] : 'Q';

    if (c == 'p' || c == 'P') {
        return put_named(tr, in_class);
    }
    if (c == '\0') {
        return refuse(tr, "a NUL");
    }
    if (strchr("sSdDwW", c) != NULL) {
        return put_shorthand(tr, c, in_class);
    }
    if (c == 'x' || c == 'u') {
        return put_hex(tr);
    }
    if (strchr("rntf", c) == NULL &&
        (((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || (c >= '0' && c <= '9') ||
         (uint8_t)c >= 0x80)) {
        return refuse(tr, "an escape");
    }
    buf_add(tr->out, tr->in.ptr + tr->at, 2);
    tr->at += 2;
    return true;
}

/* The inside of a class up to its end, or to &&. */
static bool
put_members(struct translation *tr)
{
    bool first = true;

    while (tr->at < tr->in.len) {
        const char *c = tr->in.ptr + tr->at;
        if (*c == ']' && !first) {
            return true;
        }
        if (*c == '&' && tr->at + 1 < tr->in.len && c[1] == '&') {
            return true;
        }
        first = false;
        if (*c == '\\') {
            if (!put_escape(tr, true)) {
                return false;
            }
        } else if (*c == '[' || *c == ']') {
            return refuse(tr, "a class within a class");
        } else {
            size_t len = utf8_len((uint8_t)*c);
            buf_add(tr->out, c, len);
            tr->at += len;
        }
    }
    return refuse(tr, "a class without an end");
}

/* A class at in[at]. */
static bool
put_class(struct translation *tr)
{
    size_t begins = tr->out->len;
    bool negated = tr->at + 1 < tr->in.len && tr->in.ptr[tr->at + 1] == '^';
    struct buf tail;
    bool good = true;

    tr->at += 1 + negated;
    buf_add_text(tr->out, negated ? "[^" : "[");
    good = put_members(tr);
    buf_add_text(tr->out, "]");
    if (!good || tr->in.ptr[tr->at] == ']') {
        tr->at++;
        return good;
    }
    tr->at += 2; /* && and then another class, and the end */
    if (negated || tr->at >= tr->in.len || tr->in.ptr[tr->at] != '[') {
        return refuse(tr, "an intersection");
    }
    buf_init(&tail, tr->out->len + 1);
    buf_add(&tail, tr->out->ptr + begins, tr->out->len - begins);
    tr->out->len = begins;
    buf_add_text(tr->out, "(?:(?=");
    good = put_class(tr);
    buf_add_text(tr->out, ")");
    buf_add_slice(tr->out, buf_slice(&tail));
    buf_add_text(tr->out, ")");
    buf_fini(&tail);
    if (good && (tr->at >= tr->in.len || tr->in.ptr[tr->at] != ']')) {
        return refuse(tr, "an intersection");
    }
    tr->at++;
    return good;
}

/* A group's opening at in[at]. */
static bool
put_open(struct translation *tr)
{
    static const char *const kinds[] = {"(?:",  "(?i:", "(?=", "(?!",
                                        "(?<=", "(?<!", "(?>", "(?i)"};
    struct slice left = {.ptr = tr->in.ptr + tr->at,
                         .len = tr->in.len - tr->at};

    if (tr->depth == GROUPS_MAX) {
        return refuse(tr, "a group so deep");
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        size_t len = strlen(kinds[i]);
        if (left.len >= len && memcmp(left.ptr, kinds[i], len) == 0) {
            if (kinds[i][len - 1] != ')') {
                tr->groups[tr->depth++] = tr->out->len;
            } else if (tr->at > 0) {
                return refuse(tr, "an option in the middle");
            }
            buf_add(tr->out, left.ptr, len);
            tr->at += len;
            tr->atom = SIZE_MAX;
            return true;
        }
    }
    if (left.len >= 2 && left.ptr[1] == '?') {
        return refuse(tr, "a group of this kind");
    }
    tr->groups[tr->depth++] = tr->out->len;
    buf_add_text(tr->out, "(?:");
    tr->at++;
    tr->atom = SIZE_MAX;
    return true;
}

/* Puts text into out at an earlier place. */
static void
insert(struct buf *out, size_t at, const char *text)
{
    size_t len = strlen(text);

    if (buf_reserve(out, len) != NULL) {
        memmove(out->ptr + at + len, out->ptr + at, out->len - at);
        memcpy(out->ptr + at, text, len);
        out->len += len;
    }
}

/* A repetition in braces at in[at]; false: these braces are characters. */
static bool
put_interval(struct translation *tr)
{
    const char *open = tr->in.ptr + tr->at;
    size_t left = tr->in.len - tr->at;
    size_t len = 1;
    bool digits = false;
    bool comma = false;

    while (len < left &&
           (open[len] == ',' || (open[len] >= '0' && open[len] <= '9'))) {
        digits = digits || open[len] != ',';
        comma = comma || open[len] == ',';
        len++;
    }
    if (len == left || open[len] != '}' || !digits || tr->atom == SIZE_MAX) {
        return false;
    }
    buf_add_text(tr->out, open[1] == ',' ? "{0" : "{");
    buf_add(tr->out, open + 1, len);
    tr->at += len + 1;
    char next = '\0';
    if (tr->at < tr->in.len && tr->dialect == PATTERN_ONIGURUMA) {
        next = tr->in.ptr[tr->at];
    }
    if (next == '+' || (next == '?' && !comma)) {
        insert(tr->out, tr->atom, "(?:");
        buf_add_text(tr->out, ")");
    }
    return true;
}

static bool
put_next(struct translation *tr)
{
    char c = tr->in.ptr[tr->at];
    size_t begins = tr->out->len;

    if (c == '(') {
        return put_open(tr);
    }
    if (c == ')') {
        if (tr->depth == 0) {
            return refuse(tr, "a bracket");
        }
        tr->atom = tr->groups[--tr->depth];
        buf_add(tr->out, &c, 1);
        tr->at++;
        return true;
    }
    if (c == '\\' || c == '[') {
        tr->atom = begins;
        return c == '[' ? put_class(tr) : put_escape(tr, false);
    }
    if (c == '{') {
        return put_interval(tr) || refuse(tr, "a brace");
    }
    if (strchr("*+?|", c) == NULL) {
        tr->atom = begins;
    }
    size_t len = utf8_len((uint8_t)c);
    buf_add(tr->out, tr->in.ptr + tr->at, len);
    tr->at += len;
    return true;
}

bool
pattern_translate(struct tok_load *load, struct slice pattern,
                  enum pattern_dialect dialect, struct buf *out)
{
    struct translation tr = {.load = load,
                             .in = pattern,
                             .dialect = dialect,
                             .out = out,
                             .atom = SIZE_MAX};

    while (tr.at < pattern.len) {
        if (!put_next(&tr)) {
            return false;
        }
    }
    if (tr.depth != 0) {
        return refuse(&tr, "a group without an end");
    }
    if (out->failed) {
        return tok_fail(load, "a pattern is too long");
    }
    return true;
}
