/*
 * Routing decisions on their way to peers and from them: batched into frames,
 * lossy, and never asked for again.
 */
#include <stdlib.h>
#include <string.h>

#include "gossip/gossip_internal.h"

#define HEAD_MAX 40U /* at most, per decision */

static void
put_belief(struct codec_out *out, const struct gossip_belief *belief,
           uint32_t count)
{
    CHECK(count <= belief->count);
    CHECK(belief->keys != NULL || count == 0);
    codec_put_u64(out, belief->worker);
    if (belief->expected) {
        codec_put_varint(out, belief->rank);
        codec_put_varint(out, count);
    } else if (count == 0) {
        codec_put_varint(out, 0);
        codec_put_u8(out, belief->ended);
    } else {
        codec_put_varint(out, count);
        codec_put_u64(out, belief->root);
        codec_put_u64(out, belief->parent);
        codec_put_varint(out, belief->from);
    }
    for (uint32_t i = 0; i < count; i++) {
        codec_put_u64(out, belief->keys[i]);
    }
    CHECK(!out->failed);
}

static void
drop_waiting(struct gossip *g, enum gossip_waiting_kind kind)
{
    struct gossip_waiting *waiting = &g->waiting[kind];

    CHECK(kind < GOSSIP_WAITING);
    if (kind == GOSSIP_WAITING_EXPECT) {
        g->stats.expected_dropped += waiting->count;
    } else {
        g->stats.beliefs_dropped += waiting->count;
    }
    waiting->count = 0;
    waiting->out.len = 0;
}

/*
 * Makes room for a decision with up to `count` keys, and returns how many keys
 * fit. Both kinds share belief_bytes; neither takes from the other's half, and
 * each may use what the other one leaves free.
 */
static uint32_t
make_room(struct gossip *g, enum gossip_waiting_kind kind, uint32_t count)
{
    enum gossip_waiting_kind other = kind == GOSSIP_WAITING_BELIEF
                                         ? GOSSIP_WAITING_EXPECT
                                         : GOSSIP_WAITING_BELIEF;
    const size_t *own_len = &g->waiting[kind].out.len;
    const size_t *other_len = &g->waiting[other].out.len;
    size_t max = g->config.belief_bytes;
    size_t most = *other_len <= max / 2 ? max - *other_len : max;

    CHECK(most >= HEAD_MAX);
    most = (most - HEAD_MAX) / 8;
    most = most < CODEC_WORDS_MAX ? most : CODEC_WORDS_MAX;
    count = count < most ? count : (uint32_t)most;
    size_t size = HEAD_MAX + (size_t)count * 8;
    if (*own_len + *other_len + size > max && *own_len + size > max / 2) {
        drop_waiting(g, kind);
    }
    if (*own_len + *other_len + size > max) {
        drop_waiting(g, other);
    }
    CHECK(*own_len + *other_len + size <= max);
    return count;
}

void
gossip_belief_add(struct gossip *g, const struct gossip_belief *belief,
                  uint64_t now_us)
{
    enum gossip_waiting_kind kind =
        belief->expected ? GOSSIP_WAITING_EXPECT : GOSSIP_WAITING_BELIEF;

    CHECK(!belief->ended || belief->count == 0);
    CHECK(!belief->expected || belief->count != 0);
    g->now_us = now_us;
    uint32_t count = make_room(g, kind, belief->count);
    put_belief(&g->waiting[kind].out, belief, count);
    g->waiting[kind].count++;
    if (g->belief_due_us == UINT64_MAX) {
        uint64_t next_us = g->belief_sent_us + gossip_us(g->config.belief_ms);
        g->belief_due_us = next_us > now_us ? next_us : now_us;
    }
}

void
gossip_belief_tick(struct gossip *g)
{
    if (g->now_us >= g->belief_due_us) {
        gossip_belief_flush(g);
    }
}

static void
flush(struct gossip *g, enum gossip_waiting_kind kind)
{
    struct gossip_waiting *waiting = &g->waiting[kind];

    if (waiting->count == 0) {
        return;
    }
    CHECK(waiting->out.len > 0 && !waiting->out.failed);
    if (kind == GOSSIP_WAITING_EXPECT) {
        gossip_frame_begin(g, GOSSIP_FRAME_EXPECT);
        g->stats.expected_out += waiting->count;
    } else {
        gossip_frame_begin(g, GOSSIP_FRAME_BELIEF);
        codec_put_varint(&g->build, g->gauge_sent);
        g->stats.beliefs_out += waiting->count;
    }
    codec_put_bytes(&g->build, waiting->out.bytes, waiting->out.len);
    gossip_frame_send(g, 0, GOSSIP_BULK);
    g->belief_sent_us = g->now_us;
    waiting->count = 0;
    waiting->out.len = 0;
}

