/*
 * Warnings about workers, in the log: what is allowed, and probably not meant.
 *
 * Role: shell. Owns: nothing. Thread: control. Errors: none.
 */
#ifndef NODE_CONTROL_WARN_H
#define NODE_CONTROL_WARN_H

#include "index/base/role.h"
#include "node/control/control.h"

/* Requests of people whom nobody knows are sent with the worker's key. Once is
 * loud enough. */
void control_warn_of_key(struct control *control,
                         const struct fleet_worker *worker) ON_CONTROL;

/* The worker's engine does not keep isolated tenants' prompts apart. */
void control_warn_of_engine(struct control *control,
                            const struct fleet_worker *worker) ON_CONTROL;

/* Keys were read that isolate tenants, and those before did not: names the
 * workers whose engines cannot, as each is named once it is recognised. */
void control_warn_of_sharing(struct control *control) ON_CONTROL;

#endif
