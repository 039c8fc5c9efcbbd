/*
 * Checks across the keys of the mesh: addresses that others can reach, and TLS.
 *
 * Role: core, except for config_mesh_files() and config_mesh_doubt(), which ask
 * the file system. Owns: nothing. Thread: any. Limits: none. Errors: lines in
 * struct config_errors.
 */
#ifndef NODE_CONFIG_MESH_H
#define NODE_CONFIG_MESH_H

#include <stdbool.h>

#include "node/config/config.h"

/* A node that joins others needs a port of its own: gives it one on loopback if
 * none is configured. */
void config_mesh_complete(struct config_mesh *mesh);

/* Adds a line for each fault: an address that others cannot reach, an
 * incomplete set of TLS keys, a port beyond loopback without TLS unless
 * mesh.insecure says so, a resolver without port. */
void config_mesh_check(const struct config_mesh *mesh,
                       struct config_errors *errors);

/* Adds a line for each file of TLS or of a secret that a node cannot use. */
void config_mesh_files(const struct config_mesh *mesh,
                       struct config_errors *errors);

/* Why the other nodes refuse the certificate, static text; NULL: they do not, or
 * there is none. Reads the files. */
const char *config_mesh_doubt(const struct config_mesh *mesh);

/* Whether it joins others, and has no port for them. */
bool config_mesh_lacks_listen(const struct config_mesh *mesh);

/* Whether links have TLS. */
bool config_mesh_tls(const struct config_mesh *mesh);

#endif
