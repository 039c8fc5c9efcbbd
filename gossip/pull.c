/* Questions for missing records, and peers' answers. */
#include "gossip/gossip_internal.h"

static void
ask(struct gossip *g, struct gossip_stream *s, uint64_t peer,
    struct gossip_epoch epoch, uint64_t from)
{
    CHECK(peer != 0 && !s->pull.open && epoch.no != 0);
    s->pull = (struct gossip_pull){
        .open = true,
        .peer = peer,
        .id = epoch.id,
        .from = from,
        .due_us = g->now_us + gossip_us(g->config.question_ms),
    };
    gossip_frame_begin(g, GOSSIP_FRAME_PULL);
    gossip_put_stream(g, s);
    codec_put_varint(&g->build, epoch.no);
    codec_put_u64(&g->build, epoch.id);
    codec_put_varint(&g->build, s->pull.from);
    gossip_frame_send(g, peer, GOSSIP_CTL);
    gossip_wake_at(g, s->pull.due_us);
    g->stats.pulls++;
}

/* Asks for the records that are known to be missing, if any. */
void
gossip_pull(struct gossip *g, struct gossip_stream *s, uint64_t peer)
{
    bool asked = s->transfer.active && !s->transfer.begun;

    CHECK(peer != 0 && !s->removed);
    if (!s->pull.open && !asked && s->epoch.no != 0 &&
        gossip_need(s) < s->known) {
        ask(g, s, peer, s->epoch, gossip_need(s));
    }
}

void
gossip_pull_rival(struct gossip *g, struct gossip_stream *s)
{
    CHECK(s->rival.epoch.no != 0 && !s->removed);
    if (!s->pull.open && !s->transfer.active &&
        gossip_peer_at(g, s->rival.peer) != GOSSIP_PEER_NONE) {
        s->rival.asked = true;
        ask(g, s, s->rival.peer, s->rival.epoch, 0);
    }
}

uint64_t
gossip_some_peer(struct gossip *g)
{
    uint64_t found = 0;
    uint64_t seen = 0;

    for (uint32_t i = 0; i < g->config.peers_max; i++) {
        if (g->peers[i].id != 0 && rng_below(&g->rng, ++seen) == 0) {
            found = g->peers[i].id;
        }
    }
    CHECK((found != 0) == (seen != 0));
    return found;
}

void
gossip_pull_tick(struct gossip *g, struct gossip_stream *s)
{
    bool late = s->pull.open && g->now_us >= s->pull.due_us;

    CHECK(!s->removed);
    if (late) {
        s->pull.open = false;
    }
    if (late || s->behind_us != 0) {
        uint64_t peer = gossip_some_peer(g);
        if (peer != 0) {
            gossip_pull(g, s, peer);
        }
    }
}

struct question {
    struct event_stream name;
    struct gossip_epoch epoch;
    uint64_t from;
};

static bool
get_question(struct codec_in *in, struct question *q)
{
    q->name = (struct event_stream){.worker = codec_get_u64(in)};
    q->name.rank = codec_get_count(in, UINT32_MAX);
    q->epoch.no = codec_get_count(in, UINT32_MAX);
    q->epoch.id = codec_get_u64(in);
    q->from = codec_get_varint(in);
    return !in->failed;
}

static void
answer_lost(struct gossip *g, const struct gossip_stream *s, uint64_t peer,
            uint64_t from)
{
    CHECK(s->epoch.no != 0 && from < s->pos);
    gossip_frame_begin(g, GOSSIP_FRAME_LOST);
    gossip_put_stream(g, s);
    codec_put_varint(&g->build, s->epoch.no);
    codec_put_u64(&g->build, s->epoch.id);
    codec_put_varint(&g->build, from);
    gossip_frame_send(g, peer, GOSSIP_CTL);
}

int
gossip_recv_pull(struct gossip *g, uint64_t peer, struct codec_in in)
{
    struct question q;

    if (!get_question(&in, &q)) {
        return GOSSIP_E_BAD;
    }
    struct gossip_stream *s = gossip_find(g, q.name);
    if (s == NULL || s->epoch.no == 0) {
        return 0;
    }
    if (q.epoch.id != s->epoch.id) {
        gossip_vector_send(g, peer, true);
    } else if (delta_log_covers(&s->log, q.from)) {
        if (q.from < s->log.high) {
            gossip_answer(g, s, peer, q.from);
        }
    } else if (q.from < s->pos && !gossip_is_torn(s)) {
        answer_lost(g, s, peer, q.from);
    }
    return 0;
}

/* The answer is judged by the question, and only while that still holds. */
int
gossip_recv_lost(struct gossip *g, uint64_t peer, struct codec_in in)
{
    struct question q;

    if (!get_question(&in, &q)) {
        return GOSSIP_E_BAD;
    }
    struct gossip_stream *s = gossip_find(g, q.name);
    if (s == NULL || !s->pull.open || s->pull.peer != peer ||
        s->pull.id != q.epoch.id || s->pull.from != q.from) {
        return 0;
    }
    bool own = s->epoch.id == q.epoch.id && gossip_need(s) == q.from;
    bool rival = s->rival.epoch.no != 0 && s->rival.epoch.id == q.epoch.id;
    if (!own && !rival) {
        return 0;
    }
    s->pull.open = false;
    g->stats.pulls_lost++;
    if (own) {
        gossip_transfer_start(g, s, peer);
    } else {
        gossip_transfer_rival(g, s, peer);
    }
    return 0;
}
