/*
 * The operations on workers on all nodes, recorded beside the roster: at quiet
 * each entry is the last operation, or a later one. Nothing is promised if the
 * node of an operation was killed since, because the operation may be lost with
 * it. Where clocks jump a day ahead, tombstones end early, and nothing is
 * promised of removals.
 *
 * Role: core, private to the simulator. Thread: one owner.
 */
#ifndef CHAOS_SIM_ROSTER_INTERNAL_H
#define CHAOS_SIM_ROSTER_INTERNAL_H

#include "chaos/sim/sim_world_internal.h"

/* An operator changes the roster on a node that runs: drawn from rng. */
void sim_roster_change(struct sim_world *w, struct rng *rng, uint32_t node);

/* At quiet: what is forgotten, or came back; NULL: nothing. */
const char *sim_roster_check(const struct sim_world *w);

#endif
