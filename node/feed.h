/*
 * The feed: control's end of every event source. Records come in, whatever
 * they came over; the mirror is written, and lanes are told which of its slots
 * are whose.
 *
 * A stream is a rank of a worker. A new epoch takes a new slot of the mirror
 * and closes the old one, so that forgetting a cache is one store. Records of
 * an epoch that is not the stream's are dropped and counted.
 *
 * Role: core. Owns: the table of streams, the published view.
 * Thread: control. Limits: WORKERS_MAX slots of the mirror over all streams.
 * Errors: named outcomes, -ENOMEM.
 */
#ifndef NODE_FEED_H
#define NODE_FEED_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/publish.h"
#include "index/base/role.h"
#include "index/index.h"
#include "node/accuracy.h"
#include "node/kv_stream.h"
#include "node/mirror_view.h"

struct feed;

struct feed_limits {
    struct accuracy_config accuracy;
    uint32_t stale_permille; /* trust in a stream that misses events */
};

/* How a stream stands, for status and metrics. */
struct feed_status {
    uint32_t worker; /* fleet slot */
    uint32_t generation;
    uint32_t rank;
    enum kv_stream_state state;
    uint64_t epoch;
    uint64_t seq; /* of the last record */
    uint64_t blocks;
    uint64_t digest;
    uint32_t holes;
    uint32_t block_tokens;
    uint32_t slot; /* of the mirror; WORKER_NONE: none is free */
    uint32_t trust_permille;
    struct accuracy accuracy;
};

/* mirror and qsbr outlive it; an empty view is published in *view. */
int feed_new(struct feed **out, const struct feed_limits *limits,
             struct mirror *mirror, struct qsbr *qsbr, struct publish *view)
    MUST_CHECK;

void feed_free(struct feed *feed);

/* A worker with event streams came, or went: its ranks begin unknown. */
int feed_worker_add(struct feed *feed, uint32_t worker, uint32_t generation,
                    uint32_t ranks) ON_CONTROL MUST_CHECK;
void feed_worker_remove(struct feed *feed, uint32_t worker) ON_CONTROL;

/* A new epoch of a stream; its state; a record of it. Unknown workers and
 * other generations are ignored. Negative: out of memory, the stream is stale
 * and is to be re-read. */
int feed_reset(struct feed *feed, uint32_t worker, uint32_t generation,
               uint32_t rank, uint64_t epoch) ON_CONTROL MUST_CHECK;
void feed_state(struct feed *feed, uint32_t worker, uint32_t generation,
                uint32_t rank, enum kv_stream_state state) ON_CONTROL;
int feed_record(struct feed *feed, uint32_t worker, uint32_t generation,
                uint32_t rank, const struct event_record *record)
    ON_CONTROL MUST_CHECK;

/* An answer of a worker's rank: true when that stream is to be re-read. */
bool feed_answer(struct feed *feed, uint32_t worker, uint32_t generation,
                 uint32_t rank, const struct accuracy_answer *answer,
                 uint64_t now_us) ON_CONTROL;

/* Publishes what changed since the last call; background work of the mirror.
 * True when there is more. */
bool feed_work(struct feed *feed, uint32_t budget) ON_CONTROL;

/* The streams in order of worker and rank: the at-th, false at the end. */
bool feed_status(const struct feed *feed, uint32_t at,
                 struct feed_status *status) ON_CONTROL MUST_CHECK;

bool feed_check(const struct feed *feed, const char **reason) ON_CONTROL;

#endif
