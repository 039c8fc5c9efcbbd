/*
 * Engines' speeds and nodes' turns, as nodes tell each other (SIM_SPEED).
 *
 * Each node has samples of the engines: what its requests would have shown it,
 * drawn, for engines of several speeds. It tells them and hears its peers' as
 * control does (hints_speed.h), and tells a ticket, of which turns and moments
 * are made (turns.h, moment.h). Nothing is elected by either here.
 *
 * What must hold. At quiet, what a node counts of an engine is its own samples
 * and what each peer's own say now, as it would tell them: nothing that a process
 * told which is gone, nothing twice, nothing that is lost. And nodes see each
 * other in one order: their places are 0, 1, ..., so no two of them have one
 * slot for long prompts.
 *
 * Role: core, private to the simulator. Thread: one owner.
 */
#ifndef CHAOS_SIM_SPEED_INTERNAL_H
#define CHAOS_SIM_SPEED_INTERNAL_H

#include "chaos/sim/sim_world_internal.h"

struct sim_speed;

/* Draws whether there are any; in a world without requests there are none. */
void sim_speed_begin(struct sim_world *w);
void sim_speed_end(struct sim_world *w);
/* A node's router is there, before its hints; it goes. */
void sim_speed_node_start(struct sim_world *w, uint32_t node);
void sim_speed_node_gone(struct sim_world *w, uint32_t node);

/* What the node tells of itself; 0: nothing, in a world without. */
uint32_t sim_speed_ticket(const struct sim_world *w, uint32_t node);

/* Call it often: the node's turn, when it is time. True: it told something, so
 * outputs wait. */
bool sim_speed_turn(struct sim_world *w, uint32_t node);

/* Why nodes do not agree; NULL: they do. */
const char *sim_speed_quiet(struct sim_world *w);

#endif
