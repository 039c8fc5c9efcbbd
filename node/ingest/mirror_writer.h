/*
 * The mirror writer: control's end of every stream. What gossip has applied
 * comes in, whoever read it; the mirror is written, and lanes are told which of
 * its slots are whose.
 *
 * A stream is a rank of a worker. A new epoch takes a new slot of the mirror
 * and closes the old one, so that forgetting a cache is one store; a CLEAR
 * within a record does the same. A state that is had whole comes as a new
 * epoch, too, and then as records without a number, whose holes nobody knows
 * until one with a number follows. Records of an epoch that is not the
 * stream's, or older than its last one, are dropped and counted.
 *
 * Slots run out: a closed one is free again only when it was swept. A stream
 * that found none goes on without, and mirror_writer_work() tries again. What
 * it was told meanwhile is lost, so once it has a slot it takes no further
 * records and is to be read again; an empty slot then serves the new epoch,
 * which so needs no second one. The same without the pause when the mirror is
 * full: what did not fit is lost, what is there stays true, at a discount.
 *
 * Trust. A stream that misses events (stale, a replay in the middle of an
 * epoch, no connection, something lost) counts for stale_permille; one that
 * predicts wrongly (accuracy.h) for its discount; the lower of the two holds.
 * The replay that begins an epoch is no gap: what it brings is true as far as
 * it goes. Where the stream cannot claim all (PARTIAL), an answer that found
 * more than was predicted is explained by that and not held against it.
 *
 * Contested. Two engines sit behind one address, or one cannot stay up: gossip
 * tells when it is so, and such a stream is not in the view.
 *
 * What lanes see is published by mirror_writer_work() alone. A slot that is in
 * the published view is closed right after the next one, which has it not: the
 * mirror then gives it to another stream only when no reader is left who may
 * take that stream's blocks for the old owner's.
 *
 * Role: core. Owns: the table of streams, the published view.
 * Thread: control. Limits: WORKERS_MAX slots of the mirror over all streams,
 * MIRROR_GROUPS_MAX block sizes. Errors: named outcomes, -ENOMEM.
 */
#ifndef NODE_MIRROR_WRITER_H
#define NODE_MIRROR_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/publish.h"
#include "index/base/role.h"
#include "index/index.h"
#include "node/events/kv_stream.h"
#include "node/view/accuracy.h"
#include "node/view/mirror_view.h"

struct mirror_writer;

struct mirror_writer_limits {
    struct accuracy_config accuracy;
    uint32_t stale_permille; /* trust in a stream that misses events */
};

/* How a stream stands, for status and metrics. */
struct mirror_writer_status {
    uint32_t worker; /* fleet slot */
    uint32_t generation;
    uint32_t rank;
    enum kv_stream_state state;
    uint64_t epoch;
    uint64_t seq; /* of the last record that had one */
    uint64_t blocks;
    uint64_t digest;
    uint32_t holes; /* EVENT_HOLES_UNKNOWN: its source cannot tell */
    uint32_t block_tokens;
    uint32_t slot; /* of the mirror; WORKER_NONE: none is free */
    uint32_t trust_permille;
    bool lost;      /* records were left out: it waits to be read again */
    bool contested; /* too many epochs: not in the view */
    bool left_out;  /* one block size too many: not in the view */
    bool in_view;   /* requests are looked up there */
    struct accuracy accuracy;
};

/* Names a stream. */
struct mirror_writer_id {
    uint32_t worker;
    uint32_t generation;
    uint32_t rank;
};

/* Since the mirror writer was made; the levels below are of now. */
struct mirror_writer_stats {
    uint64_t records;         /* applied */
    uint64_t epochs;          /* begun */
    uint64_t clears;          /* caches that were cleared */
    uint64_t dropped_unknown; /* records of no stream that there is */
    uint64_t dropped_epoch;   /* ... of another epoch */
    uint64_t dropped_old;     /* ... older than the last one */
    uint64_t dropped_bad;     /* ... malformed, or of another block size */
    uint64_t dropped_lost;    /* ... without a slot, or waiting for a re-read */
    uint64_t full;            /* truncated: the mirror is full */
    uint64_t no_memory;       /* truncated: out of memory */
    uint64_t no_slot;         /* epochs that found no free slot */
    uint64_t explained;       /* answers that a PARTIAL stream explains */
    uint64_t rereads;         /* asked for, for what was lost */
    uint64_t views;           /* published */
    uint32_t streams;
    uint32_t in_view;
    uint32_t without_slot; /* of those with an epoch */
    uint32_t lost;
    uint32_t contested;
    uint32_t left_out;
};

