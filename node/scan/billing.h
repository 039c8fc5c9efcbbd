/*
 * The line that Claude Code puts in front of its system prompt, with a hash that is
 * another one in each request. vLLM leaves it out of the prompt.
 *
 * Role: core. Owns: nothing. Thread: any. Errors: none.
 */
#ifndef NODE_SCAN_BILLING_H
#define NODE_SCAN_BILLING_H

#include <stdbool.h>

#include "index/base/slice.h"

#define BILLING_NAME "x-anthropic-billing-header"

/* Whether a text begins with it. */
static inline bool
billing_begins(struct slice text)
{
    return slice_begins(text, SLICE(BILLING_NAME));
}

#endif
