/*
 * What `kvasir top` shows: a node, and what it did between two pages of its
 * metrics.
 *
 *   top_read(&now, metrics, clock_us);
 *   top_show(&before, &now, &room, &out);
 *
 * A page of another version is fine: what it does not have is shown as "-".
 *
 * Role: core. Owns: nothing. Thread: one owner. Limits: TOP_WORKERS_MAX, the
 * rest are counted; TOP_ID_MAX, longer names are truncated. Errors: none;
 * text from a node comes out as printable ASCII.
 */
#ifndef NODE_TOP_INTERNAL_H
#define NODE_TOP_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/buf.h"
#include "node/base/histogram.h"

/* What a number of several nodes is. */
enum top_how {
    TOP_SUM,
    TOP_MOST,
    TOP_LEAST,
    TOP_NOT, /* not shown: what peers have open is in the sum of their own */
};

#define TOP_WORKERS_MAX 1024U
#define TOP_ID_MAX      64U
#define TOP_NODES_MAX   64U
#define TOP_ADDRESS_MAX 300U
#define TOP_BUCKETS     (HISTOGRAM_BOUNDS + 1)

/* X(NAME, series, label, value, how): one number each, the sum of the series
 * with that label ("": of all); how those of several nodes become one. */
#define TOP_NUMBERS(X)                                                       \
    X(UPTIME, "kvasir_uptime_seconds", "", "", LEAST)                        \
    X(READY, "kvasir_ready", "", "", LEAST)                                  \
    X(INFLIGHT, "kvasir_inflight", "", "", SUM)                              \
    X(CONNECTIONS, "kvasir_connections", "", "", SUM)                        \
    X(REQUESTS, "kvasir_requests_total", "", "", SUM)                        \
    X(RETRIES, "kvasir_retries_total", "", "", SUM)                          \
    X(FAILED, "kvasir_requests_total", "reason", "all_attempts_failed", SUM) \
    X(SEVERED, "kvasir_requests_total", "reason", "answer_broke_off", SUM)   \
    X(CANCELLED, "kvasir_requests_total", "reason", "cancelled", SUM)        \
    X(OVERLOAD, "kvasir_requests_total", "reason", "overloaded", SUM)        \
    X(NO_WORKER, "kvasir_requests_total", "reason", "no_worker", SUM)        \
    X(PROMPT_TOKENS, "kvasir_prompt_tokens_total", "", "", SUM)              \
    X(CACHED_TOKENS, "kvasir_cached_tokens_total", "", "", SUM)              \
    X(AFFINITY, "kvasir_placed_total", "mode", "affinity", SUM)              \
    X(BALANCE, "kvasir_placed_total", "mode", "balance", SUM)                \
    X(SESSION, "kvasir_placed_total", "mode", "session", SUM)                \
    X(STREAMS, "kvasir_gossip_streams", "", "", MOST)                        \
    X(STREAMS_STALE, "kvasir_gossip_streams_stale", "", "", MOST)            \
    X(BATCHES_BEHIND, "kvasir_gossip_behind_batches", "", "", MOST)          \
    X(MIRROR_BLOCKS, "kvasir_mirror_holder_blocks", "", "", MOST)            \
    X(BELIEF_BLOCKS, "kvasir_belief_holder_blocks", "", "", MOST)            \
    X(SNAPSHOT_AGE, "kvasir_snapshot_age_seconds", "", "", MOST)             \
    X(SNAPSHOT_FAILING, "kvasir_snapshot_failing", "", "", MOST)

enum top_number {
#define TOP_NUMBER_ENUM(NAME, series, label, value, how) TOP_##NAME,
    TOP_NUMBERS(TOP_NUMBER_ENUM)
#undef TOP_NUMBER_ENUM
    TOP_NUMBERS_COUNT,
};

