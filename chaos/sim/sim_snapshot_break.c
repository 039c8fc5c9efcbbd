/* What breaks disks. */
#include "chaos/sim/sim_snapshot_internal.h"

#define FULL_BYTES 40000U
#define TEAR_JOBS  320U /* of a snapshot, and some more */
#define FAIL_OPS   400U

static void
fill(struct sim_store *d, struct rng *rng)
{
    if (sim_below(rng, 3) == 0) {
        sim_disk_fail(d->io, 1 + sim_below(rng, FAIL_OPS), STORAGE_E_IO);
        return;
    }
    d->full = !d->full;
    sim_disk_limit(d->io, d->full ? 1 + sim_below(rng, FULL_BYTES) : 0);
}

/* The power goes while a snapshot is written, which is torn. */
static void
tear(struct sim_world *w, struct rng *rng, uint32_t node)
{
    struct sim_store *d = sim_store_of(w, node);
    uint32_t jobs = 1 + sim_below(rng, TEAR_JOBS);

    if (sim_runs(w, node)) {
        d->tears = !d->lies;
        d->lies = true;
        d->kept = 0;
        d->honest = false;
        sim_disk_lie(d->io, true);
        d->jobs_to_go = jobs;
        storage_take_ask(&d->take);
        sim_snapshot_arm(w, node, 0);
    }
}

static void
lie(struct sim_world *w, struct rng *rng, uint32_t node)
{
    struct sim_store *d = sim_store_of(w, node);
    struct storage_names names;
    bool flips = sim_below(rng, 2) == 0;

    d->kept = 0;
    d->honest = false;
    if (!flips) {
        d->lies = !d->lies;
        d->tears = false;
        sim_disk_lie(d->io, d->lies);
    } else if (d->io->ops->list(d->io, &names) == STORAGE_OK &&
               names.count > 0) {
        (void)sim_disk_damage(d->io, names.name[sim_below(rng, names.count)]);
    }
}

/* Another disk under the node, which is started again. */
static void
exchange(struct sim_world *w, struct rng *rng, uint32_t node,
         const struct storage_io *from)
{
    struct sim_store *d = sim_store_of(w, node);
    struct storage_io *io = sim_disk_copy(from, rng_next(rng));

    CHECK(io != NULL && (sim_runs(w, node) || !w->nodes[node].up));
    if (w->nodes[node].up) {
        sim_node_kill(w, node);
        sim_add(w, w->time.now_us + (20 + rng_below(rng, 3000)) * SIM_MS,
                SIM_EV_START, node, 0);
    }
    storage_io_free(d->io);
    d->io = io;
    d->kept = 0;
    d->honest = false;
    d->lies = false;
    d->tears = false;
    d->full = false;
}

static void
roll_back(struct sim_world *w, struct rng *rng, uint32_t node)
{
    struct sim_store *d = sim_store_of(w, node);

    if (d->backup == NULL) {
        d->backup = sim_disk_copy(d->io, rng_next(rng));
        return;
    }
    exchange(w, rng, node, d->backup);
    if (sim_below(rng, 2) == 0) {
        storage_io_free(d->backup);
        d->backup = NULL;
    }
}

static void
swap(struct sim_world *w, struct rng *rng, uint32_t node)
{
    uint32_t other = sim_below(rng, w->nodes_count);
    bool foreign = sim_below(rng, 2) == 0;

    exchange(w, rng, node, sim_store_of(w, other)->io);
    sim_store_of(w, node)->foreign = foreign;
}

void
sim_snapshot_break(struct sim_world *w, enum sim_fault fault, uint32_t node)
{
    struct rng *rng = &w->chaos[fault];

    if (w->nodes[node].up && !sim_runs(w, node)) {
        return; /* it sleeps, and so does its disk */
    }
    switch ((int)fault) {
    case SIM_DISK_FULL:
        fill(sim_store_of(w, node), rng);
        break;
    case SIM_DISK_TEAR:
        tear(w, rng, node);
        break;
    case SIM_DISK_STALE:
        roll_back(w, rng, node);
        break;
    case SIM_DISK_LIE:
        lie(w, rng, node);
        break;
    default:
        swap(w, rng, node);
        break;
    }
}

void
sim_snapshot_heal(struct sim_world *w)
{
    for (uint32_t i = 0; i < w->nodes_count && w->stores != NULL; i++) {
        struct sim_store *d = sim_store_of(w, i);
        d->full = false;
        d->lies = false;
        d->jobs_to_go = 0;
        d->finish_us = 0;
        sim_disk_limit(d->io, 0);
        sim_disk_fail(d->io, 0, STORAGE_OK);
        sim_disk_lie(d->io, false);
    }
}
