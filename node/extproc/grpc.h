/*
 * Messages of gRPC in a stream of bytes: each has a flag (0: not compressed)
 * and its length, 4 bytes, before it.
 *
 * Role: core. Owns: nothing. Thread: any. Errors: named outcomes. Source: gRPC
 * over HTTP2 (PROTOCOL-HTTP2.md).
 */
#ifndef NODE_GRPC_H
#define NODE_GRPC_H

#include <stddef.h>
#include <stdint.h>

#include "index/base/buf.h"
#include "index/base/slice.h"

#define GRPC_HEAD 5U

/* How a call ends. */
enum grpc_status {
    GRPC_OK = 0,
    GRPC_INVALID = 3,
    GRPC_EXHAUSTED = 8,
    GRPC_UNIMPLEMENTED = 12,
    GRPC_UNAVAILABLE = 14,
};

enum {
    GRPC_E_MORE = 1, /* it is not here whole */
    GRPC_E_LARGE,    /* over max_bytes */
    GRPC_E_CODED,    /* compressed, though nobody offered to read that */
};

/* The message at the start of in; *message points into it. 0: GRPC_HEAD and
 * message->len bytes are it; or an outcome. */
static inline int
grpc_take(struct slice in, size_t max_bytes, struct slice *message)
{
    size_t len = 0;

    if (in.len >= 1 && in.ptr[0] != 0) {
        return GRPC_E_CODED;
    }
    if (in.len < GRPC_HEAD) {
        return GRPC_E_MORE;
    }
    for (unsigned i = 1; i < GRPC_HEAD; i++) {
        len = len << 8 | (uint8_t)in.ptr[i];
    }
    if (len > max_bytes) {
        return GRPC_E_LARGE;
    }
    *message = (struct slice){in.ptr + GRPC_HEAD, len};
    return in.len - GRPC_HEAD < len ? GRPC_E_MORE : 0;
}

/* What is appended from here to grpc_end() is one message. */
static inline size_t
grpc_begin(struct buf *out)
{
    buf_add(out, "\0\0\0\0\0", GRPC_HEAD);
    return out->len;
}

/* The message that grpc_begin() returned the mark of is whole. */
static inline void
grpc_end(struct buf *out, size_t mark)
{
    if (out->failed) {
        return;
    }
    size_t len = out->len - mark;
    for (unsigned i = 1; i < GRPC_HEAD; i++) {
        out->ptr[mark - i] = (char)(uint8_t)(len >> (8 * (i - 1)));
    }
}

#endif
