/*
 * Ingest: what is known of engines' caches, on the control thread. It starts
 * and ends event sources, passes their items to the streams (ingest_stream.h),
 * which lead through gossip into the mirror, keeps the expectations in step
 * with the mirror's slots (ingest_slots.h), and logs when a worker's events are
 * not what they should be.
 *
 * What is known of a worker's cache is what gossip applies, and nothing else. A
 * batch that was read here takes the same way as one that a peer read; so do
 * transferred states, and requests to read again. A node that does not read a
 * worker has streams of it without a source, which its peers supply. Time is
 * probe_now_us() for all of them.
 *
 * Role: shell. Owns: the intake, the mirror writer, sidecars' streams. Thread:
 * control. Limits: items per turn, so that probes and the admin port get their
 * turns. Errors: below zero -errno.
 */
#ifndef NODE_INGEST_H
#define NODE_INGEST_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "gossip/gossip.h"
#include "index/base/role.h"
#include "node/events/intake.h"
#include "node/events/kv_sse_link.h"
#include "node/ingest/ingest_name.h"
#include "node/ingest/ingest_slots.h"
#include "node/ingest/ingest_stream.h"
#include "node/ingest/mirror_writer.h"
#include "node/peers/hub.h"
#include "node/route/shared.h"
#include "node/view/facts.h"
#include "node/view/fleet_view.h"
#include "storage/storage.h"

struct ingest;

struct ingest_owner {
    void *context;
    /* Takes the facts that lanes have sent: called before engines' items are
     * processed, so that a block is expected before the event that stores it.
     * (The owner does the same before it passes peers' frames to gossip.) */
    void (*take_facts)(void *context);
    /* The ledger's cut of that number ended, and everything that the ledger
     * sent by then is applied. */
    void (*cut)(void *context, uint64_t number);
    struct hub *hub; /* outlives the ingest */
};

/* Makes the mirror writer and the intake. The loop is control's. 0 and *out, or
 * -errno. */
int ingest_new(struct ingest **out, struct node_shared *node, uv_loop_t *loop,
               const struct ingest_owner *owner, uint64_t seed) MUST_CHECK;

/* The intake, for what must be loaded into it before the start. */
struct intake *ingest_own_intake(struct ingest *ingest) ON_CONTROL;

/* The intake begins to read. 0, or -errno. */
int ingest_start(struct ingest *ingest) ON_CONTROL MUST_CHECK;

/* Ends the sources; the loop then closes its handles. Gossip is not called any
 * more. ingest may be NULL. */
void ingest_stop(struct ingest *ingest) ON_CONTROL;

/* After the loop ended and the lanes are gone. NULL is fine. */
void ingest_free(struct ingest *ingest);

/* A worker was added: its streams are added here and in the cluster. */
void ingest_added(struct ingest *ingest, const struct fleet_worker *worker)
    ON_CONTROL;
/* A worker was removed: its source is closed, and its streams are removed here
 * and in the cluster. */
void ingest_removed(struct ingest *ingest, const struct fleet_worker *worker)
    ON_CONTROL;

/* Whether a worker has events that can be followed, so that gossip must have
 * streams for it. */
bool ingest_has_events(const struct fleet_worker *worker);

/* Why the worker's events are not followed or not used, though it is well: those
 * before it by id have all places (ingest_room.h), or smaller grains (shape.h)
 * have all groups. Static text; NULL: they are used. worker: its slot. */
const char *ingest_left_out(const struct ingest *ingest, uint32_t worker)
    ON_CONTROL;

/* One stream and its position, for a snapshot. False: it has none now, because
 * it is not complete, or the at-th does not exist. cut: the number of the
 * ledger's cut, 0: none. What is read here of the stream is as of that cut; it
 * is left empty if the stream began again since (its bytes are valid until the
 * next item). more: further streams follow. */
bool ingest_image(const struct ingest *ingest, uint32_t at, uint64_t cut,
                  struct storage_stream *stream, bool *more) ON_CONTROL;

/* Continues a stream from a snapshot; gossip must have the stream and know
 * nothing of it yet. False: there is no such stream, and the caller keeps the
 * slot. */
bool ingest_restore(struct ingest *ingest, const struct storage_stream *stream)
    ON_CONTROL MUST_CHECK;

/* A request ended: checks what that says about a silent worker. fact->slot: of
 * a present worker. */
void ingest_answered(struct ingest *ingest, const struct fact_decision *fact)
    ON_CONTROL;

/* Background work, every few milliseconds; true when there is more. */
bool ingest_work(struct ingest *ingest, uint64_t now_us) ON_CONTROL;

/* Its cores, to tell them what lanes say. */
struct ingest_streams *ingest_streams(struct ingest *ingest);
/* Which slots something may be expected of. */
struct ingest_slots *ingest_slots(struct ingest *ingest);

/* For status and metrics. */
const struct mirror_writer *ingest_writer(const struct ingest *ingest);
/* Where the name of a worker's socket leads, for status. */
const struct ingest_name *ingest_name_of(const struct ingest *ingest,
                                         uint32_t worker,
                                         enum intake_place place) ON_CONTROL;
/* For status and metrics; NULL after ingest_stop(). */
const struct intake *ingest_intake(const struct ingest *ingest);
/* The counters of the connection to a worker's sidecar, good until the next
 * call; NULL when there is none. */
const struct kv_sse_stats *ingest_sse_stats(const struct ingest *ingest,
                                            uint32_t worker);

#endif
