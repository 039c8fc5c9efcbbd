/* The next msgpack value, within the bytes that are there. */
#include "node/events/kv_wire_token_internal.h"

#include "index/base/check.h"

/* What follows the lead bytes from 0xc0 on: a number of so many bytes, which
 * is a value or a length; extra bytes belong to the value beside it. */
struct shape {
    uint8_t kind;
    uint8_t number; /* bytes */
    uint8_t extra;  /* bytes */
    bool is_signed;
    bool is_known;
};

#define SHAPE(kind_, number_, extra_, signed_)                   \
    {                                                            \
        .kind = (kind_), .number = (number_), .extra = (extra_), \
        .is_signed = (signed_), .is_known = true,                \
    }

static const struct shape shapes[32] = {
    [0x00] = SHAPE(TOKEN_NIL, 0, 0, false),
    /* 0x01 is 0xc1: never used */
    [0x02] = SHAPE(TOKEN_BOOL, 0, 0, false),
    [0x03] = SHAPE(TOKEN_BOOL, 0, 0, false),
    [0x04] = SHAPE(TOKEN_BIN, 1, 0, false),
    [0x05] = SHAPE(TOKEN_BIN, 2, 0, false),
    [0x06] = SHAPE(TOKEN_BIN, 4, 0, false),
    [0x07] = SHAPE(TOKEN_EXT, 1, 1, false),
    [0x08] = SHAPE(TOKEN_EXT, 2, 1, false),
    [0x09] = SHAPE(TOKEN_EXT, 4, 1, false),
    [0x0a] = SHAPE(TOKEN_FLOAT, 0, 4, false),
    [0x0b] = SHAPE(TOKEN_FLOAT, 0, 8, false),
    [0x0c] = SHAPE(TOKEN_UINT, 1, 0, false),
    [0x0d] = SHAPE(TOKEN_UINT, 2, 0, false),
    [0x0e] = SHAPE(TOKEN_UINT, 4, 0, false),
    [0x0f] = SHAPE(TOKEN_UINT, 8, 0, false),
    [0x10] = SHAPE(TOKEN_UINT, 1, 0, true),
    [0x11] = SHAPE(TOKEN_UINT, 2, 0, true),
    [0x12] = SHAPE(TOKEN_UINT, 4, 0, true),
    [0x13] = SHAPE(TOKEN_UINT, 8, 0, true),
    [0x14] = SHAPE(TOKEN_EXT, 0, 2, false),
    [0x15] = SHAPE(TOKEN_EXT, 0, 3, false),
    [0x16] = SHAPE(TOKEN_EXT, 0, 5, false),
    [0x17] = SHAPE(TOKEN_EXT, 0, 9, false),
    [0x18] = SHAPE(TOKEN_EXT, 0, 17, false),
    [0x19] = SHAPE(TOKEN_STR, 1, 0, false),
    [0x1a] = SHAPE(TOKEN_STR, 2, 0, false),
    [0x1b] = SHAPE(TOKEN_STR, 4, 0, false),
    [0x1c] = SHAPE(TOKEN_ARRAY, 2, 0, false),
    [0x1d] = SHAPE(TOKEN_ARRAY, 4, 0, false),
    [0x1e] = SHAPE(TOKEN_MAP, 2, 0, false),
    [0x1f] = SHAPE(TOKEN_MAP, 4, 0, false),
};

static uint64_t
number_at(const uint8_t *at, uint8_t bytes)
{
    uint64_t number = 0;

    for (uint8_t i = 0; i < bytes; i++) {
        number = number << 8 | at[i];
    }
    return number;
}

/* Sign-extends a two's complement number of this many bytes. */
static uint64_t
sign_extended(uint64_t number, uint8_t bytes)
{
    unsigned unused = 64 - 8U * bytes;

    return (uint64_t)((int64_t)(number << unused) >> unused);
}

static const uint8_t *
read_int(uint64_t value, bool is_signed, const uint8_t *at, struct token *token)
{
    token->kind = is_signed && (int64_t)value < 0 ? TOKEN_NINT : TOKEN_UINT;
    token->value = value;
    return at;
}

static const uint8_t *
read_bytes(const uint8_t *at, const uint8_t *end, enum token_kind kind,
           uint64_t len, struct token *token)
{
    const uint8_t *next = token_read_str(at, end, len, token);

    token->kind = kind;
    return next;
}

const uint8_t *
token_read_long(uint8_t lead, const uint8_t *at, const uint8_t *end,
                struct token *token)
{
    CHECK(lead >= 0xc0);
    if (lead >= 0xe0) {
        return read_int((uint64_t)(int8_t)lead, true, at, token);
    }
    struct shape shape = shapes[lead - 0xc0];
    if (!shape.is_known || shape.number > (size_t)(end - at)) {
        return NULL;
    }
    uint64_t number = number_at(at, shape.number);
    enum token_kind kind = (enum token_kind)shape.kind;
    at += shape.number;
    switch (kind) {
    case TOKEN_UINT:
        return read_int(
            shape.is_signed ? sign_extended(number, shape.number) : number,
            shape.is_signed, at, token);
    case TOKEN_ARRAY:
        return token_read_items(at, end, kind, number, token);
    case TOKEN_MAP:
        return token_read_items(at, end, kind, 2 * number, token);
    case TOKEN_NIL:
    case TOKEN_BOOL:
    case TOKEN_NINT:
    case TOKEN_FLOAT:
    case TOKEN_STR:
    case TOKEN_BIN:
    case TOKEN_EXT:
        break;
    }
    return read_bytes(at, end, kind, number + shape.extra, token);
}

const uint8_t *
token_skip(const uint8_t *at, const uint8_t *end, uint32_t level,
           uint32_t depth_max, bool *deep)
{
    uint64_t left = 1;              /* items until the value is over */
    uint64_t over[TOKEN_DEPTH_MAX]; /* what is left when a container is */
    uint32_t open = 0;
    struct token token;

    CHECK(level >= 1 && depth_max <= TOKEN_DEPTH_MAX);
    while (left > 0) {
        at = token_read(at, end, &token);
        if (at == NULL) {
            return NULL;
        }
        while (open > 0 && over[open - 1] == left) {
            open--;
        }
        left--;
        if (token.kind < TOKEN_ARRAY) {
            continue;
        }
        if (level + open > depth_max) {
            *deep = true;
        } else {
            over[open++] = left;
        }
        left += token.value;
    }
    return at;
}
