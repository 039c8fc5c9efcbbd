/*
 * The turns of the control thread's loop: lanes' facts, the work in the
 * background, and what is due after each look at the sockets.
 *
 * Role: shell. Owns: its timers, which control.h holds. Thread: control. Limits:
 * facts of a lane and steps of work in a turn. Errors: none.
 */
#ifndef NODE_CONTROL_TURNS_H
#define NODE_CONTROL_TURNS_H

#include "node/control/control.h"

/* The loop is there, and nothing stands on it yet. */
void control_turns_open(struct control *control) ON_CONTROL;
void control_turns_close(struct control *control) ON_CONTROL;

/* Something happened that may make work in the background. */
void control_stir(struct control *control);

/* Peers are to hear of this node's load in the next turn, for the first time. */
void control_tell_now(struct control *control) ON_CONTROL;

/* A node that has just started is not ready before the engines that it reads
 * have told again what they hold; once it was, it stays so. mesh.ready bounds
 * it, and one replay's time-out the wait for a connection. */
void control_await_replays(struct control *control);

#endif
