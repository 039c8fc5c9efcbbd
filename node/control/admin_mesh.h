/*
 * What is known of the other nodes, for /admin/mesh, /admin/status and
 * /metrics. Lists are sorted by names and addresses.
 *
 * Role: shell. Owns: nothing. Thread: control. Limits: those of the lists.
 * Errors: none; without memory to sort a list it is left out.
 */
#ifndef NODE_ADMIN_MESH_H
#define NODE_ADMIN_MESH_H

#include "node/control/admin.h"

/* /admin/mesh */
void admin_put_mesh(struct control *control, struct json_out *json) ON_CONTROL;

/* Of /admin/status: the members `mesh`, `members` and `streams`, short and
 * flat. */
void admin_put_mesh_rows(struct control *control, struct json_out *json)
    ON_CONTROL;

/* The value of a `readers` member: a worker's readers, the first to push
 * first. */
void admin_put_readers(struct control *control, struct json_out *json,
                       uint64_t worker) ON_CONTROL;

/* Appends the mesh's counters, in Prometheus' text format. */
void admin_put_mesh_metrics(struct control *control, struct buf *out)
    ON_CONTROL;

#endif
