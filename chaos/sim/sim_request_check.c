/* The invariants of requests: counts, and ends. */
#include "chaos/sim/sim_request_internal.h"
#include "chaos/sim/sim_router_internal.h"

struct sim_request_sums
sim_request_sums(const struct sim_world *w, uint32_t node, uint32_t engine)
{
    struct sim_request_sums sums = {0};

    for (uint32_t i = 0; i < SIM_FLIGHTS_MAX; i++) {
        const struct sim_flight *f = &w->requests->flights[i];
        const struct fleet_lease *lease = &f->dispatch.choice.lease;
        if (f->open && f->node == node && lease->taken &&
            lease->slot == engine) {
            sums.open++;
            sums.queued_tokens += lease->queued_tokens;
            sums.trials += lease->trial;
            sums.elsewhere += f->elsewhere;
        }
    }
    return sums;
}

const char *
sim_request_quiet(struct sim_world *w)
{
    if (w->requests == NULL) {
        return NULL;
    }
    for (uint32_t i = 0; i < SIM_FLIGHTS_MAX; i++) {
        const struct sim_flight *f = &w->requests->flights[i];
        if (f->wanted || f->open) {
            return "a request does not end";
        }
    }
    if (w->requests->sent != w->requests->answered + w->requests->failed) {
        return "a request was lost";
    }
    for (uint32_t node = 0; node < w->nodes_count; node++) {
        const char *why = sim_router_quiet(w, node);
        if (why != NULL) {
            return why;
        }
    }
    return NULL;
}
