/*
 * What every walk over a YAML tree does: places, faults, keys and their values.
 *
 * Role: core. Owns: nothing. Thread: one owner. Limits: none. Errors: lines in
 * struct config_errors.
 */
#ifndef NODE_CONFIG_WALK_INTERNAL_H
#define NODE_CONFIG_WALK_INTERNAL_H

#include "node/config/config_error_internal.h"
#include "node/config/config_yaml_internal.h"

/* What one walk over a tree carries along; all borrowed. */
struct config_walk {
    const struct config_yaml *yaml;
    const char *file; /* the source of faults */
    struct config_errors *errors;
};

/* Where a node was written. */
struct config_place config_walk_place(const struct config_walk *walk,
                                      const struct config_yaml_node *node);

/* False, and a fault, if *line says that the key occurred before; otherwise
 * *line is the key's. */
bool config_walk_first(const struct config_walk *walk,
                       const struct config_yaml_node *node, uint32_t *line);

/* A fault that says what was expected instead of this node. */
void config_walk_wrong(const struct config_walk *walk,
                       const struct config_yaml_node *node, const char *name,
                       const char *want);

/* The next key of a mapping and its value, from *at on, which is moved behind
 * them; NULL at its end. A key that is not text is a fault and passed over; so
 * is a key whose value was never read. */
const struct config_yaml_node *
config_walk_pair(const struct config_walk *walk, uint32_t *at,
                 const struct config_yaml_node **value);

#endif
