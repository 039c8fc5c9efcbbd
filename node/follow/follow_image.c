/* What a snapshot has of the streams: taken, and put back. */
#include <stdlib.h>

#include "node/follow/follow_internal.h"
#include "node/follow/snapshot_state.h"

/* Without memory there is none, and the engine is read from its first batch. */
void
follow_position_take(struct followed *f, const struct intake_item *item,
                     const struct reading_position *position)
{
    follow_position_drop(f, item->rank);
    size_t size = sizeof *position + position->len;
    struct follow_position *copy = malloc(sizeof *copy + size);
    if (copy != NULL) {
        copy->cut = item->cut;
        copy->at = (struct reading_position *)(copy + 1);
        memcpy(copy->at, position, size);
        f->position[item->rank] = copy;
    }
}

void
follow_position_drop(struct followed *f, uint32_t rank)
{
    free(f->position[rank]);
    f->position[rank] = NULL;
}

bool
follow_image(const struct follow *follow, uint32_t at, uint64_t cut,
             struct storage_stream *stream, bool *more)
{
    struct feed_status feed;

    *more = feed_status(follow->feed, at, &feed);
    if (!*more) {
        return false;
    }
    const struct followed *f = &follow->workers[feed.worker];
    if (!f->present || f->generation != feed.generation ||
        !snapshot_stream_image(&follow->streams, follow_stream(f, feed.rank),
                               &feed, stream)) {
        return false;
    }
    const struct follow_position *p = f->position[feed.rank];
    if (p != NULL && cut != 0 && p->cut == cut) {
        snapshot_stream_position(
            &follow->streams, p->at,
            (struct slice){.ptr = p->at->bytes, .len = p->at->len}, stream);
    }
    return true;
}

bool
follow_restore(struct follow *follow, const struct storage_stream *stream)
{
    struct followed *f = follow_find(follow, stream->name.worker);

    return f != NULL && stream->name.rank < f->ranks &&
           snapshot_stream_restore(&follow->streams,
                                   &f->rank[stream->name.rank], stream);
}
