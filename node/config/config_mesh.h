/*
 * What ties the keys of the mesh together.
 *
 * Role: core, but for config_mesh_files(), which asks the file system.
 * Owns: nothing. Thread: any. Limits: none. Errors: lines in struct
 * config_errors.
 */
#ifndef NODE_CONFIG_MESH_H
#define NODE_CONFIG_MESH_H

#include <stdbool.h>

#include "node/config/config.h"

/* Who is to join others has to be found by them: a port, on loopback. */
void config_mesh_complete(struct config_mesh *mesh);

/* Addresses that others can reach, TLS whole or not at all, and not without it
 * where others are, unless told so. */
void config_mesh_check(const struct config_mesh *mesh,
                       struct config_errors *errors);

/* The files of TLS can be read. */
void config_mesh_files(const struct config_mesh *mesh,
                       struct config_errors *errors);

/* Whether links are to have TLS. */
bool config_mesh_tls(const struct config_mesh *mesh);

#endif
