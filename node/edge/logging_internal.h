/*
 * What control is told for the request log, and for traces. Callers look at
 * lane->log_requests and x->sampled first, so that a node without either pays
 * for these looks alone.
 *
 * Role: part of the edge. Owns: nothing. Thread: one lane.
 */
#ifndef NODE_EDGE_LOGGING_INTERNAL_H
#define NODE_EDGE_LOGGING_INTERNAL_H

#include "node/edge/edge_internal.h"

/* Whether the request, which ends as the report says, is told of; then *fact has
 * all but its decision. */
bool logging_begin(struct fact_request *fact, struct exchange *x,
                   const struct dispatch_report *report) ON_LANE MUST_CHECK;

/* tracing.c: reads the head's traceparent, or begins a trace; whether the
 * request's steps are told follows. */
void tracing_begin(struct exchange *x, const struct http_head *head) ON_LANE;

/* A step begins, and the one before it ends. */
void tracing_add_step(struct exchange *x, enum fact_step_kind kind) ON_LANE;

static inline void ON_LANE
tracing_step(struct exchange *x, enum fact_step_kind kind)
{
    if (x->sampled) {
        tracing_add_step(x, kind);
    }
}

/* The request has ended at now_us: what is told of its steps. */
void tracing_end(struct exchange *x, struct fact_trace *trace, uint64_t now_us)
    ON_LANE;

/* refusing.c: why an attempt came to nothing. Static text. */
const char *exchange_fault_text(const struct dispatch_attempt *attempt);

/* A request that was answered with an error before it was an exchange. */
void logging_refused(struct client *client, unsigned status, const char *code)
    ON_LANE;

#endif
