/*
 * The node's side of the mesh: the hub (hub.h) and its cluster on the control
 * loop. It moves bodies between the cluster and the links, makes the cluster's
 * lookups, keeps its time, and logs what happens to members, links and names.
 *
 * A node without a mesh port has a cluster too, of one node and without links:
 * engines are read and their events applied in the same way in both cases.
 *
 * Before the loop sleeps, the hub carries out what was written to the roster,
 * gauges and beliefs, and the timer is set, once for the whole turn.
 *
 * Role: shell. Owns: the hub, the links, the resolver, a timer. Thread:
 * control. Limits: those of its parts. Errors: -errno, with one line in the
 * log.
 */
#ifndef NODE_PEERS_H
#define NODE_PEERS_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "index/base/check.h"
#include "index/base/role.h"
#include "mesh/mesh.h"
#include "node/config/config.h"
#include "node/peers/hub.h"
#include "node/peers/resolve.h"

struct peers;

/* None may be NULL. */
struct peers_owner {
    void *context;
    /* How ready the mesh is now. */
    void (*ready)(void *context, enum cluster_ready ready);
    /* Another living node has our name and keeps it; the line is in the log.
     * The node must stop. */
    void (*refused)(void *context);
    /* A peer's bytes are about to be processed: takes the facts that lanes have
     * sent, so that a block is expected before the event that stores it. */
    void (*take_facts)(void *context);
};

/* Since peers_new(). */
struct peers_stats {
    uint64_t sends_refused; /* by a link that is full or not up */
    uint64_t sends_bad;     /* no link can take them */
    uint64_t sends_no_memory;
    uint64_t lookups_full;  /* RESOLVE_E_FULL */
    uint64_t links_missing; /* now: living members without a link for long */
    uint64_t links_retried; /* such links, begun from nothing again */
};

/*
 * Opens the mesh port, if the configuration has one, and makes the cluster. No
 * callback comes before peers_start(). The caller calls peers_stop() for *out
 * and, when the loop has run out, peers_free(). config is borrowed until then.
 */
int peers_new(struct peers **out, uv_loop_t *loop, const struct config *config,
              const struct peers_owner *owner) MUST_CHECK;

/* From now on the owner and the hub's consumers are called. */
void peers_start(struct peers *peers) ON_CONTROL;

/* peers_leave() says goodbye to the other nodes. peers_left() is then true once
 * the goodbye is on its way (or there is nobody to receive it). Both may be
 * called again. */
void peers_leave(struct peers *peers) ON_CONTROL;
bool peers_left(const struct peers *peers) ON_CONTROL;

/* Closes its handles on the loop. No callback follows. peers may be NULL. */
void peers_stop(struct peers *peers) ON_CONTROL;

/* After the loop ended. NULL is fine. */
void peers_free(struct peers *peers);

/* The way into the cluster; peers' own. NULL only if peers_new() failed. */
struct hub *peers_hub(const struct peers *peers);

/* NULL: no mesh port. */
struct mesh_link *peers_link(const struct peers *peers);

/* Where others reach us; NULL: no mesh port. */
const char *peers_address(const struct peers *peers);

/* Copies the counters since peers_new(). */
void peers_stats(const struct peers *peers, struct peers_stats *stats);

#endif
