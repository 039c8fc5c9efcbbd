/*
 * One client connection: requests in, answers out, one at a time.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "node/edge/edge_internal.h"

#define CONTINUE    "HTTP/1.1 100 Continue\r\n\r\n"
#define CLAIM_BYTES ((size_t)1 << 20) /* of a body, before it has come */

static void process(struct client *client) ON_LANE;
static void read_request(struct client *client) ON_LANE;

static struct client *
client_of(struct sock *sock)
{
    return (struct client *)(void *)sock; /* its first member */
}

/* Buffers */

static void ON_LANE
give_in(struct client *client)
{
    if (client->in != NULL) {
        lane_memory_give(&client->lane->memory, client->in, client->in_size);
        client->in = NULL;
        client->in_size = 0;
        client->in_len = 0;
    }
}

static void ON_LANE
give_out(struct client *client)
{
    if (client->out != NULL) {
        lane_memory_give(&client->lane->memory, client->out, client->out_size);
        client->out = NULL;
    }
}

/* Makes room for size bytes in all; false: the node's bound is reached. */
static bool ON_LANE
grow_in(struct client *client, size_t size)
{
    size_t got;

    if (size <= client->in_size) {
        return true;
    }
    char *grown = lane_memory_take(&client->lane->memory, size, &got);
    if (grown == NULL) {
        return false;
    }
    if (client->in != NULL) {
        memcpy(grown, client->in, client->in_len);
        lane_memory_give(&client->lane->memory, client->in, client->in_size);
    }
    client->in = grown;
    client->in_size = got;
    return true;
}

