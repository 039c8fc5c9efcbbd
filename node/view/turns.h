/*
 * Turns: which workers each node takes first among near-equals, so that nodes
 * that decide at one moment, before they hear of each other, do not meet.
 *
 * In each period of TURNS_MS of wall time every worker is one node's: the
 * workers of a model (fleet_view_kin()), in the order of their identities, are
 * dealt out to the nodes in the order of their tickets, beginning with another
 * node each period. So all nodes have all workers in the course of time, and no
 * worker gets more new prefixes for having fewer nodes before it. Where clocks
 * differ, or nodes do not see the same members, two nodes may have one worker:
 * then chance decides between them as it does without turns.
 *
 * New prefixes are another matter: nodes that get the same one at one moment
 * should meet (elect.h). So they go by turns only after TURNS_APART prompts of
 * peers in a row of which this node had not heard before, and until the next of
 * which it had.
 *
 * Role: core. Owns: nothing. Thread: one owner. Limits: WORKERS_MAX slots.
 * Errors: none.
 */
#ifndef NODE_TURNS_H
#define NODE_TURNS_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/worker_set.h"
#include "node/view/fleet_view.h"

#define TURNS_MS    1000U
#define TURNS_APART 32U

/* Where a node stands among those that it sees: of `nodes`, itself included,
 * so many have lower tickets. */
struct turns_place {
    uint32_t number;
    uint32_t nodes;
};

/* All zero: a valid initial state. */
struct turns {
    uint32_t apart; /* prompts of peers since the last one known here */
    /* What the board's turn was made of; it is made anew when this changes. */
    struct turns_made {
        struct turns_place place;
        uint64_t version; /* of the view */
        uint64_t period;
    } made;
};

/* A peer told a prompt; known: part of what it told was on its way to that
 * worker already. */
void turns_heard(struct turns *turns, bool known);

/* Puts this node's workers of the moment on the board, and its place for
 * moments (moment.h); with fewer than two nodes it has neither. wall_ms: since
 * 1970. */
void turns_put(struct turns *turns, const struct turns_place *place,
               const struct fleet_view *view, uint64_t wall_ms,
               struct fleet_board *board);

#endif
