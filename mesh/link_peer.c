/*
 * What both sides of a link know of each other, and whether the link is up.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mesh/link_internal.h"

struct peer *
peer_find(const struct mesh_link *link, const char *address)
{
    CHECK(address != NULL && link->peers_count <= link->limits.peers_max);
    for (uint32_t i = 0; i < link->peers_count; i++) {
        if (strcmp(link->peers[i]->address, address) == 0) {
            return link->peers[i];
        }
    }
    return NULL;
}

static int
open_channels(struct peer *peer)
{
    int rc = channel_open(&peer->channels[MESH_CTL], peer, MESH_CTL);

    if (rc == 0) {
        rc = channel_open(&peer->channels[MESH_BULK], peer, MESH_BULK);
    }
    return rc;
}

static void
destroy(struct peer *peer)
{
    channel_fini(&peer->channels[MESH_CTL]);
    channel_fini(&peer->channels[MESH_BULK]);
    free(peer);
}

/* Of the peers that are not up and say nothing, the one that is so for longest;
 * NULL: there is none. */
static struct peer *
longest_down(const struct mesh_link *link)
{
    struct peer *found = NULL;

    for (uint32_t i = 0; i < link->peers_count; i++) {
        struct peer *peer = link->peers[i];
        bool heard =
            peer->inlets[MESH_CTL] != NULL || peer->inlets[MESH_BULK] != NULL;
        if (!peer->up && !heard &&
            (found == NULL || peer->down_us < found->down_us)) {
            found = peer;
        }
    }
    return found;
}

/* Where all places are taken, one where nobody may be gives way: addresses come
 * from DNS and from members that died, and there may be more of them. */
static bool
has_place(struct mesh_link *link)
{
    struct peer *gone =
        link->peers_count == link->limits.peers_max ? longest_down(link) : NULL;

    if (gone != NULL) {
        peer_close(gone);
    }
    return link->peers_count < link->limits.peers_max;
}

