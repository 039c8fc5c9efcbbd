/*
 * A worker's answer on its way back: its head is rewritten, its body passes
 * byte for byte as it arrives.
 */
#include <errno.h>

#include "node/edge/answer_internal.h"
/* The head */

void
response_drop_partial(struct upstream *up)
{
    if (up->partial != NULL) {
        lane_memory_give(
            &up->lane->memory,
            lane_memory_owner(&up->lane->node->engines, up->partial_size),
            up->partial, up->partial_size);
        up->partial = NULL;
        up->partial_len = 0;
    }
}

int
response_keep(struct upstream *up, const char *bytes, size_t len)
{
    size_t need = up->partial_len + len;
    size_t had = up->partial_len;
    size_t got;

    CHECK(bytes != NULL);
    if (up->partial == NULL || need > up->partial_size) {
        char *grown = lane_memory_take(
            &up->lane->memory,
            lane_memory_owner(&up->lane->node->engines, need), need, &got);
        if (grown == NULL) {
            return -ENOBUFS;
        }
        if (up->partial != NULL) {
            memcpy(grown, up->partial, had);
            response_drop_partial(up);
        }
        up->partial = grown;
        up->partial_size = got;
    }
    memcpy(up->partial + had, bytes, len);
    up->partial_len = need;
    return 0;
}

/* A 204 or 304 has no body, whatever its engine says of one. */
static bool
passes(const struct exchange *x, const struct http_head *head,
       const struct http_header *h)
{
    if (h->field == HTTP_FIELD_CONTENT_LENGTH &&
        (head->status == 204 || head->status == 304 || rewriting_is_on(x))) {
        return false;
    }
    if (x->client->framing.origin_len != 0 && http_cors_is_field(h->name)) {
        return false; /* engines let everybody read, unless told otherwise */
    }
    return h->field != HTTP_FIELD_REQUEST_ID && h->field != HTTP_FIELD_KVASIR &&
           h->field != HTTP_FIELD_TRANSFER_ENCODING &&
           !http_head_is_hop(head, h);
}

static void
add_framing(struct buf *out, struct exchange *x)
{
    struct client *client = x->client;

    if (rewriting_rechunks(x) ||
        (x->body_kind == HTTP_BODY_CHUNKED && !x->unchunk)) {
        buf_add_text(out, "Transfer-Encoding: chunked\r\n");
    }
    if (client->close_after) {
        buf_add_text(out, "Connection: close\r\n");
    } else if (x->minor_0) {
        buf_add_text(out, "Connection: keep-alive\r\n");
    }
    buf_add(out, "\r\n", 2);
}

static void ON_LANE
build_head(struct exchange *x, const struct http_head *head, struct buf *out)
{
    buf_add_text(out, "HTTP/1.1 ");
    buf_add_uint(out, head->status);
    buf_add(out, " ", 1);
    buf_add_slice(out, head->reason);
    buf_add(out, "\r\n", 2);
    for (size_t i = 0; i < head->headers_count; i++) {
        const struct http_header *h = &head->headers[i];
        if (passes(x, head, h)) {
            buf_add_slice(out, h->name);
            buf_add(out, ": ", 2);
            buf_add_slice(out, h->value);
            buf_add(out, "\r\n", 2);
        }
    }
    reply_add_headers(out, x, head->status);
    reply_add_cors(out, x->client);
    add_framing(out, x);
}

static bool
is_event_stream(const struct http_head *head)
{
    const struct http_header *type =
        http_head_find(head, HTTP_FIELD_CONTENT_TYPE);
    struct slice name = SLICE("text/event-stream");

    for (size_t i = 0; i < head->headers_count; i++) {
        if (slice_equal_nocase(head->headers[i].name,
                               SLICE("content-encoding"))) {
            return false; /* although none was asked for */
        }
    }
    if (type == NULL || type->value.len < name.len) {
        return false;
    }
    return slice_equal_nocase((struct slice){type->value.ptr, name.len}, name);
}

static void
note_body(struct exchange *x, const struct http_head *head)
{
    x->body_kind = head->body;
    x->body_left = head->body == HTTP_BODY_LENGTH ? head->content_length : 0;
    x->chunk = (struct http_chunk){.state = 0};
}

/* The answer is this one: from here on another worker can only go on with it.
 * False: no memory for it; then it is as if it had not come. */
