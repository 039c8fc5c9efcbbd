/*
 * Follows a chunked body (RFC 9112 section 7.1), either passing it on byte
 * for byte or taking the data out of it.
 *
 * Strict: sizes are 1 to 16 hex digits without blanks, every line ends in
 * CRLF, extensions are ";name", ";name=token" or ";name=quoted" without blanks
 * around and backslashes within. Trailer fields are checked like header fields
 * and counted as part of the body; Content-Length, Transfer-Encoding, Host,
 * Connection and Proxy-Connection are refused among them.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: HTTP_CHUNK_EXTENSION_MAX
 * bytes after the first ';' of a size line, HTTP_CHUNK_TRAILER_MAX after the
 * last chunk. Errors: named outcomes.
 */
#ifndef NODE_HTTP_CHUNK_H
#define NODE_HTTP_CHUNK_H

#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/slice.h"

#define HTTP_CHUNK_EXTENSION_MAX 1024
#define HTTP_CHUNK_TRAILER_MAX   4096

/* All zero is the start of a body. */
struct http_chunk {
    uint64_t left;     /* data bytes of this chunk still to come */
    uint32_t spent;    /* bytes of extension or trailer so far */
    uint8_t state;     /* where in the grammar */
    uint8_t digits;    /* of the chunk size; length of the text after it */
    uint8_t suspects;  /* forbidden names that a trailer may yet spell */
    const char *fault; /* with HTTP_CHUNK_E_BAD */
};

enum {
    HTTP_CHUNK_E_MORE = 1, /* all input is used up, the body continues */
    HTTP_CHUNK_E_DATA,     /* *data holds the next piece */
    HTTP_CHUNK_E_BAD,      /* not a chunked body; chunk->fault says why */
};

/*
 * Takes input from *in (moved past what was used) up to the next piece of data.
 * 0: the body ended, and *in starts after its last byte. HTTP_CHUNK_E_DATA:
 * *data points into the input and is not empty; call again for the next piece,
 * which may be of the same chunk. 0 and HTTP_CHUNK_E_BAD (*in is at the wrong
 * byte) repeat themselves.
 */
int http_chunk_next(struct http_chunk *chunk, struct slice *in,
                    struct slice *data) MUST_CHECK;

/*
 * Walks the same grammar without handing out pieces: *taken is how many of
 * the bytes belong to the body. 0: it ended there; HTTP_CHUNK_E_MORE: all did.
 */
int http_chunk_walk(struct http_chunk *chunk, const char *bytes, size_t len,
                    size_t *taken) MUST_CHECK;

#endif
