/*
 * A client's connection, shared by its files:
 *
 *   client.c        its begin and end, reading, what it waits for
 *   client_frame.c  where a request ends; form.c: where that is not waited for
 *   client_out.c    what it is sent
 *
 * Role: shell, private to them. Thread: the client's lane.
 */
#ifndef NODE_CLIENT_INTERNAL_H
#define NODE_CLIENT_INTERNAL_H

#include "node/edge/edge_internal.h"

/* client.c */

/* What to wait for follows from the state; called when that changed. */
void client_update_interest(struct client *client) ON_LANE;
/* Serves the requests that are whole, and waits for the next one. */
void client_process(struct client *client) ON_LANE;

/* client_frame.c */

enum {
    FRAME_WHOLE,
    FRAME_MORE,
    FRAME_REFUSED,
};

/* Finds the end of the request at client->in, or of as much of a form as has
 * come when it goes already. With FRAME_WHOLE the lane's head is that
 * request's; with FRAME_REFUSED it was answered. */
int client_frame(struct client *client) ON_LANE MUST_CHECK;
/* Answers 503: the node's buffers are full. FRAME_REFUSED. */
int client_refuse_overload(struct client *client) ON_LANE;
/* Makes room for size bytes in all; false: the node's bound is reached. */
bool client_grow_in(struct client *client, size_t size) ON_LANE MUST_CHECK;
/* Whether the body has come so slowly that there is no waiting for the rest;
 * came: its bytes so far. */
bool client_is_slow(struct client *client, size_t came) ON_LANE MUST_CHECK;
/* Answers 408. */
void client_refuse_slow(struct client *client) ON_LANE;
/* Gives the input back, if there is one. */
void client_give_in(struct client *client) ON_LANE;

/* client_out.c */

/* Sends what the kernel did not take before. May close the client. */
void client_flush(struct client *client) ON_LANE;
/* Returns the buffer of unsent bytes, if there is one. */
void client_give_out(struct client *client) ON_LANE;

#endif