void
gossip_belief_flush(struct gossip *g)
{
    g->belief_due_us = UINT64_MAX;
    flush(g, GOSSIP_WAITING_BELIEF);
    flush(g, GOSSIP_WAITING_EXPECT);
    CHECK(g->waiting[GOSSIP_WAITING_BELIEF].count == 0);
    CHECK(g->waiting[GOSSIP_WAITING_EXPECT].count == 0);
}

static bool
get_belief(struct codec_in *in, struct gossip_belief *belief,
           struct codec_in *keys)
{
    *belief = (struct gossip_belief){.worker = codec_get_u64(in)};
    belief->count = codec_get_count(in, CODEC_WORDS_MAX);
    if (belief->count == 0) {
        belief->ended = codec_get_u8(in) != 0;
    } else {
        belief->root = codec_get_u64(in);
        belief->parent = codec_get_u64(in);
        belief->from = codec_get_count(in, UINT32_MAX);
    }
    *keys = codec_get_part(in, (uint64_t)belief->count * 8);
    return !in->failed;
}

static bool
get_expected(struct codec_in *in, struct gossip_belief *belief,
             struct codec_in *keys)
{
    *belief =
        (struct gossip_belief){.worker = codec_get_u64(in), .expected = true};
    belief->rank = codec_get_count(in, UINT32_MAX);
    belief->count = codec_get_count(in, CODEC_WORDS_MAX);
    *keys = codec_get_part(in, (uint64_t)belief->count * 8);
    return !in->failed && belief->count != 0;
}

static bool
get_any(enum gossip_waiting_kind kind, struct codec_in *in,
        struct gossip_belief *belief, struct codec_in *keys)
{
    return kind == GOSSIP_WAITING_EXPECT ? get_expected(in, belief, keys)
                                         : get_belief(in, belief, keys);
}

static bool
are_sound(enum gossip_waiting_kind kind, struct codec_in in)
{
    struct gossip_belief belief;
    struct codec_in keys;

    while (codec_left(&in) > 0) {
        if (!get_any(kind, &in, &belief, &keys)) {
            return false;
        }
    }
    return !in.failed;
}

/* The frame belongs to the state until its decisions are pulled. */
static void
keep(struct gossip *g, uint64_t peer, enum gossip_waiting_kind kind,
     const struct codec_in *in)
{
    size_t len = codec_left(in);

    CHECK(peer != 0 && !in->failed && kind < GOSSIP_WAITING);
    free(g->belief_bytes);
    g->belief_bytes = malloc(len + 1);
    if (g->belief_bytes == NULL) {
        g->stats.no_memory++;
        return;
    }
    memcpy(g->belief_bytes, in->at, len);
    g->belief_in =
        (struct codec_in){.at = g->belief_bytes, .end = g->belief_bytes + len};
    g->belief_peer = peer;
    g->belief_kind = kind;
}

/* The frame is checked as a whole first, and then counted as load. */
int
gossip_recv_belief(struct gossip *g, uint64_t peer, struct codec_in in)
{
    uint64_t told = codec_get_varint(&in);
    struct gossip_belief belief;
    struct codec_in keys;

    if (!are_sound(GOSSIP_WAITING_BELIEF, in)) {
        return GOSSIP_E_BAD;
    }
    for (struct codec_in rest = in; codec_left(&rest) > 0;) {
        bool sound = get_belief(&rest, &belief, &keys);
        CHECK(sound);
        gossip_gauges_move(g, peer, &belief, told);
    }
    keep(g, peer, GOSSIP_WAITING_BELIEF, &in);
    return 0;
}

int
gossip_recv_expect(struct gossip *g, uint64_t peer, struct codec_in in)
{
    if (!are_sound(GOSSIP_WAITING_EXPECT, in)) {
        return GOSSIP_E_BAD;
    }
    keep(g, peer, GOSSIP_WAITING_EXPECT, &in);
    return 0;
}

/* The next decision that has blocks; its keys are in g->record. */
static bool
next_belief(struct gossip *g, struct gossip_belief *belief)
{
    struct codec_in keys;

    do {
        if (codec_left(&g->belief_in) == 0) {
            return false;
        }
        bool sound = get_any(g->belief_kind, &g->belief_in, belief, &keys);
        CHECK(sound);
    } while (belief->count == 0);
    CHECK(belief->count <= CODEC_WORDS_MAX);
    for (uint32_t i = 0; i < belief->count; i++) {
        g->record->words[i] = codec_get_u64(&keys);
    }
    CHECK(!keys.failed && codec_left(&keys) == 0);
    belief->keys = g->record->words;
    return true;
}

bool
gossip_belief_out(struct gossip *g, struct gossip_out *out)
{
    if (g->belief_bytes == NULL) {
        return false;
    }
    *out = (struct gossip_out){.kind = GOSSIP_BELIEF, .peer = g->belief_peer};
    if (!next_belief(g, &out->belief)) {
        free(g->belief_bytes);
        g->belief_bytes = NULL;
        return false;
    }
    if (out->belief.expected) {
        g->stats.expected_in++;
    } else {
        g->stats.beliefs_in++;
    }
    return true;
}
