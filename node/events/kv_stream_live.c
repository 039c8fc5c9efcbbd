/* Live batches of a stream: applied, held until a replay fits, or its begin. */
#include "node/events/kv_stream_internal.h"

#include "index/base/mutant.h"

void
kv_live_begin(struct kv_stream *stream, uint64_t seq, uint64_t fingerprint,
              const char *reason)
{
    CHECK(stream->connected);
    if (stream->round.active) {
        kv_round_stop(stream);
        if (stream->silent) {
            kv_round_later(stream);
        }
    }
    if (stream->opened && seq > 0) {
        kv_epoch_start(stream, seq, fingerprint);
    } else {
        kv_stream_begin(stream, seq, fingerprint, stream->ask, reason);
    }
    stream->linked = true;
    stream->unread = seq > 0;
    CHECK(!stream->blank && stream->next_seq == seq);
}

/* Without a replay the connection is the only evidence: messages through
 * another one begin again. */
static void
live_unaided(struct kv_stream *stream, uint64_t seq, uint64_t fingerprint,
             struct slice payload)
{
    const char *reason = "first";

    CHECK(stream->connected && kv_stream_unaided(stream));
    if (!stream->blank) {
        if (kv_stream_known(stream, seq, fingerprint) == KV_KNOWN_SAME) {
            stream->linked = true;
            return;
        }
        if (stream->linked && seq >= stream->next_seq) {
            if (seq > stream->next_seq) {
                kv_epoch_jump(stream, seq, fingerprint);
            }
            kv_stream_apply(stream, fingerprint, payload);
            return;
        }
        if (!stream->linked) {
            reason = "reconnected";
        } else {
            counter_bump(&stream->counters->restarts, 1);
            reason = "restarted";
        }
    }
    kv_live_begin(stream, seq, fingerprint, reason);
    kv_stream_apply(stream, fingerprint, payload);
    CHECK(stream->next_seq == seq + 1);
}

static bool
is_pending(const struct kv_stream *stream, uint64_t seq, uint64_t fingerprint)
{
    const struct kv_message *held = kv_held_find(&stream->pending, seq);

    return held != NULL && held->fingerprint == fingerprint;
}

/* A seq that goes back means another process: nothing that came through this
 * connection proves anything any more. */
static void
doubt(struct kv_stream *stream)
{
    kv_held_clear(&stream->pending);
    stream->linked = false;
    stream->proved = false;
    CHECK(stream->pending.count == 0);
}

static void
hold_pending(struct kv_stream *stream, uint64_t seq, uint64_t fingerprint,
             struct slice payload)
{
    CHECK(stream->connected && !kv_stream_unaided(stream));
    if (!kv_held_put(&stream->pending, seq, fingerprint, payload)) {
        counter_bump(&stream->counters->pending_dropped, 1);
    }
    if (stream->linked && !stream->gap) {
        counter_bump(&stream->counters->gaps, 1);
        stream->gap = true;
    }
    if (!stream->round.active) {
        kv_round_want(stream);
    }
    CHECK(stream->round.active || stream->wanted);
}

static void
live_aided(struct kv_stream *stream, uint64_t seq, uint64_t fingerprint,
           struct slice payload)
{
    enum kv_known known =
        stream->dead ? KV_KNOWN_NOT : kv_stream_known(stream, seq, fingerprint);

    CHECK(stream->connected && !kv_stream_unaided(stream));
    if (known == KV_KNOWN_SAME) {
        if (!stream->linked) { /* messages before it ran ahead of it */
            kv_held_clear(&stream->pending);
            stream->linked = true;
            stream->live_last = seq;
            stream->has_live_last = true;
        } else if (MUTANT(BATCH_TWICE) && seq + 1 == stream->next_seq) {
            kv_stream_apply(stream, fingerprint, payload);
        }
        return;
    }
    if (is_pending(stream, seq, fingerprint)) {
        return;
    }
    if (stream->has_live_last && seq <= stream->live_last) {
        doubt(stream);
    }
    stream->has_live_last = true;
    stream->live_last = seq;
    if (known == KV_KNOWN_OTHER) {
        kv_stream_restart(stream, "restarted");
        hold_pending(stream, seq, fingerprint, payload);
    } else if (stream->linked && seq == stream->next_seq) {
        kv_stream_apply(stream, fingerprint, payload);
    } else if (stream->blank && seq == 0) {
        kv_live_begin(stream, seq, fingerprint, "first");
        stream->proved = true;
        stream->wanted = false;
        kv_stream_apply(stream, fingerprint, payload);
    } else {
        hold_pending(stream, seq, fingerprint, payload);
    }
}

void
kv_stream_live(struct kv_stream *stream, uint64_t seq, struct slice payload,
               uint64_t now_us)
{
    uint64_t fingerprint = key_digest(payload);

    payload = kv_stream_kept(stream, payload);
    stream->now_us = now_us;
    counter_bump(&stream->counters->messages, 1);
    if (!stream->connected || seq == UINT64_MAX) {
        return;
    }
    stream->quiet_us = now_us;
    kv_stream_stir(stream);
    if (kv_stream_unaided(stream)) {
        live_unaided(stream, seq, fingerprint, payload);
    } else {
        live_aided(stream, seq, fingerprint, payload);
    }
}
