/*
 * The insides of backend.c, which see: what its loop and its connections know
 * of each other.
 *
 * Role: shell, a test program. Thread: one.
 */
#ifndef TESTS_BENCH_BACKEND_H
#define TESTS_BENCH_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/slice.h"
#include "sse_event.h"

#define PORTS_MAX   64
#define EVENTS_MAX  100000
#define EPOLL_BATCH 256

enum source_kind {
    SOURCE_LISTENER,
    SOURCE_CONN,
    SOURCE_SIGNAL,
};

struct source {
    enum source_kind kind;
    int fd;
};

struct listener {
    struct source source;
    uint16_t port;
    uint64_t requests_count;
    uint64_t streams_count;
    uint64_t severed_count; /* streams whose client left before their end */
};

struct conn {
    struct source source;
    struct listener *listener;

    /* The request being read. Body bytes beyond the hint are dropped as they
     * come, so `in` never holds more than IN_BYTES. */
    char *in; /* NULL while nothing is unread and a stream runs */
    size_t in_len;
    size_t head_len;        /* 0: no whole head yet */
    uint64_t content_bytes; /* of the body */
    uint64_t dropped_bytes; /* of the body, no longer in `in` */

    /* The answer being written: `out` points into static text or `piece`. */
    const char *out;
    size_t out_len;

    bool is_streaming;
    bool tells_usage; /* of the stream, as its request asked */
    bool is_queued;
    uint32_t stream;
    uint32_t seq;
    uint32_t events_count;
    uint64_t due_us;
    struct conn *next; /* in the pace queue */
    struct conn *prev;
    char piece[SSE_EVENT_BYTES + SSE_USAGE_BYTES + SSE_TAIL_BYTES + 160];
};

struct backend {
    int epoll_fd;
    struct source signal;
    struct listener listeners[PORTS_MAX];
    unsigned ports_count;
    uint64_t interval_us;
    uint32_t events_default;
    uint64_t conns_count;
    uint64_t conns_max;
    bool is_stopping;
    /* Streams by due time. All share one interval and are put back in the
     * order they were taken, so the queue is sorted by itself. */
    struct conn *first;
    struct conn *last;
};

/* Monotonic. */
uint64_t backend_clock_us(void);

/* Composes the fixed answers; before the first connection. */
void backend_answers_build(void);

/* Takes over an accepted, non-blocking socket; over conns_max it is closed. */
void backend_conn_accept(struct backend *b, struct listener *listener, int fd);

/* Reads, answers, writes as epoll's events say; may free conn. */
void backend_conn_event(struct backend *b, struct conn *conn, uint32_t events);

/* Sends every event that is due by now, each stream one turn. */
void backend_pace_run(struct backend *b);

#endif
