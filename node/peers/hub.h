/*
 * The hub: this node's only way into its cluster (mesh/cluster.h) and the
 * gossip and roster inside it, and the only way out.
 *
 * Everything that an input causes comes out before the call returns: the hub
 * makes the call, then pulls outputs until there are none, and hands each to
 * its consumer. No other code pulls, so no caller can forget to.
 *
 *   readings of engines --+                      +--> streams (ingest)
 *   frames, links, time --+--> hub -- cluster -->  +--> network (peers)
 *   workers, claims ------+                      +--> hints, roster
 *
 * Only what can wait until the end of a turn bypasses the hub: this node's
 * operations on the roster, and its gauges and beliefs, are written to
 * cluster_roster() and gossip directly, in any number; the owner of the turns
 * calls hub_pull() once at the end of each.
 *
 * A consumer that carries out an output must not cause the next one. So what it
 * requests in consequence (a reader that begins or ends, a worker that is added
 * or removed, a lookup that could not be begun, a doubted link that breaks) is
 * deferred until there are no outputs, and then done in order. The inputs below
 * that say so may be called from within a consumer; the others may not.
 *
 * Role: core. Owns: the cluster. Thread: one owner. Limits: HUB_TASKS_MAX
 * deferred. Errors: below zero -errno; later failures are faults that are
 * reported to the network's consumer.
 */
#ifndef NODE_HUB_H
#define NODE_HUB_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/role.h"
#include "mesh/mesh.h"

#define HUB_TASKS_MAX  4096U
#define HUB_DOUBTS_MAX MEMBERS_MAX

struct hub;

enum hub_fault {
    HUB_TASKS_FULL,       /* HUB_TASKS_MAX reached: one was dropped */
    HUB_STREAMS_FULL,     /* a worker was not added: too many streams */
    HUB_STREAMS_NO_MEMORY /* the same: out of memory */
};

/* Links, lookups and the log. Required. */
struct hub_network {
    void *context;
    /* A SEND, DROP, RESOLVE, NEWS, MEMBER or READY, carried out before this
     * returns; what it points at is borrowed. */
    void (*out)(void *context, const struct cluster_out *out);
    /* Abort the link to address, which may be dead. No output is being carried
     * out, so its end may be reported at once (hub_link_down()). */
    void (*doubt)(void *context, const char *address);
    /* worker: concerned; 0: none. */
    void (*fault)(void *context, enum hub_fault fault, uint64_t worker);
};

/* What becomes of the streams of workers' events. */
struct hub_streams {
    void *context;
    /* Any of gossip's outputs but SEND and BELIEF, carried out before this
     * returns: by gossip_digest() and gossip_exported() where it asks for it.
     * */
    void (*out)(void *context, const struct gossip_out *out, uint64_t now_us);
    /* Begin (on) or stop reading the events of a worker, by its identity. */
    void (*read)(void *context, uint64_t worker, bool on, uint64_t now_us);
};

/* What peers tell besides events: a GOSSIP_BELIEF. */
struct hub_hints {
    void *context;
    void (*out)(void *context, const struct gossip_out *out, uint64_t now_us);
};

/* The roster's entry differs from the one reported last; its texts are
 * borrowed. */
struct hub_roster {
    void *context;
    void (*changed)(void *context, const struct roster_entry *entry);
};

/* Makes the cluster of this node; nothing comes out before hub_start(). 0 and
 * *out, which the caller hub_free()s, or -errno. */
int hub_new(struct hub **out, const struct cluster_config *config,
            const struct member_self *self, const struct hub_network *network,
            uint64_t now_us, uint64_t seed) MUST_CHECK;

/* NULL is fine. */
void hub_free(struct hub *hub);

/* Registers a consumer; copied. Outputs without a consumer are dropped. Before
 * hub_start(). */
void hub_attach_streams(struct hub *hub, const struct hub_streams *streams);
/* The same, for what peers tell besides events. */
void hub_attach_hints(struct hub *hub, const struct hub_hints *hints);
/* The same, for the roster's entries. */
void hub_attach_roster(struct hub *hub, const struct hub_roster *roster);

/* Starts pulling outputs. After hub_stop() no consumer is called any more, and
 * inputs change only the cluster. */
void hub_start(struct hub *hub, uint64_t now_us) ON_CONTROL;
/* No consumer is called any more. Repeating it is harmless. */
void hub_stop(struct hub *hub);

/* The end of a turn: carries out what was written to the roster, gauges and
 * beliefs. From within a consumer it does nothing, because outputs are being
 * pulled already. */
