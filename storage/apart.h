/*
 * Verifying a file in a child process: LMDB has no checksums of its own, and a
 * damaged file may kill whoever reads it (SIGSEGV, SIGBUS, an assertion). If
 * the child dies or hangs, the file is corrupt.
 *
 * Role: shell. Owns: nothing. Thread: one; others should not be running yet.
 */
#ifndef STORAGE_APART_H
#define STORAGE_APART_H

#include "storage/load.h"

/* As storage_verify(). timeout_s: until the child is killed. Where no child
 * can be had, the outcome is STORAGE_E_IO and nothing was read. */
void storage_verify_apart(struct storage_io *io, const char *name,
                          const char *cluster, unsigned timeout_s,
                          struct storage_report *report);

/* The same for the root alone. */
void storage_look_apart(struct storage_io *io, const char *name,
                        const char *cluster, unsigned timeout_s,
                        struct storage_report *report);

#endif
