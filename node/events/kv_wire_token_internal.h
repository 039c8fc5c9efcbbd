/*
 * One msgpack value at a time, off bytes that nobody has looked at: the
 * ground kv_wire stands on.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: a container never says more
 * items than there are bytes left. Errors: NULL for what is truncated or is no
 * msgpack (the byte 0xc1).
 */
#ifndef NODE_KV_WIRE_TOKEN_INTERNAL_H
#define NODE_KV_WIRE_TOKEN_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/slice.h"

#define TOKEN_DEPTH_MAX 32

enum token_kind {
    TOKEN_NIL,
    TOKEN_BOOL,
    TOKEN_UINT,
    TOKEN_NINT, /* below zero */
    TOKEN_FLOAT,
    TOKEN_STR,
    TOKEN_BIN,
    TOKEN_EXT,
    TOKEN_ARRAY,
    TOKEN_MAP,
};

struct token {
    enum token_kind kind;
    uint64_t value;     /* UINT; NINT as its bit pattern; ARRAY: items; MAP:
                           items, two for each pair */
    struct slice bytes; /* STR, BIN */
};

/* What token_read() does not do inline: everything with more of a head than
 * one byte. lead is the byte before at. */
const uint8_t *token_read_long(uint8_t lead, const uint8_t *at,
                               const uint8_t *end, struct token *token);

static inline const uint8_t *
token_read_str(const uint8_t *at, const uint8_t *end, size_t len,
               struct token *token)
{
    if (len > (size_t)(end - at)) {
        return NULL;
    }
    token->kind = TOKEN_STR;
    token->bytes = (struct slice){.ptr = (const char *)at, .len = len};
    return at + len;
}

static inline const uint8_t *
token_read_items(const uint8_t *at, const uint8_t *end, enum token_kind kind,
                 uint64_t items, struct token *token)
{
    if (items > (size_t)(end - at)) {
        return NULL;
    }
    token->kind = kind;
    token->value = items;
    return at;
}

/* Reads one value; of a container only its head. Returns the position after
 * it. */
static inline const uint8_t *
token_read(const uint8_t *at, const uint8_t *end, struct token *token)
{
    if (at == end) {
        return NULL;
    }
    uint8_t lead = *at++;
    if (lead < 0x80) {
        token->kind = TOKEN_UINT;
        token->value = lead;
        return at;
    }
    if (lead < 0x90) {
        return token_read_items(at, end, TOKEN_MAP, 2 * (lead & UINT64_C(0xf)),
                                token);
    }
    if (lead < 0xa0) {
        return token_read_items(at, end, TOKEN_ARRAY, lead & 0xfU, token);
    }
    if (lead < 0xc0) {
        return token_read_str(at, end, lead & 0x1fU, token);
    }
    if (lead == 0xc0) {
        token->kind = TOKEN_NIL;
        return at;
    }
    return token_read_long(lead, at, end, token);
}

/*
 * Passes over one whole value. level: how deep a container at `at` itself is
 * (the outermost of a payload is 1). *deep is set when a container lies deeper
 * than depth_max (TOKEN_DEPTH_MAX at most); the end is found all the same, for
 * the walk counts items and has no stack to overflow.
 */
const uint8_t *token_skip(const uint8_t *at, const uint8_t *end, uint32_t level,
                          uint32_t depth_max, bool *deep);

static inline uint16_t
token_be16(const uint8_t *at)
{
    uint16_t raw;

    memcpy(&raw, at, sizeof raw);
    return __builtin_bswap16(raw);
}

static inline uint64_t
token_be64(const uint8_t *at)
{
    uint64_t raw;

    memcpy(&raw, at, sizeof raw);
    return __builtin_bswap64(raw);
}

#endif
