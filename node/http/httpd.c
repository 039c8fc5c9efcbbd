/* The server: its listener, its limits, the life of its connections. */
#include "node/http/httpd.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "node/http/httpd_conn_internal.h"

#define BACKLOG          1024
#define ACCEPTS_MAX      64 /* at a time, then others have the loop */
#define ACCEPT_PAUSE_US  UINT64_C(50000)
#define ROOM_LOOKS       16 /* at connections, for one that makes room */
#define REFUSED_MAX      32 /* at a time; beyond, no answer at all */
#define SPARE_MAX        64
#define TARGET_BYTES_MAX 8192

/* Input of later requests that a full buffer still has room for; also what a
 * body's chunk framing may take up before it is decoded. */
#define PIPELINE_BYTES_MAX ((size_t)16 * 1024)

static void
free_connection(struct httpd_conn *conn)
{
    buf_fini(&conn->in);
    buf_fini(&conn->out);
    free(conn);
}

static void
unref(struct httpd *httpd)
{
    CHECK(httpd->handles != 0);
    httpd->handles--;
    if (httpd->handles != 0 || !httpd->freed) {
        return;
    }
    for (struct list_link *at = httpd->spare.next, *next; at != &httpd->spare;
         at = next) {
        next = at->next;
        free_connection(LIST_OWNER(at, struct httpd_conn, all));
    }
    sock_tls_context_free(httpd->tls);
    free(httpd);
}

static void
on_handle_closed(uv_handle_t *handle)
{
    unref(handle->data);
}

static void
on_listener_closed(struct sock *listener)
{
    unref(LIST_OWNER(listener, struct httpd, listener));
}

static struct httpd_conn *
new_connection(struct httpd *httpd)
{
    const struct httpd_limits *limits = &httpd->limits;
    struct httpd_conn *conn = calloc(1, sizeof(*conn));

    if (conn == NULL) {
        return NULL;
    }
    buf_init(&conn->in, limits->head_bytes_max + limits->body_bytes_max +
                            PIPELINE_BYTES_MAX);
    buf_init(&conn->out, SIZE_MAX / 2); /* bounded by httpd_send() */
    conn->httpd = httpd;
    conn->request.conn = conn;
    list_init(&conn->all);
    list_init(&conn->ready);
    return conn;
}

/* A connection with empty buffers and everything else zero, or NULL. */
static struct httpd_conn *
take_spare(struct httpd *httpd)
{
    struct httpd_conn *conn = NULL;

    if (list_is_empty(&httpd->spare)) {
        return new_connection(httpd);
    }
    conn = LIST_OWNER(httpd->spare.next, struct httpd_conn, all);
    list_remove(&conn->all);
    httpd->spare_count--;
    return conn;
}

/* Everything but the buffers back to the start, and these to a size that may be
 * kept for good. */
static void
put_spare(struct httpd_conn *conn)
{
    struct httpd *httpd = conn->httpd;

    CHECK(list_is_empty(&conn->all) && conn->deadline.list == NULL);
    CHECK(list_is_empty(&conn->ready) && !conn->request.open);
    buf_clear(&conn->in);
    buf_clear(&conn->out);
    httpd_out_trim(&conn->in);
    httpd_out_trim(&conn->out);
    conn->out_at = 0;
    conn->reading = conn->pumping = false;
    conn->input_over = conn->close_after = conn->linger = false;
    conn->refused = false;
    conn->request.user = NULL;
    if (httpd->spare_count < SPARE_MAX && !httpd->freed) {
        list_append(&httpd->spare, &conn->all);
        httpd->spare_count++;
        return;
    }
    free_connection(conn);
}

void
httpd_release(struct httpd_conn *conn)
{
    struct httpd *httpd = conn->httpd;

    list_remove(&conn->all);
    if (conn->refused) {
        httpd->refused--;
    } else {
        httpd->stats.connections--;
    }
    put_spare(conn);
    if (httpd->stopped && !httpd->freed && httpd->stats.connections == 0) {
        httpd_timer_stop(httpd);
    }
    unref(httpd);
}

