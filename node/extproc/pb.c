/* Fields of protocol buffers, read and written. */
#include "node/extproc/pb_internal.h"

#define VARINT_MAX 10U /* bytes of 64 bits */

/* False: it is cut off, or too long. */
static bool
take_varint(struct slice *rest, uint64_t *value)
{
    *value = 0;
    for (unsigned i = 0; i < VARINT_MAX && i < rest->len; i++) {
        uint8_t byte = (uint8_t)rest->ptr[i];
        if (i == VARINT_MAX - 1 && byte > 1) {
            return false;
        }
        *value |= (uint64_t)(byte & 0x7fU) << (7 * i);
        if ((byte & 0x80U) == 0) {
            *rest = (struct slice){rest->ptr + i + 1, rest->len - i - 1};
            return true;
        }
    }
    return false;
}

/* Little end first. */
static bool
take_fixed(struct slice *rest, unsigned size, uint64_t *value)
{
    if (rest->len < size) {
        return false;
    }
    *value = 0;
    for (unsigned i = 0; i < size; i++) {
        *value |= (uint64_t)(uint8_t)rest->ptr[i] << (8 * i);
    }
    slice_skip(rest, size);
    return true;
}

static bool
take_bytes(struct slice *rest, struct slice *bytes)
{
    uint64_t len;

    if (!take_varint(rest, &len) || len > rest->len) {
        return false;
    }
    *bytes = slice_take_len(rest, (size_t)len);
    return true;
}

static bool
take_field(struct slice *rest, struct pb_field *field)
{
    uint64_t tag;

    *field = (struct pb_field){.number = 0};
    if (!take_varint(rest, &tag) || tag >> 3 == 0 || tag >> 3 >= 1U << 29) {
        return false;
    }
    field->number = (uint32_t)(tag >> 3);
    switch (tag & 7) {
    case PB_VARINT:
        field->type = PB_VARINT;
        return take_varint(rest, &field->value);
    case PB_FIXED64:
        field->type = PB_FIXED64;
        return take_fixed(rest, 8, &field->value);
    case PB_BYTES:
        field->type = PB_BYTES;
        return take_bytes(rest, &field->bytes);
    case PB_FIXED32:
        field->type = PB_FIXED32;
        return take_fixed(rest, 4, &field->value);
    default: /* groups, which no message here has */
        return false;
    }
}

bool
pb_next(struct pb *pb, struct pb_field *field)
{
    if (pb->bad || pb->rest.len == 0) {
        return false;
    }
    pb->bad = !take_field(&pb->rest, field);
    return !pb->bad;
}

unsigned
pb_varint_size(uint64_t value)
{
    unsigned size = 1;

    for (; value >= 0x80U; value >>= 7) {
        size++;
    }
    return size;
}

void
pb_put_varint(struct buf *out, uint64_t value)
{
    uint8_t bytes[VARINT_MAX];
    unsigned count = 0;

    for (; value >= 0x80U; value >>= 7) {
        bytes[count++] = (uint8_t)(value | 0x80U);
    }
    bytes[count++] = (uint8_t)value;
    buf_add(out, bytes, count);
}

void
pb_put_number(struct buf *out, uint32_t field, uint64_t value)
{
    pb_put_varint(out, (uint64_t)field << 3 | PB_VARINT);
    pb_put_varint(out, value);
}

void
pb_put_bytes(struct buf *out, uint32_t field, struct slice bytes)
{
    pb_put_varint(out, (uint64_t)field << 3 | PB_BYTES);
    pb_put_varint(out, bytes.len);
    buf_add_slice(out, bytes);
}

size_t
pb_begin(struct buf *out, uint32_t field)
{
    pb_put_varint(out, (uint64_t)field << 3 | PB_BYTES);
    return out->len;
}

void
pb_end(struct buf *out, size_t mark)
{
    if (out->failed) {
        return;
    }
    CHECK(mark <= out->len);
    size_t len = out->len - mark;
    unsigned size = pb_varint_size(len);

    if (buf_reserve(out, size) == NULL) {
        return;
    }
    memmove(out->ptr + mark + size, out->ptr + mark, len);
    out->len = mark;
    pb_put_varint(out, len); /* over what has just been moved away */
    out->len += len;
}
