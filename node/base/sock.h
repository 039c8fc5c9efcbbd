/*
 * One non-blocking TCP socket on a libuv loop: readiness from libuv, bytes by
 * recv and sendmsg.
 *
 * It uses readiness (uv_poll) instead of libuv's streams, because the request
 * path chooses its buffer when it reads, learns at once how much of a gathered
 * write the kernel took, and allocates no write requests. In libuv 1.44 a
 * change of the awaited events costs two system calls, so the request path
 * always waits for reading, and for writing only while the kernel's buffer is
 * full.
 *
 * With sock_secure() the bytes are those of TLS, and the same calls send and
 * receive plain ones.
 *
 * Role: shell. Owns: the descriptor from sock_open() to sock_close(). Thread:
 * the loop's. Errors: below zero -errno.
 */
#ifndef NODE_SOCK_H
#define NODE_SOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <uv.h>

#include "index/base/check.h"
#include "node/base/sock_tls.h"

#define SOCK_PARTS_MAX 30U /* sent at one go */
#define SOCK_SILENT_S  30  /* of a peer's machine; then it is gone */

enum {
    SOCK_READ = UV_READABLE,
    SOCK_WRITE = UV_WRITABLE,
    SOCK_GONE = UV_DISCONNECT, /* the peer closed, while not reading */
};

struct sock {
    uv_poll_t poll;
    int fd;               /* -1 when closed */
    int wanted;           /* events that the loop waits for */
    struct sock_tls *tls; /* NULL: bytes go as they are */
    /* events: SOCK_*; after a connection error SOCK_READ and SOCK_WRITE. */
    void (*ready)(struct sock *sock, int events);
    void (*closed)(struct sock *sock);
};

/* Adopts fd (closed on failure too). Waits for nothing yet. 0 or -errno. */
int sock_open(struct sock *sock, uv_loop_t *loop, int fd,
              void (*ready)(struct sock *sock, int events)) MUST_CHECK;

/* The server's side of TLS from its first byte on: the handshake is part of the
 * first sock_recv() calls. Before any other call. 0 or -ENOMEM. */
int sock_secure(struct sock *sock, const struct sock_tls_context *context)
    MUST_CHECK;

/* The same, of a port that speaks HTTP/2 alone. */
int sock_secure_h2(struct sock *sock, const struct sock_tls_context *context)
    MUST_CHECK;

/* The client's side, to a server that must be this host; kept: its last session,
 * until the sock is closed, or NULL. sock_shake() comes before all else. 0 or
 * -ENOMEM. */
int sock_secure_to(struct sock *sock, const struct sock_tls_context *context,
                   const char *host, struct sock_tls_kept *kept) MUST_CHECK;

/* Goes on with the handshake. 0: done; -EAGAIN: it waits for the event that it
 * needs, and is to be called again then; -EPROTO: sock_why() says why; or
 * another -errno. */
int sock_shake(struct sock *sock) MUST_CHECK;

/* Why TLS failed: static text; "" if it did not. */
const char *sock_why(const struct sock *sock);

/* Waits for these events from now on; no call when nothing changes. */
void sock_want(struct sock *sock, int events);

/* Asks a peer that says nothing whether its machine is there. One whose machine is
 * silent for SOCK_SILENT_S, or takes nothing of what waits for it, is told as an
 * error. sock_connect_begin() does it, too. */
void sock_keep_alive(struct sock *sock);

/* Sends nothing more, and tells the peer so; it can still be read. */
void sock_end(struct sock *sock);

/*
 * Closes the descriptor now; closed(sock) is called from the loop when the
 * memory may be reused. With reset, the peer sees a reset instead of an
 * orderly end. Calling it twice is an error.
 */
void sock_close(struct sock *sock, bool reset,
                void (*closed)(struct sock *sock));

/* Bytes read, SOCK_TURN_BYTES at most, 0 at the end of the stream, or -errno
 * (-EAGAIN: none now; -EPROTO: it is no TLS, or not ours). */
ssize_t sock_recv(struct sock *sock, void *at, size_t size);

/* Whether nothing has come: no bytes, no end, no error. Reads nothing. */
bool sock_is_quiet(const struct sock *sock);

/* Whether the peer's host has taken more of what was sent than the first `bytes`
 * of it; true where that is not known. For a connection that was opened here,
 * dead ones included. */
bool sock_got_past(const struct sock *sock, uint64_t bytes);

/* Whether the peer's host has not taken all of what was sent; false where that
 * is not known. */
bool sock_holds(const struct sock *sock);

/* At most SOCK_PARTS_MAX parts. Bytes that the kernel took, of SOCK_TURN_BYTES at
 * most (0: full), or -errno. */
ssize_t sock_send(struct sock *sock, const struct iovec *parts, unsigned count);

/* A non-blocking stream socket that has begun to connect; its descriptor, or
 * -errno. */
int sock_connect_begin(const struct sockaddr *address, socklen_t len);

/* 0 once connected, -errno of the failed attempt. */
int sock_connect_result(const struct sock *sock);

/*
 * A listening socket that shares its port with the other lanes
 * (SO_REUSEPORT); its descriptor, or -errno. *port: the port it got.
 */
int sock_listen(const struct sockaddr *address, socklen_t len, int backlog,
                uint16_t *port);

/*
 * Checks whether a process listens there already: lanes share their port, and
 * two processes that shared it by accident would split the traffic. 0 when it
 * is free, -EADDRINUSE or another -errno.
 */
int sock_probe_free(const struct sockaddr *address, socklen_t len);

/* Raises how many descriptors the process may have towards wanted, beyond the
 * hard limit if the system lets us (root); how many that are now. */
uint64_t sock_raise_limit(uint64_t wanted);

/* The next accepted connection's descriptor, or -errno (-EAGAIN: none). *peer:
 * its other end; may be NULL. */
int sock_accept(struct sock *listener, struct sockaddr_storage *peer);

#endif
