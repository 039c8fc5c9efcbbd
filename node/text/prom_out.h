/*
 * Writes Prometheus text exposition.
 *
 * Role: core. Owns: nothing. Thread: any. Errors: the buffer's own.
 */
#ifndef NODE_PROM_OUT_H
#define NODE_PROM_OUT_H

#include <stdint.h>

#include "index/base/buf.h"

/* The two comment lines of a family. */
void prom_out_head(struct buf *out, const char *name, const char *type,
                   const char *help);

/* A family of one series without labels. */
void prom_out_single(struct buf *out, const char *name, const char *type,
                     const char *help, uint64_t value);

/* A label's value: backslash, quote and newline are escaped. */
void prom_out_label(struct buf *out, const char *text);

#endif
