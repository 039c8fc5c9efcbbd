/*
 * Simulated DNS: answers may be right, missing, empty, old or wrong.
 *
 * Role: core, private to the simulator. Thread: one owner.
 */
#ifndef CHAOS_SIM_DNS_INTERNAL_H
#define CHAOS_SIM_DNS_INTERNAL_H

#include "chaos/sim/sim_world_internal.h"

#define SIM_PLACES 12U /* addresses that are named: 10.0.0.1 and on */

/* Answers a node's lookup. */
void sim_dns_answer(struct sim_world *w, uint32_t node, uint64_t ticket);

#endif