static bool ON_LANE
begin(struct upstream *up, const struct http_head *head)
{
    struct exchange *x = up->exchange;
    struct client *client = x->client;
    bool stream = head->status < 300 && head->body != HTTP_BODY_NONE &&
                  is_event_stream(head);

    note_body(x, head);
    x->unchunk = head->body == HTTP_BODY_CHUNKED && x->minor_0;
    x->strips = false;
    x->resuming.framed = false;
    x->alive.stream = stream;
    if (stream) {
        resuming_strip(x);
        resuming_begin(x);
    }
    stream = stream && head->status == 200;
    if (x->dialect.on && stream) {
        if (!translating_begin(x)) {
            return false;
        }
    } else if ((x->alive.told || x->dialect.on) && !stream) {
        whole_begin(x, head);
    }
    if (!rewriting_is_framed(x) || client->framing.missing != 0 ||
        up->lane->leaving) {
        client->close_after = true;
    }
    buf_clear(&up->lane->text);
    if (!x->alive.told && !x->whole.gathers) {
        build_head(x, head, &up->lane->text);
    }
    if (up->lane->text.failed) {
        return false;
    }
    up->reusable = head->keep_alive && head->body != HTTP_BODY_CLOSE;
    exchange_answered(x, head->status);
    return true;
}

/* The client has the beginning of an answer: this is its rest. False: it is
 * none. */
static bool ON_LANE
go_on(struct upstream *up, const struct http_head *head)
{
    struct exchange *x = up->exchange;

    if (head->status != 200 || head->body == HTTP_BODY_NONE ||
        !is_event_stream(head)) {
        return false;
    }
    note_body(x, head);
    resuming_strip(x);
    up->reusable = head->keep_alive && head->body != HTTP_BODY_CLOSE;
    exchange_answered(x, head->status);
    resume_continue(x->resuming.resume);
    return true;
}

/* The body */

int
response_of_chunks(int outcome)
{
    return outcome == 0                   ? RESPONSE_END
           : outcome == HTTP_CHUNK_E_MORE ? RESPONSE_MORE
                                          : RESPONSE_BAD;
}

int
response_take(struct exchange *x, const char *bytes, size_t len, size_t *taken)
{
    *taken = len;
    switch (x->body_kind) {
    case HTTP_BODY_NONE:
        *taken = 0;
        return RESPONSE_END;
    case HTTP_BODY_LENGTH:
        *taken = len < x->body_left ? len : (size_t)x->body_left;
        x->body_left -= *taken;
        return x->body_left == 0 ? RESPONSE_END : RESPONSE_MORE;
    case HTTP_BODY_CHUNKED:
        return response_of_chunks(
            http_chunk_walk(&x->chunk, bytes, len, taken));
    case HTTP_BODY_CLOSE:
        return RESPONSE_MORE;
    }
    return RESPONSE_BAD;
}

/* After these bytes the answer is whole. */
static void ON_LANE
finish(struct upstream *up, int sent)
{
    struct exchange *x = up->exchange;

    x->upstream = NULL;
    x->finished = true;
    upstream_release(up);
    if (sent == 0) {
        exchange_end(x);
    } /* else exchange_drained() ends it */
}

static void ON_LANE
send_on(struct upstream *up, const struct iovec *parts, unsigned count,
        int body)
{
    struct exchange *x = up->exchange;
    struct client *client = x->client;
    int sent = count != 0 ? client_send(client, parts, count) : 0;

    caching_take(x, parts, count);
    if (sent < 0) {
        client_close(client, true); /* cancels x, closes up */
    } else if (body == RESPONSE_END) {
        finish(up, sent);
    } else if (sent == CLIENT_E_PENDING) {
        upstream_pause(up);
    } else {
        upstream_resume(up);
    }
}

void
response_send(struct upstream *up, const struct iovec *parts, unsigned count,
              bool whole)
{
    send_on(up, parts, count, whole ? RESPONSE_END : RESPONSE_MORE);
}

/* The answer broke off behind its last word, and what the client still has to
 * get is in text. Its connection to the worker, if there is one, is of no use. */
static void ON_LANE
send_end(struct exchange *x, const struct buf *text)
{
    struct upstream *up = x->upstream;
    struct iovec part = {.iov_base = text->ptr, .iov_len = text->len};

    counter_bump(&x->client->lane->shared->metrics.finished_here, 1);
    int sent = text->len != 0 ? client_send(x->client, &part, 1) : 0;
    if (up != NULL) {
        up->reusable = false;
    }
    if (sent < 0) {
        client_close(x->client, true); /* cancels x, closes up */
        return;
    }
    x->finished = true;
    if (up != NULL) {
        x->upstream = NULL;
        upstream_release(up);
    }
    if (sent == 0) {
        exchange_end(x);
    } /* else exchange_drained() ends it */
}

