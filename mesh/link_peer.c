#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mesh/link_inner.h"

struct peer *
peer_find(const struct mesh_link *link, const char *address)
{
    for (uint32_t i = 0; i < link->peers_count; i++) {
        if (strcmp(link->peers[i]->address, address) == 0) {
            return link->peers[i];
        }
    }
    return NULL;
}

static int
open_lanes(struct peer *peer)
{
    int rc = lane_open(&peer->lanes[MESH_CTL], peer, MESH_CTL);

    if (rc == 0) {
        rc = lane_open(&peer->lanes[MESH_BULK], peer, MESH_BULK);
    }
    return rc;
}

static void
destroy(struct peer *peer)
{
    lane_fini(&peer->lanes[MESH_CTL]);
    lane_fini(&peer->lanes[MESH_BULK]);
    free(peer);
}

int
peer_get(struct mesh_link *link, const char *address, struct peer **out)
{
    char canonical[MESH_ADDRESS_MAX];

    *out = peer_find(link, address);
    if (*out != NULL) {
        return 0;
    }
    if (!link_address_read(address, canonical) ||
        link_address_port(canonical) == 0 ||
        strcmp(canonical, link->address) == 0) {
        return MESH_LINK_E_ADDRESS;
    }
    *out = peer_find(link, canonical);
    if (*out != NULL) {
        return 0;
    }
    if (link->peers_count == link->limits.peers_max) {
        return MESH_LINK_E_PEERS;
    }
    struct peer *peer = calloc(1, sizeof *peer);
    if (peer == NULL) {
        return -ENOMEM;
    }
    peer->link = link;
    memcpy(peer->address, canonical, sizeof canonical);
    peer->down_us = link_now_us(link);
    peer->wanted_us = peer->down_us;
    int rc = open_lanes(peer);
    if (rc != 0) {
        destroy(peer);
        return rc;
    }
    link->peers[link->peers_count++] = peer;
    *out = peer;
    lane_tick(&peer->lanes[MESH_CTL], peer->down_us);
    lane_tick(&peer->lanes[MESH_BULK], peer->down_us);
    return 0;
}

void
peer_free_closed(struct mesh_link *link)
{
    while (link->closed != NULL) {
        struct peer *peer = link->closed;
        link->closed = peer->next_closed;
        destroy(peer);
    }
}

static void
keep_counts(struct mesh_link *link, struct lane *lane)
{
    if (lane->sequence > link->sequence_floor) {
        link->sequence_floor = lane->sequence;
    }
    link->stats.frames_sent += lane->sent_frames;
    link->stats.bytes_sent += lane->sent_bytes;
}

void
peer_close(struct peer *peer)
{
    struct mesh_link *link = peer->link;

    peer->closing = true;
    for (unsigned lane = 0; lane < MESH_LANES; lane++) {
        lane_close(&peer->lanes[lane]);
        keep_counts(link, &peer->lanes[lane]);
    }
    for (unsigned lane = 0; lane < MESH_LANES; lane++) {
        if (peer->inlets[lane] != NULL) {
            inlet_close(peer->link, peer->inlets[lane], "the peer was dropped");
        }
    }
    for (uint32_t i = 0; i < link->peers_count; i++) {
        if (link->peers[i] == peer) {
            link->peers[i] = link->peers[--link->peers_count];
            break;
        }
    }
    peer->next_closed = link->closed;
    link->closed = peer;
    sweep(link); /* also frees it */
}

static void
put_hello(const struct peer *peer, enum mesh_lane lane,
          struct frame_hello *hello)
{
    const struct mesh_link *link = peer->link;

    *hello = (struct frame_hello){
        .lane = (uint8_t)lane,
        .major_min = FRAME_MAJOR_MIN,
        .major_max = FRAME_MAJOR_MAX,
        .nonce = peer->lanes[lane].nonce,
    };
    memcpy(hello->cluster, link->cluster, sizeof hello->cluster);
    memcpy(hello->name, link->name, sizeof hello->name);
    memcpy(hello->address, link->address, sizeof hello->address);
    memcpy(hello->echo, peer->echo, sizeof hello->echo);
}

void
peer_say_hello(struct peer *peer, enum mesh_lane lane)
{
    struct frame_hello hello;
    uint8_t bytes[FRAME_HELLO_MAX];

    put_hello(peer, lane, &hello);
    struct slice body = {(const char *)bytes, frame_hello_write(&hello, bytes)};
    lane_say(&peer->lanes[lane], FRAME_HELLO, body);
}

void
peer_judge(struct peer *peer, const char *reason)
{
    struct mesh_link *link = peer->link;
    bool up = true;

    for (unsigned lane = 0; lane < MESH_LANES; lane++) {
        up = up && peer->lanes[lane].echoed && peer->inlets[lane] != NULL;
    }
    if (up == peer->up || peer->closing) {
        return;
    }
    peer->up = up;
    if (up) {
        link->stats.ups++;
        link->sink.up(link->sink.context, peer->address, peer->session);
        return;
    }
    peer->down_us = link_now_us(link);
    peer->wanted_us = peer->down_us;
    link->stats.downs++;
    link->sink.down(link->sink.context, peer->address, reason);
}

