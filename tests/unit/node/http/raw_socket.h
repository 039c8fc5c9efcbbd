/*
 * A raw socket on the test's own libuv loop: sends any bytes, keeps all that
 * comes back, reads whole answers out of it, or does not read at all.
 *
 * WAIT(loop, condition) runs the loop until the condition holds; a loop with
 * nothing left to do fails the test, one that hangs meets the suite's timeout.
 */
#ifndef TESTS_UNIT_NODE_RAW_SOCKET_H
#define TESTS_UNIT_NODE_RAW_SOCKET_H

#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "index/base/buf.h"
#include "node/http/http_chunk.h"
#include "node/http/http_head.h"

#define WAIT(loop, condition)                                          \
    do {                                                               \
        while (!(condition)) {                                         \
            int more = uv_run((loop), UV_RUN_ONCE);                    \
            cr_assert(more != 0 || (condition),                        \
                      "nothing left to wait for: %s (%d)", #condition, \
                      __LINE__);                                       \
        }                                                              \
    } while (0)

struct raw_socket {
    uv_loop_t *loop;
    uv_poll_t poll;
    int fd;
    struct buf got; /* not yet taken by raw_socket_reply() */
    bool over;      /* the other side ended or reset the connection */
    bool reset;
    bool writable;
    bool closed;
};

struct raw_socket_reply {
    unsigned status;
    bool keep_alive;
    enum http_body framing;
    struct http_head head; /* its slices are gone */
    char body[4096];
    size_t size;     /* of the body, which may be longer than what is kept */
    uint64_t digest; /* of all of it; see raw_socket_digest() */
};

static inline struct sockaddr_in
raw_socket_loopback(uint16_t port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons(port),
                                .sin_addr = {htonl(INADDR_LOOPBACK)}};
}

static inline void
raw_socket_on_poll(uv_poll_t *poll, int status, int events)
{
    struct raw_socket *wire = poll->data;

    wire->writable = (events & UV_WRITABLE) != 0;
    if ((events & UV_READABLE) == 0 && status == 0) {
        return;
    }
    char *room = buf_reserve(&wire->got, 65536);
    cr_assert_not_null(room);
    ssize_t n = recv(wire->fd, room, 65536, MSG_DONTWAIT);
    if (n > 0) {
        wire->got.len += (size_t)n;
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        wire->over = true;
        wire->reset = n != 0;
        (void)uv_poll_stop(poll);
    }
}

/* Starts (or goes on) reading. */
static inline void
raw_socket_listen(struct raw_socket *wire)
{
    cr_assert_eq(uv_poll_start(&wire->poll, UV_READABLE, raw_socket_on_poll),
                 0);
}

/* Takes over a connected socket, reading. */
static inline void
raw_socket_adopt(struct raw_socket *wire, uv_loop_t *loop, int fd)
{
    *wire = (struct raw_socket){.loop = loop, .fd = fd};
    buf_init(&wire->got, (size_t)64 << 20);
    cr_assert_eq(uv_poll_init(loop, &wire->poll, fd), 0);
    wire->poll.data = wire;
    raw_socket_listen(wire);
}

