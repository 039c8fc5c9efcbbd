/* What the headers mean for the body and for the connection. */
#include "node/http/http_parse_internal.h"
#include "node/http/http_text_internal.h"

/* So many digits always fit 64 bits. */
#define LENGTH_DIGITS_MAX 19

/* Of Connection, over all its lines: each field is looked for in there. */
#define CONNECTION_BYTES_MAX 512

static bool
has(const struct http_head *head, enum http_field field)
{
    return (head->fields_seen & (1U << field)) != 0;
}

static bool
repeats(const struct http_head *head, enum http_field field)
{
    return (head->fields_repeated & (1U << field)) != 0;
}

/*
 * A tab after the value is a blank to the RFC, and part of the value to some
 * who read lengths and codings. A header line always ends in CR.
 */
static bool
tab_follows(struct slice value)
{
    const char *at = value.ptr + value.len;

    while (*at == ' ') {
        at++;
    }
    return *at != '\r';
}

static int
read_length(struct http_parse *parse)
{
    struct http_head *head = parse->head;
    struct slice text = http_head_find(head, HTTP_FIELD_CONTENT_LENGTH)->value;
    uint64_t length = 0;

    if (repeats(head, HTTP_FIELD_CONTENT_LENGTH)) {
        return http_parse_bad(parse, text.ptr, "more than one Content-Length");
    }
    if (text.len == 0 || text.len > LENGTH_DIGITS_MAX || tab_follows(text)) {
        return http_parse_bad(parse, text.ptr,
                              "Content-Length is not a valid number");
    }
    for (size_t i = 0; i < text.len; i++) {
        if (!http_text_is(text.ptr[i], HTTP_TEXT_DIGIT)) {
            return http_parse_bad(parse, text.ptr + i,
                                  "Content-Length is not a valid number");
        }
        length = length * 10 + (uint64_t)(text.ptr[i] - '0');
    }
    head->content_length = length;
    head->body = length != 0 ? HTTP_BODY_LENGTH : HTTP_BODY_NONE;
    return 0;
}

/*
 * A coding that we do not know is 501, as RFC 9112 section 6.1 has it; no
 * coding, or chunked more than once, is 400.
 */
static int
refuse_codings(struct http_parse *parse, struct slice text)
{
    struct slice rest = text;
    struct slice item;

    while (http_text_list_next(&rest, &item)) {
        if (!slice_equal_nocase(item, SLICE("chunked"))) {
            return http_parse_refuse(parse, HTTP_E_BAD, 501, item.ptr,
                                     "transfer coding other than chunked");
        }
    }
    return http_parse_bad(parse, text.ptr,
                          "Transfer-Encoding is not exactly chunked");
}

static int
read_coding(struct http_parse *parse)
{
    struct http_head *head = parse->head;
    struct slice text =
        http_head_find(head, HTTP_FIELD_TRANSFER_ENCODING)->value;

    if (has(head, HTTP_FIELD_CONTENT_LENGTH)) {
        return http_parse_bad(
            parse, text.ptr,
            "both Content-Length and Transfer-Encoding are given");
    }
    if (head->minor == 0) {
        return http_parse_bad(parse, text.ptr,
                              "Transfer-Encoding in an HTTP/1.0 message");
    }
    if (repeats(head, HTTP_FIELD_TRANSFER_ENCODING)) {
        return http_parse_bad(parse, text.ptr,
                              "more than one Transfer-Encoding");
    }
    if (!slice_equal_nocase(text, SLICE("chunked")) || tab_follows(text)) {
        return refuse_codings(parse, text);
    }
    head->body = HTTP_BODY_CHUNKED;
    return 0;
}

/* Leaves head->body as it is where neither header is there. */
static int
read_body(struct http_parse *parse)
{
    if (has(parse->head, HTTP_FIELD_TRANSFER_ENCODING)) {
        return read_coding(parse);
    }
    if (has(parse->head, HTTP_FIELD_CONTENT_LENGTH)) {
        return read_length(parse);
    }
    return 0;
}

