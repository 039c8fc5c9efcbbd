/*
 * Workers' speeds, among the gauges that a node tells its peers (hints.h): up to
 * SPEED_TOLD_ROWS rows for each worker of which its own requests have taught it
 * something (speed_told.h), under names that are the same on all nodes. Nodes of
 * earlier versions keep such rows as those of a worker that they do not have.
 *
 * A call shares HINTS_SPEEDS workers, and the next call the ones after them: a
 * peer's gauge has to be looked for, and speeds change within minutes.
 *
 * Role: core. Owns: nothing. Thread: control. Limits: rows that gossip has no room
 * for are counted. Errors: none.
 */
#ifndef NODE_HINTS_SPEED_H
#define NODE_HINTS_SPEED_H

#include <stdint.h>

#include "node/peers/hints.h"
#include "node/view/speed_told.h"

#define HINTS_SPEEDS 16U

/* Tells peers what this node's requests have taught of some of the view's
 * workers, and sets what counts: that, and what they tell. What was of workers
 * that are gone is forgotten, and taken back. */
void hints_share_speed(struct hints *hints, struct speed_shared *speed,
                       const struct fleet_view *view, uint64_t now_us);

#endif
