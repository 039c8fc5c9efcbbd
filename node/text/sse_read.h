/*
 * Reads a stream of server-sent events (WHATWG HTML, 9.2.6) that arrives in
 * pieces of any size.
 *
 *   sse_read_give(&sse, piece);
 *   while (sse_read_next(&sse, &event)) ...
 *
 * Lines end in LF, CR or CRLF, even if a piece ends between the two. A byte
 * order mark at the start is skipped. A line that begins with a colon is a
 * comment; a field without a colon has an empty value; one space after the
 * colon is not part of the value. An empty line ends an event; an event that
 * the end of the stream interrupts is dropped. An event without a data line is
 * dropped too, but its id counts: an id holds until the next one, and an empty
 * id means that there is none. Two departures from the standard: bytes stay as
 * they are (bad UTF-8 is not replaced), and an event without a type has an
 * empty one.
 *
 * Role: core. Owns: its buffers. Thread: one owner. Limits: bytes_max of a
 * line and of an event's data, SSE_READ_ID_MAX, SSE_READ_TYPE_MAX.
 * Errors: sticky, a static text in `fault`; the stream is of no use then.
 */
#ifndef NODE_SSE_READ_H
#define NODE_SSE_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/buf.h"
#include "index/base/check.h"

#define SSE_READ_ID_MAX   256 /* bytes */
#define SSE_READ_TYPE_MAX 64  /* bytes */

/* Good until the next call. */
struct sse_event {
    struct slice type; /* of the `event` line; empty: none, "message" */
    struct slice data; /* its lines, joined by LF */
    struct slice id;   /* the last one given; empty: none */
};

struct sse_read {
    struct slice given; /* the rest of the caller's bytes */
    struct buf line;    /* the one being read, when it came in pieces */
    struct buf data;    /* of the event being read */
    char type[SSE_READ_TYPE_MAX];
    size_t type_len;
    char id[SSE_READ_ID_MAX];
    size_t id_len;
    uint32_t retry_ms; /* wait before reconnecting, as the source last said; 0:
                          it never did */
    uint64_t comments; /* lines, since the start */
    bool has_data;     /* the event has a data line, if an empty one */
    bool handed_out;   /* the event in the buffers was returned */
    bool after_cr;     /* an LF that comes next ends no line */
    uint8_t mark;      /* bytes of a byte order mark seen; 3: it is over */
    const char *fault; /* NULL while all is well */
};

/* Allocates nothing yet. bytes_max: of a line, and of an event's data. */
void sse_read_init(struct sse_read *sse, size_t bytes_max);

/* Frees the buffers. */
void sse_read_fini(struct sse_read *sse);

/* Ready for another connection: only the id and retry_ms are kept. */
void sse_read_restart(struct sse_read *sse);

/* Gives the next bytes of the stream; borrowed until sse_read_next() returns
 * false, which it must have done for the bytes before. */
void sse_read_give(struct sse_read *sse, struct slice bytes);

/* The next whole event. False: there is none, or `fault` is set. */
bool sse_read_next(struct sse_read *sse, struct sse_event *event) MUST_CHECK;

#endif
