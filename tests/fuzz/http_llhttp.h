/*
 * What llhttp, in strict mode, makes of one message: the reference that the
 * HTTP files are held to. Version 8.1, the C that Debian's node-llhttp ships.
 *
 * Owns: body, to be freed with buf_fini(). Thread: one at a time.
 */
#ifndef TESTS_FUZZ_HTTP_LLHTTP_H
#define TESTS_FUZZ_HTTP_LLHTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/buf.h"
#include "index/base/slice.h"

/* Its header and node/http/http_head.h share names, so this one stands alone. */
#define HTTP_LLHTTP_HEADERS_MAX 96

struct http_llhttp {
    const char *error;   /* NULL: none */
    bool method_unknown; /* or one of another protocol */
    bool size_bad;       /* it takes a byte for no part of a chunk size */
    size_t error_at;     /* byte offset */
    bool head_done;
    bool done;   /* the message ended, `used` bytes into the input */
    size_t used; /* bytes */

    const char *method; /* static text */
    struct slice target;
    unsigned status;
    unsigned minor;
    bool folded;          /* a value goes over several lines */
    size_t headers_count; /* trailers not counted */
    struct {
        struct slice name;
        struct slice value; /* as it is, blanks included */
    } headers[HTTP_LLHTTP_HEADERS_MAX];
    bool chunked;
    bool length_given;
    uint64_t length; /* bytes */
    bool keep_alive;
    struct buf body;
};

/*
 * Reads one message. to_head: it is the response to a HEAD. llhttp is told
 * which responses have no body, as it expects of its caller. final: a body
 * that lasts until the connection closes ends with the input.
 */
void http_llhttp_read(struct http_llhttp *seen, struct slice bytes,
                      bool response, bool to_head, bool final);

#endif
