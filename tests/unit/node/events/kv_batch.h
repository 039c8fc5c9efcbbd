/*
 * Writes batches of KV events for tests: msgpack, a value per call, in its
 * shortest form, as engines' encoders do.
 */
#ifndef TESTS_UNIT_NODE_KV_BATCH_H
#define TESTS_UNIT_NODE_KV_BATCH_H

#include <stdint.h>
#include <string.h>

#include "index/base/check.h"
#include "index/base/slice.h"

#define KV_BATCH_BYTES 65536

struct kv_batch {
    uint8_t bytes[KV_BATCH_BYTES];
    size_t len;
};

static inline struct slice
kv_batch_slice(const struct kv_batch *b)
{
    return (struct slice){(const char *)b->bytes, b->len};
}

static inline void
put_bytes(struct kv_batch *b, const void *bytes, size_t n)
{
    CHECK(n <= sizeof b->bytes - b->len);
    memcpy(b->bytes + b->len, bytes, n);
    b->len += n;
}

static inline void
put_byte(struct kv_batch *b, unsigned byte)
{
    uint8_t one = (uint8_t)byte;

    put_bytes(b, &one, 1);
}

/* lead, then the number in so many bytes, big endian. */
static inline void
put_number(struct kv_batch *b, unsigned lead, uint64_t number, unsigned bytes)
{
    put_byte(b, lead);
    for (unsigned i = bytes; i-- > 0;) {
        put_byte(b, (unsigned)(number >> (8 * i)) & 0xff);
    }
}

static inline void
put_nil(struct kv_batch *b)
{
    put_byte(b, 0xc0);
}

static inline void
put_uint(struct kv_batch *b, uint64_t n)
{
    if (n < 0x80) {
        put_byte(b, (unsigned)n);
    } else if (n <= UINT8_MAX) {
        put_number(b, 0xcc, n, 1);
    } else if (n <= UINT16_MAX) {
        put_number(b, 0xcd, n, 2);
    } else if (n <= UINT32_MAX) {
        put_number(b, 0xce, n, 4);
    } else {
        put_number(b, 0xcf, n, 8);
    }
}

/* As int 64, whatever it is. */
static inline void
put_int(struct kv_batch *b, int64_t n)
{
    put_number(b, 0xd3, (uint64_t)n, 8);
}

static inline void
put_array(struct kv_batch *b, unsigned n)
{
    if (n < 16) {
        put_byte(b, 0x90 + n);
    } else {
        put_number(b, 0xdc, n, 2);
    }
}

static inline void
put_map(struct kv_batch *b, unsigned n)
{
    if (n < 16) {
        put_byte(b, 0x80 + n);
    } else {
        put_number(b, 0xde, n, 2);
    }
}

static inline void
put_text(struct kv_batch *b, const char *text)
{
    size_t n = strlen(text);

    if (n < 32) {
        put_byte(b, 0xa0 + (unsigned)n);
    } else {
        put_number(b, 0xd9, n, 1);
    }
    put_bytes(b, text, n);
}

static inline void
put_bin(struct kv_batch *b, const void *bytes, size_t n)
{
    put_number(b, 0xc4, n, 1);
    put_bytes(b, bytes, n);
}

/* first, first + 1, ... */
static inline void
put_uints(struct kv_batch *b, uint64_t first, unsigned n)
{
    put_array(b, n);
    for (unsigned i = 0; i < n; i++) {
        put_uint(b, first + i);
    }
}

/* [ts, events], with so many events to follow. */
static inline void
put_envelope(struct kv_batch *b, unsigned events)
{
    b->len = 0;
    put_array(b, 2);
    put_number(b, 0xcb, UINT64_C(0x41d954fc40200000), 8);
    put_array(b, events);
}

/* The slots of a stored event up to block_size: n blocks of `size` tokens that
 * count up from `token`, with hashes that count up from `hash`; parent 0: nil.
 * So many slots more are to follow. */
static inline void
put_stored(struct kv_batch *b, unsigned more, uint64_t hash, unsigned n,
           uint64_t parent, uint64_t token, unsigned size)
{
    put_array(b, 5 + more);
    put_text(b, "BlockStored");
    put_uints(b, hash, n);
    if (parent == 0) {
        put_nil(b);
    } else {
        put_uint(b, parent);
    }
    put_uints(b, token, n * size);
    put_uint(b, size);
}

/* The same as a map; more pairs are to follow. */
static inline void
put_stored_map(struct kv_batch *b, unsigned more, uint64_t hash, unsigned n,
               uint64_t parent, uint64_t token, unsigned size)
{
    put_map(b, (parent != 0 ? 5 : 4) + more);
    put_text(b, "type");
    put_text(b, "BlockStored");
    put_text(b, "block_hashes");
    put_uints(b, hash, n);
    if (parent != 0) {
        put_text(b, "parent_block_hash");
        put_uint(b, parent);
    }
    put_text(b, "token_ids");
    put_uints(b, token, n * size);
    put_text(b, "block_size");
    put_uint(b, size);
}

static inline void
put_removed_map(struct kv_batch *b, unsigned more, uint64_t hash, unsigned n)
{
    put_map(b, 2 + more);
    put_text(b, "type");
    put_text(b, "BlockRemoved");
    put_text(b, "block_hashes");
    put_uints(b, hash, n);
}

static inline void
put_cleared(struct kv_batch *b)
{
    put_array(b, 1);
    put_text(b, "AllBlocksCleared");
}

static inline void
put_pair(struct kv_batch *b, const char *key, const char *value)
{
    put_text(b, key);
    if (value == NULL) {
        put_nil(b);
    } else {
        put_text(b, value);
    }
}

#endif
