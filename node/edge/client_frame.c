/* Finds the end of a client's request, and has the rest of it come. */
#include "node/base/log.h"
#include "node/edge/client_internal.h"

#define CONTINUE "HTTP/1.1 100 Continue\r\n\r\n"

void
client_give_in(struct client *client)
{
    if (client->in != NULL) {
        lane_memory_give(&client->lane->memory,
                         lane_memory_owner(client->quota, client->in_size),
                         client->in, client->in_size);
        client->in = NULL;
        client->in_size = 0;
        client->in_len = 0;
    }
}

bool
client_grow_in(struct client *client, size_t size)
{
    size_t got;

    if (size <= client->in_size) {
        return true;
    }
    char *grown =
        lane_memory_take(&client->lane->memory,
                         lane_memory_owner(client->quota, size), size, &got);
    if (grown == NULL) {
        return false;
    }
    if (client->in != NULL) {
        memcpy(grown, client->in, client->in_len);
        lane_memory_give(&client->lane->memory,
                         lane_memory_owner(client->quota, client->in_size),
                         client->in, client->in_size);
    }
    client->in = grown;
    client->in_size = got;
    return true;
}

void
client_release_request(struct client *client)
{
    size_t left = client->in_len - client->request_bytes;

    if (client->in == NULL) {
        return;
    }
    if (left == 0) {
        client_give_in(client);
    } else {
        memmove(client->in, client->in + client->request_bytes, left);
        client->in_len = left;
    }
    client->request_bytes = 0;
}

/* What refusals, too, go by. */
static void
note_asker(struct client *client, const struct http_head *head)
{
    const struct http_header *origin = http_head_find(head, HTTP_FIELD_ORIGIN);

    client->framing.head_only = head->method_id == HTTP_HEAD;
    client->framing.messages =
        slice_equal(head->path, SLICE("/v1/messages")) ||
        slice_equal(head->path, SLICE("/v1/messages/count_tokens"));
    client->framing.origin_len = 0;
    if (origin != NULL) {
        client->framing.origin_at = (uint32_t)(origin->value.ptr - client->in);
        client->framing.origin_len = (uint32_t)origin->value.len;
    }
}

/* Everything before the body is known. */
static void
note_framing(struct client *client, const struct http_head *head)
{
    client->framing = (struct client_framing){
        .origin_at = client->framing.origin_at,
        .origin_len = client->framing.origin_len,
        .known = true,
        .keep_alive = head->keep_alive,
        .minor_0 = head->minor == 0,
        .head_only = client->framing.head_only,
        .messages = client->framing.messages,
        .expect = head->expect_continue,
        .chunked = head->body == HTTP_BODY_CHUNKED,
        .form = form_may_go(head),
        .head_bytes = head->size_bytes,
        .body_bytes =
            head->body == HTTP_BODY_LENGTH ? (size_t)head->content_length : 0,
        .raw_at = head->size_bytes,
    };
}

int
client_refuse_overload(struct client *client)
{
    if (client->lane->memory.over_share) {
        request_refuse(client, 429, "client_bytes",
                       "requests from this address hold their share of this "
                       "node's memory (limits.client_bytes_max); try again");
    } else {
        request_refuse(client, 503, "overloaded",
                       "limits.buffered_bytes_max is reached; try again");
    }
    return FRAME_REFUSED;
}

/* The node is full, but for its health. */
static int ON_LANE
refuse_crowd(struct client *client)
{
    request_refuse(client, 503, "overloaded",
                   "limits.connections_max is reached; try again");
    return FRAME_REFUSED;
}

static int ON_LANE
refuse_too_large(struct client *client)
{
    request_refuse(client, 413, "body_too_large",
                   "the request body is larger than limits.body_bytes_max");
    return FRAME_REFUSED;
}

