/*
 * A request's way through the files of sim_request_internal.h:
 *
 *   sim_request.c         the steps, in time
 *   sim_request_client.c  its client
 *   sim_request_visit.c   its visit at a node
 *   sim_request_engine.c  its engine
 *
 * Role: core, private to them. Thread: one owner.
 */
#ifndef CHAOS_SIM_FLIGHT_INTERNAL_H
#define CHAOS_SIM_FLIGHT_INTERNAL_H

#include "chaos/sim/sim_request_internal.h"

#define CLIENT_MS 8000U /* how long a patient client waits */

enum sim_step {
    STEP_ARRIVE,  /* at its node */
    STEP_SUBMIT,  /* at the engine */
    STEP_HEAD,    /* of the answer, at the node */
    STEP_TOKEN,   /* of a stream: its next word, at the node */
    STEP_END,     /* of the answer, at the node */
    STEP_STATUS,  /* 503, at the node */
    STEP_SEVERED, /* the engine is gone: at the node */
    STEP_DUE,     /* the node waits no longer */
    STEP_TOLD,    /* control has told the lane what becomes of who waits */
    STEP_LOST,    /* the node is gone: at the client */
    STEP_BORED,   /* the client waits no longer */
    STEP_GONE,    /* the client is gone: at the node */
};

/* sim_request.c */

struct rng *sim_flight_random(struct sim_world *w);
/* Draws how long a message is on its way. */
uint64_t sim_flight_way_us(struct sim_world *w);
uint32_t sim_flight_slot(const struct sim_world *w, const struct sim_flight *f);
/* Schedules a step. It happens only if the flight's attempt is still the same
 * then. */
void sim_flight_plan(struct sim_world *w, const struct sim_flight *f,
                     enum sim_step step, uint64_t at_us);
/* Schedules a step of the client's, which happens whatever became of the
 * attempt. */
void sim_flight_plan_client(struct sim_world *w, const struct sim_flight *f,
                            enum sim_step step, uint64_t at_us);

/* sim_request_client.c */

/* Why a request ends that got no place in time. */
extern const char sim_client_waited[];

/* A free flight, numbered, whose client waits; NULL: none is free. */
struct sim_flight *sim_flight_new(struct sim_world *w);
/* Whether the client waits CLIENT_MS, and not only a moment. */
bool sim_client_is_patient(const struct sim_flight *f);
/* Sends a new request, if there is a free flight. */
void sim_client_ask(struct sim_world *w);
/* No node took the request: sends it to another node, or ends it for this
 * reason. */
void sim_client_send_again(struct sim_world *w, struct sim_flight *f,
                           const char *why);
/* The client has its answer (why: NULL), or gives up for this reason. */
void sim_client_end(struct sim_world *w, struct sim_flight *f, const char *why);

/* sim_request_visit.c */

/* The request arrives at its node, which takes it if it is up. */
void sim_visit_begin(struct sim_world *w, struct sim_flight *f);
/* The node has its connection to the engine. */
void sim_visit_connected(struct sim_world *w, struct sim_flight *f);
/* Handles the engine's next message, or its absence. */
void sim_visit_head(struct sim_world *w, struct sim_flight *f);
void sim_visit_token(struct sim_world *w, struct sim_flight *f);
void sim_visit_end(struct sim_world *w, struct sim_flight *f);
void sim_visit_severed(struct sim_world *w, struct sim_flight *f);
void sim_visit_fail(struct sim_world *w, struct sim_flight *f,
                    enum dispatch_fault fault);
void sim_visit_due(struct sim_world *w, struct sim_flight *f);
/* It waited for a worker with room, and knows what becomes of it. */
void sim_visit_told(struct sim_world *w, struct sim_flight *f);
/* The request has ended at the node, in whatever way. */
void sim_visit_close(struct sim_world *w, struct sim_flight *f,
                     enum dispatch_end end);

/* sim_request_engine.c */

/* The request arrives at its engine, if the engine can be reached. */
void sim_flight_submit(struct sim_world *w, struct sim_flight *f);

#endif
