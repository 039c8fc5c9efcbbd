/*
 * API keys that operators gave to this node and that do not travel, kept by the
 * id of their worker.
 *
 * Role: core. Owns: nothing beside the struct. Thread: control. Limits:
 * WORKERS_MAX keys. Errors: false.
 */
#ifndef NODE_ROSTER_KEYS_INTERNAL_H
#define NODE_ROSTER_KEYS_INTERNAL_H

#include <stdbool.h>

#include "index/base/check.h"
#include "node/config/config.h"

struct roster_key {
    char id[CONFIG_LABEL_MAX]; /* "": the place is free */
    char api_key[CONFIG_SECRET_MAX];
    struct url url; /* that it was given for, as is the next */
    struct url sse;
};

/* All zero is empty. */
struct roster_keys {
    struct roster_key key[WORKERS_MAX];
};

/* Keeps the worker's API key and replaces an earlier one of the same id. False:
 * there is no room. */
bool roster_keys_keep(struct roster_keys *keys,
                      const struct config_worker *worker) MUST_CHECK;

/* Whether a key for a worker with this url and sse may go to that one: an operator
 * may move it, but who names himself (`from`) may not send for another's key. */
bool roster_keys_suit(const struct url *url, const struct url *sse,
                      const struct config_worker *worker);

/* Writes the key of the worker's id into worker->api_key; false: there is none
 * that suits it, and the worker is unchanged. */
bool roster_keys_give(const struct roster_keys *keys,
                      struct config_worker *worker) MUST_CHECK;

/* Wipes the key of that id, if there is one. */
void roster_keys_forget(struct roster_keys *keys, const char *id);

#endif