void
httpd_gone(struct httpd_conn *conn)
{
    struct httpd *httpd = conn->httpd;

    if (!conn->request.open) {
        return;
    }
    conn->request.open = false;
    httpd->stats.gone++;
    httpd->stats.requests_open--;
    if (httpd->handler.gone != NULL) {
        httpd->handler.gone(httpd->handler.context, &conn->request);
    }
}

/* Whether something of it has come that was not read yet. */
static bool
is_sending(struct deadline *deadline)
{
    struct httpd_conn *conn = LIST_OWNER(deadline, struct httpd_conn, deadline);
    char byte;

    return recv(conn->sock.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
}

/* Closes whoever has waited longest between requests or in the middle of one, so
 * that those who only hold on cannot keep others out. Of many who come at one
 * time, those whose requests are here already stay. False: nobody only holds
 * on, as far as was looked. */
static bool
make_room(struct httpd *httpd)
{
    struct deadline *oldest = httpd->deadlines[HTTPD_DEADLINE_IDLE].first;

    for (unsigned i = 0; oldest != NULL && is_sending(oldest); i++) {
        oldest = i < ROOM_LOOKS ? oldest->next : NULL;
    }
    if (oldest == NULL) {
        return false;
    }
    httpd->stats.made_room++;
    httpd_conn_close(LIST_OWNER(oldest, struct httpd_conn, deadline));
    return true;
}

/* 0, or -errno when no more connections can be made at present. */
static int
welcome(struct httpd *httpd, int fd)
{
    /* A place that was made is free only when the loop has closed it. */
    bool full = httpd->stats.connections >= httpd->limits.connections_max &&
                !make_room(httpd);

    if (full) {
        httpd->stats.refused++;
        if (httpd->refused >= REFUSED_MAX) {
            (void)close(fd);
            return 0;
        }
    }
    struct httpd_conn *conn = take_spare(httpd);
    if (conn == NULL) {
        (void)close(fd);
        return -ENOMEM;
    }
    int error = httpd_conn_open(conn, fd);
    if (error != 0) {
        put_spare(conn);
        return error;
    }
    conn->refused = full;
    httpd->refused += full;
    httpd->stats.connections += !full;
    httpd->handles++;
    list_append(&httpd->connections, &conn->all);
    httpd->stats.accepted += !full;
    if (full) {
        httpd_answer_refuse(conn, 503, "too many connections");
    }
    return 0;
}

static void
pause_accepting(struct httpd *httpd)
{
    httpd->stats.accept_pauses++;
    sock_want(&httpd->listener, 0);
    httpd_timer_pause(httpd, ACCEPT_PAUSE_US);
}

/*
 * libuv's own listener is unsuitable: it spins when accept() returns EMFILE and
 * it could not reopen its spare descriptor, and it cannot be paused.
 */
static void
on_connection(struct sock *listener, int events)
{
    struct httpd *httpd = LIST_OWNER(listener, struct httpd, listener);

    (void)events;
    for (unsigned i = 0; i < ACCEPTS_MAX; i++) {
        int fd = sock_accept(listener, NULL);
        if (fd == -EAGAIN) {
            return;
        }
        if (fd < 0 || welcome(httpd, fd) != 0) {
            pause_accepting(httpd);
            return;
        }
    }
}

void
httpd_resume(struct httpd *httpd)
{
    if (!httpd->stopped) {
        sock_want(&httpd->listener, SOCK_READ);
    }
}

static void
on_idle(uv_idle_t *idle)
{
    struct httpd *httpd = idle->data;

    while (!list_is_empty(&httpd->ready)) {
        struct httpd_conn *conn =
            LIST_OWNER(httpd->ready.next, struct httpd_conn, ready);
        list_remove(&conn->ready);
        httpd_conn_pump(conn);
    }
    (void)uv_idle_stop(idle);
}

void
httpd_wake(struct httpd_conn *conn)
{
    struct httpd *httpd = conn->httpd;

    if (list_is_empty(&conn->ready)) {
        list_append(&httpd->ready, &conn->ready);
        /* Fails only without a callback. */
        (void)uv_idle_start(&httpd->idle, on_idle);
    }
}

/* Not shared (SO_REUSEPORT): a second server on this port is a mistake. */
static int
open_listener(const struct sockaddr *address)
{
    bool v6 = address->sa_family == AF_INET6;
    socklen_t len =
        v6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    int on = 1;
    int fd = socket(address->sa_family,
                    SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return -errno;
    }
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        bind(fd, address, len) != 0 || listen(fd, BACKLOG) != 0) {
        int error = -errno;
        (void)close(fd);
        return error;
    }
    return fd;
}

