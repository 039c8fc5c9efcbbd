/* Numbers, texts and heads as msgpack. */
#include "chaos/engine/engine_events_pack.h"

#include "index/base/check.h"

enum {
    PACK_MAP_FIX = 0x80,
    PACK_ARRAY_FIX = 0x90,
    PACK_TEXT_FIX = 0xa0,
    PACK_NIL = 0xc0,
    PACK_BYTES_8 = 0xc4, /* then _16, _32 */
    PACK_REAL = 0xcb,
    PACK_UINT_8 = 0xcc, /* then _16, _32, _64 */
    PACK_INT_8 = 0xd0,  /* then _16, _32, _64 */
    PACK_TEXT_8 = 0xd9, /* then _16, _32 */
    PACK_ARRAY_16 = 0xdc,
    PACK_MAP_16 = 0xde,
};

/* A type byte, and the lowest `bytes` bytes of the number, big end first. */
static void
put(struct buf *out, uint32_t type, uint64_t number, uint32_t bytes)
{
    unsigned char *at = (unsigned char *)buf_reserve(out, 1 + (size_t)bytes);

    if (at == NULL) {
        return;
    }
    at[0] = (unsigned char)type;
    for (uint32_t i = 0; i < bytes; i++) {
        at[1 + i] = (unsigned char)(number >> 8 * (bytes - 1 - i));
    }
    out->len += 1 + (size_t)bytes;
}

void
engine_pack_nil(struct buf *out)
{
    put(out, PACK_NIL, 0, 0);
}

void
engine_pack_uint(struct buf *out, uint64_t number)
{
    if (number < 128) {
        put(out, (uint32_t)number, 0, 0);
    } else if (number <= UINT8_MAX) {
        put(out, PACK_UINT_8, number, 1);
    } else if (number <= UINT16_MAX) {
        put(out, PACK_UINT_8 + 1, number, 2);
    } else if (number <= UINT32_MAX) {
        put(out, PACK_UINT_8 + 2, number, 4);
    } else {
        put(out, PACK_UINT_8 + 3, number, 8);
    }
}

void
engine_pack_int(struct buf *out, int64_t number)
{
    if (number >= 0) {
        engine_pack_uint(out, (uint64_t)number);
    } else if (number >= -32) {
        put(out, (uint32_t)number & UINT8_MAX, 0, 0);
    } else if (number >= INT8_MIN) {
        put(out, PACK_INT_8, (uint64_t)number, 1);
    } else if (number >= INT16_MIN) {
        put(out, PACK_INT_8 + 1, (uint64_t)number, 2);
    } else if (number >= INT32_MIN) {
        put(out, PACK_INT_8 + 2, (uint64_t)number, 4);
    } else {
        put(out, PACK_INT_8 + 3, (uint64_t)number, 8);
    }
}

void
engine_pack_real(struct buf *out, double number)
{
    uint64_t bits;

    memcpy(&bits, &number, sizeof(bits));
    put(out, PACK_REAL, bits, sizeof(bits));
}

/* The length of a run of bytes; type is that of one length byte. */
static void
put_len(struct buf *out, uint32_t type, size_t len)
{
    CHECK(len <= UINT32_MAX);
    if (len <= UINT8_MAX) {
        put(out, type, len, 1);
    } else if (len <= UINT16_MAX) {
        put(out, type + 1, len, 2);
    } else {
        put(out, type + 2, len, 4);
    }
}

void
engine_pack_text(struct buf *out, struct slice text)
{
    if (text.len < 32) {
        put(out, PACK_TEXT_FIX | (uint32_t)text.len, 0, 0);
    } else {
        put_len(out, PACK_TEXT_8, text.len);
    }
    buf_add_slice(out, text);
}

void
engine_pack_bytes(struct buf *out, struct slice bytes)
{
    put_len(out, PACK_BYTES_8, bytes.len);
    buf_add_slice(out, bytes);
}

/* fix holds up to 15; type is that of two count bytes. */
static void
put_count(struct buf *out, uint32_t fix, uint32_t type, uint32_t count)
{
    if (count < 16) {
        put(out, fix | count, 0, 0);
    } else if (count <= UINT16_MAX) {
        put(out, type, count, 2);
    } else {
        put(out, type + 1, count, 4);
    }
}

void
engine_pack_array(struct buf *out, uint32_t count)
{
    put_count(out, PACK_ARRAY_FIX, PACK_ARRAY_16, count);
}

void
engine_pack_map(struct buf *out, uint32_t count)
{
    put_count(out, PACK_MAP_FIX, PACK_MAP_16, count);
}
