/* Header lines of requests and responses, and the order of the parse. */
#include "node/http/http_head.h"

#include "node/http/http_parse_internal.h"
#include "node/http/http_text_internal.h"

int
http_parse_refuse(struct http_parse *parse, int outcome, unsigned status,
                  const char *at, const char *text)
{
    CHECK(outcome == HTTP_E_BAD || outcome == HTTP_E_LIMIT);
    CHECK(at >= parse->start && at <= parse->end);
    parse->head->fault = text;
    parse->head->fault_at = (size_t)(at - parse->start);
    parse->head->fault_status = parse->response ? 502 : status;
    return outcome;
}

int
http_parse_bad(struct http_parse *parse, const char *at, const char *text)
{
    return http_parse_refuse(parse, HTTP_E_BAD, 400, at, text);
}

static bool
is_digit(char c)
{
    return http_text_is(c, HTTP_TEXT_DIGIT);
}

int
http_parse_version(struct http_parse *parse)
{
    CHECK(parse->at <= parse->end);
    const char *at = parse->at;
    size_t left = (size_t)(parse->end - at);

    if (memcmp(at, "HTTP/", left < 5 ? left : 5) != 0) {
        return http_parse_bad(parse, at, "an HTTP version was expected");
    }
    if (left < 8) {
        return HTTP_E_MORE;
    }
    if (!is_digit(at[5]) || at[6] != '.' || !is_digit(at[7])) {
        return http_parse_bad(parse, at, "an HTTP version was expected");
    }
    if (at[5] != '1' || at[7] > '1') {
        return http_parse_refuse(parse, HTTP_E_BAD, 505, at,
                                 "HTTP version is neither 1.0 nor 1.1");
    }
    parse->head->minor = (unsigned)(at[7] - '0');
    parse->at = at + 8;
    return 0;
}

int
http_parse_line_end(struct http_parse *parse)
{
    CHECK(parse->at <= parse->end);
    const char *at = parse->at;
    size_t left = (size_t)(parse->end - at);

    if (left != 0 && at[0] != '\r') {
        return http_parse_bad(parse, at, "a line does not end in CRLF");
    }
    if (left > 1 && at[1] != '\n') {
        return http_parse_bad(parse, at + 1, "a CR is not followed by LF");
    }
    if (left < 2) {
        return HTTP_E_MORE;
    }
    parse->at = at + 2;
    return 0;
}

static inline __attribute__((always_inline)) enum http_field
field_if(const char *name, const char *lower, size_t len, enum http_field field)
{
    return http_text_token_is(name, lower, len) ? field : HTTP_FIELD_OTHER;
}

/* By length, then first letter, so that a name costs one compare or none. */
static inline enum http_field
field_named(const char *name, size_t len, char first)
{
    switch (len) {
    case 2:
        return field_if(name, "te", 2, HTTP_FIELD_TE);
    case 4:
        return field_if(name, "host", 4, HTTP_FIELD_HOST);
    case 6:
        return first == 'e' ? field_if(name, "expect", 6, HTTP_FIELD_EXPECT)
                            : field_if(name, "origin", 6, HTTP_FIELD_ORIGIN);
    case 7:
        return first == 'u' ? field_if(name, "upgrade", 7, HTTP_FIELD_UPGRADE)
                            : field_if(name, "trailer", 7, HTTP_FIELD_TRAILER);
    case 10:
        return first == 'c'
                   ? field_if(name, "connection", 10, HTTP_FIELD_CONNECTION)
                   : field_if(name, "keep-alive", 10, HTTP_FIELD_KEEP_ALIVE);
    case 11:
        return field_if(name, "traceparent", 11, HTTP_FIELD_TRACEPARENT);
    case 12:
        if (first == 'c') {
            return field_if(name, "content-type", 12, HTTP_FIELD_CONTENT_TYPE);
        }
        return http_text_token_is(name, "x-request-id", 12)
                   ? HTTP_FIELD_REQUEST_ID
                   : field_if(name, "x-session-id", 12, HTTP_FIELD_SESSION_ID);
    case 13:
        return field_if(name, "authorization", 13, HTTP_FIELD_AUTHORIZATION);
    case 14:
        return field_if(name, "content-length", 14, HTTP_FIELD_CONTENT_LENGTH);
    case 17:
        return first == 't' ? field_if(name, "transfer-encoding", 17,
                                       HTTP_FIELD_TRANSFER_ENCODING)
                            : field_if(name, "x-request-timeout", 17,
                                       HTTP_FIELD_TIMEOUT);
    default:
        return HTTP_FIELD_OTHER;
    }
}

