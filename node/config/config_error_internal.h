/*
 * Adds a line to the faults of a configuration.
 *
 * Role: core. Owns: nothing. Thread: one owner. Limits: CONFIG_ERRORS_MAX
 * lines; the rest is counted. Errors: none.
 */
#ifndef NODE_CONFIG_ERROR_INTERNAL_H
#define NODE_CONFIG_ERROR_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "node/config/config.h"

/* Where a value was written. */
struct config_place {
    const char *source; /* a file, KVASIR_NAME or --name; borrowed */
    uint32_t line;      /* from 1; 0: the source has no lines */
    uint32_t column;    /* from 1 */
};

/* Adds "source:line:column: message"; without line and column where the place has
 * no line. Arguments are borrowed for the call. */
__attribute__((format(printf, 3, 4))) void
config_error(struct config_errors *errors, const struct config_place *place,
             const char *format, ...);

/* The same for a source that has no lines, or of which no line is meant. */
__attribute__((format(printf, 3, 4))) void
config_fault(struct config_errors *errors, const char *source,
             const char *format, ...);

/* True while further lines are still printed, not only counted. */
bool config_errors_open(const struct config_errors *errors);

#endif
