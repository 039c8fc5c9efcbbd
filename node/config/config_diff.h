/*
 * What differs between the configuration in force and one that is wanted
 * instead, and which of it a running node can take over.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: those of struct config.
 * Errors: none.
 */
#ifndef NODE_CONFIG_DIFF_H
#define NODE_CONFIG_DIFF_H

#include <stdbool.h>
#include <stdint.h>

#include "node/config/config.h"
#include "node/config/config_schema.h"

enum config_worker_change {
    CONFIG_WORKER_SAME,
    CONFIG_WORKER_ADDED,
    CONFIG_WORKER_CHANGED, /* its id is there, with something else about it */
};

struct config_diff {
    bool changed[CONFIG_KEYS_MAX]; /* by row of config_schema_node */
    uint32_t live_count;           /* of these, config_key_is_live() */
    uint32_t restart_count;        /* the others */
    enum config_worker_change
        worker[CONFIG_WORKERS_MAX]; /* by place in `wanted` */
    bool gone[CONFIG_WORKERS_MAX];  /* by place in `now` */
    uint32_t workers_count;         /* added, changed or gone */
};

/* Whether a running node takes over another value of this key. */
bool config_key_is_live(const struct config_key *key);

/* Compares all keys and all workers, these by their ids. */
void config_diff(const struct config *now, const struct config *wanted,
                 struct config_diff *diff);

/* Copies the changed live keys of `wanted` into *into, and nothing else. */
void config_diff_take(const struct config_diff *diff,
                      const struct config *wanted, struct config *into);

#endif
