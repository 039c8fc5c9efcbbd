/* Streams in snapshots: taken and restored. */
#include <stdlib.h>

#include "node/ingest/ingest_internal.h"
#include "node/ingest/snapshot_state.h"

/* Without memory there is none, and the engine is read from its first batch. */
void
ingest_position_take(struct ingest_worker *w, const struct intake_item *item,
                     const struct decoder_position *position)
{
    ingest_position_drop(w, item->rank);
    size_t size = sizeof *position + position->len;
    struct ingest_position *copy = malloc(sizeof *copy + size);
    if (copy != NULL) {
        copy->cut = item->cut;
        copy->at = (struct decoder_position *)(copy + 1);
        memcpy(copy->at, position, size);
        w->position[item->rank] = copy;
    }
}

void
ingest_position_drop(struct ingest_worker *w, uint32_t rank)
{
    free(w->position[rank]);
    w->position[rank] = NULL;
}

bool
ingest_image(const struct ingest *ingest, uint32_t at, uint64_t cut,
             struct storage_stream *stream, bool *more)
{
    struct mirror_writer_status writer;

    *more = mirror_writer_status(ingest->writer, at, &writer);
    if (!*more) {
        return false;
    }
    const struct ingest_worker *w = &ingest->workers[writer.worker];
    if (!w->present || w->generation != writer.generation ||
        !snapshot_stream_image(&ingest->streams,
                               ingest_stream_name(w, writer.rank), &writer,
                               stream)) {
        return false;
    }
    const struct ingest_position *p = w->position[writer.rank];
    if (p != NULL && cut != 0 && p->cut == cut) {
        snapshot_stream_position(
            &ingest->streams, p->at,
            (struct slice){.ptr = p->at->bytes, .len = p->at->len}, stream);
    }
    return true;
}

bool
ingest_restore(struct ingest *ingest, const struct storage_stream *stream)
{
    struct ingest_rank *rank = ingest_streams_rank(
        &ingest->streams,
        ingest_streams_find(&ingest->streams, stream->name.worker),
        stream->name.rank);

    return rank != NULL &&
           snapshot_stream_restore(&ingest->streams, rank, stream);
}
