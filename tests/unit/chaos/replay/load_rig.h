/* A load to fill. */
#ifndef TESTS_UNIT_CHAOS_REPLAY_LOAD_RIG_H
#define TESTS_UNIT_CHAOS_REPLAY_LOAD_RIG_H

#include <criterion/criterion.h>

#include "chaos/replay/replay_bound.h"
#include "chaos/replay/replay_load.h"

static struct replay_load load;

static inline void
setup(void)
{
    struct replay_limits limits = REPLAY_LIMITS_DEFAULT;

    replay_load_init(&load, &limits);
}

static inline void
teardown(void)
{
    replay_load_fini(&load);
}

static inline uint32_t
sharing(uint32_t block_tokens)
{
    struct replay_bounds bounds;

    cr_assert_eq(replay_bound(&load, block_tokens, 0, &bounds), 0);
    return bounds.sharing_permille;
}

#endif
