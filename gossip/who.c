/* Asks peers whether a living reader leads a stream's epoch, and answers. */
#include "gossip/gossip_internal.h"

enum {
    WHO_ASKS,
    WHO_LEADS
};

static void
begin_who(struct gossip *g, const struct gossip_stream *s, uint8_t what)
{
    CHECK(what == WHO_ASKS || what == WHO_LEADS);
    gossip_frame_begin(g, GOSSIP_FRAME_WHO);
    gossip_put_stream(g, s);
    codec_put_u64(&g->build, s->epoch.id);
    codec_put_u8(&g->build, what);
}

void
gossip_who_ask(struct gossip *g, const struct gossip_stream *s)
{
    begin_who(g, s, WHO_ASKS);
    gossip_frame_send(g, 0, GOSSIP_CTL);
}

int
gossip_recv_who(struct gossip *g, uint64_t peer, struct codec_in in)
{
    struct event_stream name = {.worker = codec_get_u64(&in)};

    name.rank = codec_get_count(&in, UINT32_MAX);
    uint64_t id = codec_get_u64(&in);
    uint8_t what = codec_get_u8(&in);
    if (in.failed) {
        return GOSSIP_E_BAD;
    }
    struct gossip_stream *s = gossip_find(g, name);
    if (s == NULL || s->epoch.no == 0 || s->epoch.id != id) {
        return 0;
    }
    if (what == WHO_LEADS) {
        s->reading.who_lives |= s->reading.who_asked;
    } else if (gossip_leads(s) && s->reading.live && s->pos >= s->reading.pos) {
        begin_who(g, s, WHO_LEADS);
        gossip_frame_send(g, peer, GOSSIP_CTL);
    }
    return 0;
}
