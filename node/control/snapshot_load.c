/* Restores the contents of a snapshot into a new node. */
#include <stdlib.h>

#include "index/base/pack.h"
#include "node/base/log.h"
#include "node/control/snapshot_internal.h"
#include "node/fleet/probe.h"
#include "node/ingest/snapshot_state.h"

/* Workers: restores operators' changes. */

static void ON_CONTROL
take_worker(struct snapshot *snapshot, const struct storage_worker *worker)
{
    const struct snapshot_parts *parts = &snapshot->parts;
    struct roster *roster = cluster_roster(parts->cluster);
    char id[ROSTER_ID_MAX];
    struct roster_entry entry;

    if (!snapshot_worker_entry(worker, snapshot->loaded.age_ms, id, &entry)) {
        return;
    }
    int outcome = roster_load(roster, &entry, probe_now_us());
    if (outcome != 0) {
        LOG_WARNING(
            "snapshot_worker_refused", KV("worker", id), KV("outcome", outcome),
            KV("hint", "it comes back with a configuration, or from peers"));
        return;
    }
    snapshot->loaded.workers++;
    if (roster_find(roster, id, &entry)) {
        parts->worker(parts->context, &entry);
    }
}

static void ON_CONTROL
load_workers(struct snapshot *snapshot, const struct storage_load *load)
{
    struct slice bytes;
    struct storage_worker worker;

    if (storage_restore_part(load, STORAGE_ROSTER, &bytes) != STORAGE_OK) {
        return;
    }
    struct storage_records in = storage_records(bytes);
    while (storage_get_worker(&in, &worker)) {
        take_worker(snapshot, &worker);
    }
}

/* Members: where they may be. */
static void ON_CONTROL
load_members(struct snapshot *snapshot, const struct storage_load *load)
{
    const struct snapshot_parts *parts = &snapshot->parts;
    struct slice bytes;
    struct storage_member member;

    if (!parts->meshed ||
        storage_restore_part(load, STORAGE_MEMBERS, &bytes) != STORAGE_OK) {
        return;
    }
    struct storage_records in = storage_records(bytes);
    while (storage_get_member(&in, &member)) {
        snapshot->loaded.members +=
            snapshot_member_hint(parts->cluster, &member, probe_now_us());
    }
}

/* Streams */

/* The fleet's slot of the worker of that identity, or WORKER_NONE. */
static uint32_t
find_worker(const struct snapshot_parts *parts, uint64_t identity)
{
    struct fleet_status status;

    for (uint32_t slot = 0; slot < WORKERS_MAX; slot++) {
        if (fleet_status(parts->fleet, slot, &status) &&
            status.worker->identity == identity) {
            return slot;
        }
    }
    return WORKER_NONE;
}

static uint32_t
slot_of(void *context, uint64_t identity)
{
    return find_worker(context, identity);
}

/* Whether the stream's worker is followed here; then gossip has its streams. */
static bool ON_CONTROL
is_wanted(const struct snapshot_parts *parts,
          const struct storage_stream *stream)
{
    struct cluster *cluster = parts->cluster;
    struct fleet_status status;
    uint32_t slot = find_worker(parts, stream->name.worker);

    if (stream->slot >= WORKERS_MAX || slot == WORKER_NONE ||
        !fleet_status(parts->fleet, slot, &status) ||
        !ingest_has_events(status.worker) ||
        stream->name.rank >= status.worker->ranks) {
        return false;
    }
    struct island_path island = island_path_of(slice_of(status.worker->island));

    return cluster_worker_add(cluster, status.worker->identity,
                              status.worker->ranks, &island,
                              probe_now_us()) == 0;
}

/* Those that are wanted go first; how many they are. */
static uint32_t ON_CONTROL
choose(struct snapshot *snapshot, struct storage_stream *streams,
       uint32_t count)
{
    uint32_t wanted = 0;

    for (uint32_t i = 0; i < count; i++) {
        if (!is_wanted(&snapshot->parts, &streams[i])) {
            continue;
        }
        streams[wanted] = streams[i];
        if (!snapshot_stream_resumes(&streams[wanted])) {
            streams[wanted].ledger = STORAGE_NONE;
        }
        wanted++;
    }
    snapshot->loaded.left_out = count - wanted;
    return wanted;
}

/* The mirror, and the ledger into the intake that does not run yet. What fails
 * with the ledger costs a reading from the first batch on, and no stream. */
static struct storage_beside ON_CONTROL
load_index(struct snapshot *snapshot, const struct storage_load *load,
           struct storage_stream *streams, uint32_t count)
{
    struct intake *intake = ingest_own_intake(snapshot->parts.ingest);
    uint64_t begun_us = probe_now_us();
    bool any = false;

