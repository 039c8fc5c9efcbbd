/*
 * What a simulated node may hold: never more than the bounds that headers
 * state, and at rest nothing that what broke has left behind.
 *
 * Role: core, private to the simulator. Thread: one owner.
 */
#ifndef CHAOS_SIM_BOUNDS_INTERNAL_H
#define CHAOS_SIM_BOUNDS_INTERNAL_H

#include "chaos/sim/sim_world_internal.h"

/* Draws narrow bounds, so that some are reached. */
void sim_bounds_draw(struct sim_world *w);

/* What is above its bound; NULL: nothing. */
const char *sim_bounds_check(struct sim_world *w, uint32_t node);

/* What is left behind; NULL: nothing is. Of a node that has met all others. */
const char *sim_bounds_rest(struct sim_world *w, uint32_t node);

/* What a node holds in logs and indexes: bytes. */
uint64_t sim_bounds_bytes(struct sim_world *w, uint32_t node);

#endif
