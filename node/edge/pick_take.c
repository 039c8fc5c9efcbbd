/* What a gateway tells of a request and of its answer, handed on as HTTP/1.1. */
#include "node/base/log.h"
#include "node/edge/answer_internal.h"
#include "node/edge/picking_internal.h"

#define LAST_CHUNK "0\r\n\r\n"

/* The request */

/* Nothing in it could be read as the end of a line. */
static bool
is_line(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if ((c < ' ' && c != '\t') || c == 0x7f) {
            return false;
        }
    }
    return true;
}

/* A blank would part a request line anew, a colon a name. */
static bool
is_word(struct slice text, const char *none_of)
{
    for (size_t i = 0; i < text.len; i++) {
        if (strchr(none_of, text.ptr[i]) != NULL) {
            return false;
        }
    }
    return text.len != 0 && is_line(text);
}

/* Fields that are of the gateway's own connection, or said anew. */
static bool
is_dropped(struct slice name)
{
    static const char *const dropped[] = {
        "host",    "connection",     "keep-alive",
        "te",      "content-length", "transfer-encoding",
        "upgrade", "expect",         "proxy-connection",
        "trailer", EXTPROC_ENDPOINT,
    };

    for (size_t i = 0; i < sizeof dropped / sizeof dropped[0]; i++) {
        if (slice_equal(name, slice_of(dropped[i]))) {
            return true;
        }
    }
    return name.len != 0 && name.ptr[0] == ':';
}

static void
put_field(struct buf *out, struct slice name, struct slice value)
{
    buf_add_slice(out, name);
    buf_add_text(out, ": ");
    buf_add_slice(out, value);
    buf_add_text(out, "\r\n");
}

/* The head as HTTP/1.1 into text. False: it has no such form. */
static bool
make_head(struct pick *pick, const struct extproc_message *message)
{
    struct buf *out = &pick->text;
    struct slice rest = message->headers;
    struct slice method = extproc_header_find(rest, ":method");
    struct slice path = extproc_header_find(rest, ":path");
    struct slice host = extproc_header_find(rest, ":authority");
    struct extproc_header header;

    host = host.len != 0 ? host : extproc_header_find(rest, "host");
    if (!is_word(method, " ") || !is_word(path, " ") || !is_line(host)) {
        return false;
    }
    pick->head_only = slice_equal(method, SLICE("HEAD"));
    buf_clear(out);
    buf_add_slice(out, method);
    buf_add_text(out, " ");
    buf_add_slice(out, path);
    buf_add_text(out, " HTTP/1.1\r\n");
    put_field(out, SLICE("Host"), host);
    while (extproc_header(&rest, &header)) {
        if (is_dropped(header.name)) {
            continue;
        }
        if (!is_word(header.name, " :") || !is_line(header.value)) {
            return false;
        }
        put_field(out, header.name, header.value);
        if (request_is_override(header.name)) {
            buf_add_slice(&pick->names, header.name);
            buf_add_text(&pick->names, "\n");
        }
    }
    buf_add_text(out, "Connection: close\r\n");
    if (!message->ends) {
        buf_add_text(out, "Transfer-Encoding: chunked\r\n");
    } else if (slice_equal(method, SLICE("POST"))) {
        buf_add_text(out, "Content-Length: 0\r\n");
    }
    buf_add_text(out, "\r\n");
    return true;
}

/* Which endpoints it may be, if the gateway says. Its head was made. */
static void
note_subset(struct pick *pick, struct slice metadata)
{
    struct extproc_texts texts;
    struct slice text;
    size_t from = pick->names.len;

    pick->subset_known = extproc_texts_find(metadata, EXTPROC_SPACE_SUBSET,
                                            EXTPROC_SUBSET, &texts);
    while (pick->subset_known && extproc_texts_next(&texts, &text)) {
        buf_add_slice(&pick->names, text);
        buf_add_text(&pick->names, ",");
    }
    struct slice names = buf_slice(&pick->names);
    pick->overrides = (struct slice){names.ptr, from};
    pick->subset = names.len != from
                       ? (struct slice){names.ptr + from, names.len - from}
                       : SLICE("");
}

