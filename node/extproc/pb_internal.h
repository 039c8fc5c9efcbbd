/*
 * The wire form of protocol buffers, as far as extproc.h needs it: fields are
 * read one after the other, and written with the least of bytes.
 *
 * Role: core, private to node/extproc. Owns: nothing; slices point into the
 * message. Thread: any. Errors: `bad`. Source: protobuf.dev, "Encoding".
 */
#ifndef NODE_PB_INTERNAL_H
#define NODE_PB_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/buf.h"
#include "index/base/slice.h"

enum pb_type {
    PB_VARINT = 0,
    PB_FIXED64 = 1,
    PB_BYTES = 2,
    PB_FIXED32 = 5,
};

struct pb {
    struct slice rest;
    bool bad; /* it is no message: nothing more is read */
};

struct pb_field {
    uint32_t number;
    enum pb_type type;
    uint64_t value;     /* of the other types */
    struct slice bytes; /* with PB_BYTES */
};

static inline struct pb
pb_over(struct slice message)
{
    return (struct pb){.rest = message};
}

/* The next field. False: there is none, or the message is bad. */
bool pb_next(struct pb *pb, struct pb_field *field);

/* Whether the field is that one, and bytes. */
static inline bool
pb_is_bytes(const struct pb_field *field, uint32_t number)
{
    return field->number == number && field->type == PB_BYTES;
}

static inline bool
pb_is_varint(const struct pb_field *field, uint32_t number)
{
    return field->number == number && field->type == PB_VARINT;
}

/* How many bytes a number takes. */
unsigned pb_varint_size(uint64_t value);

void pb_put_varint(struct buf *out, uint64_t value);
/* A field; one with its default value may as well be left out. */
void pb_put_number(struct buf *out, uint32_t field, uint64_t value);
void pb_put_bytes(struct buf *out, uint32_t field, struct slice bytes);

/* A message in a message: what is written between the two is in it. */
size_t pb_begin(struct buf *out, uint32_t field);
void pb_end(struct buf *out, size_t mark);

#endif
