/* The server: bytes in, until a request is whole. */
#include "node/http/httpd_conn_internal.h"

#include <errno.h>
#include <sys/socket.h>

#define FIRST_READ_BYTES  4096
#define READ_BYTES_MIN    2048
#define READ_BYTES_MAX    ((size_t)256 * 1024)
#define BUSY_ROOM_BYTES   512 /* to notice that the client leaves */
#define BODY_STEP_BYTES   1024
#define DISCARD_BYTES_MAX ((uint64_t)1024 * 1024)

static void on_ready(struct sock *sock, int events);

void
httpd_conn_want(struct httpd_conn *conn)
{
    int events = 0;

    if (conn->state == HTTPD_CLOSED) {
        return;
    }
    if (conn->reading) {
        events |= SOCK_READ;
    } else if (conn->state == HTTPD_BUSY) {
        events |= SOCK_GONE;
    }
    if (httpd_out_unsent(conn) != 0) {
        events |= SOCK_WRITE;
    }
    sock_want(&conn->sock, events);
}

static void
set_reading(struct httpd_conn *conn, bool reading)
{
    conn->reading = reading && !conn->input_over;
    httpd_conn_want(conn);
}

static void
on_closed(struct sock *sock)
{
    struct httpd_conn *conn = LIST_OWNER(sock, struct httpd_conn, sock);

    httpd_gone(conn);
    httpd_release(conn);
}

void
httpd_conn_close(struct httpd_conn *conn)
{
    if (conn->state == HTTPD_CLOSED) {
        return;
    }
    conn->state = HTTPD_CLOSED;
    deadline_clear(&conn->deadline);
    list_remove(&conn->ready);
    sock_close(&conn->sock, false, on_closed);
}

int
httpd_conn_open(struct httpd_conn *conn, int fd)
{
    int error = sock_open(&conn->sock, conn->httpd->loop, fd, on_ready);

    if (error != 0) {
        return error;
    }
    conn->state = HTTPD_IDLE;
    if (conn->httpd->tls != NULL &&
        sock_secure(&conn->sock, conn->httpd->tls) != 0) {
        httpd_conn_close(conn);
        return 0;
    }
    httpd_timer_arm(conn, HTTPD_DEADLINE_IDLE);
    set_reading(conn, true);
    return 0;
}

/* Room that the next read must find. Nothing while the handler looks at the
 * buffer, which must not move then, nor when it has input to look at. */
static size_t
read_size(const struct httpd_conn *conn)
{
    uint64_t left = 0;

    switch (conn->state) {
    case HTTPD_IDLE:
        if (conn->in.len != 0) {
            break;
        }
        return FIRST_READ_BYTES;
    case HTTPD_HEAD:
        return READ_BYTES_MIN;
    case HTTPD_BODY:
        left = conn->request.head.body == HTTP_BODY_LENGTH
                   ? conn->next_at - conn->in.len
                   : FIRST_READ_BYTES;
        left = left < READ_BYTES_MIN ? READ_BYTES_MIN : left;
        return left > READ_BYTES_MAX ? READ_BYTES_MAX : (size_t)left;
    case HTTPD_LINGER:
        return FIRST_READ_BYTES;
    case HTTPD_BUSY:
    case HTTPD_FLUSH:
    case HTTPD_CLOSED:
        break;
    }
    return 0;
}

/* Sends our FIN and waits for the client's. */
static void
start_lingering(struct httpd_conn *conn)
{
    if (conn->input_over) {
        httpd_conn_close(conn);
        return;
    }
    sock_end(&conn->sock);
    conn->state = HTTPD_LINGER;
    conn->in.len = 0;
    conn->discarded = 0;
    httpd_timer_arm(conn, HTTPD_DEADLINE_LINGER);
    set_reading(conn, true);
}

static void
discard(struct httpd_conn *conn, size_t got)
{
    conn->discarded += got;
    if (conn->discarded > DISCARD_BYTES_MAX) {
        httpd_conn_close(conn);
    }
}

/* The client ended its side. The present answer is still sent, and so are the
 * answers to requests that have arrived already. */
static void
input_ended(struct httpd_conn *conn)
{
    conn->input_over = true;
    set_reading(conn, false);
    if (conn->state != HTTPD_FLUSH && list_is_empty(&conn->ready)) {
        httpd_conn_close(conn);
    }
}

static void
take_input(struct httpd_conn *conn, size_t got)
{
    if (conn->state == HTTPD_LINGER) {
        discard(conn, got);
        return;
    }
    conn->in.len += got;
    if (conn->state != HTTPD_BUSY && conn->state != HTTPD_FLUSH) {
        httpd_conn_pump(conn);
    } else if (conn->in.len == conn->in.size) {
        set_reading(conn, false);
    }
}

static void
read_input(struct httpd_conn *conn)
{
    struct buf *in = &conn->in;
    size_t size = read_size(conn);

    if (size != 0 && buf_reserve(in, size) == NULL) {
        httpd_conn_close(conn);
        return;
    }
    CHECK(in->len < in->size);
    ssize_t n = sock_recv(&conn->sock, in->ptr + in->len, in->size - in->len);
    if (n > 0) {
        take_input(conn, (size_t)n);
    } else if (n == 0) {
        input_ended(conn);
    } else if (n != -EAGAIN) {
        httpd_conn_close(conn);
    }
}

