/*
 * Cutting a snapshot out of an index that goes on changing.
 *
 * Readers and writers go on while ten million blocks are read, and yet what is
 * written is exactly the state of one moment, the end. Three ways were weighed:
 * - all in one turn of the control loop: too long with many blocks;
 * - copying what is about to change before it does (the state of the
 *   beginning): each event may copy a whole part of up to a megabyte, and as
 *   keys are hashes a second of events touches all parts, faster than disks
 *   write;
 * - (this) parts one by one, and beside them a journal of all that changes from
 *   before the first until after the last (watch.h). It grows with the changes,
 *   8 bytes for a block, and goes to disk in chunks as it does. What is in the
 *   snapshot needs nobody else (no peer's log, no engine) to be whole.
 * A large part is read in pieces, so that no turn is long; changes between two
 * pieces are treated like all others. The version vector is that of the end,
 * too. A snapshot is followed by one of the parts that
 * changed since alone, until one fails: then all parts count as changed.
 *
 * Belief is not exact and is written as it is found, page by page.
 *
 * Restoring compares what came out with the number of blocks and the digest
 * that each stream had at the end: a state that never was is refused.
 *
 * Grammar: begin; next until WALKED, over as many turns as is wanted; end, in
 * one turn with the facts as they are then; next until DONE; done, when the
 * disk said how it went. Or cancel in between.
 *
 * Role: core. Owns: journals, flags of what changed. Thread: the index's
 * writer. Limits: STORAGE_JOURNAL_BYTES_MAX of one journal; beyond, the cut
 * fails and may be tried again.
 */
#ifndef STORAGE_CUT_H
#define STORAGE_CUT_H

#include "storage/record.h"
#include "storage/save.h"

#define STORAGE_JOURNAL_BYTES_MAX ((uint64_t)512 << 20)
#define STORAGE_PIECE_BYTES       ((size_t)64 << 10) /* about */

struct storage_cut;

/*
 * What is cut. The mirror and the ledger may each have a thread of its own, and
 * then a cut of its own, with NULL for the other. Facts and other records go
 * with the mirror. The ledger's cut ends first. The mirror's ends when all that
 * the ledger had told by then is applied to the mirror. A start goes on from
 * the ledger's position: it repeats what the mirror has already, which is
 * harmless, and leaves nothing out.
 */
struct storage_source {
    struct mirror *mirror;
    struct ledger *ledger;
    const struct radix *radix; /* belief; with the mirror, or NULL */
    uint32_t piece_lines; /* of the mirror, that one call reads; 0: as many as
                             take a tenth of a millisecond */
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
    STORAGE_STEP_MORE,   /* of a part a piece of STORAGE_PIECE_BYTES was read */
    STORAGE_STEP_WALKED, /* storage_cut_end() is next */
    STORAGE_STEP_DONE,   /* to be committed */
    STORAGE_STEP_FAILED, /* no memory, or the journal grew too long: the cut is
                            over (cancelled) */
};

/* What is true in the turn of the end. */
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
};

/* A cut at rest. It watches the index from now on (mirror_watch(),
 * ledger_watch()); what source names outlives it. NULL: no memory. */
struct storage_cut *storage_cut_new(const struct storage_source *source);

/* Stops watching and frees the cut, in any phase. NULL is fine. */
void storage_cut_free(struct storage_cut *cut);

/* Begins a cut; none runs. whole: read every part, as storage_save_whole()
 * asks, not only those that changed since they were read. */
void storage_cut_begin(struct storage_cut *cut, bool whole);

/*
 * One step of the cut that runs. PART: *part is the caller's, who frees its
 * bytes or hands them to the disk. WALKED: nothing is left to be read, until
 * something changes or storage_cut_end() is called. DONE: all is pulled.
 * FAILED: the cut is cancelled. Reads STORAGE_PIECE_BYTES at most, about.
 */
enum storage_step storage_cut_next(struct storage_cut *cut,
                                   struct storage_part *part) MUST_CHECK;

/*
 * The moment whose state the snapshot has, after WALKED and in one turn with
 * the facts. about: blocks, ledger_blocks and streams are filled in. Facts are
 * copied. Without a mirror both may be NULL. Where the ledger is another
 * cut's, each stream's ledger_blocks are as the facts have them.
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

/* How many parts changed since they were read last; *parts: of how many. */
uint32_t storage_cut_changed(const struct storage_cut *cut, uint32_t *parts);

#endif
