/*
 * Where to look for other nodes, as text: places separated by blanks, each as
 * discover_parse() reads it.
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

/* Adds the places in text (one or more) to joins; duplicates are skipped. NULL,
 * or what was expected, and joins is unchanged. */
const char *config_joins_add(struct config_joins *joins, struct slice text)
    MUST_CHECK;

/* What was expected instead of text; for an empty text, the forms of places.
 * Static text. */
const char *config_joins_want(struct slice text);

/* Appends the places, so that config_joins_add() reads them back. */
void config_joins_print(const struct config_joins *joins, struct buf *out);

#endif
