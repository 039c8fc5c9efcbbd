/*
 * The NATS client protocol, as much of it as reading events takes: what a server
 * says, one operation at a time, and what a client says first. The source is
 * NATS' documentation of its client protocol and of JetStream's wire API.
 *
 * A batch of events is one message: its payload is that of the engine's message
 * by ZeroMQ, unchanged, and its header `Nats-Msg-Id` is LIFE-SEQ. LIFE is a name
 * of the publisher's choice for one life of the engine's numbers, SEQ the number
 * of the batch in it. JetStream drops a second message with the same header, so
 * a publisher may repeat what it is not sure of, and lives of subjects that share
 * a stream must differ.
 *
 * Role: core. Owns: nothing; slices point into the caller's bytes. Thread: any.
 * Limits: NATS_LINE_MAX; the caller's for payloads. Errors: NATS_BAD.
 */
#ifndef NODE_NATS_WIRE_INTERNAL_H
#define NODE_NATS_WIRE_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/buf.h"
#include "index/base/check.h"
#include "index/base/slice.h"

#define NATS_LINE_MAX ((size_t)64 << 10) /* of INFO in a large cluster */
#define NATS_LIFE_MAX 65                 /* with its NUL */

enum nats_op {
    NATS_PART, /* not whole yet */
    NATS_BAD,  /* not the protocol, or longer than allowed */
    NATS_INFO,
    NATS_MSG,
    NATS_PING,
    NATS_PONG,
    NATS_OK,
    NATS_ERR,
};

struct nats_said {
    enum nats_op op;
    size_t used;          /* bytes of it; 0 with PART and BAD */
    size_t skip;          /* of MSG: it is too long, has no headers and no
                             payload here, and so many bytes follow; else 0 */
    struct slice text;    /* of INFO its JSON, of ERR why */
    uint64_t sid;         /* of MSG: the number of the subscription */
    struct slice reply;   /* of MSG; "": none */
    struct slice headers; /* of MSG, with their first line; "": none */
    struct slice payload; /* of MSG */
};

/* What a message of JetStream's says of its place, in its reply subject. */
struct nats_place {
    uint64_t at;   /* its number in the stream */
    uint64_t left; /* messages that its consumer has after it */
};

/* Reads the operation at the start of bytes. A message of more than message_max
 * bytes is to be skipped. */
void nats_wire_read(struct slice bytes, size_t message_max,
                    struct nats_said *said);

/* Which batch it is: *life points into headers. False: no header says it. */
bool nats_wire_batch(struct slice headers, struct slice *life, uint64_t *seq)
    MUST_CHECK;

/* The number in the headers' first line, as 404 for `NATS/1.0 404 No Messages`;
 * 0: it is a message proper. */
uint32_t nats_wire_status(struct slice headers);

/* False: it is none of JetStream's. */
bool nats_wire_place(struct slice reply, struct nats_place *place) MUST_CHECK;

/* Whether the server wants TLS; info: of INFO. */
bool nats_wire_wants_tls(struct slice info);

/* What the server wants to have signed by who has a key; info: of INFO. "": it
 * says nothing of it. */
struct slice nats_wire_nonce(struct slice info);

/* Who connects. */
struct nats_login {
    const char *text; /* USER:PASSWORD, a token, or "" */
    const char *jwt;  /* in its place, or "": a user's ... */
    const char *sig;  /* ... and the nonce, signed by that user's key */
};

/* CONNECT. */
void nats_wire_connect(struct buf *out, const struct nats_login *login);

/* PUB of a question whose answer goes to reply. */
void nats_wire_ask(struct buf *out, struct slice subject, const char *reply,
                   struct slice payload);

#endif
