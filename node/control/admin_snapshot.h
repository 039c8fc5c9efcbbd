/*
 * The snapshots' part of the admin port.
 *
 * Role: shell. Owns: nothing. Thread: control.
 */
#ifndef NODE_ADMIN_SNAPSHOT_H
#define NODE_ADMIN_SNAPSHOT_H

#include "index/base/buf.h"
#include "node/control/control.h"
#include "node/text/json_out.h"

/* The member `snapshot` of /admin/status; null where none are taken. */
void admin_put_snapshot(struct control *control, struct json_out *json)
    ON_CONTROL;

/* kvasir_snapshot_* */
void admin_put_snapshot_metrics(struct control *control, struct buf *out)
    ON_CONTROL;

/* POST /admin/snapshot: answers once one was taken, or failed. */
void admin_snapshot(struct control *control, struct httpd_request *request)
    ON_CONTROL;

/* The client of a request that admin_snapshot() has is gone. */
void admin_snapshot_gone(struct control *control, struct httpd_request *request)
    ON_CONTROL;

#endif
