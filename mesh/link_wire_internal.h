/*
 * A connection between two nodes, carried by the loop, with TLS or without.
 */
#ifndef MESH_LINK_WIRE_INTERNAL_H
#define MESH_LINK_WIRE_INTERNAL_H

#include "mesh/link_internal.h"

#define WIRE_OUT_MAX ((size_t)32 << 10) /* bytes of TLS per write */

enum wire_state {
    WIRE_CONNECTS,
    WIRE_SHAKES_HANDS,
    WIRE_GREETS,
    WIRE_ASKS,   /* with a secret: awaits the other side's number */
    WIRE_MEETS,  /* with a secret: awaits who the client is */
    WIRE_PROVES, /* with a secret: awaits the other side's proof */
    WIRE_OPEN,
    WIRE_CLOSED,
};

struct wire {
    struct wire *prev; /* in the link's list */
    struct wire *next;
    struct mesh_link *link;
    uv_tcp_t tcp;
    uv_connect_t connect;
    uv_write_t write;
    struct tls *tls;
    enum wire_state state;
    bool server;
    bool writing;
    bool reading;
    bool heard;    /* a whole message came */
    bool far_host; /* inbound: no peer had its host when it came */
    uint64_t since_us;
    char remote[MESH_ADDRESS_MAX];
    struct channel *channel; /* NULL: inbound, or the channel gave it up */
    struct inlet *inlet;     /* NULL: outbound, or not open yet */
    struct message *sending;
    size_t sent; /* bytes of it, and of the size in front of it */
    struct message *receiving;
    uint8_t head[WHO_SIZE];
    uint8_t numbers[2][PROOF_SIZE]; /* with a secret: the client's and
                                       the server's */
    uint8_t who[WHO_SIZE];          /* the client, by its proof */
    size_t filled;                  /* bytes in `head` or `receiving` */
    char out[WIRE_OUT_MAX];
};

/* A message with room for len bytes; the caller frees it with free(). NULL: out
 * of memory. */
struct message *message_new(size_t len) MUST_CHECK;

/* Dials a channel's peer. Later channel_on_attached() or channel_on_lost()
 * tells the outcome. NULL: the peer cannot be dialled. */
struct wire *wire_dial(struct channel *channel) MUST_CHECK;

/* Accepts the connection that waits at the listener. It becomes an inlet, or is
 * refused. */
void wire_accept(struct mesh_link *link, uv_stream_t *listener);

/* Sends a message on a channel's open connection, one at a time, and frees it.
 * channel_on_sent() or channel_on_lost() follows, the latter perhaps before
 * this returns. */
void wire_send(struct wire *wire, struct message *msg);

/* Closes the connection; it frees itself later. Its channel hears nothing more;
 * its inlet gets inlet_lost(). */
void wire_close(struct wire *wire);

/* Reads on: the inbox has room again. */
void wire_resume(struct wire *wire);

/* Lets time pass: an inbound handshake may take hello_ms. */
void wire_tick(struct wire *wire, uint64_t now_us);

/* The same for all connections of a link. */
void wires_resume(struct mesh_link *link);
void wires_tick(struct mesh_link *link, uint64_t now_us);
void wires_forgive(struct mesh_link *link, uint64_t gap_us);
void wires_close(struct mesh_link *link);

/* link_inlet.c: called by an inbound wire. inlet_opened() returns NULL when
 * there are too many. */
struct inlet *inlet_opened(struct mesh_link *link, struct wire *wire,
                           const char *from) MUST_CHECK;
void inlet_lost(struct mesh_link *link, struct inlet *inlet);
bool inlet_has_room(struct mesh_link *link) MUST_CHECK;
void inlet_put(struct mesh_link *link, struct message *msg);

/* link_stranger.c: whether there is room for an inbound connection that has yet
 * to show that it is a peer's. Others may be closed for it. */
bool stranger_has_place(struct wire *wire) MUST_CHECK;

/* link_port.c */

/* Listens at a numeric address: 0 or -errno. */
int port_open(struct mesh_link *link, const char *listen) MUST_CHECK;

/* Lets time pass: reads changed certificates and secrets, and tells the owner
 * when a certificate ends soon. */
void port_tick(struct mesh_link *link);

#endif