/* False: it was refused. */
static bool ON_LANE
open_client(struct pick *pick)
{
    const struct sockaddr *peer = (const struct sockaddr *)&pick->picker->peer;
    int fd = pick_pipe_open(pick, &pick->front);

    if (fd < 0) {
        pick_refuse(pick, 503, "overloaded",
                    "this node has no descriptors; try again");
        return false;
    }
    pick->client = client_new(pick->lane, fd, peer, pick);
    return true; /* one that is not let in is told so, as the others are */
}

static void ON_LANE
acknowledge(struct pick *pick, const struct extproc_message *message)
{
    enum extproc_part part = message->part;
    struct buf *out = h2_begin(pick->call);

    switch (part) {
    case EXTPROC_REQUEST_HEADERS:
    case EXTPROC_RESPONSE_HEADERS:
        extproc_put_headers(out, part, NULL);
        break;
    case EXTPROC_REQUEST_BODY:
    case EXTPROC_RESPONSE_BODY:
        if (part == EXTPROC_REQUEST_BODY ? pick->duplex : pick->echoes) {
            extproc_put_piece(out, part, message->body, message->ends);
        } else {
            extproc_put_body(out, part, NULL, NULL);
        }
        break;
    case EXTPROC_REQUEST_TRAILERS:
    case EXTPROC_RESPONSE_TRAILERS:
        extproc_put_trailers(out, part);
        break;
    case EXTPROC_NOTHING:
        break;
    }
    h2_end(pick->call);
}

static void ON_LANE
take_head(struct pick *pick, const struct extproc_message *message)
{
    uint64_t mode = message->modes ? message->request_mode : EXTPROC_BUFFERED;

    pick->duplex = mode == EXTPROC_DUPLEX;
    pick->echoes = message->modes && message->response_mode == EXTPROC_DUPLEX;
    pick->has_body = !message->ends;
    if (pick->has_body && !pick->duplex && mode != EXTPROC_BUFFERED) {
        LOG_WARNING("extproc_mode", KV("request_body_mode", mode),
                    KV("hint", "the gateway's ext_proc filter must send "
                               "bodies: FULL_DUPLEX_STREAMED or BUFFERED"));
        pick_refuse(pick, 500, "extproc_mode",
                    "the gateway's ext_proc filter needs request_body_mode "
                    "FULL_DUPLEX_STREAMED or BUFFERED");
        return;
    }
    if (!make_head(pick, message)) {
        pick_refuse(pick, 400, "bad_request",
                    "the request's head cannot be read");
        return;
    }
    note_subset(pick, message->metadata);
    if (pick->text.failed || pick->names.failed) {
        pick_refuse(pick, 431, "head_too_large",
                    "the request's head is larger than limits.head_bytes_max");
        return;
    }
    if (!open_client(pick)) {
        return;
    }
    pick->state = pick->has_body ? PICK_BODY : PICK_ASKED;
    pick_pipe_send(&pick->front, buf_slice(&pick->text), SLICE(""), SLICE(""));
    if (pick->has_body && !pick->duplex) {
        acknowledge(pick, message);
    }
}

/* A chunk of HTTP/1.1. */
static void ON_LANE
send_chunk(struct pick *pick, struct pick_pipe *pipe, struct slice bytes,
           bool last)
{
    if (bytes.len == 0) {
        if (last) {
            pick_pipe_send(pipe, SLICE(LAST_CHUNK), SLICE(""), SLICE(""));
        }
        return;
    }
    buf_clear(&pick->text);
    rewriting_put_size(&pick->text, bytes.len);
    if (!pick->text.failed) {
        pick_pipe_send(pipe, buf_slice(&pick->text), bytes,
                       last ? SLICE("\r\n" LAST_CHUNK) : SLICE("\r\n"));
    }
}

static void ON_LANE
take_body(struct pick *pick, const struct extproc_message *message)
{
    bool last = message->ends || !pick->duplex;

    if (pick->state != PICK_BODY) {
        if (pick->state != PICK_OVER) {
            pick_break_off(pick,
                           GRPC_INVALID); /* there was no head, or an end */
        }
        return;
    }
    pick->state = last ? PICK_ASKED : PICK_BODY;
    send_chunk(pick, &pick->front, message->body, last);
}

