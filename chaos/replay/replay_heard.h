/*
 * What nodes of a replay know from engines' events: their mirrors, as few as
 * there need be.
 *
 * Of an engine some nodes read the events and the others hear of them later,
 * from these. All of one kind hear the same at the same moment, so what they
 * know of the engine is the same to the last bit, and is kept once: all nodes
 * look into one mirror, which has a slot for each engine as its readers know
 * it, and one as the others do. Where the mirror has no room for so many
 * slots, each node has a mirror of its own.
 *
 * Role: core. Owns: the mirrors. Thread: one owner, nobody else reads.
 * Limits: WORKERS_MAX engines, REPLAY_NODES_MAX nodes. Errors: -ENOMEM from
 * replay_heard_init(); later, a mirror that is full knows less.
 */
#ifndef CHAOS_REPLAY_HEARD_H
#define CHAOS_REPLAY_HEARD_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/qsbr.h"
#include "index/base/role.h"
#include "index/base/worker_set.h"
#include "index/index.h"

struct replay_heard {
    uint32_t engines;
    uint32_t nodes;
    bool later;             /* the one mirror has slots of the second kind */
    uint32_t mirrors_count; /* 1, or one for each node */
    struct mirror **mirrors;
    struct worker_set *readers; /* nodes that read it, by engine */
    struct qsbr qsbr;
};

/* readers: of each engine, copied. 0 or -ENOMEM; after that nothing is to be
 * freed. */
int replay_heard_init(struct replay_heard *heard,
                      const struct worker_set *readers, uint32_t engines,
                      uint32_t nodes) MUST_CHECK;

/* Frees the mirrors. */
void replay_heard_fini(struct replay_heard *heard);

/* The mirror that a node looks into. */
const struct mirror *replay_heard_mirror(const struct replay_heard *heard,
                                         uint32_t node);

/* What the node knows of the engine is in this slot there. */
uint32_t replay_heard_slot(const struct replay_heard *heard, uint32_t node,
                           uint32_t engine);

/* Words of the engine's events (event.h) come to those who read them, or to all
 * the others. False: some of it had no room. */
bool replay_heard_apply(struct replay_heard *heard, uint32_t engine,
                        const uint64_t *words, uint32_t count, bool readers);

/* Background work of the mirrors. */
void replay_heard_work(struct replay_heard *heard);

/* Verifies the mirrors; false and *reason (static text) when broken. */
bool replay_heard_check(const struct replay_heard *heard, const char **reason);

#endif