bool
response_finish(struct exchange *x)
{
    struct buf *text = &x->client->lane->text;

    caching_drop(x);
    buf_clear(text);
    if (!rewriting_finish(x, text) || text->failed) {
        return false;
    }
    send_end(x, text);
    return true;
}

/* What came is no answer, or the end of one. told: the lane's text holds what
 * the client gets of it first. */
static void ON_LANE
break_off(struct upstream *up, bool told)
{
    struct exchange *x = up->exchange;
    struct buf *text = &up->lane->text;

    caching_drop(x);
    if (resuming_is_torn(x)) {
        counter_bump(&up->lane->shared->metrics.resumed_torn, 1);
    }
    if (!told) {
        buf_clear(text);
    }
    bool whole = rewriting_finish(x, text);
    if (text->failed) {
        resuming_give_up(x); /* not all of it goes out */
    } else if (whole) {
        send_end(x, text);
        return;
    }
    if (!resuming_ask(x)) {
        if (x->resuming.framed && x->resuming.resume->failed) {
            rewriting_fail(x, text);
        }
        if (x->dialect.streams && x->client->out == NULL) {
            translating_put_end(x, text);
            rewriting_put_end(x, text);
            alive_close(x, 502, text); /* closes up */
            return;
        }
    }
    struct iovec part = {.iov_base = text->ptr, .iov_len = text->len};
    if (text->failed) {
        exchange_broke_off(x);
    } else if (text->len != 0 && client_send(x->client, &part, 1) < 0) {
        client_close(x->client, true); /* cancels x, closes up */
    } else {
        exchange_broke_off(x);
    }
}

/* So many bytes of the body came. */
static void ON_LANE
note_taken(struct upstream *up, const char *bytes, size_t taken)
{
    struct exchange *x = up->exchange;

    if (!x->dispatch.began) {
        dispatch_began(&x->dispatch, lane_clock_us());
    }
    alive_end(x);
    fleet_board_heard(up->lane->node->board, x->dispatch.choice.lease.slot,
                      lane_now_us(up->lane));
    limit_pass(x, (struct slice){bytes, taken});
    if (x->storing != NULL && !x->dialect.on) {
        storing_pass(x, (struct slice){bytes, taken});
    }
    counter_bump(&up->lane->shared->metrics.bytes_out, taken);
    x->dispatch.bytes += taken;
}

/* The body is held until it is whole. */
static void ON_LANE
gather(struct upstream *up, const char *bytes, size_t len)
{
    struct exchange *x = up->exchange;
    struct slice in = {.ptr = bytes, .len = len};
    struct slice data;
    size_t taken = len;
    int outcome;
    int body;

    if (x->body_kind == HTTP_BODY_CHUNKED) {
        while ((outcome = http_chunk_next(&x->chunk, &in, &data)) ==
               HTTP_CHUNK_E_DATA) {
            whole_give(x, data);
        }
        body = response_of_chunks(outcome);
        taken = len - in.len;
    } else {
        body = response_take(x, bytes, len, &taken);
        whole_give(x, (struct slice){bytes, taken});
    }
    if (taken != 0) {
        note_taken(up, bytes, taken);
        rewriting_watch(x, (struct slice){bytes, taken});
    }
    if (body == RESPONSE_MORE) {
        upstream_resume(up);
        return;
    }
    up->reusable = up->reusable && body == RESPONSE_END && taken == len;
    whole_end(up, body == RESPONSE_BAD);
}

/* with_head: the lane's text holds the answer's head, to go out first. */
static void ON_LANE
forward(struct upstream *up, bool with_head, const char *bytes, size_t len)
{
    struct exchange *x = up->exchange;
    struct buf *text = &up->lane->text;
    struct iovec parts[2];
    unsigned count = 0;
    size_t taken = 0;
    bool rewritten = x->unchunk || rewriting_is_on(x);
    int body;

    if (rewritten) {
        if (!with_head) {
            buf_clear(text);
        }
        body = rewriting_take(x, bytes, len, &taken, text);
        with_head = text->len != 0;
    } else {
        body = response_take(x, bytes, len, &taken);
        rewriting_watch(x, (struct slice){bytes, taken});
    }
    if (body == RESPONSE_BAD) {
        break_off(up, with_head && rewritten);
        return;
    }
    if (with_head) {
        parts[count++] =
            (struct iovec){.iov_base = text->ptr, .iov_len = text->len};
    }
    if (taken != 0 && !rewritten) {
        parts[count++] = (struct iovec){.iov_base = (void *)(uintptr_t)bytes,
                                        .iov_len = taken};
    }
    if (taken != 0) {
        note_taken(up, bytes, taken);
    }
    if (body == RESPONSE_END && taken != len) {
        up->reusable = false; /* bytes that no request asked for */
    }
    if (x->resuming.framed) {
        resuming_settle(x);
    }
    send_on(up, parts, count, body);
}

