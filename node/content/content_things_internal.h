/*
 * What a text has: code, and what tells who somebody is.
 *
 * Role: core. Owns: content_things its patterns. Thread: any number of readers.
 * Limits: those of patterns. Errors: -ENOMEM.
 */
#ifndef NODE_CONTENT_THINGS_INTERNAL_H
#define NODE_CONTENT_THINGS_INTERNAL_H

#include "node/content/content_regex_internal.h"

/* Patterns of things, by enum content_thing; NULL: it needs none. */
struct content_things {
    struct content_regex *regex[CONTENT_THINGS];
};

/* 0 or -ENOMEM; then content_things_fini() is the caller's as well. */
int content_things_init(struct content_things *things) MUST_CHECK;
void content_things_fini(struct content_things *things);

/* Which of the wanted things (bits) a well-formed text has; *too_hard counts
 * patterns that were given up. */
uint32_t content_things_in(const struct content_things *things,
                           struct content_matcher *matcher, struct slice text,
                           uint32_t wanted, uint32_t *too_hard);

#endif
