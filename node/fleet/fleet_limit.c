/*
 * How many requests a worker may have at one time: the configured number, or
 * what its engine's queue shows.
 *
 * An engine that runs as many as it can queues the others. A request that waits
 * there cannot go elsewhere any more, and the engine knows no tenants; so beyond
 * what it needs to stay busy until the next scrape, requests wait here. Until
 * its queue was once longer than that, an engine has no limit.
 */
#include "node/fleet/fleet.h"
#include "node/fleet/fleet_slot_internal.h"

#define READY_MIN  16U /* that an engine is to have in its queue, at least */
#define READY_PART 4U  /* ... or this part of what it runs */
#define LIMIT_MAX  1000000U

/* The limit after a scrape: so many run, so many wait. */
static uint32_t
learned(uint32_t limit, uint32_t running, uint32_t waiting)
{
    uint32_t part = running / READY_PART;
    uint32_t ready = part > READY_MIN ? part : READY_MIN;

    CHECK_SLOW(limit <= LIMIT_MAX);
    if (waiting > ready && running > 0) {
        uint32_t most = running + ready;
        return most < LIMIT_MAX ? most : LIMIT_MAX;
    }
    if (limit == 0 || (uint64_t)running + waiting < limit / 2) {
        return 0; /* it is far from full */
    }
    if (waiting < ready / 2 && limit < LIMIT_MAX / 2) {
        return limit + limit / READY_PART + 1; /* it takes more than thought */
    }
    return limit;
}

/* Lanes look at limits only where there are some. */
static void
tell_limited(struct fleet *fleet)
{
    bool some = false;

    for (uint32_t slot = 0; slot < WORKERS_MAX; slot++) {
        some = some || gauge_read(&fleet->board.limit[slot]) != 0;
    }
    CHECK(some || fleet->config.max_inflight == 0);
    gauge_set(&fleet->board.limited, fleet->config.max_inflight != 0 ? FLEET_SET
                                     : some ? FLEET_LEARNED
                                            : FLEET_UNLIMITED);
}

void
fleet_limit_learn(struct fleet *fleet, uint32_t slot)
{
    struct fleet_board *board = &fleet->board;
    uint32_t limit = gauge_read(&board->limit[slot]);

    CHECK(slot < WORKERS_MAX);
    if (!fleet->config.learns || fleet->config.max_inflight != 0) {
        return;
    }
    uint32_t now = learned(limit, gauge_read(&board->running[slot]),
                           gauge_read(&board->waiting[slot]));
    if (now != limit) {
        gauge_set(&board->limit[slot], (int32_t)now);
        tell_limited(fleet);
    }
}

void
fleet_limit(struct fleet *fleet, uint32_t max_inflight, bool learns)
{
    bool same = max_inflight == fleet->config.max_inflight &&
                learns == fleet->config.learns;

    CHECK(max_inflight <= LIMIT_MAX);
    fleet->config.max_inflight = max_inflight;
    fleet->config.learns = learns;
    if (same && max_inflight == 0) {
        return; /* what was learned stays */
    }
    for (uint32_t slot = 0; slot < WORKERS_MAX; slot++) {
        gauge_set(&fleet->board.limit[slot], (int32_t)max_inflight);
    }
    tell_limited(fleet);
}