void hub_pull(struct hub *hub, uint64_t now_us) ON_CONTROL;

/*
 * What this node reads of a stream: gossip_local_begin() and so on, see
 * gossip.h for each. Not from within hub_streams.out().
 */
void hub_local_begin(struct hub *hub, struct event_stream stream,
                     uint64_t process, bool whole, uint64_t ask,
                     uint64_t now_us) ON_CONTROL;
/* The reading's process lives: the answer to that question. */
void hub_local_proved(struct hub *hub, struct event_stream stream, uint64_t ask,
                      uint64_t now_us) ON_CONTROL;
/* A reading continues where a snapshot ended, after the batch `seq`. */
void hub_local_resume(struct hub *hub, struct event_stream stream,
                      uint64_t process, bool whole, uint64_t seq,
                      uint64_t now_us) ON_CONTROL;
/* One batch of the reading, or part of it (last: the end of it). The record
 * is borrowed for the call; fingerprint: of the whole batch. */
void hub_local_record(struct hub *hub, struct event_stream stream,
                      const struct event_record *record, uint64_t fingerprint,
                      bool last, uint64_t now_us) ON_CONTROL;
/* Batches of the reading are missing for good. */
void hub_local_gap(struct hub *hub, struct event_stream stream, uint64_t now_us)
    ON_CONTROL;
/* The reading is proved to follow the living process, or is not. */
void hub_local_live(struct hub *hub, struct event_stream stream, bool live,
                    uint64_t now_us) ON_CONTROL;
/* The node reads the stream no longer. */
void hub_local_end(struct hub *hub, struct event_stream stream, uint64_t now_us)
    ON_CONTROL;
/* What was applied of the stream was lost; it is obtained again. */
void hub_local_lost(struct hub *hub, struct event_stream stream,
                    uint64_t now_us) ON_CONTROL;
/* What was applied of the stream may be wrong, and its names, too. */
void hub_local_doubted(struct hub *hub, struct event_stream stream,
                       uint64_t now_us) ON_CONTROL;

/* Workers whose events some node reads: cluster_worker_add() (island: its label),
 * cluster_worker_remove(), cluster_unable(). Also from within a consumer. */
void hub_worker_add(struct hub *hub, uint64_t worker, uint32_t ranks,
                    struct slice island, uint64_t now_us) ON_CONTROL;
/* No node reads the worker any more; unknown workers are ignored. */
void hub_worker_remove(struct hub *hub, uint64_t worker, uint64_t now_us)
    ON_CONTROL;
/* This node can (not) reach the worker's events. */
void hub_unable(struct hub *hub, uint64_t worker, bool unable, uint64_t now_us)
    ON_CONTROL;

/* The network: frames (0 or a CLUSTER_E_ outcome), links, lookups, time, the
 * goodbye; see cluster.h. Not from within a consumer, except hub_link_down(),
 * which hub_network.doubt() may call. */
int hub_recv(struct hub *hub, uint64_t session, struct slice body,
             uint64_t now_us) MUST_CHECK ON_CONTROL;
/* A link to address came up, to the process of that session. */
void hub_link_up(struct hub *hub, const char *address, uint64_t session,
                 uint64_t now_us) ON_CONTROL;
/* The link to address is gone. hub_network.doubt() may call this. */
void hub_link_down(struct hub *hub, const char *address, uint64_t now_us)
    ON_CONTROL;
/* How a lookup ended. */
void hub_answered(struct hub *hub, const struct discover_answer *answer,
                  uint64_t now_us) ON_CONTROL;
/* Time has passed: to be called at hub_deadline(). */
void hub_tick(struct hub *hub, uint64_t now_us) ON_CONTROL;
/* Says goodbye to the members; its frames are handed out at once. */
void hub_leave(struct hub *hub, uint64_t now_us) ON_CONTROL;

/* The lookup of that ticket could not be begun. Also from within a consumer. */
void hub_lookup_failed(struct hub *hub, uint64_t ticket, uint64_t now_us)
    ON_CONTROL;

/* When hub_tick() is due; UINT64_MAX: never. */
uint64_t hub_deadline(const struct hub *hub);

/* To look at, to write what can wait (above), and to load a snapshot into
 * before hub_start(). */
struct cluster *hub_cluster(const struct hub *hub);
/* The cluster's gossip: to look at, for gauges and beliefs, and to answer
 * hub_streams.out(). */
struct gossip *hub_gossip(const struct hub *hub);

#endif