/* mirror and qsbr outlive it; an empty view is published in *view. */
int mirror_writer_new(struct mirror_writer **out,
                      const struct mirror_writer_limits *limits,
                      struct mirror *mirror, struct qsbr *qsbr,
                      struct publish *view) MUST_CHECK;

/* Closes its slots and retires the view. No reader may be online, and the
 * qsbr is to be reclaimed once more. NULL is fine. */
void mirror_writer_free(struct mirror_writer *writer);

/* A worker with event streams came (again, too: whoever was in the fleet slot
 * is removed), or went: its ranks begin unknown. 0, or -ENOMEM and the worker
 * has no streams. */
int mirror_writer_worker_add(struct mirror_writer *writer, uint32_t worker,
                             uint32_t generation, uint32_t ranks)
    ON_CONTROL MUST_CHECK;
void mirror_writer_worker_remove(struct mirror_writer *writer, uint32_t worker)
    ON_CONTROL;

/* A new epoch of a stream, or the same once more under another name: what it
 * held is forgotten; its state; whether it is contested; a record of it (seq
 * 0: anywhere before the next one), whose words are checked here. Unknown
 * workers and other generations are ignored. Negative: out of memory, the
 * stream is stale and is to be re-read. */
void mirror_writer_reset(struct mirror_writer *writer, uint32_t worker,
                         uint32_t generation, uint32_t rank, uint64_t epoch)
    ON_CONTROL;
void mirror_writer_contested(struct mirror_writer *writer, uint32_t worker,
                             uint32_t generation, uint32_t rank, bool contested)
    ON_CONTROL;
void mirror_writer_state(struct mirror_writer *writer, uint32_t worker,
                         uint32_t generation, uint32_t rank,
                         enum kv_stream_state state) ON_CONTROL;
int mirror_writer_record(struct mirror_writer *writer, uint32_t worker,
                         uint32_t generation, uint32_t rank,
                         const struct event_record *record)
    ON_CONTROL MUST_CHECK;

/* What a snapshot had of a stream: its slot is open and filled. */
struct mirror_writer_restored {
    uint32_t slot;
    uint64_t epoch; /* as its next records name it */
    uint64_t seq;
    uint32_t holes;
    uint32_t block_tokens;
};

/* Of a stream that nothing was told of yet; true: the slot is the writer's from
 * now on. A gap in its events until a state says otherwise. */
bool mirror_writer_restore(struct mirror_writer *writer,
                           const struct mirror_writer_id *id,
                           const struct mirror_writer_restored *restored)
    ON_CONTROL MUST_CHECK;

/* The slot of the mirror that a stream has now; WORKER_NONE: none. */
uint32_t mirror_writer_slot(const struct mirror_writer *writer, uint32_t worker,
                            uint32_t generation, uint32_t rank) ON_CONTROL;

/* The same, if it holds all that its records said; WORKER_NONE else. */
uint32_t mirror_writer_whole_slot(const struct mirror_writer *writer,
                                  uint32_t worker, uint32_t generation,
                                  uint32_t rank) ON_CONTROL;

/* An answer of a worker's rank: true when that stream is to be re-read.
 * Answers given while it misses events say nothing and are not counted. */
bool mirror_writer_answer(struct mirror_writer *writer, uint32_t worker,
                          uint32_t generation, uint32_t rank,
                          const struct accuracy_answer *answer, uint64_t now_us)
    ON_CONTROL;

/*
 * Lets time pass, and names a stream that lost something and is to be re-read
 * now: true and *id, which is not named again before a wait that starts with
 * accuracy.reread_ms and doubles while that does not help. To be called once a
 * second or so, until false; it is the writer's clock.
 */
bool mirror_writer_next_reread(struct mirror_writer *writer,
                               struct mirror_writer_id *id, uint64_t now_us)
    ON_CONTROL MUST_CHECK;

/* Publishes what changed since the last call; background work of the mirror.
 * True when there is more. */
bool mirror_writer_work(struct mirror_writer *writer, uint32_t budget)
    ON_CONTROL;

/* The streams in order of worker and rank: the at-th, false at the end. O(1).
 * */
bool mirror_writer_status(const struct mirror_writer *writer, uint32_t at,
                          struct mirror_writer_status *status)
    ON_CONTROL MUST_CHECK;

/* Copies the counters since mirror_writer_new(). */
void mirror_writer_stats(const struct mirror_writer *writer,
                         struct mirror_writer_stats *stats) ON_CONTROL;

/* Whether the invariants hold; otherwise *reason, static, says which does not. */
bool mirror_writer_check(const struct mirror_writer *writer,
                         const char **reason) ON_CONTROL;

#endif
