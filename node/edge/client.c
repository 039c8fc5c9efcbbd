/* One client connection: requests in, answers out, one at a time. */
#include "node/edge/client_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define RESERVED_MAX 64U
#define REFUSED_MAX  64U /* of a lane, that are lingered for */

static void read_request(struct client *client) ON_LANE;

static struct client *
client_of(struct sock *sock)
{
    return (struct client *)(void *)sock; /* its first member */
}

void
client_update_interest(struct client *client)
{
    int events = client->out != NULL ? SOCK_WRITE : 0;
    bool room = client->in == NULL || client->in_len < client->in_size;

    switch (client->state) {
    case CLIENT_READING:
    case CLIENT_LINGER:
        events |= SOCK_READ;
        break;
    case CLIENT_BUSY:
        if (list_is_empty(&client->reading)) {
            events |= room ? SOCK_READ : SOCK_GONE;
        }
        break;
    case CLIENT_CLOSED:
        return;
    }
    sock_want(&client->sock, events);
}

/* The end of a connection */

static void
on_closed(struct sock *sock)
{
    struct client *client = client_of(sock);
    struct lane *lane = client->lane;

    client->next = lane->free_clients;
    lane->free_clients = client;
}

/* One that was refused takes nobody's place. */
static void
count(struct client *client, int32_t more)
{
    struct lane *lane = client->lane;

    if (client->quota == NULL) {
        lane->refused_count += (uint32_t)more;
        return;
    }
    gauge_add(&lane->node->connections, more);
    gauge_add(&client->quota->connections, more);
    gauge_add(&lane->shared->connections, more);
}

void
client_close(struct client *client, bool reset)
{
    struct lane *lane = client->lane;

    CHECK(client->state != CLIENT_CLOSED);
    client->state = CLIENT_CLOSED;
    if (client->exchange != NULL) {
        exchange_cancel(client->exchange);
    }
    if (client->pick != NULL) {
        pick_client_gone(client->pick);
        client->pick = NULL;
    }
    reading_drop(client);
    client_give_in(client);
    client_give_out(client);
    deadline_clear(&client->deadline);
    *client->prev = client->next;
    if (client->next != NULL) {
        client->next->prev = client->prev;
    }
    lane->clients_count--;
    count(client, -1);
    sock_close(&client->sock, reset, on_closed);
    lane_check_drained(lane);
}

/* Whether there may be more to read. Who has yet to get the end of an answer
 * does not know that it is the last one. */
static bool
may_send_more(const struct client *client)
{
    return client->drop || client->in_len > client->request_bytes ||
           !sock_is_quiet(&client->sock) ||
           (client->framing.keep_alive && sock_holds(&client->sock));
}

static void ON_LANE
linger(struct client *client)
{
    client->state = CLIENT_LINGER;
    sock_end(&client->sock);
    lane_time(client->lane, &client->deadline, LANE_TIMEOUT_LINGER);
    client_update_interest(client);
}

/*
 * Closing while unread bytes are in the kernel resets the connection, as bytes
 * that come later do, and a reset can overtake answers. So where the client may
 * send more: ends our direction, reads on for a while and throws away.
 */
void
client_end(struct client *client)
{
    if (!may_send_more(client)) {
        client_close(client, false);
        return;
    }
    client_give_in(client);
    client_give_out(client);
    linger(client);
}

static void ON_LANE
read_and_drop(struct client *client)
{
    ssize_t n = sock_recv(&client->sock, client->lane->scratch,
                          sizeof(client->lane->scratch));

    if (n == -EAGAIN) {
        return;
    }
    client->lingered += n > 0 ? (size_t)n : 0;
    if (n <= 0 || client->lingered > EDGE_LINGER_BYTES) {
        client_close(client, false);
    }
}

void
client_expired(struct client *client)
{
    struct lane *lane = client->lane;

    if ((client->state == CLIENT_READING && client->in_len != 0) ||
        client->framing.missing != 0) {
        counter_bump(&lane->shared->metrics.timeouts_client, 1);
        request_refuse(client, 408, "request_timeout",
                       client->framing.known
                           ? "no more of the request body came"
                           : "the request head did not come whole");
        return;
    }
    if (client->out != NULL) {
        counter_bump(&lane->shared->metrics.timeouts_client, 1);
    }
    client_close(client, client->out != NULL);
}

void
client_drain(struct client *client)
{
    client->close_after = true;
    if (client->state == CLIENT_READING && client->in_len == 0) {
        /* There may be a request that was not read yet. */
        read_request(client);
    }
    /* With TLS it may be in the middle of its handshake, or of a record. */
    if (client->state == CLIENT_READING && client->in_len == 0 &&
        sock_is_quiet(&client->sock)) {
        client_close(client, false);
    }
}

