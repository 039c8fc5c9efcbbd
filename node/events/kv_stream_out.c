/* What a stream says, pulled: held batches whose turn has come, and what is
 * due. */
#include "node/events/kv_stream_internal.h"

#include <stdlib.h>

void
kv_stream_push(struct kv_stream *stream, const struct kv_out *out)
{
    CHECK(stream->outs_count < KV_STREAM_OUTS);
    stream->outs[stream->outs_count++] = *out;
}

/* The held message that comes next, or NULL. */
static struct kv_message *
next_held(struct kv_stream *stream)
{
    CHECK(!stream->blank && !stream->dead);
    struct kv_message *next = kv_held_take(&stream->early, stream->next_seq);

    if (next == NULL && stream->linked) {
        next = kv_held_take(&stream->pending, stream->next_seq);
    }
    if (next == NULL && stream->accepting && stream->early.count > 0) {
        kv_epoch_skip_to(stream, kv_held_lowest(&stream->early));
        next = kv_held_take(&stream->early, stream->next_seq);
    }
    if (next == NULL && stream->accepting && stream->linked &&
        stream->pending.count > 0) {
        kv_epoch_skip_to(stream, kv_held_lowest(&stream->pending));
        next = kv_held_take(&stream->pending, stream->next_seq);
    }
    CHECK(next == NULL || next->seq == stream->next_seq);
    return next;
}

/* A held live message that an epoch begins with, or NULL. */
static struct kv_message *
first_held(struct kv_stream *stream)
{
    CHECK(stream->outs_count == 0);
    if (stream->pending.count == 0) {
        return NULL;
    }
    uint64_t seq = kv_held_lowest(&stream->pending);
    bool begins = kv_stream_unaided(stream) ||
                  (stream->blank && stream->proved && seq == 0);
    if (!begins) {
        return NULL;
    }
    struct kv_message *first = kv_held_take(&stream->pending, seq);
    CHECK(first != NULL);
    bool proved = stream->proved;
    if (!stream->blank && stream->linked && seq > stream->next_seq) {
        kv_epoch_jump(stream, seq, first->fingerprint);
    } else {
        kv_live_begin(stream, seq, first->fingerprint,
                      stream->blank ? "first" : "reconnected");
    }
    stream->proved = proved;
    return first;
}

/* Applies one held message whose turn has come. */
static bool
apply_held(struct kv_stream *stream)
{
    struct kv_message *message = NULL;

    CHECK(stream->lent == NULL);
    if (stream->dead) {
        return false;
    }
    if (!stream->blank) {
        message = next_held(stream);
    }
    if (message == NULL) {
        stream->accepting = false;
        message = first_held(stream);
    }
    if (message == NULL) {
        return false;
    }
    kv_stream_apply(stream, message->fingerprint, kv_message_payload(message));
    CHECK(stream->next_seq == message->seq + 1);
    stream->lent = message;
    return true;
}

/* Messages that are still held need a replay; then does what is due. */
static void
settle(struct kv_stream *stream)
{
    CHECK(stream->outs_count == 0);
    if (!stream->connected) {
        return;
    }
    if (stream->now_us >= kv_reread_due(stream)) {
        kv_reread_start(stream);
    }
    if (stream->pending.count > 0 && !kv_stream_unaided(stream) &&
        !stream->round.active && !stream->wanted) {
        stream->gap = stream->gap || stream->linked;
        kv_round_want(stream);
    }
    if (stream->wanted && !stream->round.active &&
        stream->now_us >= stream->round_at_us) {
        kv_round_ask(stream);
    }
    CHECK(stream->pending.count == 0 || kv_stream_unaided(stream) ||
          stream->round.active || stream->wanted);
}

bool
kv_stream_next_out(struct kv_stream *stream, struct kv_out *out)
{
    const char *reason;

    CHECK(stream->outs_next <= stream->outs_count);
    if (stream->outs_next == stream->outs_count) {
        free(stream->lent);
        stream->lent = NULL;
        stream->outs_next = 0;
        stream->outs_count = 0;
        if (!apply_held(stream)) {
            settle(stream);
        }
    }
    if (stream->outs_next < stream->outs_count) {
        *out = stream->outs[stream->outs_next++];
        return true;
    }
    enum kv_stream_state state = kv_stream_state(stream);
    if (state == stream->told) {
        CHECK_SLOW(kv_stream_check(stream, &reason));
        return false;
    }
    stream->told = state;
    *out = (struct kv_out){.kind = KV_OUT_STATE, .state = state};
    return true;
}
