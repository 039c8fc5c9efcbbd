/*
 * The events of a replay. Private to replay_world.c and to
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
    KIND_MOMENT,  /* it is its node's, for which request who has waited */
    KIND_WAKE,    /* engine who */
    KIND_PASSED,  /* the prompt of request who is where it is gone on with */
    KIND_EVENTS,  /* record what of engine who reaches its readers */
    KIND_GOSSIP,  /* the same record reaches the other nodes */
    KIND_BELIEF,  /* record what, a decision for engine who, reaches peers */
    KIND_DECIDED, /* the same in kept keys (decided.h) */
    KIND_OPENED,  /* peers hear that node what sent a request to engine who */
    KIND_CLOSED,  /* peers hear that such a request has ended */
    KIND_GAUGES,  /* nodes tell how much they send, and what waits */
    KIND_HEARD,   /* nodes hear how much is sent */
    KIND_SOON,    /* node who tells what waits, between such times */
    KIND_QUEUED,  /* record what, of what waits for node who, reaches peers */
    KIND_METRICS, /* nodes look how full engines are */
    KIND_SCALE,   /* somebody looks whether engines are to come or go */
    KIND_COMES,   /* engine who, which was asked for, is there */
    KIND_REACHED, /* request who reaches its engine on another island */
};

/* Something that travels: words of events, or keys of a decision. */
struct replay_record {
    uint32_t node; /* whose decision it is */
    uint32_t count;
    uint32_t depth; /* KIND_BELIEF: of its first block */
    uint32_t unused;
    uint64_t words[];
};

static inline uint64_t
replay_now(const struct replay_world *world)
{
    return world->time.now_us;
}

/* Schedules all arrivals, and what happens at intervals. 0 or -ENOMEM. */
int replay_flow_begin(struct replay_world *world) MUST_CHECK;

/* When a request comes that comes at_us at load x1; pauses are no such times. */
uint64_t replay_arrival_us(const struct replay_setup *setup, uint64_t at_us);

/* In a sequential replay the request after this one, which is over, is next. */
int replay_next_in_sequence(struct replay_world *world, uint32_t number)
    MUST_CHECK;

/* Frees what is on its way. */
void replay_flow_drop(struct replay_world *world);

/* replay_flow.c */

int replay_schedule(struct replay_world *world, uint64_t at_us,
                    enum replay_kind kind, uint32_t who, uint64_t what)
    MUST_CHECK;
struct replay_record *replay_record_of(const struct virtual_event *event);
/* Of zeros; the caller frees it. NULL: no memory. */
struct replay_record *replay_record_blank(uint32_t node, uint32_t count);
/* Copies the words; the caller frees the copy. NULL: no memory. */
struct replay_record *replay_record_new(uint32_t node, const uint64_t *words,
                                        uint32_t count);
/* Schedules the record's arrival and takes ownership of it. -ENOMEM if record
 * is NULL. */
int replay_send(struct replay_world *world, uint64_t at_us,
                enum replay_kind kind, uint32_t who,
                struct replay_record *record) MUST_CHECK;
/* Tells peers of a request that was sent or has ended. */
int replay_tell_peers(struct replay_world *world, enum replay_kind kind,
                      const struct replay_flight *flight) MUST_CHECK;

/* replay_flow_arrive.c */

/* Of a request: in a sequential replay one. */
static inline uint32_t
replay_answer_tokens(const struct replay_world *world,
                     const struct replay_request *request)
{
    return world->setup.sequential ? 1 : request->output_tokens;
}

int replay_arrive(struct replay_world *world, uint32_t number) MUST_CHECK;
/* Handles KIND_MOMENT: the request is at its node. */
int replay_elect(struct replay_world *world, uint32_t number) MUST_CHECK;
/* Handles KIND_REACHED. */
int replay_reach(struct replay_world *world, uint32_t number) MUST_CHECK;
/* Handles KIND_PASSED. */
int replay_pass(struct replay_world *world, uint32_t number) MUST_CHECK;
/* How long a computed prompt takes to get from its engine to the next. */
uint64_t replay_transfer_us(struct replay_world *world, uint32_t number);

/* replay_flow_engine.c */

/* Schedules the engine's next step. */
int replay_engine_wake_when_due(struct replay_world *world, uint32_t engine)
    MUST_CHECK;
/* Handles KIND_WAKE, unless the engine was woken sooner in the meantime. */
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
/* A prompt was sent to an engine: if it is a long one, its node is to tell. */
int replay_tell_soon(struct replay_world *world, uint32_t node, uint32_t engine)
    MUST_CHECK;
int replay_tell_queued(struct replay_world *world, uint32_t node) MUST_CHECK;
void replay_hear_queued(struct replay_world *world,
                        const struct virtual_event *event);
void replay_hear_gauges(struct replay_world *world);
int replay_read_metrics(struct replay_world *world) MUST_CHECK;

/* Whether engines' events matter to the policy. */
bool replay_knows_events(const struct replay_world *world);

/* Nodes that read engines' events. */
static inline bool
replay_hears_events(enum replay_policy policy)
{
    return policy == REPLAY_KVASIR || policy == REPLAY_SLO ||
           policy == REPLAY_SPLIT || policy == REPLAY_SHARES ||
           policy == REPLAY_CACHE_AWARE || policy == REPLAY_COMPOSITE ||
           policy == REPLAY_DYNAMO;
}

/* Whether the policy looks into the engines. */
static inline bool
replay_sees_all(enum replay_policy policy)
{
    return policy == REPLAY_GREEDY || policy == REPLAY_SOONEST ||
           policy == REPLAY_STICKY;
}

/* Its election. */
void replay_divine(struct replay_world *world,
                   const struct replay_prompt *prompt,
                   const struct replay_request *request,
                   struct replay_choice *choice);

#endif
