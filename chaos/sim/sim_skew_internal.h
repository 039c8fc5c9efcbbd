/*
 * Nodes of the next minor version beside nodes of today. Their frames have
 * longer heads and additional fields at the end, and they also send frames,
 * bodies and flags that today's nodes do not know. A node of another major
 * version sends frames, too.
 *
 * The simulator checks what the headers promise (frame.h, member_codec.h,
 * cluster.h, gossip.h, roster.h): what a node does not know is skipped, counted
 * and without effect, and another major version is refused by name.
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
