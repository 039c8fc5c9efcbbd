/*
 * The last quarter of an hour in spans of five seconds, for the page of the
 * admin port: how many requests, placed how, ended how and why, how many of
 * their tokens came from caches, and how soon they began.
 *
 * Role: core. Owns: nothing, a plain value of some 100 KB. Thread: control.
 * Limits: HISTORY_SPANS spans; the oldest gives way.
 */
#ifndef NODE_HISTORY_H
#define NODE_HISTORY_H

#include <stdint.h>

#include "index/base/role.h"
#include "node/text/json_out.h"
#include "node/view/facts.h"
#include "node/view/metrics_ends.h"

#define HISTORY_SPAN_US UINT64_C(5000000)
#define HISTORY_SPANS   180U
#define HISTORY_STEPS   69U /* four to a doubling: 1 ms, 1.2 ms ... 2 min */

/* How soon answers began. */
struct history_first {
    uint32_t count[HISTORY_STEPS];
};

/* Of the requests that ended within it. */
struct history_span {
    uint64_t number; /* since the clock's 0; spans begin with 1 */
    uint32_t requests;
    uint32_t affinity; /* placed where their prefix is */
    uint32_t balance;  /* ... where the load is least */
    uint32_t other;    /* ... by another policy, a session, or nowhere */
    uint32_t refused;  /* answered 4xx */
    uint32_t failed;   /* answered 5xx */
    uint32_t severed;
    uint32_t cancelled;
    uint32_t compared; /* whose cached tokens were predicted and reported */
    uint32_t exact;    /* of these, as predicted, or a block apart */
    uint64_t prompt_tokens;    /* of answers that say how many were cached */
    uint64_t cached_tokens;    /* of these */
    uint64_t predicted_tokens; /* of these, as the placement expected */
    uint64_t possible_tokens;  /* of these, at the worker that held the most */
    struct history_first hit;  /* at least half of the prompt was cached */
    struct history_first miss;
    uint32_t ended[METRICS_REASONS_COUNT]; /* of all requests, refused ones
                                              without a placement, too */
};

/* All zero at first. */
struct history {
    struct history_span span[HISTORY_SPANS];
    uint64_t ended[METRICS_REASONS_COUNT]; /* since the node's start */
};

/* A request ended at now_us. */
void history_take(struct history *history, const struct fact_decision *fact,
                  uint64_t now_us);

/* How many ended for each reason since the node's start: what is more than the
 * last time counts in the span of now_us. To be called each second or so. */
void history_ends(struct history *history,
                  const uint64_t ended[METRICS_REASONS_COUNT], uint64_t now_us);

/* An object: {"span_ms", "kept", "last", "spans": [...]}, of the last `spans`
 * ones, oldest first, without those that saw no request. "last" is the number
 * of the span of now_us. "ended" of a span has the reasons of
 * kvasir_requests_total but those of good answers, each with how many, without
 * zeros. spans: 1 to HISTORY_SPANS. */
void history_put(const struct history *history, uint32_t spans, uint64_t now_us,
                 struct json_out *json);

/* The time below which a share of the answers began, in microseconds, an
 * eighth off at most; 0: there were none. percent: 1 to 100. */
uint64_t history_first_us(const struct history_first *first, uint32_t percent);

#endif
