/*
 * The spans of a request, as OTLP has them in JSON (OpenTelemetry Protocol 1,
 * trace.proto): one of the request, and below it one for each step of its way.
 * Identifiers are in hexadecimal, times and other numbers of 64 bits decimal
 * text, as its mapping to JSON wants. Never of a prompt or an answer.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: 1 + FACT_STEPS_MAX spans.
 * Errors: the buffer's own.
 */
#ifndef NODE_TRACE_SPANS_H
#define NODE_TRACE_SPANS_H

#include "index/base/buf.h"
#include "node/view/facts.h"

/* What the fact itself cannot say. */
struct trace_names {
    const char *tenant; /* "": none */
    const char *worker; /* of the last attempt; "": it has gone, or none was */
};

/* Appends the spans, between commas. Returns how many. */
uint32_t trace_spans_put(const struct fact_request *fact,
                         const struct trace_names *names, struct buf *out);

#endif
