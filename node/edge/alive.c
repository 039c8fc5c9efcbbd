/*
 * Comments to clients that wait for the first of a stream: an engine may read a
 * long prompt for minutes, and what stands between client and node gives up a
 * connection on which nothing passes.
 *
 * A comment goes out where an event may begin: before the first byte of the
 * answer, or behind the whole events of a stream that goes on elsewhere. If the
 * answer's head has not come, one of our own goes first. That is not the
 * answer's begin: dispatch goes on as if nothing had been sent, so the request
 * may still go to another worker. Only what the client is told in the end is an
 * event then, errors too.
 */
#include "node/edge/answer_internal.h"

#define COMMENT   ": keep-alive\n\n"
#define EVENT_MAX (HTTP_ERROR_ROOM + 256U)

/* Whether its clients read server-sent events. */
static bool
streams(const struct exchange *x)
{
    bool knows = x->api == SCAN_API_CHAT || x->api == SCAN_API_TEXT ||
                 x->api == SCAN_API_RESPONSES || x->api == SCAN_API_MESSAGES;

    return x->dispatch.routed && x->dispatch.stream && knows &&
           !x->client->picked;
}

void
alive_begin(struct exchange *x)
{
    if (streams(x)) {
        lane_time(x->client->lane, &x->alive.deadline, LANE_TIMEOUT_ALIVE);
    }
}

bool
alive_waits(const struct exchange *x)
{
    const struct deadline_list *list = x->alive.deadline.list;

    return list != NULL && list->timeout_us != 0;
}

/* Whether bytes may go out that the answer's head did not announce: it says no
 * length of its body, and what has passed of it ends where an event ends. */
static bool
is_between(const struct exchange *x)
{
    if (x->dispatch.state != DISPATCH_STREAMING) {
        return true; /* its head has not come, or it goes on elsewhere */
    }
    return x->alive.stream && !x->whole.gathers &&
           (rewriting_rechunks(x) || x->unchunk ||
            x->body_kind == HTTP_BODY_CHUNKED ||
            x->body_kind == HTTP_BODY_CLOSE);
}

/* The engine's own chunks follow the client's head, or ours do. */
static bool
is_chunked(const struct exchange *x)
{
    return rewriting_rechunks(x) ||
           (x->dispatch.state == DISPATCH_STREAMING && !x->unchunk &&
            x->body_kind == HTTP_BODY_CHUNKED);
}

static void ON_LANE
put_head(struct exchange *x, struct buf *out)
{
    struct client *client = x->client;

    x->alive.told = true;
    client->close_after =
        client->close_after || client->lane->leaving || x->minor_0;
    buf_add_text(out, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                      "Cache-Control: no-cache\r\n");
    reply_add_headers(out, x, 0); /* nobody knows yet where it ends up */
    reply_add_cors(out, client);
    buf_add_text(out, x->minor_0 ? "" : "Transfer-Encoding: chunked\r\n");
    buf_add_text(out,
                 client->close_after ? "Connection: close\r\n\r\n" : "\r\n");
}

void
alive_expired(struct exchange *x)
{
    struct client *client = x->client;
    struct lane *lane = client->lane;
    struct buf *out = &lane->text;
    struct slice comment = SLICE(COMMENT);
    bool headless = x->dispatch.status == 0 && !x->alive.told;

    lane_time(lane, &x->alive.deadline, LANE_TIMEOUT_ALIVE);
    /* A client that has not taken what it got before waits for nothing. */
    if (client->out != NULL || sock_holds(&client->sock) || !is_between(x)) {
        return;
    }
    buf_clear(out);
    if (headless) {
        put_head(x, out);
    }
    if (is_chunked(x)) {
        buf_printf(out, "%zx\r\n%s\r\n", comment.len, comment.ptr);
    } else {
        buf_add_slice(out, comment);
    }
    struct iovec part = {.iov_base = out->ptr, .iov_len = out->len};
    counter_bump(&lane->shared->metrics.keep_alives, 1);
    if (out->failed || client_send(client, &part, 1) != 0) {
        client_close(client, true); /* its socket is empty, and takes nothing */
    }
}

void
alive_put_error(const struct exchange *x, struct slice body, struct buf *out)
{
    char bytes[EVENT_MAX];
    struct buf event = buf_over(bytes, sizeof(bytes));
    bool named = x->api == SCAN_API_MESSAGES || x->api == SCAN_API_RESPONSES;

    buf_add_text(&event, named ? "event: error\ndata: " : "data: ");
    buf_add_slice(&event, body);
    buf_add_text(&event, named ? "\n\n" : "\n\ndata: [DONE]\n\n");
    CHECK(!event.failed);
    rewriting_put(x, buf_slice(&event), out);
    rewriting_put_end(x, out);
}

void
alive_refuse(struct exchange *x, unsigned status, struct slice body)
{
    struct buf *out = &x->client->lane->text;

    buf_clear(out);
    alive_put_error(x, body, out);
    alive_close(x, status, out);
}

void
alive_close(struct exchange *x, unsigned status, struct buf *out)
{
    struct client *client = x->client;

    exchange_drop(x, status);
    struct iovec part = {.iov_base = out->ptr, .iov_len = out->len};
    int sent = out->failed ? -1 : client_send(client, &part, 1);
    if (sent < 0) {
        client_close(client, true);
    } else if (sent == 0) {
        client_answered(client);
    }
}
