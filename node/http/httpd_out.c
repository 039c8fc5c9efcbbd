/* The server: bytes out, and what the kernel did not take at once. */
#include "node/http/httpd_conn_internal.h"

static uint64_t
taken(const struct httpd_conn *conn)
{
    CHECK(httpd_out_unsent(conn) <= conn->queued);
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

/* Everything queued is with the kernel. */
static void
drained(struct httpd_conn *conn)
{
    const struct httpd_handler *handler = &conn->httpd->handler;

    CHECK(httpd_out_unsent(conn) == 0);
    conn->out_at = 0;
    buf_clear(&conn->out);
    httpd_out_trim(&conn->out);
    httpd_conn_want(conn);
    if (!is_answering(conn)) {
        return; /* it was a 100 Continue; the deadline is the reader's */
    }
    deadline_clear(&conn->deadline);
    if (conn->state == HTTPD_FLUSH) {
        httpd_conn_flushed(conn);
    } else if (handler->drained != NULL) {
        handler->drained(handler->context, &conn->request);
    }
}

void
httpd_out_ready(struct httpd_conn *conn)
{
    size_t unsent = httpd_out_unsent(conn);

    if (unsent == 0) {
        return; /* an error, which reading will tell */
    }
    struct iovec rest = {.iov_base = conn->out.ptr + conn->out_at,
                         .iov_len = unsent};
    ssize_t n = sock_send(&conn->sock, &rest, 1);
    if (n < 0) {
        httpd_conn_close(conn);
        return;
    }
    CHECK((size_t)n <= unsent);
    conn->out_at += (size_t)n;
    if (httpd_out_unsent(conn) == 0) {
        drained(conn);
    }
}

/* Queues everything behind the first `took` bytes of the pieces. */
static void
keep_rest(struct httpd_conn *conn, const struct iovec *pieces, unsigned count,
          size_t took)
{
    if (conn->out_at > conn->out.len / 2) {
        buf_drop(&conn->out, conn->out_at);
        conn->out_at = 0;
    }
    size_t before = conn->out.len;
    for (unsigned i = 0; i < count; i++) {
        const char *bytes = pieces[i].iov_base;
        size_t skip = took < pieces[i].iov_len ? took : pieces[i].iov_len;
        took -= skip;
        buf_add(&conn->out, bytes + skip, pieces[i].iov_len - skip);
    }
    CHECK(took == 0);
    conn->queued += conn->out.len - before;
}

void
httpd_out_write(struct httpd_conn *conn, const struct iovec *pieces,
                unsigned count)
{
    ssize_t took = 0;

    if (conn->state == HTTPD_CLOSED) {
        return;
    }
    if (httpd_out_unsent(conn) == 0) {
        took = sock_send(&conn->sock, pieces, count);
    }
    if (took < 0) {
        httpd_conn_close(conn);
        return;
    }
    keep_rest(conn, pieces, count, (size_t)took);
    if (conn->out.failed) {
        httpd_conn_close(conn);
        return;
    }
    if (conn->out.len == 0) {
        return;
    }
    httpd_conn_want(conn);
    if (is_answering(conn) && conn->deadline.list == NULL) {
        httpd_out_watch(conn);
    }
}
