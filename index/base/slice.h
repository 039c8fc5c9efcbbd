/*
 * A borrowed run of bytes: pointer and length, not NUL-terminated.
 *
 * Owns: nothing. The bytes live as long as whoever lent them says.
 * Thread: any.
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

static inline bool
slice_equal(struct slice a, struct slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

/* True when the two are equal after folding ASCII letters to lower case. */
bool slice_equal_nocase(struct slice a, struct slice b);

/* Order of bytes, the shorter first when one is a prefix of the other. */
int slice_compare(struct slice a, struct slice b);

/* Without leading and trailing spaces and tabs. */
struct slice slice_trim(struct slice s);

/* Takes what is before the first separator off the front, and the separator;
 * all of it when there is none. */
struct slice slice_take(struct slice *rest, char separator);

/* The same for a line that ends with LF or CR LF, which it comes without. */
struct slice slice_take_line(struct slice *rest);

#endif
