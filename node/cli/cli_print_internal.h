/*
 * Reads a command's arguments and prints its answer to stdout.
 *
 * Role: shell. Owns: nothing. Thread: main. Errors: told on stderr.
 */
#ifndef NODE_CLI_PRINT_INTERNAL_H
#define NODE_CLI_PRINT_INTERNAL_H

#include "index/base/buf.h"
#include "index/base/check.h"
#include "index/base/slice.h"
#include "node/base/flags.h"

/* Fills *options as flags_parse() does. False: the arguments were wrong, which
 * a line on stderr says; the line begins with `command`. */
bool cli_parse(const char *command, const struct flags *flags, void *options,
               char *const *argv) MUST_CHECK;

/* Writes text to stdout and flushes. Returns the exit code: CMD_FINE, or
 * CMD_FAILED when stdout did not take all of it, which a line says; the line
 * begins with `command`. */
int cli_print(const char *command, struct slice text) MUST_CHECK;

/* The same for the contents of a buffer; a failed buffer is not printed. */
int cli_print_buf(const char *command, const struct buf *buf) MUST_CHECK;

#endif
