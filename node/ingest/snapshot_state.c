/* Streams, workers and members as a snapshot has them, and back. */
#include "node/ingest/snapshot_state.h"

#include <stdlib.h>

#include "index/base/mutant.h"

/* Streams */

/* Of the stream's position; in the midst of a batch there are none. */
static void
image_names(const struct gossip *gossip, struct storage_stream *stream)
{
    struct gossip_names names;

    if (gossip_names(gossip, stream->name, &names) &&
        gossip_pos_after(names.seq) == stream->pos) {
        stream->named = true;
        stream->names_print = names.fingerprint;
        stream->names_count = names.table->count;
        stream->names_digest = names.table->digest;
    }
}

static bool
names_table(void *context, uint32_t at, struct event_stream *stream,
            const struct names **table)
{
    return gossip_names_table(context, at, stream, table);
}

static void
names_watch(void *context, struct words *journal)
{
    gossip_names_watch(context, journal);
}

struct storage_naming
snapshot_names(struct gossip *gossip)
{
    return (struct storage_naming){
        .context = gossip, .table = names_table, .watch = names_watch};
}

bool
snapshot_stream_image(const struct ingest_streams *ingest,
                      struct event_stream name,
                      const struct mirror_writer_status *status,
                      struct storage_stream *stream)
{
    struct gossip_status gossip;

    CHECK(ingest->gossip != NULL);
    CHECK(status->slot == WORKER_NONE || status->slot < WORKERS_MAX);
    if (status->slot == WORKER_NONE || status->lost || status->contested ||
        !gossip_status_of(ingest->gossip, name, &gossip)) {
        return false;
    }
    *stream = (struct storage_stream){
        .name = name,
        .slot = status->slot,
        .ledger = STORAGE_NONE,
        .epoch_no = gossip.epoch.no,
        .epoch_id = gossip.epoch.id,
        .epoch_name = status->epoch,
        .pos = gossip.pos + (MUTANT(SAVED_NEW) ? 256 : 0),
        .holes = status->holes,
        .block_tokens = status->shape,
        .complete = gossip.complete,
        .partial = !gossip.whole,
    };
    image_names(ingest->gossip, stream);
    return gossip.epoch.no != 0 && !gossip.torn;
}

void
snapshot_stream_position(const struct ingest_streams *ingest,
                         const struct decoder_position *position,
                         struct slice bytes, struct storage_stream *stream)
{
    struct gossip_status gossip;

    CHECK(bytes.len <= DECODER_BYTES_MAX);
    if (!gossip_status_of(ingest->gossip, stream->name, &gossip) ||
        !gossip.reads || gossip.process != position->process ||
        gossip_pos_after(position->seq) > stream->pos) {
        return;
    }
    stream->ledger = position->ledger;
    stream->ledger_blocks = position->blocks;
    stream->reading = bytes;
}

bool
snapshot_stream_resumes(const struct storage_stream *stream)
{
    uint64_t seq;

    return stream->ledger < LEDGER_STREAMS_MAX &&
           stream->reading.len <= DECODER_BYTES_MAX &&
           decoder_image_check(stream->reading, &seq) &&
           gossip_pos_after(seq) <= stream->pos;
}

bool
snapshot_stream_restore(struct ingest_streams *ingest, struct ingest_rank *rank,
                        const struct storage_stream *stream)
{
    const struct gossip_epoch epoch = {.no = stream->epoch_no,
                                       .id = stream->epoch_id};
    const struct mirror_writer_id id = {rank->worker, rank->generation,
                                        stream->name.rank};
    const struct mirror_writer_restored restored = {
        .slot = stream->slot,
        .epoch = epoch.id, /* as gossip_load() names it */
        .seq = stream->pos,
        .holes = stream->holes,
        .shape = stream->block_tokens,
    };

    CHECK(stream->name.worker == rank->stream.worker &&
          stream->name.rank == rank->stream.rank);
    CHECK(rank->worker < WORKERS_MAX);
    if (!gossip_can_load(ingest->gossip, stream->name, epoch, stream->pos) ||
        !mirror_writer_restore(ingest->writer, &id, &restored)) {
        return false;
    }
    rank->known = true;
    rank->loaded = !MUTANT(TRUST_LOADED);
    rank->complete = stream->complete;
    gossip_load(ingest->gossip, stream->name, epoch, !stream->partial,
                stream->pos, stream->complete);
    gossip_load_sizes(ingest->gossip, stream->name, stream->holes,
                      stream->block_tokens);
    gossip_digest(ingest->gossip, stream->name,
                  mirror_slot_blocks(ingest->mirror, stream->slot),
                  mirror_slot_digest(ingest->mirror, stream->slot));
    return true;
}

