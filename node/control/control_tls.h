/*
 * The certificates of the serving port and of those of admin, and what workers' certificates must be:
 * read when the node starts and when its configuration is read again, and
 * published to lanes.
 *
 * Role: shell. Owns: nothing; what is published is the node's. Thread: control.
 * Limits: none. Errors: named outcomes, lines in the log.
 */
#ifndef NODE_CONTROL_TLS_H
#define NODE_CONTROL_TLS_H

#include "index/base/buf.h"
#include "index/base/check.h"
#include "index/base/role.h"
#include "node/config/config.h"
#include "node/route/shared.h"

/* Reads the files, if there are any. 0; or -EINVAL, and the log says why. */
int control_tls_start(struct node_shared *node) ON_CONTROL MUST_CHECK;

struct control_tls {
    struct node_tls *clients; /* NULL: they speak in clear */
    struct node_tls *admin;   /* the same */
    struct node_tls *workers;
};

/* Reads them, and changes nothing. 0 and *fresh, for control_tls_publish() or
 * control_tls_free(); or CONFIG_E_INVALID, and the errors say why. */
int control_tls_read(const struct node_shared *node, struct control_tls *fresh,
                     struct config_errors *errors) ON_CONTROL MUST_CHECK;

/* Of what was not published. */
void control_tls_free(struct control_tls *fresh);

/* Lanes use it for new connections. Takes ownership of what is in *fresh, if
 * there is anything. */
void control_tls_publish(struct node_shared *node, struct control_tls *fresh)
    ON_CONTROL;

/* For the ports of admin: NULL, they speak in clear; good until the next
 * control_tls_publish(). */
const struct sock_tls_context *
control_tls_of_admin(const struct node_shared *node) ON_CONTROL;

/* For connections to workers; good until the next control_tls_publish(). */
const struct sock_tls_context *
control_tls_of_workers(const struct node_shared *node) ON_CONTROL;

/* When the certificates end, for /metrics. mesh_expiry_s: of the one that
 * other nodes are shown, since 1970; 0: none. */
void control_tls_put_metrics(const struct node_shared *node,
                             int64_t mesh_expiry_s, struct buf *out) ON_CONTROL;

#endif
