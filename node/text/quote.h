/*
 * Shows text of unknown origin inside a message.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: QUOTE_MAX.
 */
#ifndef NODE_QUOTE_H
#define NODE_QUOTE_H

#include "index/base/slice.h"

#define QUOTE_MAX  80              /* bytes of the text shown */
#define QUOTE_ROOM (QUOTE_MAX + 6) /* with quotes, "..." and NUL */

/* Writes text to out between double quotes, escaped as in JSON, on one line;
 * what exceeds QUOTE_MAX becomes "...". Returns out. */
const char *quote_text(struct slice text, char out[QUOTE_ROOM]);

#endif
