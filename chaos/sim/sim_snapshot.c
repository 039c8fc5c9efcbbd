/*
 * Disks and snapshots: each node has a disk that outlives it. What the node
 * knows is cut, saved, found and restored by the cores of storage/ and the
 * mapping of node/ingest/snapshot_state.h, while the disk fails, tears and
 * lies.
 *
 * The world keeps a fingerprint of each state that was cut: a start must load
 * one of these states, whole, and each of its streams must equal the engine's
 * cache at that time. A disk that was always honest returns the last snapshot
 * that it acknowledged.
 */
#include <stdlib.h>

#include "chaos/sim/sim_snapshot_internal.h"
#include "index/base/role.h"

#define LOOK_US     UINT64_C(1000000) /* to see what changed, as serve does */
#define FINISH_US   UINT64_C(30000000)
#define QUEUE_BYTES 65536U
#define TXN_BYTES   16384U

/* Beginning and end of the world */

void
sim_snapshot_draw(struct sim_world *w)
{
    struct rng rng;

    rng_init(&rng, rng_mix(w->options.seed ^ 0xD15C));
    if (sim_below(&rng, 4) == 0) {
        w->faults &= ~SIM_FAULTS_OF_DISKS;
        return;
    }
    struct sim_stores *d = calloc(1, sizeof *d);
    CHECK(d != NULL);
    w->stores = d;
    d->take = storage_take_config_default();
    d->take.interval_us = (200 + sim_below(&rng, 4000)) * SIM_MS;
    d->take.changed_us = (100 + sim_below(&rng, 2000)) * SIM_MS;
    d->take.changed_permille = 20 + sim_below(&rng, 400);
    d->take.retry_us = (100 + sim_below(&rng, 1000)) * SIM_MS;
    d->take.turn_bytes = 50 + sim_below(&rng, 1000);
    d->limits = storage_limits_default();
    d->limits.queue_bytes = QUEUE_BYTES;
    d->limits.txn_bytes = 1000 + sim_below(&rng, TXN_BYTES);
    d->turn_us = 1000 + sim_below(&rng, 40000);
    d->job_us = 20 + sim_below(&rng, 4000);
    d->jobs = 30 + sim_below(&rng, 200);
    for (uint32_t i = 0; i < w->nodes_count; i++) {
        d->store[i].io = sim_disk_new(rng_next(&rng));
        d->store[i].honest = true;
        CHECK(d->store[i].io != NULL);
    }
    d->rng = rng;
}

void
sim_snapshot_end(struct sim_world *w)
{
    for (uint32_t i = 0; i < w->nodes_count && w->stores != NULL; i++) {
        storage_io_free(w->stores->store[i].io);
        storage_io_free(w->stores->store[i].backup);
    }
    if (w->stores != NULL) {
        free(w->stores->saved);
    }
    free(w->stores);
}

/* Fingerprints of states, computed from the pages of the index */

uint64_t
sim_snapshot_print(struct sim_world *w, uint32_t node,
                   const struct storage_stream *stream)
{
    const struct sim_node *n = &w->nodes[node];
    uint64_t cursor = 0;
    uint64_t count = 0;
    uint64_t keys = 0;

    role_is_control();
    while (cursor != MIRROR_PAGE_END) {
        struct event_words page = {.words = n->ingest->page,
                                   .max = GOSSIP_PAGE_WORDS};
        cursor = mirror_page(n->mirror, stream->slot, cursor, &page);
        for (uint32_t at = 0; at < page.count;) {
            uint32_t held = event_op_count(page.words[at]);
            for (uint32_t i = 1; i <= held; i++) {
                keys ^= rng_mix(page.words[at + i]);
            }
            count += held;
            at += 1 + held;
        }
    }
    uint64_t print = rng_mix(stream->pos ^ rng_mix(stream->epoch_id));
    print = rng_mix(print ^ stream->epoch_no ^ stream->complete);
    return rng_mix(print ^ count ^ rng_mix(keys)) | 1;
}