    for (uint32_t i = 0; i < count; i++) {
        any = any || streams[i].ledger != STORAGE_NONE;
    }
    struct storage_beside rc = storage_restore_beside(
        load, snapshot->parts.node->mirror, any ? intake_ledger(intake) : NULL,
        streams, count);
    snapshot->loaded.ledger_us = any ? probe_now_us() - begun_us : 0;
    if (rc.mirror == STORAGE_OK && rc.ledger == STORAGE_OK) {
        return rc;
    }
    if (rc.mirror == STORAGE_OK) {
        LOG_WARNING("snapshot_ledger_not_loaded",
                    KV("reason", storage_outcome_name(rc.ledger)),
                    KV("hint", "engines are read from their first batch"));
    }
    for (uint32_t i = 0; i < count; i++) {
        streams[i].ledger = STORAGE_NONE;
    }
    if (any && intake_ledger_renew(intake) != 0) {
        rc.ledger = STORAGE_E_MEMORY;
    }
    return rc;
}

/* The stream exists, so its reading may continue. */
static void ON_CONTROL
resume_stream(struct snapshot *snapshot, const struct storage_stream *stream,
              bool there)
{
    struct intake *intake = ingest_own_intake(snapshot->parts.ingest);

    if (stream->ledger == STORAGE_NONE) {
        return;
    }
    if (there &&
        intake_load(intake, stream->name, stream->ledger, stream->reading)) {
        snapshot->loaded.ledgers++;
        snapshot->loaded.ledger_blocks += stream->ledger_blocks;
    } else {
        ledger_close(intake_ledger(intake), stream->ledger);
    }
}

static bool ON_CONTROL
restore_stream(struct snapshot *snapshot, const struct storage_stream *stream)
{
    const struct snapshot_parts *parts = &snapshot->parts;

    if (!ingest_restore(parts->ingest, stream)) {
        mirror_close(parts->node->mirror, stream->slot);
        snapshot->loaded.left_out++;
        return false;
    }
    snapshot->loaded.streams++;
    snapshot->loaded.blocks += stream->blocks;
    return true;
}

/* Of streams that were restored. Without its names, a stream goes on from its
 * ledger, or is read from the first batch. */
static enum storage_outcome ON_CONTROL
load_names(struct snapshot *snapshot, const struct storage_load *load,
           const struct storage_stream *streams, uint32_t count)
{
    struct ingest_streams *ingest = ingest_streams(snapshot->parts.ingest);
    struct snapshot_loaded *loaded = &snapshot->loaded;
    struct names_room room = {
        .bytes_max = (size_t)snapshot->config->mirror.ledger_bytes_max};
    struct names_copied *tables = calloc((size_t)count + 1, sizeof *tables);

    if (tables == NULL) {
        return STORAGE_OK;
    }
    enum storage_outcome rc = storage_restore_names(
        load, streams, count, tables, &room, &loaded->names_refused);
    for (uint32_t i = 0; i < count; i++) {
        struct names *names = &tables[i].table;
        bool named = snapshot_stream_names(ingest, &streams[i], names);
        loaded->named += named;
        names_clear(names, &room);
    }
    if (loaded->names_refused > 0) {
        LOG_WARNING("snapshot_names_not_loaded",
                    KV("streams", loaded->names_refused),
                    KV("reason", storage_outcome_name(rc)),
                    KV("hint", "other nodes may have them"));
    }
    free(tables);
    return rc;
}

static enum storage_outcome ON_CONTROL
load_streams(struct snapshot *snapshot, const struct storage_load *load)
{
    struct storage_stream *streams = NULL;
    uint32_t count = 0;
    enum storage_outcome rc = storage_restore_streams(load, &streams, &count);

    if (rc != STORAGE_OK) {
        return rc;
    }
    count = choose(snapshot, streams, count);
    struct storage_beside index = load_index(snapshot, load, streams, count);
    rc = index.mirror;
    enum storage_outcome ledger = rc == STORAGE_OK ? index.ledger : rc;
    for (uint32_t i = 0; rc == STORAGE_OK && i < count; i++) {
        bool there = restore_stream(snapshot, &streams[i]);
        resume_stream(snapshot, &streams[i], there);
    }
    enum storage_outcome names =
        rc == STORAGE_OK && snapshot->parts.meshed
            ? load_names(snapshot, load, streams, count)
            : rc;
    free(streams);
    return ledger == STORAGE_E_CORRUPT  ? ledger
           : names == STORAGE_E_CORRUPT ? names
                                        : rc;
}