bool
snapshot_stream_names(struct ingest_streams *ingest,
                      const struct storage_stream *stream, struct names *names)
{
    return stream->named && names->count == stream->names_count &&
           names->digest == stream->names_digest && names->reader_count > 0 &&
           gossip_load_names(ingest->gossip, stream->name, stream->names_print,
                             names);
}

/* Workers */

bool
snapshot_workers(const struct roster *roster, struct storage_worker **out,
                 uint32_t *count)
{
    struct roster_stats stats;
    struct roster_entry entry;

    CHECK(out != NULL && count != NULL);
    roster_stats(roster, &stats);
    struct storage_worker *workers =
        calloc((size_t)stats.entries + 1, sizeof *workers);
    if (workers == NULL) {
        return false;
    }
    *out = workers;
    *count = 0;
    while (*count < stats.entries && roster_get(roster, *count, &entry)) {
        workers[(*count)++] = (struct storage_worker){
            .id = slice_of(entry.id),
            .version = entry.version,
            .removed = entry.removed,
            .draining = entry.draining,
            .spec = entry.spec,
            .age_ms = entry.age_ms,
        };
    }
    return true;
}

static uint32_t
age_of(const struct storage_worker *worker, uint64_t passed_ms)
{
    uint64_t room_ms = UINT32_MAX - worker->age_ms;

    return !worker->removed      ? 0
           : passed_ms < room_ms ? worker->age_ms + (uint32_t)passed_ms
                                 : UINT32_MAX;
}

bool
snapshot_worker_entry(const struct storage_worker *worker, uint64_t passed_ms,
                      char id[ROSTER_ID_MAX], struct roster_entry *entry)
{
    if (worker->version < ROSTER_OPERATION || worker->id.len >= ROSTER_ID_MAX) {
        return false;
    }
    memcpy(id, worker->id.ptr, worker->id.len);
    id[worker->id.len] = '\0';
    *entry = (struct roster_entry){.id = id,
                                   .version = worker->version,
                                   .removed = worker->removed,
                                   .draining = worker->draining,
                                   .spec = worker->spec,
                                   .age_ms = age_of(worker, passed_ms)};
    return true;
}

/* Members */

static bool
is_living(const struct member_info *info)
{
    return !info->self && (info->update.state == MEMBER_ALIVE ||
                           info->update.state == MEMBER_SUSPECT);
}

uint32_t
snapshot_members(const struct member_table *table, struct member_info *infos,
                 struct storage_member *members)
{
    uint32_t count = 0;

    for (uint32_t at = 0;
         count < MEMBERS_MAX && member_get(table, at, &infos[count]); at++) {
        const struct member_info *info = &infos[count];
        if (is_living(info)) {
            members[count++] = (struct storage_member){
                .name = slice_of(info->update.name),
                .address = slice_of(info->update.address)};
        }
    }
    CHECK(count <= MEMBERS_MAX);
    return count;
}

bool
snapshot_member_hint(struct cluster *cluster,
                     const struct storage_member *member, uint64_t now_us)
{
    char address[MEMBER_ADDRESS_MAX];

    if (member->address.len >= sizeof address) {
        return false;
    }
    memcpy(address, member->address.ptr, member->address.len);
    address[member->address.len] = '\0';
    cluster_hint(cluster, address, now_us);
    return true;
}
