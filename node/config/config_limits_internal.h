/*
 * Limits of single models, as text: NAME=KIND:LIMIT, with one, two or three
 * kinds between commas; models between blanks, or `none`.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: CONFIG_MODELS_MAX.
 * Errors: a static text that says what was expected.
 */
#ifndef NODE_CONFIG_LIMITS_INTERNAL_H
#define NODE_CONFIG_LIMITS_INTERNAL_H

#include "index/base/buf.h"
#include "index/base/check.h"
#include "index/base/slice.h"
#include "node/config/config.h"

/* Replaces all of them. NULL, or what was expected, and limits is unchanged. */
const char *config_limits_read(struct slice text,
                               struct config_model_limits *limits) MUST_CHECK;

/* What was expected instead of text; for an empty text, the forms. Static
 * text. */
const char *config_limits_want(struct slice text);

/* Appends them, so that config_limits_read() reads them back. */
void config_limits_print(const struct config_model_limits *limits,
                         struct buf *out);

#endif
