/*
 * The cluster as one node knows it: discovery, membership, ownership, gossip
 * and the roster of workers, put together, on virtual time.
 *
 * Everything that a mesh decides is decided in here or below; a shell moves
 * the bytes (links), makes the lookups (DNS), reads the engines (intake) and
 * carries out what comes out. `kvasir serve` is one such shell, the simulator
 * is another one, with as many of these in one process as it likes.
 *
 * Names. A process is a member_id drawn at its start; its first word, never 0,
 * is the session of its links and its id as a peer in gossip and roster. A
 * body of a frame starts with a byte that says whose it is.
 *
 * A peer is up for gossip and roster while its link is up and it is a member
 * that counts (alive or suspect).
 *
 * Ownership is per worker: all ranks of a worker are read by the same nodes,
 * the first `replicas` of those able to (all, when there are no more than
 * replicas_all). CLUSTER_READ says when this node is to begin or to stop
 * reading; the hand-over is owner.h's and gossip's. A node that cannot reach a
 * worker's events says so to all (cluster_unable()), and is passed over while
 * anyone else can. While nobody can, its streams count as stale everywhere.
 *
 * Readiness. CATCHING_UP at first. CAUGHT_UP once a peer's vectors were seen
 * and no stream is behind them or being transferred; ALONE when there is
 * nowhere to look for others, or nobody was found for alone_ms; LATE when
 * ready_ms passed before either. It never goes back.
 *
 * Grammar: after each call pull outputs until there are none. What an out asks
 * for may be done before the next pull, by calls in here too; what it points at
 * is good until then. A GOSSIP out is
 * one of gossip's own, to be carried out before the next pull; those of kind
 * GOSSIP_SEND never come here, they are SENDs. The calls of gossip that a
 * shell needs (gossip_local_*, gossip_exported, gossip_digest, gossip_gauge_*,
 * gossip_belief_add, gossip_load, gossip_status, gossip_stats) are made on
 * cluster_gossip() directly; the same for what reads or changes the roster.
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
#include "mesh/member.h"

struct cluster;

struct cluster_config {
    struct member_config member;
    struct discover_config discover;
    struct gossip_config gossip;
    struct roster_config roster;
    uint32_t replicas;     /* nodes that read a worker's events */
    uint32_t replicas_all; /* with no more members than this, all do */
    uint32_t hand_over_ms;
    uint32_t alone_ms;
    uint32_t ready_ms;
};

/* What a node uses unless its configuration says otherwise. */
struct cluster_config cluster_config_default(void);

enum {
    CLUSTER_E_BAD = 1,  /* a body that makes no sense */
    CLUSTER_E_STRANGER, /* from nobody who is up */
    CLUSTER_E_UNKNOWN,  /* of a kind of a later version: skipped */
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
    CLUSTER_SEND,    /* body (head and tail, in a row) to address by channel */
    CLUSTER_DOUBT,   /* the link to address may be dead: our pings failed */
    CLUSTER_DROP,    /* nobody lives at address any more */
    CLUSTER_RESOLVE, /* discover->..: look it up, cluster_answered() */
    CLUSTER_NEWS,    /* discover: for the log */
    CLUSTER_MEMBER,  /* member: for the log. MEMBER_DUPLICATE: stop */
    CLUSTER_READ,    /* begin (on) or stop reading worker's events */
    CLUSTER_GOSSIP,  /* gossip: carry it out */
    CLUSTER_WORKER,  /* entry of the roster changed */
    CLUSTER_READY,   /* ready changed */
};

struct cluster_out {
    enum cluster_out_kind kind;
    enum cluster_channel channel; /* SEND */
    const char *address;          /* SEND, DOUBT, DROP */
    uint8_t head;                 /* SEND: the body's first byte, */
    struct slice tail;            /* ... and what follows it */
    struct discover_out discover; /* RESOLVE, NEWS */
    enum member_event event;      /* MEMBER */
    struct member_update about;   /* MEMBER */
    uint64_t worker;              /* READ: identity */
    bool on;                      /* READ */
    struct gossip_out gossip;     /* GOSSIP */
    struct roster_entry entry;    /* WORKER */
    enum cluster_ready ready;     /* READY */
};

