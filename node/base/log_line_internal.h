/*
 * Formats one log line into the caller's memory, as logfmt or as JSON.
 *
 * Nobody can forge a line or a field: in logfmt a value that is not plain
 * printable ASCII is quoted, with \" \\ \n \r \t and \xHH inside (so no
 * terminal sequence survives either); in JSON it is a JSON string. A value
 * whose escaped form exceeds LOG_VALUE_MAX is shortened to end in "..."; fields
 * that do not fit the line any more are left out and counted: omitted=N.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: LOG_LINE_MAX,
 * LOG_VALUE_MAX. Errors: none.
 */
#ifndef NODE_LOG_LINE_INTERNAL_H
#define NODE_LOG_LINE_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "node/base/log.h"

struct log_line {
    enum log_format format;
    enum log_level level;
    uint64_t wall_us; /* since 1970, UTC */
    uint64_t dropped; /* lines of this site held back before this one */
    uint64_t lost;    /* lines of any site that could not be written */
    const struct log_field *fields; /* [0] is the event */
    size_t count;
};

/* Writes the line with its newline to out; its length, LOG_LINE_MAX at most. */
size_t log_line_format(const struct log_line *line, char out[LOG_LINE_MAX]);

#endif
