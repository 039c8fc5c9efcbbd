/*
 * The cache of answers, as operators see it: what it holds, whether a request
 * may be answered from it, and how it is cleared.
 *
 * Role: shell. Owns: nothing. Thread: control. Limits: none. Errors: none.
 */
#ifndef NODE_CONTROL_CACHE_H
#define NODE_CONTROL_CACHE_H

#include "index/base/buf.h"
#include "index/base/role.h"
#include "node/control/control.h"
#include "node/http/httpd.h"
#include "node/text/json_out.h"

/* Adds "answer_cache" of /admin/status, if there is a cache. */
void control_cache_put(struct control *control, struct json_out *json)
    ON_CONTROL;

/* Adds "answer_cache" of /admin/explain, likewise: whether the request that
 * control->explain has read, with that body, may be answered from it. */
void control_cache_explain(struct control *control, struct slice body,
                           struct json_out *json) ON_CONTROL;

/* Its metrics as Prometheus text, likewise. */
void control_cache_put_metrics(const struct node_shared *node, struct buf *out);

/* POST /admin/answer_cache/clear: all, or what is of the tenant or the model, or
 * both, that the body names; here and, a moment later, on all nodes. */
void control_cache_clear(struct control *control, struct httpd_request *request)
    ON_CONTROL;

/* There is a cache: clears what peers were told to clear. */
void control_cache_hear(struct control *control) ON_CONTROL;

#endif
