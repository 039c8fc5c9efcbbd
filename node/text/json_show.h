/*
 * Shows a JSON document to people: what `kvasir status` and `explain` print.
 *
 * Each member of the top-level object becomes a line: a scalar as "key  value",
 * an object as "name=value" with inner names joined by dots, a list of scalars
 * as its values. A list of objects becomes a table with one row for each and
 * one column for each name that has a value somewhere. So new members of newer
 * nodes are shown, too; --json prints everything.
 *
 * No terminal control passes: text stays escaped as in JSON, and C1 controls
 * become "?".
 *
 * Role: core. Owns: nothing. Thread: any. Limits: JSON_SHOW_COLUMNS_MAX
 * columns, JSON_SHOW_CELL_MAX bytes of one cell. Errors: a named outcome.
 */
#ifndef NODE_JSON_SHOW_H
#define NODE_JSON_SHOW_H

#include "index/base/buf.h"
#include "index/base/check.h"
#include "index/base/slice.h"

#define JSON_SHOW_COLUMNS_MAX 32
#define JSON_SHOW_CELL_MAX    64

enum {
    JSON_SHOW_E_BAD = 1, /* not JSON, or not an object */
};

/* Appends the document to out. 0 (look at out->failed, too), or
 * JSON_SHOW_E_BAD and out is unchanged. */
int json_show(struct slice json, struct buf *out) MUST_CHECK;

#endif
