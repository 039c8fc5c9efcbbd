/*
 * Where lanes' facts go (facts.h): to belief, the expectations of workers'
 * ranks, the fleet's circuit breakers, the streams that predicted, and the
 * hints for peers. Prefixes wait in `unproven` until their answers begin. A
 * fact about a worker that has gone since the lane wrote it
 * is dropped: slots are reused, and generations distinguish the workers in one
 * slot.
 *
 * Role: core. Owns: nothing. Thread: control. Limits: those of the parts.
 * Errors: below zero -errno; radix_stats() counts what belief refuses.
 */
#ifndef NODE_FACT_SINK_H
#define NODE_FACT_SINK_H

#include "index/base/check.h"
#include "index/base/role.h"
#include "node/control/unproven.h"
#include "node/fleet/fleet.h"
#include "node/ingest/ingest_slots.h"
#include "node/ingest/ingest_stream.h"
#include "node/peers/hints.h"
#include "node/view/facts.h"
#include "node/view/speed.h"
#include "node/view/text_models.h"

/* The parts, all set before the first fact; they outlive it. */
struct fact_sink {
    struct fleet *fleet;
    struct fleet_board *board; /* the fleet's */
    struct radix *belief;
    struct expectations *expected; /* of text; NULL: nothing is */
    struct hints *hints;
    struct ingest_slots *slots;
    struct ingest_streams *streams;
    struct unproven *unproven;
    struct speed *speed;      /* of workers */
    struct text_models *text; /* NULL: nobody learns it */
    bool gathers;             /* facts come in batches: fact_sink_expect() */
};

/* The worker that a fact means, or NULL: it is gone. */
const struct fleet_worker *fact_sink_worker(const struct fact_sink *sink,
                                            uint32_t slot, uint32_t generation);

/* Takes one fact: a record of enum fact_kind, as it stands in the ring. 0, or
 * -ENOMEM: belief has no memory for it, and the rest of it was taken. */
int fact_sink_take(struct fact_sink *sink, const void *record, uint64_t now_us)
    MUST_CHECK ON_CONTROL;

/* The end of a batch. What was sent in it and settled in it, too, was never
 * expected, here or at peers; what is left is from now on. A sink that does not
 * gather does this after each fact. */
void fact_sink_expect(struct fact_sink *sink, uint64_t now_us) ON_CONTROL;

#endif
