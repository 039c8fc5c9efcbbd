/*
 * Limits, among the gauges that a node tells its peers (hints.h): a row for each
 * rule, under a name that is the same on all nodes. In it are what the node has
 * spent since its start, what it has open, and the window's sum as it sees it
 * (struct limits_told). Nodes of earlier versions keep such rows as those of a
 * worker that they do not have.
 *
 * A peer is known to have spent nothing only once all its rows were heard;
 * until then nobody knows what it spent before, and what comes is no news.
 *
 * Role: core. Owns: nothing. Thread: control. Limits: LIMITS_PEERS_MAX; rows
 * that gossip has no room for are counted. Errors: none.
 */
#ifndef NODE_HINTS_LIMITS_H
#define NODE_HINTS_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#include "node/limits/limits_meter.h"
#include "node/peers/hints.h"

/* Tells what this node has of the rule of that identity. */
void hints_tell_limit(struct hints *hints, uint64_t identity,
                      const struct limits_told *told, uint64_t now_us);

/* Tells the meter what peers have, and which are gone. */
void hints_hear_limit(const struct hints *hints, uint64_t identity,
                      struct limits_meter *meter);

/* The other nodes. settled: those that are linked are all there are, as far as
 * anybody knows, and all have told their rows. */
struct limits_peers hints_limits_peers(const struct hints *hints,
                                       bool caught_up);

#endif
