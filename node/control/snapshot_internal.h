/*
 * The inside of snapshots, shared by its files: snapshot.c has the life,
 * snapshot_facts.c what is true in the turn of a cut's end, snapshot_load.c the
 * start.
 *
 * Role: shell, private to snapshot. Thread: control.
 */
#ifndef NODE_SNAPSHOT_INTERNAL_H
#define NODE_SNAPSHOT_INTERNAL_H

#include <uv.h>

#include "node/control/snapshot.h"

/* Bytes of what was learned of requests. */
#define SNAPSHOT_LEARNED_MAX ((size_t)4 << 20)

struct snapshot_waiter {
    void (*done)(void *context);
    void *context;
    uint64_t attempts; /* over by when this one's has begun */
};

struct snapshot {
    const struct config *config;
    struct snapshot_parts parts;
    struct storage_limits limits;
    struct storage_io *io; /* NULL: the directory could not be created yet */
    struct storage_find found;
    struct storage_cut *cut;
    struct storage_disk *disk; /* NULL: likewise */
    struct storage_twin *twin; /* the intake's */
    struct storage_take take;
    uint64_t told_taken; /* attempts that the log has reported */
    uint64_t told_failed;
    uint64_t turn_us;    /* CPU time of the longest turn since the last
                            report */
    uint64_t longest_us; /* and of the last attempt's */
    uint64_t finish_us;  /* a last one is awaited until then; 0: not yet */
    uint32_t waiters_count;
    struct snapshot_waiter waiters[SNAPSHOT_WAITERS_MAX];
    struct snapshot_loaded loaded;
    uv_timer_t timer;
    uv_async_t wake;
    bool started;
};

/* snapshot_load.c: fills the parts from the file that was found. */
void snapshot_load(struct snapshot *snapshot) ON_CONTROL;

/* snapshot_facts.c: answers STORAGE_TAKE_FACTS; false: no memory. */
bool snapshot_tell_facts(struct snapshot *snapshot) ON_CONTROL MUST_CHECK;

#endif
