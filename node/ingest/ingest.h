/*
 * Follows the engines' caches for the control thread: starts and ends event
 * sources, hands what they deliver to gossip and what comes out of gossip to
 * the mirror writer, keeps what is expected in step with the mirror's slots, and says
 * aloud when a worker's events are not what they should be.
 *
 * What is known of a worker's cache is what gossip applies, and nothing else:
 * a batch that was read here takes the same way as one that a peer has read,
 * and so do states that are had whole, and questions to read again. A node
 * that does not read a worker has a sources-less stream of it, fed by peers.
 * How a stream stands is gossip's word, but while this node's own reading
 * leads it: then it is no better than that reading.
 *
 * Whoever owns gossip (peers.h) pulls its outputs when asked to (ingest_owner.pull), and hands those for a node to ingest_out(). No
 * call of gossip is made from within, but the two that answer an output. Time
 * is probe_now_us() for all of them.
 *
 * Role: shell. Owns: the intake, the mirror writer, sidecars' streams.
 * Thread: control. Limits: items per turn, so that probes and the admin port
 * get theirs. Errors: below zero -errno.
 */
#ifndef NODE_INGEST_H
#define NODE_INGEST_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "gossip/gossip.h"
#include "index/base/role.h"
#include "node/events/intake.h"
#include "node/ingest/mirror_writer.h"
#include "node/route/shared.h"
#include "node/view/facts.h"
#include "node/view/fleet_view.h"
#include "storage/storage.h"

struct ingest;

struct ingest_owner {
    void *context;
    /* Takes what lanes have told: called before what engines tell is looked
     * at, so that a block is expected before the event that stores it. (Who
     * hands peers' frames to gossip does the same before.) */
    void (*take_facts)(void *context);
    /* Gossip was called: pulls until there is nothing. */
    void (*pull)(void *context);
    /* This node can (not) reach a worker's events (ingest_reach.h); may call
     * ingest_read() at once. */
    void (*unable)(void *context, uint64_t worker, bool unable);
    /* The ledger's cut of that number ended, and all that it told by then is
     * applied. */
    void (*cut)(void *context, uint64_t number);
    struct gossip *gossip; /* outlives the ingest */
};

/* Makes the mirror writer and the intake. The loop is control's. 0 and *out, or
 * -errno. */
int ingest_new(struct ingest **out, struct node_shared *node, uv_loop_t *loop,
               const struct ingest_owner *owner, uint64_t seed) MUST_CHECK;

/* The intake's, for what is put into it before the start. */
struct intake *ingest_own_intake(struct ingest *ingest) ON_CONTROL;

/* The intake begins to read. 0, or -errno. */
int ingest_start(struct ingest *ingest) ON_CONTROL MUST_CHECK;

/* Ends the sources; the loop then runs out of its handles. Gossip is not
 * called any more. NULL is fine. */
void ingest_stop(struct ingest *ingest) ON_CONTROL;

/* After the loop ended and the lanes are gone. NULL is fine. */
void ingest_free(struct ingest *ingest);

/* A worker came, before its streams are added to gossip; or went, after they
 * were removed. */
void ingest_added(struct ingest *ingest, const struct fleet_worker *worker)
    ON_CONTROL;
void ingest_removed(struct ingest *ingest, const struct fleet_worker *worker)
    ON_CONTROL;

/* Whether a worker has events to be followed: whether gossip is to have
 * streams of it. */
bool ingest_has_events(const struct fleet_worker *worker);

/* This node begins (on) or stops reading the events of the worker of that
 * identity; once more is fine. May be called while outputs are pulled, too. */
void ingest_read(struct ingest *ingest, uint64_t worker, bool on) ON_CONTROL;

/* Carries out one of gossip's outputs (any kind but SEND and BELIEF, which are
 * ignored), before the next one is pulled. */
void ingest_out(struct ingest *ingest, const struct gossip_out *out) ON_CONTROL;

/* One stream as a snapshot has it, and up to where; false: it has none now,
 * since not all of it is known, or the at-th is not there. cut: the number of the
 * ledger's, 0: none; what is read here of the stream is as that cut has it, and
 * without a ledger if it began anew since (its bytes are good until the next
 * item). more: there are further ones. */
bool ingest_image(const struct ingest *ingest, uint32_t at, uint64_t cut,
                  struct storage_stream *stream, bool *more) ON_CONTROL;

/* What a snapshot had, of a stream that gossip has and nothing was told of:
 * goes on from there. False: there is no such stream, and the slot is still the
 * caller's. */
bool ingest_restore(struct ingest *ingest, const struct storage_stream *stream)
    ON_CONTROL MUST_CHECK;

/* A lane sent these blocks of tokens to a slot of the mirror. */
void ingest_expect(struct ingest *ingest, const struct fact_learn *fact,
                   uint64_t now_us) ON_CONTROL;

/* A request ended: was its prediction right? */
void ingest_answer(struct ingest *ingest, const struct fact_decision *fact,
                   uint64_t now_us) ON_CONTROL;

/* Background work, every few milliseconds; true when there is more. */
bool ingest_work(struct ingest *ingest, uint64_t now_us) ON_CONTROL;

/* For status and metrics. */
const struct mirror_writer *ingest_writer(const struct ingest *ingest);
const struct intake *ingest_intake(const struct ingest *ingest);

#endif
