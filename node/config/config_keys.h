/*
 * The file of keys: who may send requests, and for which models.
 *
 *   tenants:
 *     research:                     # a label; absent: nothing else is served
 *       keys:                       # lines that `kvasir key` makes
 *         - 9f2c41d07a83:sha256:...
 *     shop:
 *       models: [qwen3-8b, 'bge-*'] # absent: all models
 *       keys:
 *         - 07be55a1c2f4:sha256:...
 *         - d4a90c36e81b:sha256:... # two keys, while one replaces the other
 *       weight: 3                   # both as in keys.h
 *       priority: -1
 *       limits:                     # of all nodes together; see limits_rate.h
 *         requests: 600/min         # absent: limits.tenant_requests; none
 *         tokens: 200000/min
 *         concurrent: 16
 *         models:                   # beside the above, and as models
 *           'bge-*': {tokens: 1000000/min}
 *       isolation: strict           # its cache is nobody else's; absent: shared
 *       namespace: shops            # ... but of tenants with the same one;
 *                                   # absent: its name
 *       residency: [eu, us/east]    # islands of workers that may get its
 *                                   # requests; absent: any
 *   isolation_secret: 64 hex digits # with it; the same on all nodes
 *
 * Role: core, except for config_keys_load(), which reads the file. Owns:
 * nothing. Thread: one owner. Limits: those of node/keys/keys.h, and
 * CONFIG_FILE_BYTES_MAX. Errors: lines in struct config_errors.
 */
#ifndef NODE_CONFIG_KEYS_H
#define NODE_CONFIG_KEYS_H

#include "index/base/check.h"
#include "index/base/slice.h"
#include "node/config/config.h"
#include "node/keys/keys.h"

/* Reads any bytes, with `file` as the source of faults. keyless: it may be
 * without any key. before: as keys_new() has it. 0 and *out, the caller's to keys_free(); or CONFIG_E_INVALID. */
int config_keys_read(struct slice bytes, const char *file, bool keyless,
                     const struct keys *before, struct keys **out,
                     struct config_errors *errors) MUST_CHECK;

/* The same with keys.file. */
int config_keys_load(const struct config *config, const struct keys *before,
                     struct keys **out, struct config_errors *errors)
    MUST_CHECK;

/* Adds a line for each fault of keys.file, if there is one. */
void config_keys_check(const struct config *config,
                       struct config_errors *errors);

#endif
