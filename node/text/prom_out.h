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

/* The same, of a value in thousandths or millionths: `per` of them are 1. */
void prom_out_single_of(struct buf *out, const char *name, const char *type,
                        const char *help, uint64_t value, uint64_t per);

/* A value, as above, and the end of its line. per: 1, 1000 or 1000000. */
void prom_out_value(struct buf *out, uint64_t value, uint64_t per);

/* A label's value: backslash, quote and newline are escaped. */
void prom_out_label(struct buf *out, const char *text);

#endif
