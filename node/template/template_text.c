/* Text as Python sees it: code points, white space, lines. */
#include "node/template/template_text_internal.h"

#include "index/base/check.h"

uint32_t
tpl_text_next(struct slice text, size_t *at)
{
    const unsigned char *from = (const unsigned char *)text.ptr + *at;
    size_t left = text.len - *at;

    CHECK_SLOW(*at < text.len);
    if (from[0] < 0x80 || left < 2) {
        *at += 1;
        return from[0];
    }
    if (from[0] < 0xE0 || left < 3) {
        *at += 2;
        return (uint32_t)(from[0] & 0x1F) << 6 | (from[1] & 0x3F);
    }
    if (from[0] < 0xF0 || left < 4) {
        *at += 3;
        return (uint32_t)(from[0] & 0x0F) << 12 |
               (uint32_t)(from[1] & 0x3F) << 6 | (from[2] & 0x3F);
    }
    *at += 4;
    return (uint32_t)(from[0] & 0x07) << 18 | (uint32_t)(from[1] & 0x3F) << 12 |
           (uint32_t)(from[2] & 0x3F) << 6 | (from[3] & 0x3F);
}

static bool
continues(char c)
{
    return ((unsigned char)c & 0xC0) == 0x80;
}

size_t
tpl_text_before(struct slice text, size_t end)
{
    size_t n = 1;

    CHECK_SLOW(end > 0 && end <= text.len);
    while (n < end && n < 4 && continues(text.ptr[end - n])) {
        n++;
    }
    return n;
}

size_t
tpl_text_count(struct slice text)
{
    size_t count = 0;

    for (size_t i = 0; i < text.len; i++) {
        count += !continues(text.ptr[i]);
    }
    return count;
}

size_t
tpl_text_offset(struct slice text, size_t n)
{
    size_t at = 0;

    while (at < text.len && n > 0) {
        at++;
        while (at < text.len && continues(text.ptr[at])) {
            at++;
        }
        n--;
    }
    return at;
}

bool
tpl_text_is_space(uint32_t c)
{
    if (c < 0x80) {
        return c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F);
    }
    return c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
           c == 0x202F || c == 0x205F || c == 0x3000;
}

struct slice
tpl_text_lstrip(struct slice text)
{
    size_t at = 0;

    while (at < text.len) {
        size_t next = at;
        if (!tpl_text_is_space(tpl_text_next(text, &next))) {
            break;
        }
        at = next;
    }
    return (struct slice){text.ptr + at, text.len - at};
}

struct slice
tpl_text_rstrip(struct slice text)
{
    while (text.len > 0) {
        size_t at = text.len - tpl_text_before(text, text.len);
        size_t from = at;
        if (!tpl_text_is_space(tpl_text_next(text, &at))) {
            break;
        }
        text.len = from;
    }
    return text;
}

static bool
holds(struct slice chars, uint32_t c)
{
    for (size_t at = 0; at < chars.len;) {
        if (tpl_text_next(chars, &at) == c) {
            return true;
        }
    }
    return false;
}

struct slice
tpl_text_lstrip_of(struct slice text, struct slice chars)
{
    size_t at = 0;

    while (at < text.len) {
        size_t next = at;
        if (!holds(chars, tpl_text_next(text, &next))) {
            break;
        }
        at = next;
    }
    return (struct slice){text.ptr + at, text.len - at};
}

struct slice
tpl_text_rstrip_of(struct slice text, struct slice chars)
{
    while (text.len > 0) {
        size_t at = text.len - tpl_text_before(text, text.len);
        size_t from = at;
        if (!holds(chars, tpl_text_next(text, &at))) {
            break;
        }
        text.len = from;
    }
    return text;
}

size_t
tpl_text_find(struct slice text, struct slice what, size_t from)
{
    const char *found = NULL;

    if (from > text.len || what.len > text.len - from) {
        return SIZE_MAX;
    }
    if (what.len == 0) {
        return from;
    }
    found = memmem(text.ptr + from, text.len - from, what.ptr, what.len);
    return found != NULL ? (size_t)(found - text.ptr) : SIZE_MAX;
}

size_t
tpl_text_rfind(struct slice text, struct slice what, size_t end)
{
    if (what.len > end) {
        return SIZE_MAX;
    }
    for (size_t at = end - what.len + 1; at-- > 0;) {
        if (what.len == 0 || memcmp(text.ptr + at, what.ptr, what.len) == 0) {
            return at;
        }
    }
    return SIZE_MAX;
}

static bool
ends_line(uint32_t c)
{
    return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 ||
           c == 0x2028 || c == 0x2029;
}

struct slice
tpl_text_line(struct slice *rest, struct slice *with_end)
{
    struct slice text = *rest;
    size_t at = 0;
    size_t end = text.len;

    while (at < text.len) {
        size_t from = at;
        uint32_t c = tpl_text_next(text, &at);
        if (ends_line(c)) {
            end = from;
            if (c == '\r' && at < text.len && text.ptr[at] == '\n') {
                at++;
            }
            break;
        }
    }
    *with_end = (struct slice){text.ptr, at};
    *rest = (struct slice){text.ptr + at, text.len - at};
    return (struct slice){text.ptr, end};
}