static void ON_LANE
pass(struct upstream *up, bool with_head, const char *bytes, size_t len)
{
    if (up->exchange->whole.gathers) {
        gather(up, bytes, len);
    } else {
        forward(up, with_head, bytes, len);
    }
}

bool
response_find_head(struct upstream *up, const char **bytes, size_t *len)
{
    struct lane *lane = up->lane;
    struct exchange *x = up->exchange;

    for (;;) {
        int outcome = http_head_parse_response(
            *bytes, *len, &lane->response_limits, x->method, &lane->head);
        if (outcome == HTTP_E_MORE) {
            struct slice rest = {.ptr = *bytes, .len = *len};
            if (up->partial != NULL) { /* interim answers may precede it */
                memmove(up->partial, rest.ptr, rest.len);
                up->partial_len = rest.len;
            } else if (response_keep(up, rest.ptr, rest.len) < 0) {
                upstream_failed(up, DISPATCH_EXHAUSTED);
            }
            return false;
        }
        if (outcome != 0 || lane->head.status == 101) {
            upstream_failed(up, DISPATCH_BAD);
            return false;
        }
        if (lane->head.status >= 200) {
            *bytes += lane->head.size_bytes;
            *len -= lane->head.size_bytes;
            return true;
        }
        *bytes += lane->head.size_bytes;
        *len -= lane->head.size_bytes;
    }
}

/* Whether the answer was given up for another worker's; then up is gone. */
static bool ON_LANE
is_dropped(struct upstream *up, const struct http_head *head)
{
    struct dispatch_failure failure = {
        .fault = DISPATCH_STATUS,
        .status = head->status,
    };

    upstream_read_retry(head, &failure);
    if (dispatch_untaken(&up->exchange->dispatch, &failure)) {
        upstream_unsplit(up);
        return true;
    }
    if (!dispatch_drops(&up->exchange->dispatch, &failure)) {
        return false;
    }
    upstream_dropped(up, &failure);
    return true;
}

/* Whether what came with the head cannot be the body that it announces. */
static bool
is_broken(const struct http_head *head, const char *bytes, size_t len)
{
    struct http_chunk chunk = {.state = 0};
    size_t taken;

    return head->body == HTTP_BODY_CHUNKED && len != 0 &&
           http_chunk_walk(&chunk, bytes, len, &taken) == HTTP_CHUNK_E_BAD;
}

/* An engine that takes no body with a key that it does not know. */
static bool
refuses_ask(const struct http_head *head)
{
    return head->status == 400 || head->status == 422;
}

/* Whether the head may wait for the first event: another worker can be asked for
 * as long, and the request is kept for it. */
static bool ON_LANE
may_think(const struct upstream *up)
{
    const struct lane *lane = up->lane;

    return alive_waits(up->exchange) && lane->head.status == 200 &&
           is_event_stream(&lane->head) && lane_memory_is_free(&lane->memory);
}

/*
 * Once its head has gone out, an answer cannot be given up for another worker's.
 * So a head that came alone waits for the first bytes of its body, whose framing
 * may be broken, or which may never come because the engine ends: vLLM sends the
 * head of a stream before it computes the prompt. A client that will be told to
 * wait (alive.c) needs no head until then, so there it waits as long as the first
 * event does. Who else waits must see that the engine answers: the head waits for
 * LANE_TIMEOUT_HOLD and no longer. Nothing is lost by it where the body follows at
 * once: both then leave in one write. True: it waits; end is where the head ends.
 */
static bool ON_LANE
hold(struct upstream *up, const char *end)
{
    size_t size = up->lane->head.size_bytes;

    if (up->lane->head.body != HTTP_BODY_CHUNKED ||
        (up->sock.wanted & SOCK_WRITE) != 0 ||
        up->exchange->client->framing.missing != 0) {
        return false; /* nobody else may be asked, or nothing more is sent */
    }
    if (up->partial != NULL) { /* it is in there */
        memmove(up->partial, end - size, size);
        up->partial_len = size;
    } else if (response_keep(up, end - size, size) < 0) {
        return false;
    }
    up->held = true;
    up->thinks = may_think(up);
    if (!up->thinks) { /* else the answer is as late as it was */
        lane_time(up->lane, &up->deadline, LANE_TIMEOUT_HOLD);
    }
    return true;
}