static inline enum http_field
field_of(const char *name, size_t len)
{
    char first = (char)(name[0] | 0x20);
    enum http_field field = field_named(name, len, first);

    if (field != HTTP_FIELD_OTHER) {
        return field;
    }
    if (first == 'p' && len > 6 && http_text_token_is(name, "proxy-", 6)) {
        return HTTP_FIELD_PROXY;
    }
    if (first == 'x' && len > 9 && http_text_token_is(name, "x-kvasir-", 9)) {
        return HTTP_FIELD_KVASIR;
    }
    return HTTP_FIELD_OTHER;
}

static void
add_header(struct http_head *head, struct slice name, struct slice value)
{
    size_t index = head->headers_count++;
    enum http_field field = field_of(name.ptr, name.len);
    uint32_t bit = 1U << field;

    head->headers[index].name = name;
    head->headers[index].value = value;
    head->headers[index].field = field;
    if ((head->fields_seen & bit) != 0) {
        head->fields_repeated |= bit;
        return;
    }
    head->fields_seen |= bit;
    head->field_first[field] = (uint8_t)index;
}

/* line up to stop is no name. */
static int
refuse_name(struct http_parse *parse, const char *line, const char *stop)
{
    if (stop == parse->end) {
        return HTTP_E_MORE;
    }
    if (stop != line) {
        return http_parse_bad(
            parse, stop,
            *stop == ' ' || *stop == '\t'
                ? "a blank stands before the colon of a header"
                : "the name of a header is not a token");
    }
    if (*stop == ' ' || *stop == '\t') {
        return http_parse_bad(parse, stop, "a header is folded over two lines");
    }
    return http_parse_bad(
        parse, stop,
        *stop == ':' ? "a header has no name" : "a line is not a header");
}

/*
 * One "name: value CRLF" from parse->at on. A name is of bytes that a value
 * may hold too, so where the line ends is sought from its start: the next line
 * then waits for one search and not for two in a row.
 */
static int
read_header(struct http_parse *parse)
{
    const char *line = parse->at;
    const char *end = parse->end;
    const char *stop = http_text_field_end(line, end);
    const char *colon = http_text_token_end(line, end);
    const char *value;

    if (UNLIKELY(colon == end || *colon != ':' || colon == line)) {
        return refuse_name(parse, line, colon);
    }
    if (UNLIKELY(end - stop < 2 || stop[0] != '\r' || stop[1] != '\n')) {
        parse->at = stop;
        return http_parse_line_end(parse);
    }
    parse->at = stop + 2;
    value = colon + 1;
    while (value != stop && (*value == ' ' || *value == '\t')) {
        value++;
    }
    while (stop != value && (stop[-1] == ' ' || stop[-1] == '\t')) {
        stop--;
    }
    add_header(parse->head,
               (struct slice){.ptr = line, .len = (size_t)(colon - line)},
               (struct slice){.ptr = value, .len = (size_t)(stop - value)});
    return 0;
}

/* The header lines and the blank line. */
static int
read_headers(struct http_parse *parse)
{
    size_t headers_max = parse->limits->headers_max;

    for (;;) {
        int outcome;

        if (parse->at == parse->end) {
            return HTTP_E_MORE;
        }
        if (*parse->at == '\r') {
            return http_parse_line_end(parse);
        }
        if (parse->head->headers_count == headers_max) {
            return http_parse_refuse(parse, HTTP_E_LIMIT, 431, parse->at,
                                     "more headers than limits.headers_max");
        }
        outcome = read_header(parse);
        if (outcome != 0) {
            return outcome;
        }
    }
}

static struct http_parse
begin(const char *bytes, size_t len, const struct http_limits *limits,
      struct http_head *head, bool response)
{
    size_t seen = len < limits->head_bytes_max ? len : limits->head_bytes_max;

