/*
 * Puts named values into a configuration: what the file, the environment and
 * the flags have in common.
 *
 * Role: core. Owns: nothing. Thread: one owner. Limits: CONFIG_WORKERS_MAX.
 * Errors: lines in struct config_errors.
 */
#ifndef NODE_CONFIG_APPLY_INTERNAL_H
#define NODE_CONFIG_APPLY_INTERNAL_H

#include "node/config/config.h"
#include "node/config/config_error_internal.h"
#include "node/config/config_schema.h"

/* Appends what is in a file that a running node reads, up to buf's bound: one
 * byte over what the caller takes shows that it is too large. What is no regular
 * file might have no end, or wait for whoever writes it. False: the fault was
 * added. */
bool config_read_regular(const char *path, struct buf *bytes,
                         struct config_errors *errors) MUST_CHECK;

/* Stores text as the value of a key in `into` (the struct that the key's schema
 * is of), or adds the fault and leaves it unchanged. */
void config_apply_value(const struct config_key *key, struct slice text,
                        const struct config_place *place, void *into,
                        struct config_errors *errors);

/* Adds the places in text to joins, the value of a CONFIG_PLACES key; or adds
 * the fault and leaves them unchanged. */
void config_apply_place(const struct config_key *key, struct slice text,
                        const struct config_place *place,
                        struct config_joins *joins,
                        struct config_errors *errors);

/*
 * Adds the fault of an unknown name, with a suggestion: a similar name in the
 * same section (`section` is empty at the top), or a key of the same name in
 * another section.
 */
void config_apply_unknown(const struct config_schema *schema,
                          struct slice section, struct slice name,
                          const struct config_place *place,
                          struct config_errors *errors);

/* Appends a worker, whose url is set, to the list; without an id, it gets the
 * url's host:port. A duplicate url or id, and a worker beyond
 * CONFIG_WORKERS_MAX, are faults. */
void config_apply_worker(struct config *config,
                         const struct config_worker *worker,
                         const struct config_place *place,
                         struct config_errors *errors);

/* Frees the list of workers: a later source replaces it as a whole. */
void config_apply_no_workers(struct config *config);

#endif
