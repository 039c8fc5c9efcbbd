/* The lexer: template text into tokens, with jinja2's rules for white space
 * around tags (trim_blocks, lstrip_blocks, "-" and "+" marks). */
#include "node/template/template_parse_internal.h"
#include "node/template/template_text_internal.h"

#include "index/base/ascii.h"

static bool
starts_with(struct slice text, size_t at, const char *what)
{
    size_t n = strlen(what);

    return at <= text.len && text.len - at >= n &&
           memcmp(text.ptr + at, what, n) == 0;
}

/* The offset behind the white space at this one. */
static size_t
behind_space(struct slice text, size_t at)
{
    struct slice rest = {text.ptr + at, text.len - at};

    return text.len - tpl_text_lstrip(rest).len;
}

static size_t
lines_in(struct slice text)
{
    size_t count = 0;
    const char *at = text.ptr;
    const char *end = text.ptr + text.len;

    while (at < end && (at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        count++;
        at++;
    }
    return count;
}

/* Moves to an offset, counting lines. */
static void
move_to(struct tpl_parser *parser, size_t at)
{
    struct slice passed = {parser->source.ptr + parser->at, at - parser->at};

    CHECK(at >= parser->at && at <= parser->source.len);
    if (passed.len > 0) {
        parser->line += (uint32_t)lines_in(passed);
        parser->line_starting = passed.ptr[passed.len - 1] == '\n';
    }
    parser->at = at;
}

/* The offset of the next tag's brace, or the end. */
static size_t
find_tag(const struct tpl_parser *parser)
{
    struct slice source = parser->source;

    for (size_t at = parser->at; at + 1 < source.len; at++) {
        const char *brace = memchr(source.ptr + at, '{', source.len - 1 - at);
        if (brace == NULL) {
            break;
        }
        at = (size_t)(brace - source.ptr);
        if (brace[1] == '%' || brace[1] == '{' || brace[1] == '#') {
            return at;
        }
    }
    return source.len;
}

static char
sign_at(const struct tpl_parser *parser, size_t at)
{
    char c = '\0';

    if (at < parser->source.len) {
        c = parser->source.ptr[at];
    }
    return c == '-' || c == '+' ? c : '\0';
}

/* The text before a tag, as the tag's mark and lstrip_blocks leave it. */
static struct slice
before_tag(const struct tpl_parser *parser, struct slice text, char sign,
           bool variable)
{
    size_t line = text.len;

    if (sign == '-') {
        return tpl_text_rstrip(text);
    }
    if (sign == '+' || variable) {
        return text;
    }
    while (line > 0 && text.ptr[line - 1] != '\n') {
        line--;
    }
    if ((line > 0 || parser->line_starting) &&
        behind_space(text, line) == text.len) {
        text.len = line;
    }
    return text;
}

/* The offset behind a block's end at this one ("%}", "-%}", "+%}"), with what
 * it swallows; 0: there is none. */
static size_t
block_end(const struct tpl_parser *parser, size_t at, const char *end)
{
    struct slice source = parser->source;

    if (starts_with(source, at, end)) {
        at += 2;
        return at + starts_with(source, at, "\n");
    }
    if (sign_at(parser, at) != '\0' && starts_with(source, at + 1, end)) {
        return source.ptr[at] == '-' ? behind_space(source, at + 3) : at + 3;
    }
    return 0;
}

/* The offset behind "{% raw %}" at this one, or 0. */
static size_t
raw_begin(const struct tpl_parser *parser, size_t at)
{
    struct slice source = parser->source;

    if (!starts_with(source, at, "{%")) {
        return 0;
    }
    at += 2;
    at = behind_space(source, at + (sign_at(parser, at) != '\0'));
    if (!starts_with(source, at, "raw")) {
        return 0;
    }
    at = behind_space(source, at + 3);
    if (starts_with(source, at, "-%}")) {
        return behind_space(source, at + 3);
    }
    return starts_with(source, at, "%}") ? at + 2 : 0;
}

/* The offset behind "{% endraw %}" at this one, or 0. */
static size_t
raw_end(const struct tpl_parser *parser, size_t at)
{
    struct slice source = parser->source;

    at += 2;
    at = behind_space(source, at + (sign_at(parser, at) != '\0'));
    if (!starts_with(source, at, "endraw")) {
        return 0;
    }
    return block_end(parser, behind_space(source, at + 6), "%}");
}

static void
skip_comment(struct tpl_parser *parser)
{
    size_t from = parser->at;
    size_t at = from;

    if (from == parser->source.len) { /* as in jinja2: the end of all */
        return;
    }
    while (!starts_with(parser->source, at, "#}")) {
        if (at >= parser->source.len) {
            tpl_parse_fail(parser, parser->line, "Missing end of comment tag");
        }
        at++;
    }
    if (at > from && sign_at(parser, at - 1) != '\0') {
        at--;
    }
    move_to(parser, block_end(parser, at, "#}"));
}

static struct tpl_lexeme
lexeme(const struct tpl_parser *parser, enum tpl_token token)
{
    return (struct tpl_lexeme){.token = token, .line = parser->line};
}

/* The contents of a raw block, which is passed. */
static struct slice
raw_text(struct tpl_parser *parser)
{
    struct slice source = parser->source;

    for (size_t at = parser->at; at < source.len; at++) {
        size_t end = starts_with(source, at, "{%") ? raw_end(parser, at) : 0;
        if (end != 0) {
            struct slice text = {source.ptr + parser->at, at - parser->at};
            text = before_tag(parser, text, sign_at(parser, at + 2), false);
            move_to(parser, end);
            return text;
        }
    }
    if (parser->at < source.len) {
        tpl_parse_fail(parser, parser->line, "Missing end of raw directive");
    }
    return (struct slice){NULL, 0}; /* as in jinja2: the end of all */
}

/* Passes the beginning of the tag that parser->at stands on. True: *out is a
 * token. */
static bool
open_tag(struct tpl_parser *parser, struct tpl_lexeme *out)
{
    size_t raw = raw_begin(parser, parser->at);
    char kind = parser->source.ptr[parser->at + 1];

    parser->opens = false;
    if (raw != 0) {
        move_to(parser, raw);
        *out = lexeme(parser, TPL_T_DATA);
        out->text = raw_text(parser);
        return out->text.len > 0;
    }
    move_to(parser, parser->at + 2 + (sign_at(parser, parser->at + 2) != '\0'));
    if (kind == '#') {
        skip_comment(parser);
        return false;
    }
    parser->state = kind == '%' ? TPL_LEX_BLOCK : TPL_LEX_VARIABLE;
    *out =
        lexeme(parser, kind == '%' ? TPL_T_BLOCK_BEGIN : TPL_T_VARIABLE_BEGIN);
    return true;
}

static struct tpl_lexeme
lex_root(struct tpl_parser *parser)
{
    struct slice source = parser->source;
    struct tpl_lexeme out;

    for (;;) {
        size_t tag = 0;
        if (parser->opens) {
            if (open_tag(parser, &out)) {
                return out;
            }
            continue;
        }
        if (parser->at >= source.len) {
            return lexeme(parser, TPL_T_EOF);
        }
        tag = find_tag(parser);
        out = lexeme(parser, TPL_T_DATA);
        out.text = (struct slice){source.ptr + parser->at, tag - parser->at};
        if (tag < source.len) {
            out.text = before_tag(parser, out.text, sign_at(parser, tag + 2),
                                  source.ptr[tag + 1] == '{');
            parser->opens = true;
        }
        move_to(parser, tag);
        if (out.text.len > 0) {
            return out;
        }
    }
}

static const struct {
    const char *text;
    enum tpl_token token;
} operators[] = {
    {"//", TPL_T_FLOORDIV}, {"**", TPL_T_POW},      {"==", TPL_T_EQ},
    {"!=", TPL_T_NE},       {">=", TPL_T_GE},       {"<=", TPL_T_LE},
    {"+", TPL_T_ADD},       {"-", TPL_T_SUB},       {"/", TPL_T_DIV},
    {"*", TPL_T_MUL},       {"%", TPL_T_MOD},       {"~", TPL_T_TILDE},
    {"[", TPL_T_LBRACKET},  {"]", TPL_T_RBRACKET},  {"(", TPL_T_LPAREN},
    {")", TPL_T_RPAREN},    {"{", TPL_T_LBRACE},    {"}", TPL_T_RBRACE},
    {">", TPL_T_GT},        {"<", TPL_T_LT},        {"=", TPL_T_ASSIGN},
    {".", TPL_T_DOT},       {":", TPL_T_COLON},     {"|", TPL_T_PIPE},
    {",", TPL_T_COMMA},     {";", TPL_T_SEMICOLON},
};

/* Keeps account of brackets, so that "}}" may end a dictionary. */
static void
balance(struct tpl_parser *parser, char c)
{
    char open = c == ')' ? '(' : c == ']' ? '[' : '{';

    if (c == '(' || c == '[' || c == '{') {
        if (parser->brackets_count == TPL_PARSE_DEPTH_MAX) {
            tpl_parse_fail(parser, parser->line, "too many open brackets");
        }
        parser->brackets[parser->brackets_count++] = c;
    } else if (c == ')' || c == ']' || c == '}') {
        if (parser->brackets_count == 0 ||
            parser->brackets[--parser->brackets_count] != open) {
            tpl_parse_fail(parser, parser->line, "unexpected '%c'", c);
        }
    }
}

static struct tpl_lexeme
lex_operator(struct tpl_parser *parser)
{
    struct tpl_lexeme out = lexeme(parser, TPL_T_EOF);

    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++) {
        if (starts_with(parser->source, parser->at, operators[i].text)) {
            size_t n = strlen(operators[i].text);
            out.token = operators[i].token;
            if (n == 1) {
                balance(parser, operators[i].text[0]);
            }
            move_to(parser, parser->at + n);
            return out;
        }
    }
    tpl_parse_fail(parser, parser->line, "unexpected char '%c'",
                   parser->source.ptr[parser->at]);
}

