/*
 * Whose frames are accepted: reads each message and refuses those that no peer
 * of ours would send.
 */
#include <stdio.h>
#include <string.h>

#include "mesh/link_internal.h"

const char *
mesh_refusal_name(enum mesh_refusal reason)
{
    static const char *const names[MESH_REFUSALS] = {
        [MESH_REFUSED_GARBAGE] = "garbage",
        [MESH_REFUSED_VERSION] = "version",
        [MESH_REFUSED_CLUSTER] = "cluster",
        [MESH_REFUSED_HELLO] = "hello",
        [MESH_REFUSED_SELF] = "self",
        [MESH_REFUSED_ADDRESS] = "address",
        [MESH_REFUSED_SEQUENCE] = "sequence",
        [MESH_REFUSED_SILENT] = "silent",
        [MESH_REFUSED_PEERS] = "peers",
        [MESH_REFUSED_PIPES] = "pipes",
        [MESH_REFUSED_TRANSPORT] = "transport",
    };

    CHECK(reason < MESH_REFUSALS);
    return names[reason];
}

void
link_refuse(struct mesh_link *link, struct inlet *inlet,
            enum mesh_refusal reason, const char *what)
{
    const struct mesh_link_sink *sink = &link->sink;
    char kept[FRAME_TEXT_MAX];

    CHECK(reason < MESH_REFUSALS && what != NULL);
    /* `what` may belong to the peer, which closing may free. */
    (void)snprintf(kept, sizeof kept, "%s", what);
    link->stats.refused[reason]++;
    inlet_close(inlet, mesh_refusal_name(reason));
    sink->refused(sink->context, reason, inlet->from, kept, 1);
}

/* Without TLS anyone can claim any address, and we dial the claimed address. So
 * it must be the host that the connection comes from, or an address that the
 * owner named. */
static bool
address_fits(const struct mesh_link *link, const struct inlet *inlet,
             const char *address)
{
    return link->tls || link->secret || peer_find(link, address) != NULL ||
           link_address_same_host(inlet->from, address);
}

/* With a secret: the hello is of whom the connection's proof was about. */
static bool
is_proven(const struct mesh_link *link, const struct inlet *inlet,
          const struct frame_hello *hello, uint64_t session)
{
    uint8_t who[WHO_SIZE];

    proof_who(hello, session, who);
    return !link->secret || memcmp(who, inlet->who, sizeof who) == 0;
}

/* Handles the first hello of a connection: who sent it. */
static void
admit(struct mesh_link *link, struct inlet *inlet,
      const struct frame_hello *hello, const struct frame *frame)
{
    char address[MESH_ADDRESS_MAX];
    struct peer *peer;

    CHECK(inlet->peer == NULL);
    if (frame->session == link->session) {
        link_refuse(link, inlet, MESH_REFUSED_SELF, hello->address);
        return;
    }
    if (!link_address_read(hello->address, address)) {
        link_refuse(link, inlet, MESH_REFUSED_HELLO, hello->address);
        return;
    }
    if (!address_fits(link, inlet, address)) {
        link_refuse(link, inlet, MESH_REFUSED_ADDRESS, hello->address);
        return;
    }
    int rc = peer_get(link, address, &peer);
    if (rc != 0) {
        link_refuse(link, inlet,
                    rc == MESH_LINK_E_ADDRESS ? MESH_REFUSED_ADDRESS
                                              : MESH_REFUSED_PEERS,
                    hello->address);
        return;
    }
    peer_heard(peer, inlet, hello, frame->session, frame->sequence);
}

static void
take_hello(struct mesh_link *link, struct inlet *inlet,
           const struct frame *frame)
{
    struct frame_hello hello;
    char what[FRAME_TEXT_MAX];

    if (frame_hello_read(frame->body, &hello) != 0 || frame->session == 0) {
        link_refuse(link, inlet, MESH_REFUSED_HELLO, "it cannot be read");
        return;
    }
    if (hello.major_min > FRAME_MAJOR_MAX ||
        hello.major_max < FRAME_MAJOR_MIN) {
        (void)snprintf(what, sizeof what, "%u..%u, this node speaks %u",
                       hello.major_min, hello.major_max, FRAME_MAJOR_MAX);
        link_refuse(link, inlet, MESH_REFUSED_VERSION, what);
        return;
    }
    if (strcmp(hello.cluster, link->cluster) != 0) {
        link_refuse(link, inlet, MESH_REFUSED_CLUSTER, hello.cluster);
        return;
    }
    struct peer *peer = inlet->peer;
    if (!is_proven(link, inlet, &hello, frame->session)) {
        link_refuse(link, inlet, MESH_REFUSED_HELLO, "the proof was another's");
    } else if (peer == NULL) {
        admit(link, inlet, &hello, frame);
    } else if (hello.channel != inlet->channel ||
               frame->session != peer->session) {
        link_refuse(link, inlet, MESH_REFUSED_HELLO, "it became another one");
    } else {
        peer_heard(peer, inlet, &hello, frame->session, frame->sequence);
    }
}

static void
take_data(struct mesh_link *link, struct inlet *inlet,
          const struct frame *frame)
{
    struct peer *peer = inlet->peer;
    uint64_t last = peer->heard[inlet->channel];

    CHECK(inlet->peer != NULL && inlet->channel < MESH_CHANNELS);
    if (frame->sequence <= last) {
        link_refuse(link, inlet, MESH_REFUSED_SEQUENCE, peer->name);
        return;
    }
    link->stats.frames_lost += last != 0 ? frame->sequence - last - 1 : 0;
    peer->heard[inlet->channel] = frame->sequence;
    link->stats.frames_received++;
    link->stats.bytes_received += frame->body.len;

    const struct mesh_link_from from = {
        .session = peer->session,
        .address = peer->address,
        .name = peer->name,
        .channel = inlet->channel,
    };
    link->sink.received(link->sink.context, &from, frame->body);
}

static void
refuse_unread(struct mesh_link *link, struct inlet *inlet, int rc,
              const struct frame *frame)
{
    char what[FRAME_TEXT_MAX];

    if (rc == FRAME_E_VERSION) {
        (void)snprintf(what, sizeof what, "%u.%u, this node speaks %u",
                       frame->major, frame->minor, FRAME_MAJOR_MAX);
        link_refuse(link, inlet, MESH_REFUSED_VERSION, what);
        return;
    }
    link_refuse(link, inlet, MESH_REFUSED_GARBAGE,
                rc == FRAME_E_MAGIC  ? "no frame of this mesh"
                : rc == FRAME_E_SIZE ? "sizes of a frame disagree"
                                     : "a frame was damaged");
}

void
link_judge(struct mesh_link *link, const struct message *msg)
{
    struct inlet *inlet = msg->inlet;
    struct frame frame;

    if (inlet->closed) {
        return;
    }
    int rc = frame_read(msg->bytes, msg->len, &frame);
    if (rc != 0) {
        refuse_unread(link, inlet, rc, &frame);
        return;
    }
    inlet->heard_us = link_now_us(link);
    if (frame.type == FRAME_HELLO) {
        take_hello(link, inlet, &frame);
    } else if (inlet->peer == NULL) {
        link_refuse(link, inlet, MESH_REFUSED_HELLO, "a frame came before it");
    } else if (frame.session != inlet->peer->session) {
        link_refuse(link, inlet, MESH_REFUSED_SEQUENCE, inlet->peer->name);
    } else if (frame.type == FRAME_DATA) {
        take_data(link, inlet, &frame);
    } else if (frame.type != FRAME_IDLE) {
        link->stats.frames_unknown++;
    }
}
