/*
 * Traces (traces.otlp): the spans of sampled requests, told to a collector by
 * OTLP over HTTP, in JSON. Nobody waits for it: what it does not take in time is
 * dropped, and counted.
 *
 * Role: shell. Owns: its queue and its call. Thread: control. Limits:
 * TRACES_BYTES_MAX. Errors: counted, and one line in the log.
 */
#ifndef NODE_CONTROL_TRACES_H
#define NODE_CONTROL_TRACES_H

#include <uv.h>

#include "index/base/role.h"
#include "node/control/trace_queue.h"
#include "node/control/trace_spans.h"
#include "node/http/httpc.h"
#include "node/route/shared.h"

#define TRACES_BYTES_MAX  ((size_t)1 << 20) /* of spans that wait */
#define TRACES_TIMEOUT_MS 10000U

struct control_traces {
    struct node_shared *node;
    uv_loop_t *loop;
    struct trace_queue queue;
    struct httpc *call;
};

/* node and loop are borrowed. Nothing is asked of the collector yet. */
void control_traces_start(struct control_traces *traces,
                          struct node_shared *node, uv_loop_t *loop) ON_CONTROL;

/* Takes a request that is sampled, at its end. */
void control_traces_take(struct control_traces *traces,
                         const struct fact_request *fact, const char *worker)
    ON_CONTROL;

/* Sends what is due. Call it often. */
void control_traces_look(struct control_traces *traces, uint64_t now_us)
    ON_CONTROL;

/* Ends its call; then the loop must run on. */
void control_traces_stop(struct control_traces *traces) ON_CONTROL;
void control_traces_fini(struct control_traces *traces);

/* kvasir_trace_*, with a collector. */
void control_traces_put_metrics(const struct control_traces *traces,
                                struct buf *out) ON_CONTROL;

#endif
