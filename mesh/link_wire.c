/*
 * One connection on the loop, with TLS or without. It speaks the wire protocol
 * of NNG's PUSH and PULL: each side says which of the two it is; then come
 * messages, each behind its size.
 *
 * A connection carries the messages of a channel, or brings an inlet's messages
 * to the inbox. What it holds is bounded: one message that is being sent, one
 * that is being received, and the bytes of one read.
 */
#include "mesh/link_wire_internal.h"

#include <stdlib.h>
#include <string.h>

#define GREETING_SIZE 8U
#define SIZE_SIZE     8U                 /* bytes of a message's size */
#define PIECE_MAX     ((size_t)16 << 10) /* plain bytes per write */

_Static_assert(GREETING_SIZE == SIZE_SIZE, "both are read into `head`");

static void pump(struct wire *wire);

/* Closing */

static void
on_closed(uv_handle_t *handle)
{
    struct wire *wire = handle->data;
    struct mesh_link *link = wire->link;

    if (wire->prev != NULL) {
        wire->prev->next = wire->next;
    } else {
        link->wires = wire->next;
    }
    if (wire->next != NULL) {
        wire->next->prev = wire->prev;
    }
    link->wires_count--;
    tls_free(wire->tls);
    free(wire);
    link_closed_part(link);
}

void
wire_close(struct wire *wire)
{
    if (wire->state == WIRE_CLOSED) {
        return;
    }
    wire->state = WIRE_CLOSED;
    free(wire->sending);
    wire->sending = NULL;
    free(wire->receiving);
    wire->receiving = NULL;
    wire->channel = NULL;
    if (wire->inlet != NULL) {
        inlet_lost(wire->link, wire->inlet);
        wire->inlet = NULL;
    }
    uv_close((uv_handle_t *)&wire->tcp, on_closed);
}

/* Closes a connection that broke, and tells the channel or the inlet. */
static void
lose(struct wire *wire)
{
    struct channel *channel = wire->channel;

    if (channel != NULL) {
        wire->channel = NULL;
        channel_on_lost(channel);
    }
    wire_close(wire);
}

/* Closes a connection for a mistake of the other side, and tells the owner. */
static void
refuse(struct wire *wire, const char *why)
{
    struct mesh_link *link = wire->link;
    char from[MESH_ADDRESS_MAX];

    CHECK(wire->state != WIRE_CLOSED);
    memcpy(from, wire->remote, sizeof from);
    lose(wire);
    link->stats.refused[MESH_REFUSED_TRANSPORT]++;
    link->sink.refused(link->sink.context, MESH_REFUSED_TRANSPORT, from, why,
                       1);
}

/* Sending */

/* Passes the next piece of the message to TLS. False: that failed. */
static bool
write_piece(struct wire *wire)
{
    uint64_t size = wire->sending->len;
    uint8_t piece[PIECE_MAX];
    size_t len = 0;

    for (; wire->sent < SIZE_SIZE; wire->sent++) {
        piece[len++] = (uint8_t)(size >> (8 * (SIZE_SIZE - 1 - wire->sent)));
    }
    size_t at = wire->sent - SIZE_SIZE;
    size_t body =
        size - at < sizeof piece - len ? size - at : sizeof piece - len;
    if (body > 0) {
        memcpy(piece + len, wire->sending->bytes + at, body);
    }
    wire->sent += body;
    return len + body == 0 || tls_write(wire->tls, piece, len + body);
}

static void flush(struct wire *wire);

static void
on_written(uv_write_t *write, int status)
{
    struct wire *wire = write->data;
    struct message *msg = wire->sending;

    wire->writing = false;
    if (wire->state == WIRE_CLOSED) {
        return;
    }
    if (status < 0) {
        lose(wire);
        return;
    }
    flush(wire);
    if (wire->state != WIRE_OPEN || wire->writing || msg == NULL) {
        return;
    }
    if (wire->sent == SIZE_SIZE + msg->len) {
        wire->sending = NULL;
        free(msg);
        msg = channel_on_sent(wire->channel);
        if (msg != NULL) {
            wire_send(wire, msg);
        }
    } else if (write_piece(wire)) {
        flush(wire);
    } else {
        lose(wire);
    }
}

/* Writes to the network what TLS has for it; one write at a time. */
static void
flush(struct wire *wire)
{
    if (wire->state == WIRE_CLOSED || wire->writing) {
        return;
    }
    size_t len = tls_out(wire->tls, wire->out, sizeof wire->out);
    if (len == 0) {
        return;
    }
    const uv_buf_t buf = uv_buf_init(wire->out, (unsigned)len);
    wire->write.data = wire;
    int rc =
        uv_write(&wire->write, (uv_stream_t *)&wire->tcp, &buf, 1, on_written);
    wire->writing = rc == 0;
    if (rc != 0) {
        lose(wire);
    }
}

