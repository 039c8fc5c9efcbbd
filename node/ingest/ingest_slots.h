/*
 * Admits slots of the mirror to the expectations and to the order of decisions
 * (decided.h), and passes on what lanes sent to them.
 *
 * A slot is admitted while lanes see it in the published view of the mirror.
 * When it leaves the view, its expectations are dropped, before the slot can
 * belong to another stream.
 *
 * Role: core. Owns: which slots are admitted. Thread: control. Limits: those of
 * expectations. Errors: none: a slot that is still being swept, or a block
 * without room, is left out until the next time.
 */
#ifndef NODE_INGEST_SLOTS_H
#define NODE_INGEST_SLOTS_H

#include "index/base/publish.h"
#include "index/base/role.h"
#include "index/index.h"
#include "node/view/decided.h"
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
    struct decided *decided;               /* NULL: decisions are not kept */
    struct worker_set kept;                /* slots that these are kept of */
    uint64_t capacity_tokens[WORKERS_MAX]; /* of a worker's ranks, by slot of
                                              the fleet; 0: not known */
};

/* The view may have changed: closes the slots that left it, and admits new
 * ones. */
void ingest_slots_renew(struct ingest_slots *slots) ON_CONTROL;

/* A FACT_EXPECT: a lane sent these blocks of tokens to a slot. Nothing is
 * expected where the slot is another's by now. */
void ingest_slots_expect(struct ingest_slots *slots,
                         const struct fact_learn *fact, uint64_t now_us)
    ON_CONTROL;

/* A FACT_DECIDED: these kept keys were sent to a slot. */
void ingest_slots_decided(struct ingest_slots *slots,
                          const struct fact_learn *fact, uint64_t now_us)
    ON_CONTROL;

/* A worker's ranks hold so many tokens together; 0: not known. Decisions are
 * kept of those whose size is known. */
void ingest_slots_capacity(struct ingest_slots *slots, uint32_t worker,
                           uint64_t tokens) ON_CONTROL;

/* How many of a FACT_EXPECT's blocks, from the first on, are held or expected
 * where they were sent; all of them if the slot is another's by now. */
uint32_t ingest_slots_known(struct ingest_slots *slots,
                            const struct fact_learn *fact) ON_CONTROL;

/* The attempt of a FACT_EXPECT came to nothing: the blocks after the first
 * `known` are not expected any more. */
void ingest_slots_take_back(struct ingest_slots *slots,
                            const struct fact_learn *fact, uint32_t known)
    ON_CONTROL;

/* Whether the fact's slot still belongs to the worker that it means. */
bool ingest_slots_owns(const struct ingest_slots *slots,
                       const struct fact_learn *fact);

/* An answer proved that the worker of a FACT_EXPECT held its blocks. */
void ingest_slots_prove(struct ingest_slots *slots,
                        const struct fact_learn *fact, uint64_t now_us)
    ON_CONTROL;

/* ... that it had evicted some of those after the first `known`. */
void ingest_slots_disprove(struct ingest_slots *slots,
                           const struct fact_learn *fact, uint32_t known)
    ON_CONTROL;

#endif
