/*
 * File descriptors: as many as the process may have, and how they are shared
 * out between clients' connections and all else.
 *
 *   descriptors_raise(&d, node, config);   as early as can be
 *   ... all ports are opened ...
 *   descriptors_reserve(&d);
 *   descriptors_limit(&d);                 and again after each reload
 *
 * Role: shell. Thread: control. Limits: the system's. Errors: few descriptors
 * mean fewer connections, and a line in the log.
 */
#ifndef NODE_DESCRIPTORS_INTERNAL_H
#define NODE_DESCRIPTORS_INTERNAL_H

#include <stdint.h>

#include "node/config/config.h"
#include "node/route/shared.h"

struct descriptors {
    struct node_shared *node;   /* borrowed */
    uint64_t limit;             /* that the process may have */
    int first_fd;               /* that was free when all ports were open */
    uint32_t connections_asked; /* limits.connections_max, seen last */
};

/* Raises the limit towards what the configuration needs. */
void descriptors_raise(struct descriptors *d, struct node_shared *node,
                       const struct config *config);

/*
 * Sets what clients and their requests may have of the descriptors that are left
 * once all ports are open: the rest is for probes, events, peers, snapshots and
 * the admin port, so that a crowd of clients cannot take those from the node.
 */
void descriptors_reserve(struct descriptors *d);

/* Sets the node's bound on connections: limits.connections_max, or less where
 * the descriptors are few. */
void descriptors_limit(struct descriptors *d);

#endif
