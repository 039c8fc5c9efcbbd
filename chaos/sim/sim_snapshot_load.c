/* A start: finds the snapshot on the node's disk and restores it. */
#include <stdlib.h>

#include "chaos/sim/sim_snapshot_internal.h"
#include "index/base/role.h"

#define FOREIGN "elsewhere"

/* What must hold */

/* The stream equals the state that was cut, and the engine's cache at that
 * time. */
static void
check_stream(struct sim_world *w, uint32_t node, uint32_t engine,
             const struct storage_stream *stream, const struct sim_saved *saved)
{
    role_is_control();
    const struct sim_engine *e = &w->engines[engine];
    const struct mirror *mirror = w->nodes[node].mirror;
    uint32_t process = sim_engine_process(e, stream->epoch_id);
    uint64_t seq = stream->pos >> 8;

    if (sim_snapshot_print(w, node, stream) != saved->print[engine]) {
        sim_fail(w, "loaded what was never saved", node, engine);
    }
    if (!stream->complete || (stream->pos & 255) != 255 ||
        process == UINT32_MAX) {
        return;
    }
    if (seq >= e->processes[process].count) {
        sim_fail(w, "loaded a position that never was", node, engine);
        return;
    }
    const struct sim_batch *truth = &e->processes[process].batches[seq];
    if (mirror_slot_blocks(mirror, stream->slot) != truth->count ||
        mirror_slot_digest(mirror, stream->slot) != truth->xor_keys) {
        sim_fail(w, "loaded what the engine never had", node, engine);
    }
    sim_saw(w, SIM_SAW_LOADED_OTHER, process + 1 != e->processes_count);
    sim_saw(w, SIM_SAW_LOADED_OLD,
            process + 1 == e->processes_count &&
                seq + 1 < e->processes[process].count);
}

static void
check_found(struct sim_world *w, uint32_t node, const struct storage_find *find)
{
    const struct sim_store *d = sim_store_of(w, node);
    uint64_t number = find->found ? find->chosen.taken_ms : 0;

    sim_saw(w, SIM_SAW_SET_ASIDE, find->refusals);
    if (d->foreign) {
        sim_saw(w, SIM_SAW_FOREIGN, find->refusals);
        if (find->found) {
            sim_fail(w, "a foreign snapshot is taken", node, UINT32_MAX);
        }
        return;
    }
    if (number < d->kept || (d->honest && find->refusals > 0)) {
        sim_fail(w, "a snapshot that was saved is not there", node, UINT32_MAX);
    }
    if (number > w->stores->saved_count) {
        sim_fail(w, "found what was never saved", node, UINT32_MAX);
    }
    sim_saw(w, SIM_SAW_LOADED_STALE, find->found && number < d->newest);
}

/* Loading */

static void
load_workers(struct sim_world *w, uint32_t node,
             const struct storage_load *load)
{
    struct roster *roster = cluster_roster(w->nodes[node].cluster);
    struct slice bytes;
    struct storage_worker worker;
    struct roster_entry entry;
    char id[ROSTER_ID_MAX];

    if (storage_restore_part(load, STORAGE_ROSTER, &bytes) != STORAGE_OK) {
        return;
    }
    struct storage_records in = storage_records(bytes);
    while (storage_get_worker(&in, &worker)) {
        if (snapshot_worker_entry(&worker, 0, id, &entry)) {
            CHECK(roster_load(roster, &entry, sim_now(w, node)) == 0);
        }
    }
}

static void
load_members(struct sim_world *w, uint32_t node,
             const struct storage_load *load)
{
    struct slice bytes;
    struct storage_member member;

    if (storage_restore_part(load, STORAGE_MEMBERS, &bytes) != STORAGE_OK) {
        return;
    }
    struct storage_records in = storage_records(bytes);
    while (storage_get_member(&in, &member)) {
        (void)snapshot_member_hint(w->nodes[node].cluster, &member,
                                   sim_now(w, node));
    }
}

static uint32_t
engine_of(const struct sim_world *w, uint64_t worker)
{
    uint32_t engine = 0;

    while (engine < w->engines_count &&
           w->engines[engine].stream.worker != worker) {
        engine++;
    }
    return engine;
}