static int ON_LANE
frame_head(struct client *client)
{
    struct lane *lane = client->lane;
    const struct config_limits *limits = &lane->limits;
    struct admission admission;
    int outcome = http_head_parse_request(client->in, client->in_len,
                                          &lane->request_limits, &lane->head);

    if (outcome == HTTP_E_MORE) {
        if (client->deadline.list != &lane->expiries[LANE_TIMEOUT_HEAD] &&
            !client->reserved) {
            lane_time(lane, &client->deadline, LANE_TIMEOUT_HEAD);
        }
        return client->in_len < client->in_size ||
                       client_grow_in(client, client->in_size + 1)
                   ? FRAME_MORE
                   : client_refuse_overload(client);
    }
    if (outcome != 0) {
        if (slice_equal(lane->head.method, SLICE("PRI"))) {
            LOG_WARNING("client_speaks_http2",
                        KV("hint", "HTTP/2 without negotiation (h2c) is not "
                                   "served; have it speak HTTP/1.1"));
        }
        request_refuse(client, lane->head.fault_status, "bad_request",
                       lane->head.fault);
        return FRAME_REFUSED;
    }
    client->judged = true;
    note_asker(client, &lane->head);
    if (client->reserved && route_kind_of(&lane->head, "") != ROUTE_LOCAL) {
        return refuse_crowd(client);
    }
    if (admit_head(client, &admission) == FRAME_REFUSED) {
        return FRAME_REFUSED;
    }
    if (lane->head.body == HTTP_BODY_LENGTH &&
        lane->head.content_length > limits->body_bytes_max) {
        return refuse_too_large(client);
    }
    client->judged = false;
    note_framing(client, &lane->head);
    client->framing.admission = admission;
    return FRAME_WHOLE;
}

void
client_refuse_slow(struct client *client)
{
    counter_bump(&client->lane->shared->metrics.timeouts_client, 1);
    request_refuse(client, 408, "request_timeout",
                   "the request body comes more slowly than "
                   "limits.body_rate_min and timeouts.body_total allow");
}

bool
client_is_slow(struct client *client, size_t came)
{
    struct client_framing *f = &client->framing;
    uint64_t now_us = lane_now_us(client->lane);

    if (f->since_us == 0) {
        f->since_us = now_us;
    }
    return !pace_holds(&client->lane->body_pace, now_us - f->since_us, came);
}

/* The body is not all here: wait for it, asking for it if need be. came: its
 * bytes so far; room: for so many bytes of head and body. */
static int ON_LANE
await_body(struct client *client, size_t came, size_t room)
{
    struct iovec go = {.iov_base = (void *)(uintptr_t)CONTINUE,
                       .iov_len = sizeof(CONTINUE) - 1};

    if (client_is_slow(client, came)) {
        client_refuse_slow(client);
        return FRAME_REFUSED;
    }
    if (!client_grow_in(client, room)) {
        return client_refuse_overload(client);
    }
    if (client->framing.expect) {
        client->framing.expect = false;
        if (sock_send(&client->sock, &go, 1) != (ssize_t)go.iov_len) {
            client_close(client, true);
            return FRAME_REFUSED;
        }
    }
    if (!client->reserved) {
        lane_time(client->lane, &client->deadline, LANE_TIMEOUT_BODY);
    }
    return FRAME_MORE;
}

static int ON_LANE
frame_length(struct client *client)
{
    size_t all = client->framing.head_bytes + client->framing.body_bytes;

    if (client->in_len < all) {
        if (form_goes(client)) {
            return FRAME_WHOLE;
        }
        /* A length is only a claim: room is given as bytes arrive. */
        size_t room = 2 * client->in_len;
        return await_body(client, client->in_len - client->framing.head_bytes,
                          all < room ? all : room);
    }
    client->request_bytes = all;
    return FRAME_WHOLE;
}

/* Decodes in place: data moves down over the framing it came in. */
static int ON_LANE
frame_chunked(struct client *client)
{
    struct client_framing *f = &client->framing;
    uint64_t max = client->lane->limits.body_bytes_max;
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
        return await_body(client, f->body_bytes,
                          client->in_len + EDGE_INPUT_BYTES / 2);
    }
    client->request_bytes = client->in_len - raw.len;
    return FRAME_WHOLE;
}

/* Others have used the lane's head since; cheaper than keeping it. */
void
client_read_head(struct client *client)
{
    struct lane *lane = client->lane;

    CHECK(http_head_parse_request(client->in, client->in_len,
                                  &lane->request_limits, &lane->head) == 0);
}

int
client_frame(struct client *client)
{
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
        client_read_head(client);
    }
    return outcome;
}
