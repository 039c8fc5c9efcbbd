/*
 * Reads YAML into a small tree that knows the position of everything.
 *
 * It reads the part of YAML that a configuration needs: mappings, lists and
 * scalars in one document. Anchors, aliases and tags are faults, so no input
 * grows while it is read. It uses libyaml's events instead of its document API,
 * because that API resolves aliases before the caller can see them, and drops
 * everything when the last line has a fault; here everything before the fault
 * is still checked.
 *
 * Role: core. Owns: nodes and their text. Thread: one owner. Limits:
 * CONFIG_YAML_DEPTH_MAX, CONFIG_YAML_NODES_MAX; the caller bounds a file's
 * size. Errors: lines in struct config_errors.
 */
#ifndef NODE_CONFIG_YAML_INTERNAL_H
#define NODE_CONFIG_YAML_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/buf.h"
#include "index/base/check.h"
#include "index/base/slice.h"
#include "node/config/config.h"

#define CONFIG_YAML_DEPTH_MAX 8
#define CONFIG_YAML_NODES_MAX 20000

enum config_yaml_kind {
    CONFIG_YAML_NULL, /* nothing, ~ or null */
    CONFIG_YAML_SCALAR,
    CONFIG_YAML_REFUSED, /* an alias; its fault was added already */
    CONFIG_YAML_LIST,
    CONFIG_YAML_MAPPING, /* children alternate: key, value, key, value */
};

struct config_yaml_node {
    enum config_yaml_kind kind;
    uint32_t line;   /* from 1 */
    uint32_t column; /* from 1, in characters */
    uint32_t text_at;
    uint32_t text_len;
    uint32_t first; /* child, or 0: none */
    uint32_t next;  /* sibling, or 0: none */
};

struct config_yaml {
    struct config_yaml_node *nodes; /* nodes[0] is not used */
    uint32_t count;                 /* nodes[0] included */
    uint32_t size;
    uint32_t root; /* 0: the document is empty */
    bool whole;    /* false: reading stopped at a fault */
    struct buf text;
};

/*
 * Reads any bytes, borrowed for the call, at most CONFIG_FILE_BYTES_MAX. Faults
 * are added to errors, with `file` as their source. *yaml holds what was read
 * before reading stopped, and is the caller's to config_yaml_fini().
 */
void config_yaml_read(struct config_yaml *yaml, const char *file,
                      struct slice bytes, struct config_errors *errors);

/* Frees the tree. */
void config_yaml_fini(struct config_yaml *yaml);

/* The node at that index (not 0, below count), good until
 * config_yaml_fini(). */
const struct config_yaml_node *config_yaml_node(const struct config_yaml *yaml,
                                                uint32_t at);

/* A scalar's text, good until config_yaml_fini(); empty for other kinds. */
struct slice config_yaml_text(const struct config_yaml *yaml,
                              const struct config_yaml_node *node);

/* "nothing", "a list", "a mapping", or "text". Static text. */
const char *config_yaml_kind_text(enum config_yaml_kind kind);

#endif
