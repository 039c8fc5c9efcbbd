/* The request line, the target's forms, and Host. */
#include "node/http/http_parse_internal.h"
#include "node/http/http_text_internal.h"

static enum http_method
method_of(struct slice method)
{
    switch (method.len) {
    case 3:
        if (memcmp(method.ptr, "GET", 3) == 0) {
            return HTTP_GET;
        }
        return memcmp(method.ptr, "PUT", 3) == 0 ? HTTP_PUT : HTTP_OTHER;
    case 4:
        if (memcmp(method.ptr, "POST", 4) == 0) {
            return HTTP_POST;
        }
        return memcmp(method.ptr, "HEAD", 4) == 0 ? HTTP_HEAD : HTTP_OTHER;
    case 5:
        return memcmp(method.ptr, "PATCH", 5) == 0 ? HTTP_PATCH : HTTP_OTHER;
    case 6:
        return memcmp(method.ptr, "DELETE", 6) == 0 ? HTTP_DELETE : HTTP_OTHER;
    case 7:
        return memcmp(method.ptr, "OPTIONS", 7) == 0 ? HTTP_OPTIONS
                                                     : HTTP_OTHER;
    default:
        return HTTP_OTHER;
    }
}

/* Methods that ask for another protocol than the one we speak. */
static int
refuse_method(struct http_parse *parse, struct slice method)
{
    if (slice_equal(method, SLICE("CONNECT"))) {
        return http_parse_refuse(parse, HTTP_E_BAD, 501, method.ptr,
                                 "CONNECT is not served");
    }
    if (slice_equal(method, SLICE("PRI"))) {
        return http_parse_refuse(parse, HTTP_E_BAD, 505, method.ptr,
                                 "HTTP/2 is not served");
    }
    return 0;
}

static int
read_method(struct http_parse *parse)
{
    const char *at = parse->at;
    const char *stop = http_text_token_end(at, parse->end);
    struct slice method = {.ptr = at, .len = (size_t)(stop - at)};

    if (stop == parse->end) {
        return HTTP_E_MORE;
    }
    if (stop == at || *stop != ' ') {
        return http_parse_bad(parse, stop,
                              "the request line does not begin with a method");
    }
    parse->head->method = method;
    parse->head->method_id = method_of(method);
    parse->at = stop + 1;
    return parse->head->method_id == HTTP_OTHER ? refuse_method(parse, method)
                                                : 0;
}

/* host [":" port]; no user, no empty host, no list. */
static bool
is_authority(struct slice text)
{
    const char *end = text.ptr + text.len;
    const char *at = text.ptr;

    if (text.len != 0 && *at == '[') {
        const char *open = at;

        do {
            at++;
        } while (at != end && (http_text_is(*at, HTTP_TEXT_HEX) || *at == ':' ||
                               *at == '.'));
        if (at == end || *at != ']' || at - open < 3) {
            return false;
        }
        at++;
    } else {
        at = http_text_end(at, end, HTTP_TEXT_HOST);
        if (at == text.ptr) {
            return false;
        }
    }
    if (at != end && *at == ':') {
        at = http_text_end(at + 1, end, HTTP_TEXT_DIGIT);
    }
    return at == end;
}

/* "http://" or "https://", authority, and what follows as the path. */
static int
split_absolute(struct http_parse *parse)
{
    struct slice target = parse->head->target;
    const char *end = target.ptr + target.len;
    size_t scheme = 0;
    const char *at;

    if (target.len > 7 &&
        slice_equal_nocase((struct slice){.ptr = target.ptr, .len = 7},
                           SLICE("http://"))) {
        scheme = 7;
    } else if (target.len > 8 &&
               slice_equal_nocase((struct slice){.ptr = target.ptr, .len = 8},
                                  SLICE("https://"))) {
        scheme = 8;
    } else {
        return http_parse_bad(parse, target.ptr,
                              "the target is neither a path nor an http URL");
    }
    at = target.ptr + scheme;
    while (at != end && *at != '/' && *at != '?') {
        at++;
    }
    parse->authority.ptr = target.ptr + scheme;
    parse->authority.len = (size_t)(at - parse->authority.ptr);
    if (!is_authority(parse->authority)) {
        return http_parse_bad(parse, parse->authority.ptr,
                              "the target has no valid host");
    }
    parse->head->path = (struct slice){.ptr = at, .len = (size_t)(end - at)};
    return 0;
}

/* Sets path from target, by the target's form (RFC 9112 section 3.2). */
static int
split_target(struct http_parse *parse)
{
    struct http_head *head = parse->head;
    const char *query;
    int outcome;

    head->path = head->target;
    if (head->target.ptr[0] == '*') {
        if (head->target.len != 1 || head->method_id != HTTP_OPTIONS) {
            return http_parse_bad(parse, head->target.ptr,
                                  "the target * is for OPTIONS alone");
        }
        return 0;
    }
    if (head->target.ptr[0] != '/') {
        outcome = split_absolute(parse);
        if (outcome != 0) {
            return outcome;
        }
    }
    query = memchr(head->path.ptr, '?', head->path.len);
    if (query != NULL) {
        head->path.len = (size_t)(query - head->path.ptr);
    }
    return 0;
}

static int
read_target(struct http_parse *parse)
{
    const char *at = parse->at;
    const char *stop = http_text_target_end(at, parse->end);
    size_t len = (size_t)(stop - at);

    if (len > parse->limits->target_bytes_max) {
        return http_parse_refuse(parse, HTTP_E_LIMIT, 414,
                                 at + parse->limits->target_bytes_max,
                                 "the target is longer than "
                                 "limits.target_bytes_max");
    }
    if (stop == parse->end) {
        return HTTP_E_MORE;
    }
    if (len == 0 || *stop != ' ') {
        return http_parse_bad(parse, stop,
                              *stop == '\r' || *stop == '\n'
                                  ? "the request line has no HTTP version"
                                  : "the target contains an invalid byte");
    }
    parse->head->target = (struct slice){.ptr = at, .len = len};
    parse->at = stop + 1;
    return split_target(parse);
}

int
http_parse_request_line(struct http_parse *parse)
{
    int outcome;

    CHECK(!parse->response && parse->at == parse->start);
    if (parse->at != parse->end && *parse->at == '\r') {
        outcome = http_parse_line_end(parse);
        if (outcome != 0) {
            return outcome;
        }
    }
    outcome = read_method(parse);
    if (outcome == 0) {
        outcome = read_target(parse);
    }
    if (outcome == 0) {
        outcome = http_parse_version(parse);
    }
    if (outcome == 0) {
        outcome = http_parse_line_end(parse);
    }
    return outcome;
}

int
http_parse_host(struct http_parse *parse)
{
    struct http_head *head = parse->head;
    const struct http_header *host = http_head_find(head, HTTP_FIELD_HOST);

    CHECK(!parse->response);
    if (host == NULL) {
        return head->minor == 0 ? 0
                                : http_parse_bad(parse, parse->at,
                                                 "the Host header is missing");
    }
    if ((head->fields_repeated & (1U << HTTP_FIELD_HOST)) != 0) {
        return http_parse_bad(parse, parse->at, "more than one Host header");
    }
    if (!is_authority(host->value)) {
        return http_parse_bad(parse, host->value.ptr,
                              "the Host header is not valid");
    }
    if (parse->authority.len != 0 &&
        !slice_equal_nocase(parse->authority, host->value)) {
        return http_parse_bad(parse, host->value.ptr,
                              "the Host header differs from the target's host");
    }
    return 0;
}