/* Sends TLS's alert before the connection closes, as far as the socket takes
 * it at once. */
static void
say_why(struct wire *wire)
{
    if (!wire->writing) {
        size_t len = tls_out(wire->tls, wire->out, sizeof wire->out);
        const uv_buf_t buf = uv_buf_init(wire->out, (unsigned)len);
        if (len > 0) {
            (void)uv_try_write((uv_stream_t *)&wire->tcp, &buf, 1);
        }
    }
}

void
wire_send(struct wire *wire, struct message *msg)
{
    CHECK(wire->state == WIRE_OPEN && wire->sending == NULL);
    wire->sending = msg;
    wire->sent = 0;
    if (write_piece(wire)) {
        flush(wire);
    } else {
        lose(wire);
    }
}

/* Receiving */

/* The last byte says that a proof follows, and of what: 2 of numbers and of who
 * the client is (1 was of numbers alone). NNG leaves it at 0. */
static void
put_greeting(const struct wire *wire, bool server, uint8_t out[GREETING_SIZE])
{
    const uint8_t greeting[GREETING_SIZE] = {
        0, 'S', 'P', 0, 0, server ? 0x51 : 0x50, 0, wire->link->secret ? 2 : 0};

    memcpy(out, greeting, sizeof greeting);
}

/* Sends our greeting and, with a secret, our number. */
static bool
greet(struct wire *wire)
{
    uint8_t *number = wire->numbers[wire->server];
    uint8_t greeting[GREETING_SIZE];

    wire->state = WIRE_GREETS;
    put_greeting(wire, wire->server, greeting);
    if (!wire->link->secret) {
        return tls_write(wire->tls, greeting, sizeof greeting);
    }
    return uv_random(NULL, NULL, number, PROOF_SIZE, 0, NULL) == 0 &&
           tls_write(wire->tls, greeting, sizeof greeting) &&
           tls_write(wire->tls, number, PROOF_SIZE);
}

static struct proof_claim
claim(const struct wire *wire, bool server)
{
    return (struct proof_claim){.server = server,
                                .cluster = wire->link->cluster,
                                .client_number = wire->numbers[false],
                                .server_number = wire->numbers[true],
                                .who = wire->who};
}

static bool
prove(struct wire *wire)
{
    const struct proof_claim ours = claim(wire, wire->server);
    uint8_t proof[PROOF_SIZE];

    return proof_make(&wire->link->secrets, &ours, proof) == 0 &&
           tls_write(wire->tls, proof, sizeof proof);
}

/* Says who we are, and proves it. */
static bool
introduce(struct wire *wire)
{
    const struct channel *channel = wire->channel;
    struct frame_hello hello;

    CHECK(!wire->server && channel != NULL);
    peer_put_hello(channel->peer, channel->kind, &hello);
    proof_who(&hello, wire->link->session, wire->who);
    return tls_write(wire->tls, wire->who, WHO_SIZE) && prove(wire);
}

/* The connection is ready for messages. False: it was closed. */
static bool
open_up(struct wire *wire)
{
    wire->state = WIRE_OPEN;
    if (!wire->server) {
        channel_on_attached(wire->channel);
        return true;
    }
    wire->inlet = inlet_opened(wire->link, wire, wire->remote);
    if (wire->inlet == NULL) {
        lose(wire);
        return false;
    }
    memcpy(wire->inlet->who, wire->who, WHO_SIZE);
    return true;
}

/* Handles the other side's greeting. */
static bool
take_greeting(struct wire *wire)
{
    uint8_t greeting[GREETING_SIZE];

    put_greeting(wire, !wire->server, greeting);
    if (memcmp(wire->head, greeting, GREETING_SIZE - 1) != 0) {
        refuse(wire, "not a peer's connection");
        return false;
    }
    if (wire->head[GREETING_SIZE - 1] != greeting[GREETING_SIZE - 1]) {
        refuse(wire, wire->link->secret ? "it has no shared secret"
                                        : "it asks for a shared secret");
        return false;
    }
    wire->state = WIRE_ASKS;
    return wire->link->secret || open_up(wire);
}

/* Handles the other side's number. The client sends its proof first: so
 * somebody who only connects to us gets no proof to test guesses against. */
static bool
take_number(struct wire *wire)
{
    memcpy(wire->numbers[!wire->server], wire->head, PROOF_SIZE);
    wire->state = wire->server ? WIRE_MEETS : WIRE_PROVES;
    if (!wire->server && !introduce(wire)) {
        lose(wire);
        return false;
    }
    return true;
}

