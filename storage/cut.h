/*
 * Cuts a snapshot out of an index that goes on changing.
 *
 * Readers and writers keep working while ten million blocks are read, and still
 * the snapshot is exactly the state of one moment: the end of the cut. Three
 * designs were considered:
 * - Read everything in one turn of the control loop. That takes too long with
 *   many blocks.
 * - Copy each part just before it changes, which gives the state at the
 *   beginning. But one event may copy a part of up to a megabyte, and because
 *   keys are hashes, the events of one second touch all parts: more than a disk
 *   can write.
 * - This one: read the parts one by one, and keep a journal of every change
 *   from before the first part until after the last one (watch.h). The journal
 *   grows by 8 bytes per changed block and goes to disk in chunks. The snapshot
 *   is complete by itself; it needs no peer's log and no engine.
 *
 * A large part is read in pieces, so that no turn is long; changes between two
 * pieces are treated like all others. The version vector is that of the end,
 * too. The next snapshot contains only the parts that have changed since, until
 * one fails: then all parts count as changed.
 *
 * Names are copied in the same way: pages of all tables, and a journal. Belief is
 * not exact, and is written page by page as it is found. Names and belief are
 * written anew with each snapshot.
 *
 * Restoring compares the result with the count of blocks and the digest that
 * each stream had at the end, and refuses a state that never existed.
 *
 * Grammar: begin; next until WALKED, over any number of turns; end, in the same
 * turn in which the facts are gathered; next until DONE; done, when the disk
 * has reported its result. Or cancel at any time.
 *
 * Role: core. Owns: journals, flags of changed parts. Thread: the index's
 * writer. Limits: STORAGE_JOURNAL_BYTES_MAX per journal; a cut that exceeds it
 * fails, and may be tried again.
 */
#ifndef STORAGE_CUT_H
#define STORAGE_CUT_H

#include "storage/record.h"
#include "storage/save.h"

#define STORAGE_JOURNAL_BYTES_MAX ((uint64_t)512 << 20)
#define STORAGE_PIECE_BYTES       ((size_t)64 << 10) /* about */

struct storage_cut;

/* Tables of names (index/names.h), whose owner changes them in the thread of the
 * mirror's cut. All zeros: there are none. */
struct storage_naming {
    void *context;
    /* The at-th stream and its table, or NULL where it is not known. False:
     * there is no such stream. */
    bool (*table)(void *context, uint32_t at, struct event_stream *stream,
                  const struct names **table);
    /* From now on, what is done to tables goes to this journal as entries of a
     * copy; NULL: no more. */
    void (*watch)(void *context, struct words *journal);
};

/*
 * What is cut. The mirror and the ledger may each have a thread of its own, and
 * then each has a cut of its own, with NULL for the other. Facts and other
 * records belong to the mirror's cut. The ledger's cut ends first; the mirror's
 * cut ends when everything that the ledger has sent until then is applied to
 * the mirror. After a start, reading continues from the ledger's position: it
 * repeats some of what the mirror has already, which is harmless, and leaves
 * nothing out.
 */
struct storage_source {
    struct mirror *mirror;
    struct ledger *ledger;
    const struct radix *radix;   /* belief; with the mirror, or NULL */
    struct storage_naming names; /* with the mirror */
    uint32_t piece_lines; /* lines of the mirror that one call reads; 0: as many
                             as take a tenth of a millisecond */
};

/* A part; the caller that pulled it frees bytes. */
struct storage_part {
    enum storage_kind kind;
    uint32_t number;
    char *bytes;
    size_t len;
};

enum storage_step {
    STORAGE_STEP_PART,
    STORAGE_STEP_MORE,   /* a piece of STORAGE_PIECE_BYTES of a part was read */
    STORAGE_STEP_WALKED, /* storage_cut_end() is next */
    STORAGE_STEP_DONE,   /* everything was pulled: commit it */
    STORAGE_STEP_FAILED, /* no memory, or the journal grew too long: the cut is
                            cancelled */
};

/* Facts as of the turn in which the cut ends. */
struct storage_facts {
    const struct storage_stream *streams;
    uint32_t streams_count;
    const struct storage_worker *workers;
    uint32_t workers_count;
    const struct storage_member *members;
    uint32_t members_count;
    /* Of WORKERS_MAX slots of belief, the worker's identity (event_stream
     * .worker), 0: none; NULL: there is no belief. */
    const uint64_t *belief_workers;
    struct slice learned; /* of requests, the node's own opaque data */
};

/* A cut at rest. It watches the index from now on (mirror_watch(),
 * ledger_watch()); what the source points at outlives it, but whose names they
 * are need only outlive the walks. NULL: no memory. */
struct storage_cut *storage_cut_new(const struct storage_source *source);

/* Stops watching and frees the cut, in any phase. NULL is fine. */
void storage_cut_free(struct storage_cut *cut);

/* Begins a cut; none runs. whole: read every part, as storage_save_whole()
 * asks, not only those that changed since they were read. */
void storage_cut_begin(struct storage_cut *cut, bool whole);

/*
 * One step of the running cut; reads about STORAGE_PIECE_BYTES at most. PART:
 * *part is the caller's, who frees its bytes or hands them to the disk. WALKED:
 * there is nothing to read until something changes or storage_cut_end() is
 * called. DONE: everything was pulled. FAILED: the cut is cancelled.
 */
enum storage_step storage_cut_next(struct storage_cut *cut,
                                   struct storage_part *part) MUST_CHECK;

/*
 * Ends the reading: the snapshot has the state of this moment. Call it after
 * WALKED, in the turn in which the facts are gathered. about: this fills in
 * blocks, ledger_blocks and streams. Facts are copied. Without a mirror both
 * may be NULL. If another cut has the ledger, each stream's ledger_blocks are
 * taken from the facts.
 */
void storage_cut_end(struct storage_cut *cut, const struct storage_facts *facts,
                     struct storage_about *about);

/* True from begin until done or cancel, or a FAILED step. */
bool storage_cut_runs(const struct storage_cut *cut);

/* Ends the cut, after DONE: the disk has committed it, or has not, and then
 * the next cut reads all parts. */
void storage_cut_done(struct storage_cut *cut, bool committed);

/* Gives the cut up; the next one reads all parts. Fine when none runs. */
void storage_cut_cancel(struct storage_cut *cut);

/* How many parts have changed since they were last read; *parts: the count of
 * all parts. */
uint32_t storage_cut_changed(const struct storage_cut *cut, uint32_t *parts);

#endif
