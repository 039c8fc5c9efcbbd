/*
 * The keys of a Redis that nodes share answers by: whether they fit together, and
 * its file.
 *
 * Role: core, but for reading the file. Owns: nothing. Thread: one owner. Limits:
 * those of redis_place.h. Errors: lines of the configuration's.
 */
#ifndef NODE_CONFIG_REDIS_H
#define NODE_CONFIG_REDIS_H

#include "node/config/config.h"

/* Adds what does not fit, and whether those of semantic hits do. */
void config_redis_check(const struct config_answer_cache *cache,
                        struct config_errors *errors);

/* Reads the file, if there is one, and adds what is wrong with it. */
void config_redis_files(const struct config_answer_cache *cache,
                        struct config_errors *errors);

#endif
