/*
 * When snapshots are taken, and one taken: a cut in front of the disk thread.
 *
 * One is due interval_us after the last, or sooner, changed_us after it, once
 * changed_permille of all parts changed; at once when asked for. After a
 * failure the next is due retry_us later, then twice that, up to retry_max_us.
 * A turn reads turn_bytes, and none while the queue is full; the default is
 * for a loop that has others to serve, a tenth of a millisecond or two.
 *
 *   switch (storage_take_tick(take, now_us)) {
 *   case STORAGE_TAKE_FACTS: gather them, storage_take_facts(...), tick again
 *   case STORAGE_TAKE_BUSY:  tick again soon, in another turn of the loop
 *   case STORAGE_TAKE_WAITS: tick again when the disk wakes
 *   case STORAGE_TAKE_IDLE:  tick again at storage_take_deadline(), or now
 *                            and then, to see what changed
 *
 * With a twin (twin.h) the facts are asked for once the ledger's cut has ended
 * and storage_take_told() said that all it told is applied. WAITS then is also
 * for the twin, which wakes control, too.
 *
 * Role: core over the disk's queue. Owns: nothing. Thread: the index's writer.
 * Limits: struct storage_take_config. Errors: in the status.
 */
#ifndef STORAGE_TAKE_H
#define STORAGE_TAKE_H

#include "storage/twin.h"

struct storage_take_config {
    uint64_t interval_us;
    uint64_t changed_us;
    uint32_t changed_permille;
    uint64_t retry_us;
    uint64_t retry_max_us;
    size_t turn_bytes;
};

/* What a node uses where its configuration says nothing. */
struct storage_take_config storage_take_config_default(void);

enum storage_take_step {
    STORAGE_TAKE_IDLE,
    STORAGE_TAKE_BUSY,
    STORAGE_TAKE_FACTS,
    STORAGE_TAKE_WAITS,
};

struct storage_take_status {
    uint64_t taken;               /* since the start */
    uint64_t failed;              /* since the start */
    uint64_t last_us;             /* when the last one was begun; 0: none yet */
    uint64_t duration_us;         /* of the last one, until it was on disk */
    enum storage_outcome outcome; /* of the last attempt */
    struct storage_saved saved;   /* of the last one that was committed */
    bool running;
};

struct storage_take {
    struct storage_take_config config;
    struct storage_cut *cut;
    struct storage_disk *disk;
    struct storage_twin *twin; /* NULL: there is none */
    uint64_t number;           /* the twin's, of this one */
    bool told;                 /* what the ledger told is applied */
    uint64_t begun_us;
    uint64_t due_us;
    uint64_t changed_due_us;
    uint32_t failures; /* in a row */
    bool asked;
    bool whole;   /* the next one is to be given all parts */
    bool walking; /* the cut goes on */
    bool waiting; /* for the disk */
    enum storage_outcome cut_outcome;
    struct storage_about about;
    struct storage_take_status status;
};

/* Begins to count the time; the first snapshot has all parts. cut and disk
 * outlive it, config is copied. */
void storage_take_init(struct storage_take *take,
                       const struct storage_take_config *config,
                       struct storage_cut *cut, struct storage_disk *disk,
                       uint64_t now_us);

/* Takes the ledger's half from this twin, which outlives it. No snapshot
 * runs. */
void storage_take_with(struct storage_take *take, struct storage_twin *twin);

/* All that the ledger told before its cut ended, in the snapshot of this number
 * (storage_twin_turn()), is applied. */
void storage_take_told(struct storage_take *take, uint64_t number);

/* The number of the one that runs, whose ledger is whole; 0: it has none. */
static inline uint64_t
storage_take_number(const struct storage_take *take)
{
    return take->told ? take->number : 0;
}

/* Gives up the one that runs, before the disk is freed. */
void storage_take_stop(struct storage_take *take);

/* One is wanted now: before the end, or by an operator. One that runs already
 * is followed by another. */
void storage_take_ask(struct storage_take *take);

/* One turn of at most turn_bytes: begins a snapshot that is due, goes on with
 * the one that runs, hears how it went. now_us: monotonic. What the step asks
 * of the caller is said above. */
enum storage_take_step storage_take_tick(struct storage_take *take,
                                         uint64_t now_us) MUST_CHECK;

/* Answers FACTS, in the same turn. about: cluster, node and taken_ms; its texts
 * live as long as take. */
void storage_take_facts(struct storage_take *take,
                        const struct storage_facts *facts,
                        const struct storage_about *about);

/* When the next snapshot is due if not much changes before (now_us of a
 * tick); 0: at once. */
uint64_t storage_take_deadline(const struct storage_take *take);

/* How snapshots went so far, borrowed; as of the last tick. */
static inline const struct storage_take_status *
storage_take_status(const struct storage_take *take)
{
    return &take->status;
}

#endif
