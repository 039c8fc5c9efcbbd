/*
 * What a node of a replay expects of engines: what node/view/expectations.h
 * knows, at a part of the cost.
 *
 * There each expected block goes into an index, and out of it when an event
 * tells that it is stored. Lanes look into that index at any time; here somebody
 * asks between two events, and nearly always for blocks that no other prompt on
 * its way has. So the blocks of a decision are kept as they came, in the order
 * of their prompt, and events, which tell of them in that order, move a mark
 * forward. They go into the index when somebody looks who shares them (keys are
 * chained, so one comparison tells), or when events tell of them in another order.
 * Of one slot, blocks outside of the index are in it nowhere, and in one decision
 * alone.
 *
 * A decision is given up after a time, as a whole, confirmed or not.
 *
 * Role: core. Owns: the index and the decisions. Thread: one owner. Limits:
 * bytes_max for the index, and as much for decisions; those without room are not
 * expected. Errors: -ENOMEM from replay_expect_new().
 */
#ifndef CHAOS_REPLAY_EXPECT_H
#define CHAOS_REPLAY_EXPECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/qsbr.h"
#include "index/base/role.h"
#include "index/index.h"

struct replay_expect;

/* A part of a prompt: so many keys, the first one of this depth. */
struct replay_part {
    const uint64_t *keys;
    uint32_t depth;
    uint32_t count;
};

/* What is left of it behind its first blocks. */
static inline struct replay_part
replay_part_from(struct replay_part part, uint32_t blocks)
{
    CHECK_SLOW(blocks <= part.count);
    return (struct replay_part){.keys = part.keys + blocks,
                                .depth = part.depth + blocks,
                                .count = part.count - blocks};
}

/* slots: the first ones of the mirror, all open. 0 and *out, or -ENOMEM. qsbr
 * outlives it. */
int replay_expect_new(struct replay_expect **out, size_t bytes_max,
                      uint32_t ttl_ms, uint32_t slots, struct qsbr *qsbr)
    ON_CONTROL MUST_CHECK;

/* NULL is fine. */
void replay_expect_free(struct replay_expect *expect);

/* These blocks were sent to the slot's engine. False: no room. */
bool replay_expect_add(struct replay_expect *expect, uint32_t slot,
                       struct replay_part part, uint64_t now_us)
    ON_CONTROL MUST_CHECK;

/* Words of the engine's events (event.h): what they store is not expected any
 * more. */
void replay_expect_confirm(struct replay_expect *expect, uint32_t slot,
                           const uint64_t *words, uint32_t count) ON_CONTROL;

/* Somebody is going to look for these blocks in the index. */
void replay_expect_settle(struct replay_expect *expect, struct replay_part part)
    ON_CONTROL;

/* How many of these blocks, from the first on, the slot holds by the mirror
 * (NULL: none), which are in *held, or is expected to hold. */
uint32_t replay_expect_depth(struct replay_expect *expect,
                             const struct mirror *mirror, uint32_t slot,
                             struct replay_part part, uint32_t *held)
    ON_CONTROL;

/* Gives up what is too old; background work of the index. */
void replay_expect_work(struct replay_expect *expect, uint64_t now_us)
    ON_CONTROL;

/* For mirror_match(), after replay_expect_settle(). */
const struct mirror *replay_expect_index(const struct replay_expect *expect);

/* Verifies it; false and *reason (static text) when broken. */
bool replay_expect_check(const struct replay_expect *expect,
                         const char **reason);

#endif
