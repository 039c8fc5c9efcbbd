/*
 * What the fleet can still know of a living engine. Its state can be had from
 * the engine, as long as the replay reaches the process's first batch, or from
 * a node that knows all up to a batch from which the replay goes on, and the
 * engine's names of the blocks. When both are gone, it is lost. That may come
 * of what happens to nodes and engines, never of what nodes do about it.
 */
#include "chaos/sim/sim_world_internal.h"

/* Whether someone can still learn all that the living process holds. */
static bool
can_be_had(const struct sim_world *w, uint32_t engine, uint32_t low)
{
    bool had = low == 0;

    CHECK(engine < w->engines_count);
    for (uint32_t i = 0; i < w->nodes_count && !had; i++) {
        const struct sim_stream *f = &w->nodes[i].streams[engine];
        had = w->nodes[i].up && f->known > low; /* one proves the process */
    }
    return had;
}

static uint32_t
lowest_of(const struct sim_world *w, uint32_t engine)
{
    const struct sim_engine *e = &w->engines[engine];

    CHECK(e->processes_count > 0);
    return e->has_replay ? sim_engine_low(e, e->processes_count - 1)
                         : e->processes[e->processes_count - 1].count;
}

void
sim_known_changed(struct sim_world *w, uint32_t engine)
{
    struct sim_process *p = sim_living(&w->engines[engine]);

    if (!p->lost && !can_be_had(w, engine, lowest_of(w, engine))) {
        sim_trace(w, "slipped", engine, p->count);
        p->lost = true;
    }
}

void
sim_known_gone(struct sim_world *w, uint32_t node)
{
    for (uint32_t i = 0; i < w->engines_count; i++) {
        w->nodes[node].streams[i].known = 0;
        sim_known_changed(w, i);
    }
}

/* Whether what it holds is all of the living process's at this position. Who
 * missed the first batches knows all after a CLEAR, by another name. */
static bool
is_of_living(const struct sim_engine *e, const struct gossip_status *s)
{
    const struct sim_process *p = &e->processes[e->processes_count - 1];
    uint32_t upto = (uint32_t)((s->pos + 1) >> 8);

    if (s->epoch.id == p->id || upto == 0 || upto > p->count ||
        sim_engine_process(e, s->epoch.id) != UINT32_MAX) {
        return s->epoch.id == p->id && p->count > 0;
    }
    return s->count == p->batches[upto - 1].count &&
           s->xor_keys == p->batches[upto - 1].xor_keys;
}

/* How many batches of the living process it knows the outcome of, the engine's
 * names of the blocks included. Who asks a peer for newer names keeps its own
 * until they are there. */
static uint32_t
known_of(const struct sim_world *w, uint32_t engine,
         const struct gossip_status *s)
{
    bool whole =
        s->complete && !s->torn && is_of_living(&w->engines[engine], s);
    uint64_t names = s->names_known ? s->names_pos : s->names_kept;
    uint64_t pos = names < s->pos ? names : s->pos;

    return whole ? (uint32_t)((pos + 1) >> 8) : 0;
}

void
sim_known_look(struct sim_world *w, uint32_t node, uint32_t engine,
               const struct gossip_status *s)
{
    struct sim_process *p = sim_living(&w->engines[engine]);
    struct sim_stream *f = &w->nodes[node].streams[engine];
    uint32_t low = lowest_of(w, engine);
    bool had = can_be_had(w, engine, low);

    f->known = known_of(w, engine, s);
    bool forgot = had && !can_be_had(w, engine, low);
    if (forgot && !p->lost) {
        sim_fail(w, "the fleet forgot a living engine", node, engine);
    }
    p->lost = p->lost || !had || forgot;
}
