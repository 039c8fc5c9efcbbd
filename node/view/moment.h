/*
 * Moments: long prompts that come to several nodes at once are elected by one
 * node after the other.
 *
 * Peers hear of a decision some milliseconds after it. Where requests come one
 * by one that is soon enough. But a batch, or what somebody gathered for a
 * while, reaches all nodes in one moment, and each of them sends its long prompt
 * where it saw the least to do. Two such prompts at one worker cost the second
 * as long as the first takes, up to many seconds, while another worker is idle.
 * So wall time is cut into slots of MOMENT_SLOT_US that go round the nodes. A
 * prompt of which MOMENT_TOKENS or more would have to be computed is elected in
 * the first MOMENT_OPEN_US of a slot of its node's, and waits for that if it
 * must; the rest of the slot is for the news to travel.
 *
 * Nobody waits unless long prompts come in crowds. One that comes within
 * MOMENT_CROWD_US of the one before, at the same node, earns MOMENT_EARN, each
 * other one costs 1, and they wait while MOMENT_FROM or more is there: from
 * about one in nine on. Prompts that come at random do that where a node gets
 * 24 of them in a second.
 *
 * Where clocks differ by more than the closed part of a slot, or nodes do not
 * see the same members, two nodes elect at one time, as they do without moments.
 * Of more than MOMENT_SLOTS_MAX nodes some share a slot, so that none waits
 * longer than MOMENT_SLOTS_MAX * MOMENT_SLOT_US.
 *
 * Role: core. Owns: nothing. Thread: control puts the place, any lane asks; two
 * lanes that ask at once may lose a count. Limits: MOMENT_SLOTS_MAX. Errors:
 * none.
 */
#ifndef NODE_MOMENT_H
#define NODE_MOMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/counter.h"

#define MOMENT_SLOT_US   UINT64_C(15000)
#define MOMENT_OPEN_US   UINT64_C(5000)
#define MOMENT_SLOTS_MAX 8U
#define MOMENT_TOKENS    4096U
#define MOMENT_CROWD_US  5000U
#define MOMENT_EARN      8U
#define MOMENT_FROM      32U
#define MOMENT_MOST      64U

/* All zero: a node alone. */
struct moment {
    struct gauge place;  /* slots * 256 + its own; 0: nobody waits */
    struct gauge last;   /* when a long prompt came, in us; as much as fits */
    struct gauge credit; /* up to MOMENT_MOST */
};

/* The node is that one of so many, from 0. With fewer than two nobody waits. */
void moment_put(struct moment *moment, uint32_t number, uint32_t nodes);

/* Whether prompts may have to wait: only then the time is asked for. */
static inline bool
moment_counts(const struct moment *moment)
{
    return gauge_read(&moment->place) != 0;
}

/* A prompt came of which so many tokens would have to be computed: how long it
 * has to wait before it is elected, in us; 0: not at all. Once for each prompt.
 * wall_us: since 1970. */
uint32_t moment_wait_us(struct moment *moment, uint64_t tokens,
                        uint64_t wall_us);

#endif
