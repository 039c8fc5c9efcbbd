/*
 * Parses HTTP/1.1 request and response heads, strictly (RFC 9110, RFC 9112).
 *
 * Stricter than the RFC wherever leniency is how requests get smuggled: bare
 * LF or CR, NUL, obs-fold, space before a colon, empty header names, bytes
 * outside the token and field-value alphabets, repeated or conflicting
 * Content-Length, Content-Length beside Transfer-Encoding, any coding but a
 * single final "chunked", Transfer-Encoding under HTTP/1.0, a tab behind either
 * value, no or several Host under HTTP/1.1, a Host that is no host or is not
 * the target's are all refused. So are "#" and bytes beyond ASCII in a target,
 * CONNECT, HTTP/2's PRI, and expectations other than 100-continue. One leading
 * CRLF before a request line is skipped, as RFC 9112 section 2.2 asks; a
 * response may leave out its reason and the space before it.
 *
 * An own parser, because llhttp 8.1 takes obs-fold, empty names, HTTP/2.0,
 * Transfer-Encoding under HTTP/1.0 and several Host even in strict mode. What
 * this one accepts llhttp accepts too, and reads the same: tests/fuzz holds it
 * to that. A head costs 0.2 us (617 bytes) to 0.5 us (3.7 KB), from a
 * vectorised search per line; parsing again from the start on each read is
 * cheaper than keeping a state machine.
 *
 * Role: core. Owns: nothing; every slice points into the caller's bytes.
 * Thread: any. Limits: struct http_limits, HTTP_HEADERS_MAX, 512 bytes of
 * Connection.
 * Errors: named outcomes; `fault` says what was wrong, `fault_at` where.
 */
#ifndef NODE_HTTP_HEAD_H
#define NODE_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/slice.h"

#define HTTP_HEADERS_MAX 96

enum http_method {
    HTTP_GET,
    HTTP_HEAD,
    HTTP_POST,
    HTTP_PUT,
    HTTP_DELETE,
    HTTP_OPTIONS,
    HTTP_PATCH,
    HTTP_OTHER, /* a valid token that is none of the above */
};

enum http_body {
    HTTP_BODY_NONE,
    HTTP_BODY_LENGTH,  /* content_length bytes, never 0 */
    HTTP_BODY_CHUNKED, /* see http_chunk.h */
    HTTP_BODY_CLOSE,   /* responses only: until the connection closes */
};

/* Header names that the request path looks at, found while parsing. */
enum http_field {
    HTTP_FIELD_OTHER,
    HTTP_FIELD_HOST,
    HTTP_FIELD_CONNECTION,
    HTTP_FIELD_CONTENT_LENGTH,
    HTTP_FIELD_TRANSFER_ENCODING,
    HTTP_FIELD_CONTENT_TYPE,
    HTTP_FIELD_EXPECT,
    HTTP_FIELD_UPGRADE,
    HTTP_FIELD_KEEP_ALIVE,
    HTTP_FIELD_PROXY, /* proxy-connection, proxy-authenticate, ... */
    HTTP_FIELD_TE,
    HTTP_FIELD_TRAILER,
    HTTP_FIELD_AUTHORIZATION,
    HTTP_FIELD_REQUEST_ID, /* x-request-id */
    HTTP_FIELD_SESSION_ID, /* x-session-id */
    HTTP_FIELD_TIMEOUT,    /* x-request-timeout */
    HTTP_FIELD_ORIGIN,     /* of a page in a browser */
    HTTP_FIELD_TRACEPARENT,
    HTTP_FIELD_KVASIR, /* any x-kvasir-* */
};

#define HTTP_FIELDS (HTTP_FIELD_KVASIR + 1)

struct http_header {
    struct slice name;  /* as sent */
    struct slice value; /* without surrounding blanks */
    enum http_field field;
};

struct http_limits {
    size_t head_bytes_max;   /* whole head with its blank line */
    size_t target_bytes_max; /* request target */
    size_t headers_max;      /* at most HTTP_HEADERS_MAX */
};

struct http_head {
    struct slice method; /* requests */
    enum http_method method_id;
    struct slice target; /* requests: origin, absolute or asterisk form */
    struct slice path;   /* requests: target without authority and query; empty
                            for an absolute target without a path */
    struct slice reason; /* responses, may be empty */
    unsigned status;     /* responses: 100..599 */
    unsigned minor;      /* HTTP/1.minor: 0 or 1 */

    enum http_body body;
    uint64_t content_length; /* with HTTP_BODY_LENGTH; bytes */
    bool keep_alive;         /* may the connection be used again */
    bool expect_continue;    /* a body follows once 100 Continue was sent */
    bool upgrade;            /* Connection: upgrade and Upgrade, HTTP/1.1 */

    size_t size_bytes; /* of the head, leading CRLF and blank line included */

    uint32_t fields_seen;             /* 1 << enum http_field */
    uint32_t fields_repeated;         /* those seen more than once */
    bool connection_names;            /* Connection lists fields, see is_hop */
    uint8_t field_first[HTTP_FIELDS]; /* index in headers, where seen */

    /* With HTTP_E_BAD and HTTP_E_LIMIT. */
    const char *fault;     /* static text, fit for an error message */
    size_t fault_at;       /* byte offset */
    unsigned fault_status; /* 400, 414, 417, 431, 501 or 505 (502: response) */

    /* Last, because only the first headers_count of them are written. */
    size_t headers_count;
    struct http_header headers[HTTP_HEADERS_MAX];
};

enum {
    HTTP_E_MORE = 1, /* so far valid; call again with more bytes */
    HTTP_E_BAD,      /* refuse with fault_status and close */
    HTTP_E_LIMIT,    /* over a limit: refuse with fault_status and close */
};

/*
 * Parses one request head at the start of bytes. 0: *head is filled and
 * bytes[size_bytes] is where the body starts. Every call starts from the
 * beginning; a caller that re-parses on each read is bounded by
 * head_bytes_max.
 */
int http_head_parse_request(const char *bytes, size_t len,
                            const struct http_limits *limits,
                            struct http_head *head) MUST_CHECK;

/*
 * The same for a response. to_method is the request's: a response to HEAD,
 * and 1xx, 204 and 304, have no body whatever their headers say.
 */
int http_head_parse_response(const char *bytes, size_t len,
                             const struct http_limits *limits,
                             enum http_method to_method, struct http_head *head)
    MUST_CHECK;

/* The first header of that field, or NULL. head was filled by a parse. */
const struct http_header *http_head_find(const struct http_head *head,
                                         enum http_field field);

/* The first header of that name (any case), or NULL. */
const struct http_header *http_head_find_name(const struct http_head *head,
                                              struct slice name);

/*
 * True when a proxy must not pass this header on: the hop-by-hop fields of
 * RFC 9110 section 7.6.1, and those named by the message's own Connection.
 * Host, Content-Length and Content-Type are never among them, whatever
 * Connection names; Transfer-Encoding always is, so a forwarded chunked body
 * needs its own.
 */
bool http_head_is_hop(const struct http_head *head,
                      const struct http_header *header);

#endif