static struct sim_saved *
next_saved(struct sim_stores *d)
{
    if (d->saved_count == d->saved_size) {
        d->saved_size = d->saved_size * 2 + 32;
        d->saved = realloc(d->saved, d->saved_size * sizeof *d->saved);
        CHECK(d->saved != NULL);
    }
    struct sim_saved *saved = &d->saved[d->saved_count++];
    *saved = (struct sim_saved){.roster = 0};
    return saved;
}

/* Taking */

static uint32_t
list_streams(struct sim_world *w, uint32_t node, struct sim_saved *saved,
             struct storage_stream *streams)
{
    const struct sim_node *n = &w->nodes[node];
    struct mirror_writer_status status;
    uint32_t count = 0;

    role_is_control();
    for (uint32_t at = 0; mirror_writer_status(n->writer, at, &status); at++) {
        uint32_t engine = status.worker;
        if (snapshot_stream_image(n->ingest, w->engines[engine].stream, &status,
                                  &streams[count])) {
            sim_ledger_position(w, node, engine, &streams[count]);
            saved->names[engine] = streams[count].ledger != STORAGE_NONE;
            saved->print[engine] =
                sim_snapshot_print(w, node, &streams[count++]);
        }
    }
    return count;
}

static void
tell_facts(struct sim_world *w, uint32_t node)
{
    struct sim_store *d = sim_store_of(w, node);
    const struct sim_node *n = &w->nodes[node];
    struct sim_saved *saved = next_saved(w->stores);
    struct storage_stream streams[SIM_STREAMS];
    struct storage_worker *workers = NULL;
    struct member_info infos[MEMBERS_MAX];
    struct storage_member members[MEMBERS_MAX];
    struct storage_facts facts = {.streams = streams, .members = members};
    struct storage_about about = {.cluster = SIM_CLUSTER,
                                  .node = n->name,
                                  .taken_ms = w->stores->saved_count};

    saved->roster = roster_digest(cluster_roster(n->cluster));
    facts.streams_count = list_streams(w, node, saved, streams);
    CHECK(snapshot_workers(cluster_roster(n->cluster), &workers,
                           &facts.workers_count));
    facts.workers = workers;
    facts.members_count =
        snapshot_members(cluster_members(n->cluster), infos, members);
    storage_take_facts(&d->take, &facts, &about);
    free(workers);
}

void
sim_snapshot_arm(struct sim_world *w, uint32_t node, uint64_t after_us)
{
    struct sim_store *d = sim_store_of(w, node);
    uint64_t at_us = w->time.now_us + after_us;

    if (at_us < d->armed_us) {
        d->armed_us = at_us;
        sim_add(w, at_us, SIM_EV_TAKE, node, w->nodes[node].life);
    }
}

static void
wake_disk(struct sim_world *w, uint32_t node)
{
    struct sim_store *d = sim_store_of(w, node);

    if (!d->working) {
        d->working = true;
        sim_add(
            w,
            w->time.now_us + 1 + rng_below(&w->stores->rng, w->stores->job_us),
            SIM_EV_DISK, node, w->nodes[node].life);
    }
}

static uint64_t
until_due_us(const struct sim_world *w, uint32_t node,
             const struct sim_store *d)
{
    uint64_t now_us = sim_now(w, node);
    uint64_t due_us = storage_take_deadline(&d->take);
    uint64_t wait_us = due_us > now_us ? due_us - now_us : 0;
    uint64_t changed_us = d->take.changed_due_us;

    if (changed_us > now_us && changed_us - now_us < wait_us) {
        wait_us = changed_us - now_us;
    }
    return wait_us < LOOK_US ? wait_us : LOOK_US;
}

/* What became of the last one. */
static void
look_back(struct sim_world *w, uint32_t node)
{
    struct sim_store *d = sim_store_of(w, node);
    const struct storage_take_status *s = &d->take.status;

    if (s->taken != d->told_taken) {
        d->told_taken = s->taken;
        d->kept = d->lies || !d->honest ? 0 : d->take.about.taken_ms;
        d->newest = d->take.about.taken_ms;
        sim_trace(w, "snapshot", node, d->newest);
        sim_saw(w, SIM_SAW_SNAPSHOT, 1);
    }
    if (s->failed != d->told_failed) {
        d->told_failed = s->failed;
        sim_trace(w, "no snapshot", node, s->outcome);
        sim_saw(w, SIM_SAW_SNAPSHOT_FAILED, 1);
    }
}

