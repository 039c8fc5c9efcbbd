/*
 * Verifies a file in a child process: LMDB has no checksums of its own, and a
 * damaged file may kill the process that reads it (SIGSEGV, SIGBUS, an
 * assertion). If the child dies of it, the file is corrupt.
 *
 * Role: shell. Owns: nothing. Thread: one; others should not be running yet,
 * because the child of a fork() has only the thread that called it. Limits:
 * timeout_s. Errors: in the report.
 */
#ifndef STORAGE_APART_H
#define STORAGE_APART_H

#include "storage/load.h"

/*
 * storage_verify() in a child, which is killed after timeout_s (1 or more)
 * seconds. A child that dies means STORAGE_E_CORRUPT. Without a child, or where
 * it took too long or was killed from outside (SIGKILL: there was no memory), the
 * outcome is STORAGE_E_IO.
 */
void storage_verify_apart(struct storage_io *io, const char *name,
                          const char *cluster, unsigned timeout_s,
                          struct storage_report *report);

/* The same for the root alone; the report says what the file claims to
 * contain. */
void storage_look_apart(struct storage_io *io, const char *name,
                        const char *cluster, unsigned timeout_s,
                        struct storage_report *report);

#endif
