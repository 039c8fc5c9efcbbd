/*
 * /admin/explain of a request that asks for an alias: becomes one for the first
 * model that it would get, as node/edge/naming.c does.
 *
 * Role: core. Owns: the body with that name. Thread: control. Limits: the admin
 * port's for bodies. Errors: below zero -errno.
 */
#ifndef NODE_ADMIN_ALIAS_H
#define NODE_ADMIN_ALIAS_H

#include <stdint.h>

#include "index/base/buf.h"
#include "index/base/check.h"
#include "index/base/role.h"
#include "index/base/slice.h"
#include "node/config/config.h"
#include "node/route/route.h"
#include "node/text/json_out.h"

/* All zero: of no request. */
struct admin_alias {
    const struct config_alias *alias; /* NULL: it asked for none */
    uint8_t order[CONFIG_ALIAS_TARGETS_MAX];
    struct slice body; /* that the scratch has read */
    struct buf own;    /* its bytes, with an alias */
};

/*
 * The scratch has read the body of a request of that session. If it asks for
 * one of the aliases, reads it again as one for a model. 0, or -ENOMEM. aliases
 * and body are borrowed until the next call.
 */
int admin_alias_read(struct admin_alias *alias,
                     const struct config_aliases *aliases, struct slice body,
                     uint64_t session, struct route_scratch *route)
    ON_CONTROL MUST_CHECK;

/* Adds "alias" and "models" (in the order that they are tried) if it asked for
 * one. */
void admin_alias_put(const struct admin_alias *alias, struct json_out *json)
    ON_CONTROL;

/* Frees what it has. */
void admin_alias_fini(struct admin_alias *alias);

#endif
