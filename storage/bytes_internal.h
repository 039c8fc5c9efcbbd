/*
 * Little-endian numbers in bytes, written and read.
 *
 * Role: core. Owns: nothing. Thread: any. Errors: sticky, tested at the end.
 */
#ifndef STORAGE_BYTES_INTERNAL_H
#define STORAGE_BYTES_INTERNAL_H

#include <string.h>

#include "index/base/buf.h"

static inline void
put_number(struct buf *out, uint64_t number, unsigned size)
{
    uint8_t bytes[8];

    for (unsigned i = 0; i < size; i++) {
        bytes[i] = (uint8_t)(number >> (8 * i));
    }
    buf_add(out, bytes, size);
}

static inline void
put_u32(struct buf *out, uint32_t number)
{
    put_number(out, number, 4);
}

static inline void
put_u64(struct buf *out, uint64_t number)
{
    put_number(out, number, 8);
}

static inline void
put_text(struct buf *out, struct slice text)
{
    put_u32(out, (uint32_t)text.len);
    buf_add_slice(out, text);
}

struct bytes_in {
    const char *at;
    size_t left;
    bool failed;
};

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

static inline uint64_t
get_number(struct bytes_in *in, unsigned size)
{
    const char *at = get_bytes(in, size);
    uint64_t number = 0;

    for (unsigned i = 0; at != NULL && i < size; i++) {
        number |= (uint64_t)(uint8_t)at[i] << (8 * i);
    }
    return number;
}

static inline uint32_t
get_u32(struct bytes_in *in)
{
    return (uint32_t)get_number(in, 4);
}

static inline uint64_t
get_u64(struct bytes_in *in)
{
    return get_number(in, 8);
}

/* Borrowed. */
static inline struct slice
get_text(struct bytes_in *in)
{
    uint32_t len = get_u32(in);
    const char *at = get_bytes(in, len);

    return at == NULL ? (struct slice){0} : (struct slice){at, len};
}

#endif
