/*
 * /admin/explain of a request whose name stands for models: becomes one for the
 * first model that it would get, as node/edge/naming.c does.
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
#include "node/route/named.h"
#include "node/route/route.h"
#include "node/text/json_out.h"

/* All zero: of no request. */
struct admin_alias {
    struct named named;
    struct slice body; /* that the scratch has read */
    struct buf own;    /* its bytes, if the name stands for models */
};

/*
 * The scratch has read the body of a request of that session. If its
 * name stands for models, reads it again as one for the first. 0, or -ENOMEM.
 * names and the body are borrowed until the next call.
 */
int admin_alias_read(struct admin_alias *alias, const struct named_names *names,
                     const struct content_asked *asked, uint64_t session,
                     struct route_scratch *route) ON_CONTROL MUST_CHECK;

/* The name that the request came with. */
struct slice admin_alias_asked(const struct admin_alias *alias,
                               const struct route_scratch *route);

/* Adds "alias", "content" and "models" (in the order that they are tried) if its
 * name stands for models. */
void admin_alias_put(const struct admin_alias *alias, struct json_out *json)
    ON_CONTROL;

/* Frees what it has. */
void admin_alias_fini(struct admin_alias *alias);

#endif
