/*
 * A worker as the roster carries it: all its keys but the id, which is the
 * entry's own. The spec is lines of key=value, in the order of the
 * configuration's table, without defaults: the same worker is the same bytes on
 * all nodes. Unknown keys come from a later version and are skipped; the roster
 * keeps them, as it keeps the bytes.
 *
 * API keys travel only with `secrets`: where links have TLS. Otherwise they are
 * neither written nor read, and stay on the node that was given them.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: ROSTER_SPEC_MAX. Errors:
 * lines in struct config_errors.
 */
#ifndef NODE_ROSTER_SPEC_INTERNAL_H
#define NODE_ROSTER_SPEC_INTERNAL_H

#include <stdbool.h>

#include "gossip/gossip.h"
#include "index/base/buf.h"
#include "index/base/check.h"
#include "node/config/config.h"

/* Appends the worker's spec; out->failed when there is no room or no memory. */
void roster_spec_put(const struct config_worker *worker, bool secrets,
                     struct buf *out);

/*
 * Reads the spec of the entry `id`: any bytes, borrowed for the call. An
 * invalid value of a known key is a fault, and so is a worker without url.
 * Faults are added to errors. 0, or CONFIG_E_INVALID (and *worker is
 * undefined).
 */
int roster_spec_get(const char *id, struct slice spec, bool secrets,
                    struct config_worker *worker, struct config_errors *errors)
    MUST_CHECK;

#endif
