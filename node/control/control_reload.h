/*
 * Another configuration while the node runs: read again from where the first
 * one came from, compared, and applied as far as a running node can.
 *
 * Role: shell. Owns: what is in force. Thread: control. Limits: those of the
 * configuration. Errors: named outcomes; then nothing has changed.
 */
#ifndef NODE_CONTROL_RELOAD_H
#define NODE_CONTROL_RELOAD_H

#include "index/base/check.h"
#include "index/base/role.h"
#include "node/config/config.h"
#include "node/control/control.h"
#include "node/text/json_out.h"

struct control_reload;

enum {
    RELOAD_E_INVALID = 1, /* the errors say what */
};

/* now: the node's configuration, which is copied. sources (borrowed): where it
 * came from. 0 and *out, or -ENOMEM. */
int control_reload_new(struct control_reload **out,
                       const struct config_sources *sources,
                       const struct config *now) MUST_CHECK;

/* NULL is fine. */
void control_reload_free(struct control_reload *reload);

/*
 * Reads, compares and applies. Whatever is wrong with it, nothing changes.
 * Workers are added, replaced and removed as by an operator. Puts what was done
 * into json (may be NULL): an object of the keys applied, the keys that need a
 * restart, the models' files that are read again, and the workers; logs the same. 0, RELOAD_E_INVALID and *errors
 * (initialised by this call, the caller's to end), or -errno.
 */
int control_reload(struct control *control, struct json_out *json,
                   struct config_errors *errors) ON_CONTROL MUST_CHECK;

#endif
