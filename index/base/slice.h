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

/* Below 0, 0 or above 0, as memcmp(); the shorter comes first when one is a
 * prefix of the other. */
int slice_compare(struct slice a, struct slice b);

/* The slice without leading and trailing spaces and tabs. */
struct slice slice_trim(struct slice s);

/* Returns what is before the first separator, and takes that and the separator
 * off the front of *rest; without a separator that is all of it. */
struct slice slice_take(struct slice *rest, char separator);

/* The same for a line that ends with LF or CR LF, which it comes without. */
struct slice slice_take_line(struct slice *rest);

#endif