    CHECK(bytes != NULL || len == 0);
    CHECK(limits->headers_max <= HTTP_HEADERS_MAX);
    memset(head, 0, offsetof(struct http_head, headers));
    return (struct http_parse){
        .start = bytes,
        .at = bytes,
        .end = seen != 0 ? bytes + seen : bytes,
        .limits = limits,
        .head = head,
        .response = response,
    };
}

/* MORE that head_bytes_max leaves no room for is over the limit. */
static int
bounded(struct http_parse *parse, size_t len, int outcome)
{
    if (outcome == HTTP_E_MORE && len >= parse->limits->head_bytes_max) {
        return http_parse_refuse(parse, HTTP_E_LIMIT, 431, parse->end,
                                 "the head is larger than "
                                 "limits.head_bytes_max");
    }
    return outcome;
}

int
http_head_parse_request(const char *bytes, size_t len,
                        const struct http_limits *limits,
                        struct http_head *head)
{
    struct http_parse parse = begin(bytes, len, limits, head, false);
    int outcome = http_parse_request_line(&parse);

    if (outcome == 0) {
        outcome = read_headers(&parse);
    }
    if (outcome == 0) {
        outcome = http_parse_host(&parse);
    }
    if (outcome == 0) {
        outcome = http_parse_request_framing(&parse);
    }
    head->size_bytes = outcome == 0 ? (size_t)(parse.at - bytes) : 0;
    return bounded(&parse, len, outcome);
}

int
http_head_parse_response(const char *bytes, size_t len,
                         const struct http_limits *limits,
                         enum http_method to_method, struct http_head *head)
{
    struct http_parse parse = begin(bytes, len, limits, head, true);
    int outcome = http_parse_status_line(&parse);

    if (outcome == 0) {
        outcome = read_headers(&parse);
    }
    if (outcome == 0) {
        outcome = http_parse_response_framing(&parse, to_method);
    }
    head->size_bytes = outcome == 0 ? (size_t)(parse.at - bytes) : 0;
    return bounded(&parse, len, outcome);
}

const struct http_header *
http_head_find(const struct http_head *head, enum http_field field)
{
    if ((head->fields_seen & (1U << field)) == 0) {
        return NULL;
    }
    return &head->headers[head->field_first[field]];
}

const struct http_header *
http_head_find_name(const struct http_head *head, struct slice name)
{
    for (size_t i = 0; i < head->headers_count; i++) {
        if (slice_equal_nocase(head->headers[i].name, name)) {
            return &head->headers[i];
        }
    }
    return NULL;
}

static bool
connection_lists(const struct http_head *head, struct slice name)
{
    for (size_t i = head->field_first[HTTP_FIELD_CONNECTION];
         i < head->headers_count; i++) {
        struct slice rest = head->headers[i].value;
        struct slice item;

        if (head->headers[i].field != HTTP_FIELD_CONNECTION) {
            continue;
        }
        while (http_text_list_next(&rest, &item)) {
            if (slice_equal_nocase(item, name)) {
                return true;
            }
        }
    }
    return false;
}

bool
http_head_is_hop(const struct http_head *head, const struct http_header *header)
{
    switch (header->field) {
    case HTTP_FIELD_CONNECTION:
    case HTTP_FIELD_KEEP_ALIVE:
    case HTTP_FIELD_PROXY:
    case HTTP_FIELD_TE:
    case HTTP_FIELD_TRANSFER_ENCODING:
    case HTTP_FIELD_UPGRADE:
        return true;
    /* Where the message goes and ends, and as what it is read: not a sender's
     * to take away. */
    case HTTP_FIELD_HOST:
    case HTTP_FIELD_CONTENT_LENGTH:
    case HTTP_FIELD_CONTENT_TYPE:
        return false;
    case HTTP_FIELD_OTHER:
    case HTTP_FIELD_EXPECT:
    case HTTP_FIELD_TRAILER:
    case HTTP_FIELD_AUTHORIZATION:
    case HTTP_FIELD_REQUEST_ID:
    case HTTP_FIELD_SESSION_ID:
    case HTTP_FIELD_TIMEOUT:
    case HTTP_FIELD_ORIGIN:
    case HTTP_FIELD_TRACEPARENT:
    case HTTP_FIELD_KVASIR:
        break;
    }
    return head->connection_names && connection_lists(head, header->name);
}
