/*
 * The order in which one worker's leaves give way: a 4-ary heap of records by
 * a 64-bit value, the least first.
 *
 * Each record knows its place, so that a touch or a removal is O(log n) from
 * there. Four children per parent halve the height of a binary heap and lie
 * side by side. The heap stands on pages of cells, so that growing it never
 * copies it.
 *
 * Role: core. Owns: its pages. Thread: the one writer. Limits: the store.
 * Errors: order_reserve() says when there is no room; nothing else can fail.
 */
#ifndef INDEX_ORDER_INTERNAL_H
#define INDEX_ORDER_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "index/cell_internal.h"

#define ORDER_NOWHERE UINT32_MAX /* the place of a record in no heap */

struct order {
    uint32_t directory; /* cell: references of the pages */
    uint32_t directory_max;
    uint32_t pages;
    uint32_t count; /* entries */
    uint32_t which; /* index of this heap's place in a record */
};

/* An empty heap; which: 0 or 1, the slot of radix_record.place it keeps. */
void order_init(struct order *order, uint32_t which);

/* Gives its pages back. */
void order_fini(struct order *order, struct cell_store *store);

/* Makes room for n more entries. False: no room in the store. */
bool order_reserve(struct order *order, struct cell_store *store, uint32_t n)
    MUST_CHECK;

/* Adds a record; there is room. */
void order_push(struct order *order, struct cell_store *store, uint64_t value,
                uint32_t record);

/* Takes out the entry at place. */
void order_remove(struct order *order, struct cell_store *store,
                  uint32_t place);

/* The record at place; place < count. 0 is the least valued. */
uint32_t order_record(const struct order *order, const struct cell_store *store,
                      uint32_t place);

/* The value at place; place < count. */
uint64_t order_value(const struct order *order, const struct cell_store *store,
                     uint32_t place);

/* The cell of one of its pages; page < pages. */
uint32_t order_page(const struct order *order, const struct cell_store *store,
                    uint32_t page);

/* False when some entry is before its parent, or its record elsewhere. */
bool order_check(const struct order *order, const struct cell_store *store);

#endif
