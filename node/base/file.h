/*
 * Files and streams, read whole.
 *
 * Role: shell. Owns: nothing. Thread: any; it waits for the disk. Limits: the
 * caller's room. Errors: -errno.
 */
#ifndef NODE_BASE_FILE_H
#define NODE_BASE_FILE_H

#include <stdio.h>
#include <sys/types.h>

#include "index/base/buf.h"

/* Appends all that a stream still gives. 0; -ENOMEM, also if it is longer than
 * the buffer may be; -errno. */
int file_read_all(FILE *from, struct buf *to) MUST_CHECK;

/* Reads a file's first bytes, and leaves no copy of them anywhere else. Returns
 * how many there are, at most size; or -errno. */
ssize_t file_read(const char *path, char *bytes, size_t size) MUST_CHECK;

/* The first word of a file's first room - 1 bytes. "": there is none. */
void file_read_word(const char *path, char *word, size_t room);

#endif