/* Requests */

void
client_process(struct client *client)
{
    struct lane *lane = client->lane;

    client->processing = true;
    while (client->state == CLIENT_READING && client->in_len != 0 &&
           client_frame(client) == FRAME_WHOLE) {
        deadline_clear(&client->deadline);
        client->state = CLIENT_BUSY;
        client->close_after =
            !client->framing.keep_alive || lane->leaving || client->reserved;
        if (!reading_begin(client)) {
            request_serve(client);
        }
    }
    client->processing = false;
    if (client->state == CLIENT_READING && client->in_len == 0) {
        client_give_in(client);
        if (lane->draining) {
            client_close(client, false);
            return;
        }
        lane_time(lane, &client->deadline, LANE_TIMEOUT_IDLE);
    }
    client_update_interest(client);
}

static void ON_LANE
read_request(struct client *client)
{
    if (client->in == NULL && !client_grow_in(client, EDGE_INPUT_BYTES)) {
        (void)client_refuse_overload(client);
        return;
    }
    CHECK(client->in_len < client->in_size);
    ssize_t n = sock_recv(&client->sock, client->in + client->in_len,
                          client->in_size - client->in_len);
    if (n > 0) {
        client->in_len += (size_t)n;
        client_process(client);
    } else if (n != -EAGAIN) {
        counter_bump(&client->lane->shared->metrics.tls_failed, n == -EPROTO);
        client_close(client, false);
    } else if (client->in_len == 0) {
        client_give_in(client);
    }
}

/* While an answer is on its way: pipelined bytes are kept, as far as there is
 * room, and the client's end cancels. */
static void ON_LANE
read_ahead(struct client *client)
{
    if (client->in == NULL && !client_grow_in(client, LANE_MEMORY_SMALLEST)) {
        client_close(client, true);
        return;
    }
    size_t room = client->in_size - client->in_len;
    ssize_t n =
        room != 0 ? sock_recv(&client->sock, client->in + client->in_len, room)
                  : -ECONNRESET; /* not reading, so it is the end */
    if (n > 0) {
        client->in_len += (size_t)n;
        client_update_interest(client);
    } else if (n != -EAGAIN) {
        client_close(client, false);
    } else if (client->in_len == 0) {
        client_give_in(client);
    }
}

static void
on_ready(struct sock *sock, int events)
{
    role_is_lane();
    struct client *client = client_of(sock);

    if ((events & SOCK_WRITE) != 0 && client->out != NULL) {
        client_flush(client);
    }
    if ((events & (SOCK_READ | SOCK_GONE)) == 0) {
        return;
    }
    switch (client->state) {
    case CLIENT_READING:
        read_request(client);
        break;
    case CLIENT_BUSY:
        if (client->framing.missing != 0) {
            form_read(client);
        } else {
            read_ahead(client);
        }
        break;
    case CLIENT_LINGER:
        read_and_drop(client);
        break;
    case CLIENT_CLOSED:
        break;
    }
}

/* The beginning of a connection */

static struct client *
allocate(struct lane *lane)
{
    struct client *client = lane->free_clients;

    if (client != NULL) {
        lane->free_clients = client->next;
    } else {
        client = malloc(sizeof(*client));
    }
    if (client != NULL) {
        *client = (struct client){.lane = lane};
        list_init(&client->reading);
    }
    return client;
}

/* A client with this descriptor, which is closed if there is none. quota: of its
 * address, or NULL if it was refused. */
static struct client *ON_LANE
enter(struct lane *lane, int fd, struct quota_bucket *quota)
{
    struct client *client = allocate(lane);

    if (client == NULL) {
        (void)close(fd);
        return NULL;
    }
    if (sock_open(&client->sock, &lane->loop, fd, on_ready) < 0) {
        free(client);
        return NULL;
    }
    client->quota = quota;
    client->next = lane->clients;
    client->prev = &lane->clients;
    if (lane->clients != NULL) {
        lane->clients->prev = &client->next;
    }
    lane->clients = client;
    lane->clients_count++;
    lane_set_tick(lane);
    return client;
}

/* Says so at once, without waiting for a request; but not to who waits for a
 * handshake, which would cost more than it tells. What the client sends all the
 * same is read and thrown away, for as many at a time as there is room for. */
