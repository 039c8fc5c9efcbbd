/* The client: sends the request and reads the answer. */
#include <errno.h>

#include "node/http/httpc_call_internal.h"

#define INTERIM_MAX 16

static bool
is_streamed(const struct httpc *call)
{
    return call->piece != NULL && call->head.status / 100 == 2;
}

/* Hands on a piece of the decoded body. The call may be over afterwards. */
static void
give(struct httpc *call, struct slice piece)
{
    if (piece.len == 0) {
        return;
    }
    if (is_streamed(call)) {
        call->piece(call->context, piece);
        return;
    }
    CHECK(!call->over && call->body.len <= call->answer_bytes_max);
    if (piece.len > call->answer_bytes_max - call->body.len) {
        httpc_finish(call, HTTPC_TOO_LARGE);
        return;
    }
    buf_add_slice(&call->body, piece);
    if (call->body.failed) {
        call->error = -ENOMEM;
        httpc_finish(call, HTTPC_CLOSED);
    }
}

static void
feed_length(struct httpc *call, struct slice bytes)
{
    CHECK(!call->over && call->has_head);
    if (bytes.len > call->left) {
        bytes.len = (size_t)call->left;
        call->extra = true;
    }
    call->left -= bytes.len;
    give(call, bytes);
    if (!call->over && call->left == 0) {
        httpc_finish(call, HTTPC_OK);
    }
}

static void
feed_chunks(struct httpc *call, struct slice bytes)
{
    while (!call->over) {
        struct slice data = {.ptr = NULL};
        switch (http_chunk_next(&call->chunk, &bytes, &data)) {
        case 0:
            call->extra = bytes.len != 0;
            httpc_finish(call, HTTPC_OK);
            return;
        case HTTP_CHUNK_E_DATA:
            give(call, data);
            break;
        case HTTP_CHUNK_E_MORE:
            return;
        default:
            httpc_finish(call, HTTPC_BAD);
            return;
        }
    }
}

static void
feed(struct httpc *call, struct slice bytes)
{
    switch (call->head.body) {
    case HTTP_BODY_NONE:
        call->extra = bytes.len != 0;
        httpc_finish(call, HTTPC_OK);
        return;
    case HTTP_BODY_LENGTH:
        feed_length(call, bytes);
        return;
    case HTTP_BODY_CHUNKED:
        feed_chunks(call, bytes);
        return;
    case HTTP_BODY_CLOSE:
        give(call, bytes);
        return;
    }
}

/* Skips interim answers. True when call->head is the final one; the call may
 * be over when not. */
static bool
find_head(struct httpc *call)
{
    struct http_limits limits = {.head_bytes_max = HTTPC_HEAD_BYTES_MAX,
                                 .headers_max = HTTP_HEADERS_MAX};

    if (call->answer_bytes_max < limits.head_bytes_max) {
        limits.head_bytes_max = call->answer_bytes_max;
    }
    for (;;) {
        int outcome = http_head_parse_response(
            call->in.ptr, call->in.len, &limits, call->method, &call->head);
        if (outcome == HTTP_E_MORE) {
            return false;
        }
        if (outcome != 0) {
            httpc_finish(call,
                         outcome == HTTP_E_LIMIT ? HTTPC_TOO_LARGE : HTTPC_BAD);
            return false;
        }
        if (call->head.status >= 200) {
            return true;
        }
        /* 101 would be an upgrade that was never asked for. */
        call->interim++;
        if (call->head.status == 101 || call->interim > INTERIM_MAX) {
            httpc_finish(call, HTTPC_BAD);
            return false;
        }
        buf_drop(&call->in, call->head.size_bytes);
    }
}

static void
take_head(struct httpc *call, struct slice bytes)
{
    CHECK(!call->over && !call->has_head);
    buf_add_slice(&call->in, bytes);
    if (call->in.failed) {
        call->error = -ENOMEM;
        httpc_finish(call, HTTPC_CLOSED);
        return;
    }
    if (!find_head(call)) {
        return;
    }
    call->has_head = true;
    call->left = call->head.content_length;
    if (call->head.body == HTTP_BODY_LENGTH && !is_streamed(call) &&
        call->left > call->answer_bytes_max) {
        httpc_finish(call, HTTPC_TOO_LARGE);
        return;
    }
    size_t used = call->head.size_bytes;
    feed(call, (struct slice){.ptr = call->in.ptr + used,
                              .len = call->in.len - used});
}

/* The connection ends (0), or breaks (-errno). */
static void
take_end(struct httpc *call, int error)
{
    bool whole =
        error == 0 && call->has_head && call->head.body == HTTP_BODY_CLOSE;

    if (call->reused) {
        httpc_connect_again(call);
        return;
    }
    call->error = error;
    call->why = sock_why(&call->conn->sock);
    httpc_finish(call, whole                  ? HTTPC_OK
                       : call->why[0] != '\0' ? HTTPC_TLS
                                              : HTTPC_CLOSED);
}

static void
read_some(struct httpc_conn *conn)
{
    struct httpc *call = conn->call;
    ssize_t got = sock_recv(&conn->sock, conn->raw, sizeof(conn->raw));

    if (got == -EAGAIN) {
        return;
    }
    if (call == NULL) { /* closed by the server, or it speaks unasked */
        httpc_hang_up(conn->waits);
        return;
    }
    if (got <= 0) {
        take_end(call, (int)got);
        return;
    }
    struct slice bytes = {.ptr = conn->raw, .len = (size_t)got};
    call->reused = false;
    if (call->has_head) {
        feed(call, bytes);
    } else {
        take_head(call, bytes);
    }
}

/* 0 or -errno. */
static int
send_request(struct httpc *call)
{
    struct sock *sock = &call->conn->sock;
    struct iovec rest = {.iov_base = call->out.ptr + call->out_at,
                         .iov_len = call->out.len - call->out_at};
    ssize_t sent = sock_send(sock, &rest, 1);

    if (sent < 0) {
        return (int)sent;
    }
    call->out_at += (size_t)sent;
    call->writing = call->out_at < call->out.len;
    sock_want(sock, call->writing ? SOCK_READ | SOCK_WRITE : SOCK_READ);
    return 0;
}

/* A failed write ends nothing: the answer may have come before it, and when it
 * has not, reading will say so. */
void
httpc_answer_ready(struct httpc_conn *conn, int events)
{
    struct httpc *call = conn->call;

    if (call != NULL && call->over) {
        return;
    }
    if ((events & SOCK_WRITE) != 0 && call != NULL && call->writing &&
        send_request(call) < 0) {
        sock_want(&conn->sock, SOCK_READ);
    }
    if ((events & SOCK_READ) != 0) {
        read_some(conn);
    }
}

void
httpc_answer_start(struct httpc *call)
{
    CHECK(call->has_sock && !call->connecting);
    call->out_at = 0;
    int error = send_request(call);

    if (error != 0 && call->reused) {
        httpc_connect_again(call);
    } else if (error != 0) {
        call->error = error;
        httpc_finish(call, HTTPC_CLOSED);
    }
}
