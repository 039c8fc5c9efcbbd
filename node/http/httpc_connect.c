/* The client: from a name to a connection, one address after the other. */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "node/http/httpc_call_internal.h"

static void try_next(struct httpc *call);

static void
on_sock_closed(struct sock *sock)
{
    struct httpc_conn *conn = (struct httpc_conn *)(void *)sock; /* its first */
    struct httpc *call = conn->call;

    if (!call->over) {
        try_next(call);
    }
    httpc_drop(call);
}

static void
close_sock(struct httpc *call)
{
    if (call->has_sock) {
        call->has_sock = false;
        call->connecting = false;
        call->writing = false;
        sock_close(&call->conn->sock, false, on_sock_closed);
    }
}

void
httpc_connect_stop(struct httpc *call)
{
    close_sock(call);
    if (call->resolving) {
        /* When it runs already, on_resolved() comes later and sees `over`. */
        (void)uv_cancel((uv_req_t *)&call->resolve);
    }
}

void
httpc_connect_again(struct httpc *call)
{
    call->reused = false;
    close_sock(call);
}

static void
on_timer(uv_timer_t *timer)
{
    struct httpc *call = timer->data;

    if (call->over) {
        return;
    }
    if (call->stuck) {
        call->stuck = false;
        try_next(call);
        return;
    }
    call->error = -ETIMEDOUT;
    if (uv_now(call->loop) >= call->end_ms) {
        httpc_finish(call, HTTPC_TIMEOUT);
    } else if (call->connecting) {
        close_sock(call); /* the next address, once that is done */
    }
}

/* Lets the timer run for 1/shares of the time that is left, and no longer than
 * an address has to accept. */
static void
start_timer(struct httpc *call, unsigned shares)
{
    uint64_t now_ms = uv_now(call->loop);
    uint64_t left_ms = call->end_ms > now_ms ? call->end_ms - now_ms : 0;
    uint64_t run_ms =
        call->end_ms == UINT64_MAX ? UINT64_MAX : left_ms / shares;

    if (call->connecting && call->connect_ms != 0 &&
        run_ms > call->connect_ms) {
        run_ms = call->connect_ms;
    }
    if (run_ms == UINT64_MAX) {
        (void)uv_timer_stop(&call->timer);
    } else { /* fails only for a closing handle */
        (void)uv_timer_start(&call->timer, on_timer, run_ms, 0);
    }
}

/* This address leads nowhere: the next one, from the loop. */
static void
give_address_up(struct httpc *call, int error)
{
    call->error = error;
    call->why = sock_why(&call->conn->sock);
    close_sock(call);
}

/* Goes on with a connection that is not made yet. */
static void
go_on(struct httpc *call)
{
    struct httpc_conn *conn = call->conn;
    int error = conn->secure ? 0 : sock_connect_result(&conn->sock);

    if (error == 0 && call->tls != NULL && !conn->secure) {
        error = sock_secure_to(&conn->sock, call->tls, call->host, NULL);
        conn->secure = error == 0;
    }
    if (error == 0 && conn->secure) {
        error = sock_shake(&conn->sock);
    }
    if (error == -EAGAIN) {
        return;
    }
    if (error != 0) {
        give_address_up(call, error);
        return;
    }
    call->connecting = false;
    call->error = 0;
    call->why = "";
    start_timer(call, 1);
    httpc_answer_start(call);
}

static void
on_ready(struct sock *sock, int events)
{
    struct httpc_conn *conn = (struct httpc_conn *)(void *)sock; /* its first */

    if (conn->call != NULL && conn->call->connecting) {
        go_on(conn->call);
    } else {
        httpc_answer_ready(conn, events);
    }
}

