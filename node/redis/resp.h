/*
 * The small part of Redis' protocol (RESP 2) that this node speaks: a command is
 * a list of words, a reply is a text, a number, bytes, nothing, or a list of
 * these that is no deeper.
 *
 * Source: the protocol's specification, redis.io/docs/reference/protocol-spec.
 * Role: core. Owns: nothing. Thread: any. Limits: RESP_ITEMS_MAX, and of bytes
 * what the caller says. Errors: named outcomes.
 */
#ifndef NODE_RESP_H
#define NODE_RESP_H

#include <stddef.h>
#include <stdint.h>

#include "index/base/buf.h"
#include "index/base/check.h"
#include "index/base/slice.h"

#define RESP_ITEMS_MAX 8U   /* of a list */
#define RESP_LINE_MAX  512U /* bytes of a text, or of a length */

enum resp_kind {
    RESP_TEXT,
    RESP_ERROR,
    RESP_NUMBER,
    RESP_BYTES,
    RESP_NOTHING,
    RESP_LIST,
};

struct resp_item {
    enum resp_kind kind;
    struct slice bytes; /* of a text, an error, bytes; borrowed */
    int64_t number;     /* RESP_NUMBER */
};

struct resp {
    struct resp_item item; /* itself, or RESP_LIST of: */
    struct resp_item items[RESP_ITEMS_MAX];
    uint32_t count;
    size_t size; /* bytes that it took */
};

enum {
    RESP_E_MORE = 1, /* it is not whole yet */
    RESP_E_BAD,      /* it is none, or larger than allowed */
};

/* Reads the reply at the start of in, with bytes of at most bytes_max. 0, and
 * *resp borrows from in; or an outcome above. */
int resp_read(struct slice in, size_t bytes_max, struct resp *resp) MUST_CHECK;

/* Appends a command of one word or more. */
void resp_add(struct buf *out, const struct slice *words, unsigned count);

#endif