static void
on_ready(struct sock *sock, int events)
{
    struct httpd_conn *conn = LIST_OWNER(sock, struct httpd_conn, sock);

    if ((events & SOCK_WRITE) != 0) {
        httpd_out_ready(conn);
    }
    if (conn->state == HTTPD_CLOSED) {
        return;
    }
    if (!conn->reading && (events & (SOCK_READ | SOCK_GONE)) != 0) {
        httpd_conn_close(conn); /* broken, or nobody waits for the handler's
                                   answer */
    } else if (conn->reading && (events & SOCK_READ) != 0) {
        read_input(conn);
    }
}

static int
parse_head(struct httpd_conn *conn)
{
    conn->parsed = conn->in.ptr;
    return http_head_parse_request(conn->in.ptr, conn->in.len,
                                   &conn->httpd->head_limits,
                                   &conn->request.head);
}

/* A method that carries a body, and words about one, without its length. */
static bool
lacks_length(const struct http_head *head)
{
    bool carries = head->method_id == HTTP_POST ||
                   head->method_id == HTTP_PUT || head->method_id == HTTP_PATCH;

    return carries && head->body == HTTP_BODY_NONE &&
           http_head_find(head, HTTP_FIELD_CONTENT_TYPE) != NULL &&
           http_head_find(head, HTTP_FIELD_CONTENT_LENGTH) == NULL;
}

static void
send_continue(struct httpd_conn *conn)
{
    static char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct iovec piece = {.iov_base = go_on, .iov_len = sizeof(go_on) - 1};

    httpd_out_write(conn, &piece, 1);
}

/* Hands the request over. The buffer may move one last time before, so that
 * some room is left to hear of the client while the handler works. */
static void
deliver(struct httpd_conn *conn)
{
    struct httpd *httpd = conn->httpd;
    struct httpd_request *request = &conn->request;
    struct buf *in = &conn->in;

    if (in->max_bytes - in->len >= BUSY_ROOM_BYTES &&
        buf_reserve(in, BUSY_ROOM_BYTES) == NULL) {
        httpd_conn_close(conn);
        return;
    }
    if (in->ptr != conn->parsed) {
        int again = parse_head(conn);
        CHECK(again == 0);
    }
    size_t body_at = request->head.size_bytes;
    request->body = (struct slice){.ptr = in->ptr + body_at,
                                   .len = conn->body_end - body_at};
    request->user = NULL;
    request->open = true;
    request->begun = request->streaming = request->chunked = false;
    conn->close_after = conn->linger || !request->head.keep_alive;
    conn->state = HTTPD_BUSY;
    set_reading(conn, in->len < in->size);
    deadline_clear(&conn->deadline);
    httpd->stats.requests++;
    httpd->stats.requests_open++;
    httpd->handler.request(httpd->handler.context, request);
}

/* Whether the handler wants a body that is not here yet. */
static bool
is_wanted(const struct httpd_conn *conn)
{
    const struct httpd_handler *handler = &conn->httpd->handler;

    return handler->wants_body == NULL ||
           handler->wants_body(handler->context, &conn->request.head);
}

/* Decides about the body once the head is known. */
static void
begin_body(struct httpd_conn *conn)
{
    const struct http_head *head = &conn->request.head;
    bool by_length = head->body == HTTP_BODY_LENGTH;

    if (lacks_length(head)) {
        httpd_answer_refuse(conn, 411, "the body needs a length");
        return;
    }
    if (by_length &&
        head->content_length > conn->httpd->limits.body_bytes_max) {
        httpd_answer_refuse(conn, 413, "the body is too large");
        return;
    }
    conn->state = HTTPD_BODY;
    conn->body_end = head->size_bytes;
    conn->next_at = head->size_bytes;
    conn->chunk = (struct http_chunk){.state = 0};
    if (by_length) {
        conn->next_at += (size_t)head->content_length;
    }
    if (conn->in.len < conn->next_at || head->body == HTTP_BODY_CHUNKED) {
        if (!is_wanted(conn)) {
            conn->next_at = head->size_bytes;
            conn->linger = true;
            deliver(conn);
            return;
        }
        conn->armed_at = conn->in.len;
        httpd_timer_arm(conn, HTTPD_DEADLINE_IDLE);
        if (head->expect_continue && conn->in.len == head->size_bytes) {
            send_continue(conn);
        }
    }
}

/* True when the connection has moved on. */
static bool
advance_head(struct httpd_conn *conn)
{
    switch (parse_head(conn)) {
    case 0:
        begin_body(conn);
        return true;
    case HTTP_E_MORE:
        return false;
    default:
        httpd_answer_refuse(conn, conn->request.head.fault_status,
                            conn->request.head.fault);
        return true;
    }
}

/* Moves the data of the chunks that arrived together, right behind the head.
 * True when the body is whole or refused. */
