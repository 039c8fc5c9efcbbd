/* The client: connections that wait for the next call. */
#include <netinet/in.h>
#include <stdlib.h>

#include "node/http/httpc_call_internal.h"

struct httpc_conn *
httpc_conn_new(struct httpc *call)
{
    struct httpc_conn *conn = malloc(sizeof(*conn));

    if (conn != NULL) {
        conn->call = call;
    }
    return conn;
}

static void
on_closed(struct sock *sock)
{
    free(sock); /* the first of its connection */
}

void
httpc_hang_up(struct httpc_conn **waits)
{
    if (*waits != NULL) {
        sock_close(&(*waits)->sock, false, on_closed);
        *waits = NULL;
    }
}

static bool
leads_to(const struct httpc_conn *conn, const struct sockaddr *address)
{
    const struct sockaddr *peer = (const struct sockaddr *)&conn->peer;

    if (peer->sa_family != address->sa_family) {
        return false;
    }
    if (peer->sa_family == AF_INET6) {
        return memcmp(peer, address, sizeof(struct sockaddr_in6)) == 0;
    }
    const struct sockaddr_in *one = (const struct sockaddr_in *)&conn->peer;
    struct sockaddr_in other;
    memcpy(&other, address, sizeof(other));
    return one->sin_port == other.sin_port &&
           one->sin_addr.s_addr == other.sin_addr.s_addr;
}

bool
httpc_conn_take(struct httpc *call, const struct sockaddr *address)
{
    if (call->waits == NULL || *call->waits == NULL) {
        return false;
    }
    if (!leads_to(*call->waits, address) ||
        (*call->waits)->secure != (call->tls != NULL)) {
        httpc_hang_up(call->waits);
        return false;
    }
    CHECK(!call->has_sock && (*call->waits)->call == NULL);
    free(call->conn); /* was not opened */
    call->conn = *call->waits;
    *call->waits = NULL;
    call->conn->call = call;
    return true;
}

void
httpc_conn_leave(struct httpc *call)
{
    struct httpc_conn *conn = call->conn;

    if (call->waits == NULL || *call->waits != NULL || !call->has_sock ||
        call->writing || call->extra || !call->head.keep_alive ||
        call->head.body == HTTP_BODY_CLOSE) {
        return;
    }
    CHECK(conn->call == call);
    conn->call = NULL;
    conn->waits = call->waits;
    *call->waits = conn;
    call->conn = NULL;
    call->has_sock = false;
    httpc_drop(call);
}
