/*
 * The cluster as one node knows it: discovery, membership, ownership, gossip
 * and the roster of workers, put together on virtual time.
 *
 * This core and the cores below it decide everything that a mesh decides. A
 * shell moves the bytes (links), makes the lookups (DNS), reads the engines
 * (intake) and carries out the outputs. `kvasir serve` is one such shell. The
 * simulator is another; it runs as many clusters in one process as it likes.
 *
 * Names. A process is a member_id drawn at its start. Its first word, never 0,
 * is the session of its links and its peer id in gossip and roster. The first
 * byte of a frame's body says which part the body is for.
 *
 * A peer is up for gossip and roster while its link is up and it is an alive or
 * suspect member.
 *
 * Ownership is per worker: the same nodes read all ranks of a worker, namely
 * the first `replicas` nodes that are able to, those of the worker's island
 * before others (all nodes, when there are no more than replicas_all).
 * CLUSTER_READ tells this node to begin or to stop
 * reading; owner.h and gossip perform the hand-over. A node that cannot reach a
 * worker's events tells all others (cluster_unable()), and is passed over while
 * another node can. While no node can, the worker's streams are stale
 * everywhere.
 *
 * Readiness. A node begins as CATCHING_UP. It is CAUGHT_UP once it has seen a
 * peer's vectors and no stream is behind them or being transferred. It is ALONE
 * when it has nowhere to look for others, or has found nobody for alone_ms. It
 * is LATE when ready_ms passed before either. It never becomes CATCHING_UP
 * again.
 *
 * Grammar: after each call pull outputs until there are none. What an output
 * asks for may be done before the next pull, also by calls of this interface.
 * What an output points at is valid until the next pull. A GOSSIP output is one
 * of gossip's own and must be carried out before the next pull; those of kind
 * GOSSIP_SEND are never handed out, they become SENDs. A shell calls gossip
 * directly on cluster_gossip() (gossip_local_*, gossip_exported, gossip_digest,
 * gossip_gauge_*, gossip_belief_add, gossip_load, gossip_status, gossip_stats),
 * and likewise the roster, to read or change it.
 *
 * Role: core. Owns: all of the above. Thread: one owner. Limits: those of its
 * parts. Errors: named outcomes, -ENOMEM from cluster_new() and
 * cluster_worker_add().
 */
#ifndef MESH_CLUSTER_H
#define MESH_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gossip/gossip.h"
#include "index/base/check.h"
#include "index/base/slice.h"
#include "mesh/discover.h"
#include "mesh/island_path.h"
#include "mesh/member.h"

struct cluster;

struct cluster_config {
    struct member_config member;
    struct discover_config discover;
    struct gossip_config gossip;
    struct roster_config roster;
    uint32_t replicas;     /* nodes that read a worker's events */
    uint32_t replicas_all; /* with at most this many members, all of them
                              read */
    uint32_t hand_over_ms;
    uint32_t alone_ms;
    uint32_t ready_ms;
};

/* What a node uses unless its configuration says otherwise. */
struct cluster_config cluster_config_default(void);

enum {
    CLUSTER_E_BAD = 1,  /* a malformed body */
    CLUSTER_E_STRANGER, /* the sender is no peer that is up */
    CLUSTER_E_UNKNOWN,  /* of a kind that only a later version knows: skipped */
};

enum cluster_ready {
    CLUSTER_CATCHING_UP,
    CLUSTER_CAUGHT_UP,
    CLUSTER_ALONE,
    CLUSTER_LATE,
};

/* "catching up", "caught up", "alone", "late". Static text. */
const char *cluster_ready_name(enum cluster_ready ready);

enum cluster_channel { /* as enum mesh_channel of link.h */
    CLUSTER_CTL,
    CLUSTER_BULK,
};

enum cluster_out_kind {
    CLUSTER_SEND,    /* send body (head, then tail) to address by channel */
    CLUSTER_DOUBT,   /* the link to address may be dead: our pings failed */
    CLUSTER_DROP,    /* no member lives at address any more */
    CLUSTER_RESOLVE, /* look up discover->.., then call cluster_answered() */
    CLUSTER_NEWS,    /* discover: for the log */
    CLUSTER_MEMBER,  /* member: for the log. MEMBER_DUPLICATE: stop */
    CLUSTER_READ,    /* begin (on) or stop reading worker's events */
    CLUSTER_GOSSIP,  /* gossip: carry out its output */
    CLUSTER_WORKER,  /* entry of the roster changed */
    CLUSTER_READY,   /* ready changed */
};

