/* Copies of names, for sources that go on from them: one at a time, in pieces. */
#include "node/ingest/ingest_stream.h"

static void ON_CONTROL
give_up(struct ingest_streams *s)
{
    gossip_hand_end(s->gossip);
    names_clear(&s->twin.table, &s->twin.room);
    s->handed = NULL;
}

void
ingest_hand_forget(struct ingest_streams *s, struct ingest_rank *rank)
{
    rank->hands = false;
    if (s->handed == rank) {
        give_up(s);
    }
}

bool
ingest_streams_hands(struct ingest_streams *s, uint64_t now_us)
{
    bool any = s->handed != NULL;

    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        for (uint32_t rank = 0; rank < s->workers[i].ranks; rank++) {
            const struct ingest_rank *waits = &s->workers[i].rank[rank];
            if (waits->hands) {
                gossip_hand_waits(s->gossip, waits->stream, now_us);
                any = true;
            }
        }
    }
    return any;
}

/* Whether a copy for that rank was begun, if it waits for one. */
static bool ON_CONTROL
begin(struct ingest_streams *s, struct ingest_rank *rank)
{
    bool waits = rank->hands;

    rank->hands = false;
    return waits && gossip_hand_begin(s->gossip, rank->stream, &s->twin);
}

/* The next rank that can be handed something, or NULL. */
static struct ingest_rank *ON_CONTROL
next(struct ingest_streams *s)
{
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        for (uint32_t rank = 0; rank < s->workers[i].ranks; rank++) {
            if (begin(s, &s->workers[i].rank[rank])) {
                return &s->workers[i].rank[rank];
            }
        }
    }
    return NULL;
}

struct decoder_hand *
ingest_streams_hand(struct ingest_streams *s, size_t bytes,
                    struct ingest_rank **rank, uint64_t now_us)
{
    struct gossip_names names;

    s->handed = s->handed != NULL ? s->handed : next(s);
    if (s->handed == NULL) {
        return NULL;
    }
    int outcome = gossip_hand_step(s->gossip, bytes, &names, now_us);
    if (outcome == GOSSIP_E_MORE) {
        return NULL;
    }
    *rank = s->handed;
    struct decoder_hand *hand =
        outcome == 0 ? decoder_hand_new(&s->twin, names.seq, names.fingerprint)
                     : NULL;
    give_up(s);
    /* Lost: what was asked for since then is of other names. */
    (*rank)->hands = (*rank)->hands && outcome != 0;
    return hand;
}
