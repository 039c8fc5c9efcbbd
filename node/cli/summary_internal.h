/*
 * What a node is as it begins to serve, for its log: the lines start_* that follow
 * `ready`. Each port with what protects it, workers by how their caches are
 * known, where tokens come from, the mesh, the snapshot.
 *
 * Role: shell, for summary_protection() core. Owns: nothing. Thread: control.
 * Limits: workers are named up to SUMMARY_NAMES; the others are counted. Errors:
 * none, without memory a line is shorter.
 */
#ifndef NODE_CLI_SUMMARY_INTERNAL_H
#define NODE_CLI_SUMMARY_INTERNAL_H

#include "index/base/buf.h"
#include "node/control/control.h"

#define SUMMARY_NAMES 8U

enum summary_port {
    SUMMARY_LISTEN,
    SUMMARY_ADMIN,
    SUMMARY_METRICS,
    SUMMARY_EXTPROC,
    SUMMARY_MESH,
};

/* Where the ports are; "": that one is closed. Borrowed. */
struct summary_ports {
    const char *address[SUMMARY_MESH + 1];
};

/* What keeps strangers off, as in the README's table: "TLS, keys", or what of it
 * is missing: "clear text, no keys: whoever reaches it is served". Appended. */
void summary_protection(const struct config *config, enum summary_port port,
                        struct buf *out);

/* The lines, once all ports are open. */
void summary_log(const struct control *control,
                 const struct summary_ports *ports) ON_CONTROL;

#endif
