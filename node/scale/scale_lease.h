/*
 * The lease: which node acts on how many engines there should be. One at most.
 *
 * Every node tells all others a word: for whom it votes, in which epoch, and
 * the last round that it heard of that holder. A node that may begin and hears
 * of no holder votes for itself, in a new epoch, and counts rounds. Others
 * repeat its words. A round that `quorum` nodes have repeated, itself included,
 * lets the holder act until lease_us after it told that round.
 *
 * A vote binds: for lease_us after a node heard a round, it votes for nobody
 * else. The holder counts from when it told the round, so its time is over
 * before any of its voters is free. With a quorum of more than half of the
 * nodes two holders would need a voter in common, so there is one at most,
 * whatever is lost, late, or cut off. In a partition the side that has a quorum
 * acts; of two nodes (quorum 2) none does while one is away.
 *
 * Time. A voter counts a gap between two turns as a short one (so a process
 * that stood still, or whose clock jumped, is bound for longer), and the holder
 * counts all of it. A node that starts is bound for lease_us, for it may have
 * voted. A clock that stands still with its machine gives a holder too much
 * time: that is what the epoch is for. It rises with each holder, and who is
 * called by one may refuse a lower one than it has seen. It is the time of day
 * in seconds, or one more than the highest that is known, so that it also rises
 * when all nodes restart.
 *
 * A holder stays: who comes back, or comes first by rank, waits until the
 * holder is gone.
 *
 * Role: core. Owns: nothing. Thread: one owner. Limits: SCALE_VOTERS_MAX.
 * Errors: none. Follows Gray and Cheriton, Leases, 1989; epochs as in Lamport's
 * Paxos.
 */
#ifndef NODE_SCALE_LEASE_H
#define NODE_SCALE_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#define SCALE_VOTERS_MAX 64U
#define SCALE_ROUNDS     32U /* whose time is remembered */

/* What a node tells. */
struct scale_word {
    uint64_t holder; /* whom it votes for; 0: nobody */
    uint32_t epoch;  /* of that vote, or of the last one; 0: none yet */
    uint32_t round;  /* of the holder */
};

/* What a node heard of another one. A name may occur twice, of two
 * processes. */
struct scale_voter {
    uint64_t name;   /* not 0 */
    uint64_t digest; /* of what it knows; see scale_voters_know() */
    struct scale_word word;
};

struct scale_lease {
    uint64_t self;
    uint64_t now_us;
    uint64_t bound_us; /* it votes for nobody else for so long */
    uint64_t rest_us;  /* it does not begin before: its own clock */
    uint64_t until_us; /* it acts until then */
    uint32_t seen;     /* the highest epoch */
    struct scale_word own;
    uint64_t told_us[SCALE_ROUNDS]; /* its own rounds, by their number */
};

struct scale_turn {
    const struct scale_voter *voters;
    uint32_t count;
    uint32_t quorum;   /* not 0; more than half of all nodes */
    uint32_t lease_us; /* not 0 */
    uint32_t wall_s;   /* since 1970 */
    bool first;        /* it may begin: of the living it comes first */
};

/* self: not 0, another one for each node. */
void scale_lease_init(struct scale_lease *lease, uint64_t self,
                      uint32_t lease_us, uint64_t now_us);

/* Takes what others told, at most a fifth of lease_us after the last turn; then
 * lease->own is to be told. */
void scale_lease_turn(struct scale_lease *lease, const struct scale_turn *turn,
                      uint64_t now_us);

/* Whether this node acts. */
static inline bool
scale_lease_acts(const struct scale_lease *lease, uint64_t now_us)
{
    return now_us < lease->until_us;
}

/* Whether so many nodes know the same as this one, itself included. */
bool scale_voters_know(const struct scale_voter *voters, uint32_t count,
                       uint64_t digest, uint32_t quorum);

#endif
