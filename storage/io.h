/*
 * The port between snapshots and the disk: a directory of files, each a map
 * from keys to bytes that changes by transactions. One file at a time is open,
 * for writing or for reading.
 *
 * There are two implementations: LMDB (lmdb_io.h), and a simulated disk that
 * fails, tears, lies and runs full (sim_disk.h).
 *
 * The port promises: after a commit that returned 0, the whole transaction is
 * on disk, even after a crash. After a commit that failed, or without a commit,
 * all of it or nothing is.
 *
 * Role: a port. Owns: nothing. Thread: one owner. Errors: enum storage_outcome;
 * a disk returns no other numbers.
 */
#ifndef STORAGE_IO_H
#define STORAGE_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/slice.h"

#define STORAGE_NAME_MAX  64U /* of a file, with its NUL */
#define STORAGE_FILES_MAX 64U /* looked at in a directory */

enum storage_outcome {
    STORAGE_OK,
    STORAGE_E_FULL,     /* the disk, or the bound on a snapshot's size */
    STORAGE_E_IO,       /* the disk failed; close what is open */
    STORAGE_E_CORRUPT,  /* the contents are not what was written */
    STORAGE_E_MISSING,  /* no such file, no such key */
    STORAGE_E_BUSY,     /* another process has the directory */
    STORAGE_E_DENIED,   /* no permission */
    STORAGE_E_READONLY, /* a read-only file system */
    STORAGE_E_NOT_DIR,  /* what should be a directory is none */
    STORAGE_E_GONE,     /* the directory was removed while in use */
    STORAGE_E_KEEPER,   /* the process that has the file open (keeper.h) died */
    STORAGE_E_MEMORY,
    STORAGE_E_FOREIGN, /* of another cluster */
    STORAGE_E_VERSION, /* of an unknown format */
    STORAGE_E_EMPTY,   /* a file without a snapshot */
    STORAGE_E_LIMIT,   /* more than this build or configuration can hold */
    STORAGE_OUTCOMES,
};

/* "disk full", "corrupt", ...: static text for logs and operators. */
const char *storage_outcome_name(enum storage_outcome outcome);

struct storage_names {
    char name[STORAGE_FILES_MAX][STORAGE_NAME_MAX];
    uint32_t count;
};

struct storage_io {
    const struct storage_io_ops *ops;
};

struct storage_io_ops {
    /* Snapshot files, those set aside too; in no order. */
    enum storage_outcome (*list)(struct storage_io *io,
                                 struct storage_names *names);
    enum storage_outcome (*rename)(struct storage_io *io, const char *from,
                                   const char *to);
    enum storage_outcome (*remove)(struct storage_io *io, const char *name);
    /* Creates a file, open for writing; replaces a file of this name. */
    enum storage_outcome (*create)(struct storage_io *io, const char *name);
    /* Opens an existing file for reading. */
    enum storage_outcome (*open)(struct storage_io *io, const char *name);
    /* Does nothing when no file is open. */
    void (*close)(struct storage_io *io);
    enum storage_outcome (*begin)(struct storage_io *io);
    enum storage_outcome (*put)(struct storage_io *io, uint64_t key,
                                struct slice bytes);
    enum storage_outcome (*drop)(struct storage_io *io, uint64_t key);
    enum storage_outcome (*commit)(struct storage_io *io);
    void (*abort)(struct storage_io *io);
    /* Of a file open for reading, or within a transaction. The bytes are good
     * until the next call. */
    enum storage_outcome (*get)(struct storage_io *io, uint64_t key,
                                struct slice *bytes);
    /* The next get() is probably of this key; what the last one gave stays
     * good. NULL: of no use to this disk. */
    void (*expect)(struct storage_io *io, uint64_t key);
    uint64_t (*size)(struct storage_io *io); /* of the open file, in bytes */
    void (*free)(struct storage_io *io);
};

/* Closes what is open and frees the disk. io may be NULL. */
void storage_io_free(struct storage_io *io);

/*
 * A transaction whose first failure sticks: all later calls do nothing, and the
 * commit returns the failure.
 */
struct storage_txn {
    struct storage_io *io;
    enum storage_outcome failed;
    bool open;
    uint64_t bytes; /* put since it began */
};

/* Begins a transaction on the file that is open for writing. A failure to
 * begin sticks like any other. io outlives it. */
void storage_txn_begin(struct storage_txn *txn, struct storage_io *io);

/* Writes a value, replacing an existing one. bytes: copied. */
void storage_txn_put(struct storage_txn *txn, uint64_t key, struct slice bytes);

/* Removes a value; a key that is not there is fine. */
void storage_txn_drop(struct storage_txn *txn, uint64_t key);

/* Ends the transaction. 0: all of it is on disk, even after a crash; otherwise
 * the first failure, and the transaction is aborted. */
enum storage_outcome storage_txn_commit(struct storage_txn *txn) MUST_CHECK;

/* Drops the transaction; does nothing if none is open. */
void storage_txn_abort(struct storage_txn *txn);

#endif
