/* The client: from a name to a connection, one address after the other. */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>

#include "node/http/httpc_call_internal.h"

static void try_next(struct httpc *call);

static void
on_tcp_closed(uv_handle_t *handle)
{
    struct httpc_conn *conn = handle->data;
    struct httpc *call = conn->call;

    if (!call->over) {
        try_next(call);
    }
    httpc_drop(call);
}

static void
close_tcp(struct httpc *call)
{
    if (call->has_tcp) {
        call->has_tcp = false;
        call->connecting = false;
        uv_close((uv_handle_t *)&call->conn->tcp, on_tcp_closed);
    }
}

void
httpc_connect_stop(struct httpc *call)
{
    close_tcp(call);
    if (call->resolving) {
        /* When it runs already, on_resolved() comes later and sees `over`. */
        (void)uv_cancel((uv_req_t *)&call->resolve);
    }
}

void
httpc_connect_again(struct httpc *call)
{
    call->reused = false;
    close_tcp(call);
}

static void
on_timer(uv_timer_t *timer)
{
    struct httpc *call = timer->data;

    if (call->over) {
        return;
    }
    call->error = -ETIMEDOUT;
    if (uv_now(call->loop) >= call->end_ms) {
        httpc_finish(call, HTTPC_TIMEOUT);
    } else if (call->connecting) {
        close_tcp(call); /* the next address, once that is done */
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

static void
on_connect(uv_connect_t *connect, int status)
{
    struct httpc *call = connect->data;

    if (call->over || !call->connecting) {
        return;
    }
    if (status != 0) {
        call->error = status;
        close_tcp(call);
        return;
    }
    call->connecting = false;
    call->error = 0;
    (void)uv_tcp_nodelay(&call->conn->tcp, 1); /* slower without, no worse */
    start_timer(call, 1);
    httpc_answer_start(call);
}

/* Failures end in on_tcp_closed(), so that none is reported from within
 * httpc_start(). */
static void
try_next(struct httpc *call)
{
    CHECK(!call->over && !call->has_tcp);
    CHECK(call->addresses_tried <= call->addresses_count);
    if (call->addresses_tried == call->addresses_count) {
        httpc_finish(call, HTTPC_CONNECT);
        return;
    }
    unsigned shares = call->addresses_count - call->addresses_tried;
    const struct sockaddr_storage *to = &call->addresses[call->addresses_tried];
    struct httpc_conn *conn = call->conn;
    int error = uv_tcp_init(call->loop, &conn->tcp);

    CHECK(error == 0); /* makes no socket yet */
    call->addresses_tried++;
    conn->tcp.data = conn;
    conn->peer = *to;
    call->connect.data = call;
    call->holds++;
    call->has_tcp = true;
    call->connecting = true;
    start_timer(call, shares);
    error = uv_tcp_connect(&call->connect, &conn->tcp,
                           (const struct sockaddr *)to, on_connect);
    if (error != 0) {
        call->error = error;
        close_tcp(call);
    }
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
    call->has_tcp = true;
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
