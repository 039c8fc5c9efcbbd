/*
 * Workers of the list that name others (`from`).
 *
 * Role: core. Owns: nothing. Thread: any. Errors: lines in struct
 * config_errors.
 */
#ifndef NODE_CONFIG_FROM_INTERNAL_H
#define NODE_CONFIG_FROM_INTERNAL_H

#include <stdbool.h>

#include "index/base/check.h"
#include "node/config/config.h"
#include "node/config/config_error_internal.h"

/* Whether the text begins as a `from` does, so that it is meant to be one. */
bool config_from_is(struct slice text);

/* Checks a worker with a `from`, and gives it an id where it has none. 0, or
 * CONFIG_E_INVALID and a fault. */
int config_from_end(struct config_worker *worker,
                    const struct config_place *place,
                    struct config_errors *errors) MUST_CHECK;

/* Checks that a worker without `from` has nothing that only others may. False:
 * a fault. */
bool config_from_lacks(const struct config_worker *worker,
                       const struct config_place *place,
                       struct config_errors *errors) MUST_CHECK;

#endif
