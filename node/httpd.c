#include "node/httpd.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "node/httpd_conn.h"

#define BACKLOG          1024
#define ACCEPTS_MAX      64 /* at a time, then others have the loop */
#define ACCEPT_PAUSE_MS  50
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
    buf_fini(&conn->sending);
    buf_fini(&conn->waiting);
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
    while (!link_is_empty(&httpd->spare)) {
        struct httpd_conn *conn =
            LINK_OWNER(httpd->spare.next, struct httpd_conn, all);
        link_remove(&conn->all);
        free_connection(conn);
    }
    free(httpd);
}

static void
on_handle_closed(uv_handle_t *handle)
{
    unref(handle->data);
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
    buf_init(&conn->sending, SIZE_MAX / 2); /* bounded by httpd_send() */
    buf_init(&conn->waiting, SIZE_MAX / 2);
    conn->httpd = httpd;
    conn->request.conn = conn;
    link_init(&conn->all);
    link_init(&conn->deadline);
    link_init(&conn->ready);
    return conn;
}

/* A connection with empty buffers and everything else zero, or NULL. */
static struct httpd_conn *
take_spare(struct httpd *httpd)
{
    struct httpd_conn *conn = NULL;

    if (link_is_empty(&httpd->spare)) {
        return new_connection(httpd);
    }
    conn = LINK_OWNER(httpd->spare.next, struct httpd_conn, all);
    link_remove(&conn->all);
    httpd->spare_count--;
    return conn;
}

/* Everything but the buffers back to the start. */
static void
put_spare(struct httpd_conn *conn)
{
    struct httpd *httpd = conn->httpd;

    CHECK(link_is_empty(&conn->all) && link_is_empty(&conn->deadline));
    CHECK(link_is_empty(&conn->ready) && !conn->request.open);
    buf_clear(&conn->in);
    buf_clear(&conn->sending);
    buf_clear(&conn->waiting);
    conn->reading = conn->writing = conn->pumping = false;
    conn->input_over = conn->close_after = conn->linger = false;
    conn->refused = false;
    conn->request.user = NULL;
    if (httpd->spare_count < SPARE_MAX && !httpd->freed) {
        link_append(&httpd->spare, &conn->all);
        httpd->spare_count++;
        return;
    }
    free_connection(conn);
}