/* What Connection says, over all its lines. */
struct connection {
    bool closes;
    bool keeps;
    bool upgrades;
    bool names;
};

static void
read_connection_list(struct connection *connection, struct slice list)
{
    struct slice item;

    while (http_text_list_next(&list, &item)) {
        if (slice_equal_nocase(item, SLICE("close"))) {
            connection->closes = true;
        } else if (slice_equal_nocase(item, SLICE("keep-alive"))) {
            connection->keeps = true;
        } else if (slice_equal_nocase(item, SLICE("upgrade"))) {
            connection->upgrades = true;
        } else {
            connection->names = true;
        }
    }
}

static int
read_connection(struct http_parse *parse)
{
    struct http_head *head = parse->head;
    struct connection connection = {0};
    size_t first = has(head, HTTP_FIELD_CONNECTION)
                       ? head->field_first[HTTP_FIELD_CONNECTION]
                       : head->headers_count;
    size_t bytes = 0;

    for (size_t i = first; i < head->headers_count; i++) {
        if (head->headers[i].field != HTTP_FIELD_CONNECTION) {
            continue;
        }
        struct slice list = head->headers[i].value;
        bytes += list.len;
        if (bytes > CONNECTION_BYTES_MAX) {
            return http_parse_refuse(parse, HTTP_E_LIMIT, 431, list.ptr,
                                     "Connection is longer than 512 bytes");
        }
        read_connection_list(&connection, list);
    }
    head->connection_names = connection.names;
    head->keep_alive =
        !connection.closes && (head->minor != 0 || connection.keeps);
    head->upgrade = connection.upgrades && head->minor != 0 &&
                    has(head, HTTP_FIELD_UPGRADE);
    return 0;
}

/* The only expectation there is, and it is none under HTTP/1.0. */
static int
read_expect(struct http_parse *parse)
{
    struct http_head *head = parse->head;
    struct slice text = http_head_find(head, HTTP_FIELD_EXPECT)->value;

    if (repeats(head, HTTP_FIELD_EXPECT) ||
        !slice_equal_nocase(text, SLICE("100-continue"))) {
        return http_parse_refuse(parse, HTTP_E_BAD, 417, text.ptr,
                                 "expectation other than 100-continue");
    }
    head->expect_continue = head->minor != 0 && head->body != HTTP_BODY_NONE;
    return 0;
}

int
http_parse_request_framing(struct http_parse *parse)
{
    CHECK(!parse->response && parse->head->headers_count <= HTTP_HEADERS_MAX);
    int outcome = read_body(parse);

    if (outcome == 0) {
        outcome = read_connection(parse);
    }
    if (outcome == 0 && has(parse->head, HTTP_FIELD_EXPECT)) {
        outcome = read_expect(parse);
    }
    return outcome;
}

/* RFC 9112 section 6.3, rules 1 and 2; we never send CONNECT. */
static bool
has_no_body(unsigned status, enum http_method to_method)
{
    return to_method == HTTP_HEAD || status < 200 || status == 204 ||
           status == 304;
}

int
http_parse_response_framing(struct http_parse *parse,
                            enum http_method to_method)
{
    struct http_head *head = parse->head;
    int outcome;

    CHECK(parse->response && head->headers_count <= HTTP_HEADERS_MAX);
    head->body = HTTP_BODY_CLOSE;
    outcome = read_body(parse);
    if (outcome == 0) {
        outcome = read_connection(parse);
    }
    if (outcome != 0) {
        return outcome;
    }
    if (has_no_body(head->status, to_method)) {
        head->body = HTTP_BODY_NONE;
        head->content_length = 0;
    }
    /* After 101 the connection speaks another protocol. */
    if (head->body == HTTP_BODY_CLOSE || head->status == 101) {
        head->keep_alive = false;
    }
    return 0;
}
