/* What a snapshot has of the streams: taken, and put back. */
#include "node/follow_inner.h"
#include "node/snapshot_state.h"

bool
follow_image(const struct follow *follow, uint32_t at,
             struct storage_stream *stream, bool *more)
{
    struct feed_status feed;

    *more = feed_status(follow->feed, at, &feed);
    if (!*more) {
        return false;
    }
    const struct followed *f = &follow->workers[feed.worker];
    return f->present && f->generation == feed.generation &&
           snapshot_stream_image(&follow->streams, follow_stream(f, feed.rank),
                                 &feed, stream);
}

bool
follow_restore(struct follow *follow, const struct storage_stream *stream)
{
    struct followed *f = follow_find(follow, stream->name.worker);

    return f != NULL && stream->name.rank < f->ranks &&
           snapshot_stream_restore(&follow->streams,
                                   &f->rank[stream->name.rank], stream);
}
