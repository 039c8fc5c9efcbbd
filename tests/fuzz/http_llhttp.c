/* llhttp's callbacks, which write down what they are told. */
#include "tests/fuzz/http_llhttp.h"

#include <llhttp.h>

#define BODY_BYTES_MAX (1U << 20)

struct reader {
    struct http_llhttp *seen;
    bool no_body; /* the response is to HEAD */
    bool in_value;
};

static struct reader *
reader_of(llhttp_t *parser)
{
    return parser->data;
}

/* The pieces of a span follow each other, unless a value is folded. */
static void
extend(struct http_llhttp *seen, struct slice *slice, const char *at,
       size_t len)
{
    if (slice->len == 0) {
        slice->ptr = at;
    }
    seen->folded = seen->folded || slice->ptr + slice->len != at;
    slice->len += len;
}

static int
on_url(llhttp_t *parser, const char *at, size_t len)
{
    extend(reader_of(parser)->seen, &reader_of(parser)->seen->target, at, len);
    return 0;
}

/* A name after a value, or after nothing, starts a header. */
static int
on_name(llhttp_t *parser, const char *at, size_t len)
{
    struct reader *reader = reader_of(parser);
    struct http_llhttp *seen = reader->seen;

    if (seen->head_done) {
        return 0;
    }
    if (reader->in_value || seen->headers_count == 0) {
        reader->in_value = false;
        if (seen->headers_count == HTTP_LLHTTP_HEADERS_MAX) {
            return -1;
        }
        seen->headers_count++;
    }
    extend(seen, &seen->headers[seen->headers_count - 1].name, at, len);
    return 0;
}

static int
on_value(llhttp_t *parser, const char *at, size_t len)
{
    struct http_llhttp *seen = reader_of(parser)->seen;

    if (!seen->head_done && seen->headers_count != 0) {
        extend(seen, &seen->headers[seen->headers_count - 1].value, at, len);
    }
    return 0;
}

static int
on_value_complete(llhttp_t *parser)
{
    reader_of(parser)->in_value = true;
    return 0;
}

static int
on_headers_complete(llhttp_t *parser)
{
    struct reader *reader = reader_of(parser);
    struct http_llhttp *seen = reader->seen;
    unsigned status = parser->status_code;

    seen->head_done = true;
    seen->method = llhttp_method_name((llhttp_method_t)parser->method);
    seen->status = status;
    seen->minor = parser->http_minor;
    seen->chunked = (parser->flags & F_CHUNKED) != 0;
    seen->length_given = (parser->flags & F_CONTENT_LENGTH) != 0;
    seen->length = parser->content_length;
    return parser->type == HTTP_RESPONSE &&
           (reader->no_body || status / 100 == 1 || status == 204 ||
            status == 304);
}

static int
on_body(llhttp_t *parser, const char *at, size_t len)
{
    buf_add(&reader_of(parser)->seen->body, at, len);
    return 0;
}

static int
on_message_complete(llhttp_t *parser)
{
    struct http_llhttp *seen = reader_of(parser)->seen;

    seen->done = true;
    seen->keep_alive = llhttp_should_keep_alive(parser) != 0;
    return HPE_PAUSED;
}

void
http_llhttp_read(struct http_llhttp *seen, struct slice bytes, bool response,
                 bool to_head, bool final)
{
    static const llhttp_settings_t settings = {
        .on_url = on_url,
        .on_header_field = on_name,
        .on_header_value = on_value,
        .on_header_value_complete = on_value_complete,
        .on_headers_complete = on_headers_complete,
        .on_body = on_body,
        .on_message_complete = on_message_complete,
    };
    struct reader reader = {.seen = seen, .no_body = to_head};
    llhttp_t parser;
    llhttp_errno_t error;

    memset(seen, 0, sizeof(*seen));
    buf_init(&seen->body, BODY_BYTES_MAX);
    llhttp_init(&parser, response ? HTTP_RESPONSE : HTTP_REQUEST, &settings);
    parser.data = &reader;
    error = llhttp_execute(&parser, bytes.ptr, bytes.len);
    seen->used = bytes.len;
    if (seen->done) {
        seen->used = (size_t)(llhttp_get_error_pos(&parser) - bytes.ptr);
        return;
    }
    if (error == HPE_OK && final && seen->head_done &&
        llhttp_message_needs_eof(&parser)) {
        error = llhttp_finish(&parser);
    }
    if (error != HPE_OK && !seen->done) {
        seen->error = llhttp_get_error_reason(&parser);
        seen->error_at = (size_t)(llhttp_get_error_pos(&parser) - bytes.ptr);
        seen->method_unknown =
            error == HPE_INVALID_METHOD || error == HPE_INVALID_CONSTANT;
        seen->size_bad = error == HPE_INVALID_CHUNK_SIZE;
    }
}
