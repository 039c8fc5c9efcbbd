/*
 * The server's side of one HTTP/2 connection that carries gRPC, without a
 * socket: bytes that came go in, bytes to be sent come out. libnghttp2 does the
 * framing, header compression and flow control; what a call is, and that its
 * bytes are bounded, is said here.
 *
 * A call's bytes are owed to the peer until h2_taken(): it sends at most
 * H2_WINDOW_BYTES beyond them. What a call has to send waits until the peer
 * takes it; h2_unsent() says how much, and its owner stops in time.
 *
 * Role: core, but that libnghttp2 allocates. Owns: the session, its calls.
 * Thread: one. Limits: H2_CALLS_MAX calls, H2_WINDOW_BYTES for each, the
 * library's own on heads and on frames that want an answer. Errors: below zero
 * the connection is to be closed. Source: RFC 9113; gRPC's PROTOCOL-HTTP2.md.
 */
#ifndef NODE_H2_H
#define NODE_H2_H

#include <stdbool.h>
#include <stddef.h>

#include "index/base/buf.h"
#include "index/base/check.h"
#include "index/base/slice.h"
#include "node/extproc/grpc.h"

#define H2_CALLS_MAX    1000U
#define H2_WINDOW_BYTES (256U << 10)

struct h2;
struct h2_call;

/* What happens; told from within h2_give(), `gone` also from h2_next_out() and
 * h2_free(). None may call these. */
struct h2_events {
    /* A call of this path begins. GRPC_OK and *context, what is handed to the
     * others; or it ends with that status, and nothing follows. */
    enum grpc_status (*begun)(void *owner, struct h2_call *call,
                              struct slice path, void **context);
    void (*came)(void *context, struct slice bytes);
    /* The peer sends no more. */
    void (*ended)(void *context);
    /* The call is over, by either side, and is not valid any more. */
    void (*gone)(void *context);
};

/* events and owner outlive it. 0 and *out, or -ENOMEM. */
int h2_new(struct h2 **out, const struct h2_events *events, void *owner)
    MUST_CHECK;

/* Its calls are gone. */
void h2_free(struct h2 *h2);

/* Bytes of the peer. 0, or -EPROTO: it speaks no HTTP/2, or -ENOMEM. */
int h2_give(struct h2 *h2, struct slice bytes) MUST_CHECK;

/* The next bytes to be sent, all of them before the next call of this; borrowed
 * until then. 0 with an empty slice: none now; or as h2_give(). */
int h2_next_out(struct h2 *h2, struct slice *bytes) MUST_CHECK;

/* Whether it is not a connection yet, but waits for the peer's first bytes. */
bool h2_is_new(const struct h2 *h2);

/* Calls that are not over. */
unsigned h2_calls(const struct h2 *h2);

/* The peer is asked to take another connection for what follows; final: what it
 * has not begun by now is not served here. Repeating it is harmless. */
void h2_leave(struct h2 *h2, bool final);

/* The connection has no more to do. */
bool h2_is_over(const struct h2 *h2);

/* So many bytes of what came are used. */
void h2_taken(struct h2_call *call, size_t bytes);

/* Where what is to be sent is appended; h2_end() follows. Not after
 * h2_finish(). */
struct buf *h2_begin(struct h2_call *call);

/* It is sent as the peer takes it. Without memory the call is reset. */
void h2_end(struct h2_call *call);

/* How many have not gone out by h2_next_out(). */
size_t h2_unsent(const struct h2_call *call);

/* Ends it, behind what was sent; `gone` follows when that is out. Repeating it is
 * harmless. */
void h2_finish(struct h2_call *call, enum grpc_status status);

#endif
