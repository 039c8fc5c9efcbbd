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

/*
 * The time to the next look at lanes' facts, where one took so many, ms after the
 * look before it. Each look wakes this thread, which costs more than what it does
 * with a few facts: where there are many they wait a little longer, unless
 * somebody waits for a worker with room.
 */
uint64_t control_turns_pace_ms(uint64_t taken, uint64_t ms, bool waits);

/*
 * Whether those who wait for the processor have it now, after so many facts of a
 * lane in one look. It may be long until they give it back, longer than it takes
 * lanes to fill their rings. So once so much waits there, *behind is set, and
 * this look takes all that there is, without a break.
 */
bool control_turns_yields(uint32_t taken, uint64_t waiting_bytes, bool *behind);

/* Something happened that may make work in the background. */
void control_stir(struct control *control);

/* Peers are to hear of this node's load in the next turn, for the first time. */
void control_tell_now(struct control *control) ON_CONTROL;

/* A node that has just started is not ready before the engines that it reads
 * have told again what they hold; once it was, it stays so. mesh.ready bounds
 * it, and one replay's time-out the wait for a connection. */
void control_await_replays(struct control *control);

#endif
