/*
 * The rules by which what a request says chooses its model: read when the node
 * starts and with the configuration, published to lanes, counted.
 *
 * Role: shell. Owns: nothing. Thread: control. Limits: node/content/content.h.
 * Errors: lines in struct config_errors.
 */
#ifndef NODE_CONTROL_CONTENT_H
#define NODE_CONTROL_CONTENT_H

#include "index/base/buf.h"
#include "index/base/check.h"
#include "node/config/config.h"
#include "node/content/content.h"
#include "node/route/shared.h"

/* Reads content.file, and changes nothing. 0 and *fresh, which is NULL without
 * content.file; or CONFIG_E_INVALID and faults. */
int control_content_read(const struct node_shared *node, struct content **fresh,
                         struct config_errors *errors) MUST_CHECK;

/* Publishes what was read; its counters begin at 0. NULL: nothing happens. */
void control_content_publish(struct node_shared *node, struct content *fresh);

/* Both, when the node starts. 0; or -EINVAL, and the log says why. */
int control_content_start(struct node_shared *node) MUST_CHECK;

/* Requests by name and rule. */
void control_content_put_metrics(const struct node_shared *node,
                                 struct buf *out);

#endif
