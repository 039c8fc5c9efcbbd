/* Numbers and record bodies as bytes, and back. */
#include "gossip/codec_internal.h"

#include <string.h>

#include "index/base/mutant.h"

#define VARINT_MAX 10U

void
codec_put_bytes(struct codec_out *out, const void *bytes, size_t len)
{
    CHECK(out->len <= out->max);
    CHECK(bytes != NULL || len == 0);
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
codec_put_u8(struct codec_out *out, uint8_t value)
{
    codec_put_bytes(out, &value, 1);
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
codec_put_u64(struct codec_out *out, uint64_t value)
{
    uint8_t bytes[8];

    store_u64(bytes, value);
    codec_put_bytes(out, bytes, sizeof bytes);
}

void
codec_put_u32(struct codec_out *out, uint32_t value)
{
    uint8_t bytes[8];

    store_u64(bytes, value);
    codec_put_bytes(out, bytes, 4);
}

void
codec_put_varint(struct codec_out *out, uint64_t value)
{
    uint8_t bytes[VARINT_MAX];
    size_t len = 0;

    do {
        bytes[len] = (uint8_t)(value & 0x7f);
        value >>= 7;
        bytes[len++] |= value != 0 ? 0x80 : 0;
    } while (value != 0);
    codec_put_bytes(out, bytes, len);
}

static bool
has(struct codec_in *in, uint64_t len)
{
    CHECK(in->failed || in->at <= in->end);
    if (in->failed || len > codec_left(in)) {
        in->failed = true;
    }
    return !in->failed;
}

uint8_t
codec_get_u8(struct codec_in *in)
{
    return has(in, 1) ? *in->at++ : 0;
}

uint32_t
codec_get_u32(struct codec_in *in)
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
codec_get_u64(struct codec_in *in)
{
    if (!has(in, 8)) {
        return 0;
    }
    in->at += 8;
    return load_u64(in->at - 8);
}

uint64_t
codec_get_varint(struct codec_in *in)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < VARINT_MAX; i++) {
        uint8_t byte = codec_get_u8(in);
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
codec_get_count(struct codec_in *in, uint32_t max)
{
    uint64_t value = codec_get_varint(in);

    if (value > max) {
        in->failed = true;
        return 0;
    }
    return (uint32_t)value;
}

struct codec_in
codec_get_part(struct codec_in *in, uint64_t len)
{
    struct codec_in part = {.failed = true};

    if (has(in, len)) {
        part = (struct codec_in){.at = in->at, .end = in->at + len};
        in->at += len;
        CHECK(in->at <= in->end);
    }
    return part;
}

/* Bodies */

static void
put_ops(struct codec_out *out, const uint64_t *words, uint32_t count)
{
    for (uint32_t at = 0; at < count;) {
        uint64_t op = words[at++];
        uint32_t keys = event_op_count(op);

        CHECK(keys <= count - at);
        codec_put_varint(out, (uint64_t)keys << 4 |
                                  (uint64_t)event_op_tier(op) << 2 |
                                  (uint64_t)event_op_kind(op));
        for (uint32_t i = 0; i < keys; i++) {
            codec_put_u64(out, words[at++]);
        }
    }
}

void
codec_put_body(struct codec_out *out, const struct event_record *head,
               const uint64_t *words, uint32_t count, uint64_t fingerprint,
               uint8_t flags)
{
    CHECK(count <= CODEC_WORDS_MAX && (flags & ~CODEC_GAP) == 0);
    CHECK(words != NULL || count == 0);
    if (head->holes == EVENT_HOLES_UNKNOWN) {
        flags |= CODEC_HOLES_NONE;
    } else if (head->holes != 0) {
        flags |= CODEC_HOLES;
    }
    if (head->block_tokens != 0) {
        flags |= CODEC_BLOCK_TOKENS;
    }
    codec_put_u8(out, flags);
    codec_put_u32(out, (uint32_t)fingerprint);
    if ((flags & CODEC_HOLES) != 0) {
        codec_put_varint(out, head->holes);
    }
    if ((flags & CODEC_BLOCK_TOKENS) != 0) {
        codec_put_varint(out, head->block_tokens);
    }
    codec_put_varint(out, count);
    put_ops(out, words, count);
}

/* The next op as a word; 0 keys are skipped. */
static uint64_t
get_op(struct codec_in *in)
{
    uint64_t op = codec_get_varint(in);
    uint64_t count = op >> 4;
    uint64_t kind = op & 3;

    if (count > CODEC_WORDS_MAX || kind >= EVENT_KINDS ||
        (kind == EVENT_CLEAR) != (count == 0)) {
        in->failed = true;
        return event_op(EVENT_CLEAR, TIER_DEVICE, 0);
    }
    return event_op((enum event_kind)kind, (enum tier)(op >> 2 & 3),
                    (uint32_t)count);
}

static bool
check_ops(struct codec_in in, struct codec_body *body)
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
        (void)codec_get_part(&in, keys * 8);
    }
    body->end = in.at;
    return !in.failed;
}

