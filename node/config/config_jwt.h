/*
 * jwt.*: where the keys of clients' tokens are, and what tokens must say.
 *
 * Role: core, except for what reads the file. Owns: nothing. Thread: any.
 * Limits: those of node/keys/keys_jwks.h. Errors: lines in struct
 * config_errors.
 */
#ifndef NODE_CONFIG_JWT_H
#define NODE_CONFIG_JWT_H

#include <stdbool.h>

#include "index/base/check.h"
#include "node/config/config.h"
#include "node/keys/keys_jwks.h"
#include "node/text/url.h"

/* Whether jwt.jwks is a URL and no file; then *url is it, with its whole path.
 */
bool config_jwt_url(const struct config_jwt *jwt, struct url *url);

/* What tokens must say. */
struct keys_rules config_jwt_rules(const struct config_jwt *jwt);

/* Reads the file of jwt.jwks. The set, the caller's to keys_jwks_free(); or NULL
 * and a fault. */
struct keys_jwks *config_jwt_load(const struct config_jwt *jwt,
                                  struct config_errors *errors) MUST_CHECK;

/* Adds a line for each fault of the values, and of the file. */
void config_jwt_check(const struct config *config,
                      struct config_errors *errors);
void config_jwt_files(const struct config *config,
                      struct config_errors *errors);

#endif