/* Digits with single underscores between them: the offset behind, or from. */
static size_t
behind_digits(struct slice text, size_t from)
{
    size_t at = from;

    while (at < text.len &&
           (ascii_is_digit(text.ptr[at]) ||
            (text.ptr[at] == '_' && at > from && at + 1 < text.len &&
             ascii_is_digit(text.ptr[at + 1])))) {
        at++;
    }
    return at;
}

/* The offset behind a float at this one, or 0. */
static size_t
behind_float(struct slice text, size_t from)
{
    size_t at = behind_digits(text, from);
    size_t end = 0;
    size_t digits = 0;

    if (from > 0 && text.ptr[from - 1] == '.') {
        return 0;
    }
    if (at < text.len && text.ptr[at] == '.' &&
        behind_digits(text, at + 1) > at + 1) {
        at = end = behind_digits(text, at + 1);
    }
    if (at < text.len && ascii_lower(text.ptr[at]) == 'e') {
        digits = at + 1;
        if (digits < text.len &&
            (text.ptr[digits] == '+' || text.ptr[digits] == '-')) {
            digits++;
        }
        if (behind_digits(text, digits) > digits) {
            end = behind_digits(text, digits);
        }
    }
    return end;
}

static bool
fits_base(char c, char base)
{
    if (base == 'b') {
        return c == '0' || c == '1';
    }
    return base == 'o' ? c >= '0' && c <= '7' : ascii_hex(c) >= 0;
}

