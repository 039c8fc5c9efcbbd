#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "node/tokens/token_ask_internal.h"

#define INTERIM_MAX 16

static void
forget_idle(struct ask_slot *slot, const struct ask_conn *conn)
{
    struct ask_conn **at = &slot->idle;

    while (*at != NULL && *at != conn) {
        at = &(*at)->next_idle;
    }
    if (*at != NULL) {
        *at = conn->next_idle;
        slot->idle_count--;
        conn->ask->stats.idle--;
    }
}

static void
on_closed(uv_handle_t *handle)
{
    struct ask_conn *conn = handle->data;
    struct token_ask *ask = conn->ask;

    CHECK(conn->writing == NULL);
    buf_fini(&conn->in);
    buf_fini(&conn->body);
    free(conn);
    ask_drop(ask);
}

void
ask_conn_close(struct ask_conn *conn)
{
    CHECK(!conn->closing);
    if (conn->question != NULL) {
        conn->question->conn = NULL;
        conn->question = NULL;
    } else {
        forget_idle(&conn->ask->slots[conn->slot], conn);
    }
    conn->closing = true;
    uv_close((uv_handle_t *)&conn->tcp, on_closed);
}

void
ask_conn_close_idle(struct ask_slot *slot)
{
    while (slot->idle != NULL) {
        ask_conn_close(slot->idle);
    }
}

static int send_anew(struct token_question *q);

/* No answer will come of it. A kept connection may have been dead all along:
 * then the question deserves a new one. */
static void
fail(struct ask_conn *conn, enum ask_fault fault)
{
    struct token_question *q = conn->question;
    bool dead = conn->reused && !conn->heard && !q->retried;

    ask_conn_close(conn);
    if (dead) {
        q->retried = true;
        if (send_anew(q) == 0) {
            return;
        }
    }
    ask_failed(q, fault);
}

/* Keeps it for the next question, or closes it. */
static void
park(struct ask_conn *conn, bool usable)
{
    struct token_ask *ask = conn->ask;
    struct ask_slot *slot = &ask->slots[conn->slot];

    if (!usable || conn->writing != NULL ||
        slot->generation != conn->generation ||
        slot->idle_count >= ask->limits.connections_max) {
        ask_conn_close(conn);
        return;
    }
    buf_clear(&conn->in);
    conn->reused = true;
    conn->next_idle = slot->idle;
    slot->idle = conn;
    slot->idle_count++;
    ask->stats.idle++;
}

/* The answer is whole. What is left over belongs to nobody. */
static void
complete(struct ask_conn *conn, bool usable)
{
    struct token_question *q = conn->question;
    unsigned status = conn->head.status;
    struct buf body = conn->body;

    buf_init(&conn->body, conn->ask->limits.answer_bytes_max);
    conn->question = NULL;
    q->conn = NULL;
    park(conn, usable && conn->head.keep_alive);
    ask_answered(q, status, buf_slice(&body));
    buf_fini(&body);
}

/* False: the connection is gone. */
static bool
give(struct ask_conn *conn, struct slice piece)
{
    buf_add_slice(&conn->body, piece);
    if (conn->body.failed) {
        fail(conn, ASK_FAULT_LARGE);
        return false;
    }
    return true;
}

static void
feed_length(struct ask_conn *conn, struct slice bytes)
{
    bool clean = bytes.len <= conn->left;

    bytes.len = clean ? bytes.len : (size_t)conn->left;
    conn->left -= bytes.len;
    if (give(conn, bytes) && conn->left == 0) {
        complete(conn, clean);
    }
}

static void
feed_chunks(struct ask_conn *conn, struct slice bytes)
{
    for (;;) {
        struct slice data = {.ptr = NULL};
        switch (http_chunk_next(&conn->chunk, &bytes, &data)) {
        case 0:
            complete(conn, bytes.len == 0);
            return;
        case HTTP_CHUNK_E_DATA:
            if (!give(conn, data)) {
                return;
            }
            break;
        case HTTP_CHUNK_E_MORE:
            return;
        default:
            fail(conn, ASK_FAULT_BROKEN);
            return;
        }
    }
}

static void
feed(struct ask_conn *conn, struct slice bytes)
{
    switch (conn->head.body) {
    case HTTP_BODY_NONE:
        complete(conn, bytes.len == 0);
        return;
    case HTTP_BODY_LENGTH:
        feed_length(conn, bytes);
        return;
    case HTTP_BODY_CHUNKED:
        feed_chunks(conn, bytes);
        return;
    case HTTP_BODY_CLOSE:
        (void)give(conn, bytes);
        return;
    }
}

/* Skips interim answers. HTTP_E_MORE, 0 with the final head, or a fault. */
static int
find_head(struct ask_conn *conn)
{
    struct http_limits limits = {.head_bytes_max = ASK_HEAD_BYTES_MAX,
                                 .headers_max = HTTP_HEADERS_MAX};

    for (;;) {
        int outcome = http_head_parse_response(conn->in.ptr, conn->in.len,
                                               &limits, HTTP_POST, &conn->head);
        if (outcome != 0 || conn->head.status >= 200) {
            return outcome;
        }
        /* 101 would be an upgrade that was never asked for. */
        conn->interim++;
        if (conn->head.status == 101 || conn->interim > INTERIM_MAX) {
            return HTTP_E_BAD;
        }
        buf_drop(&conn->in, conn->head.size_bytes);
    }
}

