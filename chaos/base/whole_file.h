/*
 * A file that a command line names, read or written whole.
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

/* Writes what is in the buffer to the file, or to stdout if path is "-". 0;
 * -ENOMEM: the buffer has failed; -errno. */
int whole_file_write(const char *path, const struct buf *bytes) MUST_CHECK;

#endif