/* The offset behind the integer at this one. */
static size_t
behind_integer(struct slice text, size_t from)
{
    char base = from + 1 < text.len ? ascii_lower(text.ptr[from + 1]) : '\0';
    size_t at = from + 2;

    if (text.ptr[from] != '0') {
        return behind_digits(text, from);
    }
    if (base == 'b' || base == 'o' || base == 'x') {
        while (at < text.len && (fits_base(text.ptr[at], base) ||
                                 (text.ptr[at] == '_' && at + 1 < text.len &&
                                  fits_base(text.ptr[at + 1], base)))) {
            at++;
        }
        if (at > from + 2) {
            return at;
        }
    }
    for (at = from + 1; at < text.len; at++) {
        if (text.ptr[at] != '0' && (text.ptr[at] != '_' || at + 1 >= text.len ||
                                    text.ptr[at + 1] != '0')) {
            break;
        }
    }
    return at;
}

static bool
in_name(char c)
{
    char low = ascii_lower(c);

    return (low >= 'a' && low <= 'z') || ascii_is_digit(c) || c == '_' ||
           (unsigned char)c >= 0x80;
}

/* Passes a string literal with its quotes. */
static struct slice
pass_string(struct tpl_parser *parser)
{
    struct slice source = parser->source;
    char quote = source.ptr[parser->at];
    size_t at = parser->at + 1;
    struct slice raw;

    while (at < source.len && source.ptr[at] != quote) {
        at += source.ptr[at] == '\\' ? 2 : 1;
    }
    if (at >= source.len) {
        tpl_parse_fail(parser, parser->line, "unexpected char '%c'", quote);
    }
    raw = (struct slice){source.ptr + parser->at, at + 1 - parser->at};
    move_to(parser, at + 1);
    return raw;
}

