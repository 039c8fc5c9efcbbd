/*
 * What links between islands cost, as text: FROM~TO=TIME[@PRICE], links between blanks,
 * or `none`.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: CONFIG_LINKS_MAX.
 * Errors: a static text that says what was expected.
 */
#ifndef NODE_CONFIG_LINKS_INTERNAL_H
#define NODE_CONFIG_LINKS_INTERNAL_H

#include "index/base/buf.h"
#include "index/base/check.h"
#include "index/base/slice.h"
#include "node/config/config.h"

/* Replaces all of them. NULL, or what was expected, and links are unchanged. */
const char *config_links_read(struct slice text, struct config_links *links)
    MUST_CHECK;

/* What was expected instead of text; for an empty text, the forms. Static
 * text. */
const char *config_links_want(struct slice text);

/* Appends them, so that config_links_read() reads them back. */
void config_links_print(const struct config_links *links, struct buf *out);

#endif
