/*
 * Who makes engines and ends them (scale.mode: act): a hook, a command, or a
 * StatefulSet of Kubernetes.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: those of the keys. Errors:
 * lines in config_errors.
 */
#ifndef NODE_CONFIG_SCALE_H
#define NODE_CONFIG_SCALE_H

#include "index/base/buf.h"
#include "node/config/config.h"

/* Adds a line for each fault: what acts needs one of the three, and in a mesh a
 * quorum. */
void config_scale_check(const struct config *config,
                        struct config_errors *errors);

/* Who does it, for people: "scale.hook", "scale.command", "scale.kubernetes",
 * or "". Static text. */
const char *config_scale_by(const struct config_scale *scale);

/* The StatefulSet: its namespace ("": the pod's own) and name; both point into
 * the configuration. False: it is none. */
bool config_scale_kube(const struct config_scale *scale, struct slice *space,
                       struct slice *name) MUST_CHECK;

/* The pod of that number as a worker, as --worker has it. */
void config_scale_worker(const struct config_scale *scale, uint32_t number,
                         struct buf *out);

#endif