int
peer_get(struct mesh_link *link, const char *address, struct peer **out)
{
    char canonical[MESH_ADDRESS_MAX];

    CHECK(address != NULL && out != NULL);
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
    if (!has_place(link)) {
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
    int rc = open_channels(peer);
    if (rc != 0) {
        destroy(peer);
        return rc;
    }
    link->peers[link->peers_count++] = peer;
    *out = peer;
    channel_tick(&peer->channels[MESH_CTL], peer->down_us);
    channel_tick(&peer->channels[MESH_BULK], peer->down_us);
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
keep_counts(struct mesh_link *link, struct channel *channel)
{
    if (channel->sequence > link->sequence_floor) {
        link->sequence_floor = channel->sequence;
    }
    link->stats.frames_sent += channel->sent_frames;
    link->stats.bytes_sent += channel->sent_bytes;
}

void
peer_close(struct peer *peer)
{
    struct mesh_link *link = peer->link;

    peer->closing = true;
    for (unsigned channel = 0; channel < MESH_CHANNELS; channel++) {
        channel_close(&peer->channels[channel]);
        keep_counts(link, &peer->channels[channel]);
    }
    for (unsigned channel = 0; channel < MESH_CHANNELS; channel++) {
        if (peer->inlets[channel] != NULL) {
            inlet_close(peer->inlets[channel], "the peer was dropped");
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
}

void
peer_put_hello(const struct peer *peer, enum mesh_channel channel,
               struct frame_hello *hello)
{
    const struct mesh_link *link = peer->link;

    CHECK(channel < MESH_CHANNELS);
    *hello = (struct frame_hello){
        .channel = (uint8_t)channel,
        .major_min = FRAME_MAJOR_MIN,
        .major_max = FRAME_MAJOR_MAX,
        .nonce = peer->channels[channel].nonce,
    };
    memcpy(hello->cluster, link->cluster, sizeof hello->cluster);
    memcpy(hello->name, link->name, sizeof hello->name);
    memcpy(hello->address, link->address, sizeof hello->address);
    memcpy(hello->echo, peer->echo, sizeof hello->echo);
}

void
peer_say_hello(struct peer *peer, enum mesh_channel channel)
{
    struct frame_hello hello;
    uint8_t bytes[FRAME_HELLO_MAX];

    peer_put_hello(peer, channel, &hello);
    struct slice body = {(const char *)bytes, frame_hello_write(&hello, bytes)};
    channel_say(&peer->channels[channel], FRAME_HELLO, body);
}

void
peer_judge(struct peer *peer, const char *reason)
{
    struct mesh_link *link = peer->link;
    bool up = true;

    CHECK(reason != NULL);
    for (unsigned channel = 0; channel < MESH_CHANNELS; channel++) {
        up = up && peer->channels[channel].echoed &&
             peer->inlets[channel] != NULL;
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

/* A new process is there now: what its predecessor heard no longer counts. */
static void
supersede(struct peer *peer, uint64_t session)
{
    const char *reason = "another process is there now";

    CHECK(session != peer->session);
    peer->session = session;
    for (unsigned channel = 0; channel < MESH_CHANNELS; channel++) {
        if (peer->inlets[channel] != NULL) {
            inlet_close(peer->inlets[channel], reason);
        }
        /* A connection that it did not hear may already lead to the new
         * process. */
        if (peer->channels[channel].echoed) {
            channel_break(&peer->channels[channel], 0);
        }
        channel_hurry(&peer->channels[channel]);
        peer->echo[channel] = 0;
        peer->heard[channel] = 0;
        peer->hellos[channel] = 0;
    }
    peer_judge(peer, reason);
}

/* The peer returned our number, or another one. */
static void
hear_echo(struct channel *ours, uint64_t echo)
{
    bool right = ours->nonce != 0 && echo == ours->nonce;

    if (right) {
        ours->echoed = true;
        ours->proven = true;
        ours->patience_us = channel_patience_us(&ours->link->limits);
    } else if (ours->proven) {
        channel_break(ours, 0); /* the peer gave up this connection */
    }
}

/* From now on the peer's frames of this channel come through this
 * connection. */
static void
take_inlet(struct peer *peer, struct inlet *inlet, enum mesh_channel channel)
{
    struct inlet *old = peer->inlets[channel];

    CHECK(channel < MESH_CHANNELS && inlet != old);
    peer->inlets[channel] = inlet;
    inlet->peer = peer;
    inlet->channel = channel;
    if (old != NULL) {
        old->peer = NULL; /* replaced, which is no reason to go down */
        inlet_close(old, "the peer reconnected");
    }
}

void
peer_heard(struct peer *peer, struct inlet *inlet,
           const struct frame_hello *hello, uint64_t session, uint64_t number)
{
    enum mesh_channel channel = (enum mesh_channel)hello->channel;

    if (peer->session != session) {
        supersede(peer, session);
    }
    if (peer->closing) {
        return; /* the owner reacted to down() */
    }
    if (number < peer->hellos[channel]) {
        if (inlet->peer == NULL) { /* a later connection was faster */
            inlet_close(inlet, "the peer reconnected");
        }
        return;
    }
    bool latest = number >= peer->hellos[MESH_CHANNELS - 1 - channel];
    peer->hellos[channel] = number;
    if (peer->inlets[channel] != inlet) {
        take_inlet(peer, inlet, channel);
    }
    memcpy(peer->name, hello->name, sizeof peer->name);
    peer->wanted_us = link_now_us(peer->link);
    bool fresh = peer->echo[channel] != hello->nonce;
    peer->echo[channel] = hello->nonce;
    for (unsigned i = 0; latest && i < MESH_CHANNELS; i++) {
        hear_echo(&peer->channels[i], hello->echo[i]);
    }
    if (fresh && channel_is_greeted(&peer->channels[MESH_CTL])) {
        peer_say_hello(peer, MESH_CTL);
    }
    peer_judge(peer, "it does not hear us any more");
}

/* The peer went silent, so perhaps it no longer listens: each channel must be
 * echoed again, or is dialled again after a while. */
static void
doubt_channels(struct peer *peer)
{
    for (unsigned channel = 0; channel < MESH_CHANNELS; channel++) {
        if (peer->inlets[channel] != NULL) {
            return;
        }
    }
    for (unsigned channel = 0; channel < MESH_CHANNELS; channel++) {
        if (peer->channels[channel].echoed) {
            peer->channels[channel].echoed = false;
            peer->channels[channel].since_us = link_now_us(peer->link);
        }
    }
}

void
peer_unheard(struct peer *peer, struct inlet *inlet, const char *reason)
{
    CHECK(inlet->channel < MESH_CHANNELS && inlet->peer == peer);
    CHECK(peer->inlets[inlet->channel] == inlet);
    peer->inlets[inlet->channel] = NULL;
    peer->echo[inlet->channel] = 0;
    inlet->peer = NULL;
    if (!peer->closing && channel_is_greeted(&peer->channels[MESH_CTL])) {
        peer_say_hello(peer, MESH_CTL); /* so that it dials again */
    }
    doubt_channels(peer);
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
    channel_tick(&peer->channels[MESH_CTL], now_us);
    channel_tick(&peer->channels[MESH_BULK], now_us);
}
