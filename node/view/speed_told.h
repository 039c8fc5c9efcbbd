/*
 * Speed, as nodes tell it each other: what one node's own samples say of a
 * worker (speed.h), in rows of 126 bits; and what all nodes' samples together
 * say.
 *
 * A row has six classes: prompts' in the first, answers' in the others. Of each
 * class there are 21 bits: how many samples, rounded down to a power of two (none
 * below SPEED_FLOOR); their time to 1/32 of a factor of two, which is 1 %; and
 * their number to a quarter of one, which is 9 % and matters for an SLO alone. So
 * what has settled is seldom told again.
 *
 * A node tells its own samples only, and counts each peer's last word beside
 * them, so that nothing is counted twice, however often it is heard. Peers'
 * samples weigh as much as own ones. What a peer tells fades there; what a peer
 * told that is gone, is gone with it.
 *
 * Role: core. Owns: nothing. Thread: control. Limits: WORKERS_MAX slots. Errors:
 * none; a class that no node tells counts as none.
 */
#ifndef NODE_SPEED_TOLD_H
#define NODE_SPEED_TOLD_H

#include <stdint.h>

#include "node/view/speed.h"

#define SPEED_TOLD_ROWS 3U

/* All zero: nothing is known. */
struct speed_row {
    uint64_t first; /* 63 bits: three classes, the first lowest */
    uint64_t second;
};

/* All zero is an empty one. */
struct speed_shared {
    struct speed own; /* of this node's requests */
    struct speed all; /* and of its peers': what counts */
    uint32_t next;    /* slot whose worker is shared next */
    struct speed_shared_told {
        uint64_t worker; /* identity of whom peers were told; 0: of none */
        uint32_t rows;   /* bit by row: it was told */
    } told[WORKERS_MAX]; /* by slot */
};

/* What these samples say in a row below SPEED_TOLD_ROWS. */
struct speed_row speed_told(const struct speed_worker *worker, uint32_t row);

/* Counts what another node tells in that row with these samples: at most
 * GOSSIP_PEERS_MAX times. */
void speed_join(struct speed_worker *worker, uint32_t row,
                const struct speed_row *told);

#endif