/* Looks for a head that was not seen before; as find_head(). False, too, when
 * it is held back, or its answer is given up. */
static bool ON_LANE
take_head(struct upstream *up, const char **bytes, size_t *len)
{
    if (up->partial != NULL) {
        if (response_keep(up, *bytes, *len) < 0) {
            upstream_failed(up, DISPATCH_EXHAUSTED);
            return false;
        }
        *bytes = up->partial;
        *len = up->partial_len;
    }
    if (!response_find_head(up, bytes, len)) {
        return false;
    }
    const struct edge_ask *ask = &up->exchange->ask;
    if ((ask->asks || ask->asks_each) && refuses_ask(&up->lane->head)) {
        upstream_unask(up);
        return false;
    }
    if (translating_unknown(up->exchange, up->lane->head.status)) {
        upstream_translate(up);
        return false;
    }
    if (up->lane->head.status >= 400 && is_dropped(up, &up->lane->head)) {
        return false;
    }
    return *len != 0 || !hold(up, *bytes);
}

/* Looks at the head that was held back once more. */
static bool ON_LANE
take_held(struct upstream *up)
{
    const char *head = up->partial;
    size_t len = up->partial_len;

    return response_find_head(up, &head, &len);
}

static void ON_LANE
answer_begins(struct upstream *up, const char *bytes, size_t len)
{
    struct exchange *x = up->exchange;
    struct client *client = x->client;

    if (!(up->held ? take_held(up) : take_head(up, &bytes, &len))) {
        return;
    }
    bool resumed = x->dispatch.resumed != 0;
    if (is_broken(&up->lane->head, bytes, len) ||
        (resumed && !go_on(up, &up->lane->head))) {
        upstream_failed(up, DISPATCH_BAD);
        return;
    }
    if (!resumed && !begin(up, &up->lane->head)) {
        upstream_failed(up, DISPATCH_EXHAUSTED);
        return;
    }
    /* An answer before the whole request was read: the rest is not sent, and
     * so the connection cannot be used again. */
    if ((up->sock.wanted & SOCK_WRITE) || client->framing.missing != 0) {
        up->reusable = false;
        sock_want(&up->sock, SOCK_READ);
        form_cut(client);
    }
    if (x->split != NULL && x->split->up != NULL && !x->dispatch.split.sent) {
        prefill_drop(x); /* it was to read the body, and is not needed now */
    }
    if (!x->resuming.framed && !x->whole.gathers) {
        x->body = (struct slice){.ptr = NULL, .len = 0};
        naming_release(x);
        translating_release(x);
        client_release_request(client);
    }
    /* The head's bytes may lie in up->partial until they are sent. */
    pass(up, !resumed, bytes, len);
    if (up->state == UPSTREAM_BUSY) {
        response_drop_partial(up);
    }
}

void
response_bytes(struct upstream *up, const char *bytes, size_t len)
{
    if (up->exchange->dispatch.state == DISPATCH_STREAMING) {
        pass(up, false, bytes, len);
    } else {
        answer_begins(up, bytes, len);
    }
}

/* The body that the worker's close ends. */
static void ON_LANE
end_of_close(struct upstream *up)
{
    struct exchange *x = up->exchange;
    struct buf *text = &up->lane->text;

    buf_clear(text);
    bool good = rewriting_end(x, text);
    struct iovec part = {.iov_base = text->ptr, .iov_len = text->len};
    if (!good && x->dialect.streams) {
        break_off(up, true);
    } else if (text->failed || !good) {
        exchange_broke_off(x);
    } else {
        send_on(up, &part, text->len != 0, RESPONSE_END);
    }
}

void
response_end(struct upstream *up, int error)
{
    struct exchange *x = up->exchange;

    if (x->dispatch.state != DISPATCH_STREAMING) {
        upstream_failed(up, DISPATCH_CLOSED);
    } else if (x->whole.gathers) {
        up->reusable = false;
        whole_end(up, x->body_kind != HTTP_BODY_CLOSE || error != 0);
    } else if (x->body_kind == HTTP_BODY_CLOSE && error == 0 &&
               (!x->resuming.framed || !x->resuming.resume->on ||
                x->resuming.resume->done)) {
        end_of_close(up);
    } else {
        break_off(up, false);
    }
}
