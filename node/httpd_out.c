#include "node/httpd_conn.h"

static void on_write(uv_write_t *write, int status);

size_t
httpd_out_unsent(const struct httpd_conn *conn)
{
    return conn->tcp.write_queue_size + conn->waiting.len;
}

static uint64_t
taken(const struct httpd_conn *conn)
{
    return conn->queued - httpd_out_unsent(conn);
}

void
httpd_out_watch(struct httpd_conn *conn)
{
    conn->taken_then = taken(conn);
    httpd_timer_arm(conn, HTTPD_DEADLINE_WRITE);
}

bool
httpd_out_moved(const struct httpd_conn *conn)
{
    return taken(conn) != conn->taken_then;
}

void
httpd_out_trim(struct buf *buf)
{
    size_t max_bytes = buf->max_bytes;

    if (buf->len == 0 && buf->size > HTTPD_KEEP_BYTES) {
        buf_fini(buf);
        buf_init(buf, max_bytes);
    }
}

static bool
is_answering(const struct httpd_conn *conn)
{
    return conn->state == HTTPD_BUSY || conn->state == HTTPD_FLUSH;
}

/* Hands libuv what waits; it stays in `sending` until on_write(). */
static void
start_write(struct httpd_conn *conn)
{
    CHECK(!conn->writing && conn->sending.len == 0);
    struct buf empty = conn->sending;
    conn->sending = conn->waiting;
    conn->waiting = empty;

    uv_buf_t all = {.base = conn->sending.ptr, .len = conn->sending.len};
    conn->write.data = conn;
    conn->writing = true;
    if (uv_write(&conn->write, (uv_stream_t *)&conn->tcp, &all, 1, on_write) !=
        0) {
        conn->writing = false;
        httpd_conn_close(conn);
    }
}

static void
on_write(uv_write_t *write, int status)
{
    struct httpd_conn *conn = write->data;
    const struct httpd_handler *handler = &conn->httpd->handler;

    conn->writing = false;
    buf_clear(&conn->sending);
    if (conn->state == HTTPD_CLOSED) {
        return;
    }
    if (status < 0) {
        httpd_conn_close(conn);
        return;
    }
    if (conn->waiting.len != 0) {
        start_write(conn);
        return;
    }
    httpd_out_trim(&conn->sending);
    httpd_out_trim(&conn->waiting);
    if (!is_answering(conn)) {
        return; /* a 100 Continue; the deadline is the reader's */
    }
    httpd_timer_disarm(conn);
    if (conn->state == HTTPD_FLUSH) {
        httpd_conn_flushed(conn);
    } else if (conn->request.open && handler->drained != NULL) {
        handler->drained(handler->context, &conn->request);
    }
}

/* Queues everything behind the first `took` bytes of the pieces. */
static void
keep_rest(struct httpd_conn *conn, const uv_buf_t *pieces, unsigned count,
          size_t took)
{
    size_t before = conn->waiting.len;

    for (unsigned i = 0; i < count; i++) {
        size_t skip = took < pieces[i].len ? took : pieces[i].len;
        took -= skip;
        buf_add(&conn->waiting, pieces[i].base + skip, pieces[i].len - skip);
    }
    conn->queued += conn->waiting.len - before;
}

void
httpd_out_write(struct httpd_conn *conn, const uv_buf_t *pieces, unsigned count)
{
    int took = UV_EAGAIN;

    if (conn->state == HTTPD_CLOSED) {
        return;
    }
    if (!conn->writing) {
        took = uv_try_write((uv_stream_t *)&conn->tcp, pieces, count);
    }
    if (took < 0 && took != UV_EAGAIN) {
        httpd_conn_close(conn);
        return;
    }
    keep_rest(conn, pieces, count, took > 0 ? (size_t)took : 0);
    if (conn->waiting.failed) {
        httpd_conn_close(conn);
        return;
    }
    if (conn->waiting.len == 0) {
        return;
    }
    if (!conn->writing) {
        start_write(conn);
    }
    if (is_answering(conn) && link_is_empty(&conn->deadline)) {
        httpd_out_watch(conn);
    }
}
