/*
 * Writes the snapshots of one process's life, into a file of their own.
 *
 * A snapshot is begun, receives the parts that have changed, and is committed
 * with its root. Parts are written in transactions of txn_bytes each, under
 * keys that no root names yet. The last transaction writes the root and drops
 * the keys that it no longer names. So the memory and time of a transaction are
 * bounded, and until the last commit the previous snapshot stays as it was.
 *
 * A file of an earlier life is never written to: if a crash had damaged its
 * list of free pages, nobody would notice. Earlier files are removed once this
 * life's first snapshot is committed.
 *
 * Failures. When the disk is full, the file and its last snapshot stay, and the
 * next snapshot drops what was written of the failed one. After any other
 * failure the file is left alone, or removed if it has no snapshot yet, and the
 * next snapshot goes into a new file. In both cases the caller must give all
 * parts again (storage_save_whole()).
 *
 * Role: core over storage_io. Owns: the file it writes. Thread: one owner.
 * Limits: struct storage_limits. Errors: named outcomes.
 */
#ifndef STORAGE_SAVE_H
#define STORAGE_SAVE_H

#include "storage/root.h"

struct storage_limits {
    uint64_t bytes_max;   /* of a file; 4 GiB and more cost nothing */
    uint64_t txn_bytes;   /* of one transaction, exceeded by a part at most */
    uint64_t queue_bytes; /* of parts that wait for the disk */
    uint32_t aside_max;   /* damaged files that are kept */
};

/* The limits of a node whose configuration does not set them. */
struct storage_limits storage_limits_default(void);

/* Contents of the root beside the parts. Texts are copied. */
struct storage_about {
    const char *cluster;
    const char *node;
    uint64_t taken_ms;
    uint64_t blocks;
    uint64_t ledger_blocks;
    uint32_t streams;
};

struct storage_save;

/* A save that has written nothing yet. generation: above that of every file
 * there is. io outlives it; limits are copied. NULL: no memory. */
struct storage_save *storage_save_new(struct storage_io *io,
                                      const struct storage_limits *limits,
                                      uint64_t generation);

/* Closes the file; what was not committed is lost. save may be NULL. */
void storage_save_free(struct storage_save *save);

/* True when the next snapshot needs all parts: the first one of a file, and the
 * one after a failure. */
bool storage_save_whole(const struct storage_save *save);

/*
 * Begins a snapshot, in a new file if none is open. A failure sticks until
 * commit or abort, one of which ends every snapshot. Parts of the mirror and
 * the ledger that are not given again stay as they were; parts of other kinds
 * do not.
 */
void storage_save_begin(struct storage_save *save);

/* Writes a part, once per snapshot. number: below STORAGE_ROWS_MAX. bytes:
 * borrowed for the call. */
void storage_save_part(struct storage_save *save, enum storage_kind kind,
                       uint32_t number, struct slice bytes);

/* Commits the snapshot with its root. 0: it is on disk, even after a crash.
 * Otherwise its first failure: the previous snapshot stays, and the next one
 * needs all parts. */
enum storage_outcome storage_save_commit(struct storage_save *save,
                                         const struct storage_about *about)
    MUST_CHECK;

/* Gives the snapshot up. */
void storage_save_abort(struct storage_save *save);

struct storage_saved {
    uint64_t generation;
    uint64_t number;    /* of the last committed snapshot; 0: none */
    uint64_t written;   /* bytes of parts, in the last one */
    uint64_t size;      /* bytes of all its parts */
    uint64_t file_size; /* bytes */
    uint32_t parts;
    uint32_t parts_written;
};

/* Describes the last committed snapshot. */
void storage_save_stats(struct storage_save *save, struct storage_saved *out);

/* The name of a file: "kvasir-<generation in hex>.mdb". */
void storage_file_name(uint64_t generation, char name[STORAGE_NAME_MAX]);

/* The generation in such a name. False: the name is of another form. */
bool storage_file_generation(const char *name, uint64_t *generation);

#define STORAGE_ASIDE ".aside" /* behind the name of a file set aside */

/* The same of a file that was set aside. */
bool storage_aside_generation(const char *name, uint64_t *generation);

#endif
