/*
 * Log lines of what happens to workers.
 *
 * Role: shell. Owns: nothing. Thread: any. Limits: the rate of log.h, for each
 * event by itself. Errors: none.
 */
#ifndef NODE_FLEET_LOG_INTERNAL_H
#define NODE_FLEET_LOG_INTERNAL_H

#include "node/fleet/fleet.h"

/* Writes the line of a FLEET_OUT_EVENT: its name, the worker, and what changed.
 * Warnings where someone should look, else information. */
void fleet_log_event(const struct fleet_out *out);

/* Writes that a worker's name has an address in a range of workers.deny. All is
 * borrowed for the call. */
void fleet_log_denied(const char *worker, const struct sockaddr *address,
                      const struct range *range);

#endif
