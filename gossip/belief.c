#include <stdlib.h>
#include <string.h>

#include "gossip/state.h"

#define HEAD_MAX 40U /* of one decision */

void
gossip_belief_add(struct gossip *g, const struct gossip_belief *belief,
                  uint64_t now_us)
{
    struct wire_out *out = &g->beliefs;
    uint32_t most = (uint32_t)((out->max - HEAD_MAX) / 8);
    uint32_t count = belief->count < most ? belief->count : most;

    g->now_us = now_us;
    count = count < WIRE_WORDS_MAX ? count : WIRE_WORDS_MAX;
    if (count == 0) {
        return;
    }
    if (out->max - out->len < HEAD_MAX + (size_t)count * 8) {
        g->stats.beliefs_dropped += g->beliefs_count;
        g->beliefs_count = 0;
        out->len = 0;
    }
    wire_put_u64(out, belief->worker);
    wire_put_u64(out, belief->root);
    wire_put_u64(out, belief->parent);
    wire_put_varint(out, belief->from);
    wire_put_varint(out, count);
    for (uint32_t i = 0; i < count; i++) {
        wire_put_u64(out, belief->keys[i]);
    }
    CHECK(!out->failed);
    g->beliefs_count++;
    if (g->belief_due_us == UINT64_MAX) {
        g->belief_due_us = now_us + gossip_us(g->config.belief_ms);
    }
}

void
gossip_belief_tick(struct gossip *g)
{
    if (g->now_us < g->belief_due_us) {
        return;
    }
    g->belief_due_us = UINT64_MAX;
    gossip_frame_begin(g, GOSSIP_FRAME_BELIEF);
    wire_put_bytes(&g->build, g->beliefs.bytes, g->beliefs.len);
    gossip_frame_send(g, 0, GOSSIP_BULK);
    g->stats.beliefs_out += g->beliefs_count;
    g->beliefs_count = 0;
    g->beliefs.len = 0;
}

static bool
get_belief(struct wire_in *in, struct gossip_belief *belief,
           struct wire_in *keys)
{
    *belief = (struct gossip_belief){.worker = wire_get_u64(in)};
    belief->root = wire_get_u64(in);
    belief->parent = wire_get_u64(in);
    belief->from = wire_get_count(in, UINT32_MAX);
    belief->count = wire_get_count(in, WIRE_WORDS_MAX);
    *keys = wire_get_part(in, (uint64_t)belief->count * 8);
    return !in->failed && belief->count > 0;
}

/* Judged whole, then kept until it is pulled. */
int
gossip_recv_belief(struct gossip *g, uint64_t peer, struct wire_in in)
{
    struct wire_in rest = in;
    struct gossip_belief belief;
    struct wire_in keys;
    size_t len = wire_left(&in);

    while (wire_left(&rest) > 0) {
        if (!get_belief(&rest, &belief, &keys)) {
            return GOSSIP_E_BAD;
        }
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

bool
gossip_belief_out(struct gossip *g, struct gossip_out *out)
{
    struct wire_in keys;

    if (g->belief_bytes == NULL) {
        return false;
    }
    if (wire_left(&g->belief_in) == 0) {
        free(g->belief_bytes);
        g->belief_bytes = NULL;
        return false;
    }
    *out = (struct gossip_out){.kind = GOSSIP_BELIEF, .peer = g->belief_peer};
    bool sound = get_belief(&g->belief_in, &out->belief, &keys);
    CHECK(sound);
    for (uint32_t i = 0; i < out->belief.count; i++) {
        g->record->words[i] = wire_get_u64(&keys);
    }
    out->belief.keys = g->record->words;
    g->stats.beliefs_in++;
    return true;
}
