/*
 * A small HTTP/1.1 server on one libuv loop: the admin port, the stand-in
 * engine. Not the serving port, whose request path is edge_internal.h.
 *
 * A request is handed over whole (head and body); the handler answers now, or
 * later, at once or in pieces. Keep-alive, pipelining (one request at a time),
 * Expect: 100-continue and back-pressure are the server's.
 *
 * What is not a request is answered by the server itself, as JSON, and the
 * connection closed: 400, 408, 411, 413, 414, 417, 431, 501, 505. A client
 * that ends its side while its request is being answered has gone: there is no
 * telling a half-closed connection from a closed one without sending.
 *
 * Callbacks come from the loop, one at a time, with these exceptions: `gone`
 * comes from within httpd_free(); no callback ever comes from within
 * httpd_answer(), httpd_send(), httpd_end() and their like. No SIGPIPE comes
 * from here, nor from anything else of node/ but httpc.h: ignore it anyway.
 *
 * Role: shell. Owns: listener, connections, their buffers.
 * Thread: the loop's. Limits: struct httpd_limits; a connection over
 * connections_max takes the place of the one that has waited longest without a
 * whole request, and sends nothing at the moment; if none has, it is answered
 * 503 and closed. Pipelined input is read into the spare room of the
 * connection's buffer, then left to the kernel; without descriptors or memory,
 * accepting pauses for a moment.
 * Errors: below zero -errno.
 */
#ifndef NODE_HTTPD_H
#define NODE_HTTPD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uv.h>

#include "index/base/check.h"
#include "index/base/slice.h"
#include "node/base/sock_tls.h"
#include "node/http/http_head.h"

#define HTTPD_PEER_MAX 64 /* an address, a port and a NUL */

struct httpd;
struct httpd_request;

struct httpd_limits {
    uint32_t connections_max;
    size_t head_bytes_max;
    size_t body_bytes_max;     /* 413 above */
    size_t unsent_bytes_max;   /* of one answer; httpd_send() refuses above */
    uint32_t idle_timeout_ms;  /* keep-alive, and each stage of reading: the
                                  head, then every 1024 bytes of the body;
                                  0: for ever */
    uint32_t write_timeout_ms; /* a client that takes nothing; 0: for ever */
};

/* What happened since httpd_new(); only the last two ever fall. */
struct httpd_stats {
    uint64_t accepted;
    uint64_t refused;        /* over connections_max */
    uint64_t made_room;      /* closed for one over connections_max */
    uint64_t accept_pauses;  /* out of descriptors or memory */
    uint64_t requests;       /* handed to the handler */
    uint64_t bad_requests;   /* answered 4xx or 5xx by the server itself */
    uint64_t idle_timeouts;  /* closed between requests */
    uint64_t read_timeouts;  /* answered 408 */
    uint64_t write_timeouts; /* aborted: the client took nothing */
    uint64_t gone;           /* clients that left before the answer ended */
    uint64_t sends_refused;  /* httpd_send() over unsent_bytes_max */
    uint32_t connections;
    uint32_t requests_open; /* with the handler */
};

struct httpd_handler {
    void *context;
    /* One whole request. `request` stays valid until httpd_end() or until
     * `gone` was called for it. Must lead to an answer some day. */
    void (*request)(void *context, struct httpd_request *request);
    /* The client went away before the answer ended; `request` is freed after
     * this returns. May be NULL. */
    void (*gone)(void *context, struct httpd_request *request);
    /* Everything sent so far was taken by the kernel, after a time when it was
     * not. NULL: not interested. */
    void (*drained)(void *context, struct httpd_request *request);
    /* Whether a body that has not come whole with its head is to be read. If
     * not, the request is handed over without one, and the connection closes
     * after the answer. May be NULL: each is. */
    bool (*wants_body)(void *context, const struct http_head *head);
};

/* Listens on address (port 0: a free one). 0, or -errno and *out is NULL. */
int httpd_new(struct httpd **out, uv_loop_t *loop,
              const struct sockaddr *address, const struct httpd_limits *limits,
              const struct httpd_handler *handler) MUST_CHECK;

/* New connections speak TLS, by what is copied from here. 0, or -ENOMEM and all
 * is as before. */
int httpd_use_tls(struct httpd *httpd, const struct sock_tls_context *tls)
    MUST_CHECK;

/* The port that it listens on. */
uint16_t httpd_port(const struct httpd *httpd);

/* Good as long as *httpd. */
const struct httpd_stats *httpd_stats(const struct httpd *httpd);

/* Stops accepting and closes idle connections; open requests continue, and
 * their connections close after them. Done when stats->connections is 0. */
void httpd_stop(struct httpd *httpd);

/* Closes everything (calling `gone` for open requests, and no callback after
 * it returned), and frees *httpd from the loop once its handles are closed.
 * NULL is fine. */
void httpd_free(struct httpd *httpd);

/* The request's head and body; valid as long as the request. */
const struct http_head *httpd_head(const struct httpd_request *request);
struct slice httpd_body(const struct httpd_request *request);

/* Writes where the request comes from, IP:PORT, into out; returns out. "" when
 * the connection has broken. */
const char *httpd_peer(const struct httpd_request *request,
                       char out[HTTPD_PEER_MAX]);

/* A place for the handler's own pointer; NULL at first. */
void **httpd_user(struct httpd_request *request);

/* One whole answer; the bytes are copied, the request is done. extra: further
 * header lines, each ending in CRLF, or empty. */
void httpd_answer(struct httpd_request *request, unsigned status,
                  const char *content_type, struct slice extra,
                  struct slice body);

/* An OpenAI-shaped JSON error: {"error":{"message","type","code"}}, the type
 * taken from the status. message: any text, see http_error_body(). */
void httpd_error(struct httpd_request *request, unsigned status,
                 const char *code, const char *message);

/* An answer in pieces: head now (chunked), then httpd_send(), then
 * httpd_end(). */
void httpd_begin(struct httpd_request *request, unsigned status,
                 const char *content_type, struct slice extra);

/* Copies a piece out. 0, or -ENOBUFS when unsent_bytes_max is reached (wait
 * for `drained`; the piece was not taken). When nothing is unsent a piece is
 * taken whatever its size. Does nothing when the connection is closed. */
int httpd_send(struct httpd_request *request, struct slice piece) MUST_CHECK;

/* The answer is complete; `request` is no longer valid. */
void httpd_end(struct httpd_request *request);

/* Aborts the connection in the middle of the answer (faults, tests). */
void httpd_abort(struct httpd_request *request);

#endif