static bool
take_who(struct wire *wire)
{
    memcpy(wire->who, wire->head, WHO_SIZE);
    wire->state = WIRE_PROVES;
    return true;
}

static bool
take_proof(struct wire *wire)
{
    const struct proof_claim theirs = claim(wire, !wire->server);

    int rc = proof_check(&wire->link->secrets, &theirs, wire->head);
    if (rc == PROOF_E_WRONG) {
        refuse(wire, "it does not know the shared secret");
        return false;
    }
    if (rc != 0 || (wire->server && !prove(wire))) {
        lose(wire);
        return false;
    }
    return open_up(wire);
}

struct message *
message_new(size_t len)
{
    struct message *msg = malloc(sizeof *msg + len);

    if (msg != NULL) {
        msg->len = len;
        msg->inlet = NULL;
    }
    return msg;
}

/* Handles the size of the next message. */
static bool
begin_message(struct wire *wire)
{
    uint64_t max = wire->heard ? LINK_MESSAGE_MAX : LINK_FIRST_MAX;
    uint64_t size = 0;

    for (size_t i = 0; i < SIZE_SIZE; i++) {
        size = size << 8 | wire->head[i];
    }
    if (!wire->server || size > max) {
        refuse(wire, "a message over the size");
        return false;
    }
    wire->receiving = message_new(size);
    if (wire->receiving == NULL) {
        lose(wire);
        return false;
    }
    return true;
}

static void
end_message(struct wire *wire)
{
    struct message *msg = wire->receiving;

    wire->heard = true;
    wire->receiving = NULL;
    msg->inlet = wire->inlet;
    inlet_put(wire->link, msg);
}

/* Handles what has now been read completely. False: read no more. */
static bool
take(struct wire *wire)
{
    bool whole = wire->receiving != NULL;

    wire->filled = 0;
    switch ((int)wire->state) {
    case WIRE_GREETS:
        return take_greeting(wire);
    case WIRE_ASKS:
        return take_number(wire);
    case WIRE_MEETS:
        return take_who(wire);
    case WIRE_PROVES:
        return take_proof(wire);
    default:
        break;
    }
    if (!whole && !begin_message(wire)) {
        return false;
    }
    if (whole || wire->receiving->len == 0) {
        end_message(wire);
    }
    return true;
}

/* How many bytes come next, while no message does. */
static size_t
head_size(const struct wire *wire)
{
    switch ((int)wire->state) {
    case WIRE_MEETS:
        return WHO_SIZE;
    case WIRE_ASKS:
    case WIRE_PROVES:
        return PROOF_SIZE;
    default:
        return SIZE_SIZE;
    }
}

/* Reads a piece of the plain bytes that came. False: there is no more, or the
 * inbox has no room. */
static bool
read_piece(struct wire *wire)
{
    uint8_t *to = wire->head;
    size_t size = head_size(wire);

    if (wire->state == WIRE_OPEN && !inlet_has_room(wire->link)) {
        return false;
    }
    if (wire->receiving != NULL) {
        to = wire->receiving->bytes;
        size = wire->receiving->len;
    }
    CHECK(wire->filled < size);
    int count = tls_read(wire->tls, to + wire->filled, size - wire->filled);
    if (count < 0 && wire->state == WIRE_GREETS) {
        refuse(wire, tls_why(wire->tls)); /* in TLS 1.3 the rejection
                                              of our certificate comes here */
        return false;
    }
    if (count < 0) {
        lose(wire);
        return false;
    }
    wire->filled += (size_t)count;
    return count > 0 && (wire->filled < size || take(wire));
}

static void
on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *buf)
{
    struct wire *wire = handle->data;

    (void)size;
    *buf = uv_buf_init(wire->link->read_buffer, LINK_READ_MAX);
}

static void
on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf)
{
    struct wire *wire = stream->data;

    if (wire->state == WIRE_CLOSED || count == 0) {
        return;
    }
    if (count < 0 || !tls_feed(wire->tls, buf->base, (size_t)count)) {
        lose(wire); /* not refuse(): closing is no mistake */
        return;
    }
    pump(wire);
}

/* Reads from the socket while the inbox has room, and stops otherwise. */
static void
set_reading(struct wire *wire)
{
    bool read = wire->state != WIRE_OPEN || inlet_has_room(wire->link);
    uv_stream_t *stream = (uv_stream_t *)&wire->tcp;

    if (wire->state == WIRE_CLOSED || read == wire->reading) {
        return;
    }
    wire->reading = read;
    if (!read) {
        (void)uv_read_stop(stream);
    } else if (uv_read_start(stream, on_alloc, on_read) != 0) {
        lose(wire);
    }
}

