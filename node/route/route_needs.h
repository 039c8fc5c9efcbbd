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

/* Of the request that the scratch has read, of a body so long; as far as the
 * scratch knows. The sum is far from overflowing. */
struct route_needs route_needs(const struct route_scratch *scratch,
                               size_t body_len);

#endif
