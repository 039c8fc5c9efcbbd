/*
 * The keys of the node's tenants: read when it starts and when its configuration
 * is read again, and published to lanes.
 *
 * Role: shell. Owns: nothing; what is published is the node's. Thread: control.
 * Limits: those of node/keys/keys.h. Errors: named outcomes, lines in the log.
 */
#ifndef NODE_CONTROL_KEYS_H
#define NODE_CONTROL_KEYS_H

#include "index/base/buf.h"
#include "index/base/check.h"
#include "index/base/role.h"
#include "node/config/config.h"
#include "node/route/shared.h"

/* Reads keys.file, if there is one. 0; or -EINVAL, and the log says why. */
int control_keys_start(struct node_shared *node) ON_CONTROL MUST_CHECK;

/* Reads it, and changes nothing. 0 and *fresh, which is NULL without keys.file
 * and otherwise for control_keys_publish() or keys_free(); or CONFIG_E_INVALID,
 * and the errors say why. */
int control_keys_read(const struct node_shared *node, struct keys **fresh,
                      struct config_errors *errors) ON_CONTROL MUST_CHECK;

/* Lanes go by these keys from their next request on. Takes ownership; NULL is
 * fine. */
void control_keys_publish(struct node_shared *node, struct keys *fresh)
    ON_CONTROL;

/* A tenant's name, good until the keys are read again. */
const char *control_keys_tenant(const struct node_shared *node, uint32_t tenant)
    ON_CONTROL;

/* What each tenant has asked for, for /metrics. */
void control_keys_put_metrics(const struct node_shared *node, struct buf *out)
    ON_CONTROL;

#endif
