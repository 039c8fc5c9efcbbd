/*
 * Saves what control knows now and then, so that the next process can continue
 * from it (storage/ explains how).
 *
 * A snapshot contains the mirror with each stream's epoch and position, belief,
 * the roster, the members' addresses, the mix (node/view/mix.h) and bytes of a
 * token (node/view/text_models.h), as of one turn of control's loop.
 * Streams that are not complete in that turn are left out. On a start, the
 * streams of workers that still exist (by identity) get their blocks and the
 * position up to which the blocks are true, so engines and peers need to supply
 * only what came later. A stream whose engine is another process by now is
 * dropped when that becomes apparent; until the node has caught up with the
 * engine or its peers, a stream counts for mirror.stale. The present
 * configuration is newer than what a snapshot remembers of an older one, so
 * only operators' changes of the roster are restored.
 *
 * The names that engines give their blocks (the ledger) are saved as well, with
 * the position up to which each engine was read. If the engine is still the
 * same process, no earlier batch is requested, and its replay need not reach
 * further back. The ledger belongs to the intake's thread, which cuts its half
 * of each snapshot itself (storage/twin.h) and is not ahead of the mirror's
 * half. A stream that cannot be continued is treated as if it had not been
 * saved: its engine is read from the first batch, and gossip leaves out what is
 * known already. This includes sidecars, and engines without a replay, which
 * could not prove that they are the same process.
 *
 * A full disk, even on the very first start, costs snapshots and nothing else.
 *
 * Role: shell. Owns: the directory's lock, the disk thread, its timer. Thread:
 * control. Limits: config.data; SNAPSHOT_WAITERS_MAX. Errors: -errno with one
 * line in the log; later failures cost a snapshot and appear in the status.
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
#include "node/view/mix.h"
#include "node/view/text_models.h"
#include "storage/storage.h"

#define SNAPSHOT_WAITERS_MAX 16U

struct snapshot;

/* Milliseconds since 1970. */
uint64_t snapshot_wall_ms(void);

/* What snapshots are taken of and put back into; all of it outlives
 * snapshot_stop(). */
struct snapshot_parts {
    uv_loop_t *loop;
    const struct node_shared *node; /* mirror, belief, board */
    struct fleet *fleet;
    struct ingest *ingest;
    struct cluster *cluster;
    struct mix *mix;
    struct text_models *text;
    bool meshed; /* there is a mesh port */
    void *context;
    /* The roster has this entry from the snapshot; its texts are borrowed. */
    void (*worker)(void *context, const struct roster_entry *entry);
};

/*
 * Locks the directory and finds the snapshot to start from; call it before any
 * thread runs. 0 and *out (NULL: the configuration has no directory), or
 * -errno: another process has the directory, or it cannot be used. If the
 * directory cannot be created for lack of room, a later attempt follows.
 */
int snapshot_open(struct snapshot **out, const struct config *config)
    MUST_CHECK;

/* Restores the snapshot into the parts (copied), which are new, and schedules
 * the first snapshot of this process. snapshot may be NULL. 0 or -errno; a
 * snapshot that cannot be loaded is no error. */
int snapshot_start(struct snapshot *snapshot,
                   const struct snapshot_parts *parts) MUST_CHECK ON_CONTROL;

/* Before the end: takes a last snapshot. True once that has succeeded, failed,
 * or taken too long; call it repeatedly until then. snapshot may be NULL. */
bool snapshot_finish(struct snapshot *snapshot) ON_CONTROL;

/* Ends the disk thread and closes the handles on the loop. snapshot may be
 * NULL. */
void snapshot_stop(struct snapshot *snapshot) ON_CONTROL;

/* After the loop ended, before the index is freed. NULL is fine. */
void snapshot_free(struct snapshot *snapshot);

/* Everything that the ledger sent before its cut of that number ended is
 * applied. snapshot may be NULL. */
void snapshot_told(struct snapshot *snapshot, uint64_t number) ON_CONTROL;

/* Takes a snapshot now; calls done(context) when it has succeeded or failed.
 * False: too many callers wait already. */
bool snapshot_ask(struct snapshot *snapshot, void (*done)(void *context),
                  void *context) MUST_CHECK ON_CONTROL;

/* That caller is gone. */
void snapshot_forget(struct snapshot *snapshot, const void *context) ON_CONTROL;

/* What this process's start restored. */
struct snapshot_loaded {
    bool warm;                  /* it continued from a snapshot */
    const char *reason;         /* static; why it does not: "" */
    struct storage_report from; /* the file, when found */
    uint64_t age_ms;            /* of the snapshot, at the start */
    uint64_t find_us;           /* to verify files */
    uint64_t load_us;           /* to fill the index */
    uint64_t ledger_us;         /* ... of that, ledger and mirror */
    uint32_t streams;           /* loaded */
    uint32_t ledgers;           /* ... whose reading goes on */
    uint64_t ledger_blocks;
    uint32_t named; /* streams whose names are known */
    uint32_t
        names_refused; /* ... and whose names were not as they were saved, or
                               found no room */
    uint32_t left_out; /* of workers that are not there */
    uint32_t refused;  /* files that were set aside or passed over */
    uint64_t blocks;
    uint64_t belief_blocks;
    uint32_t workers; /* that operators changed */
    uint32_t members;
    bool mix;  /* how long requests were is known from before */
    bool text; /* and how many bytes make a token */
};

struct snapshot_status {
    const char *dir;
    struct storage_take_status take;
    uint64_t age_ms;  /* of the last one, taken or loaded; 0: none yet */
    uint64_t turn_us; /* CPU time of control's longest turn for the last one */
    bool any;
    struct snapshot_loaded loaded;
};

/* Copies the last snapshot's result, and whether one is running. */
void snapshot_status(const struct snapshot *snapshot,
                     struct snapshot_status *status) ON_CONTROL;

#endif
