/*
 * Where engines are made, as text: NAME,KEY=VALUE,... for each pool, blanks
 * between them, or `none`. The keys are those of config_schema_pool.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: SCALE_POOLS_MAX.
 * Errors: a static text that says what was expected.
 */
#ifndef NODE_CONFIG_POOLS_INTERNAL_H
#define NODE_CONFIG_POOLS_INTERNAL_H

#include "index/base/buf.h"
#include "index/base/check.h"
#include "index/base/slice.h"
#include "node/config/config.h"

/* Replaces all of them. NULL, or what was expected, and pools are unchanged. */
const char *config_pools_read(struct slice text,
                              struct config_scale_pools *pools) MUST_CHECK;

/* What was expected instead of text; for an empty text, the forms. Static
 * text. */
const char *config_pools_want(struct slice text);

/* Appends them, so that config_pools_read() reads them back. */
void config_pools_print(const struct config_scale_pools *pools,
                        struct buf *out);

#endif
