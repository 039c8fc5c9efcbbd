/*
 * Holds the HTTP files to llhttp. The property: what ours accepts, llhttp
 * accepts in strict mode, with the same method, target, status, headers,
 * framing, body bytes and end. Ours may refuse more. And of our own: each
 * prefix of a head wants more or has the verdict of the whole, and a chunked
 * body reads the same wherever it is cut.
 *
 * Exempt: methods outside llhttp's list, which are tokens to us; several
 * extensions on one chunk, where llhttp 8.1 breaks off; Proxy-Connection,
 * which it takes for Connection; and bytes after a chunk that ours refuses.
 *
 * Owns: nothing. Thread: any. Errors: NULL, or static text on what differs.
 */
#ifndef TESTS_FUZZ_HTTP_DIFFER_H
#define TESTS_FUZZ_HTTP_DIFFER_H

#include <stddef.h>
#include <stdint.h>

#include "index/base/slice.h"
#include "node/http/http_head.h"

/* Counts where the caller gives one: what became of the inputs. */
struct http_differ_counts {
    uint64_t accepted; /* by both */
    uint64_t more;     /* wants more bytes */
    uint64_t stricter; /* refused here, taken whole by llhttp */
    uint64_t refused;  /* by both */
};

const char *http_differ_request(struct slice bytes,
                                struct http_differ_counts *counts);

const char *http_differ_response(struct slice bytes, enum http_method to_method,
                                 struct http_differ_counts *counts);

/* A chunked body without a head; cut: where to cut it (modulo its length). */
const char *http_differ_chunk(struct slice bytes, size_t cut,
                              struct http_differ_counts *counts);

#endif
