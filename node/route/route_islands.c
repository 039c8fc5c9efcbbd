/* Where a request may be served, and what it costs to leave for there. */
#include "node/route/route.h"
#include "node/view/island.h"

struct worker_set
route_servers(const struct route_scratch *scratch,
              const struct route_world *world, struct worker_set *foreign)
{
    struct worker_set serves =
        fleet_view_find_model(world->view, scratch->model);

    if (world->residency == NULL || world->residency[0] == '\0') {
        worker_set_clear(foreign);
        return serves;
    }
    struct worker_set in =
        island_residents(world->view, &serves, slice_of(world->residency));
    *foreign = worker_set_minus(&serves, &in);
    return in;
}

const uint32_t *
route_aside(struct route_scratch *scratch, const struct route_world *world,
            const struct worker_set *candidates)
{
    const uint32_t *pools =
        scratch->pools.wants != POOLS_NONE ? scratch->pools.aside : NULL;

    return island_aside(world->board, candidates, pools, scratch->aside)
               ? scratch->aside
               : pools;
}
