/*
 * Borrowed runs of bytes: comparing, trimming, splitting.
 */
#include "index/base/slice.h"

#include "index/base/ascii.h"

/* What is true of every slice. */
static bool
slice_sound(struct slice s)
{
    return s.ptr != NULL || s.len == 0;
}

bool
slice_equal_nocase(struct slice a, struct slice b)
{
    CHECK_SLOW(slice_sound(a) && slice_sound(b));
    if (a.len != b.len) {
        return false;
    }
    for (size_t i = 0; i < a.len; i++) {
        if (ascii_lower(a.ptr[i]) != ascii_lower(b.ptr[i])) {
            return false;
        }
    }
    return true;
}

int
slice_compare(struct slice a, struct slice b)
{
    size_t shorter = a.len < b.len ? a.len : b.len;
    int order = shorter != 0 ? memcmp(a.ptr, b.ptr, shorter) : 0;

    CHECK_SLOW(slice_sound(a) && slice_sound(b));
    if (order != 0) {
        return order;
    }
    return (a.len > b.len) - (a.len < b.len);
}

struct slice
slice_trim(struct slice s)
{
    CHECK_SLOW(slice_sound(s));
    while (s.len != 0 && ascii_is_blank(s.ptr[0])) {
        s.ptr++;
        s.len--;
    }
    while (s.len != 0 && ascii_is_blank(s.ptr[s.len - 1])) {
        s.len--;
    }
    return s;
}

struct slice
slice_take(struct slice *rest, char separator)
{
    const char *end =
        rest->len != 0 ? memchr(rest->ptr, separator, rest->len) : NULL;
    struct slice part = *rest;

    CHECK_SLOW(slice_sound(*rest));
    if (end == NULL) {
        *rest = (struct slice){.len = 0};
        return part;
    }
    part.len = (size_t)(end - rest->ptr);
    rest->ptr = end + 1;
    rest->len -= part.len + 1;
    return part;
}

struct slice
slice_take_line(struct slice *rest)
{
    struct slice line = slice_take(rest, '\n');

    if (line.len != 0 && line.ptr[line.len - 1] == '\r') {
        line.len--;
    }
    return line;
}

static bool
ends_word(char c)
{
    return ascii_is_blank(c) || c == '\r' || c == '\n';
}

struct slice
slice_take_word(struct slice *rest)
{
    size_t len = 0;

    while (rest->len != 0 && ends_word(rest->ptr[0])) {
        slice_skip(rest, 1);
    }
    while (len < rest->len && !ends_word(rest->ptr[len])) {
        len++;
    }
    return slice_take_len(rest, len);
}

struct slice
slice_take_until(struct slice *rest, struct slice mark)
{
    const char *at = rest->len != 0
                         ? memmem(rest->ptr, rest->len, mark.ptr, mark.len)
                         : NULL;
    struct slice found = {.ptr = NULL, .len = 0};

    if (at != NULL) {
        found = slice_take_len(rest, (size_t)(at - rest->ptr));
        slice_skip(rest, mark.len);
    }
    return found;
}
