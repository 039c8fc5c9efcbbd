/*
 * What control is told for the request log. Callers look at lane->log_requests
 * first, so that a node without one pays for that look alone.
 *
 * Role: part of the edge. Owns: nothing. Thread: one lane.
 */
#ifndef NODE_EDGE_LOGGING_INTERNAL_H
#define NODE_EDGE_LOGGING_INTERNAL_H

#include "node/edge/edge_internal.h"

/* Whether the request is told of; then *fact has all but its decision. status:
 * of an answer of our own, or 0. */
bool logging_begin(struct fact_request *fact, const struct exchange *x,
                   enum dispatch_end how, unsigned status) ON_LANE MUST_CHECK;

/* exchange.c: why an attempt came to nothing. Static text. */
const char *exchange_fault_text(const struct dispatch_attempt *attempt);

/* A request that was answered with an error before it was an exchange. */
void logging_refused(struct client *client, unsigned status, const char *code)
    ON_LANE;

#endif