static void ON_LANE
refuse_connection(struct lane *lane, int fd, bool picked)
{
    static const char body[] =
        "{\"error\":{\"message\":\"too many connections; try again\","
        "\"type\":\"server_error\",\"code\":\"overloaded\"}}";
    char text[512];
    int len = snprintf(text, sizeof(text),
                       "HTTP/1.1 503 Service Unavailable\r\n"
                       "Content-Type: application/json\r\n"
                       "Content-Length: %zu\r\nx-kvasir-node: %s\r\n"
                       "Connection: close\r\n\r\n%s",
                       sizeof(body) - 1, lane->node->config->name, body);
    bool tells = picked || publish_get(&lane->node->tls) == NULL;

    CHECK(len > 0 && (size_t)len < sizeof(text));
    if (tells) {
        (void)send(fd, text, (size_t)len, MSG_NOSIGNAL);
    }
    if (!tells || picked || fd >= lane->node->fd_max ||
        lane->refused_count >= REFUSED_MAX) {
        (void)close(fd);
        return;
    }
    struct client *client = enter(lane, fd, NULL);
    if (client != NULL) {
        count(client, 1);
        linger(client);
    }
}

/* Connections beyond the limit, for who asks for health. */
static uint32_t
reserve_of(uint32_t connections_max)
{
    uint32_t part = connections_max / 8 + 4;

    return part < RESERVED_MAX ? part : RESERVED_MAX;
}

/* Whether another connection of that address fits; counts why not. */
static bool
admit(struct lane *lane, int fd, const struct quota_bucket *quota)
{
    struct node_shared *node = lane->node;
    struct metrics_lane *metrics = &lane->shared->metrics;
    uint32_t cap = lane->limits.client_connections_max;
    uint32_t all = gauge_read(&node->connections);
    uint32_t max = gauge_read(&node->connections_max);
    const struct quota_ask ask = {
        .own = gauge_read(&quota->connections),
        .more = 1,
        .all = all,
        .max = all < max ? max : max + reserve_of(max),
        .cap = cap < max ? cap : UINT64_MAX,
        .floor = 1,
    };
    enum quota_verdict verdict = quota_judge(&ask);

    if (verdict == QUOTA_OVER) {
        counter_bump(&metrics->connections_over_share, 1);
        return false;
    }
    if (verdict == QUOTA_FULL || fd >= node->fd_max) {
        counter_bump(&metrics->connections_refused, 1);
        return false;
    }
    return true;
}

static void
count_in(struct client *client)
{
    struct lane *lane = client->lane;

    client->reserved = gauge_read(&lane->node->connections) >=
                       gauge_read(&lane->node->connections_max);
    if (client->reserved) {
        counter_bump(&lane->shared->metrics.connections_reserved, 1);
    }
    counter_bump(&lane->shared->metrics.connections, 1);
    count(client, 1);
}

/* By the certificate that was read last. False: there is no memory for it. */
static bool ON_LANE
secure(struct client *client)
{
    struct node_shared *node = client->lane->node;
    int error = 0;

    if (client->picked || publish_get(&node->tls) == NULL) {
        return true;
    }
    qsbr_online(&node->qsbr, client->lane->shared->reader);
    const struct node_tls *tls = publish_get(&node->tls);
    error = sock_secure(&client->sock, tls->context);
    qsbr_offline(client->lane->shared->reader);
    return error == 0;
}

static void
set_peer(struct client *client, const struct sockaddr *peer)
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;

    if (peer->sa_family == AF_INET) {
        memcpy(&v4, peer, sizeof v4);
        client->peer_size = sizeof v4.sin_addr;
        memcpy(client->peer, &v4.sin_addr, sizeof v4.sin_addr);
    } else if (peer->sa_family == AF_INET6) {
        memcpy(&v6, peer, sizeof v6);
        client->peer_size = sizeof v6.sin6_addr;
        memcpy(client->peer, &v6.sin6_addr, sizeof v6.sin6_addr);
    }
}

struct client *
client_new(struct lane *lane, int fd, const struct sockaddr *peer,
           struct pick *pick)
{
    struct quota_bucket *quota = quota_of(&lane->node->quota, peer);

    if (!admit(lane, fd, quota)) {
        refuse_connection(lane, fd, pick != NULL);
        return NULL;
    }
    struct client *client = enter(lane, fd, quota);
    if (client == NULL) {
        return NULL;
    }
    client->pick = pick;
    client->picked = pick != NULL;
    set_peer(client, peer);
    count_in(client);
    lane_time(lane, &client->deadline,
              client->reserved ? LANE_TIMEOUT_RESERVED : LANE_TIMEOUT_HEAD);
    if (!secure(client)) {
        client_close(client, true);
        return NULL;
    }
    client_update_interest(client);
    return client;
}
