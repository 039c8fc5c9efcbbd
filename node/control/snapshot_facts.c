/* The facts of the turn in which a cut ends. */
#include <stdlib.h>

#include "index/base/pack.h"
#include "node/control/snapshot_internal.h"
#include "node/ingest/snapshot_state.h"

struct facts {
    struct storage_stream *streams;
    struct storage_worker *workers;
    struct storage_member *members;
    struct member_info *infos; /* the members' texts */
    uint64_t belief[WORKERS_MAX];
    struct buf learned;
    struct storage_facts all;
};

/* Streams */

static bool ON_CONTROL
list_streams(const struct snapshot_parts *parts, uint64_t cut,
             struct facts *facts)
{
    struct mirror_writer_stats stats;
    bool more = true;

    mirror_writer_stats(ingest_writer(parts->ingest), &stats);
    facts->streams = calloc((size_t)stats.streams + 1, sizeof *facts->streams);
    if (facts->streams == NULL) {
        return false;
    }
    for (uint32_t at = 0; more && at < stats.streams; at++) {
        facts->all.streams_count +=
            ingest_image(parts->ingest, at, cut,
                         &facts->streams[facts->all.streams_count], &more);
    }
    facts->all.streams = facts->streams;
    return true;
}

/* Workers */

static bool
list_workers(const struct snapshot_parts *parts, struct facts *facts)
{
    if (!snapshot_workers(cluster_roster(parts->cluster), &facts->workers,
                          &facts->all.workers_count)) {
        return false;
    }
    facts->all.workers = facts->workers;
    return true;
}

static void
list_belief(const struct snapshot_parts *parts, struct facts *facts)
{
    const struct fleet_view *view = fleet_view_get(parts->node->board);

    WORKER_SET_EACH (slot, &view->present) {
        facts->belief[slot] = view->worker[slot]->identity;
    }
    facts->all.belief_workers = facts->belief;
}

/* Members */

static bool
list_members(const struct snapshot_parts *parts, struct facts *facts)
{
    facts->infos = calloc(MEMBERS_MAX, sizeof *facts->infos);
    facts->members = calloc(MEMBERS_MAX, sizeof *facts->members);
    if (facts->infos == NULL || facts->members == NULL) {
        return false;
    }
    facts->all.members_count = snapshot_members(cluster_members(parts->cluster),
                                                facts->infos, facts->members);
    facts->all.members = facts->members;
    return true;
}

/* Requests */

/* A map of what each part saves. What finds no room is not saved. */
static void
list_learned(const struct snapshot_parts *parts, struct facts *facts)
{
    struct buf mix;
    struct buf text;

    buf_init(&mix, SNAPSHOT_LEARNED_MAX / 2);
    buf_init(&text, SNAPSHOT_LEARNED_MAX / 4);
    buf_init(&facts->learned, SNAPSHOT_LEARNED_MAX);
    mix_pass(parts->mix, snapshot_wall_ms());
    mix_save(parts->mix, &mix);
    text_models_save(parts->text, &text);
    if (!mix.failed && !text.failed) {
        struct pack_map map = pack_open(&facts->learned);
        pack_put_bytes(&map, "mix", buf_slice(&mix));
        pack_put_bytes(&map, "text", buf_slice(&text));
        pack_close(&map);
    }
    buf_fini(&mix);
    buf_fini(&text);
    if (!facts->learned.failed) {
        facts->all.learned = buf_slice(&facts->learned);
    }
}

bool
snapshot_tell_facts(struct snapshot *snapshot)
{
    const struct snapshot_parts *parts = &snapshot->parts;
    struct facts *facts = calloc(1, sizeof *facts);
    struct storage_about about = {.cluster = snapshot->config->mesh.cluster,
                                  .node = snapshot->config->name,
                                  .taken_ms = snapshot_wall_ms()};
    uint64_t cut = storage_take_number(&snapshot->take);
    bool made = facts != NULL && list_streams(parts, cut, facts) &&
                list_workers(parts, facts) && list_members(parts, facts);

    if (made) {
        list_belief(parts, facts);
        list_learned(parts, facts);
        storage_take_facts(&snapshot->take, &facts->all, &about);
    }
    if (facts != NULL) {
        free(facts->streams);
        free(facts->workers);
        free(facts->members);
        free(facts->infos);
        buf_fini(&facts->learned);
    }
    free(facts);
    return made;
}
