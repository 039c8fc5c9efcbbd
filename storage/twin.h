/*
 * The other half of a snapshot: a cut of the ledger by the thread that owns it,
 * beside the mirror's cut by control (take.h).
 *
 * Both are walked at the same time, each at its own pace, and their parts go to
 * one disk. When both are walked, control ends the ledger's cut. Everything
 * that the ledger's thread sent before that moment is applied to the mirror
 * before the mirror's cut ends, so for each stream the ledger is never ahead of
 * the mirror. After a start, events after the ledger's position are read and
 * sent again; the mirror drops those that it has already, by position, and
 * nothing is left out.
 *
 *   control                        the ledger's thread, each turn
 *   begin                          turn() -> BUSY: more at once; WAITS: soon,
 *   state() WALKED: end()                    for the disk; NOTHING: when woken
 *   ... until what was sent is     turn() -> ENDED: sends its position, behind
 *       applied; state() DONE                all that the ledger sent so far
 *   settle()
 *
 * A cut that control gives up (settle() before DONE) leaves no part behind:
 * from then on the disk is not touched.
 *
 * Role: core, except for its mutex, which is held while a few words or a part
 * change hands. Owns: the cut. Thread: as each call says. Limits: those of
 * cut.h and of the disk's queue. Errors: the state FAILED.
 */
#ifndef STORAGE_TWIN_H
#define STORAGE_TWIN_H

#include "storage/disk.h"

struct storage_twin;

/* How each half wakes the other one; called under the mutex, and to return at
 * once. */
struct storage_twin_calls {
    void (*wake_ledger)(void *context);
    void *ledger_context;
    void (*wake_control)(void *context);
    void *control_context;
};

/* Called before the ledger's thread runs; ledger outlives it, calls are copied.
 * NULL: no memory. */
struct storage_twin *storage_twin_new(struct ledger *ledger,
                                      const struct storage_twin_calls *calls);

/* Called when both threads are done with it. NULL is fine. */
void storage_twin_free(struct storage_twin *twin);

/* ---- control ---- */

enum storage_twin_state {
    STORAGE_TWIN_WALKS,
    STORAGE_TWIN_WALKED,
    STORAGE_TWIN_ENDS,   /* storage_twin_end() was called */
    STORAGE_TWIN_DONE,   /* the disk has all parts */
    STORAGE_TWIN_FAILED, /* no memory, or the journal grew too long */
    STORAGE_TWIN_GONE,   /* the ledger's thread ended: there is no ledger */
};

/* A snapshot was begun on the disk: the ledger's thread hands its parts over
 * until storage_twin_settle(). Returns the snapshot's number, a new one each
 * time. */
uint64_t storage_twin_begin(struct storage_twin *twin,
                            struct storage_disk *disk, bool whole);

/* How far the ledger's half is. */
enum storage_twin_state storage_twin_state(struct storage_twin *twin);

/* Both halves are walked: the ledger's cut ends in its next turn. */
void storage_twin_end(struct storage_twin *twin);

/* How the snapshot ended, or that it is given up. Afterwards the disk is not
 * touched; call this before the disk is freed. */
void storage_twin_settle(struct storage_twin *twin, bool committed);

/* ---- the ledger's thread ---- */

enum storage_twin_step {
    STORAGE_TWIN_NOTHING,
    STORAGE_TWIN_BUSY,
    STORAGE_TWIN_WAITS,
    STORAGE_TWIN_ENDED,
};

/* One turn: hands over parts of about this many bytes. *number: the snapshot's,
 * set with ENDED. */
enum storage_twin_step storage_twin_turn(struct storage_twin *twin,
                                         size_t bytes, uint64_t *number);

/* The ledger's thread ends; a snapshot that runs goes without its half. */
void storage_twin_leave(struct storage_twin *twin);

#endif
