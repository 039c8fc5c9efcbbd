/*
 * Snapshots of one process's life, written into one file of its own.
 *
 * A snapshot is begun, gets the parts that changed, and is committed with its
 * root. Parts go in by transactions of txn_bytes each, under keys no root knows
 * yet; the last transaction writes the root and drops what it no longer names.
 * So memory and time of a transaction are bounded, and whatever happens in
 * between, the snapshot before stands as it was.
 *
 * The file of a life before this one is not written to: if a crash damaged its
 * list of free pages, nobody would notice. Older ones go once this life's first
 * snapshot is committed.
 *
 * Failing. When the disk is full, the file and its last snapshot stay, and what
 * was written of the new one is dropped with the next. After any other failure
 * the file is left alone and the next snapshot goes into another one. Either
 * way the caller gives all parts again (storage_save_whole()).
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

struct storage_limits storage_limits_default(void);

/* What the root says beside the parts. Texts are copied. */
struct storage_about {
    const char *cluster;
    const char *node;
    uint64_t taken_ms;
    uint64_t blocks;
    uint64_t ledger_blocks;
    uint32_t streams;
};

struct storage_save;

/* generation: above that of every file there is. io outlives it. NULL: no
 * memory. */
struct storage_save *storage_save_new(struct storage_io *io,
                                      const struct storage_limits *limits,
                                      uint64_t generation);

/* Closes the file. NULL is fine. */
void storage_save_free(struct storage_save *save);

/* Whether the next snapshot is to be given all parts. */
bool storage_save_whole(const struct storage_save *save);

/* A failure sticks until commit or abort, one of which ends every snapshot.
 * Parts of the mirror and the ledger stay as they were if they are not given
 * again, those of other kinds do not. */
void storage_save_begin(struct storage_save *save);

/* A part as it is now; number: below STORAGE_ROWS_MAX. */
void storage_save_part(struct storage_save *save, enum storage_kind kind,
                       uint32_t number, struct slice bytes);

enum storage_outcome storage_save_commit(struct storage_save *save,
                                         const struct storage_about *about)
    MUST_CHECK;
void storage_save_abort(struct storage_save *save);

struct storage_saved {
    uint64_t generation;
    uint64_t number;    /* of the last one that was committed; 0: none */
    uint64_t written;   /* bytes of parts, in the last one */
    uint64_t size;      /* bytes of all its parts */
    uint64_t file_size; /* bytes */
    uint32_t parts;
    uint32_t parts_written;
};

void storage_save_stats(struct storage_save *save, struct storage_saved *out);

/* "kvasir-<generation in hex>.mdb". */
void storage_file_name(uint64_t generation, char name[STORAGE_NAME_MAX]);

/* False: not such a name. */
bool storage_file_generation(const char *name, uint64_t *generation);

#endif
