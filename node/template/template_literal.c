/* Literals of templates: strings with their escapes, numbers in any base. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "index/base/ascii.h"
#include "node/template/template_parse_internal.h"
#include "node/template/template_text_internal.h"

/* The code point of n hex digits at text[at]; fails on others. */
static uint32_t
hex(struct tpl_parser *parser, struct slice text, size_t at, size_t n)
{
    uint32_t value = 0;

    for (size_t i = at; i < at + n; i++) {
        int digit = i < text.len ? ascii_hex(text.ptr[i]) : -1;
        if (digit < 0) {
            tpl_parse_fail(parser, parser->line,
                           "truncated escape in a string");
        }
        value = value * 16 + (uint32_t)digit;
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) {
        tpl_parse_fail(parser, parser->line, "illegal character in an escape");
    }
    return value;
}

/* A backslash before a character that is not ASCII: Python's detour through
 * ASCII leaves the character's own escape, without its backslash. */
static size_t
odd_escape(struct slice text, size_t *at, char *out)
{
    uint32_t c = tpl_text_next(text, at);
    int n = 0;

    if (c < 0x100) {
        n = snprintf(out, 12, "\\x%02x", (unsigned)c);
    } else if (c < 0x10000) {
        n = snprintf(out, 12, "\\u%04x", (unsigned)c);
    } else {
        n = snprintf(out, 12, "\\U%08x", (unsigned)c);
    }
    return (size_t)n;
}

/* Writes the escape at text[*at], behind its backslash, and moves *at on. */
static size_t
escape(struct tpl_parser *parser, struct slice text, size_t *at, char *out)
{
    static const char from[] = "\\'\"abfnrtv";
    static const char to[] = "\\'\"\a\b\f\n\r\t\v";
    char c = text.ptr[*at];
    const char *plain = c != '\0' ? strchr(from, c) : NULL;
    uint32_t value = 0;

    if ((unsigned char)c >= 0x80) {
        return odd_escape(text, at, out);
    }
    (*at)++;
    if (plain != NULL) {
        out[0] = to[plain - from];
        return 1;
    }
    if (c == '\n') {
        return 0;
    }
    if (c == 'x' || c == 'u' || c == 'U') {
        size_t n = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        value = hex(parser, text, *at, n);
        *at += n;
        return utf8_write(value, out);
    }
    if (c == 'N') {
        tpl_parse_fail(parser, parser->line,
                       "characters by name are not supported");
    }
    if (c >= '0' && c <= '7') {
        size_t end = *at + 2;
        value = (uint32_t)(c - '0');
        while (*at < end && *at < text.len && text.ptr[*at] >= '0' &&
               text.ptr[*at] <= '7') {
            value = value * 8 + (uint32_t)(text.ptr[(*at)++] - '0');
        }
        return utf8_write(value, out);
    }
    out[0] = '\\';
    out[1] = c;
    return 2;
}

void
tpl_literal_string(struct tpl_parser *parser, struct slice raw,
                   struct json_value *value)
{
    struct slice text = {raw.ptr + 1, raw.len - 2};
    char *out = NULL;
    size_t len = 0;

    if (text.len == 0 || memchr(text.ptr, '\\', text.len) == NULL) {
        *value = json_tree_text(text);
        return;
    }
    /* No escape is longer than the five bytes for each of its own at most. */
    out = tpl_parse_take(parser, text.len * 5 + 16);
    for (size_t at = 0; at < text.len;) {
        if (text.ptr[at] != '\\') {
            out[len++] = text.ptr[at++];
        } else {
            at++;
            len += escape(parser, text, &at, out + len);
        }
    }
    *value = json_tree_text((struct slice){out, len});
}

void
tpl_literal_number(struct tpl_parser *parser, struct slice raw, bool integer,
                   struct json_value *value)
{
    char *text = tpl_parse_take(parser, raw.len + 1);
    size_t len = 0;
    int base = 10;

    for (size_t i = 0; i < raw.len; i++) {
        if (raw.ptr[i] != '_') {
            text[len++] = raw.ptr[i];
        }
    }
    text[len] = '\0';
    if (!integer) {
        *value = (struct json_value){.kind = JSON_REAL,
                                     .as.real = strtod(text, NULL)};
        return;
    }
    if (len > 1 && text[0] == '0') {
        char mark = ascii_lower(text[1]);
        base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
    }
    errno = 0;
    *value = (struct json_value){
        .kind = JSON_INT,
        .as.integer = strtoll(base == 10 ? text : text + 2, NULL, base)};
    if (errno == ERANGE) {
        if (base != 10 || len > JSON_TREE_DIGITS_MAX) {
            tpl_parse_fail(parser, parser->line, "integer too large");
        }
        *value = json_tree_text((struct slice){text, len});
        value->kind = JSON_BIG;
    }
}
