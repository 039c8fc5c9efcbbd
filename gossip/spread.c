/*
 * Pushes travel along a tree, so that a reader sends a constant number of
 * frames however many nodes there are.
 *
 * The sender of a push sends it to GOSSIP_FANOUT of its peers and divides the
 * other peers among them. Each frame ends with the peers that its receiver must
 * pass it on to, and the receiver does the same with those. So nodes need not
 * agree on the members or on their order, and every peer that the first sender
 * has a link to gets the frame once. If a node has no link to a peer that it
 * must pass the frame on to, it leaves that peer to one of its receivers. A
 * suspect peer gets the frame directly, and need not pass it on.
 *
 * Peers in another part of the fleet (gossip_peer_away()) share one frame across:
 * the first of them gets it and passes it on to the others, by the same rule.
 *
 * The order of the peers is drawn anew every TREE_US. So a link that is down,
 * or a node that passes nothing on, costs the same peers their frames for at
 * most that long. Lost pushes are repaired like any lost delta.
 *
 *   PUSH    a DELTA for a peer that has nothing to pass on, or else a RELAY: a
 *           DELTA, and behind it
 *             u64     each peer to pass it on to
 *             u64     the peer that pushed it first
 *             u8      how many peers it is to be passed on to
 *
 * Source: Plumtree (Leitao et al. 2007), without its repair: anti-entropy takes
 * its place.
 */
#include "gossip/gossip_internal.h"

#define TREE_US UINT64_C(1000000)

/* Peers that must get a push. */
struct group {
    uint64_t ids[GOSSIP_PEERS_MAX];
    uint32_t count;
};

static const struct group nobody;

static void
add(struct group *group, uint64_t id)
{
    CHECK(group->count < GOSSIP_PEERS_MAX);
    group->ids[group->count++] = id;
}

/* Appends the peers that the receiver must pass the frame on to. A DELTA of our
 * own without such peers stays a DELTA. */
static void
put_tail(struct gossip *g, uint64_t origin, const struct group *rest)
{
    bool relays = rest->count > 0 || origin != g->self;

    g->build.bytes[0] = relays ? GOSSIP_FRAME_RELAY : GOSSIP_FRAME_DELTA;
    for (uint32_t i = 0; i < rest->count; i++) {
        codec_put_u64(&g->build, rest->ids[i]);
    }
    if (relays) {
        codec_put_u64(&g->build, origin);
        codec_put_u8(&g->build, (uint8_t)rest->count);
    }
}

static void
send_to(struct gossip *g, uint64_t peer, uint64_t origin,
        const struct group *rest)
{
    size_t len = g->build.len;

    put_tail(g, origin, rest);
    if (g->build.failed) {
        g->stats.relays_lost += 1 + (uint64_t)rest->count;
    } else {
        gossip_frame_send(g, peer, GOSSIP_BULK);
        g->stats.relays_out += origin != g->self;
    }
    g->build.len = len;
    g->build.failed = false;
}

/* Those that must get a push, by what is done about them. */
struct sorted {
    struct group near;               /* can get a frame and pass it on */
    struct group away;               /* the same, in other parts of the fleet */
    uint64_t part[GOSSIP_PEERS_MAX]; /* of each of those */
    struct group unlinked;           /* we have no link to them */
};

/* Suspect ones get their frame at once. */
static void
sort_out(struct gossip *g, uint64_t origin, const struct group *all,
         struct sorted *to)
{
    for (uint32_t i = 0; i < all->count; i++) {
        uint64_t id = all->ids[i];
        uint32_t at = id == g->self ? GOSSIP_PEER_NONE : gossip_peer_at(g, id);
        if (at == GOSSIP_PEER_NONE) {
            add(&to->unlinked, id);
        } else if (g->peers[at].suspect) {
            send_to(g, id, origin, &nobody);
        } else if (g->peers[at].away != 0) {
            to->part[to->away.count] = g->peers[at].away;
            add(&to->away, id);
        } else {
            add(&to->near, id);
        }
    }
    CHECK(to->near.count + to->away.count + to->unlinked.count <= all->count);
}

/* Sends the DELTA in g->build into each other part of the fleet once. `more` go
 * with the first of these frames. True: there was one. */