static enum storage_outcome ON_CONTROL
load_belief(struct snapshot *snapshot, const struct storage_load *load)
{
    const struct snapshot_parts *parts = &snapshot->parts;
    struct radix_stats stats;
    enum storage_outcome rc = storage_restore_belief(
        load, parts->node->belief, slot_of, &snapshot->parts, probe_now_us());

    radix_stats(parts->node->belief, &stats);
    snapshot->loaded.belief_blocks = stats.blocks;
    return rc;
}

/* The mix and bytes of a token: hints, which files of earlier versions do not
 * have. */
static void ON_CONTROL
load_learned(struct snapshot *snapshot, const struct storage_load *load)
{
    struct snapshot_loaded *loaded = &snapshot->loaded;
    struct slice bytes;
    struct unpack in;

    if (storage_restore_part(load, STORAGE_LEARNED, &bytes) != STORAGE_OK) {
        return;
    }
    unpack_init(&in, bytes);
    if (unpack_next(&in)) {
        struct slice mix = unpack_bytes(&in, "mix", SNAPSHOT_LEARNED_MAX);
        struct slice text = unpack_bytes(&in, "text", SNAPSHOT_LEARNED_MAX);
        loaded->mix = mix_load(snapshot->parts.mix, mix, snapshot_wall_ms());
        loaded->text = text_models_load(snapshot->parts.text, text);
    }
}

/* All of it */

static const char *ON_CONTROL
load_all(struct snapshot *snapshot, const struct storage_load *load)
{
    load_workers(snapshot, load);
    load_members(snapshot, load);
    load_learned(snapshot, load);
    enum storage_outcome streams = load_streams(snapshot, load);
    enum storage_outcome belief = load_belief(snapshot, load);
    /* Lanes must see it with their first request. */
    ingest_work(snapshot->parts.ingest, probe_now_us());
    if (streams != STORAGE_OK) {
        return storage_outcome_name(streams);
    }
    return belief != STORAGE_OK ? storage_outcome_name(belief) : "";
}

static void
say(const struct snapshot *snapshot)
{
    const struct snapshot_loaded *l = &snapshot->loaded;

    if (l->warm) {
        LOG_INFO("snapshot_loaded", KV("file", l->from.file),
                 KV("age_ms", l->age_ms), KV("streams", l->streams),
                 KV("left_out", l->left_out), KV("blocks", l->blocks),
                 KV("resumed", l->ledgers),
                 KV("ledger_blocks", l->ledger_blocks), KV("named", l->named),
                 KV("belief_blocks", l->belief_blocks),
                 KV("verified_us", l->find_us), KV("loaded_us", l->load_us));
    }
    if (l->reason[0] != '\0') {
        LOG_WARNING("snapshot_not_loaded", KV("file", l->from.file),
                    KV("reason", l->reason), KV("part", l->warm),
                    KV("hint", "the node starts cold, and learns from peers "
                               "and engines' replays"));
    }
}

/* What cannot be loaded is not to be removed with the next snapshot, either. */
static void
keep_aside(struct snapshot *snapshot)
{
    enum storage_outcome rc = storage_set_aside(snapshot->io, &snapshot->limits,
                                                snapshot->found.chosen.file);

    snapshot->loaded.refused++;
    if (rc != STORAGE_OK) {
        LOG_WARNING(
            "snapshot_not_set_aside", KV("file", snapshot->found.chosen.file),
            KV("reason", storage_outcome_name(rc)),
            KV("hint",
               "the next snapshot replaces it: copy it now if it matters"));
    }
}

void
snapshot_load(struct snapshot *snapshot)
{
    struct snapshot_loaded *loaded = &snapshot->loaded;
    uint64_t begun_us = probe_now_us();
    uint64_t wall_ms = snapshot_wall_ms();
    struct storage_load load;
    struct storage_report report;

    if (!snapshot->found.found) {
        return;
    }
    loaded->from = snapshot->found.chosen;
    loaded->age_ms =
        wall_ms > loaded->from.taken_ms ? wall_ms - loaded->from.taken_ms : 0;
    enum storage_outcome rc =
        storage_load_open(&load, snapshot->io, snapshot->found.chosen.file,
                          snapshot->config->mesh.cluster, &report);
    if (rc == STORAGE_OK) {
        loaded->reason = load_all(snapshot, &load);
        storage_load_close(&load);
    } else {
        loaded->reason = storage_outcome_name(rc);
    }
    if (loaded->reason[0] != '\0') {
        keep_aside(snapshot);
    }
    loaded->warm = loaded->reason[0] == '\0' || loaded->streams > 0;
    loaded->load_us = probe_now_us() - begun_us;
    say(snapshot);
}
