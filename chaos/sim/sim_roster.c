/* What simulated operators say about workers, and whether all nodes obey. */
#include "chaos/sim/sim_roster_internal.h"

#include <stdio.h>

static void
name(uint32_t which, char id[16])
{
    (void)snprintf(id, 16, "x%u", which);
}

/* The newest that was said; of two at one version neither is held on to. */
static void
note(struct sim_world *w, uint32_t which, uint32_t node)
{
    const struct sim_node *n = &w->nodes[node];
    struct sim_said *said = &w->said[which];
    struct roster_entry entry;
    char id[16];

    name(which, id);
    if (!roster_find(cluster_roster(n->cluster), id, &entry) ||
        entry.version < said->version) {
        return;
    }
    /* What changed nothing took no version, and does not end a tie. */
    bool tie =
        entry.version == said->version && (said->tie || said->life != n->life);
    *said = (struct sim_said){.version = entry.version,
                              .node = node,
                              .life = n->life,
                              .removed = entry.removed,
                              .tie = tie};
}

void
sim_roster_change(struct sim_world *w, struct rng *rng, uint32_t node)
{
    uint32_t which = sim_below(rng, SIM_SAID_MAX);
    char id[16];
    char spec[16];
    int rc = 0;

    name(which, id);
    (void)snprintf(spec, sizeof spec, "spec %u", sim_below(rng, 1000));
    uint32_t how = sim_below(rng, 4);
    if (!sim_runs(w, node)) {
        return;
    }
    struct roster *roster = cluster_roster(w->nodes[node].cluster);
    if (how == 0) {
        rc = roster_remove(roster, id, sim_now(w, node));
    } else if (how == 1) {
        rc = roster_drain(roster, id, sim_below(rng, 2) == 0, sim_now(w, node));
    } else {
        rc = roster_put(roster, id, slice_of(spec), sim_now(w, node));
    }
    CHECK(rc >= 0);
    note(w, which, node);
    sim_node_pull(w, node);
}

const char *
sim_roster_check(const struct sim_world *w)
{
    const struct roster *roster = cluster_roster(w->nodes[0].cluster);
    struct roster_entry entry;
    char id[16];

    for (uint32_t i = 0; i < SIM_SAID_MAX && !sim_has(w, SIM_DAY); i++) {
        const struct sim_said *said = &w->said[i];
        name(i, id);
        if (said->version == 0 || w->nodes[said->node].life != said->life) {
            continue;
        }
        if (!roster_find(roster, id, &entry)) {
            return "a worker that was spoken of is forgotten";
        }
        if (entry.version < said->version) {
            return "what was said last of a worker is forgotten";
        }
        if (entry.version == said->version && !said->tie &&
            entry.removed != said->removed) {
            return "a removed worker is back, or one is gone";
        }
    }
    return NULL;
}
