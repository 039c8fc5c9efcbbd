/*
 * Messages of Envoy's external processing (envoy.service.ext_proc.v3), as an
 * endpoint picker of the Gateway API's inference extension reads and writes
 * them. Fields that it has no use for are passed over.
 *
 *   the gateway says            the picker answers
 *   request headers             headers, as they are, or changed
 *   request body, in pieces     body, as it is, or another one
 *   response headers, body      the same, as they are
 *
 * In the mode FULL_DUPLEX_STREAMED a body goes on its way only as the picker
 * sends it back, and headers wait for it as long; in BUFFERED it comes whole, and
 * headers wait for its answer, but each message wants one.
 *
 * Which endpoint gets the request stands in a header and in dynamic metadata,
 * ip:port, with those to try after it behind commas.
 *
 * Role: core. Owns: nothing; slices point into the message. Thread: any. Limits:
 * the caller's on a message. Errors: named outcomes; writing sets buf.failed.
 * Source: external_processor.proto of Envoy 1.35; endpoint picker protocol 1.0
 * of gateway-api-inference-extension.
 */
#ifndef NODE_EXTPROC_H
#define NODE_EXTPROC_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/buf.h"
#include "index/base/check.h"
#include "index/base/slice.h"

#define EXTPROC_ENDPOINT "x-gateway-destination-endpoint"
#define EXTPROC_SERVED   "x-gateway-destination-endpoint-served"
#define EXTPROC_SUBSET   "x-gateway-destination-endpoint-subset"

#define EXTPROC_SPACE        "envoy.lb"
#define EXTPROC_SPACE_SUBSET "envoy.lb.subset_hint"

/* Which part of the exchange a message is about, in the order in which an
 * answer's field numbers are. */
enum extproc_part {
    EXTPROC_NOTHING, /* nothing that is known here */
    EXTPROC_REQUEST_HEADERS,
    EXTPROC_RESPONSE_HEADERS,
    EXTPROC_REQUEST_BODY,
    EXTPROC_RESPONSE_BODY,
    EXTPROC_REQUEST_TRAILERS,
    EXTPROC_RESPONSE_TRAILERS,
};

/* How a body is sent. */
enum extproc_mode {
    EXTPROC_NONE = 0,
    EXTPROC_STREAMED = 1,
    EXTPROC_BUFFERED = 2,
    EXTPROC_BUFFERED_PARTIAL = 3,
    EXTPROC_DUPLEX = 4, /* FULL_DUPLEX_STREAMED */
};

struct extproc_message {
    enum extproc_part part;
    bool ends;     /* nothing more of the request, or response, follows */
    bool observes; /* no answer is wanted */
    bool modes;    /* the next two are said */
    uint64_t request_mode;
    uint64_t response_mode;
    struct slice headers;  /* for extproc_header() */
    struct slice body;     /* a piece of it */
    struct slice metadata; /* for extproc_texts_find() */
};

struct extproc_header {
    struct slice name;
    struct slice value;
};

enum {
    EXTPROC_E_BAD = 1, /* it is no such message */
};

/* Reads one. 0 or EXTPROC_E_BAD. */
int extproc_read(struct slice message, struct extproc_message *out) MUST_CHECK;

/* Takes the next of message.headers, of which rest is a copy. */
bool extproc_header(struct slice *rest, struct extproc_header *out);

/* The value of a header; empty when absent. */
struct slice extproc_header_find(struct slice headers, const char *name);

/* A value of the metadata: a text, of which commas part what is meant, or a list
 * of texts. */
struct extproc_texts {
    struct slice rest;
    bool list;
};

/* False: there is none. */
bool extproc_texts_find(struct slice metadata, const char *space,
                        const char *key, struct extproc_texts *out);

/* The next of them, without blanks around it. */
bool extproc_texts_next(struct extproc_texts *texts, struct slice *text);

/* What becomes of a request. */
struct extproc_change {
    const struct extproc_header *set; /* in place of those of the same name */
    uint32_t set_count;
    const struct slice *remove;
    uint32_t remove_count;
    struct slice endpoints; /* "": none are told */
};

/* Each appends one answer, as gRPC frames it. change: NULL: none. */
void extproc_put_headers(struct buf *out, enum extproc_part part,
                         const struct extproc_change *change);

/* body: what it is replaced by; NULL: nothing. Not of DUPLEX. */
void extproc_put_body(struct buf *out, enum extproc_part part,
                      const struct extproc_change *change,
                      const struct slice *body);

/* A piece of the body with DUPLEX. */
void extproc_put_piece(struct buf *out, enum extproc_part part,
                       struct slice bytes, bool ends);

/* Trailers, as they are. */
void extproc_put_trailers(struct buf *out, enum extproc_part part);

/* The client is answered with this, and the request goes nowhere. */
void extproc_put_immediate(struct buf *out, unsigned status,
                           const struct extproc_header *set, uint32_t set_count,
                           struct slice body);

#endif