void
httpd_release(struct httpd_conn *conn)
{
    struct httpd *httpd = conn->httpd;

    link_remove(&conn->all);
    if (conn->refused) {
        httpd->refused--;
    } else {
        httpd->stats.connections--;
    }
    put_spare(conn);
    if (httpd->stopped && !httpd->freed && httpd->stats.connections == 0) {
        (void)uv_timer_stop(&httpd->timer); /* lets the loop end */
        httpd->timer_due_ms = UINT64_MAX;
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

/* 0, or -errno when no more connections can be had for now. */
static int
welcome(struct httpd *httpd, int fd)
{
    bool full = httpd->stats.connections >= httpd->limits.connections_max;

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
    if (uv_tcp_init(httpd->loop, &conn->tcp) != 0) {
        put_spare(conn);
        (void)close(fd);
        return -ENOMEM;
    }
    conn->tcp.data = conn;
    conn->refused = full;
    httpd->refused += full;
    httpd->stats.connections += !full;
    httpd->handles++;
    link_append(&httpd->connections, &conn->all);
    int error = httpd_conn_open(conn, fd);
    if (error != 0) {
        (void)close(fd);
        return error;
    }
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
    (void)uv_poll_stop(&httpd->poll);
    httpd_timer_pause(httpd, ACCEPT_PAUSE_MS);
}

/* True when the fault was that of one connection, already gone. */
static bool
is_passing(int error)
{
    return error == EINTR || error == ECONNABORTED || error == EPROTO ||
           error == ENETDOWN || error == ENETUNREACH || error == EHOSTDOWN ||
           error == EHOSTUNREACH || error == ENOPROTOOPT || error == ENONET ||
           error == EOPNOTSUPP;
}

/*
 * Accepts by hand: libuv's listener spins when accept() says EMFILE and it
 * could not get its spare descriptor back, and has no way to be paused.
 */
static void
on_connection(uv_poll_t *poll, int status, int events)
{
    struct httpd *httpd = poll->data;

    (void)events;
    if (status < 0) {
        pause_accepting(httpd);
        return;
    }
    for (unsigned i = 0; i < ACCEPTS_MAX; i++) {
        int fd = accept4(httpd->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            return;
        }
        if (fd < 0 && is_passing(errno)) {
            continue;
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
    if (!httpd->stopped &&
        uv_poll_start(&httpd->poll, UV_READABLE, on_connection) != 0) {
        pause_accepting(httpd);
    }
}

static void
on_idle(uv_idle_t *idle)
{
    struct httpd *httpd = idle->data;

    while (!link_is_empty(&httpd->ready)) {
        struct httpd_conn *conn =
            LINK_OWNER(httpd->ready.next, struct httpd_conn, ready);
        link_remove(&conn->ready);
        httpd_conn_pump(conn);
    }
    (void)uv_idle_stop(idle);
}

void
httpd_wake(struct httpd_conn *conn)
{
    struct httpd *httpd = conn->httpd;

    if (link_is_empty(&conn->ready)) {
        link_append(&httpd->ready, &conn->ready);
        /* Fails only without a callback. */
        (void)uv_idle_start(&httpd->idle, on_idle);
    }
}

/* Linux passes TCP_NODELAY on to accepted sockets. */
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
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0 ||
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
    struct sockaddr_storage name = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof(name);

    if (getsockname(fd, (struct sockaddr *)&name, &len) != 0) {
        return 0;
    }
    return name.ss_family == AF_INET6
               ? ntohs(((struct sockaddr_in6 *)&name)->sin6_port)
               : ntohs(((struct sockaddr_in *)&name)->sin_port);
}

/* Registers the server's own handles; on failure there are none. */
static int
init_handles(struct httpd *httpd)
{
    int error = uv_poll_init(httpd->loop, &httpd->poll, httpd->fd);

    if (error != 0) {
        return error;
    }
    /* These two cannot fail. */
    (void)uv_timer_init(httpd->loop, &httpd->timer);
    (void)uv_idle_init(httpd->loop, &httpd->idle);
    httpd->poll.data = httpd->timer.data = httpd->idle.data = httpd;
    httpd->handles = 3;
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
    link_init(&httpd->connections);
    link_init(&httpd->spare);
    link_init(&httpd->ready);
    httpd_timer_init(httpd);

    int error = httpd->fd = open_listener(address);
    if (error < 0) {
        goto no_handles;
    }
    httpd->port = port_of(httpd->fd);
    error = init_handles(httpd);
    if (error != 0) {
        (void)close(httpd->fd);
        goto no_handles;
    }
    error = uv_poll_start(&httpd->poll, UV_READABLE, on_connection);
    if (error != 0) {
        httpd_free(httpd);
        return error;
    }
    *out = httpd;
    return 0;

no_handles:
    free(httpd);
    return error;
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
    httpd->resume_ms = UINT64_MAX;
    uv_close((uv_handle_t *)&httpd->poll, on_handle_closed);
    (void)close(httpd->fd);
    httpd->fd = -1;

    for (struct link *at = httpd->connections.next; at != &httpd->connections;
         at = at->next) {
        struct httpd_conn *conn = LINK_OWNER(at, struct httpd_conn, all);
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
    for (struct link *at = httpd->connections.next; at != &httpd->connections;
         at = at->next) {
        struct httpd_conn *conn = LINK_OWNER(at, struct httpd_conn, all);
        httpd_conn_close(conn);
        httpd_gone(conn);
    }
}
