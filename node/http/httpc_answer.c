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

static void
on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *room)
{
    struct httpc_conn *conn = handle->data;

    (void)suggested;
    *room = uv_buf_init(conn->raw, sizeof(conn->raw));
}

static void
on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *room)
{
    struct httpc_conn *conn = stream->data;
    struct httpc *call = conn->call;
    struct slice bytes = {.ptr = room->base};

    if (got == 0) {
        return;
    }
    if (call == NULL) { /* closed by the server, or it speaks unasked */
        httpc_hang_up(conn->waits);
        return;
    }
    if (call->over) {
        return;
    }
    if (got < 0 && call->reused) {
        httpc_connect_again(call);
        return;
    }
    call->reused = false;
    if (got < 0) {
        bool whole = got == UV_EOF && call->has_head &&
                     call->head.body == HTTP_BODY_CLOSE;
        call->error = got == UV_EOF ? 0 : (int)got;
        httpc_finish(call, whole ? HTTPC_OK : HTTPC_CLOSED);
        return;
    }
    bytes.len = (size_t)got;
    if (call->has_head) {
        feed(call, bytes);
    } else {
        take_head(call, bytes);
    }
}

/* A failed write ends nothing: the answer may have come before it, and when it
 * has not, reading will say so. */
static void
on_write(uv_write_t *write, int status)
{
    struct httpc *call = write->data;

    (void)status;
    call->writing = false;
}

/* What the socket does not take at once is left to libuv. 0 or -errno. */
static int
send_request(struct httpc *call)
{
    uv_stream_t *stream = (uv_stream_t *)&call->conn->tcp;
    uv_buf_t out = {.base = call->out.ptr, .len = call->out.len};
    int sent = uv_try_write(stream, &out, 1);

    if (sent < 0 && sent != UV_EAGAIN) {
        return sent;
    }
    if (sent > 0) {
        out.base += sent;
        out.len -= (size_t)sent;
    }
    if (out.len == 0) {
        return 0;
    }
    call->write.data = call;
    int error = uv_write(&call->write, stream, &out, 1, on_write);
    call->writing = error == 0;
    return error;
}

void
httpc_answer_start(struct httpc *call)
{
    CHECK(call->has_tcp && !call->connecting);
    uv_stream_t *stream = (uv_stream_t *)&call->conn->tcp;
    int error = call->reused ? 0 : uv_read_start(stream, on_alloc, on_read);

    if (error == 0) {
        error = send_request(call);
    }
    if (error != 0 && call->reused) {
        httpc_connect_again(call);
    } else if (error != 0) {
        call->error = error;
        httpc_finish(call, HTTPC_CLOSED);
    }
}
