/*
 * Filling an index from a snapshot.
 *
 * Role: core. Owns: nothing. Thread: the index's writer. Errors: named
 * outcomes.
 */
#ifndef STORAGE_RESTORE_H
#define STORAGE_RESTORE_H

#include "storage/record.h"

/*
 * The streams of a snapshot, count of them, and behind them in the same memory
 * what their slices point at; *out is the caller's to free. 0,
 * STORAGE_E_CORRUPT, _MEMORY.
 */
enum storage_outcome storage_restore_streams(const struct storage_load *load,
                                             struct storage_stream **out,
                                             uint32_t *count) MUST_CHECK;

/* The part with workers (STORAGE_ROSTER) or members, to be read with
 * storage_records() and borrowed until the file is asked for more; an empty one
 * where there is none. 0, STORAGE_E_CORRUPT or the disk's. */
enum storage_outcome storage_restore_part(const struct storage_load *load,
                                          enum storage_kind kind,
                                          struct slice *bytes) MUST_CHECK;

/*
 * Opens the slots of these streams, which must be free, and fills them; streams
 * that are not listed are skipped. ledger: empty. One of mirror and ledger may
 * be NULL and is then not filled; they share nothing, so two threads can fill
 * one each. 0: each stream holds what it held. Otherwise STORAGE_E_CORRUPT,
 * _LIMIT (the index's bound, or a slot is taken) or _MEMORY: the mirror's slots
 * are closed again, and the caller must free the ledger.
 */
enum storage_outcome storage_restore_index(const struct storage_load *load,
                                           struct mirror *mirror,
                                           struct ledger *ledger,
                                           const struct storage_stream *streams,
                                           uint32_t count) MUST_CHECK;

/*
 * The two halves of filling a ledger: its parts, and then what takes no disk
 * and as long again, names and links. The outcomes are those of
 * storage_restore_index().
 */
enum storage_outcome
storage_restore_ledger(const struct storage_load *load, struct ledger *ledger,
                       const struct storage_stream *streams, uint32_t count)
    MUST_CHECK;
enum storage_outcome
storage_restore_ledger_end(struct ledger *ledger,
                           const struct storage_stream *streams, uint32_t count)
    MUST_CHECK;

/*
 * Fills the tables of names, one for each of the streams, which are empty: of a
 * stream that is `named` with its names as of pos, if their count and digest are
 * as they were. Otherwise the table stays empty, and *refused counts it. A table
 * that has no names is empty, too. Without room, a table is refused. 0, or
 * STORAGE_E_CORRUPT, _MEMORY: all tables are empty.
 */
enum storage_outcome storage_restore_names(const struct storage_load *load,
                                           const struct storage_stream *streams,
                                           uint32_t count,
                                           struct names_copied *tables,
                                           struct names_room *room,
                                           uint32_t *refused) MUST_CHECK;

/*
 * Fills belief from the snapshot. slot_of: the slot of belief that the worker
 * of this identity has now, or WORKER_NONE. 0, STORAGE_E_CORRUPT or _MEMORY:
 * some of it may have been added.
 */
enum storage_outcome
storage_restore_belief(const struct storage_load *load, struct radix *radix,
                       uint32_t (*slot_of)(void *context, uint64_t identity),
                       void *context, uint64_t now_us) MUST_CHECK;

#endif
