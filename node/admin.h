/*
 * The admin port: what the node knows and does, as JSON and as metrics.
 *
 * Every answer but /metrics is JSON, every list sorted and stable.
 *
 * Role: shell. Owns: nothing. Thread: control.
 * Limits: answers up to ADMIN_BYTES_MAX. Errors: HTTP statuses.
 */
#ifndef NODE_ADMIN_H
#define NODE_ADMIN_H

#include "index/base/buf.h"
#include "index/base/role.h"
#include "node/control.h"
#include "node/json_out.h"

#define ADMIN_BYTES_MAX ((size_t)16 << 20)

/* The httpd handler: context is the struct control. */
void admin_request(void *context, struct httpd_request *request);

/* /admin/status */
void admin_put_status(struct control *control, struct json_out *json)
    ON_CONTROL;

/* /admin/workers */
void admin_put_workers(struct control *control, struct json_out *json)
    ON_CONTROL;

/* /admin/index */
void admin_put_index(struct control *control, struct json_out *json) ON_CONTROL;

/* /admin/decisions: at most `count`, newest first. */
void admin_put_decisions(struct control *control, struct json_out *json,
                         uint32_t count) ON_CONTROL;

/*
 * /admin/explain: where the request in body would go, and why. 0 and an
 * answer, or the status of an error with *fault.
 */
unsigned admin_put_explain(struct control *control, struct slice body,
                           struct json_out *json, char fault[160]) ON_CONTROL;

/* POST /admin/workers: adds the worker that body describes. 0, or the status
 * of an error with *fault. */
unsigned admin_add_worker(struct control *control, struct slice body,
                          char fault[160]) ON_CONTROL;

/* /metrics: Prometheus text. */
void admin_put_metrics(struct control *control, struct buf *out) ON_CONTROL;

#endif
