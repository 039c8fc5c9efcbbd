/*
 * Answers that are held until they are whole, because the client gets them in
 * another form: errors of engines, for a client that was told that a stream
 * follows; and answers to chats, for a client that sent none.
 */
#include <stdio.h>

#include "node/edge/answer_internal.h"

#define ERROR_MAX  ((size_t)16 << 10)
#define ANSWER_MAX ((size_t)16 << 20)

void
whole_begin(struct exchange *x, const struct http_head *head)
{
    struct dispatch_failure failure = {.status = head->status};

    CHECK(!x->whole.gathers);
    upstream_read_retry(head, &failure);
    x->whole.gathers = true;
    x->whole.status = head->status;
    x->whole.says_when = failure.has_retry_after;
    x->whole.retry_after_s = failure.retry_after_s;
}

static void ON_LANE
give(struct exchange *x)
{
    struct lane *lane = x->client->lane;

    lane_memory_give(&lane->memory,
                     lane_memory_owner(&lane->node->engines, x->whole.size),
                     x->whole.ptr, x->whole.size);
}

/* Room for that many bytes in all. */
static bool ON_LANE
grow(struct exchange *x, size_t need)
{
    struct edge_whole *whole = &x->whole;
    struct lane *lane = x->client->lane;
    size_t got;

    if (need > (x->dialect.on ? ANSWER_MAX : ERROR_MAX)) {
        return false;
    }
    char *grown = lane_memory_take(
        &lane->memory, lane_memory_owner(&lane->node->engines, 2 * need),
        2 * need, &got);
    if (grown == NULL) {
        return false;
    }
    if (whole->ptr != NULL) {
        memcpy(grown, whole->ptr, whole->len);
        give(x);
    }
    whole->ptr = grown;
    whole->size = got;
    return true;
}

void
whole_give(struct exchange *x, struct slice bytes)
{
    struct edge_whole *whole = &x->whole;
    size_t need = whole->len + bytes.len;

    if (bytes.len == 0 || whole->over ||
        (need > whole->size && !grow(x, need))) {
        whole->over = whole->over || bytes.len != 0;
        return;
    }
    memcpy(whole->ptr + whole->len, bytes.ptr, bytes.len);
    whole->len = need;
}

void
whole_fini(struct exchange *x)
{
    if (x->whole.ptr != NULL) {
        give(x);
        x->whole.ptr = NULL;
        x->whole.len = 0;
    }
}

/* What the client of a stream is told of an answer that is none. */
static struct slice
error_of(const struct exchange *x, char out[HTTP_ERROR_ROOM])
{
    const struct edge_whole *whole = &x->whole;
    struct slice body = {whole->ptr, whole->len};
    unsigned status = whole->status >= 400 ? whole->status : 502;
    char message[HTTP_ERROR_MESSAGE_MAX];

    if (whole->over || !dialect_message(body, message, sizeof(message))) {
        (void)snprintf(message, sizeof(message),
                       "the engine answered %u, and no stream", whole->status);
    }
    return reply_error_body(x->client, status, http_status_code(status),
                            message, out);
}

/* An engine that counts no chats: TGI's and llama.cpp's /tokenize know other
 * bodies, or there is none. */
static bool
counts_nothing(const struct exchange *x, bool good)
{
    unsigned status = x->whole.status;

    return x->dialect.api == DIALECT_COUNT &&
           (status < 400 ? !good
                         : status == 404 || status == 405 || status == 422 ||
                               status == 501);
}

/* The message that an answer to a chat becomes. Returns its status. */
static unsigned
translate(const struct exchange *x, struct buf *out)
{
    const struct edge_whole *whole = &x->whole;
    struct slice body = {whole->ptr, whole->len};
    char error[HTTP_ERROR_ROOM];
    bool good = whole->status < 400 && !whole->over &&
                dialect_answer(x->dialect.api, x->body, body, out);

    if (good) {
        return 200;
    }
    buf_clear(out);
    if (counts_nothing(x, good)) {
        buf_add_slice(out, reply_error_body(x->client, 501, "not_translatable",
                                            "the engine has no "
                                            "/v1/messages/count_tokens, and no "
                                            "/tokenize that counts a chat",
                                            error));
        return 501;
    }
    if (whole->status >= 400) {
        dialect_error(x->dialect.api, whole->status,
                      whole->over ? SLICE("") : body, out);
        return whole->status;
    }
    buf_add_slice(
        out,
        reply_error_body(x->client, 502, "bad_answer",
                         whole->over ? "the engine's answer is too large"
                                     : "the engine's answer is no whole chat's",
                         error));
    return 502;
}

static void ON_LANE
send_translated(struct upstream *up)
{
    struct exchange *x = up->exchange;
    struct buf *head = &up->lane->text;
    struct buf body;

    buf_init(&body, 2 * ANSWER_MAX);
    unsigned status = translate(x, &body);
    x->dispatch.status = status; /* the engine's may have been a good one */
    buf_clear(head);
    reply_head(x->client, status, "application/json", body.len, head);
    struct iovec parts[2] = {
        {.iov_base = head->ptr, .iov_len = head->len},
        {.iov_base = body.ptr, .iov_len = body.len},
    };
    if (head->failed || body.failed) {
        client_close(x->client, true); /* cancels x, closes up */
    } else {
        response_send(up, parts, 2, true);
    }
    buf_fini(&body);
}

void
whole_end(struct upstream *up, bool broken)
{
    struct exchange *x = up->exchange;
    struct buf *out = &up->lane->text;
    char body[HTTP_ERROR_ROOM];

    if (broken) {
        exchange_broke_off(x);
        return;
    }
    if (!x->alive.told) {
        send_translated(up);
        return;
    }
    buf_clear(out);
    alive_put_error(x, error_of(x, body), out);
    struct iovec part = {.iov_base = out->ptr, .iov_len = out->len};
    if (out->failed) {
        exchange_broke_off(x);
    } else {
        response_send(up, &part, 1, true);
    }
}
