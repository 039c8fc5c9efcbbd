/*
 * Writes Prometheus text exposition.
 *
 * Role: core. Owns: nothing. Thread: any. Errors: the buffer's own.
 */
#ifndef NODE_PROM_OUT_H
#define NODE_PROM_OUT_H

#include <stddef.h>
#include <stdint.h>

#include "index/base/buf.h"

/* A line of a table of counters, each a uint64_t of one struct: a number alone
 * (PROM_ONE), or the head of a family (PROM_FAMILY) with its values below
 * (PROM_OF), told apart by a label. */
struct prom_row {
    const char *name; /* between the table's prefix and _total; NULL: a value */
    const char *label; /* of a family */
    const char *value; /* of the label */
    const char *help;  /* of a family what its values have in common; of a value
                          what it means */
    size_t offset;     /* but of a family's head */
};

#define PROM_ONE(name, offset, help)   \
    {                                  \
        name, NULL, NULL, help, offset \
    }
#define PROM_FAMILY(name, label, help) \
    {                                  \
        name, label, NULL, help, 0     \
    }
#define PROM_OF(value, offset, meaning)    \
    {                                      \
        NULL, NULL, value, meaning, offset \
    }

/* All of a table: PREFIX_NAME_total each. A family's HELP names its values. */
void prom_out_rows(struct buf *out, const char *prefix,
                   const struct prom_row *rows, size_t count,
                   const void *numbers);

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

/* A label's value: backslash, quote and newline are escaped. A byte that is no
 * UTF-8, as of a name that was shortened, is a question mark: a page with one is
 * refused whole. At most twice as long as the text. */
void prom_out_label(struct buf *out, const char *text);

#endif
