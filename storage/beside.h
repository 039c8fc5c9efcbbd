/*
 * Fills mirror and ledger from a snapshot, partly at the same time.
 *
 * The ledger's parts are read first. What is then left to do with it needs no
 * disk, takes as long as reading and filling the mirror, and shares nothing with
 * that: a thread does it meanwhile. Where none can be started, it is done
 * afterwards.
 *
 * Role: shell. Owns: a thread, during the call. Thread: the index's writer.
 * Errors: named outcomes.
 */
#ifndef STORAGE_BESIDE_H
#define STORAGE_BESIDE_H

#include "storage/restore.h"

/* Outcomes as of storage_restore_index(). */
struct storage_beside {
    enum storage_outcome mirror;
    enum storage_outcome ledger; /* not 0: the caller must free it */
};

/* As storage_restore_index(), but that a ledger that cannot be filled does not
 * keep the mirror from being so, nor the other way round. ledger may be NULL. */
struct storage_beside
storage_restore_beside(const struct storage_load *load, struct mirror *mirror,
                       struct ledger *ledger,
                       const struct storage_stream *streams, uint32_t count);

#endif