static uint16_t
port_of(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } name = {.v6 = {.sin6_family = AF_UNSPEC}};
    socklen_t len = sizeof(name);

    if (getsockname(fd, &name.any, &len) != 0) {
        return 0;
    }
    return ntohs(name.any.sa_family == AF_INET6 ? name.v6.sin6_port
                                                : name.v4.sin_port);
}

/* Opens the listener and the server's own handles; on failure none is left. */
static int
open_handles(struct httpd *httpd, const struct sockaddr *address)
{
    int fd = open_listener(address);

    if (fd < 0) {
        return fd;
    }
    httpd->port = port_of(fd);
    int error = sock_open(&httpd->listener, httpd->loop, fd, on_connection);
    if (error != 0) {
        return error;
    }
    /* These cannot fail. */
    (void)uv_timer_init(httpd->loop, &httpd->timer);
    (void)uv_idle_init(httpd->loop, &httpd->idle);
    httpd->timer.data = httpd->idle.data = httpd;
    httpd->handles = 3;
    sock_want(&httpd->listener, SOCK_READ);
    return 0;
}

int
httpd_use_tls(struct httpd *httpd, const struct sock_tls_context *tls)
{
    struct sock_tls_context *share = sock_tls_context_share(tls);

    if (share == NULL) {
        return -ENOMEM;
    }
    sock_tls_context_free(httpd->tls);
    httpd->tls = share;
    return 0;
}

int
httpd_new(struct httpd **out, uv_loop_t *loop, const struct sockaddr *address,
          const struct httpd_limits *limits,
          const struct httpd_handler *handler)
{
    CHECK(handler->request != NULL && limits->head_bytes_max != 0);
    CHECK(address->sa_family == AF_INET || address->sa_family == AF_INET6);
    *out = NULL;
    struct httpd *httpd = calloc(1, sizeof(*httpd));
    if (httpd == NULL) {
        return -ENOMEM;
    }
    httpd->loop = loop;
    httpd->limits = *limits;
    httpd->handler = *handler;
    httpd->head_limits =
        (struct http_limits){.head_bytes_max = limits->head_bytes_max,
                             .target_bytes_max = TARGET_BYTES_MAX,
                             .headers_max = HTTP_HEADERS_MAX};
    list_init(&httpd->connections);
    list_init(&httpd->spare);
    list_init(&httpd->ready);
    httpd_timer_init(httpd);

    int error = open_handles(httpd, address);
    if (error != 0) {
        free(httpd);
        return error;
    }
    *out = httpd;
    return 0;
}

uint16_t
httpd_port(const struct httpd *httpd)
{
    return httpd->port;
}

const struct httpd_stats *
httpd_stats(const struct httpd *httpd)
{
    return &httpd->stats;
}

void
httpd_stop(struct httpd *httpd)
{
    if (httpd->stopped) {
        return;
    }
    httpd->stopped = true;
    httpd->resume_us = UINT64_MAX;
    sock_close(&httpd->listener, false, on_listener_closed);
    for (struct list_link *at = httpd->connections.next;
         at != &httpd->connections; at = at->next) {
        struct httpd_conn *conn = LIST_OWNER(at, struct httpd_conn, all);
        if (conn->state == HTTPD_IDLE) {
            httpd_conn_close(conn);
        }
    }
}

void
httpd_free(struct httpd *httpd)
{
    if (httpd == NULL) {
        return;
    }
    CHECK(!httpd->freed);
    httpd_stop(httpd);
    httpd->freed = true;
    uv_close((uv_handle_t *)&httpd->timer, on_handle_closed);
    uv_close((uv_handle_t *)&httpd->idle, on_handle_closed);
    for (struct list_link *at = httpd->connections.next;
         at != &httpd->connections; at = at->next) {
        struct httpd_conn *conn = LIST_OWNER(at, struct httpd_conn, all);
        httpd_conn_close(conn);
        httpd_gone(conn);
    }
}