/* Another process is there now: what the last one heard means nothing. */
static void
supersede(struct peer *peer, uint64_t session)
{
    const char *reason = "another process is there now";

    peer->session = session;
    for (unsigned lane = 0; lane < MESH_LANES; lane++) {
        if (peer->inlets[lane] != NULL) {
            inlet_close(peer->link, peer->inlets[lane], reason);
        }
        /* What it did not hear may be connected to the new one already. */
        if (peer->lanes[lane].echoed) {
            lane_break(&peer->lanes[lane], 0);
        }
        lane_hurry(&peer->lanes[lane]);
        peer->echo[lane] = 0;
        peer->heard[lane] = 0;
        peer->hellos[lane] = 0;
    }
    peer_judge(peer, reason);
}

/* Our own number came back, or did not. */
static void
hear_echo(struct lane *ours, uint64_t echo)
{
    bool right = ours->nonce != 0 && echo == ours->nonce;

    if (right) {
        ours->echoed = true;
        ours->proven = true;
        ours->patience_us = lane_patience_us(&ours->link->limits);
    } else if (ours->proven) {
        lane_break(ours, 0); /* the peer let go of this connection */
    }
}

/* From now on the peer's frames of this lane come by this connection. */
static void
take_inlet(struct peer *peer, struct inlet *inlet, enum mesh_lane lane)
{
    struct inlet *old = peer->inlets[lane];

    peer->inlets[lane] = inlet;
    inlet->peer = peer;
    inlet->lane = lane;
    if (old != NULL) {
        old->peer = NULL; /* replaced, which is no reason to be down */
        inlet_close(peer->link, old, "the peer connected anew");
    }
}

void
peer_heard(struct peer *peer, struct inlet *inlet,
           const struct frame_hello *hello, uint64_t session, uint64_t number)
{
    enum mesh_lane lane = (enum mesh_lane)hello->lane;

    if (peer->session != session) {
        supersede(peer, session);
    }
    if (peer->closing) {
        return; /* the owner's answer to down() */
    }
    if (number < peer->hellos[lane]) {
        if (inlet->peer == NULL) { /* a later connection was faster */
            inlet_close(peer->link, inlet, "the peer connected anew");
        }
        return;
    }
    bool latest = number >= peer->hellos[MESH_LANES - 1 - lane];
    peer->hellos[lane] = number;
    if (peer->inlets[lane] != inlet) {
        take_inlet(peer, inlet, lane);
    }
    memcpy(peer->name, hello->name, sizeof peer->name);
    peer->wanted_us = link_now_us(peer->link);
    bool fresh = peer->echo[lane] != hello->nonce;
    peer->echo[lane] = hello->nonce;
    for (unsigned i = 0; latest && i < MESH_LANES; i++) {
        hear_echo(&peer->lanes[i], hello->echo[i]);
    }
    if (fresh && lane_is_greeted(&peer->lanes[MESH_CTL])) {
        peer_say_hello(peer, MESH_CTL);
    }
    peer_judge(peer, "it does not hear us any more");
}

/* It went silent, so perhaps it does not listen any more either: each lane is
 * to be echoed again, or dialled again after a while. */
static void
doubt_lanes(struct peer *peer)
{
    for (unsigned lane = 0; lane < MESH_LANES; lane++) {
        if (peer->inlets[lane] != NULL) {
            return;
        }
    }
    for (unsigned lane = 0; lane < MESH_LANES; lane++) {
        if (peer->lanes[lane].echoed) {
            peer->lanes[lane].echoed = false;
            peer->lanes[lane].since_us = link_now_us(peer->link);
        }
    }
}

void
peer_unheard(struct peer *peer, struct inlet *inlet, const char *reason)
{
    CHECK(peer->inlets[inlet->lane] == inlet);
    peer->inlets[inlet->lane] = NULL;
    peer->echo[inlet->lane] = 0;
    inlet->peer = NULL;
    if (!peer->closing && lane_is_greeted(&peer->lanes[MESH_CTL])) {
        peer_say_hello(peer, MESH_CTL); /* so that it dials anew */
    }
    doubt_lanes(peer);
    peer_judge(peer, reason);
}

void
peer_tick(struct peer *peer, uint64_t now_us)
{
    const struct mesh_link_limits *limits = &peer->link->limits;
    bool heard =
        peer->inlets[MESH_CTL] != NULL || peer->inlets[MESH_BULK] != NULL;

    if (!peer->up && !heard &&
        now_us - peer->wanted_us > (uint64_t)limits->forget_ms * 1000) {
        peer_close(peer);
        return;
    }
    lane_tick(&peer->lanes[MESH_CTL], now_us);
    lane_tick(&peer->lanes[MESH_BULK], now_us);
}
