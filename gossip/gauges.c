#include <stdlib.h>

#include "gossip/state.h"

#define ROW_BYTES 40U

enum {
    GAUGES_ALL = 1
};

static struct gossip_gauge_row *
find_row(const struct gossip_origin *origin, uint64_t worker)
{
    for (uint32_t i = 0; i < origin->count; i++) {
        if (origin->rows[i].worker == worker) {
            return &origin->rows[i];
        }
    }
    return NULL;
}

static struct gossip_gauge_row *
make_row(struct gossip *g, struct gossip_origin *origin, uint64_t worker)
{
    struct gossip_gauge_row *row = find_row(origin, worker);

    if (row == NULL && origin->count < g->config.workers_max) {
        row = &origin->rows[origin->count++];
        *row = (struct gossip_gauge_row){.worker = worker};
    }
    return row;
}

void
gossip_gauges_forget(struct gossip_origin *origin)
{
    free(origin->rows);
    *origin = (struct gossip_origin){0};
}

bool
gossip_gauge_set(struct gossip *g, uint64_t worker,
                 const struct gossip_gauge *gauge, uint64_t now_us)
{
    struct gossip_gauge_row *row = make_row(g, &g->own, worker);

    g->now_us = now_us;
    if (row == NULL) {
        return false;
    }
    if (row->gauge.inflight == gauge->inflight &&
        row->gauge.blocks == gauge->blocks &&
        row->gauge.queued_tokens == gauge->queued_tokens) {
        return true;
    }
    row->gauge = *gauge;
    row->version = ++g->own.version;
    if (g->gauge_due_us == UINT64_MAX) {
        uint64_t next_us = g->own.heard_us + gossip_us(g->config.gauge_ms);
        g->gauge_due_us = next_us > now_us ? next_us : now_us;
    }
    return true;
}

struct gossip_gauge
gossip_gauge_sum(const struct gossip *g, uint64_t worker)
{
    struct gossip_gauge sum = {0};

    for (uint32_t i = 0; i <= g->config.peers_max; i++) {
        const struct gossip_origin *origin =
            i == g->config.peers_max ? &g->own : &g->origins[i];
        const struct gossip_gauge_row *row = find_row(origin, worker);
        if (row == NULL) {
            continue;
        }
        sum.inflight += row->gauge.inflight;
        sum.queued_tokens += row->gauge.queued_tokens;
        sum.blocks =
            row->gauge.blocks > sum.blocks ? row->gauge.blocks : sum.blocks;
    }
    return sum;
}

/* A frame of all rows, or of those changed after a version. */
static void
send_rows(struct gossip *g, bool all, uint64_t after)
{
    gossip_frame_begin(g, GOSSIP_FRAME_GAUGES);
    wire_put_u8(&g->build, all ? GAUGES_ALL : 0);
    wire_put_varint(&g->build, g->own.version);
    for (uint32_t i = 0; i < g->own.count; i++) {
        const struct gossip_gauge_row *row = &g->own.rows[i];
        bool room = g->build.max - g->build.len >= ROW_BYTES;
        if (room && (all || row->version > after)) {
            wire_put_u64(&g->build, row->worker);
            wire_put_varint(&g->build, row->gauge.inflight);
            wire_put_varint(&g->build, row->gauge.blocks);
            wire_put_varint(&g->build, row->gauge.queued_tokens);
        }
    }
    gossip_frame_send(g, 0, GOSSIP_CTL);
    g->gauge_sent = g->own.version;
    g->own.heard_us = g->now_us;
}

static void
forget_silent(struct gossip *g)
{
    uint64_t limit_us = gossip_us(g->config.gauge_silent_ms);

    for (uint32_t i = 0; i < g->config.peers_max; i++) {
        struct gossip_origin *origin = &g->origins[i];
        if (origin->count > 0 && g->now_us - origin->heard_us >= limit_us) {
            origin->count = 0;
        }
    }
}

void
gossip_gauges_tick(struct gossip *g)
{
    bool all = g->now_us >= g->gauge_all_us;

    if (all) {
        g->gauge_all_us = g->now_us + gossip_us(g->config.gauge_all_ms);
        forget_silent(g);
    }
    if ((all && g->own.count > 0) || g->now_us >= g->gauge_due_us) {
        g->gauge_due_us = UINT64_MAX;
        send_rows(g, all, g->gauge_sent);
    }
}

uint64_t
gossip_gauges_timer(const struct gossip *g)
{
    return g->gauge_due_us < g->gauge_all_us ? g->gauge_due_us
                                             : g->gauge_all_us;
}

static bool
get_row(struct wire_in *in, uint64_t *worker, struct gossip_gauge *gauge)
{
    *worker = wire_get_u64(in);
    gauge->inflight = wire_get_count(in, UINT32_MAX);
    gauge->blocks = wire_get_count(in, UINT32_MAX);
    gauge->queued_tokens = wire_get_varint(in);
    return !in->failed;
}

/* The newest version wins: frames that overtake each other change nothing. A
 * frame of what changed needs the one before it only for rows that the next
 * full one brings anyway. */
int
gossip_recv_gauges(struct gossip *g, uint64_t peer, struct wire_in in)
{
    struct gossip_origin *origin = &g->origins[gossip_peer_at(g, peer)];
    bool all = (wire_get_u8(&in) & GAUGES_ALL) != 0;
    uint64_t version = wire_get_varint(&in);

    if (in.failed) {
        return GOSSIP_E_BAD;
    }
    if (origin->rows == NULL) {
        origin->rows = calloc(g->config.workers_max, sizeof *origin->rows);
    }
    if (origin->rows == NULL) {
        g->stats.no_memory++;
        return 0;
    }
    if (version < origin->version) {
        return 0;
    }
    origin->version = version;
    origin->heard_us = g->now_us;
    origin->count = all ? 0 : origin->count;
    while (wire_left(&in) > 0) {
        uint64_t worker = 0;
        struct gossip_gauge gauge = {0};
        if (!get_row(&in, &worker, &gauge)) {
            return GOSSIP_E_BAD;
        }
        struct gossip_gauge_row *row = make_row(g, origin, worker);
        if (row != NULL) {
            row->gauge = gauge;
        }
    }
    return 0;
}