/* 0, or -errno and there is nothing to close. */
static int
begin(struct httpc *call, const struct sockaddr_storage *to)
{
    struct httpc_conn *conn = call->conn;
    socklen_t len = to->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                              : sizeof(struct sockaddr_in);
    int fd = sock_connect_begin((const struct sockaddr *)to, len);
    int error = fd < 0 ? fd : sock_open(&conn->sock, call->loop, fd, on_ready);

    if (error == 0) {
        conn->secure = false;
        conn->peer = *to;
        call->holds++;
        call->has_sock = true;
        sock_want(&conn->sock, SOCK_WRITE);
    }
    return error;
}

/* Failures end in on_sock_closed() or in the timer, so that none is reported
 * from within httpc_start(). */
static void
try_next(struct httpc *call)
{
    CHECK(!call->over && !call->has_sock);
    CHECK(call->addresses_tried <= call->addresses_count);
    if (call->addresses_tried == call->addresses_count) {
        httpc_finish(call, call->why[0] != '\0' ? HTTPC_TLS : HTTPC_CONNECT);
        return;
    }
    unsigned shares = call->addresses_count - call->addresses_tried;
    int error = begin(call, &call->addresses[call->addresses_tried]);

    call->addresses_tried++;
    if (error == 0) {
        call->connecting = true;
        start_timer(call, shares);
        return;
    }
    call->error = error;
    call->stuck = true;
    (void)uv_timer_start(&call->timer, on_timer, 0, 0); /* cannot fail */
}

static void
add_address(struct httpc *call, const struct sockaddr *address)
{
    size_t size = address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                 : sizeof(struct sockaddr_in);

    if (call->addresses_count < HTTPC_ADDRESSES_MAX &&
        ranges_find(&call->deny, address) == NULL &&
        (address->sa_family == AF_INET || address->sa_family == AF_INET6)) {
        memcpy(&call->addresses[call->addresses_count], address, size);
        call->addresses_count++;
    }
}

static void
on_resolved(uv_getaddrinfo_t *resolve, int status, struct addrinfo *found)
{
    struct httpc *call = resolve->data;

    call->resolving = false;
    if (call->over) {
        uv_freeaddrinfo(found);
        httpc_drop(call);
        return;
    }
    for (struct addrinfo *at = found; at != NULL; at = at->ai_next) {
        add_address(call, at->ai_addr);
    }
    uv_freeaddrinfo(found);
    if (status != 0 || call->addresses_count == 0) {
        call->error = status != 0 ? status : UV_EACCES; /* denied */
        httpc_finish(call, HTTPC_RESOLVE);
    } else {
        try_next(call);
    }
    httpc_drop(call);
}

/* Sockaddrs of numeric hosts; true when host was one. */
static bool
add_numeric(struct httpc *call, const char *host)
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;

    if (uv_ip4_addr(host, call->port, &v4) == 0) {
        add_address(call, (const struct sockaddr *)&v4);
    } else if (uv_ip6_addr(host, call->port, &v6) == 0) {
        add_address(call, (const struct sockaddr *)&v6);
    }
    return call->addresses_count != 0;
}

void
httpc_connect_to(struct httpc *call, const struct sockaddr *address)
{
    add_address(call, address);
    CHECK(call->addresses_count == 1); /* IPv4 or IPv6 */
    if (!httpc_conn_take(call, address)) {
        try_next(call);
        return;
    }
    call->holds++;
    call->has_sock = true;
    call->reused = true;
    start_timer(call, 1);
    httpc_answer_start(call);
}

int
httpc_connect_start(struct httpc *call, const char *host)
{
    static const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                          .ai_socktype = SOCK_STREAM,
                                          .ai_flags = AI_NUMERICSERV};
    char service[8];

    if (add_numeric(call, host)) {
        try_next(call);
        return 0;
    }
    (void)snprintf(service, sizeof(service), "%u", (unsigned)call->port);
    call->resolve.data = call;
    int error = uv_getaddrinfo(call->loop, &call->resolve, on_resolved, host,
                               service, &hints);
    if (error != 0) {
        return error;
    }
    call->holds++;
    call->resolving = true;
    start_timer(call, 1);
    return 0;
}
