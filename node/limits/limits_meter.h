/*
 * One limit as all nodes of a mesh keep it together: so many requests or tokens
 * in a window of time (a minute or a second), or so many requests open at once.
 *
 * Replicated state. Each node tells three numbers of its own, again and again
 * (struct limits_told): what it has spent since its start, what is open, and the
 * window's sum as it sees it. The first only rises, the newest word wins, and so
 * words may be lost, repeated or overtake each other. A node keeps the sum of
 * the window in cells, by its own clock: what a peer spent counts from when it
 * is heard. Nobody's clock is compared with another's. A peer that is lost
 * leaves what it spent in the cells; what it had open has ended with it. Who
 * hears of a peer for the first time takes over the larger sum, spread over the
 * window: so a node that comes back knows what was spent before it came.
 *
 * Who may take what is free. Peers' words are as old as a gauge (hints.h, 60 ms
 * or so). If each of N nodes took all that looks free to it, they would take it
 * N times. So a node takes from a credit of its own:
 *
 *   what it spent or had open itself, and what is free again, is its own again;
 *   of what is free it is given a Nth part in each PULL_US, so that the nodes
 *   together take no more than a part of it before they hear of each other; but
 *   no more than a fourth of a Nth part ahead of its use, so that nodes at rest
 *   do not each come to hold all of it; what requests wait for counts as used:
 *   a request that fits, but for which there is no credit at hand, waits for it;
 *   unused credit above that goes back to what is free within a second, and a
 *   32nd part of what the node holds each second, unless requests wait here:
 *   clients may go to another node.
 *
 * Credit may be overdrawn by one request, never by more than is free, and what
 * peers took unheard is made good because nothing is free for so long. A node
 * alone has all that is free as its credit. A node that cannot have heard of
 * its peers yet (`settled`) takes no more than the limit in a window, evenly.
 *
 * So the error has a bound: what peers take within the age of their words. In a
 * partition each side keeps the whole limit for itself. Words are not passed on:
 * nodes that hear a third, and not each other, keep one each.
 *
 * tests/property/property_limits.c measures it.
 *
 * Role: core. Owns: nothing. Thread: one. Limits: LIMITS_*_MAX. Errors: none.
 */
#ifndef NODE_LIMITS_METER_H
#define NODE_LIMITS_METER_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/rng.h"
#include "node/limits/limits_gate.h"
#include "node/limits/limits_rate.h"

#define LIMITS_PEERS_MAX 64U
#define LIMITS_CELLS     241U /* of a window, and the one that is now */

/* A node's own words of a limit. */
struct limits_told {
    uint64_t spent;  /* since its start */
    uint32_t open;   /* now */
    uint32_t window; /* spent by all nodes, as it heard them */
};

/* The other nodes, as of now. */
struct limits_peers {
    uint32_t count;
    bool settled; /* all of them can have been heard */
};

struct limits_peer {
    uint64_t id; /* 0: nobody */
    uint64_t spent;
    uint32_t open;
    uint32_t window;
};

struct limits_meter {
    uint32_t limit;     /* LIMITS_AMOUNT_MAX at most */
    uint32_t window_ms; /* 0: it is for what is open */
    uint64_t now_us;
    uint64_t cell; /* the number of the one that is now */
    uint64_t own[LIMITS_CELLS];
    uint64_t others[LIMITS_CELLS];
    uint64_t own_sum;
    uint64_t others_sum;
    uint64_t unknown;   /* of the window, and only known to peers */
    uint64_t learns_us; /* until when there may be such */
    uint64_t level;     /* of the gate, at the last tick */
    uint64_t spent;     /* the same */
    uint64_t open;      /* the same */
    uint64_t waits;     /* the same: what requests here wait for */
    int64_t credit;     /* in parts, LIMITS_PART of one */
    struct rng rng;
    uint32_t peers_high;
    struct limits_peer peer[LIMITS_PEERS_MAX];
};

/* Nothing was spent. Its first tick is due now. */
void limits_meter_init(struct limits_meter *m, uint32_t limit,
                       uint32_t window_ms, uint64_t now_us, uint64_t seed);

/* Another limit of the same kind; another window begins empty. */
void limits_meter_set(struct limits_meter *m, uint32_t limit,
                      uint32_t window_ms);

/* The newest word of the peer in a place below LIMITS_PEERS_MAX; id: not 0, and
 * another one for each of its starts. */
void limits_meter_hear(struct limits_meter *m, uint32_t place, uint64_t id,
                       const struct limits_told *told);

/* There is no peer in that place. */
void limits_meter_lost(struct limits_meter *m, uint32_t place);

/* What this node tells, as of the last tick. */
struct limits_told limits_meter_tell(const struct limits_meter *m);

/* Looks at the gate's level and sets what it lets through: each 10 ms while
 * requests come. now_us never goes back. */
void limits_meter_tick(struct limits_meter *m, struct limits_gate *gate,
                       const struct limits_peers *peers, uint64_t now_us);

/* What all nodes together have in use, as of the last tick. */
uint64_t limits_meter_used(const struct limits_meter *m);

/* False and *reason: it is not as it should be. */
bool limits_meter_check(const struct limits_meter *m, const char **reason);

#endif
