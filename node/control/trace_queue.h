/*
 * Spans on their way to a collector: gathered, sent in one piece after another,
 * and given up where they would be too many.
 *
 *   trace_queue_add(&queue, spans, count);
 *   if (trace_queue_due(&queue, now_us)) send(trace_queue_take(&queue, ...));
 *   trace_queue_sent(&queue, rejected, now_us), or trace_queue_failed(...)
 *
 * One piece is on its way at a time. What its collector could not take for now
 * is sent again, after 1, 2, 4 ... s; what comes meanwhile waits.
 *
 * Role: core. Owns: its buffers. Thread: one owner. Limits: bytes_max of spans
 * that wait, and as much on its way; TRACE_TRIES. Errors: none; what is given up
 * is counted.
 */
#ifndef NODE_TRACE_QUEUE_H
#define NODE_TRACE_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/buf.h"
#include "index/base/check.h"

#define TRACE_PAUSE_US UINT64_C(1000000) /* between two pieces */
#define TRACE_TRIES    5U                /* of one piece */

struct trace_queue {
    struct buf spans; /* that wait, between commas */
    uint32_t count;
    struct buf body; /* on its way, or to be sent again; empty: none is */
    uint32_t body_count;
    uint32_t tries; /* that failed, of body */
    bool sending;
    uint64_t due_us;
    uint64_t sent;    /* spans that the collector took */
    uint64_t dropped; /* spans that it never will */
    uint64_t failures;
};

/* bytes_max: of spans that wait. */
void trace_queue_init(struct trace_queue *queue, size_t bytes_max);
void trace_queue_fini(struct trace_queue *queue);

/* So many spans, between commas; copied. What has no room is dropped. */
void trace_queue_add(struct trace_queue *queue, struct slice spans,
                     uint32_t count);

/* Whether there is something to send now. */
bool trace_queue_due(const struct trace_queue *queue, uint64_t now_us);

/* An ExportTraceServiceRequest of this node's, when something is due; borrowed
 * until the next call. Empty: there is no memory for it, and it was dropped. One
 * of the two below follows. */
struct slice trace_queue_take(struct trace_queue *queue, const char *node)
    MUST_CHECK;

/* The collector has it; of its spans it rejected so many. */
void trace_queue_sent(struct trace_queue *queue, uint64_t rejected,
                      uint64_t now_us);

/* It has not. again: it may be sent once more. */
void trace_queue_failed(struct trace_queue *queue, bool again, uint64_t now_us);

#endif
