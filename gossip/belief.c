#include <stdlib.h>
#include <string.h>

#include "gossip/state.h"

#define HEAD_MAX 40U /* of one decision */

static void
put_belief(struct wire_out *out, const struct gossip_belief *belief,
           uint32_t count)
{
    wire_put_u64(out, belief->worker);
    wire_put_varint(out, count);
    if (count == 0) {
        wire_put_u8(out, belief->ended);
    } else {
        wire_put_u64(out, belief->root);
        wire_put_u64(out, belief->parent);
        wire_put_varint(out, belief->from);
    }
    for (uint32_t i = 0; i < count; i++) {
        wire_put_u64(out, belief->keys[i]);
    }
    CHECK(!out->failed);
}

void
gossip_belief_add(struct gossip *g, const struct gossip_belief *belief,
                  uint64_t now_us)
{
    struct wire_out *out = &g->beliefs;
    uint32_t most = (uint32_t)((out->max - HEAD_MAX) / 8);
    uint32_t count = belief->count < most ? belief->count : most;

    CHECK(!belief->ended || belief->count == 0);
    g->now_us = now_us;
    count = count < WIRE_WORDS_MAX ? count : WIRE_WORDS_MAX;
    if (out->max - out->len < HEAD_MAX + (size_t)count * 8) {
        g->stats.beliefs_dropped += g->beliefs_count;
        g->beliefs_count = 0;
        out->len = 0;
    }
    put_belief(out, belief, count);
    g->beliefs_count++;
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

void
gossip_belief_flush(struct gossip *g)
{
    g->belief_due_us = UINT64_MAX;
    if (g->beliefs_count == 0) {
        return;
    }
    gossip_frame_begin(g, GOSSIP_FRAME_BELIEF);
    wire_put_varint(&g->build, g->gauge_sent);
    wire_put_bytes(&g->build, g->beliefs.bytes, g->beliefs.len);
    gossip_frame_send(g, 0, GOSSIP_BULK);
    g->belief_sent_us = g->now_us;
    g->stats.beliefs_out += g->beliefs_count;
    g->beliefs_count = 0;
    g->beliefs.len = 0;
}

static bool
get_belief(struct wire_in *in, struct gossip_belief *belief,
           struct wire_in *keys)
{
    *belief = (struct gossip_belief){.worker = wire_get_u64(in)};
    belief->count = wire_get_count(in, WIRE_WORDS_MAX);
    if (belief->count == 0) {
        belief->ended = wire_get_u8(in) != 0;
    } else {
        belief->root = wire_get_u64(in);
        belief->parent = wire_get_u64(in);
        belief->from = wire_get_count(in, UINT32_MAX);
    }
    *keys = wire_get_part(in, (uint64_t)belief->count * 8);
    return !in->failed;
}

/* Judged whole, then counted as load, then kept until it is pulled. */
int
gossip_recv_belief(struct gossip *g, uint64_t peer, struct wire_in in)
{
    uint64_t told = wire_get_varint(&in);
    struct wire_in rest = in;
    struct gossip_belief belief;
    struct wire_in keys;
    size_t len = wire_left(&in);

    while (wire_left(&rest) > 0) {
        if (!get_belief(&rest, &belief, &keys)) {
            return GOSSIP_E_BAD;
        }
    }
    if (in.failed) {
        return GOSSIP_E_BAD;
    }
    for (rest = in; wire_left(&rest) > 0;) {
        bool sound = get_belief(&rest, &belief, &keys);
        CHECK(sound);
        gossip_gauges_move(g, peer, &belief, told);
    }
    free(g->belief_bytes);
    g->belief_bytes = malloc(len + 1);
    if (g->belief_bytes == NULL) {
        g->stats.no_memory++;
        return 0;
    }
    memcpy(g->belief_bytes, in.at, len);
    g->belief_in =
        (struct wire_in){.at = g->belief_bytes, .end = g->belief_bytes + len};
    g->belief_peer = peer;
    return 0;
}

/* The next one with blocks, whose words are in g->record. */
static bool
next_belief(struct gossip *g, struct gossip_belief *belief)
{
    struct wire_in keys;

    do {
        if (wire_left(&g->belief_in) == 0) {
            return false;
        }
        bool sound = get_belief(&g->belief_in, belief, &keys);
        CHECK(sound);
    } while (belief->count == 0);
    for (uint32_t i = 0; i < belief->count; i++) {
        g->record->words[i] = wire_get_u64(&keys);
    }
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
    g->stats.beliefs_in++;
    return true;
}
