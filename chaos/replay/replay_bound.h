/*
 * What no router can beat: all engines' memory as one cache, which knows the
 * future.
 *
 * Requests come one after the other, in the order of the load, so their own
 * memory never stands in the way. When a block is to be kept and there is no
 * room, the one that is wanted again last gives way, or is not kept at all
 * (Belady 1966). Answers are kept like prompts. Real engines hold what runs, do
 * not know what comes, and have memory apart; so the bound is not attainable.
 * A load whose requests overlap may be found in another order than its list's.
 *
 * Role: core. Owns: nothing. Thread: any. Errors: -ENOMEM.
 */
#ifndef CHAOS_REPLAY_BOUND_H
#define CHAOS_REPLAY_BOUND_H

#include <stdint.h>

#include "chaos/replay/replay_load.h"
#include "index/base/check.h"

struct replay_bounds {
    /* Of the tokens of all prompts, in tenths of a permille, what a cache of so
     * many blocks would find. */
    uint32_t share;
    /* Of the full blocks of all prompts, in permille, those that were in an
     * earlier prompt in the order of the list: what one cache of prompts without
     * end would find. */
    uint32_t sharing_permille;
};

/* 0 and *bounds, or -ENOMEM. */
int replay_bound(const struct replay_load *load, uint32_t block_tokens,
                 uint64_t blocks, struct replay_bounds *bounds) MUST_CHECK;

#endif
