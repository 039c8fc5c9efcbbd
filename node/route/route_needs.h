/*
 * How many tokens a request may need, before anybody has counted its answer:
 * what limits of tokens reserve.
 *
 * Role: core. Owns: nothing. Thread: the scratch's. Limits: none. Errors: none.
 */
#ifndef NODE_ROUTE_NEEDS_H
#define NODE_ROUTE_NEEDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node/route/route.h"

struct route_needs {
    uint64_t prompt; /* its tokens */
    bool counted;    /* ... are counted, and no estimate by its text */
    uint64_t answer; /* the longest that it allows, or a usual one */
};

/* Notes in the scratch how much text the prompt has, and of which kind: by a
 * piece from the middle of its longest span. */
void route_look_at_text(struct route_scratch *scratch, const char *body);

/* Of the request that the scratch has read, of a body so long; as far as the
 * scratch knows. The sum is far from overflowing. */
struct route_needs route_needs(const struct route_scratch *scratch,
                               size_t body_len);

/* How long it is: what an engine's limit on its length counts, of one prompt and
 * one answer. Not known of several prompts, of those that go on with what an
 * engine has stored or that it truncates, and of those without an answer. */
struct pools_need route_length(const struct route_scratch *scratch,
                               const struct route_world *world);

/* Notes in the scratch which threshold between pools counts for it. */
void route_threshold(struct route_scratch *scratch,
                     const struct route_world *world);

#endif