struct cluster_out {
    enum cluster_out_kind kind;
    enum cluster_channel channel; /* SEND */
    const char *address;          /* SEND, DOUBT, DROP */
    uint8_t head;                 /* SEND: the body's first byte */
    struct slice tail;            /* SEND: the rest of the body */
    struct discover_out discover; /* RESOLVE, NEWS */
    enum member_event event;      /* MEMBER */
    struct member_update about;   /* MEMBER */
    uint64_t worker;              /* READ: identity */
    bool on;                      /* READ */
    struct gossip_out gossip;     /* GOSSIP */
    struct roster_entry entry;    /* WORKER */
    enum cluster_ready ready;     /* READY */
};

/* Makes a cluster of this node alone. 0 and *out, or -ENOMEM. */
int cluster_new(struct cluster **out, const struct cluster_config *config,
                const struct member_self *self, uint64_t now_us, uint64_t seed)
    MUST_CHECK;

/* cluster may be NULL. */
void cluster_free(struct cluster *cluster);

/* Adds a place to look for other nodes. 0 or DISCOVER_E_FULL. */
int cluster_join(struct cluster *cluster, const struct discover_join *join,
                 uint64_t now_us) MUST_CHECK;

/* A member may live at address, as a snapshot says. */
void cluster_hint(struct cluster *cluster, const char *address,
                  uint64_t now_us);

/* Adds a worker whose events the mesh follows, by identity
 * (event_stream.worker): each of ranks 0..ranks-1 is a stream. Adding it again
 * is harmless; with another count of ranks or another island it changes these.
 * 0, GOSSIP_E_FULL or -ENOMEM. A removed worker is no longer read, without a
 * CLUSTER_READ. */
int cluster_worker_add(struct cluster *cluster, uint64_t worker, uint32_t ranks,
                       const struct island_path *island, uint64_t now_us)
    MUST_CHECK;
void cluster_worker_remove(struct cluster *cluster, uint64_t worker,
                           uint64_t now_us);

/* unable: this node cannot reach the worker's events. Such a node is passed
 * over and told to stop reading, until it says that it can. */
void cluster_unable(struct cluster *cluster, uint64_t worker, bool unable,
                    uint64_t now_us);

/* Links, as link.h reports them; CLUSTER_DROP causes no cluster_link_down().
 * cluster_recv(): a body from a peer; 0 or an outcome above. */
void cluster_link_up(struct cluster *cluster, const char *address,
                     uint64_t session, uint64_t now_us);
void cluster_link_down(struct cluster *cluster, const char *address,
                       uint64_t now_us);
int cluster_recv(struct cluster *cluster, uint64_t session, struct slice body,
                 uint64_t now_us) MUST_CHECK;

/* The result of a lookup. */
void cluster_answered(struct cluster *cluster,
                      const struct discover_answer *answer, uint64_t now_us);

/* Says goodbye; afterwards only outputs may be pulled. */
void cluster_leave(struct cluster *cluster, uint64_t now_us);

/* Lets time pass up to now_us. Times may repeat but not go back. */
void cluster_tick(struct cluster *cluster, uint64_t now_us);

/* When cluster_tick() is due; UINT64_MAX: never, after it left. */
uint64_t cluster_deadline(const struct cluster *cluster);

/* The next output; false when there is none. What *out points at is valid until
 * the next call. */
bool cluster_next_out(struct cluster *cluster, struct cluster_out *out)
    MUST_CHECK;

/* The parts: to read, and (gossip, roster) for the calls named above; pull the
 * outputs afterwards. */
struct gossip *cluster_gossip(struct cluster *cluster);
struct roster *cluster_roster(struct cluster *cluster);
const struct member_table *cluster_members(const struct cluster *cluster);
const struct discover *cluster_discover(const struct cluster *cluster);

/* How far this node has caught up with its peers. */
enum cluster_ready cluster_ready(const struct cluster *cluster);

/* The readers of a worker's events, in order of rank: names of members, valid
 * until the next call. Returns how many there are. */
uint32_t cluster_readers(const struct cluster *cluster, uint64_t worker,
                         const char **names, uint32_t max);

/* The name of the member with this peer id of gossip and roster, or NULL; its
 * island likewise ("": it told none). */
const char *cluster_peer_name(const struct cluster *cluster, uint64_t peer);
const char *cluster_peer_island(const struct cluster *cluster, uint64_t peer);

struct cluster_stats {
    uint64_t frames_in, frames_bad, frames_stranger, frames_unknown;
    uint64_t reads_begun, reads_ended; /* counted per CLUSTER_READ */
    uint32_t peers_up;
    uint32_t reading; /* workers that this node reads */
};

/* The counters since cluster_new(), and the present sizes. */
void cluster_stats(const struct cluster *cluster, struct cluster_stats *stats);

/* Verifies each invariant of the cluster. False: *reason says which one is
 * broken, static text. */
bool cluster_check(const struct cluster *cluster, const char **reason);

#endif
