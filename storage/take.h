/*
 * When snapshots are taken, and how one is: a cut in front of the disk thread.
 *
 * A snapshot is due interval_us after the last one; sooner, changed_us after
 * it, once changed_permille of all parts have changed; and at once on request.
 * After a failure the next one is due retry_us later, then twice that, up to
 * retry_max_us. A turn reads turn_bytes, and nothing while the queue is full;
 * the default suits a loop that has other work, and takes a tenth of a
 * millisecond or two.
 *
 *   switch (storage_take_tick(take, now_us)) {
 *   case STORAGE_TAKE_FACTS: gather them, storage_take_facts(...), tick again
 *   case STORAGE_TAKE_BUSY:  tick again soon, in another turn of the loop
 *   case STORAGE_TAKE_WAITS: tick again when the disk wakes
 *   case STORAGE_TAKE_IDLE:  tick again at storage_take_deadline(), or now
 *                            and then, to see what changed
 *
 * With a twin (twin.h) the facts are asked for once the ledger's cut has ended
 * and storage_take_told() has confirmed that everything it sent is applied.
 * Then WAITS also waits for the twin, which wakes control, too.
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

/* The configuration of a node that sets none of its own. */
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
    struct storage_saved saved;   /* of the last committed snapshot */
    bool running;
};

struct storage_take {
    struct storage_take_config config;
    struct storage_cut *cut;
    struct storage_disk *disk;
    struct storage_twin *twin; /* NULL: there is none */
    uint64_t number;           /* the twin's, of this one */
    bool told;                 /* everything that the ledger sent before its cut
                                  ended is applied */
    uint64_t begun_us;
    uint64_t due_us;
    uint64_t changed_due_us;
    uint32_t failures; /* in a row */
    bool asked;
    bool whole;   /* the next snapshot needs all parts */
    bool walking; /* the cut is being walked */
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

/* Everything that the ledger sent before its cut ended, in the snapshot of this
 * number (storage_twin_turn()), is applied. */
void storage_take_told(struct storage_take *take, uint64_t number);

/* The number of the running snapshot, whose ledger part is complete; 0: there
 * is none. */
static inline uint64_t
storage_take_number(const struct storage_take *take)
{
    return take->told ? take->number : 0;
}

/* Gives up the running snapshot, before the disk is freed. */
void storage_take_stop(struct storage_take *take);

/* Requests a snapshot now: before the end, or for an operator. If one is
 * running, another one follows. */
void storage_take_ask(struct storage_take *take);

/* One turn of at most turn_bytes: begins a snapshot that is due, continues the
 * running one, or takes in its result. now_us: monotonic. The essay above says
 * what each step asks of the caller. */
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

/* How snapshots have gone so far, as of the last tick; borrowed. */
static inline const struct storage_take_status *
storage_take_status(const struct storage_take *take)
{
    return &take->status;
}

#endif