/* 0 and *out, or -ENOMEM. */
int cluster_new(struct cluster **out, const struct cluster_config *config,
                const struct member_self *self, uint64_t now_us, uint64_t seed)
    MUST_CHECK;

/* NULL is fine. */
void cluster_free(struct cluster *cluster);

/* A further place to look for others. 0 or DISCOVER_E_FULL. */
int cluster_join(struct cluster *cluster, const struct discover_join *join,
                 uint64_t now_us) MUST_CHECK;

/* A member of a snapshot may be at address. */
void cluster_hint(struct cluster *cluster, const char *address,
                  uint64_t now_us);

/* Workers whose events are followed, by identity (event_stream.worker): each
 * of ranks 0..ranks-1 is a stream. Again is harmless, and with other ranks
 * changes them. 0, GOSSIP_E_FULL or -ENOMEM. One that is removed is not read
 * any more: no CLUSTER_READ says so. */
int cluster_worker_add(struct cluster *cluster, uint64_t worker, uint32_t ranks,
                       uint64_t now_us) MUST_CHECK;
void cluster_worker_remove(struct cluster *cluster, uint64_t worker,
                           uint64_t now_us);

/* This node can (not) reach the worker's events. Who cannot is passed over, and
 * told to stop reading, until it says that it can. */
void cluster_unable(struct cluster *cluster, uint64_t worker, bool unable,
                    uint64_t now_us);

/* Links, as link.h tells of them; none goes down by CLUSTER_DROP. A body from
 * a peer: 0 or an outcome above. */
void cluster_link_up(struct cluster *cluster, const char *address,
                     uint64_t session, uint64_t now_us);
void cluster_link_down(struct cluster *cluster, const char *address,
                       uint64_t now_us);
int cluster_recv(struct cluster *cluster, const char *address, uint64_t session,
                 struct slice body, uint64_t now_us) MUST_CHECK;

/* How a lookup ended. */
void cluster_answered(struct cluster *cluster,
                      const struct discover_answer *answer, uint64_t now_us);

/* Says goodbye; then only outputs are pulled. */
void cluster_leave(struct cluster *cluster, uint64_t now_us);

/* Lets time pass up to now_us. Times may repeat but not go back. */
void cluster_tick(struct cluster *cluster, uint64_t now_us);

/* When cluster_tick() has something to do; UINT64_MAX: never, once it left. */
uint64_t cluster_deadline(const struct cluster *cluster);

/* The next output; false when there is none. What it points at is good until
 * the next call. */
bool cluster_next_out(struct cluster *cluster, struct cluster_out *out)
    MUST_CHECK;

/* The parts, to read and (gossip, roster) for the calls named above; pull the
 * outputs afterwards. */
struct gossip *cluster_gossip(struct cluster *cluster);
struct roster *cluster_roster(struct cluster *cluster);
const struct member_table *cluster_members(const struct cluster *cluster);
const struct discover *cluster_discover(const struct cluster *cluster);

/* How far this node has caught up with the others. */
enum cluster_ready cluster_ready(const struct cluster *cluster);

/* Who reads a worker's events, in order of rank: names of members, good until
 * the next call; how many. */
uint32_t cluster_readers(const struct cluster *cluster, uint64_t worker,
                         const char **names, uint32_t max);

/* A process id as gossip and roster know it -> the member's name, or NULL. */
const char *cluster_peer_name(const struct cluster *cluster, uint64_t peer);

struct cluster_stats {
    uint64_t frames_in, frames_bad, frames_stranger, frames_unknown;
    uint64_t reads_begun, reads_ended; /* CLUSTER_READ */
    uint32_t peers_up;
    uint32_t reading; /* workers, by this node */
};

/* The counters since cluster_new(), and what there is now. */
void cluster_stats(const struct cluster *cluster, struct cluster_stats *stats);

/* Verifies each invariant of the cluster. False: *reason says which one is
 * broken, static text. */
bool cluster_check(const struct cluster *cluster, const char **reason);

#endif
