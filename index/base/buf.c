/*
 * A growing run of bytes: appending within a bound.
 */
#include "index/base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "index/base/check.h"

#define FIRST_BYTES 256

/* What is true of a buffer between two calls. */
static bool
buf_sound(const struct buf *buf)
{
    return buf->len <= buf->size && buf->size <= buf->max_bytes &&
           (buf->size == 0) == (buf->ptr == NULL);
}

void
buf_init(struct buf *buf, size_t max_bytes)
{
    CHECK(buf != NULL);
    *buf = (struct buf){.max_bytes = max_bytes};
}

void
buf_fini(struct buf *buf)
{
    free(buf->ptr);
    *buf = (struct buf){.ptr = NULL};
}

void
buf_clear(struct buf *buf)
{
    CHECK_SLOW(buf_sound(buf));
    buf->len = 0;
    buf->failed = false;
}

char *
buf_reserve(struct buf *buf, size_t n)
{
    CHECK(buf_sound(buf));
    if (buf->failed || n > buf->max_bytes - buf->len) {
        buf->failed = true;
        return NULL;
    }
    if (buf->len + n > buf->size) {
        size_t size = buf->size != 0 ? buf->size : FIRST_BYTES;
        while (size < buf->len + n) {
            size *= 2;
        }
        if (size > buf->max_bytes) {
            size = buf->max_bytes;
        }
        char *grown = realloc(buf->ptr, size);
        if (grown == NULL) {
            buf->failed = true;
            return NULL;
        }
        buf->ptr = grown;
        buf->size = size;
    }
    return buf->ptr + buf->len;
}

void
buf_add_slowly(struct buf *buf, const void *bytes, size_t n)
{
    char *room = n != 0 ? buf_reserve(buf, n) : NULL;

    CHECK(n == 0 || bytes != NULL);
    if (room != NULL) {
        memcpy(room, bytes, n);
        buf->len += n;
    }
}

void
buf_add_uint(struct buf *buf, uint64_t number)
{
    char digits[20];
    size_t at = sizeof(digits);

    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    buf_add(buf, digits + at, sizeof(digits) - at);
}

void
buf_printf(struct buf *buf, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    int need = vsnprintf(NULL, 0, format, args);
    va_end(args);
    CHECK(need >= 0);
    char *room = buf_reserve(buf, (size_t)need + 1);
    if (room == NULL) {
        return;
    }
    va_start(args, format);
    (void)vsnprintf(room, (size_t)need + 1, format, args);
    va_end(args);
    buf->len += (size_t)need;
}

void
buf_drop(struct buf *buf, size_t n)
{
    CHECK(n <= buf->len);
    buf->len -= n;
    if (buf->len != 0) {
        memmove(buf->ptr, buf->ptr + n, buf->len);
    }
    CHECK_SLOW(buf_sound(buf));
}
