/*
 * Streams that go on at another worker, as operators see them: whether a request's
 * may, and if not, why.
 *
 * Role: shell. Owns: nothing. Thread: control. Limits: none. Errors: none.
 */
#ifndef NODE_CONTROL_RESUME_H
#define NODE_CONTROL_RESUME_H

#include "index/base/role.h"
#include "node/control/control.h"
#include "node/route/route.h"
#include "node/text/json_out.h"

/* Adds "resume" of /admin/explain, of the request that control->explain has read,
 * with that body, and that would go to that worker (WORKER_NONE: to none). */
void control_resume_explain(struct control *control,
                            const struct route_world *world, uint32_t worker,
                            struct slice body, struct json_out *json)
    ON_CONTROL;

#endif
