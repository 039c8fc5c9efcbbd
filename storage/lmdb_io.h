/*
 * LMDB behind the port of io.h. No other file calls LMDB.
 *
 * This file does what LMDB leaves to its users:
 * - LMDB's pages have no checksums, and a damaged file may kill the process
 *   that maps it. So a child process reads a file first that this process did
 *   not write (apart.h), and nobody writes to such a file. While a node serves,
 *   another process has the file open (keeper.h).
 * - If a file became shorter since its last commit, that is a failure.
 * - The map is reserved once, at its largest size. That costs addresses, not
 *   memory.
 * - LMDB reports a short write as EIO. Most often the disk is full: then the
 *   outcome is STORAGE_E_FULL.
 * - A file that was removed, alone or with its directory, still accepts all
 *   writes, and they are lost. Here that is a failure, and the next file is
 *   made where the directory should be.
 * - Two processes must not write into one directory. So the process holds a
 *   lock on a file in it as long as it lives.
 *
 * Commits are synchronous, the default of LMDB: data first, then the page that
 * points to it. A power failure costs what was not committed, never what was.
 * We measured the cheaper modes and use neither: MDB_NOMETASYNC saves less than
 * a millisecond of each commit, and a snapshot has few commits; MDB_NOSYNC
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
    STORAGE_KEEP,   /* the process that has the lock asks this one to write */
    STORAGE_INSPECT /* takes no lock: another process may be writing */
};

/*
 * dir is copied; bytes_max bounds one file. 0 and *out; or STORAGE_E_BUSY,
 * _DENIED, _READONLY, _NOT_DIR, _MISSING (there is no directory to inspect, or
 * none to make it in), _FULL, _IO, _MEMORY.
 */
enum storage_outcome storage_lmdb_new(struct storage_io **out, const char *dir,
                                      enum storage_access access,
                                      uint64_t bytes_max) MUST_CHECK;

/* For a disk that has the lock. If the directory was removed or replaced, takes
 * the one that is there now, as a start would. Returns as above. */
enum storage_outcome storage_lmdb_renew(struct storage_io *io) MUST_CHECK;

#endif
