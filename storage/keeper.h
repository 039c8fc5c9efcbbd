/*
 * The keeper: a process that has the snapshot file open in place of the node.
 * Damage to the file may end the keeper, but not the node.
 *
 * LMDB maps its file, and the lock file beside it, into memory. If one of them
 * is truncated while it is open (by somebody who cleans up, by a disk that is
 * being replaced, by a faulty file system), the process that touches the map is
 * killed. If the file then grows again, it has pages of zeros, and LMDB's
 * behaviour on them is undefined. A handler of SIGBUS would help against the
 * first only, and would leave LMDB's locks and memory as they were at that
 * moment. A separate process helps against both.
 *
 * So the node's own process does not use LMDB. It holds the lock on the
 * directory, and lists, renames and removes files, through another disk
 * (`local`). For all other calls of the port it asks the keeper over a socket,
 * one question at a time; for a value that is expected to be wanted next it asks
 * ahead, so that the keeper reads while the node works. If the keeper dies, this
 * question and all others until the file is closed end with STORAGE_E_KEEPER.
 * The next file that is made or opened gets a new keeper.
 *
 * A keeper is this program, executed anew as `PROGRAM --keep-snapshots ...`,
 * because a fork of a process with threads could not do its work. The keeper
 * ends when its socket is closed, which the node's death does, too. It ignores
 * the signals that are meant for the node.
 *
 * Role: shell. Owns: the local disk, a process. Thread: one owner. Limits: one
 * value of at most bytes_max at a time. Errors: named outcomes.
 */
#ifndef STORAGE_KEEPER_H
#define STORAGE_KEEPER_H

#include "storage/io.h"

#define STORAGE_KEEPER_COMMAND "--keep-snapshots"

/* local: a disk of lmdb_io.h on the same directory, with the lock. The new disk
 * owns it from now on; if there is no memory for one, it is freed. dir is
 * copied. 0 and *out, or STORAGE_E_MEMORY. */
enum storage_outcome storage_keeper_new(struct storage_io **out,
                                        struct storage_io *local,
                                        const char *dir, uint64_t bytes_max)
    MUST_CHECK;

/* The keeper's main(). argv: the arguments after STORAGE_KEEPER_COMMAND. Its
 * standard input is its end of the socket. Returns the exit code. */
int storage_keeper_main(char *const *argv);

#endif
