/*
 * Shared by the files that parse a head: the parser's position, how it refuses,
 * and the order of the work.
 *
 * A head is read in one pass, in three steps: the start line (http_request.c,
 * http_response.c), the header lines (http_head.c), and then what the headers
 * mean for the body and the connection (http_framing.c). The first two read
 * bytes in order and return HTTP_E_MORE at the end of input; the third sees
 * only whole heads. So a head that is accepted returns HTTP_E_MORE for each of
 * its prefixes, and a head that is refused stays refused in whatever pieces it
 * arrives.
 *
 * Role: core, private to the HTTP files. Owns: nothing. Thread: any. Limits:
 * struct http_limits. Errors: the outcomes of http_head.h.
 */
#ifndef NODE_HTTP_PARSE_INTERNAL_H
#define NODE_HTTP_PARSE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "index/base/check.h"
#include "index/base/slice.h"
#include "node/http/http_head.h"

struct http_parse {
    const char *start; /* of the head, for offsets */
    const char *at;    /* the next byte to look at */
    const char *end;   /* of the input, or of head_bytes_max if that is less */
    const struct http_limits *limits;
    struct http_head *head;
    struct slice authority; /* of a target in absolute form, else empty */
    bool response;          /* every fault of one is the upstream's: 502 */
};

/*
 * Records the fault at that byte and returns outcome (HTTP_E_BAD or
 * HTTP_E_LIMIT). status: the answer to a request. text: static.
 */
int http_parse_refuse(struct http_parse *parse, int outcome, unsigned status,
                      const char *at, const char *text) MUST_CHECK;

/* The common case: HTTP_E_BAD with 400. */
int http_parse_bad(struct http_parse *parse, const char *at, const char *text)
    MUST_CHECK;

/* Reads "HTTP/1.0" or "HTTP/1.1" into head->minor. 0 or an outcome. */
int http_parse_version(struct http_parse *parse) MUST_CHECK;

/* Reads the CRLF that must come next. 0 or an outcome. */
int http_parse_line_end(struct http_parse *parse) MUST_CHECK;

/* Reads a request line up to and with its CRLF. 0 or an outcome. */
int http_parse_request_line(struct http_parse *parse) MUST_CHECK;

/* Reads a status line up to and with its CRLF. 0 or an outcome. */
int http_parse_status_line(struct http_parse *parse) MUST_CHECK;

/* Judges Host against RFC 9112 section 3.2. 0 or an outcome. */
int http_parse_host(struct http_parse *parse) MUST_CHECK;

/*
 * Sets body, content_length, keep_alive, expect_continue and upgrade from the
 * headers (RFC 9112 section 6.3, RFC 9110 section 7.6.1). 0 or an outcome.
 */
int http_parse_request_framing(struct http_parse *parse) MUST_CHECK;
int http_parse_response_framing(struct http_parse *parse,
                                enum http_method to_method) MUST_CHECK;

#endif
