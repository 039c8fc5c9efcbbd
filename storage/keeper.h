/*
 * The keeper: a process that has the snapshot file open, so that what happens
 * to the file ends that process and not the node.
 *
 * LMDB reads its file, and the lock file beside it, through a map. Whoever cuts
 * one of them off while it is open (a hand that cleans up, a disk that is being
 * replaced, a file system in trouble) kills whoever touches the map, and a file
 * that was cut off and grew again has pages of zeros, on which LMDB does
 * anything at all. A handler of SIGBUS would cover the first half, and would
 * leave LMDB's locks and memory as they were at that moment. A process covers
 * both.
 *
 * So nothing of LMDB is left in the node's process but the lock on the
 * directory and the names in it, which belong to the other disk behind this one
 * (`local`). The rest of the port is asked for over a socket, one question at a
 * time. A keeper that dies is STORAGE_E_KEEPER for the question that it died
 * of, and for all others until the file is closed; the next file that is made
 * or opened gets a new one.
 *
 * A keeper is this program again, executed as `PROGRAM --keep-snapshots ...`:
 * a fork of a process with threads could not do it. It ends when its socket is
 * closed, also by the node's death, and no signal meant for the node stops it.
 *
 * Role: shell. Owns: the local disk, a process. Thread: one owner. Limits: one
 * value at a time, of bytes_max. Errors: named outcomes.
 */
#ifndef STORAGE_KEEPER_H
#define STORAGE_KEEPER_H

#include "storage/io.h"

#define STORAGE_KEEPER_COMMAND "--keep-snapshots"

/* local: of lmdb_io.h on the same directory, with its lock; the new disk's from
 * now on, and freed where there was no memory for one. dir: copied. 0 and *out,
 * or STORAGE_E_MEMORY. */
enum storage_outcome storage_keeper_new(struct storage_io **out,
                                        struct storage_io *local,
                                        const char *dir, uint64_t bytes_max)
    MUST_CHECK;

/* The keeper's main(): of the arguments behind STORAGE_KEEPER_COMMAND, its end
 * of the socket being the standard input. The exit code. */
int storage_keeper_main(char *const *argv);

#endif
