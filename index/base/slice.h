/*
 * A borrowed run of bytes: pointer and length, not NUL-terminated.
 *
 * Every slice that a function here returns lies within the one it was given.
 *
 * Role: core. Owns: nothing; the bytes live as long as their owner says.
 * Thread: any. Limits: none. Errors: none.
 */
#ifndef INDEX_BASE_SLICE_H
#define INDEX_BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "index/base/check.h"

struct slice {
    const char *ptr; /* NULL only when len is 0 */
    size_t len;      /* bytes */
};

/* For string literals: SLICE("close"). */
#define SLICE(literal) \
    ((struct slice){.ptr = (literal), .len = sizeof(literal) - 1})

/* Wraps a NUL-terminated string; NULL becomes the empty slice. */
static inline struct slice
slice_of(const char *text)
{
    return (struct slice){.ptr = text, .len = text != NULL ? strlen(text) : 0};
}

/* True when both have the same bytes. */
static inline bool
slice_equal(struct slice a, struct slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

/* True when the two are equal after folding ASCII letters to lower case. */
bool slice_equal_nocase(struct slice a, struct slice b);

/* True when the first bytes of s are those. */
static inline bool
slice_begins(struct slice s, struct slice with)
{
    return s.len >= with.len &&
           slice_equal((struct slice){s.ptr, with.len}, with);
}

/* True when the last bytes of s are those. */
static inline bool
slice_ends(struct slice s, struct slice with)
{
    return s.len >= with.len &&
           (with.len == 0 ||
            memcmp(s.ptr + (s.len - with.len), with.ptr, with.len) == 0);
}

/* slice_begins() after folding ASCII letters to lower case. */
static inline bool
slice_begins_nocase(struct slice s, struct slice with)
{
    return s.len >= with.len &&
           slice_equal_nocase((struct slice){s.ptr, with.len}, with);
}

/* Below 0, 0 or above 0, as memcmp(); the shorter comes first when one is a
 * prefix of the other. */
int slice_compare(struct slice a, struct slice b);

/* The slice without leading and trailing spaces and tabs. */
struct slice slice_trim(struct slice s);

/* Takes n bytes off the front; n <= s->len. */
static inline void
slice_skip(struct slice *s, size_t n)
{
    CHECK(n <= s->len);
    if (n != 0) { /* an empty slice may have no bytes to point at */
        s->ptr += n;
        s->len -= n;
    }
}

/* The same, and returns them. */
static inline struct slice
slice_take_len(struct slice *rest, size_t n)
{
    struct slice taken = {.ptr = rest->ptr, .len = n};

    slice_skip(rest, n);
    return taken;
}

/* Takes `text` off the front. False: *s does not begin with it, and is as it
 * was. */
static inline bool
slice_skip_text(struct slice *s, struct slice text)
{
    bool begins = slice_begins(*s, text);

    slice_skip(s, begins ? text.len : 0);
    return begins;
}

/* The same after folding ASCII letters to lower case. */
static inline bool
slice_skip_nocase(struct slice *s, struct slice text)
{
    bool begins = slice_begins_nocase(*s, text);

    slice_skip(s, begins ? text.len : 0);
    return begins;
}

/* Returns what is before the first separator, and takes that and the separator
 * off the front of *rest; without a separator that is all of it. */
struct slice slice_take(struct slice *rest, char separator);

/* The same for a line that ends with LF or CR LF, which it comes without. */
struct slice slice_take_line(struct slice *rest);

/* The next word between blanks and ends of lines; an empty one at the end. */
struct slice slice_take_word(struct slice *rest);

/* Returns what is before the first `mark`, and takes both off the front of
 * *rest. Without a mark that is nothing, its ptr is NULL. */
struct slice slice_take_until(struct slice *rest, struct slice mark);

#endif
