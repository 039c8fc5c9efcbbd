/* The results of simulated lookups, right or wrong. */
#include "chaos/sim/sim_dns_internal.h"

#define LIES_MAX 6U

/* Addresses of engines, of other processes, of no process, and old ones. */
static void
lie(struct sim_world *w, struct discover_ip *ips, size_t *count)
{
    struct rng *rng = &w->chaos[SIM_LIE];

    if (!sim_has(w, SIM_LIE) || w->quiet || sim_below(rng, 2) != 0 ||
        !sim_may_break(w, SIM_LIE)) {
        return;
    }
    for (uint32_t lies = 1 + sim_below(rng, LIES_MAX); lies > 0; lies--) {
        uint8_t net = sim_below(rng, 3) == 0; /* 10.1.0.x: engines */
        uint8_t last = (uint8_t)(1 + sim_below(rng, SIM_PLACES));
        ips[(*count)++] =
            (struct discover_ip){.size = 4, .bytes = {10, net, 0, last}};
    }
}

void
sim_dns_answer(struct sim_world *w, uint32_t node, uint64_t ticket)
{
    struct sim_node *n = &w->nodes[node];
    struct rng *rng = &w->chaos[SIM_DNS];
    struct discover_ip ips[SIM_NODES_MAX + LIES_MAX];
    struct discover_answer result = {
        .ticket = ticket, .outcome = DISCOVER_FOUND, .ips = ips};
    bool wrong = sim_has(w, SIM_DNS) && !w->quiet && sim_below(rng, 3) == 0 &&
                 sim_may_break(w, SIM_DNS);
    uint32_t how = wrong ? sim_below(rng, 6) : 6;

    for (uint32_t i = 0; i < w->nodes_count; i++) {
        uint8_t last = (uint8_t)(i + 1);
        if (how == 5) { /* other processes live there, or none */
            last = (uint8_t)(1 + sim_below(rng, SIM_PLACES));
        }
        if (how != 4 || sim_below(rng, 2) == 0) {
            ips[result.ips_count++] =
                (struct discover_ip){.size = 4, .bytes = {10, 0, 0, last}};
        }
    }
    if (how < 4 || result.ips_count == 0) {
        static const enum discover_outcome outcomes[] = {
            DISCOVER_ABSENT, DISCOVER_TIMEOUT, DISCOVER_FAILED,
            DISCOVER_ABSENT};
        result.outcome = outcomes[how % 4];
        result.ips_count = 0;
    } else {
        lie(w, ips, &result.ips_count);
    }
    role_is_control();
    hub_answered(n->hub, &result, sim_now(w, node));
    sim_node_pull(w, node);
}
