/*
 * Checks of who may reach what: the admin port, and the addresses of workers.
 *
 * Role: core, except for config_access_files(), config_check_file() and
 * config_is_pipe(), which ask the file system.
 * Owns: nothing. Thread: any. Limits: none. Errors: lines in struct
 * config_errors.
 */
#ifndef NODE_CONFIG_ACCESS_H
#define NODE_CONFIG_ACCESS_H

#include <stdbool.h>

#include "node/config/config.h"

#define CONFIG_DENIED_MAX 448 /* why a worker is denied, and its NUL */

/* Whether a host is an address of this machine alone. */
bool config_is_loopback(const char *host);

/* Adds a line for each fault: an admin port beyond loopback without tokens
 * unless admin.insecure says so, two ports at one address, a worker at a denied
 * address. */
void config_access_check(const struct config *config,
                         struct config_errors *errors);

/* Adds a line, which begins with the key's name, when the file at path ("": none
 * is wanted) cannot be read. */
void config_check_file(const char *key, const char *path,
                       struct config_errors *errors);

/* Whether a file is a pipe (`<(command)`), whose bytes come once: they are left to
 * the node that uses them. */
bool config_is_pipe(const char *path);

/* Adds a line when the file of tokens cannot be read, or is none, and for files
 * of TLS that a node could not use. */
void config_access_files(const struct config *config,
                         struct config_errors *errors);

/* Whether a worker has a denied address in one of its urls, and which one in
 * which range. Names are resolved, and looked at, later. */
bool config_access_denies(const struct ranges *deny,
                          const struct config_worker *worker,
                          char why[CONFIG_DENIED_MAX]);

#endif
