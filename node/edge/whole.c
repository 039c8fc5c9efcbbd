/*
 * Answers that are held until they are whole, because the client gets them in
 * another form: errors of engines, for a client that was told that a stream
 * follows.
 */
#include <stdio.h>

#include "node/edge/edge_internal.h"
#include "node/text/json_pull.h"

#define HELD_MAX ((size_t)16 << 10)

void
whole_begin(struct exchange *x, unsigned status)
{
    CHECK(!x->whole.gathers);
    x->whole.gathers = true;
    x->whole.status = status;
}

/* Room for that many bytes in all. */
static bool ON_LANE
grow(struct exchange *x, size_t need)
{
    struct edge_whole *whole = &x->whole;
    struct lane *lane = x->client->lane;
    size_t got;

    if (need > HELD_MAX) {
        return false;
    }
    char *grown =
        lane_memory_take(&lane->memory, &lane->node->engines, 2 * need, &got);
    if (grown == NULL) {
        return false;
    }
    if (whole->ptr != NULL) {
        memcpy(grown, whole->ptr, whole->len);
        lane_memory_give(&lane->memory, &lane->node->engines, whole->ptr,
                         whole->size);
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
    struct edge_whole *whole = &x->whole;
    struct lane *lane = x->client->lane;

    if (whole->ptr != NULL) {
        lane_memory_give(&lane->memory, &lane->node->engines, whole->ptr,
                         whole->size);
        whole->ptr = NULL;
        whole->len = 0;
    }
}

/* The message of an engine's error, {"error":{"message":...}} or
 * {"message":...}, as text. False: it says none. */
static bool
read_message(struct slice body, char *out, size_t room)
{
    struct json_pull pull;
    enum pull_token token;

    json_pull_init(&pull, body);
    if (json_pull_next(&pull) != PULL_OBJECT) {
        return false;
    }
    while ((token = json_pull_next(&pull)) == PULL_KEY) {
        if (json_pull_is(&pull, SLICE("message"))) {
            return json_pull_next(&pull) == PULL_STRING &&
                   json_pull_copy(&pull, out, room) >= 0;
        }
        if (json_pull_is(&pull, SLICE("error"))) {
            if (json_pull_next(&pull) != PULL_OBJECT) {
                return false;
            }
        } else if (!json_pull_skip(&pull)) {
            return false;
        }
    }
    return false;
}

/* What the client of a stream is told of an answer that is none. */
static struct slice
error_of(const struct exchange *x, char out[HTTP_ERROR_ROOM])
{
    const struct edge_whole *whole = &x->whole;
    struct slice body = {whole->ptr, whole->len};
    unsigned status = whole->status >= 400 ? whole->status : 502;
    char message[HTTP_ERROR_MESSAGE_MAX];

    if (whole->over || !read_message(body, message, sizeof(message))) {
        (void)snprintf(message, sizeof(message),
                       "the engine answered %u, and no stream", whole->status);
    }
    return reply_error_body(x, status, http_status_code(status), message, out);
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
    CHECK(x->alive.told);
    buf_clear(out);
    alive_put_error(x, error_of(x, body), out);
    struct iovec part = {.iov_base = out->ptr, .iov_len = out->len};
    if (out->failed) {
        exchange_broke_off(x);
    } else {
        response_send(up, &part, 1, true);
    }
}
