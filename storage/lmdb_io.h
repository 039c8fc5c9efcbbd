/*
 * LMDB behind the port of io.h: the one place that knows it.
 *
 * LMDB leaves this to its users, and it is done here:
 * - Its pages have no checksums, and a damaged file may kill the process that
 *   maps it. So a file that this process did not write is read by a child first
 *   (apart.h), and never written to; and while a node serves, another process
 *   has the file open (keeper.h).
 * - A file that became shorter since its last commit is a failure.
 * - The map is reserved once at its largest; that costs addresses, not memory.
 * - LMDB reports a short write as EIO. Most often the disk is full: then the
 *   outcome is STORAGE_E_FULL.
 * - A file that was removed, alone or with its directory, accepts all writes
 *   and is never seen again. That is a failure here, and the next file is made
 *   where the directory should be.
 * - Two processes must not write into one directory: a lock on a file in it is
 *   held as long as the process lives.
 *
 * Commits are synchronous, the default of LMDB: data first, then the page that
 * points to it. A power failure costs what was not committed, never what was.
 * The cheaper modes were measured and turned down: MDB_NOMETASYNC saves under
 * a millisecond of each commit and a snapshot has few of them; MDB_NOSYNC
 * needs a file system that keeps writes in order, or a power failure loses the
 * file.
 *
 * Role: shell. Owns: the lock, one environment. Thread: one owner; another
 * process may read along. Limits: bytes_max.
 */
#ifndef STORAGE_LMDB_IO_H
#define STORAGE_LMDB_IO_H

#include "storage/io.h"

enum storage_access {
    STORAGE_WRITE,  /* takes the lock; makes the directory if need be */
    STORAGE_KEEP,   /* its owner has the lock, and asks this process to write */
    STORAGE_INSPECT /* without it: another process may be writing */
};

/*
 * dir: copied. bytes_max: of one file. 0 and *out; STORAGE_E_BUSY, _DENIED,
 * _READONLY, _NOT_DIR, _MISSING (nothing there to inspect, or to make it in),
 * _FULL, _IO, _MEMORY.
 */
enum storage_outcome storage_lmdb_new(struct storage_io **out, const char *dir,
                                      enum storage_access access,
                                      uint64_t bytes_max) MUST_CHECK;

/* Of a disk with the lock: where the directory was removed or replaced, what is
 * there now is taken, as a start would. 0, or as above. */
enum storage_outcome storage_lmdb_renew(struct storage_io *io) MUST_CHECK;

#endif