/* What to wait for follows from the state; called when that changed. */
static void
update_interest(struct client *client)
{
    int events = client->out != NULL ? SOCK_WRITE : 0;
    bool room = client->in == NULL || client->in_len < client->in_size;

    switch (client->state) {
    case CLIENT_READING:
    case CLIENT_LINGER:
        events |= SOCK_READ;
        break;
    case CLIENT_BUSY:
        events |= room ? SOCK_READ : SOCK_GONE;
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

void
client_close(struct client *client, bool reset)
{
    struct lane *lane = client->lane;

    CHECK(client->state != CLIENT_CLOSED);
    client->state = CLIENT_CLOSED;
    if (client->exchange != NULL) {
        exchange_cancel(client->exchange);
    }
    give_in(client);
    give_out(client);
    deadline_clear(&client->deadline);
    *client->prev = client->next;
    if (client->next != NULL) {
        client->next->prev = client->prev;
    }
    lane->clients_count--;
    gauge_add(&lane->node->connections, -1);
    gauge_add(&lane->shared->connections, -1);
    sock_close(&client->sock, reset, on_closed);
    lane_check_drained(lane);
}

/*
 * Closing while unread bytes are in the kernel resets the connection, and a
 * reset can overtake the answer. So after an error: send, end our direction,
 * read on for a while and throw away.
 */
static void ON_LANE
linger(struct client *client)
{
    client->state = CLIENT_LINGER;
    give_in(client);
    (void)shutdown(client->sock.fd, SHUT_WR);
    lane_time(client->lane, &client->deadline, LANE_TIMEOUT_LINGER);
    update_interest(client);
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

    if (client->state == CLIENT_READING && client->in_len != 0) {
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
        /* A request may have come that nobody has looked at yet. */
        read_request(client);
    }
    if (client->state == CLIENT_READING && client->in_len == 0) {
        client_close(client, false);
    }
}

/* Answers */

/* Copies what the kernel did not take, from byte `taken` on. */
static int ON_LANE
keep_rest(struct client *client, const struct iovec *parts, unsigned count,
          size_t taken)
{
    size_t rest = 0;

    for (unsigned i = 0; i < count; i++) {
        rest += parts[i].iov_len;
    }
    rest -= taken;
    client->out =
        lane_memory_take(&client->lane->memory, rest, &client->out_size);
    if (client->out == NULL) {
        return -ENOBUFS;
    }
    client->out_len = 0;
    client->out_at = 0;
    for (unsigned i = 0; i < count; i++) {
        size_t skip = taken < parts[i].iov_len ? taken : parts[i].iov_len;
        memcpy(client->out + client->out_len,
               (const char *)parts[i].iov_base + skip, parts[i].iov_len - skip);
        client->out_len += parts[i].iov_len - skip;
        taken -= skip;
    }
    return 0;
}

int
client_send(struct client *client, const struct iovec *parts, unsigned count)
{
    size_t all = 0;

    CHECK(client->out == NULL);
    for (unsigned i = 0; i < count; i++) {
        all += parts[i].iov_len;
    }
    ssize_t n = sock_send(&client->sock, parts, count);
    if (n < 0) {
        return (int)n;
    }
    if ((size_t)n == all) {
        return 0;
    }
    int error = keep_rest(client, parts, count, (size_t)n);
    if (error < 0) {
        return error;
    }
    lane_time(client->lane, &client->deadline, LANE_TIMEOUT_WRITE);
    update_interest(client);
    return CLIENT_E_PENDING;
}

static void ON_LANE
flush(struct client *client)
{
    struct iovec rest = {
        .iov_base = client->out + client->out_at,
        .iov_len = client->out_len - client->out_at,
    };
    ssize_t n = sock_send(&client->sock, &rest, 1);

    if (n < 0) {
        client_close(client, true);
        return;
    }
    client->out_at += (size_t)n;
    if (client->out_at < client->out_len) {
        lane_time(client->lane, &client->deadline, LANE_TIMEOUT_WRITE);
        return;
    }
    give_out(client);
    deadline_clear(&client->deadline);
    update_interest(client);
    if (client->exchange != NULL) {
        exchange_drained(client->exchange);
    } else {
        client_answered(client);
    }
}

void
client_release_request(struct client *client)
{
    size_t left = client->in_len - client->request_bytes;

    if (client->in == NULL) {
        return;
    }
    if (left == 0) {
        give_in(client);
    } else {
        memmove(client->in, client->in + client->request_bytes, left);
        client->in_len = left;
    }
    client->request_bytes = 0;
}

void
client_answered(struct client *client)
{
    CHECK(client->state == CLIENT_BUSY && client->exchange == NULL);
    if (client->close_after) {
        if (client->drop) {
            linger(client);
        } else {
            client_close(client, false);
        }
        return;
    }
    client_release_request(client);
    client->framing = (struct client_framing){.known = false};
    client->state = CLIENT_READING;
    if (!client->processing) {
        process(client);
    }
}

/* Requests */

/* Everything before the body is known. */
static void
note_framing(struct client *client, const struct http_head *head)
{
    client->framing = (struct client_framing){
        .known = true,
        .keep_alive = head->keep_alive,
        .minor_0 = head->minor == 0,
        .expect = head->expect_continue,
        .chunked = head->body == HTTP_BODY_CHUNKED,
        .head_bytes = head->size_bytes,
        .body_bytes =
            head->body == HTTP_BODY_LENGTH ? (size_t)head->content_length : 0,
        .raw_at = head->size_bytes,
    };
}

enum {
    FRAME_WHOLE,
    FRAME_MORE,
    FRAME_REFUSED,
};

static int ON_LANE
refuse_overload(struct client *client)
{
    counter_bump(&client->lane->shared->metrics.requests_overload, 1);
    request_refuse(client, 503, "overloaded",
                   "limits.buffered_bytes_max is reached; try again");
    return FRAME_REFUSED;
}

static int ON_LANE
refuse_too_large(struct client *client)
{
    counter_bump(&client->lane->shared->metrics.requests_too_large, 1);
    request_refuse(client, 413, "body_too_large",
                   "the request body is larger than limits.body_bytes_max");
    return FRAME_REFUSED;
}

static int ON_LANE
frame_head(struct client *client)
{
    struct lane *lane = client->lane;
    const struct config_limits *limits = &lane->node->config->limits;
    int outcome = http_head_parse_request(client->in, client->in_len,
                                          &lane->request_limits, &lane->head);

    if (outcome == HTTP_E_MORE) {
        if (client->deadline.list != &lane->timeouts[LANE_TIMEOUT_HEAD]) {
            lane_time(lane, &client->deadline, LANE_TIMEOUT_HEAD);
        }
        return client->in_len < client->in_size ||
                       grow_in(client, client->in_size + 1)
                   ? FRAME_MORE
                   : refuse_overload(client);
    }
    if (outcome != 0) {
        request_refuse(client, lane->head.fault_status, "bad_request",
                       lane->head.fault);
        return FRAME_REFUSED;
    }
    if (lane->head.body == HTTP_BODY_LENGTH &&
        lane->head.content_length > limits->body_bytes_max) {
        return refuse_too_large(client);
    }
    note_framing(client, &lane->head);
    return FRAME_WHOLE;
}

/* The body is not all here: wait for it, asking for it if need be. */
static int ON_LANE
await_body(struct client *client, size_t room)
{
    struct iovec go = {.iov_base = (void *)(uintptr_t)CONTINUE,
                       .iov_len = sizeof(CONTINUE) - 1};

    if (!grow_in(client, room)) {
        return refuse_overload(client);
    }
    if (client->framing.expect) {
        client->framing.expect = false;
        if (sock_send(&client->sock, &go, 1) != (ssize_t)go.iov_len) {
            client_close(client, true);
            return FRAME_REFUSED;
        }
    }
    lane_time(client->lane, &client->deadline, LANE_TIMEOUT_BODY);
    return FRAME_MORE;
}

static int ON_LANE
frame_length(struct client *client)
{
    size_t all = client->framing.head_bytes + client->framing.body_bytes;

    if (client->in_len < all) {
        /* A length is only a claim: large room is given as bytes arrive. */
        size_t room =
            2 * client->in_len > CLAIM_BYTES ? 2 * client->in_len : CLAIM_BYTES;
        return await_body(client, all < room ? all : room);
    }
    client->request_bytes = all;
    return FRAME_WHOLE;
}

/* Decodes in place: data moves down over the framing it came in. */
static int ON_LANE
frame_chunked(struct client *client)
{
    struct client_framing *f = &client->framing;
    uint64_t max = client->lane->node->config->limits.body_bytes_max;
    struct slice raw = {.ptr = client->in + f->raw_at,
                        .len = client->in_len - f->raw_at};
    struct slice data;
    int outcome;

    while ((outcome = http_chunk_next(&f->chunk, &raw, &data)) ==
           HTTP_CHUNK_E_DATA) {
        if (f->body_bytes + data.len > max) {
            return refuse_too_large(client);
        }
        memmove(client->in + f->head_bytes + f->body_bytes, data.ptr, data.len);
        f->body_bytes += data.len;
    }
    if (outcome == HTTP_CHUNK_E_BAD) {
        request_refuse(client, 400, "bad_request", f->chunk.fault);
        return FRAME_REFUSED;
    }
    if (outcome == HTTP_CHUNK_E_MORE) {
        f->raw_at = f->head_bytes + f->body_bytes;
        client->in_len = f->raw_at;
        return await_body(client, client->in_len + EDGE_INPUT_BYTES / 2);
    }
    client->request_bytes = client->in_len - raw.len;
    return FRAME_WHOLE;
}

/* Finds the end of the request at client->in. With FRAME_WHOLE the lane's
 * head is that request's. */
static int ON_LANE
frame(struct client *client)
{
    struct lane *lane = client->lane;
    bool fresh = !client->framing.known;

    if (fresh) {
        int outcome = frame_head(client);
        if (outcome != FRAME_WHOLE) {
            return outcome;
        }
    }
    int outcome =
        client->framing.chunked ? frame_chunked(client) : frame_length(client);
    if (outcome == FRAME_WHOLE && !fresh) {
        /* Others have used the lane's head since; cheaper than keeping it. */
        CHECK(http_head_parse_request(client->in, client->in_len,
                                      &lane->request_limits, &lane->head) == 0);
    }
    return outcome;
}

static void ON_LANE
process(struct client *client)
{
    struct lane *lane = client->lane;

    client->processing = true;
    while (client->state == CLIENT_READING && client->in_len != 0 &&
           frame(client) == FRAME_WHOLE) {
        deadline_clear(&client->deadline);
        client->state = CLIENT_BUSY;
        client->close_after = !client->framing.keep_alive || lane->draining;
        request_serve(client);
    }
    client->processing = false;
    if (client->state == CLIENT_READING && client->in_len == 0) {
        give_in(client);
        if (lane->draining) {
            client_close(client, false);
            return;
        }
        lane_time(lane, &client->deadline, LANE_TIMEOUT_IDLE);
    }
    update_interest(client);
}

static void ON_LANE
read_request(struct client *client)
{
    if (client->in == NULL && !grow_in(client, EDGE_INPUT_BYTES)) {
        (void)refuse_overload(client);
        return;
    }
    CHECK(client->in_len < client->in_size);
    ssize_t n = sock_recv(&client->sock, client->in + client->in_len,
                          client->in_size - client->in_len);
    if (n > 0) {
        client->in_len += (size_t)n;
        process(client);
    } else if (n != -EAGAIN) {
        client_close(client, false);
    } else if (client->in_len == 0) {
        give_in(client);
    }
}

/* While an answer is on its way: pipelined bytes are kept, as far as there is
 * room, and the client's end cancels. */
static void ON_LANE
read_ahead(struct client *client)
{
    if (client->in == NULL && !grow_in(client, LANE_MEMORY_SMALLEST)) {
        client_close(client, true);
        return;
    }
    size_t room = client->in_size - client->in_len;
    ssize_t n =
        room != 0 ? sock_recv(&client->sock, client->in + client->in_len, room)
                  : -ECONNRESET; /* not reading, so it is the end */
    if (n > 0) {
        client->in_len += (size_t)n;
        update_interest(client);
    } else if (n != -EAGAIN) {
        client_close(client, false);
    } else if (client->in_len == 0) {
        give_in(client);
    }
}

static void
on_ready(struct sock *sock, int events)
{
    role_is_lane();
    struct client *client = client_of(sock);

    if ((events & SOCK_WRITE) != 0 && client->out != NULL) {
        flush(client);
    }
    if ((events & (SOCK_READ | SOCK_GONE)) == 0) {
        return;
    }
    switch (client->state) {
    case CLIENT_READING:
        read_request(client);
        break;
    case CLIENT_BUSY:
        read_ahead(client);
        break;
    case CLIENT_LINGER:
        read_and_drop(client);
        break;
    case CLIENT_CLOSED:
        break;
    }
}

/* The beginning of a connection */

static void
refuse_connection(struct lane *lane, int fd)
{
    static const char full[] =
        "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n"
        "Connection: close\r\n\r\n";

    counter_bump(&lane->shared->metrics.connections_refused, 1);
    (void)send(fd, full, sizeof(full) - 1, MSG_NOSIGNAL);
    (void)close(fd);
}

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
    }
    return client;
}

void
client_new(struct lane *lane, int fd)
{
    if (gauge_read(&lane->node->connections) >=
        lane->node->config->limits.connections_max) {
        refuse_connection(lane, fd);
        return;
    }
    struct client *client = allocate(lane);
    if (client == NULL) {
        refuse_connection(lane, fd);
        return;
    }
    if (sock_open(&client->sock, &lane->loop, fd, on_ready) < 0) {
        free(client);
        return;
    }
    counter_bump(&lane->shared->metrics.connections, 1);
    gauge_add(&lane->node->connections, 1);
    gauge_add(&lane->shared->connections, 1);
    client->next = lane->clients;
    client->prev = &lane->clients;
    if (lane->clients != NULL) {
        lane->clients->prev = &client->next;
    }
    lane->clients = client;
    lane->clients_count++;
    lane_time(lane, &client->deadline, LANE_TIMEOUT_HEAD);
    update_interest(client);
}