static void
go_on(struct sim_world *w, uint32_t node, const struct storage_stream *stream,
      const struct sim_saved *saved)
{
    struct sim_node *n = &w->nodes[node];
    uint32_t engine = engine_of(w, stream->name.worker);

    role_is_control();
    if (engine == w->engines_count) {
        sim_fail(w, "loaded an unknown engine", node, UINT32_MAX);
        return;
    }
    check_stream(w, node, engine, stream, saved);
    if (!snapshot_stream_restore(n->ingest, &n->streams[engine].rank, stream)) {
        sim_fail(w, "a new node has a stream already", node, engine);
    }
    if (saved->names[engine] != (stream->ledger != STORAGE_NONE)) {
        sim_fail(w, "a reading was saved that cannot go on", node, engine);
    }
    sim_ledger_restore(w, node, engine, stream);
    sim_store_of(w, node)->loaded[engine] = true;
}

/* Of the restored streams; all that were saved are as they were. */
static enum storage_outcome
load_names(struct sim_world *w, uint32_t node, const struct storage_load *load,
           const struct storage_stream *streams, uint32_t count)
{
    struct names_room room = {.bytes_max = SIZE_MAX};
    struct names_copied *tables = calloc((size_t)count + 1, sizeof *tables);
    uint32_t refused;

    CHECK(tables != NULL);
    enum storage_outcome rc =
        storage_restore_names(load, streams, count, tables, &room, &refused);
    for (uint32_t i = 0; i < count; i++) {
        bool named = snapshot_stream_names(w->nodes[node].ingest, &streams[i],
                                           &tables[i].table);
        sim_saw(w, SIM_SAW_LOADED_NAMES, named);
        if (streams[i].named && !tables[i].lost && !named) {
            sim_fail(w, "names were saved that cannot be loaded", node,
                     engine_of(w, streams[i].name.worker));
        }
        names_clear(&tables[i].table, &room);
    }
    free(tables);
    return rc;
}

static enum storage_outcome
load_streams(struct sim_world *w, uint32_t node,
             const struct storage_load *load, const struct sim_saved *saved)
{
    struct sim_node *n = &w->nodes[node];
    struct storage_stream *streams = NULL;
    uint32_t count = 0;
    uint32_t expected = 0;
    enum storage_outcome rc = storage_restore_streams(load, &streams, &count);

    if (rc != STORAGE_OK) {
        return rc;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!snapshot_stream_resumes(&streams[i])) {
            streams[i].ledger = STORAGE_NONE;
        }
    }
    rc =
        storage_restore_index(load, n->mirror, n->tools.ledger, streams, count);
    for (uint32_t i = 0; rc == STORAGE_OK && i < count; i++) {
        go_on(w, node, &streams[i], saved);
    }
    if (rc == STORAGE_OK) {
        rc = load_names(w, node, load, streams, count);
    }
    for (uint32_t i = 0; i < SIM_STREAMS; i++) {
        expected += saved->print[i] != 0;
    }
    if (rc == STORAGE_OK && count != expected) {
        sim_fail(w, "loaded a part of what was saved", node, UINT32_MAX);
    }
    free(streams);
    return rc;
}

static void
load_all(struct sim_world *w, uint32_t node, const struct storage_find *find)
{
    struct sim_store *d = sim_store_of(w, node);
    const struct sim_saved *saved =
        &w->stores->saved[find->chosen.taken_ms - 1];
    struct storage_load load;
    struct storage_report report;

    if (storage_load_open(&load, d->io, find->chosen.file, SIM_CLUSTER,
                          &report) != STORAGE_OK) {
        sim_fail(w, "a verified snapshot does not open", node, UINT32_MAX);
        return;
    }
    load_workers(w, node, &load);
    load_members(w, node, &load);
    sim_saw(w, SIM_SAW_LOADED_JOURNAL,
            storage_root_find(&load.root, STORAGE_MIRROR_JOURNAL, 0) != NULL);
    if (load_streams(w, node, &load, saved) != STORAGE_OK) {
        sim_fail(w, "a verified snapshot does not load", node, UINT32_MAX);
    }
    storage_load_close(&load);
    if (roster_digest(cluster_roster(w->nodes[node].cluster)) !=
        saved->roster) {
        sim_fail(w, "loaded other workers", node, UINT32_MAX);
    }
    sim_trace(w, "loaded", node, find->chosen.taken_ms);
    sim_saw(w, SIM_SAW_RESTORED, 1);
}

