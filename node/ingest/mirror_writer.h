/*
 * The mirror writer: control's end of every stream. It takes what gossip has
 * applied, whoever read it, writes the mirror, and publishes to lanes which
 * slots belong to which streams.
 *
 * A stream is a rank of a worker. A new epoch takes a new slot of the mirror
 * and closes the old one, so that forgetting a cache is one store; a CLEAR
 * within a record does the same. A transferred state comes as a new epoch, too,
 * and then as records without a number, whose holes are unknown until a record
 * with a number follows. Records of an epoch other than the stream's, or older
 * than its last one, are dropped and counted.
 *
 * Slots can run out: a closed slot is free only after it was swept. A stream
 * that finds no slot continues without one, and mirror_writer_work() tries
 * again. Records that arrive meanwhile are lost, so once the stream has a slot
 * it takes no further records and must be read again; the new epoch then uses
 * the same, still empty slot. When the mirror is full the same happens without
 * the pause: what did not fit is lost, and what is there stays true, at a
 * discount.
 *
 * Trust. A stream that misses events (stale, a replay in the middle of an
 * epoch, no connection, something lost) counts for stale_permille; a stream
 * that predicts wrongly (accuracy.h) for its discount; the lower value holds.
 * The replay that begins an epoch is no gap: what it brings is true as far as
 * it goes. If the stream cannot claim to be complete (PARTIAL), an answer that
 * found more than was predicted is explained by that, and no reason to read it
 * again. But such answers say how much of the engine's cache is unknown: trust is
 * stale_permille at first, and never full (accuracy.h).
 *
 * Cleared. An engine whose cache is reset says so with its next events, when it
 * next computes something. If the order passed through this node, nothing is
 * trusted until then.
 *
 * The last block. Whether an engine computes it again that it finds is learned from
 * answers (accuracy.h), and the view tells lanes.
 *
 * Unruled. Some engines keep caches of which nobody knows what a hit needs, and
 * the stream's shape (index/shape.h) says so: it is not in the view, and its
 * requests are routed by their text.
 *
 * Contested. Two engines sit behind one address, or one engine keeps
 * restarting. Gossip reports it, and such a stream is not in the view.
 *
 * Only mirror_writer_work() and mirror_writer_cleared() publish what lanes see. A slot in the published
 * view is closed right after the next view, which omits it: so the mirror gives
 * it to another stream only when no reader is left who may take that stream's
 * blocks for the old owner's.
 *
 * Role: core. Owns: the table of streams, the published view. Thread: control.
 * Limits: WORKERS_MAX slots of the mirror over all streams, MIRROR_GROUPS_MAX
 * grains (index/shape.h). Errors: named outcomes, -ENOMEM.
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
    uint32_t shape; /* index/shape.h; block_tokens are its tokens */
    uint32_t slot;  /* of the mirror; WORKER_NONE: none is free */
    uint32_t trust_permille;
    bool lost;       /* records were left out: it waits to be read again */
    bool contested;  /* too many epochs: not in the view */
    bool left_out;   /* one grain too many: not in the view */
    bool unruled;    /* nobody knows what a hit needs: not in the view */
    bool in_view;    /* requests are looked up there */
    bool recomputes; /* lanes know that its last block is computed again */
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
    uint64_t dropped_bad;     /* ... malformed, or of another grain */
    uint64_t dropped_lost;    /* ... without a slot, or waiting for a re-read */
    uint64_t full;            /* truncated: the mirror is full */
    uint64_t no_memory;       /* truncated: out of memory */
    uint64_t no_slot;         /* epochs that found no free slot */
    uint64_t explained;       /* answers that found more than a PARTIAL stream
                                 predicted */
    uint64_t rereads;         /* requested because something was lost */
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
 * caller must reclaim the qsbr once more. writer may be NULL. */
void mirror_writer_free(struct mirror_writer *writer);

/* A worker with event streams came (again, too: whoever was in the fleet slot
 * is removed), or went: its ranks begin unknown. 0, or -ENOMEM and the worker
 * has no streams. */
int mirror_writer_worker_add(struct mirror_writer *writer, uint32_t worker,
                             uint32_t generation, uint32_t ranks)
    ON_CONTROL MUST_CHECK;
void mirror_writer_worker_remove(struct mirror_writer *writer, uint32_t worker)
    ON_CONTROL;

/* A new epoch of a stream, or the same epoch again under another name: its
 * contents are forgotten; its state; whether it is contested; a record of it
 * (seq 0: anywhere before the next one), whose words are checked here. Unknown
 * workers and other generations are ignored. Negative: out of memory, the
 * stream is stale and must be read again. */
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

/* That worker was told to clear its cache, and said yes: what the mirror has of
 * its ranks counts for nothing, each until its next record, the first that can
 * tell of it. Lanes know it at once. */
void mirror_writer_cleared(struct mirror_writer *writer, uint32_t worker,
                           uint32_t generation) ON_CONTROL;

/* What a snapshot held of a stream: its slot is open and filled. */
struct mirror_writer_restored {
    uint32_t slot;
    uint64_t epoch; /* as its next records name it */
    uint64_t seq;
    uint32_t holes;
    uint32_t shape; /* index/shape.h */
};

/* For a stream of which nothing is known yet. True: the writer takes over the
 * slot. The stream misses events until a state says otherwise. */
bool mirror_writer_restore(struct mirror_writer *writer,
                           const struct mirror_writer_id *id,
                           const struct mirror_writer_restored *restored)
    ON_CONTROL MUST_CHECK;

/* The slot of the mirror that a stream has now; WORKER_NONE: none. */
uint32_t mirror_writer_slot(const struct mirror_writer *writer, uint32_t worker,
                            uint32_t generation, uint32_t rank) ON_CONTROL;

/* The same slot if the stream is complete; otherwise WORKER_NONE. */
uint32_t mirror_writer_whole_slot(const struct mirror_writer *writer,
                                  uint32_t worker, uint32_t generation,
                                  uint32_t rank) ON_CONTROL;

/* An answer of a worker's rank: true when that stream must be read again.
 * Answers given while it misses events prove nothing and are not counted. */
bool mirror_writer_answer(struct mirror_writer *writer, uint32_t worker,
                          uint32_t generation, uint32_t rank,
                          const struct accuracy_answer *answer, uint64_t now_us)
    ON_CONTROL;

/*
 * Advances the writer's clock and names a stream that lost something and must
 * be read again now: true and *id. The stream is not named again before a wait
 * that starts with accuracy.reread_ms and doubles while that does not help.
 * Call it about once a second, until it returns false.
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

/* Verifies each invariant. False: *reason (static text) says which one is
 * broken. */
bool mirror_writer_check(const struct mirror_writer *writer,
                         const char **reason) ON_CONTROL;

#endif