/* A number, a name, a string or an operator. */
static struct tpl_lexeme
lex_inside(struct tpl_parser *parser)
{
    struct slice source = parser->source;
    struct tpl_lexeme out = lexeme(parser, TPL_T_NAME);
    size_t from = parser->at;
    char c = source.ptr[from];
    size_t end = from;

    if (ascii_is_digit(c)) {
        end = behind_float(source, from);
        out.token = end != 0 ? TPL_T_FLOAT : TPL_T_INTEGER;
        end = end != 0 ? end : behind_integer(source, from);
        move_to(parser, end);
        tpl_literal_number(parser,
                           (struct slice){source.ptr + from, end - from},
                           out.token == TPL_T_INTEGER, &out.value);
        return out;
    }
    if (in_name(c)) {
        while (end < source.len && in_name(source.ptr[end])) {
            end++;
        }
        out.text = (struct slice){source.ptr + from, end - from};
        move_to(parser, end);
        return out;
    }
    if (c == '\'' || c == '"') {
        out.token = TPL_T_STRING;
        tpl_literal_string(parser, pass_string(parser), &out.value);
        return out;
    }
    return lex_operator(parser);
}

/* The next token inside a tag. */
static struct tpl_lexeme
lex_tag(struct tpl_parser *parser)
{
    bool block = parser->state == TPL_LEX_BLOCK;
    size_t end = 0;
    struct tpl_lexeme out;

    for (;;) {
        if (parser->at >= parser->source.len) {
            return lexeme(parser, TPL_T_EOF);
        }
        if (parser->brackets_count == 0) {
            if (block) {
                end = block_end(parser, parser->at, "%}");
            } else if (starts_with(parser->source, parser->at, "-}}")) {
                end = behind_space(parser->source, parser->at + 3);
            } else if (starts_with(parser->source, parser->at, "}}")) {
                end = parser->at + 2;
            }
        }
        if (end != 0) {
            out = lexeme(parser, block ? TPL_T_BLOCK_END : TPL_T_VARIABLE_END);
            move_to(parser, end);
            parser->state = TPL_LEX_ROOT;
            return out;
        }
        end = behind_space(parser->source, parser->at);
        if (end == parser->at) {
            return lex_inside(parser);
        }
        move_to(parser, end);
        end = 0;
    }
}

static struct tpl_lexeme
lex(struct tpl_parser *parser)
{
    return parser->state == TPL_LEX_ROOT ? lex_root(parser) : lex_tag(parser);
}

void
tpl_lex_start(struct tpl_parser *parser)
{
    parser->line = 1;
    parser->line_starting = true;
    parser->now = lex(parser);
    parser->ahead = lex(parser);
}

struct tpl_lexeme
tpl_lex_next(struct tpl_parser *parser)
{
    struct tpl_lexeme was = parser->now;

    parser->now = parser->ahead;
    if (parser->ahead.token != TPL_T_EOF) {
        parser->ahead = lex(parser);
    }
    return was;
}

bool
tpl_lex_is(const struct tpl_parser *parser, enum tpl_token token)
{
    return parser->now.token == token;
}

bool
tpl_lex_is_name(const struct tpl_parser *parser, const char *name)
{
    return parser->now.token == TPL_T_NAME &&
           slice_equal(parser->now.text, slice_of(name));
}

bool
tpl_lex_skip(struct tpl_parser *parser, enum tpl_token token)
{
    bool is = tpl_lex_is(parser, token);

    if (is) {
        (void)tpl_lex_next(parser);
    }
    return is;
}

bool
tpl_lex_skip_name(struct tpl_parser *parser, const char *name)
{
    bool is = tpl_lex_is_name(parser, name);

    if (is) {
        (void)tpl_lex_next(parser);
    }
    return is;
}

struct tpl_lexeme
tpl_lex_expect(struct tpl_parser *parser, enum tpl_token token)
{
    if (!tpl_lex_is(parser, token)) {
        tpl_parse_fail(parser, parser->now.line,
                       "expected another token here (%d, not %d)", (int)token,
                       (int)parser->now.token);
    }
    return tpl_lex_next(parser);
}