static void
finish(struct sim_world *w, uint32_t node)
{
    struct sim_store *d = sim_store_of(w, node);
    bool over = !d->take.asked && !d->take.status.running;
    uint64_t away_ms = d->away_ms;

    if (over || w->time.now_us >= d->finish_us) {
        sim_saw(w, SIM_SAW_SNAPSHOT_LAST, over);
        sim_node_leave(w, node, away_ms);
    }
}

static void
turn(struct sim_world *w, uint32_t node)
{
    struct sim_store *d = sim_store_of(w, node);
    enum storage_take_step step = storage_take_tick(&d->take, sim_now(w, node));
    uint64_t after_us = w->stores->turn_us;

    look_back(w, node);
    if (step == STORAGE_TAKE_FACTS) {
        tell_facts(w, node);
    } else if (step == STORAGE_TAKE_WAITS) {
        after_us = LOOK_US; /* the disk wakes us before */
    } else if (step == STORAGE_TAKE_IDLE) {
        after_us = until_due_us(w, node, d);
    }
    sim_snapshot_arm(w, node, after_us);
    if (d->take.status.running) {
        wake_disk(w, node);
    }
    if (d->finish_us != 0) {
        finish(w, node);
    }
}

static void
fail_power(struct sim_world *w, uint32_t node)
{
    struct sim_store *d = sim_store_of(w, node);

    d->jobs_to_go = 0;
    sim_trace(w, "power", node, d->newest);
    sim_node_kill(w, node);
    sim_add(w,
            w->time.now_us + (20 + rng_below(&w->stores->rng, 3000)) * SIM_MS,
            SIM_EV_START, node, 0);
}

/* The disk's thread. */
static void
work(struct sim_world *w, uint32_t node)
{
    struct sim_store *d = sim_store_of(w, node);
    bool more = true;

    d->working = false;
    for (uint32_t i = 0; i < w->stores->jobs && more; i++) {
        more = storage_disk_turn(d->queue);
        if (more && d->jobs_to_go > 0 && --d->jobs_to_go == 0) {
            fail_power(w, node);
            return;
        }
    }
    if (more) {
        wake_disk(w, node);
    } else {
        turn(w, node);
    }
}

void
sim_snapshot_event(struct sim_world *w, const struct virtual_event *event)
{
    uint32_t node = event->who;
    struct sim_store *d = sim_store_of(w, node);

    if (event->kind == SIM_EV_DISK) {
        work(w, node);
    } else if (event->kind == SIM_EV_LEDGER) {
        sim_ledger_turn(w, node);
    } else if (d->armed_us <= w->time.now_us) {
        d->armed_us = SIM_NEVER;
        turn(w, node);
    }
}

/* The end of a life */

bool
sim_snapshot_finish(struct sim_world *w, uint32_t node, uint64_t away_ms)
{
    struct sim_store *d = sim_store_of(w, node);

    if (d == NULL) {
        return true;
    }
    if (d->finish_us == 0) {
        d->finish_us = w->time.now_us + FINISH_US;
        d->away_ms = away_ms;
        storage_take_ask(&d->take);
        sim_snapshot_arm(w, node, 0);
    }
    return false;
}

void
sim_snapshot_stop(struct sim_world *w, uint32_t node)
{
    struct sim_store *d = sim_store_of(w, node);

    if (d != NULL) {
        sim_disk_crash(d->io, d->lies);
        if (d->tears) {
            d->tears = false;
            d->lies = false;
            sim_disk_lie(d->io, false);
        }
        storage_take_stop(&d->take);
        storage_disk_free(d->queue);
        storage_cut_free(d->cut);
        sim_ledger_end(w, node);
        d->queue = NULL;
        d->cut = NULL;
    }
}