static inline void
raw_socket_open(struct raw_socket *wire, uv_loop_t *loop, uint16_t port)
{
    struct sockaddr_in to = raw_socket_loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    cr_assert_geq(fd, 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    raw_socket_adopt(wire, loop, fd);
}

static inline void
raw_socket_on_closed(uv_handle_t *handle)
{
    struct raw_socket *wire = handle->data;
    wire->closed = true;
}

static inline void
raw_socket_close(struct raw_socket *wire)
{
    uv_close((uv_handle_t *)&wire->poll, raw_socket_on_closed);
    (void)close(wire->fd);
    WAIT(wire->loop, wire->closed);
    buf_fini(&wire->got);
}

/* Sends everything, running the loop while the other side's buffers are full.
 * Stops quietly when the connection is over. */
static inline void
raw_socket_put(struct raw_socket *wire, const char *bytes, size_t len)
{
    while (len != 0 && !wire->over) {
        ssize_t n = send(wire->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n > 0) {
            bytes += n;
            len -= (size_t)n;
        } else if (errno == EAGAIN) {
            wire->writable = false;
            cr_assert_eq(uv_poll_start(&wire->poll, UV_READABLE | UV_WRITABLE,
                                       raw_socket_on_poll),
                         0);
            WAIT(wire->loop, wire->writable || wire->over);
            if (!wire->over) {
                raw_socket_listen(wire);
            }
        } else {
            return;
        }
    }
}

static inline void
raw_socket_text(struct raw_socket *wire, const char *text)
{
    raw_socket_put(wire, text, strlen(text));
}

/* A digest of bytes and their order, one byte further. */
static inline uint64_t
raw_socket_digest(uint64_t digest, char byte)
{
    return digest * UINT64_C(1099511628211) + (unsigned char)byte;
}

static inline void
raw_socket_keep(struct raw_socket_reply *reply, struct slice piece)
{
    for (size_t i = 0; i < piece.len; i++, reply->size++) {
        if (reply->size < sizeof(reply->body) - 1) {
            reply->body[reply->size] = piece.ptr[i];
        }
        reply->digest = raw_socket_digest(reply->digest, piece.ptr[i]);
    }
}

/* The body behind the head in wire->got; true when it is whole, and *used says
 * how much of the input it was. */
static inline bool
raw_socket_body(struct raw_socket *wire, struct raw_socket_reply *reply,
                size_t *used)
{
    struct slice in = {.ptr = wire->got.ptr + reply->head.size_bytes,
                       .len = wire->got.len - reply->head.size_bytes};
    struct http_chunk chunk = {.state = 0};
    struct slice data = {.ptr = NULL};
    int outcome = HTTP_CHUNK_E_DATA;

    switch (reply->head.body) {
    case HTTP_BODY_NONE:
        *used = reply->head.size_bytes;
        return true;
    case HTTP_BODY_LENGTH:
        if (in.len < reply->head.content_length) {
            return false;
        }
        in.len = (size_t)reply->head.content_length;
        raw_socket_keep(reply, in);
        *used = reply->head.size_bytes + in.len;
        return true;
    case HTTP_BODY_CHUNKED:
        while ((outcome = http_chunk_next(&chunk, &in, &data)) ==
               HTTP_CHUNK_E_DATA) {
            raw_socket_keep(reply, data);
        }
        cr_assert_neq(outcome, HTTP_CHUNK_E_BAD);
        *used = wire->got.len - in.len;
        return outcome == 0;
    case HTTP_BODY_CLOSE:
        raw_socket_keep(reply, in);
        *used = wire->got.len;
        return wire->over;
    }
    return false;
}

/* True when a whole answer to that method is there; it is taken then. */
static inline bool
raw_socket_take(struct raw_socket *wire, enum http_method method,
                struct raw_socket_reply *reply)
{
    struct http_limits limits = {65536, 65536, HTTP_HEADERS_MAX};
    size_t used = 0;

    if (wire->got.len == 0) {
        return false;
    }
    memset(reply->body, 0, sizeof(reply->body));
    reply->size = 0;
    reply->digest = 0;
    int outcome = http_head_parse_response(wire->got.ptr, wire->got.len,
                                           &limits, method, &reply->head);
    cr_assert_neq(outcome, HTTP_E_BAD, "%s", reply->head.fault);
    cr_assert_neq(outcome, HTTP_E_LIMIT);
    if (outcome != 0 || !raw_socket_body(wire, reply, &used)) {
        return false;
    }
    reply->status = reply->head.status;
    reply->keep_alive = reply->head.keep_alive;
    reply->framing = reply->head.body;
    buf_drop(&wire->got, used);
    return true;
}

/* Waits for the next whole answer. */
static inline void
raw_socket_reply(struct raw_socket *wire, struct raw_socket_reply *reply)
{
    WAIT(wire->loop, raw_socket_take(wire, HTTP_GET, reply));
}

/* Waits for the other side to end the connection in good order, with nothing
 * said beyond what was taken. */
static inline void
raw_socket_expect_end(struct raw_socket *wire)
{
    WAIT(wire->loop, wire->over);
    cr_assert(!wire->reset);
    cr_assert_eq(wire->got.len, 0, "%.*s", (int)wire->got.len, wire->got.ptr);
}

#endif
