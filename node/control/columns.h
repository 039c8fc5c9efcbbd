/*
 * What the last elections compared, for /admin/decisions/ID.
 *
 * Workers' ids are copied as an election is noted: slots are used again. An
 * election is found by its number, among all that are kept.
 *
 * Role: core. Owns: its entries. Thread: the control thread. Limits: bytes_max,
 * all told; the oldest give way, and one that is larger than that is not kept.
 * Errors: one for which there is no memory is not kept; counted.
 */
#ifndef NODE_COLUMNS_H
#define NODE_COLUMNS_H

#include <stddef.h>
#include <stdint.h>

#include "node/view/facts.h"
#include "node/view/fleet_view.h"

struct columns_of {
    struct columns_of *next; /* newer */
    size_t bytes;
    uint64_t number;
    uint32_t count;
    struct fact_column
        column[]; /* then their workers' ids, each with its end */
};

/* All zero is one that keeps nothing. */
struct columns {
    struct columns_of *oldest;
    struct columns_of *newest;
    size_t bytes;
    size_t bytes_max;
    uint64_t dropped; /* did not fit, or found no memory */
};

/* Keeps as much as fits into so many bytes; 0: nothing. */
void columns_init(struct columns *columns, size_t bytes_max);

/* Frees the entries, not *columns. */
void columns_fini(struct columns *columns);

/* Copies what an election compared; the view says whose slots they were. */
void columns_add(struct columns *columns, const struct fact_columns *fact,
                 const struct fleet_view *view);

/* Borrowed until the next columns_add(); NULL: of that number none are kept. */
const struct columns_of *columns_find(const struct columns *columns,
                                      uint64_t number);

/* The id of the worker in that row, below count; "" of one that was gone. */
const char *columns_worker(const struct columns_of *of, uint32_t at);

#endif
