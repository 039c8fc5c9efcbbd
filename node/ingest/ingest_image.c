/* What a snapshot has of the streams: taken, and put back. */
#include <stdlib.h>

#include "node/ingest/ingest_internal.h"
#include "node/ingest/snapshot_state.h"

/* Without memory there is none, and the engine is read from its first batch. */
void
ingest_position_take(struct ingest_worker *f, const struct intake_item *item,
                     const struct decoder_position *position)
{
    ingest_position_drop(f, item->rank);
    size_t size = sizeof *position + position->len;
    struct ingest_position *copy = malloc(sizeof *copy + size);
    if (copy != NULL) {
        copy->cut = item->cut;
        copy->at = (struct decoder_position *)(copy + 1);
        memcpy(copy->at, position, size);
        f->position[item->rank] = copy;
    }
}

void
ingest_position_drop(struct ingest_worker *f, uint32_t rank)
{
    free(f->position[rank]);
    f->position[rank] = NULL;
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
    const struct ingest_worker *f = &ingest->workers[writer.worker];
    if (!f->present || f->generation != writer.generation ||
        !snapshot_stream_image(&ingest->streams,
                               ingest_stream_name(f, writer.rank), &writer,
                               stream)) {
        return false;
    }
    const struct ingest_position *p = f->position[writer.rank];
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
    struct ingest_worker *f = ingest_find(ingest, stream->name.worker);

    return f != NULL && stream->name.rank < f->ranks &&
           snapshot_stream_restore(&ingest->streams,
                                   &f->rank[stream->name.rank], stream);
}
