/*
 * Little-endian numbers and texts as bytes, written and read.
 *
 * Role: core, private. Owns: nothing. Thread: any. Limits: the buffer's.
 * Errors: sticky: buf.failed when writing, bytes_in.failed when reading, to be
 * tested at the end.
 */
#ifndef STORAGE_BYTES_INTERNAL_H
#define STORAGE_BYTES_INTERNAL_H

#include <string.h>

#include "index/base/buf.h"
#include "index/base/check.h"

/* Appends the low `size` bytes (1 to 8) of a number. */
static inline void
put_number(struct buf *out, uint64_t number, unsigned size)
{
    uint8_t bytes[8];

    CHECK_SLOW(size >= 1 && size <= sizeof bytes);
    for (unsigned i = 0; i < size; i++) {
        bytes[i] = (uint8_t)(number >> (8 * i));
    }
    buf_add(out, bytes, size);
}

/* Appends four bytes. */
static inline void
put_u32(struct buf *out, uint32_t number)
{
    put_number(out, number, 4);
}

/* Appends eight bytes. */
static inline void
put_u64(struct buf *out, uint64_t number)
{
    put_number(out, number, 8);
}

/* Appends the length in four bytes, then the text. */
static inline void
put_text(struct buf *out, struct slice text)
{
    CHECK_SLOW(text.len <= UINT32_MAX);
    put_u32(out, (uint32_t)text.len);
    buf_add_slice(out, text);
}

/* What is left to be read. After a failure every number reads as 0. */
struct bytes_in {
    const char *at;
    size_t left;
    bool failed;
};

/* The next `size` bytes, borrowed; NULL when fewer are left. */
static inline const char *
get_bytes(struct bytes_in *in, size_t size)
{
    const char *at = in->at;

    if (in->failed || size > in->left) {
        in->failed = true;
        return NULL;
    }
    in->at += size;
    in->left -= size;
    return at;
}

/* A number of `size` bytes (1 to 8). */
static inline uint64_t
get_number(struct bytes_in *in, unsigned size)
{
    const char *at = get_bytes(in, size);
    uint64_t number = 0;

    CHECK_SLOW(size >= 1 && size <= sizeof(number));
    for (unsigned i = 0; at != NULL && i < size; i++) {
        number |= (uint64_t)(uint8_t)at[i] << (8 * i);
    }
    return number;
}

/* A number of four bytes. */
static inline uint32_t
get_u32(struct bytes_in *in)
{
    return (uint32_t)get_number(in, 4);
}

/* A number of eight bytes. */
static inline uint64_t
get_u64(struct bytes_in *in)
{
    return get_number(in, 8);
}

/* A text as put_text() wrote it, borrowed from the bytes. */
static inline struct slice
get_text(struct bytes_in *in)
{
    uint32_t len = get_u32(in);
    const char *at = get_bytes(in, len);

    return at == NULL ? (struct slice){0} : (struct slice){at, len};
}

#endif
