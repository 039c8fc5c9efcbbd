#include "gossip/wire.h"

#include <string.h>

#define VARINT_MAX 10U

void
wire_put_bytes(struct wire_out *out, const void *bytes, size_t len)
{
    if (out->failed || len > out->max - out->len) {
        out->failed = true;
        return;
    }
    if (len > 0) {
        memcpy(out->bytes + out->len, bytes, len);
    }
    out->len += len;
}

void
wire_put_u8(struct wire_out *out, uint8_t value)
{
    wire_put_bytes(out, &value, 1);
}

static void
store_u64(uint8_t *bytes, uint64_t value)
{
    for (unsigned i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)(value >> 8 * i);
    }
}

static uint64_t
load_u64(const uint8_t *bytes)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < 8; i++) {
        value |= (uint64_t)bytes[i] << 8 * i;
    }
    return value;
}

void
wire_put_u64(struct wire_out *out, uint64_t value)
{
    uint8_t bytes[8];

    store_u64(bytes, value);
    wire_put_bytes(out, bytes, sizeof bytes);
}

void
wire_put_u32(struct wire_out *out, uint32_t value)
{
    uint8_t bytes[8];

    store_u64(bytes, value);
    wire_put_bytes(out, bytes, 4);
}

void
wire_put_varint(struct wire_out *out, uint64_t value)
{
    uint8_t bytes[VARINT_MAX];
    size_t len = 0;

    do {
        bytes[len] = (uint8_t)(value & 0x7f);
        value >>= 7;
        bytes[len++] |= value != 0 ? 0x80 : 0;
    } while (value != 0);
    wire_put_bytes(out, bytes, len);
}

static bool
has(struct wire_in *in, uint64_t len)
{
    if (in->failed || len > wire_left(in)) {
        in->failed = true;
    }
    return !in->failed;
}

uint8_t
wire_get_u8(struct wire_in *in)
{
    return has(in, 1) ? *in->at++ : 0;
}

uint32_t
wire_get_u32(struct wire_in *in)
{
    uint8_t bytes[8] = {0};

    if (!has(in, 4)) {
        return 0;
    }
    memcpy(bytes, in->at, 4);
    in->at += 4;
    return (uint32_t)load_u64(bytes);
}

uint64_t
wire_get_u64(struct wire_in *in)
{
    if (!has(in, 8)) {
        return 0;
    }
    in->at += 8;
    return load_u64(in->at - 8);
}

uint64_t
wire_get_varint(struct wire_in *in)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < VARINT_MAX; i++) {
        uint8_t byte = wire_get_u8(in);
        if (i == VARINT_MAX - 1 && byte > 1) {
            break;
        }
        value |= (uint64_t)(byte & 0x7f) << 7 * i;
        if (byte < 0x80) {
            return in->failed ? 0 : value;
        }
    }
    in->failed = true;
    return 0;
}

uint32_t
wire_get_count(struct wire_in *in, uint32_t max)
{
    uint64_t value = wire_get_varint(in);

    if (value > max) {
        in->failed = true;
        return 0;
    }
    return (uint32_t)value;
}

struct wire_in
wire_get_part(struct wire_in *in, uint64_t len)
{
    struct wire_in part = {.failed = true};

    if (has(in, len)) {
        part = (struct wire_in){.at = in->at, .end = in->at + len};
        in->at += len;
    }
    return part;
}

/* Bodies */

static void
put_ops(struct wire_out *out, const uint64_t *words, uint32_t count)
{
    for (uint32_t at = 0; at < count;) {
        uint64_t op = words[at++];
        uint32_t keys = event_op_count(op);

        wire_put_varint(out, (uint64_t)keys << 4 |
                                 (uint64_t)event_op_tier(op) << 2 |
                                 (uint64_t)event_op_kind(op));
        for (uint32_t i = 0; i < keys; i++) {
            wire_put_u64(out, words[at++]);
        }
    }
}

void
wire_put_body(struct wire_out *out, const struct event_record *head,
              const uint64_t *words, uint32_t count, uint64_t print,
              uint8_t flags)
{
    CHECK(count <= WIRE_WORDS_MAX && (flags & ~WIRE_GAP) == 0);
    if (head->holes == EVENT_HOLES_UNKNOWN) {
        flags |= WIRE_HOLES_NONE;
    } else if (head->holes != 0) {
        flags |= WIRE_HOLES;
    }
    if (head->block_tokens != 0) {
        flags |= WIRE_BLOCK_TOKENS;
    }
    wire_put_u8(out, flags);
    wire_put_u32(out, (uint32_t)print);
    if ((flags & WIRE_HOLES) != 0) {
        wire_put_varint(out, head->holes);
    }
    if ((flags & WIRE_BLOCK_TOKENS) != 0) {
        wire_put_varint(out, head->block_tokens);
    }
    wire_put_varint(out, count);
    put_ops(out, words, count);
}

/* The next op as a word; 0 keys are skipped. */
static uint64_t
get_op(struct wire_in *in)
{
    uint64_t op = wire_get_varint(in);
    uint64_t count = op >> 4;
    uint64_t kind = op & 3;

    if (count > WIRE_WORDS_MAX || kind >= EVENT_KINDS ||
        (kind == EVENT_CLEAR) != (count == 0)) {
        in->failed = true;
        return event_op(EVENT_CLEAR, TIER_DEVICE, 0);
    }
    return event_op((enum event_kind)kind, (enum tier)(op >> 2 & 3),
                    (uint32_t)count);
}

static bool
check_ops(struct wire_in in, struct wire_body *body)
{
    uint64_t left = body->words_count;

    while (left > 0 && !in.failed) {
        uint64_t op = get_op(&in);
        uint64_t keys = event_op_count(op);

        if (keys + 1 > left) {
            return false;
        }
        left -= keys + 1;
        body->clears |= event_op_kind(op) == EVENT_CLEAR;
        (void)wire_get_part(&in, keys * 8);
    }
    return !in.failed;
}

bool
wire_get_body(struct wire_in in, struct wire_body *body)
{
    *body = (struct wire_body){.flags = wire_get_u8(&in)};
    body->print = wire_get_u32(&in);
    if ((body->flags & WIRE_HOLES) != 0) {
        body->holes = wire_get_count(&in, EVENT_HOLES_UNKNOWN - 1);
    }
    if ((body->flags & WIRE_HOLES_NONE) != 0) {
        body->holes = EVENT_HOLES_UNKNOWN;
    }
    if ((body->flags & WIRE_BLOCK_TOKENS) != 0) {
        body->block_tokens = wire_get_count(&in, UINT32_MAX);
    }
    body->words_count = wire_get_count(&in, WIRE_WORDS_MAX);
    body->ops = in;
    return !in.failed && check_ops(in, body);
}

void
wire_body_words(const struct wire_body *body, uint64_t *words)
{
    struct wire_in in = body->ops;

    for (uint32_t at = 0; at < body->words_count;) {
        uint64_t op = get_op(&in);
        uint32_t keys = event_op_count(op);

        CHECK(!in.failed && keys < body->words_count - at);
        words[at++] = op;
        for (uint32_t i = 0; i < keys; i++) {
            words[at++] = wire_get_u64(&in);
        }
    }
}
