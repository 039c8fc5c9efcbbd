/*
 * Nodes one minor version ahead, side by side with those of today: their frames
 * have longer heads and fields behind, and among them are frames, bodies and
 * flags that nobody here knows. And a node of another major version knocks.
 *
 * What headers promise (frame.h, member_codec.h, cluster.h, gossip.h, roster.h)
 * is held against it: what is not known is skipped, counted, and changes
 * nothing; another major version is told by its name.
 *
 * Role: core, private to the simulator. Thread: one owner.
 */
#ifndef CHAOS_SIM_SKEW_INTERNAL_H
#define CHAOS_SIM_SKEW_INTERNAL_H

#include "chaos/sim/sim_world_internal.h"

#define SIM_SKEW_MORE 8U /* bytes */

/* The node is of a later version, and runs. */
bool sim_skew_is_later(const struct sim_world *w, uint32_t node);

/* A frame from one node to another that runs, before it is handed over: goes
 * through a head of a later version, and what follows it may be nonsense. Room
 * for SIM_SKEW_MORE bytes is behind its body: returns the length to hand
 * over. */
size_t sim_skew_frame(struct sim_world *w, uint32_t from, uint32_t to,
                      uint8_t *body, size_t len);

/* The same body, or, now and then, one whose first record has as many unknown
 * fields as a frame takes: in the world's payload, until that is used again. */
struct slice sim_skew_record(struct sim_world *w, uint32_t from,
                             struct slice body);

#endif
