/*
 * Whose events are followed where the workers have more ranks than the mirror
 * has slots: in the order of ids, each worker whose ranks all have room beside
 * those before it. So all nodes that know the same workers leave out the same
 * ones, whatever came first.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: WORKERS_MAX workers and
 * slots. Errors: none.
 */
#ifndef NODE_INGEST_ROOM_H
#define NODE_INGEST_ROOM_H

#include "index/index.h"

/* A worker with events; ranks 0: there is none in this place. id: borrowed. */
struct ingest_room_worker {
    const char *id;
    uint32_t ranks;
};

/* Which places are followed, of WORKERS_MAX. */
struct worker_set
ingest_room_share(const struct ingest_room_worker workers[WORKERS_MAX]);

#endif
