/*
 * What came of a load: every request that was sent is counted once, as
 * answered or as failed and why, and with the worker that had it.
 *
 * Percentiles are exact: all times are kept and sorted at the end, and the
 * p-th is the smallest one that at least p percent do not exceed (nearest
 * rank).
 *
 * Role: core. Owns: its arrays. Thread: one owner. Limits: requests_max of
 * load_stats_init(), LOAD_WORKERS_MAX names; requests of further ones are
 * counted under the last. Errors: -ENOMEM at the start only.
 */
#ifndef CHAOS_LOAD_STATS_H
#define CHAOS_LOAD_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "chaos/load/load_sse.h"
#include "index/base/check.h"
#include "index/base/slice.h"
#include "node/node.h"

#define LOAD_WORKERS_MAX      256
#define LOAD_WORKER_BYTES_MAX 128  /* of a name, which is truncated to it */
#define LOAD_SECONDS_MAX      3600 /* the last one stands for all after it */

enum load_outcome {
    LOAD_ANSWERED, /* 2xx, and a stream up to its [DONE] */
    LOAD_CONNECT,  /* no connection, or no address */
    LOAD_TIMEOUT,  /* not answered whole in time */
    LOAD_STATUS,   /* not 2xx */
    LOAD_SEVERED,  /* the connection closed before the answer ended */
    LOAD_NO_DONE,  /* the answer ended well, but without [DONE] */
    LOAD_BAD,      /* not HTTP, or not such a stream */
    LOAD_STOPPED,  /* the load itself was stopped meanwhile */
    LOAD_OUTCOMES,
};

/* "answered", "connect", "timeout", ... Static text. */
const char *load_outcome_name(enum load_outcome outcome);

/* How a call ended; done: its stream came up to [DONE]. */
enum load_outcome load_outcome_of(const struct httpc_answer *answer, bool done);

/* The value of a header; empty: there is none, or no head. */
struct slice load_header_of(const struct http_head *head, struct slice name);

/* How one request ended. */
struct load_end {
    enum load_outcome outcome;
    struct slice worker; /* the worker that had it; empty: unknown */
    struct slice node;   /* the node that it went through; empty: unknown */
    uint64_t at_us;      /* when it ended, from the start of the load */
    bool has_first;      /* a token came */
    uint64_t first_us;   /* from sending to the first token */
    uint64_t whole_us;   /* from sending to the end */
    struct load_usage usage;
};

struct load_worker {
    char name[LOAD_WORKER_BYTES_MAX + 1];
    uint64_t requests; /* requests that it had, however they ended */
    uint64_t failed;   /* of these */
};

/* Workers or nodes, by name. */
struct load_table {
    struct load_worker row[LOAD_WORKERS_MAX];
    uint32_t count;
};

/* What ended within one second of the load. */
struct load_second {
    uint32_t answered;
    uint32_t failed;
    uint32_t retried;
    uint64_t prompt_tokens;
    uint64_t cached_tokens;
    uint64_t first_us; /* sum over first_count requests */
    uint32_t first_count;
};

/* A set of times. */
struct load_times {
    uint64_t *us;
    size_t count;
    bool sorted;
};

struct load_stats {
    uint64_t sent;
    uint64_t ended[LOAD_OUTCOMES];
    struct load_usage tokens; /* of answered requests */
    struct load_times first;  /* of all requests that got a token */
    struct load_times whole;  /* of answered requests */
    uint64_t retried;
    struct load_table workers;
    struct load_table nodes;
    struct load_second second[LOAD_SECONDS_MAX];
    uint32_t seconds_count;
    size_t requests_max;
};

/* 0, or -ENOMEM and nothing is held. */
int load_stats_init(struct load_stats *stats, size_t requests_max) MUST_CHECK;

/* Frees what it owns. */
void load_stats_fini(struct load_stats *stats);

/* Counts a request that is sent. Each one gets one load_stats_end() later. */
void load_stats_send(struct load_stats *stats);

/* Counts a request that is sent again, because no byte of an answer came. */
void load_stats_retry(struct load_stats *stats, uint64_t at_us);

/* Counts a request that has ended; end is borrowed for the call. */
void load_stats_end(struct load_stats *stats, const struct load_end *end);

/* The row of that name, which is not empty: a new one if there is room,
 * otherwise the last one. Good until load_stats_sort(). */
uint32_t load_table_row(struct load_table *table, struct slice name);

/* A member: an object with id, requests and failed for each row. */
void load_table_put(struct json_out *json, const char *key,
                    const struct load_table *table);

/* Of the requests sent: all that failed, for whatever reason. */
uint64_t load_stats_failed(const struct load_stats *stats);

/* Of the prompt tokens of answered requests, those that came from a cache, in
 * thousandths, rounded down; 0 when there were none. */
uint32_t load_stats_cached_permille(const struct load_stats *stats);

/* The permille-th thousandth (500: the median) in microseconds; 0 when there
 * are no times. */
uint64_t load_times_at(struct load_times *times, uint32_t permille);

/* Sorts workers and nodes by name, so that equal runs print equal results. */
void load_stats_sort(struct load_stats *stats);

#endif
