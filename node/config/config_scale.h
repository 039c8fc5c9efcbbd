/*
 * Who makes engines and ends them (scale.mode: act), in one pool or several: a
 * hook, a command, or a StatefulSet of Kubernetes.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: those of the keys. Errors:
 * lines in config_errors.
 */
#ifndef NODE_CONFIG_SCALE_H
#define NODE_CONFIG_SCALE_H

#include "index/base/buf.h"
#include "node/config/config.h"

/* Adds a line for each fault: what acts needs one of the three for each pool,
 * and in a mesh a quorum. */
void config_scale_check(const struct config *config,
                        struct config_errors *errors);

/* The pools that engines are asked of: those that have names, or the one of the
 * keys of scale itself, whose name is "". */
uint32_t config_scale_count(const struct config_scale *scale);
const struct config_scale_pool *
config_scale_at(const struct config_scale *scale, uint32_t at);
/* That of the name; NULL: there is none. */
const struct config_scale_pool *
config_scale_find(const struct config_scale *scale, const char *name);

/* Who does it, for people: "scale.hook", "scale.command", "scale.kubernetes",
 * "scale.pools", or "". Static text. */
const char *config_scale_by(const struct config_scale *scale);
/* The same of one pool: "hook", "command", "kubernetes", or "". */
const char *config_scale_pool_by(const struct config_scale_pool *pool);

/* What an engine costs an hour: scale.price, or the least price of the pools; 0: it
 * is not told. */
uint32_t config_scale_price(const struct config_scale *scale);

/* Whether programs are run: scale.command, or that of a pool. */
bool config_scale_runs(const struct config_scale *scale);

/* The StatefulSet: its namespace ("": the pod's own) and name; both point into
 * the configuration. False: it is none. */
bool config_scale_kube(const struct config_scale_pool *pool,
                       struct slice *space, struct slice *name) MUST_CHECK;

/* Its pod of that number as a worker, as --worker has it. */
void config_scale_worker(const struct config_scale_pool *pool, uint32_t number,
                         struct buf *out);

#endif
