/* Asks peers whether a living reader leads a stream's epoch, and for proof that
 * its process lives; and answers. */
#include "gossip/gossip_internal.h"

enum {
    WHO_ASKS,
    WHO_LEADS,
    WHO_DOUBTS, /* asks for proof */
    WHO_PROVED,
};

static void
say(struct gossip *g, uint64_t peer, const struct gossip_stream *s, uint64_t id,
    uint8_t what)
{
    CHECK(what <= WHO_PROVED);
    gossip_frame_begin(g, GOSSIP_FRAME_WHO);
    gossip_put_stream(g, s);
    codec_put_u64(&g->build, id);
    codec_put_u8(&g->build, what);
    gossip_frame_send(g, peer, GOSSIP_CTL);
}

void
gossip_who_ask(struct gossip *g, const struct gossip_stream *s)
{
    say(g, 0, s, s->epoch.id, WHO_ASKS);
}

void
gossip_who_doubt(struct gossip *g, const struct gossip_stream *s, uint64_t id)
{
    say(g, 0, s, id, WHO_DOUBTS);
}

void
gossip_who_proved(struct gossip *g, const struct gossip_stream *s)
{
    say(g, 0, s, s->epoch.id, WHO_PROVED);
}

/* The proof that was asked for serves everybody who doubts. */
static void
doubted(struct gossip *g, struct gossip_stream *s)
{
    s->doubted = true;
    if (s->answered == s->ask) {
        gossip_reread(g, s, GOSSIP_ASKED_PROVE, "a peer doubts it");
    }
}

/* This node only follows, and its reading had the replica's last batch as its own
 * last one: while the engine is silent, nobody can know more of it. */
static bool
is_level(const struct gossip_stream *s)
{
    const struct gossip_reading *reading = &s->reading;
    uint32_t print = 0;

    return reading->print_pos == s->pos && !reading->differs &&
           !reading->lost && !gossip_is_torn(s) &&
           gossip_print_at(s, s->pos, &print) && print == reading->print;
}

/* Whether the epoch needs no better reader than this node's. */
static bool
is_read_well(const struct gossip_stream *s)
{
    return s->reading.live &&
           (gossip_leads(s) ? s->pos >= s->reading.pos : is_level(s));
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
    if (s == NULL || s->epoch.no == 0) {
        return 0;
    }
    if (what == WHO_PROVED) {
        gossip_rival_shown(g, s, peer, id);
    } else if (s->epoch.id != id) {
        return 0;
    } else if (what == WHO_LEADS) {
        s->reading.who_lives |= s->reading.who_asked;
    } else if (what != WHO_DOUBTS && is_read_well(s)) {
        say(g, peer, s, id, WHO_LEADS);
    } else if (what == WHO_DOUBTS && gossip_leads(s) && s->reading.live) {
        doubted(g, s);
    }
    return 0;
}
