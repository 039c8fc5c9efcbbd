/*
 * What survives a restart: what control knows, saved now and then, and taken up
 * again by the next process (storage/ has the how).
 *
 * Saved are the mirror with each stream's epoch and position, belief, the
 * roster and the members' addresses, as they are in one turn of control's loop.
 * Streams of which not all is known in that turn are left out.
 *
 * A start goes on from there: streams of workers that are there (by identity)
 * have their blocks and the position up to which these are true, so engines and
 * peers tell what came since and no more. A stream whose engine is another
 * process by now is dropped when that shows; until its engine or peers are
 * caught up with, a stream counts for mirror.stale. What the configuration says
 * of workers is newer than what a snapshot remembers of an older configuration,
 * so of the roster only what operators changed comes back.
 *
 * So are the names that engines give their blocks (the ledger), with how far
 * each engine was read: of one that is still the same process, no batch from
 * before is asked for, and its replay need not reach further back. The ledger
 * belongs to the intake's thread, which cuts its half of each snapshot itself
 * (storage/twin.h) and is not ahead of the mirror's. What cannot be gone on
 * from is as if it had not been saved: the engine is read from its first batch,
 * and what is known is left out by gossip. So it is with sidecars, and with
 * engines without a replay, which could not prove that they are the same.
 *
 * A disk that is full, from the first start on, costs snapshots and nothing
 * else.
 *
 * Role: shell. Owns: the directory's lock, the disk thread, its timer.
 * Thread: control. Limits: config.data; SNAPSHOT_WAITERS_MAX.
 * Errors: -errno with one line in the log; what goes wrong later costs a
 * snapshot and is in the status.
 */
#ifndef NODE_SNAPSHOT_H
#define NODE_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "index/base/check.h"
#include "index/base/role.h"
#include "node/config/config.h"
#include "node/fleet/fleet.h"
#include "node/ingest/ingest.h"
#include "storage/storage.h"

#define SNAPSHOT_WAITERS_MAX 16U

struct snapshot;

/* What snapshots are taken of and put back into; all of it outlives
 * snapshot_stop(). */
struct snapshot_parts {
    uv_loop_t *loop;
    const struct node_shared *node; /* mirror, belief, board */
    struct fleet *fleet;
    struct ingest *ingest;
    struct cluster *cluster;
    bool meshed; /* there is a mesh port */
    void *context;
    /* The roster has this entry from the snapshot; its texts are borrowed. */
    void (*worker)(void *context, const struct roster_entry *entry);
};

/*
 * Takes the directory and finds what to start from; before any thread runs. 0
 * and *out (NULL: the configuration has no directory), or -errno: another
 * process has the directory, or it cannot be used. One that cannot be made for
 * want of room is tried again later.
 */
int snapshot_open(struct snapshot **out, const struct config *config)
    MUST_CHECK;

/* Puts back what was found into the parts (copied), which are new, and has the
 * first of this life's snapshots taken in due time. NULL is fine. 0 or
 * -errno; a snapshot that cannot be loaded is no error. */
int snapshot_start(struct snapshot *snapshot,
                   const struct snapshot_parts *parts) MUST_CHECK ON_CONTROL;

/* Before the end: takes a last one; true once that went well or failed, or
 * takes too long. To be called again and again. NULL is fine. */
bool snapshot_finish(struct snapshot *snapshot) ON_CONTROL;

/* Ends the disk thread and closes what is on the loop. NULL is fine. */
void snapshot_stop(struct snapshot *snapshot) ON_CONTROL;

/* After the loop ended, before the index is freed. NULL is fine. */
void snapshot_free(struct snapshot *snapshot);

/* All that the ledger told before its cut of that number ended is applied.
 * NULL is fine. */
void snapshot_told(struct snapshot *snapshot, uint64_t number) ON_CONTROL;

/* Takes one now; done(context) once it went well or failed. False: too many
 * wait already. */
bool snapshot_ask(struct snapshot *snapshot, void (*done)(void *context),
                  void *context) MUST_CHECK ON_CONTROL;

/* That caller is gone. */
void snapshot_forget(struct snapshot *snapshot, const void *context) ON_CONTROL;

/* What this process's start made of what it found. */
struct snapshot_loaded {
    bool warm;                  /* it goes on from a snapshot */
    const char *reason;         /* static; why it does not: "" */
    struct storage_report from; /* the file, when found */
    uint64_t age_ms;            /* of the snapshot, at the start */
    uint64_t find_us;           /* to verify files */
    uint64_t load_us;           /* to fill the index */
    uint64_t ledger_us;         /* ... of that, the ledger */
    uint32_t streams;           /* loaded */
    uint32_t ledgers;           /* ... whose reading goes on */
    uint64_t ledger_blocks;
    uint32_t left_out; /* of workers that are not there */
    uint32_t refused;  /* files that were set aside or passed over */
    uint64_t blocks;
    uint64_t belief_blocks;
    uint32_t workers; /* that operators changed */
    uint32_t members;
};

struct snapshot_status {
    const char *dir;
    struct storage_take_status take;
    uint64_t age_ms;  /* of the last one, taken or loaded; 0: none yet */
    uint64_t turn_us; /* CPU time of control's longest turn for the last one */
    bool any;
    struct snapshot_loaded loaded;
};

/* Copies what the last snapshot was, and what is going on. */
void snapshot_status(const struct snapshot *snapshot,
                     struct snapshot_status *status) ON_CONTROL;

#endif
