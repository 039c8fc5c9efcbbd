/*
 * A small HTTP/1.1 client on a libuv loop, for everything beside the request
 * path: health checks, model lists, metric scrapes, the CLI, load clients.
 *
 * A call has a connection of its own, which it closes unless the request names
 * a place where the connection waits for the next call. A name's addresses are
 * tried in the resolver's order; each gets its share of the time that is left,
 * the last one all of it; where TLS is wanted, its handshake counts as part of
 * that. 1xx answers are skipped. An answer may arrive before
 * the request is fully sent. The process must ignore SIGPIPE.
 *
 * Role: shell. Owns: its connection and buffers. Thread: the loop's. Limits:
 * per call, struct httpc_request; 16 addresses, 16 interim answers, a head of
 * 64 KiB. Errors: outcomes in the answer.
 */
#ifndef NODE_HTTPC_H
#define NODE_HTTPC_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uv.h>

#include "index/base/check.h"
#include "index/base/slice.h"
#include "node/base/sock_tls.h"
#include "node/http/http_head.h"
#include "node/text/ranges.h"

struct httpc;
struct httpc_conn; /* a connection that waits */

enum httpc_outcome {
    HTTPC_OK,        /* an answer, whatever its status */
    HTTPC_RESOLVE,   /* the name has no address, or none that may be used */
    HTTPC_CONNECT,   /* refused or unreachable */
    HTTPC_TLS,       /* TLS failed: see why */
    HTTPC_TIMEOUT,   /* not done within timeout_ms */
    HTTPC_CLOSED,    /* closed before the answer was whole */
    HTTPC_BAD,       /* not HTTP/1.x */
    HTTPC_TOO_LARGE, /* over answer_bytes_max */
};

/* "ok", "resolve", "connect", ...: for logs. Static text. */
const char *httpc_outcome_name(enum httpc_outcome outcome);

struct httpc_answer {
    enum httpc_outcome outcome;
    const struct http_head *head; /* NULL unless a head arrived */
    struct slice body;            /* decoded; whole, or empty when streamed */
    int error; /* -errno of the connection (UV_EAI_* of the resolver), or 0 */
    const char *why; /* HTTPC_TLS: static text, "its certificate ..."; or "" */
};

struct httpc_request {
    const char *host; /* name or address, IPv6 without brackets; copied */
    uint16_t port;
    /* Optional: where to connect, port included; then host and port are only
     * the Host header. Copied. */
    const struct sockaddr *address;
    /* Optional, without an address: where not to connect, though the name leads
     * there. Copied. */
    const struct ranges *deny;
    /* Optional: TLS, with a server whose certificate is for the host. Borrowed
     * for httpc_start(). */
    const struct sock_tls_context *tls;
    /*
     * Optional, with an address: a place for the connection between calls, NULL
     * at first. If the connection there leads elsewhere, or the server closed
     * it before the first byte of an answer, the call opens a new one. The
     * place outlives the call.
     */
    struct httpc_conn **waits;
    const char *method;      /* copied */
    const char *target;      /* copied */
    struct slice headers;    /* further lines, each ending in CRLF; copied */
    struct slice body;       /* copied; sent with a Content-Length unless GET */
    uint32_t timeout_ms;     /* for the whole call; 0: none */
    uint32_t connect_ms;     /* for one address to accept; 0: its share */
    size_t answer_bytes_max; /* of the head, and of the decoded body */

    void *context;
    /* Called once, never from within httpc_start(); the answer and all it
     * points at is gone when it returns. Not called after httpc_cancel(). */
    void (*done)(void *context, const struct httpc_answer *answer);
    /* Optional: decoded pieces of a 2xx body as they arrive, then `done` with
     * an empty body. answer_bytes_max bounds the head only. */
    void (*piece)(void *context, struct slice piece);
};

/* Starts a call. 0 and a handle that is good until `done` returns or
 * httpc_cancel(); or -errno, -EINVAL for a host, method or target that cannot
 * stand in a request. */
int httpc_start(struct httpc **out, uv_loop_t *loop,
                const struct httpc_request *request) MUST_CHECK;

/* Drops the call; no callback follows. Allowed from within `piece`, and
 * without effect from within `done`. The loop must run on until its handles
 * are closed. */
void httpc_cancel(struct httpc *call);

/* Closes a connection that waits; *waits is NULL then. Its memory goes when
 * the loop has run on. */
void httpc_hang_up(struct httpc_conn **waits);

#endif
