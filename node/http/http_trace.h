/*
 * W3C Trace Context: the header traceparent of a request that is traced, and
 * that of the same request on its way to a worker (level 1, section 3.2).
 *
 *   00-TRACE_ID-PARENT_ID-FLAGS: 2, 32, 16 and 2 hexadecimal digits
 *
 * Role: core. Owns: nothing. Thread: any. Limits: none. Errors: none; a header
 * that is malformed is none.
 */
#ifndef NODE_HTTP_TRACE_H
#define NODE_HTTP_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/slice.h"

#define HTTP_TRACE_TEXT    56 /* with its NUL */
#define HTTP_TRACE_SAMPLED 0x01U

struct http_trace {
    uint8_t trace[16];
    uint8_t span[8]; /* the sender's */
    uint8_t flags;   /* those that are known; the others are 0 */
};

/* False: it is no such header, and *trace is undefined. Of a later version what
 * this one knows is read. */
bool http_trace_read(struct slice value, struct http_trace *trace) MUST_CHECK;

/* Writes the header's value into out, and returns out. */
const char *http_trace_text(const struct http_trace *trace,
                            char out[HTTP_TRACE_TEXT]);

#endif