static void
pump(struct wire *wire)
{
    if (wire->state == WIRE_SHAKES_HANDS) {
        int rc = tls_handshake(wire->tls);
        if (rc < 0) {
            say_why(wire);
            refuse(wire, tls_why(wire->tls));
            return;
        }
        if (rc > 0 && !greet(wire)) {
            lose(wire);
            return;
        }
    }
    while (wire->state >= WIRE_GREETS && wire->state <= WIRE_OPEN &&
           read_piece(wire)) {
    }
    flush(wire);
    set_reading(wire);
}

void
wire_resume(struct wire *wire)
{
    if (wire->state == WIRE_OPEN && !wire->reading) {
        pump(wire);
    }
}

/* Opening */

static struct wire *
make(struct mesh_link *link, bool server)
{
    struct wire *wire = calloc(1, sizeof *wire);

    if (wire == NULL) {
        return NULL;
    }
    wire->tls = tls_new(link->tls_files, server);
    if (wire->tls == NULL || uv_tcp_init(link->loop, &wire->tcp) != 0) {
        tls_free(wire->tls);
        free(wire);
        return NULL;
    }
    wire->link = link;
    wire->server = server;
    wire->tcp.data = wire;
    wire->since_us = link_now_us(link);
    wire->next = link->wires;
    if (link->wires != NULL) {
        link->wires->prev = wire;
    }
    link->wires = wire;
    link->wires_count++;
    return wire;
}

static void
shake_hands(struct wire *wire)
{
    (void)uv_tcp_nodelay(&wire->tcp, 1);
    wire->state = WIRE_SHAKES_HANDS;
    set_reading(wire);
    if (wire->state != WIRE_CLOSED) {
        pump(wire);
    }
}

static void
on_connected(uv_connect_t *connect, int status)
{
    struct wire *wire = connect->data;

    if (wire->state == WIRE_CLOSED) {
        return;
    }
    if (status < 0) {
        lose(wire);
        return;
    }
    shake_hands(wire);
}

struct wire *
wire_dial(struct channel *channel)
{
    const char *address = channel->peer->address;
    struct sockaddr_storage to;
    struct wire *wire = make(channel->link, false);

    if (wire == NULL) {
        return NULL;
    }
    memcpy(wire->remote, address, sizeof wire->remote);
    wire->connect.data = wire;
    link_address_to_sockaddr(address, &to);
    if (uv_tcp_connect(&wire->connect, &wire->tcp, (struct sockaddr *)&to,
                       on_connected) != 0) {
        wire_close(wire);
        return NULL;
    }
    wire->channel = channel;
    return wire;
}

void
wire_accept(struct mesh_link *link, uv_stream_t *listener)
{
    struct sockaddr_storage from = {.ss_family = AF_UNSPEC};
    int size = sizeof from;
    struct wire *wire = make(link, true);

    link->accepts = wire != NULL;
    if (wire == NULL) {
        return; /* libuv holds it and those after it; port_tick() tries again */
    }
    if (uv_accept(listener, (uv_stream_t *)&wire->tcp) != 0) {
        wire_close(wire);
        return;
    }
    (void)uv_tcp_getpeername(&wire->tcp, (struct sockaddr *)&from, &size);
    link_address_of_sockaddr(&from, wire->remote);
    if (!stranger_has_place(wire)) {
        link_count_refused_pipe(link);
        wire_close(wire);
        return;
    }
    shake_hands(wire);
}

void
wire_tick(struct wire *wire, uint64_t now_us)
{
    uint64_t max_us = (uint64_t)wire->link->limits.hello_ms * 1000;

    if (wire->state == WIRE_OPEN) {
        wire_resume(wire);
    } else if (wire->server && wire->state != WIRE_CLOSED &&
               now_us - wire->since_us > max_us) {
        refuse(wire, "no handshake");
    }
}

/* All connections of a link. A closed one leaves the list later. */

void
wires_resume(struct mesh_link *link)
{
    for (struct wire *wire = link->wires; wire != NULL; wire = wire->next) {
        wire_resume(wire);
    }
}

void
wires_tick(struct mesh_link *link, uint64_t now_us)
{
    for (struct wire *wire = link->wires; wire != NULL; wire = wire->next) {
        wire_tick(wire, now_us);
    }
}

void
wires_forgive(struct mesh_link *link, uint64_t gap_us)
{
    for (struct wire *wire = link->wires; wire != NULL; wire = wire->next) {
        wire->since_us = link_forgiven_us(link, wire->since_us, gap_us);
    }
}

void
wires_close(struct mesh_link *link)
{
    for (struct wire *wire = link->wires; wire != NULL; wire = wire->next) {
        wire_close(wire);
    }
}
