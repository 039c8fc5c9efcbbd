/*
 * The serving port's certificate: read when the node starts and when its
 * configuration is read again, and published to lanes.
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

/* Reads them, and changes nothing. 0 and *fresh, which is NULL without files
 * and otherwise for control_tls_publish() or shared_free_tls(); or
 * CONFIG_E_INVALID, and the errors say why. */
int control_tls_read(const struct node_shared *node, struct node_tls **fresh,
                     struct config_errors *errors) ON_CONTROL MUST_CHECK;

/* Lanes use it for new connections. Takes ownership; NULL is fine. */
void control_tls_publish(struct node_shared *node, struct node_tls *fresh)
    ON_CONTROL;

/* When the certificate ends, for /metrics. */
void control_tls_put_metrics(const struct node_shared *node, struct buf *out)
    ON_CONTROL;

#endif
