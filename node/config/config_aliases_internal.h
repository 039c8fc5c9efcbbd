/*
 * Other names of models, as text: NAME=MODEL[*WEIGHT]+MODEL[*WEIGHT]..., and
 * behind that fallback=MODEL+MODEL... after a comma; aliases between blanks, or
 * `none`.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: CONFIG_ALIASES_MAX,
 * CONFIG_ALIAS_TARGETS_MAX. Errors: a static text that says what was expected.
 */
#ifndef NODE_CONFIG_ALIASES_INTERNAL_H
#define NODE_CONFIG_ALIASES_INTERNAL_H

#include "index/base/buf.h"
#include "index/base/check.h"
#include "index/base/slice.h"
#include "node/config/config.h"
#include "node/config/config_walk_internal.h"

/* Adds one alias. NULL, or what was expected, and aliases is unchanged. */
const char *config_aliases_add(struct config_aliases *aliases,
                               struct slice text) MUST_CHECK;

/* Replaces all of them. NULL, or what was expected, and aliases is
 * unchanged. */
const char *config_aliases_read(struct slice text,
                                struct config_aliases *aliases) MUST_CHECK;

/* What was expected instead of text; for an empty text, the forms. Static
 * text. */
const char *config_aliases_want(struct slice text);

/* Appends the aliases, so that config_aliases_read() reads them back. */
void config_aliases_print(const struct config_aliases *aliases,
                          struct buf *out);

/* A fault for each alias that leads to a name which is only an alias. */
void config_aliases_check(const struct config_aliases *aliases,
                          struct config_errors *errors);

/* A list in a file, each item the text of an alias or a mapping of name, to (a
 * model, a list of them, or a mapping to their weights) and fallback (a model or
 * a list): replaces all of them. name: the list's, for faults, which are
 * told. */
void config_aliases_take(const struct config_walk *walk, const char *name,
                         const struct config_yaml_node *list,
                         struct config_aliases *aliases);

#endif
