/*
 * What control knows of streams, workers and members, as a snapshot has it, and
 * back: what a shell (snapshot.h) and the simulator share.
 *
 * A stream of which not all is known has no image. One that is put back goes on
 * from its position; until its engine or peers are caught up with, it is stale
 * (ingest_stream.h). Of the roster only what operators changed comes back:
 * version 1 is what a configuration said, and today's may say otherwise.
 *
 * Role: core. Owns: nothing. Thread: one owner. Limits: the callers'.
 * Errors: false.
 */
#ifndef NODE_SNAPSHOT_STATE_H
#define NODE_SNAPSHOT_STATE_H

#include "mesh/mesh.h"
#include "node/ingest/ingest_stream.h"
#include "storage/storage.h"

/* A stream as it is now, by what the mirror writer says of it; false: it has
 * none, or not all of it is known. */
bool snapshot_stream_image(const struct ingest_streams *ingest,
                           struct event_stream name,
                           const struct mirror_writer_status *status,
                           struct storage_stream *stream) ON_CONTROL;

/* What is read of an imaged stream, as a cut of the ledger has it (bytes
 * borrowed): noted if that reading still leads the stream, and is not ahead of
 * it. Nothing began anew since the cut, which is for the caller to know. */
void snapshot_stream_position(const struct ingest_streams *ingest,
                              const struct decoder_position *position,
                              struct slice bytes,
                              struct storage_stream *stream);

/* Whether a stream's reading can go on with the ledger that comes with it: not
 * ahead of the mirror, and of a version that is known. */
bool snapshot_stream_resumes(const struct storage_stream *stream);

/* A stream whose slot of the mirror is open and filled, in a node that was told
 * nothing of it yet: goes on from there. False: the mirror writer has it from
 * elsewhere, and the slot is still the caller's. */
bool snapshot_stream_restore(struct ingest_streams *ingest,
                             struct ingest_rank *rank,
                             const struct storage_stream *stream)
    ON_CONTROL MUST_CHECK;

/* All workers of a roster, their texts borrowed from it; *out is the caller's
 * to free. False: no memory. */
bool snapshot_workers(const struct roster *roster, struct storage_worker **out,
                      uint32_t *count) MUST_CHECK;

/* One as roster_load() takes it, its id copied; passed_ms: since it was saved,
 * for tombstones grow old meanwhile, too. False: no operator spoke of it, or it
 * cannot be one. */
bool snapshot_worker_entry(const struct storage_worker *worker,
                           uint64_t passed_ms, char id[ROSTER_ID_MAX],
                           struct roster_entry *entry) MUST_CHECK;

/* The living others, at most MEMBERS_MAX; infos: as many, which have their
 * texts. How many they are. */
uint32_t snapshot_members(const struct member_table *table,
                          struct member_info *infos,
                          struct storage_member *members);

/* The cluster may find this member there. False: not an address. */
bool snapshot_member_hint(struct cluster *cluster,
                          const struct storage_member *member, uint64_t now_us);

#endif
