/*
 * SLOs of single models, as text: NAME=TTFT/ITL, both of them durations; models
 * between blanks, or `none`.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: CONFIG_MODELS_MAX.
 * Errors: a static text that says what was expected.
 */
#ifndef NODE_CONFIG_SLOS_INTERNAL_H
#define NODE_CONFIG_SLOS_INTERNAL_H

#include "index/base/buf.h"
#include "index/base/check.h"
#include "index/base/slice.h"
#include "node/config/config.h"

/* Replaces all of them. NULL, or what was expected, and slos is unchanged. */
const char *config_slos_read(struct slice text, struct config_slos *slos)
    MUST_CHECK;

/* What was expected instead of text; for an empty text, the forms. Static
 * text. */
const char *config_slos_want(struct slice text);

/* Appends them, so that config_slos_read() reads them back. */
void config_slos_print(const struct config_slos *slos, struct buf *out);

#endif
