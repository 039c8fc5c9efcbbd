/*
 * The node's side of the mesh: one cluster (mesh/cluster.h) on the control
 * loop. Moves bodies between it and the links, makes its lookups, keeps its
 * time, says in the log what it says, and hands the rest to the owner.
 *
 * A node without a mesh port has a cluster too, of one, and no links: what
 * reads engines and applies their events does so the same way in both cases.
 *
 * Outputs are pulled after each call, and until there are none before the next
 * one, as the cores want it. So who calls the cluster or one of its parts
 * calls peers_pull() then; from within a callback it does nothing, for the
 * outputs are being pulled. What would be a call of its own (a reader that
 * begins or ends, a worker that comes or goes, a doubted link that breaks) is
 * put off until they are.
 *
 * Role: shell. Owns: the cluster, the links, the resolver, a timer.
 * Thread: control. Limits: those of its parts; PEERS_TASKS_MAX put off.
 * Errors: -errno, with one line in the log.
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
#include "node/peers/resolve.h"

#define PEERS_TASKS_MAX 4096U

struct peers;

/* None may be NULL. */
struct peers_owner {
    void *context;
    /* Begin (on) or stop reading the events of a worker, by its identity. */
    void (*read)(void *context, uint64_t worker, bool on);
    /* One of gossip's outputs, to be carried out before this returns; never a
     * GOSSIP_SEND. */
    void (*gossip)(void *context, const struct gossip_out *out);
    /* The roster's entry is not as it was told last; texts are borrowed. */
    void (*worker)(void *context, const struct roster_entry *entry);
    /* How ready the mesh is now. */
    void (*ready)(void *context, enum cluster_ready ready);
    /* Our name is that of another living node, which keeps it; the line is in
     * the log. The node is to stop. */
    void (*refused)(void *context);
    /* A peer's bytes are about to be looked at: what lanes have told is taken
     * first, so that a block is expected before the event that stores it. */
    void (*take_facts)(void *context);
};

/* Since peers_new(). */
struct peers_stats {
    uint64_t sends_refused; /* by a link that is full or not up */
    uint64_t sends_bad;     /* no link can take them */
    uint64_t sends_no_memory;
    uint64_t lookups_full; /* RESOLVE_E_FULL */
};

/*
 * Opens the mesh port, if the configuration has one, and makes the cluster.
 * Nothing is told to the owner before peers_start(). *out is the caller's to
 * peers_stop() and, when the loop has run out, peers_free(). config is borrowed
 * until then.
 */
int peers_new(struct peers **out, uv_loop_t *loop, const struct config *config,
              const struct peers_owner *owner) MUST_CHECK;

/* From now on the owner is told. */
void peers_start(struct peers *peers) ON_CONTROL;

/* Carries out what the cluster has to do, until there is nothing. */
void peers_pull(struct peers *peers) ON_CONTROL;

/* A worker whose events are followed came or went: cluster_worker_add() and
 * cluster_worker_remove(), also from within a callback. */
void peers_worker_add(struct peers *peers, uint64_t worker, uint32_t ranks)
    ON_CONTROL;
void peers_worker_remove(struct peers *peers, uint64_t worker) ON_CONTROL;

/* This node can (not) reach the worker's events; the same. */
void peers_unable(struct peers *peers, uint64_t worker, bool unable) ON_CONTROL;

/* Says goodbye to the others. Then true once it is on its way (or there is
 * nobody to say it to). Both may be called again. */
void peers_leave(struct peers *peers) ON_CONTROL;
bool peers_left(const struct peers *peers) ON_CONTROL;

/* Closes what it has on the loop. No callback follows. NULL is fine. */
void peers_stop(struct peers *peers) ON_CONTROL;

/* After the loop ended. NULL is fine. */
void peers_free(struct peers *peers);

/* To call what cluster.h says, and to look at it. */
struct cluster *peers_cluster(const struct peers *peers);

/* NULL: no mesh port. */
struct mesh_link *peers_link(const struct peers *peers);

/* Where others reach us; NULL: no mesh port. */
const char *peers_address(const struct peers *peers);

void peers_stats(const struct peers *peers, struct peers_stats *stats);

#endif