static bool
spread_away(struct gossip *g, uint64_t origin, struct sorted *to,
            const struct group *more)
{
    struct group rest = *more;

    for (uint32_t head = 0; head < to->away.count; head++) {
        uint64_t part = to->part[head];
        if (part == 0) {
            continue; /* another head passes it on */
        }
        for (uint32_t i = head + 1; i < to->away.count; i++) {
            if (to->part[i] == part) {
                add(&rest, to->away.ids[i]);
                to->part[i] = 0;
            }
        }
        send_to(g, to->away.ids[head], origin, &rest);
        rest.count = 0;
    }
    return to->away.count > 0;
}

/* Sends the DELTA in g->build to the first GOSSIP_FANOUT near peers, each with
 * its share of the others. */
static void
spread(struct gossip *g, uint64_t origin, const struct group *all)
{
    struct sorted to = {.near = {.count = 0}};

    sort_out(g, origin, all, &to);
    uint32_t heads =
        to.near.count < GOSSIP_FANOUT ? to.near.count : (uint32_t)GOSSIP_FANOUT;
    struct group *others = &to.unlinked;
    bool taken = spread_away(g, origin, &to, heads == 0 ? others : &nobody);

    g->stats.relays_lost += heads == 0 && !taken ? others->count : 0;
    for (uint32_t i = heads; i < to.near.count; i++) {
        add(others, to.near.ids[i]);
    }
    for (uint32_t head = 0; head < heads; head++) {
        struct group rest = {.count = 0};
        for (uint32_t i = head; i < others->count; i += heads) {
            add(&rest, others->ids[i]);
        }
        send_to(g, to.near.ids[head], origin, &rest);
    }
}

/* Adds a peer in the order of the present tree. */
static void
add_in_order(const struct gossip *g, struct group *group, uint64_t id)
{
    uint32_t at = group->count;

    add(group, id);
    for (; at > 0 &&
           rng_mix(group->ids[at - 1] ^ g->tree) > rng_mix(id ^ g->tree);
         at--) {
        group->ids[at] = group->ids[at - 1];
    }
    group->ids[at] = id;
}

void
gossip_spread(struct gossip *g)
{
    struct group all = {.count = 0};

    CHECK(!g->build.failed && g->build.bytes[0] == GOSSIP_FRAME_DELTA);
    if (g->now_us >= g->tree_us) {
        g->tree = rng_next(&g->rng);
        g->tree_us = g->now_us + TREE_US;
    }
    for (uint32_t i = 0; i < g->peers_high; i++) {
        if (g->peers[i].id != 0) {
            add_in_order(g, &all, g->peers[i].id);
        }
    }
    spread(g, g->self, &all);
}

void
gossip_peer_away(struct gossip *g, uint64_t peer, uint64_t away)
{
    uint32_t at = gossip_peer_at(g, peer);

    if (at != GOSSIP_PEER_NONE) {
        g->peers[at].away = away;
    }
}

/* Reads the tail and removes it from the frame. False: it is malformed. */
static bool
get_tail(struct codec_in *in, struct group *rest, uint64_t *origin)
{
    uint64_t count = codec_left(in) > 0 ? in->end[-1] : UINT64_MAX;

    if (count > GOSSIP_PEERS_MAX || codec_left(in) < count * 8 + 8 + 1) {
        return false;
    }
    struct codec_in tail = {.at = in->end - (count * 8 + 8 + 1),
                            .end = in->end};
    in->end = tail.at;
    for (uint64_t i = 0; i < count; i++) {
        add(rest, codec_get_u64(&tail));
    }
    *origin = codec_get_u64(&tail);
    CHECK(!tail.failed && rest->count == count);
    return true;
}

int
gossip_recv_relay(struct gossip *g, uint64_t peer, struct codec_in in)
{
    struct group rest = {.count = 0};
    uint64_t origin = 0;

    if (!get_tail(&in, &rest, &origin)) {
        return GOSSIP_E_BAD;
    }
    struct codec_in delta = in;
    int rc = gossip_recv_push(g, peer, origin, delta);
    if (rc != 0 || rest.count == 0 || origin == g->self) {
        return rc;
    }
    gossip_frame_begin(g, GOSSIP_FRAME_RELAY);
    codec_put_bytes(&g->build, in.at, codec_left(&in));
    if (g->build.failed) { /* the sender may build longer frames than we do */
        g->stats.relays_lost += rest.count;
        return 0;
    }
    spread(g, origin, &rest);
    return 0;
}
