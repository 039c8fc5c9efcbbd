/*
 * Which slots of the mirror something may be expected of, and what lanes say
 * that they sent there.
 *
 * A slot is admitted while lanes see it in the published view of the mirror.
 * One that leaves the view takes what was expected of it along, before the slot
 * can be another stream's.
 *
 * Role: core. Owns: which slots are admitted. Thread: control. Limits: those
 * of expectations. Errors: none: a slot that is still swept, or a block for
 * which there is no room, is left out until the next time.
 */
#ifndef NODE_INGEST_SLOTS_H
#define NODE_INGEST_SLOTS_H

#include "index/base/publish.h"
#include "index/base/role.h"
#include "index/index.h"
#include "node/view/expectations.h"
#include "node/view/facts.h"
#include "node/view/mirror_view.h"

/* The pointers are set before the first call and outlive it; admitted: empty at
 * the start. */
struct ingest_slots {
    struct expectations *expectations;
    const struct mirror *mirror;
    const struct publish *view; /* of the mirror: struct mirror_view */
    struct worker_set admitted;
};

/* The view may be another one: closes what left it, opens what came. */
void ingest_slots_renew(struct ingest_slots *slots) ON_CONTROL;

/* A FACT_EXPECT: a lane sent these blocks of tokens to a slot. Nothing is
 * expected where the slot is another's by now. */
void ingest_slots_expect(struct ingest_slots *slots,
                         const struct fact_learn *fact, uint64_t now_us)
    ON_CONTROL;

#endif
