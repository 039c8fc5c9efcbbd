/*
 * A file that a command line names, whole.
 *
 * Role: shell. Owns: nothing. Thread: any. Limits: the buffer's. Errors:
 * -errno.
 */
#ifndef CHAOS_WHOLE_FILE_H
#define CHAOS_WHOLE_FILE_H

#include "index/base/buf.h"
#include "index/base/check.h"

/* Appends what is in the file, or comes on stdin if path is "-". 0; -ENOMEM,
 * also if it is longer than the buffer may be; -errno. */
int whole_file_read(const char *path, struct buf *out) MUST_CHECK;

#endif
