/*
 * What happens in a replay, event by event. Private to replay_world.c and to
 *
 *   replay_flow.c         the events in their order
 *   replay_flow_arrive.c  requests: elections
 *   replay_flow_engine.c  engines: steps, answers
 *   replay_flow_hear.c    what nodes hear
 *
 * Role: core. Errors: every int is 0 or -ENOMEM.
 */
#ifndef CHAOS_REPLAY_FLOW_INTERNAL_H
#define CHAOS_REPLAY_FLOW_INTERNAL_H

#include "chaos/replay/replay_world.h"

enum replay_kind {
    KIND_ARRIVE,  /* request who, at its node */
    KIND_WAKE,    /* engine who */
    KIND_EVENTS,  /* record what of engine who, at those who read it */
    KIND_GOSSIP,  /* the same, at the others */
    KIND_BELIEF,  /* record what: a decision for engine who, at the peers */
    KIND_OPENED,  /* a request of node what at engine who, at its peers */
    KIND_CLOSED,  /* the same, that has ended */
    KIND_GAUGES,  /* nodes tell how much they send */
    KIND_HEARD,   /* ... and hear it */
    KIND_METRICS, /* nodes look how full engines are */
};

/* Something that travels: words of events, or keys of a decision. */
struct replay_record {
    uint32_t node; /* whose decision */
    uint32_t count;
    uint64_t words[];
};

static inline uint64_t
replay_now(const struct replay_world *world)
{
    return world->time.now_us;
}

/* Schedules all arrivals, and what happens at intervals. 0 or -ENOMEM. */
int replay_flow_begin(struct replay_world *world) MUST_CHECK;

/* Frees what is on its way. */
void replay_flow_drop(struct replay_world *world);

/* replay_flow.c */

int replay_schedule(struct replay_world *world, uint64_t at_us,
                    enum replay_kind kind, uint32_t who, uint64_t what)
    MUST_CHECK;
struct replay_record *replay_record_of(const struct virtual_event *event);
/* A copy of the words; NULL: no memory. The caller frees it. */
struct replay_record *replay_record_new(uint32_t node, const uint64_t *words,
                                        uint32_t count);
/* Puts the record on its way, which owns it then; NULL is -ENOMEM. */
int replay_send(struct replay_world *world, uint64_t at_us,
                enum replay_kind kind, uint32_t who,
                struct replay_record *record) MUST_CHECK;
/* Peers hear of a request that was sent, or has ended. */
int replay_tell_peers(struct replay_world *world, enum replay_kind kind,
                      const struct replay_flight *flight) MUST_CHECK;

/* replay_flow_arrive.c */

int replay_arrive(struct replay_world *world, uint32_t number) MUST_CHECK;

/* replay_flow_engine.c */

/* The engine's next step is scheduled. */
int replay_engine_wake_when_due(struct replay_world *world, uint32_t engine)
    MUST_CHECK;
/* KIND_WAKE; an engine that was woken sooner since is left alone. */
int replay_engine_wake(struct replay_world *world,
                       const struct virtual_event *event) ON_CONTROL MUST_CHECK;

/* replay_flow_hear.c: one for each kind of event. */

int replay_hear_events(struct replay_world *world,
                       const struct virtual_event *event) MUST_CHECK;
/* The record reaches those who read the engine's events, or all the others. */
void replay_hear_record(struct replay_world *world, uint32_t engine,
                        const struct replay_record *record, bool readers);
void replay_hear_belief(struct replay_world *world,
                        const struct virtual_event *event);
void replay_hear_load(struct replay_world *world,
                      const struct virtual_event *event);
int replay_tell_gauges(struct replay_world *world) MUST_CHECK;
void replay_hear_gauges(struct replay_world *world);
int replay_read_metrics(struct replay_world *world) MUST_CHECK;

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
