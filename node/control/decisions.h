/*
 * The last requests and where they went, for /admin/decisions.
 *
 * Role: core. Owns: its records. Thread: the control thread.
 * Limits: size records; the oldest gives way.
 */
#ifndef NODE_DECISIONS_H
#define NODE_DECISIONS_H

#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "node/view/facts.h"

struct decisions {
    struct fact_decision *record;
    /* The worker as it was then: slots are used again. */
    struct decisions_worker {
        char id[FACT_ID_MAX];
        char island[FACT_ID_MAX];
    } * worker;
    uint32_t size;
    uint32_t count;
    uint32_t next; /* where the next one goes */
};

/* 0 or -ENOMEM. size may be 0: nothing is kept. */
int decisions_init(struct decisions *d, uint32_t size) MUST_CHECK;

/* Frees the entries, not *d. */
void decisions_fini(struct decisions *d);

/* worker: the id behind fact->slot, or "" for none, with its island; copied,
 * and truncated to fit. */
void decisions_add(struct decisions *d, const struct fact_decision *fact,
                   const char *worker, const char *island);

/* The i-th newest, from 0; *worker is its worker's. i < count. */
const struct fact_decision *
decisions_get(const struct decisions *d, uint32_t i,
              const struct decisions_worker **worker);

#endif
