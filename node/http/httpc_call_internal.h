/*
 * What the files of the client share: one call, from its start to its end.
 *
 *   httpc.c          start, cancel, the end of a call
 *   httpc_connect.c  name -> addresses -> connection, in order, within the time
 *   httpc_answer.c   bytes of the answer -> head, body
 *   httpc_conn.c     connections that wait for the next call
 *
 * A call ends once, in httpc_finish(); then its handles are closed and the last
 * one to go frees it. Every callback therefore looks at `over` first.
 *
 * Role: shell, private to the client. Thread: the loop's.
 */
#ifndef NODE_HTTPC_CALL_INTERNAL_H
#define NODE_HTTPC_CALL_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "index/base/buf.h"
#include "node/base/sock.h"
#include "node/http/http_chunk.h"
#include "node/http/http_head.h"
#include "node/http/httpc.h"

#define HTTPC_READ_BYTES     16384
#define HTTPC_HEAD_BYTES_MAX 65536
#define HTTPC_ADDRESSES_MAX  16

/* In use, waiting, or closing. */
struct httpc_conn {
    struct sock sock;          /* first */
    bool secure;               /* TLS */
    struct httpc *call;        /* the call that uses it, or NULL */
    struct httpc_conn **waits; /* where it waits */
    struct sockaddr_storage peer;
    char raw[HTTPC_READ_BYTES];
};

struct httpc {
    uv_loop_t *loop;
    uint16_t port;
    size_t answer_bytes_max;
    enum http_method method; /* HTTP_HEAD or anything else */
    void *context;
    void (*done)(void *context, const struct httpc_answer *answer);
    void (*piece)(void *context, struct slice piece);

    bool over;      /* finished or cancelled: no callback follows */
    unsigned holds; /* handles and requests that libuv still has */

    struct ranges deny;
    struct sockaddr_storage addresses[HTTPC_ADDRESSES_MAX];
    unsigned addresses_count;
    unsigned addresses_tried;
    int error; /* of the last attempt */
    bool resolving;
    struct httpc_conn *conn;      /* owned; NULL: it was left to wait */
    struct httpc_conn **waits;    /* where it may; NULL: nowhere */
    struct sock_tls_context *tls; /* owned; NULL: in clear */
    char *host;                   /* the same: whom its certificate names */
    const char *why;              /* of HTTPC_TLS; static text */
    bool has_sock;                /* conn is open and not yet closing */
    bool reused;     /* it waited before, and nothing came over it since */
    bool writing;    /* the request is not sent whole */
    bool extra;      /* there was more than the answer */
    bool connecting; /* ... and not connected, or in its handshake */
    bool stuck;      /* it could not even begin to connect: the timer goes on */
    uint64_t end_ms; /* loop time; UINT64_MAX: never */
    uint32_t connect_ms;
    uv_getaddrinfo_t resolve;
    uv_timer_t timer;

    struct buf out; /* the whole request */
    size_t out_at;  /* how much of it was sent */
    struct buf in;  /* up to the end of the head; then it stays put */
    struct buf body;
    bool has_head;
    unsigned interim; /* 1xx answers so far */
    struct http_head head;
    struct http_chunk chunk;
    uint64_t left; /* of a body with a length; bytes */
};

/* httpc.c */

/* Ends the call: `done` is called, unless it was cancelled. */
void httpc_finish(struct httpc *call, enum httpc_outcome outcome);

/* One of the `holds` is gone; may free the call. */
void httpc_drop(struct httpc *call);

/* httpc_connect.c */

/* Resolves host and continues from there. 0, or -errno. */
int httpc_connect_start(struct httpc *call, const char *host) MUST_CHECK;

/* Goes to that address without resolving anything. */
void httpc_connect_to(struct httpc *call, const struct sockaddr *address);

/* Closes the connection, or gives up resolving. */
void httpc_connect_stop(struct httpc *call);

/* Closes the connection and connects to the next address; after a kept
 * connection, that is the first address. */
void httpc_connect_again(struct httpc *call);

/* httpc_answer.c */

/* Sends the request and reads the answer on an open connection. A kept
 * connection is still read, in order to see its end. */
void httpc_answer_start(struct httpc *call);

/* Events at a connection that is made: of a call, or of one that waits. */
void httpc_answer_ready(struct httpc_conn *conn, int events);

/* httpc_conn.c */

/* A connection that is not open yet, or NULL. */
struct httpc_conn *httpc_conn_new(struct httpc *call);

/* Takes the waiting one over if it leads there, and closes it otherwise. */
bool httpc_conn_take(struct httpc *call, const struct sockaddr *address);

/* Leaves the connection to wait, if it can be used again. */
void httpc_conn_leave(struct httpc *call);

#endif