static void
take_head(struct ask_conn *conn, struct slice bytes)
{
    buf_add_slice(&conn->in, bytes);
    int outcome = conn->in.failed ? HTTP_E_LIMIT : find_head(conn);
    if (outcome == HTTP_E_MORE) {
        return;
    }
    if (outcome != 0) {
        fail(conn, ASK_FAULT_BROKEN);
        return;
    }
    conn->has_head = true;
    conn->left = conn->head.content_length;
    if (conn->head.body == HTTP_BODY_LENGTH &&
        conn->left > conn->ask->limits.answer_bytes_max) {
        fail(conn, ASK_FAULT_LARGE);
        return;
    }
    size_t used = conn->head.size_bytes;
    feed(conn, (struct slice){.ptr = conn->in.ptr + used,
                              .len = conn->in.len - used});
}

static void
on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *room)
{
    struct ask_conn *conn = handle->data;

    (void)suggested;
    *room = uv_buf_init(conn->ask->raw, sizeof(conn->ask->raw));
}

static void
on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *room)
{
    struct ask_conn *conn = stream->data;

    if (conn->closing || got == 0) {
        return;
    }
    if (conn->question == NULL) {
        ask_conn_close(conn); /* it ends, or speaks without being asked */
        return;
    }
    if (got < 0) {
        if (got == UV_EOF && conn->has_head &&
            conn->head.body == HTTP_BODY_CLOSE) {
            complete(conn, false);
        } else {
            fail(conn, ASK_FAULT_BROKEN);
        }
        return;
    }
    struct slice bytes = {.ptr = room->base, .len = (size_t)got};
    conn->heard = true;
    if (conn->has_head) {
        feed(conn, bytes);
    } else {
        take_head(conn, bytes);
    }
}

/* A failed write ends nothing: reading will say so, if no answer came before
 * it. */
static void
on_write(uv_write_t *write, int status)
{
    struct ask_conn *conn = write->data;
    struct token_question *q = conn->writing;

    (void)status;
    conn->writing = NULL;
    ask_question_drop(q);
}

static int
write_request(struct ask_conn *conn)
{
    struct token_question *q = conn->question;
    uv_buf_t out = {.base = q->out.ptr, .len = q->out.len};
    int error =
        uv_write(&conn->write, (uv_stream_t *)&conn->tcp, &out, 1, on_write);

    if (error == 0) {
        conn->write.data = conn;
        conn->writing = q;
        q->holds++;
    }
    return error;
}

static void
on_connect(uv_connect_t *connect, int status)
{
    struct ask_conn *conn = connect->data;
    int error = status;

    if (conn->closing) {
        return;
    }
    if (error == 0) {
        error = uv_read_start((uv_stream_t *)&conn->tcp, on_alloc, on_read);
    }
    if (error == 0) {
        error = write_request(conn);
    }
    if (error != 0) {
        fail(conn, ASK_FAULT_BROKEN);
    }
}

static void
start_answer(struct ask_conn *conn, struct token_question *q)
{
    conn->question = q;
    q->conn = conn;
    conn->heard = false;
    conn->has_head = false;
    conn->interim = 0;
    conn->chunk = (struct http_chunk){.left = 0};
    buf_clear(&conn->in);
}

/* On a new connection. */
static int
send_anew(struct token_question *q)
{
    struct token_ask *ask = q->ask;
    struct ask_conn *conn = calloc(1, sizeof(*conn));

    if (conn == NULL) {
        return -ENOMEM;
    }
    conn->ask = ask;
    conn->slot = q->slot;
    conn->generation = q->generation;
    conn->address = q->address;
    buf_init(&conn->in, ASK_HEAD_BYTES_MAX + ASK_READ_BYTES);
    buf_init(&conn->body, ask->limits.answer_bytes_max);
    int error = uv_tcp_init(ask->loop, &conn->tcp);
    CHECK(error == 0); /* makes no socket yet */
    ask->holds++;
    conn->tcp.data = conn;
    conn->connect.data = conn;
    start_answer(conn, q);
    error = uv_tcp_connect(&conn->connect, &conn->tcp,
                           (const struct sockaddr *)&conn->address, on_connect);
    if (error != 0) {
        ask_conn_close(conn);
        return error;
    }
    (void)uv_tcp_nodelay(&conn->tcp, 1); /* slower without, no worse */
    ask->stats.connected++;
    return 0;
}

/* A kept connection to the question's address; others are stale. */
static struct ask_conn *
take_idle(struct token_question *q)
{
    struct ask_slot *slot = &q->ask->slots[q->slot];

    if (slot->generation != q->generation) {
        return NULL;
    }
    while (slot->idle != NULL) {
        struct ask_conn *conn = slot->idle;
        if (memcmp(&conn->address, &q->address, sizeof(q->address)) == 0) {
            forget_idle(slot, conn);
            return conn;
        }
        ask_conn_close(conn);
    }
    return NULL;
}

int
ask_conn_send(struct token_question *q)
{
    struct ask_conn *conn = q->retried ? NULL : take_idle(q);

    if (conn == NULL) {
        return send_anew(q);
    }
    start_answer(conn, q);
    if (write_request(conn) != 0) {
        ask_conn_close(conn);
        return send_anew(q);
    }
    q->ask->stats.reused++;
    return 0;
}
