/*
 * Where to look for other nodes, as text: several places between blanks, each
 * as discover_parse() reads it.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: CONFIG_JOINS_MAX.
 * Errors: a static text that says what was expected.
 */
#ifndef NODE_CONFIG_JOINS_INTERNAL_H
#define NODE_CONFIG_JOINS_INTERNAL_H

#include "index/base/buf.h"
#include "index/base/check.h"
#include "index/base/slice.h"
#include "node/config/config.h"

/* Adds the places in text (one or more of them) to joins; one that is there
 * already is no other place. NULL, or what was expected, and joins is as it
 * was. */
const char *config_joins_add(struct config_joins *joins, struct slice text)
    MUST_CHECK;

/* What is wrong with text; of an empty one: what it should look like. */
const char *config_joins_want(struct slice text);

/* Appends the places, so that config_joins_add() reads them back. */
void config_joins_print(const struct config_joins *joins, struct buf *out);

#endif
