/*
 * A disk in memory behind the port of io.h, for tests and simulations: it fails
 * at the operation it is told to, runs full, loses power, and lies about what
 * it has written. The same seed and calls, the same disk.
 *
 * Role: core. Owns: its files. Thread: one owner. Limits: STORAGE_FILES_MAX.
 */
#ifndef STORAGE_SIM_DISK_H
#define STORAGE_SIM_DISK_H

#include "storage/io.h"

/* NULL: no memory. Freed by storage_io_free(). */
struct storage_io *sim_disk_new(uint64_t seed);

/* The same files on another disk, as they are now and as nothing was ever lied
 * about them; its faults are its own. NULL: no memory. */
struct storage_io *sim_disk_copy(const struct storage_io *io, uint64_t seed);

/* Operations asked of it so far; reading does not count. */
uint64_t sim_disk_operations(const struct storage_io *io);

/* The nth operation from now on (1: the next one) fails with this outcome; 0:
 * none does. A commit that fails may have happened all the same. */
void sim_disk_fail(struct storage_io *io, uint64_t nth,
                   enum storage_outcome outcome);

/* Bytes that all files together may have; 0: no bound. */
void sim_disk_limit(struct storage_io *io, uint64_t bytes);

/* Commits are said to be written before they are, from now on. */
void sim_disk_lie(struct storage_io *io, bool lies);

/*
 * The process is gone, or with it the power. What is open is closed, and what
 * was not committed is lost. Without power, so are parts of what was lied
 * about: each value is as it was before, as it is now, or torn.
 */
void sim_disk_crash(struct storage_io *io, bool power);

/* Flips a bit of a file's values, or truncates one. False: the file
 * is not there, or empty. */
bool sim_disk_damage(struct storage_io *io, const char *name);

#endif
