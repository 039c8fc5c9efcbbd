/*
 * Checks what a simulated node holds: never more than the bounds in the
 * headers, and at rest nothing that a fault has left behind.
 *
 * Role: core, private to the simulator. Thread: one owner.
 */
#ifndef CHAOS_SIM_BOUNDS_INTERNAL_H
#define CHAOS_SIM_BOUNDS_INTERNAL_H

#include "chaos/sim/sim_world_internal.h"

/* Draws narrow bounds, so that some are reached. */
void sim_bounds_draw(struct sim_world *w);

/* The first bound that is exceeded; NULL: none. */
const char *sim_bounds_check(struct sim_world *w, uint32_t node);

/* What a fault has left behind; NULL: nothing. Only for a node that has met all
 * others. */
const char *sim_bounds_rest(struct sim_world *w, uint32_t node);

/* Bytes that a node holds in logs and indexes. */
uint64_t sim_bounds_bytes(struct sim_world *w, uint32_t node);

#endif