static bool
decode_chunks(struct httpd_conn *conn)
{
    struct buf *in = &conn->in;
    size_t body_at = conn->request.head.size_bytes;
    struct slice raw = {.ptr = in->ptr + conn->body_end,
                        .len = in->len - conn->body_end};

    for (;;) {
        struct slice data = {.ptr = NULL};
        int outcome = http_chunk_next(&conn->chunk, &raw, &data);
        if (outcome == 0) {
            conn->next_at = in->len - raw.len;
            return true;
        }
        if (outcome == HTTP_CHUNK_E_MORE) {
            in->len = conn->body_end;
            return false;
        }
        if (outcome != HTTP_CHUNK_E_DATA) {
            httpd_answer_refuse(conn, 400, conn->chunk.fault);
            return true;
        }
        if (conn->body_end - body_at + data.len >
            conn->httpd->limits.body_bytes_max) {
            httpd_answer_refuse(conn, 413, "the body is too large");
            return true;
        }
        memmove(in->ptr + conn->body_end, data.ptr, data.len);
        conn->body_end += data.len;
    }
}

static bool
advance_body(struct httpd_conn *conn)
{
    bool whole = conn->in.len >= conn->next_at;

    if (conn->request.head.body == HTTP_BODY_CHUNKED) {
        whole = decode_chunks(conn);
    } else if (whole) {
        conn->body_end = conn->next_at;
    }
    if (conn->state != HTTPD_BODY) {
        return true;
    }
    if (whole) {
        deliver(conn);
    } else if (conn->in.len >= conn->armed_at + BODY_STEP_BYTES) {
        conn->armed_at = conn->in.len;
        httpd_timer_arm(conn, HTTPD_DEADLINE_IDLE);
    }
    return whole;
}

/* One step; true when there may be another. */
static bool
advance(struct httpd_conn *conn)
{
    switch (conn->state) {
    case HTTPD_IDLE:
        if (conn->in.len == 0) {
            return false;
        }
        conn->state = HTTPD_HEAD;
        httpd_timer_arm(conn, HTTPD_DEADLINE_IDLE);
        return true;
    case HTTPD_HEAD:
        return advance_head(conn);
    case HTTPD_BODY:
        return advance_body(conn);
    case HTTPD_BUSY:
    case HTTPD_FLUSH:
    case HTTPD_LINGER:
    case HTTPD_CLOSED:
        break;
    }
    return false;
}

void
httpd_conn_pump(struct httpd_conn *conn)
{
    if (conn->pumping) {
        return;
    }
    conn->pumping = true;
    while (advance(conn)) {
    }
    conn->pumping = false;
    if (conn->state > HTTPD_BODY) {
        return;
    }
    if (conn->input_over) {
        httpd_conn_close(conn);
        return;
    }
    set_reading(conn, true);
}

void
httpd_conn_answered(struct httpd_conn *conn)
{
    if (conn->state == HTTPD_CLOSED) {
        return;
    }
    conn->state = HTTPD_FLUSH;
    if (httpd_out_unsent(conn) == 0) {
        httpd_conn_flushed(conn);
    } else {
        httpd_out_watch(conn);
    }
}

/* Closing right away is safe only when nothing more can be on its way. */
static void
finish(struct httpd_conn *conn)
{
    if (conn->linger || conn->in.len > conn->next_at) {
        start_lingering(conn);
    } else {
        httpd_conn_close(conn);
    }
}

void
httpd_conn_flushed(struct httpd_conn *conn)
{
    struct httpd *httpd = conn->httpd;

    CHECK(conn->state == HTTPD_FLUSH && httpd_out_unsent(conn) == 0);
    if (conn->close_after || httpd->stopped) {
        conn->linger = conn->linger || !conn->close_after;
        finish(conn);
        return;
    }
    buf_drop(&conn->in, conn->next_at);
    httpd_out_trim(&conn->in);
    conn->state = HTTPD_IDLE;
    httpd_timer_arm(conn, HTTPD_DEADLINE_IDLE);
    if (conn->pumping) {
        return;
    }
    if (conn->in.len != 0 || conn->input_over) {
        /* Not from here: the handler's own call may be below us. */
        httpd_wake(conn);
        return;
    }
    set_reading(conn, true);
}

void
httpd_conn_expired(struct httpd_conn *conn)
{
    struct httpd_stats *stats = &conn->httpd->stats;

    switch (conn->state) {
    case HTTPD_IDLE:
        stats->idle_timeouts++;
        httpd_conn_close(conn);
        return;
    case HTTPD_HEAD:
    case HTTPD_BODY:
        stats->read_timeouts++;
        httpd_answer_refuse(conn, 408, "the request took too long to arrive");
        return;
    case HTTPD_BUSY:
    case HTTPD_FLUSH:
        if (httpd_out_moved(conn)) {
            httpd_out_watch(conn);
            return;
        }
        stats->write_timeouts++;
        httpd_conn_close(conn);
        return;
    case HTTPD_LINGER:
        httpd_conn_close(conn);
        return;
    case HTTPD_CLOSED:
        break;
    }
    CHECK(conn->state != HTTPD_CLOSED);
}
