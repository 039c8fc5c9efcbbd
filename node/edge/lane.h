/*
 * A lane: one thread with one event loop that serves requests on the serving
 * port. Several share the port (SO_REUSEPORT).
 *
 * Role: shell. Owns: its loop, its connections. Thread: as each call says.
 * Limits: the configuration's. Errors: below zero -errno.
 */
#ifndef NODE_LANE_H
#define NODE_LANE_H

#include <stdint.h>
#include <sys/socket.h>

#include "index/base/check.h"
#include "index/base/role.h"
#include "node/route/shared.h"

struct lane;

/*
 * Makes a lane that listens on address, not yet running. *port: what it
 * listens on. node outlives it. 0 and *out, or -errno.
 */
int lane_new(struct lane **out, struct node_shared *node, unsigned number,
             const struct sockaddr *address, socklen_t address_len,
             uint64_t seed, uint16_t *port) ON_CONTROL MUST_CHECK;

/* The same port for gateways (extproc.listen), before it runs. 0 and *port, or
 * -errno. */
int lane_listen_to_gateways(struct lane *lane, const struct sockaddr *address,
                            socklen_t address_len, uint16_t *port)
    ON_CONTROL MUST_CHECK;

/* Starts its thread. */
int lane_start(struct lane *lane) ON_CONTROL MUST_CHECK;

/*
 * Asks it to look at the node's gauges. Leaving: each answer is the last one of
 * its connection. Draining: it stops accepting, closes idle connections, ends
 * when the running requests have, and severs them after timeouts.drain, or at
 * once with `sever`. Thread: any.
 */
void lane_wake(struct lane *lane);

/* Waits for the end of a lane that was asked to drain, and frees it. */
void lane_join(struct lane *lane) ON_CONTROL;

/* Frees a lane that never started. */
void lane_free(struct lane *lane) ON_CONTROL;

#endif
