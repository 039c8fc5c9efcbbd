/*
 * Expectations: blocks that were sent to a worker's rank and that none of its
 * events has stored yet. A second table holds blocks of text in the same way.
 *
 * Between the election of a worker and the event that says that its engine
 * holds the prompt, its mirror knows less than the node does; a burst of
 * requests with one new prefix falls into that gap. So a decision's blocks
 * beyond those that the rank holds are kept here, in an index of the mirror's
 * kind, under the rank's slot of the mirror: decisions of this node, and those
 * that peers tell (hints.h). A rank is predicted to hold the blocks that its
 * mirror promises and, from there on, the expected ones.
 *
 * An expectation ends when an event stores the block: from then on the mirror
 * has it, removals included. It is taken back when the attempt that it came
 * from ends without an answer of success (expectations_take_back()). If neither
 * happens (the engine had the block all the time), it is given up after ttl_ms;
 * a block that two requests wait for is given up with the first.
 *
 * Windows. An engine with sliding windows (shape.h) serves a prefix only where
 * it kept them: where a prompt ended. So with the blocks of a prompt goes the
 * name that its last usable block has in the first window group; it says that a
 * prompt on its way ends there.
 *
 * Proved blocks. Where events are missing for good, a rank holds blocks that no
 * event will ever tell of. An answer that found more of its prompt in the cache
 * than was predicted proves such blocks, and they are kept here, too
 * (expectations_prove()), in a tier of their own. Nothing tells of their
 * eviction either. So they end with the first event that names them, with an
 * answer that found less than was predicted, with the slot (the engine cleared
 * its cache, or is another process), and after proved_ms.
 *
 * Text. Belief learns a prompt when its answer begins, because it cannot take
 * back what one worker holds of a prefix that others share. So until then the
 * prompt's blocks of text are expected of the worker, in a table of their own
 * whose slots are the fleet's (expectations_admit()). An answer of success ends
 * the expectation (expectations_learned()), for belief has the blocks then; any
 * other end takes it back.
 *
 * Role: core. Owns: its index and a queue of what was added. Thread: the owner
 * (control); lanes match expectations_index() while online in the qsbr. Limits:
 * bytes_max; blocks without room are not expected, and counted. Errors: named
 * outcomes of the mirror, -ENOMEM.
 */
#ifndef NODE_EXPECTATIONS_H
#define NODE_EXPECTATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/qsbr.h"
#include "index/base/role.h"
#include "index/index.h"

struct expectations;

struct expectations_limits {
    size_t bytes_max; /* of the index and the queues */
    uint32_t ttl_ms;
    uint32_t proved_ms; /* of proved blocks */
};

#define EXPECTATIONS_PROVED_MS 600000U /* what nodes use */

/* 0 and *out, -EINVAL when bytes_max is too small for an empty one, -ENOMEM.
 * qsbr outlives it. */
int expectations_new(struct expectations **out,
                     const struct expectations_limits *limits,
                     struct qsbr *qsbr) MUST_CHECK;

/* No reader may be online. NULL is fine. */
void expectations_free(struct expectations *expectations);

/* The slot of the mirror has an owner now: 0, or MIRROR_E_NO_SLOT while the
 * expectations of its last owner are still being swept. */
int expectations_open(struct expectations *expectations, uint32_t slot)
    ON_CONTROL MUST_CHECK;

/* The same unless the slot is open already; false: it is still being swept. */
bool expectations_admit(struct expectations *expectations, uint32_t slot)
    ON_CONTROL MUST_CHECK;

/* The slot has no owner any more; nothing is expected of it from now on. */
void expectations_close(struct expectations *expectations, uint32_t slot)
    ON_CONTROL;

/* The same if the slot is open. */
void expectations_gone(struct expectations *expectations, uint32_t slot)
    ON_CONTROL;

/* These blocks, those that the rank holds left out, were sent to the owner of
 * an open slot. */
void expectations_add(struct expectations *expectations, uint32_t slot,
                      const uint64_t *keys, uint32_t count, uint64_t now_us)
    ON_CONTROL;

/* Whether the slot is open. */
bool expectations_is_open(const struct expectations *expectations,
                          uint32_t slot);

/* How many of these blocks, from the first on, the slot's owner holds by its
 * mirror (NULL: none) or is expected to hold. */
uint32_t expectations_depth(struct expectations *expectations,
                            const struct mirror *mirror, uint32_t slot,
                            const uint64_t *keys, uint32_t count) ON_CONTROL;

/* Calls expectations_add() for those blocks that the owner's mirror does not
 * hold yet: an event has stored the others already, and none will follow for
 * them. */
void expectations_add_missing(struct expectations *expectations,
                              const struct mirror *mirror, uint32_t slot,
                              const uint64_t *keys, uint32_t count,
                              uint64_t now_us) ON_CONTROL;

/* The attempt that these blocks were sent with came to nothing: the owner of an
 * open slot is not expected to hold them. */
void expectations_take_back(struct expectations *expectations, uint32_t slot,
                            const uint64_t *keys, uint32_t count) ON_CONTROL;

/* An answer of the owner of an open slot proved that it holds these blocks. */
void expectations_prove(struct expectations *expectations, uint32_t slot,
                        const uint64_t *keys, uint32_t count, uint64_t now_us)
    ON_CONTROL;

/* An answer showed that it did not hold all of these: none of them counts as
 * proved any more. */
void expectations_disprove(struct expectations *expectations, uint32_t slot,
                           const uint64_t *keys, uint32_t count) ON_CONTROL;

/* Belief has these blocks of an open slot's owner now. */
void expectations_learned(struct expectations *expectations, uint32_t slot,
                          const uint64_t *keys, uint32_t count) ON_CONTROL;

/* A record of the slot's owner arrived: the blocks that it stores or removes are
 * neither expected nor proved any more. */
void expectations_confirm(struct expectations *expectations, uint32_t slot,
                          const uint64_t *words, uint32_t count) ON_CONTROL;

/* Gives up what is too old, and sweeps; at most budget blocks. True when there
 * is more. */
bool expectations_work(struct expectations *expectations, uint32_t budget,
                       uint64_t now_us) ON_CONTROL;

/* Whether anything is expected of anybody; a look that comes at the same time as
 * a change may see either. */
bool expectations_any(const struct expectations *expectations);

/* For mirror_match(), under the mirror's slots. */
const struct mirror *
expectations_index(const struct expectations *expectations);

struct expectations_stats {
    size_t bytes;
    uint64_t blocks;     /* (slot, block) pairs expected now */
    uint64_t added;      /* blocks */
    uint64_t confirmed;  /* by events; of text: by answers */
    uint64_t given_up;   /* for their age */
    uint64_t taken_back; /* their attempt came to nothing */
    uint64_t proved;     /* blocks, by answers */
    uint64_t disproved;  /* ... that answers did not find, or found expected */
    uint64_t refused;    /* no room */
};

/* Copies the counters and the present sizes. */
void expectations_stats(const struct expectations *expectations,
                        struct expectations_stats *stats);

#endif
