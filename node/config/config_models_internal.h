/*
 * Models' own files, as text: NAME=PATH, and behind that template=FILE and
 * content=auto|string|parts, each after a comma; models between blanks, or
 * `none`.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: CONFIG_MODELS_MAX.
 * Errors: a static text that says what was expected.
 */
#ifndef NODE_CONFIG_MODELS_INTERNAL_H
#define NODE_CONFIG_MODELS_INTERNAL_H

#include "index/base/buf.h"
#include "index/base/check.h"
#include "index/base/slice.h"
#include "node/config/config.h"
#include "node/config/config_walk_internal.h"

/* Adds one model. NULL, or what was expected, and models is unchanged. */
const char *config_models_add(struct config_models *models, struct slice text)
    MUST_CHECK;

/* Replaces all of them. NULL, or what was expected, and models is unchanged. */
const char *config_models_read(struct slice text, struct config_models *models)
    MUST_CHECK;

/* What was expected instead of text; for an empty text, the forms. Static
 * text. */
const char *config_models_want(struct slice text);

/* Appends the models, so that config_models_read() reads them back. */
void config_models_print(const struct config_models *models, struct buf *out);

/* A list in a file, each item the text of a model or a mapping of name, path,
 * template and content: replaces all of them. name: the list's, for faults, which
 * are told. */
void config_models_take(const struct config_walk *walk, const char *name,
                        const struct config_yaml_node *list,
                        struct config_models *models);

#endif