static void ON_LANE
take_trailers(struct pick *pick, const struct extproc_message *message)
{
    if (pick->state != PICK_BODY) {
        acknowledge(pick, message);
        return;
    }
    pick->state = PICK_ASKED;
    pick->trailers = true;
    send_chunk(pick, &pick->front, SLICE(""), true);
}

/* The answer */

/* 200 to 599; 0: no status, or an interim one. */
static unsigned
status_of(struct slice text)
{
    unsigned status = 0;

    for (size_t i = 0; i < text.len && text.len == 3; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9') {
            return 0;
        }
        status = status * 10 + (unsigned)(text.ptr[i] - '0');
    }
    return status >= 200 && status < 600 ? status : 0;
}

/* What of it is looked at. */
static void
add_answer_fields(struct buf *out, struct slice headers)
{
    static const char *const names[] = {"content-type", "content-encoding",
                                        "retry-after"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct slice value = extproc_header_find(headers, names[i]);
        if (value.len != 0 && is_line(value)) {
            put_field(out, slice_of(names[i]), value);
        }
    }
}

/* By the gateway's word. */
static bool
is_elsewhere(const struct pick *pick, struct slice metadata)
{
    struct extproc_texts texts;
    struct slice text;

    return extproc_texts_find(metadata, EXTPROC_SPACE, EXTPROC_SERVED,
                              &texts) &&
           extproc_texts_next(&texts, &text) && text.len != 0 &&
           !pick_is_first(pick, text);
}

static void ON_LANE
take_answer(struct pick *pick, const struct extproc_message *message)
{
    unsigned status =
        status_of(extproc_header_find(message->headers, ":status"));
    struct buf *out = &pick->text;

    if (pick->state != PICK_GIVEN || status == 0) {
        return;
    }
    if (is_elsewhere(pick, message->metadata)) {
        counter_bump(&pick->lane->shared->metrics.extproc_elsewhere, 1);
        pick_drop_client(pick);
        return;
    }
    pick->state = PICK_ANSWER;
    pick->bodyless = pick->head_only || status == 204 || status == 304;
    buf_clear(out);
    buf_add_text(out, "HTTP/1.1 ");
    buf_add_uint(out, status);
    buf_add(out, " ", 1);
    buf_add_text(out, http_status_reason(status));
    buf_add(out, "\r\n", 2);
    add_answer_fields(out, message->headers);
    if (!pick->bodyless) {
        buf_add_text(out, message->ends ? "Content-Length: 0\r\n"
                                        : "Transfer-Encoding: chunked\r\n");
    }
    buf_add_text(out, "Connection: close\r\n\r\n");
    if (out->failed) {
        pick_drop_client(pick);
        return;
    }
    pick->done = message->ends || pick->bodyless;
    pick_pipe_send(&pick->back, buf_slice(out), SLICE(""), SLICE(""));
}

void
pick_end_answer(struct pick *pick)
{
    if (pick->state == PICK_ANSWER && !pick->done) {
        pick->done = true;
        send_chunk(pick, &pick->back, SLICE(""), true);
    }
}

static void ON_LANE
take_answer_body(struct pick *pick, const struct extproc_message *message)
{
    if (pick->state == PICK_ANSWER && !pick->done) {
        pick->body_seen = true;
        pick->done = message->ends;
        send_chunk(pick, &pick->back, message->body, message->ends);
    }
}

void
pick_take(struct pick *pick, const struct extproc_message *message)
{
    switch (message->part) {
    case EXTPROC_REQUEST_HEADERS:
        if (pick->state != PICK_HEAD) {
            pick_break_off(pick, GRPC_INVALID);
        } else {
            take_head(pick, message);
        }
        break;
    case EXTPROC_REQUEST_BODY:
        take_body(pick, message);
        break;
    case EXTPROC_REQUEST_TRAILERS:
        take_trailers(pick, message);
        break;
    case EXTPROC_RESPONSE_HEADERS:
        acknowledge(pick, message);
        take_answer(pick, message);
        break;
    case EXTPROC_RESPONSE_BODY:
        acknowledge(pick, message);
        take_answer_body(pick, message);
        break;
    case EXTPROC_RESPONSE_TRAILERS:
        acknowledge(pick, message);
        pick_end_answer(pick);
        break;
    case EXTPROC_NOTHING:
        pick_break_off(pick, GRPC_INVALID);
        break;
    }
}
