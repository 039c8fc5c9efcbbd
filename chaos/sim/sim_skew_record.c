/*
 * A later version's record: one of today's with so many unknown fields behind
 * it that it fills a frame. Who takes it in must still be able to pass it on.
 */
#include "chaos/sim/sim_skew_internal.h"

#define EACH        12U /* deltas between two that are rewritten */
#define BODY_GOSSIP 2U  /* as cluster.c has it */
#define FRAME_DELTA 3U  /* as gossip has it */
#define HEAD_BYTES  3U  /* before the first section: type, flags, flags */
#define FULL_BYTES  ((size_t)262080) /* a gossip frame that is full */
#define FILL        0x5a

struct cursor {
    const uint8_t *at;
    const uint8_t *end;
    bool failed;
};

static void
skip(struct cursor *in, size_t len)
{
    in->failed = in->failed || (size_t)(in->end - in->at) < len;
    in->at += in->failed ? 0 : len;
}

static uint64_t
get_varint(struct cursor *in)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 63; shift += 7) {
        skip(in, 1);
        if (in->failed) {
            return 0;
        }
        value |= (uint64_t)(in->at[-1] & 0x7f) << shift;
        if (in->at[-1] < 0x80) {
            return value;
        }
    }
    in->failed = true;
    return 0;
}

static size_t
put_varint(uint8_t *bytes, uint64_t value)
{
    size_t len = 0;

    do {
        bytes[len] = (uint8_t)(value & 0x7f);
        value >>= 7;
        bytes[len++] |= value != 0 ? 0x80 : 0;
    } while (value != 0);
    return len;
}

/* Where the first record's length stands; len: that length; end: of the
 * record. */
struct found {
    const uint8_t *at;
    const uint8_t *step;
    const uint8_t *end;
    uint64_t len;
};

static bool
find_record(struct cursor in, struct found *found)
{
    skip(&in, HEAD_BYTES + 8);
    (void)get_varint(&in); /* rank */
    (void)get_varint(&in); /* epoch's number */
    skip(&in, 8 + 1);
    (void)get_varint(&in); /* position before */
    found->at = in.at;
    found->len = get_varint(&in);
    found->step = in.at;
    (void)get_varint(&in);
    skip(&in, found->len);
    found->end = in.at;
    return !in.failed && found->len > 0;
}

static void
append(struct buf *out, const uint8_t *from, const uint8_t *to)
{
    CHECK(from <= to);
    buf_add(out, from, (size_t)(to - from));
}

struct slice
sim_skew_record(struct sim_world *w, uint32_t from, struct slice body)
{
    const uint8_t *bytes = (const uint8_t *)body.ptr;
    struct cursor in = {.at = bytes + 1, .end = bytes + body.len};
    struct found found;
    uint8_t len[10];

    if (!sim_skew_is_later(w, from) || body.len < 2 + HEAD_BYTES ||
        bytes[0] != BODY_GOSSIP || bytes[1] != FRAME_DELTA ||
        body.len > FULL_BYTES / 2 || !find_record(in, &found) ||
        sim_below(&w->chaos[SIM_SKEW], EACH) != 0) {
        return body;
    }
    size_t more = FULL_BYTES - (body.len - 1) - 2; /* the length grows */
    buf_clear(&w->payload);
    append(&w->payload, bytes, found.at);
    append(&w->payload, len, len + put_varint(len, found.len + more));
    append(&w->payload, found.step, found.end);
    char *fill = buf_reserve(&w->payload, more);
    CHECK(fill != NULL);
    memset(fill, FILL, more);
    w->payload.len += more;
    append(&w->payload, found.end, bytes + body.len);
    sim_saw(w, SIM_SAW_LONG_RECORD, 1);
    CHECK(!w->payload.failed);
    return buf_slice(&w->payload);
}
