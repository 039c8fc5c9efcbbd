/*
 * Copies of a stream's names for the intake, which a reading then goes on from.
 * A copy is made part by part, so that other work is not held up; what records
 * say meanwhile goes into both. The reading that is replaced goes on until the
 * intake has the names.
 */
#include "gossip/gossip_internal.h"

static void
lose(struct gossip *g)
{
    g->hand_stream = NULL;
    g->hand = NULL;
}

void
gossip_hand_said(struct gossip *g, const struct gossip_stream *s,
                 const struct words *words)
{
    CHECK((g->hand != NULL) == (g->hand_stream != NULL));
    if (g->hand_stream == s) {
        names_twin_apply(g->hand, words->word, words->count);
    }
}

void
gossip_hand_lost(struct gossip *g, struct gossip_stream *s)
{
    if (g->hand_stream == s) {
        lose(g);
        s->resumed_us = 0; /* it may be tried again at once */
    }
}

bool
gossip_hand_begin(struct gossip *g, struct event_stream stream,
                  struct names_twin *twin)
{
    struct gossip_stream *s = gossip_find(g, stream);

    CHECK(g->hand == NULL);
    if (s == NULL || !gossip_local_can_resume(g, s)) {
        return false;
    }
    names_twin_init(twin);
    g->hand = twin;
    g->hand_stream = s;
    return true;
}

int
gossip_hand_step(struct gossip *g, size_t bytes, struct gossip_names *names,
                 uint64_t now_us)
{
    struct gossip_stream *s = g->hand_stream;
    struct names_twin *twin = g->hand;

    g->now_us = now_us;
    if (s == NULL) {
        return GOSSIP_E_LOST;
    }
    CHECK(!s->removed && s->names.known);
    if (!names_twin_copy(twin, &s->names.table, bytes)) {
        s->resumed_us = gossip_awake(g);
        return GOSSIP_E_MORE;
    }
    bool good = !twin->failed && gossip_local_can_resume(g, s) &&
                gossip_names(g, s->name, names);
    if (!good) {
        gossip_hand_lost(g, s);
        return GOSSIP_E_LOST;
    }
    lose(g);
    s->resumed_id = s->epoch.id;
    s->resumed_pos = s->names.pos;
    s->resumed_us = gossip_awake(g);
    return 0;
}

void
gossip_hand_end(struct gossip *g)
{
    lose(g);
}

void
gossip_hand_waits(struct gossip *g, struct event_stream stream, uint64_t now_us)
{
    struct gossip_stream *s = gossip_find(g, stream);

    g->now_us = now_us;
    if (s != NULL && s->resuming) {
        s->resumed_us = gossip_awake(g);
    }
}
