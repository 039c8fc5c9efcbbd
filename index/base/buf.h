/*
 * A growing run of bytes with an upper bound, for building answers.
 *
 * The first thing that does not fit sets `failed`, and everything after it is
 * dropped whole. So the caller appends freely and tests `failed` once, at the
 * end. Every function takes a buffer that was initialised. Bytes that are
 * appended are copied; the caller keeps its own.
 *
 * Role: core. Owns: its memory. Thread: one owner. Limits: max_bytes.
 * Errors: `failed`, when the bound is reached or memory is short.
 */
#ifndef INDEX_BASE_BUF_H
#define INDEX_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "index/base/check.h"
#include "index/base/slice.h"

struct buf {
    char *ptr;
    size_t len;       /* bytes in use */
    size_t size;      /* bytes allocated */
    size_t max_bytes; /* never allocates more */
    bool failed;      /* over the bound, or out of memory */
};

/* An empty buffer of at most max_bytes. Allocates nothing yet. */
void buf_init(struct buf *buf, size_t max_bytes);

/* Over the caller's bytes instead of memory of its own: nothing is allocated,
 * and nothing is to be given back by buf_fini(). */
static inline struct buf
buf_over(void *bytes, size_t size)
{
    return (struct buf){.ptr = bytes, .size = size, .max_bytes = size};
}

/* Frees the memory. The buffer may be initialised again. */
void buf_fini(struct buf *buf);

/* Makes it empty again, and not failed. Its memory is kept. */
void buf_clear(struct buf *buf);

/*
 * Makes room for n more bytes and returns where they go, ptr + len, until the
 * next call. The caller writes them and adds n to len. NULL: `failed` is set.
 */
char *buf_reserve(struct buf *buf, size_t n);

/* buf_add(), where there is no room yet, or nothing to add. */
void buf_add_slowly(struct buf *buf, const void *bytes, size_t n);

/* Appends n bytes; bytes may be NULL when n is 0. */
static inline void
buf_add(struct buf *buf, const void *bytes, size_t n)
{
    if (UNLIKELY(n == 0 || n > buf->size - buf->len || buf->failed)) {
        buf_add_slowly(buf, bytes, n);
        return;
    }
    memcpy(buf->ptr + buf->len, bytes, n);
    buf->len += n;
}

/* Appends the bytes of a slice. */
static inline void
buf_add_slice(struct buf *buf, struct slice s)
{
    buf_add(buf, s.ptr, s.len);
}

/* Appends a NUL-terminated text, without its NUL. */
static inline void
buf_add_text(struct buf *buf, const char *text)
{
    buf_add(buf, text, strlen(text));
}

/* Appends a number in decimal; several times cheaper than buf_printf(). */
void buf_add_uint(struct buf *buf, uint64_t number);

/* Appends what printf() would print, without a NUL. */
__attribute__((format(printf, 2, 3))) void buf_printf(struct buf *buf,
                                                      const char *format, ...);

/* Drops the first n bytes and moves the others down; n <= len. */
void buf_drop(struct buf *buf, size_t n);

/* What is in it, borrowed until the next call that appends or frees. */
static inline struct slice
buf_slice(const struct buf *buf)
{
    return (struct slice){.ptr = buf->ptr, .len = buf->len};
}

#endif
