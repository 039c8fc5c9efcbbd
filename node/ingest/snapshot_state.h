/*
 * Streams, workers and members as a snapshot holds them, and their restoring;
 * shared by the shell (snapshot.h) and the simulator.
 *
 * A stream that is not complete has no image. A restored stream continues from
 * its position, and is stale until the node has caught up with its engine or
 * its peers (ingest_stream.h). Of the roster only operators' changes are
 * restored: version 1 is a configuration's, and the present configuration may
 * differ.
 *
 * Role: core. Owns: nothing. Thread: one owner. Limits: the callers'. Errors:
 * false.
 */
#ifndef NODE_SNAPSHOT_STATE_H
#define NODE_SNAPSHOT_STATE_H

#include "mesh/mesh.h"
#include "node/ingest/ingest_stream.h"
#include "storage/storage.h"

/* A stream as it is now, as the mirror writer has it; false: it has none, or it
 * is not complete. */
bool snapshot_stream_image(const struct ingest_streams *ingest,
                           struct event_stream name,
                           const struct mirror_writer_status *status,
                           struct storage_stream *stream) ON_CONTROL;

/* The names that gossip has of all streams, for a cut. */
struct storage_naming snapshot_names(struct gossip *gossip);

/* Adds what is read of an imaged stream, as of a cut of the ledger (bytes
 * borrowed), provided that this reading still leads the stream and is not ahead
 * of it. The caller makes sure that nothing began again since the cut. */
void snapshot_stream_position(const struct ingest_streams *ingest,
                              const struct decoder_position *position,
                              struct slice bytes,
                              struct storage_stream *stream);

/* Whether a stream's reading can continue with the ledger that was saved with
 * it: it must not be ahead of the mirror, and be of a known version. */
bool snapshot_stream_resumes(const struct storage_stream *stream);

/* Continues a stream whose slot of the mirror is open and filled; the node must
 * know nothing of it yet. False: the mirror writer has the stream from
 * elsewhere, and the caller keeps the slot. */
bool snapshot_stream_restore(struct ingest_streams *ingest,
                             struct ingest_rank *rank,
                             const struct storage_stream *stream)
    ON_CONTROL MUST_CHECK;

/* Gives a restored stream its names, whose memory is taken over, and *names empty
 * then. False: they are not those that were saved, or the node has no room for
 * them; they stay the caller's. */
bool snapshot_stream_names(struct ingest_streams *ingest,
                           const struct storage_stream *stream,
                           struct names *names) MUST_CHECK;

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
