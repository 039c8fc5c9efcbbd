#include "index/base/slice.h"

static unsigned char
fold(char c)
{
    unsigned char u = (unsigned char)c;
    return u >= 'A' && u <= 'Z' ? (unsigned char)(u | 0x20U) : u;
}

bool
slice_equal_nocase(struct slice a, struct slice b)
{
    if (a.len != b.len) {
        return false;
    }
    for (size_t i = 0; i < a.len; i++) {
        if (fold(a.ptr[i]) != fold(b.ptr[i])) {
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

    if (order != 0) {
        return order;
    }
    return (a.len > b.len) - (a.len < b.len);
}

static bool
is_blank(char c)
{
    return c == ' ' || c == '\t';
}

struct slice
slice_trim(struct slice s)
{
    while (s.len != 0 && is_blank(s.ptr[0])) {
        s.ptr++;
        s.len--;
    }
    while (s.len != 0 && is_blank(s.ptr[s.len - 1])) {
        s.len--;
    }
    return s;
}