/* The beginning of a life */

static void
begin(struct sim_world *w, uint32_t node, uint64_t generation)
{
    struct sim_store *d = sim_store_of(w, node);
    struct storage_source source = {
        .mirror = w->nodes[node].mirror,
        .names = snapshot_names(cluster_gossip(w->nodes[node].cluster))};
    struct storage_save *save =
        storage_save_new(d->io, &w->stores->limits, generation);

    CHECK(save != NULL);
    d->cut = storage_cut_new(&source);
    CHECK(d->cut != NULL);
    CHECK(storage_disk_new_still(&d->queue, save,
                                 w->stores->limits.queue_bytes) == 0);
    storage_take_init(&d->take, &w->stores->take, d->cut, d->queue,
                      sim_now(w, node));
    sim_ledger_begin(w, node);
    d->armed_us = SIM_NEVER;
    d->working = false;
    d->finish_us = 0;
    d->jobs_to_go = 0;
    d->told_taken = 0;
    d->told_failed = 0;
    sim_snapshot_arm(w, node, w->stores->take.changed_us);
}

void
sim_snapshot_start(struct sim_world *w, uint32_t node)
{
    struct sim_store *d = sim_store_of(w, node);
    struct storage_find find;

    if (d == NULL) {
        return;
    }
    memset(d->loaded, 0, sizeof d->loaded);
    CHECK(storage_find(d->io, d->foreign ? FOREIGN : SIM_CLUSTER,
                       &w->stores->limits, 0, &find) == STORAGE_OK);
    check_found(w, node, &find);
    d->foreign = false;
    d->honest = !d->lies;
    d->kept = find.found && d->honest ? find.chosen.taken_ms : 0;
    d->newest = find.found ? find.chosen.taken_ms : 0;
    if (find.found && !w->failed) {
        load_all(w, node, &find);
    }
    begin(w, node, find.generation);
}

/* Steps */

/* The node's reading leads the stream, and is live. */
static bool
leads(const struct sim_node *n, uint32_t engine)
{
    const struct ingest_rank *rank = &n->streams[engine].rank;

    return kv_stream_state_is_live(rank->read) &&
           gossip_reads(n->ingest->gossip, rank->stream);
}

void
sim_snapshot_told(struct sim_world *w, uint32_t node, uint32_t engine)
{
    struct sim_store *d = sim_store_of(w, node);

    if (d != NULL && d->loaded[engine] && leads(&w->nodes[node], engine)) {
        sim_saw(w, SIM_SAW_LOADED_CAUGHT_UP, 1);
        d->loaded[engine] = false;
    }
}

/* Loaded state counts for less until the node has caught up. */
void
sim_snapshot_check(struct sim_world *w, uint32_t node)
{
    struct sim_store *d = sim_store_of(w, node);
    const struct sim_node *n = &w->nodes[node];

    for (uint32_t i = 0; d != NULL && i < w->engines_count; i++) {
        sim_snapshot_told(w, node, i);
        if (!d->loaded[i]) {
            continue;
        }
        if (n->ready == CLUSTER_CAUGHT_UP) {
            sim_saw(w, SIM_SAW_LOADED_CAUGHT_UP, 1);
            d->loaded[i] = false;
        } else if (kv_stream_state_is_live(n->streams[i].rank.told)) {
            sim_fail(w, "what was loaded is believed at once", node, i);
        }
    }
}

/* Another epoch begins. */
void
sim_snapshot_reset(struct sim_world *w, uint32_t node, uint32_t engine,
                   struct gossip_epoch epoch)
{
    struct sim_store *d = sim_store_of(w, node);

    if (d != NULL && d->loaded[engine]) {
        d->loaded[engine] = false;
        sim_saw(w, SIM_SAW_LOADED_DROPPED,
                epoch.id != w->nodes[node].streams[engine].epoch.id);
    }
}
