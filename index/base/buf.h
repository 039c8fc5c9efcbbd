/*
 * A growing run of bytes with an upper bound, for building answers.
 *
 * The first thing that does not fit sets `failed` and everything after it is
 * dropped whole; the caller appends freely and tests once at the end.
 *
 * Role: core. Owns: its memory. Thread: one owner. Limits: max_bytes.
 */
#ifndef INDEX_BASE_BUF_H
#define INDEX_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/slice.h"

struct buf {
    char *ptr;
    size_t len;       /* bytes in use */
    size_t size;      /* bytes allocated */
    size_t max_bytes; /* never allocates more */
    bool failed;      /* over the bound, or out of memory */
};

/* Allocates nothing yet. */
void buf_init(struct buf *buf, size_t max_bytes);

void buf_fini(struct buf *buf);

/* Empty again, not failed, memory kept. */
void buf_clear(struct buf *buf);

/* Room for n more bytes at ptr + len, or NULL (and failed). */
char *buf_reserve(struct buf *buf, size_t n);

void buf_add(struct buf *buf, const void *bytes, size_t n);

void buf_add_slice(struct buf *buf, struct slice s);

void buf_add_text(struct buf *buf, const char *text);

/* In decimal; several times cheaper than buf_printf(). */
void buf_add_uint(struct buf *buf, uint64_t number);

__attribute__((format(printf, 2, 3))) void buf_printf(struct buf *buf,
                                                      const char *format, ...);

/* Drops the first n bytes; n <= len. */
void buf_drop(struct buf *buf, size_t n);

static inline struct slice
buf_slice(const struct buf *buf)
{
    return (struct slice){.ptr = buf->ptr, .len = buf->len};
}

#endif
