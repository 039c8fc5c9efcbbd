/* A stream's position, taken for a snapshot and taken up again. */
#include "index/base/mutant.h"
#include "node/events/kv_stream_internal.h"

bool
kv_stream_origin(const struct kv_stream *stream, struct kv_stream_image *image)
{
    if (stream->blank || stream->dead || !stream->config.has_replay) {
        return false;
    }
    *image = (struct kv_stream_image){
        .process = stream->process,
        .first_seq = stream->first_seq,
        .first_fingerprint = stream->first_fingerprint,
        .complete = stream->complete,
        .unread = stream->unread,
    };
    return true;
}

bool
kv_stream_image(const struct kv_stream *stream, struct kv_stream_image *image)
{
    if (stream->reread != NULL || !kv_stream_origin(stream, image)) {
        return false;
    }
    CHECK(stream->outs_next == stream->outs_count);
    CHECK(stream->next_seq > stream->first_seq);
    image->next_seq = stream->next_seq + (MUTANT(READ_NEW) ? 1 : 0);
    uint64_t applied = stream->next_seq - stream->first_seq;
    image->fingerprints_count = applied < KV_STREAM_FINGERPRINTS
                                    ? (uint32_t)applied
                                    : KV_STREAM_FINGERPRINTS;
    for (uint32_t i = 0; i < image->fingerprints_count; i++) {
        uint64_t seq = stream->next_seq - 1 - i;
        const struct kv_recent *recent =
            &stream->recent[seq % KV_STREAM_RECENT];
        image->fingerprints[i] = recent->seq == seq ? recent->fingerprint : 0;
    }
    return true;
}

static bool
makes_sense(const struct kv_stream_image *image)
{
    return image->next_seq != UINT64_MAX &&
           image->next_seq > image->first_seq &&
           image->fingerprints_count > 0 &&
           image->fingerprints_count <= KV_STREAM_FINGERPRINTS &&
           image->fingerprints_count <= image->next_seq - image->first_seq;
}

bool
kv_stream_resume(struct kv_stream *stream, const struct kv_stream_image *image)
{
    CHECK(stream->blank && !stream->connected);
    CHECK(stream->next_seq == 0 && !stream->round.active);
    if (!makes_sense(image) || !stream->config.has_replay) {
        return false;
    }
    stream->blank = false;
    stream->process = image->process;
    stream->first_seq = image->first_seq;
    stream->first_fingerprint = image->first_fingerprint;
    stream->next_seq = image->next_seq;
    stream->complete = image->complete;
    stream->unread = image->unread;
    for (uint32_t i = 0; i < image->fingerprints_count; i++) {
        uint64_t seq = image->next_seq - 1 - i;
        stream->recent[seq % KV_STREAM_RECENT] = (struct kv_recent){
            .seq = seq, .fingerprint = image->fingerprints[i]};
    }
    CHECK(!stream->dead && !stream->proved);
    return true;
}
