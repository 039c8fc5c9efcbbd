/*
 * Looks up where the load goes: the addresses of the URL's host, at the start
 * and again whenever one of them failed.
 *
 * Role: shell. Owns: the lookup. Thread: the loop's. Errors: -ENOMEM; a name
 * without addresses leaves what was known before.
 */
#ifndef CHAOS_LOAD_LOOKUP_INTERNAL_H
#define CHAOS_LOAD_LOOKUP_INTERNAL_H

#include <stdbool.h>
#include <uv.h>

#include "chaos/load/load_targets.h"
#include "index/base/check.h"
#include "node/node.h"

struct load_lookup {
    struct load_targets targets;
    const struct url *url;
    struct resolve *resolve; /* NULL: the host is an address */
    uint64_t ticket;
    bool asking;
    void *context;
    void (*known)(void *context); /* after the first answer, once */
};

/* resolver: port 0 for the system's. 0, or -ENOMEM. */
int load_lookup_init(struct load_lookup *lookup, uv_loop_t *loop,
                     const struct url *url, const struct url *resolver)
    MUST_CHECK;

/* Calls `known` once after the first answer or failure; if the host is an
 * address, it calls `known` before it returns. */
void load_lookup_start(struct load_lookup *lookup, void (*known)(void *context),
                       void *context);

/* Asks again, unless a lookup is under way. */
void load_lookup_again(struct load_lookup *lookup);

/* The loop must run on until its handles are closed. */
void load_lookup_stop(struct load_lookup *lookup);

#endif
