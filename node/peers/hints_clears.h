/*
 * Clearings of the cache of answers, among the gauges that a node tells its peers
 * (hints.h): how many there were on it, and which the last HINTS_CLEARS_MAX were.
 * Nodes of earlier versions keep such rows as those of a worker that they do not
 * have.
 *
 * A node does what a peer told since it last looked. Where that is not known
 * any more, because it was away for too long, it clears everything. A peer that is
 * new counts from its start: what it cleared before it came is done, too.
 *
 * Role: core. Owns: nothing. Thread: control. Limits: GOSSIP_PEERS_MAX. Errors:
 * false; rows that gossip has no room for are counted.
 */
#ifndef NODE_HINTS_CLEARS_H
#define NODE_HINTS_CLEARS_H

#include <stdbool.h>
#include <stdint.h>

#include "node/answers/answers.h"
#include "node/peers/hints.h"

#define HINTS_CLEARS_MAX 8U

/* Zero at first. */
struct hints_clears {
    uint32_t told;      /* on this node, so far */
    uint64_t looked_at; /* gossip_gauges_heard() as of the last full look */
    struct hints_clears_done {
        uint64_t peer; /* 0: nobody */
        uint32_t done; /* of those that it told */
    } heard[GOSSIP_PEERS_MAX];
};

/* What is being told. */
struct hints_clears_heard {
    uint64_t peer; /* its id */
    struct answers_which which;
};

/* Tells peers, at once, that answers were cleared here. How many are told now;
 * others are once they are linked. */
uint32_t hints_tell_clear(struct hints *hints, struct hints_clears *clears,
                          const struct answers_which *which, uint64_t now_us);

/* The next clearing of a peer's, which is the caller's to do. False: there is
 * none. Costs nothing while peers tell nothing. */
bool hints_hear_clear(const struct hints *hints, struct hints_clears *clears,
                      struct hints_clears_heard *heard) MUST_CHECK;

#endif
