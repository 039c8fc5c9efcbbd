/*
 * Twice: prompt tokens that several nodes count as waiting at a worker, and that
 * it computes once.
 *
 * Nodes that get one new prompt at the same moment send it to one worker before
 * they hear of each other, and each counts all of it as waiting there. To those
 * that come after, the worker would seem to have as many prompts to compute as
 * there are nodes, and they would have the prompt computed again elsewhere. So
 * when a peer tells blocks that are expected or held there already, their tokens
 * are taken off what peers say that waits, until TWICE_US after the last such
 * word: most prompts are computed by then, and where they are not, too much is
 * counted for a while.
 *
 * Role: core. Owns: nothing. Thread: one owner. Limits: WORKERS_MAX slots.
 * Errors: none.
 */
#ifndef NODE_TWICE_H
#define NODE_TWICE_H

#include <stdint.h>

#include "index/base/worker_set.h"

#define TWICE_US UINT64_C(500000)

/* All zero is an empty one. */
struct twice {
    struct {
        uint64_t tokens;
        uint64_t until_us;
    } of[WORKERS_MAX];
};

/* A peer told blocks of so many tokens that were on their way to the slot's
 * worker before. */
void twice_add(struct twice *twice, uint32_t slot, uint64_t tokens,
               uint64_t now_us);

/* What waits at the slot's worker where peers say `queued` tokens. */
uint64_t twice_less(const struct twice *twice, uint32_t slot, uint64_t queued,
                    uint64_t now_us);

#endif
