/* What is true in the turn in which a cut ends. */
#include <stdlib.h>

#include "node/snapshot_inner.h"

struct facts {
    struct storage_stream *streams;
    struct storage_worker *workers;
    struct storage_member *members;
    struct member_info *infos; /* the members' texts */
    uint64_t belief[WORKERS_MAX];
    struct storage_facts all;
};

/* Streams */

static struct storage_stream
stream_of(const struct follow_image *image)
{
    return (struct storage_stream){
        .name = image->name,
        .slot = image->feed.slot,
        .ledger = STORAGE_NONE,
        .epoch_no = image->epoch.no,
        .epoch_id = image->epoch.id,
        .epoch_name = image->feed.epoch,
        .pos = image->pos,
        .holes = image->feed.holes,
        .block_tokens = image->feed.block_tokens,
        .complete = image->complete,
    };
}

static bool ON_CONTROL
list_streams(const struct control *control, struct facts *facts)
{
    struct feed_stats stats;
    struct follow_image image;
    bool more = true;

    feed_stats(follow_feed(control->follow), &stats);
    facts->streams = calloc((size_t)stats.streams + 1, sizeof *facts->streams);
    if (facts->streams == NULL) {
        return false;
    }
    for (uint32_t at = 0; more && at < stats.streams; at++) {
        if (follow_image(control->follow, at, &image, &more)) {
            facts->streams[facts->all.streams_count++] = stream_of(&image);
        }
    }
    facts->all.streams = facts->streams;
    return true;
}

/* Workers */

static bool
list_workers(const struct control *control, struct facts *facts)
{
    struct roster *roster = cluster_roster(peers_cluster(control->peers));
    struct roster_stats stats;
    struct roster_entry entry;

    roster_stats(roster, &stats);
    facts->workers = calloc((size_t)stats.entries + 1, sizeof *facts->workers);
    if (facts->workers == NULL) {
        return false;
    }
    for (uint32_t at = 0; at < stats.entries && roster_get(roster, at, &entry);
         at++) {
        facts->workers[facts->all.workers_count++] = (struct storage_worker){
            .id = slice_of(entry.id),
            .version = entry.version,
            .removed = entry.removed,
            .draining = entry.draining,
            .spec = entry.spec,
        };
    }
    facts->all.workers = facts->workers;
    return true;
}

static void
list_belief(const struct control *control, struct facts *facts)
{
    const struct fleet_view *view = fleet_view_get(control->node->board);

    WORKER_SET_EACH (slot, &view->present) {
        facts->belief[slot] = view->worker[slot]->identity;
    }
    facts->all.belief_workers = facts->belief;
}

/* Members */

static bool
is_living(const struct member_info *info)
{
    return !info->self && (info->update.state == MEMBER_ALIVE ||
                           info->update.state == MEMBER_SUSPECT);
}

static bool
list_members(const struct control *control, struct facts *facts)
{
    const struct member_table *table =
        cluster_members(peers_cluster(control->peers));
    uint32_t count = 0;

    facts->infos = calloc(MEMBERS_MAX, sizeof *facts->infos);
    facts->members = calloc(MEMBERS_MAX, sizeof *facts->members);
    if (facts->infos == NULL || facts->members == NULL) {
        return false;
    }
    for (uint32_t at = 0;
         count < MEMBERS_MAX && member_get(table, at, &facts->infos[count]);
         at++) {
        const struct member_info *info = &facts->infos[count];
        if (is_living(info)) {
            facts->members[count++] = (struct storage_member){
                .name = slice_of(info->update.name),
                .address = slice_of(info->update.address)};
        }
    }
    facts->all.members = facts->members;
    facts->all.members_count = count;
    return true;
}

bool
snapshot_tell_facts(struct snapshot *snapshot)
{
    const struct control *control = snapshot->control;
    struct facts *facts = calloc(1, sizeof *facts);
    struct storage_about about = {.cluster = snapshot->config->mesh.cluster,
                                  .node = snapshot->config->name,
                                  .taken_ms = snapshot_wall_ms()};
    bool made = facts != NULL && list_streams(control, facts) &&
                list_workers(control, facts) && list_members(control, facts);

    if (made) {
        list_belief(control, facts);
        storage_take_facts(&snapshot->take, &facts->all, &about);
    }
    if (facts != NULL) {
        free(facts->streams);
        free(facts->workers);
        free(facts->members);
        free(facts->infos);
    }
    free(facts);
    return made;
}
