/*
 * What was said of workers on any node, worked out beside the roster: at quiet
 * each entry is the last one that was said, or a later one.
 *
 * Of a node that was killed since nothing is promised: its last word may have
 * gone with it. Where clocks jump a day ahead tombstones end before their
 * time, and nothing is promised of removals.
 *
 * Role: core, private to the simulator. Thread: one owner.
 */
#ifndef CHAOS_SIM_ROSTER_INTERNAL_H
#define CHAOS_SIM_ROSTER_INTERNAL_H

#include "chaos/sim/sim_world_internal.h"

/* An operator says something on a node that runs: drawn from rng. */
void sim_roster_change(struct sim_world *w, struct rng *rng, uint32_t node);

/* At quiet: what is forgotten, or came back; NULL: nothing. */
const char *sim_roster_check(const struct sim_world *w);

#endif
