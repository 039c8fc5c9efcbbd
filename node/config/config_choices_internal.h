/*
 * A choice for each of some models, as text: NAME=CHOICE between blanks, or
 * `none`; a * at a name's end is for all that begin so.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: CONFIG_CHOICES_MAX. Errors: a
 * static text that says what was expected.
 */
#ifndef NODE_CONFIG_CHOICES_INTERNAL_H
#define NODE_CONFIG_CHOICES_INTERNAL_H

#include "index/base/buf.h"
#include "index/base/check.h"
#include "index/base/slice.h"
#include "node/config/config.h"

/* Replaces all of them; names: the choices, NULL after the last. NULL, or what
 * was expected, and choices is unchanged. */
const char *config_choices_read(const char *const *names, struct slice text,
                                struct config_choices *choices) MUST_CHECK;

/* What was expected instead of text; for an empty text, the form. Static
 * text. */
const char *config_choices_want(const char *const *names, struct slice text);

/* Appends them, so that config_choices_read() reads them back. */
void config_choices_print(const char *const *names,
                          const struct config_choices *choices,
                          struct buf *out);

#endif
