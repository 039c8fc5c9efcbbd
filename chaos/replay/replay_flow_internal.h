/*
 * What happens in a replay, event by event. Private to replay_world.c.
 *
 * Role: core.
 */
#ifndef CHAOS_REPLAY_FLOW_INTERNAL_H
#define CHAOS_REPLAY_FLOW_INTERNAL_H

#include "chaos/replay/replay_world.h"

/* Schedules all arrivals, and what happens at intervals. 0 or -ENOMEM. */
int replay_flow_begin(struct replay_world *world) MUST_CHECK;

/* Frees what is on its way. */
void replay_flow_drop(struct replay_world *world);

/* Whether engines' events matter to the policy. */
bool replay_knows_events(const struct replay_world *world);

/* Nodes that are told by engines. */
static inline bool
replay_hears_events(enum replay_policy policy)
{
    return policy == REPLAY_KVASIR || policy == REPLAY_SHARES;
}

/* oracle and soonest. */
static inline bool
replay_sees_all(enum replay_policy policy)
{
    return policy == REPLAY_ORACLE || policy == REPLAY_SOONEST;
}

/* Their election. */
void replay_divine(struct replay_world *world,
                   const struct replay_prompt *prompt,
                   const struct replay_request *request,
                   struct replay_choice *choice);

#endif