void
codec_put_field(struct codec_out *out, uint8_t what, const void *bytes,
                size_t len)
{
    codec_put_u8(out, what);
    codec_put_varint(out, len);
    codec_put_bytes(out, bytes, len);
}

/* Fields that are not known are passed over, and so is what is no field. */
static void
find_fields(struct codec_in in, struct codec_body *body)
{
    while (codec_left(&in) > 0 && !in.failed) {
        uint8_t what = codec_get_u8(&in);
        struct codec_in field = codec_get_part(&in, codec_get_varint(&in));
        if (what == CODEC_FIELD_NAMES && !field.failed) {
            body->has_names = true;
            body->names = field;
        } else if (what == CODEC_FIELD_AHEAD) {
            body->ahead = codec_get_u64(&field);
        }
    }
}

bool
codec_get_body(struct codec_in in, struct codec_body *body)
{
    *body = (struct codec_body){.flags = codec_get_u8(&in)};
    body->fingerprint = codec_get_u32(&in);
    if ((body->flags & CODEC_HOLES) != 0) {
        body->holes = codec_get_count(&in, EVENT_HOLES_UNKNOWN - 1);
    }
    if ((body->flags & CODEC_HOLES_NONE) != 0) {
        body->holes = EVENT_HOLES_UNKNOWN;
    }
    if ((body->flags & CODEC_BLOCK_TOKENS) != 0) {
        body->block_tokens = codec_get_count(&in, UINT32_MAX);
    }
    body->words_count = codec_get_count(&in, CODEC_WORDS_MAX);
    body->ops = in;
    if (in.failed || !check_ops(in, body)) {
        return false;
    }
    find_fields((struct codec_in){.at = body->end, .end = in.end}, body);
    return true;
}

struct codec_in
codec_body_kept(struct codec_in in, const struct codec_body *body)
{
    CHECK(!in.failed && in.at < body->end && body->end <= in.end);
    CHECK((size_t)(body->end - in.at) <= CODEC_BODY_MAX);
    if (codec_left(&in) > CODEC_BODY_MAX && !MUTANT(TOO_LONG)) {
        bool fits = body->has_names &&
                    (size_t)(body->names.end - in.at) <= CODEC_BODY_MAX;
        in.end = fits ? body->names.end : body->end;
    }
    return in;
}

void
codec_body_words(const struct codec_body *body, uint64_t *words)
{
    struct codec_in in = body->ops;

    CHECK(!in.failed && body->words_count <= CODEC_WORDS_MAX);
    for (uint32_t at = 0; at < body->words_count;) {
        uint64_t op = get_op(&in);
        uint32_t keys = event_op_count(op);

        CHECK(!in.failed && keys < body->words_count - at);
        words[at++] = op;
        for (uint32_t i = 0; i < keys; i++) {
            words[at++] = codec_get_u64(&in);
        }
    }
    CHECK(!in.failed);
}

void
codec_put_ask(struct codec_out *out, const struct codec_ask *ask)
{
    codec_put_u64(out, ask->name.worker);
    codec_put_varint(out, ask->name.rank);
    codec_put_u64(out, ask->epoch_id);
    codec_put_u64(out, ask->token);
    codec_put_u64(out, ask->cursor);
}

bool
codec_get_ask(struct codec_in *in, struct codec_ask *ask)
{
    ask->name = (struct event_stream){.worker = codec_get_u64(in)};
    ask->name.rank = codec_get_count(in, UINT32_MAX);
    ask->epoch_id = codec_get_u64(in);
    ask->token = codec_get_u64(in);
    ask->cursor = codec_get_u64(in);
    return !in->failed;
}