/* X(NAME, series, how): one number a worker; of several ranks their sum. */
#define TOP_WORKER_NUMBERS(X)                               \
    X(ELIGIBLE, "kvasir_worker_eligible", MOST)             \
    X(MINE, "kvasir_worker_inflight", SUM)                  \
    X(PEERS, "kvasir_worker_inflight_peers", NOT)           \
    X(QUEUED_TOKENS, "kvasir_worker_queued_tokens", SUM)    \
    X(RUNNING, "kvasir_worker_running", MOST)               \
    X(WAITING, "kvasir_worker_waiting", MOST)               \
    X(KV_USAGE, "kvasir_worker_kv_usage_ratio", MOST)       \
    X(WORKER_REQUESTS, "kvasir_worker_requests_total", SUM) \
    X(WORKER_FAILURES, "kvasir_worker_failures_total", SUM) \
    X(HELD_BLOCKS, "kvasir_mirror_worker_blocks", MOST)     \
    X(BELIEVED_BLOCKS, "kvasir_worker_belief_blocks", MOST)

enum top_worker_number {
#define TOP_WORKER_ENUM(NAME, series, how) TOP_##NAME,
    TOP_WORKER_NUMBERS(TOP_WORKER_ENUM)
#undef TOP_WORKER_ENUM
    TOP_WORKER_NUMBERS_COUNT,
};

/* X(NAME, state): members of the mesh. */
#define TOP_MEMBERS(X) \
    X(ALIVE, "alive")  \
    X(SUSPECT, "suspect") X(DEAD, "dead") X(LEFT, "left")

enum top_members {
#define TOP_MEMBERS_ENUM(NAME, state) TOP_##NAME,
    TOP_MEMBERS(TOP_MEMBERS_ENUM)
#undef TOP_MEMBERS_ENUM
    TOP_MEMBERS_COUNT,
};

/* X(NAME, series): histograms. */
#define TOP_TIMES(X)                                     \
    X(ROUTE, "kvasir_route_seconds")                     \
    X(FIRST_TOKEN, "kvasir_time_to_first_token_seconds") \
    X(DURATION, "kvasir_request_duration_seconds")

enum top_time {
#define TOP_TIME_ENUM(NAME, series) TOP_##NAME,
    TOP_TIMES(TOP_TIME_ENUM)
#undef TOP_TIME_ENUM
    TOP_TIMES_COUNT,
};

struct top_figure {
    double value;
    bool known; /* it was on the page */
};

struct top_worker {
    char id[TOP_ID_MAX];
    struct top_figure number[TOP_WORKER_NUMBERS_COUNT];
};

struct top_sample {
    uint64_t at_us;
    char node[TOP_ID_MAX]; /* "" */
    char version[TOP_ID_MAX];
    struct top_figure number[TOP_NUMBERS_COUNT];
    struct top_figure members[TOP_MEMBERS_COUNT];
    double buckets[TOP_TIMES_COUNT][TOP_BUCKETS]; /* this many or faster, of
                                                     all labels together */
    uint32_t buckets_count[TOP_TIMES_COUNT];
    uint32_t workers_count;
    uint32_t workers_left;                      /* not shown, for lack of
                                                   room */
    struct top_worker workers[TOP_WORKERS_MAX]; /* as the page has them */
};

struct top_room {
    uint32_t lines;   /* 0: any number */
    uint32_t columns; /* 0: any number; longer lines are truncated */
};

/* Reads a page of metrics that was fetched at at_us. */
void top_read(struct top_sample *sample, struct slice metrics, uint64_t at_us);

/* The row of that name, made where there is none; NULL: there is no room. */
struct top_worker *top_worker_of(struct top_sample *sample, const char *name);

/* Text of a node's, as printable ASCII; truncated. */
void top_copy_name(char out[TOP_ID_MAX], struct slice name);

/* Adds a node's page to that of several: all zero at first. Their node is the
 * caller's to name. */
void top_join(struct top_sample *all, const struct top_sample *node);

struct top_nodes {
    uint32_t count;
    struct top_node {
        char name[TOP_ID_MAX];
        char address[TOP_ADDRESS_MAX]; /* of its admin port */
    } node[TOP_NODES_MAX];
};

/* The other living nodes, of a node's /admin/mesh, as that was asked at
 * `asked` (--admin): theirs have the same port. False: it says nothing. */
bool top_nodes_read(struct top_nodes *nodes, struct slice mesh,
                    struct slice asked);

/* True when both are of one process and some time lies between. */
bool top_comparable(const struct top_sample *before,
                    const struct top_sample *now);

/* Lines of text; before may be NULL: nothing per second is known then. */
void top_show(const struct top_sample *before, const struct top_sample *now,
              const struct top_room *room, struct buf *out);

#endif
