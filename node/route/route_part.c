/* Which workers are for which part of a request. */
#include "node/route/route.h"

/* Those that can go on with what a worker of the set computes. */
static struct worker_set
with_partner(const struct fleet_view *view, const struct worker_set *set)
{
    struct worker_set decode = worker_set_and(set, &view->decode);
    struct worker_set prefill = worker_set_and(set, &view->prefill);
    struct worker_set able;
    uint32_t kinds = 0;

    WORKER_SET_EACH (slot, &prefill) {
        kinds |= 1U << view->worker[slot]->kind;
    }
    worker_set_clear(&able);
    WORKER_SET_EACH (slot, &decode) {
        if ((kinds >> view->worker[slot]->kind & 1) != 0) {
            worker_set_add(&able, slot);
        }
    }
    return able;
}

struct worker_set
route_for_part(const struct route_world *world, const struct worker_set *set)
{
    const struct fleet_view *view = world->view;
    struct worker_set able = worker_set_minus(set, &view->bound);
    struct worker_set others = worker_set_minus(&able, &view->prefill);

    switch (world->part) {
    case ROUTE_WHOLE:
        return worker_set_empty(&others) ? able : others;
    case ROUTE_DECODE:
        return with_partner(view, set);
    case ROUTE_PREFILL:
        break;
    }
    able = worker_set_and(set, &view->prefill);
    others = able;
    WORKER_SET_EACH (slot, &able) {
        if (view->worker[slot]->kind != world->partner) {
            worker_set_remove(&others, slot);
        }
    }
    return others;
}
