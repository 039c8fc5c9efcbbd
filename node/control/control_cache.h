/*
 * The cache of answers, as operators see it: what it holds, whether a request
 * may be answered from it. How it is cleared: control_clearing.h.
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
 * control->explain has read, with that body, may be answered from it, and whether
 * Redis would be asked. residency: its tenant's; NULL or "": anywhere. */
void control_cache_explain(struct control *control, const char *residency,
                           struct slice body, struct json_out *json) ON_CONTROL;

/* Its metrics as Prometheus text, likewise. */
void control_cache_put_metrics(const struct node_shared *node, struct buf *out);

#endif
