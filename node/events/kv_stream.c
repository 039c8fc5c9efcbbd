/* One rank's batches in order: its connection, its probes and its state. */
#include "node/events/kv_stream.h"

#include <errno.h>
#include <stdlib.h>

#include "node/events/kv_stream_internal.h"

#define PROBES_SLOW 2U /* each doubles the time to the next, up to this many */

const char *
kv_stream_state_name(enum kv_stream_state state)
{
    switch (state) {
    case KV_STREAM_READING:
        return "reading";
    case KV_STREAM_LIVE:
        return "live";
    case KV_STREAM_PARTIAL:
        return "partial";
    case KV_STREAM_STALE:
        return "stale";
    case KV_STREAM_CONNECTING:
        break;
    }
    return "connecting";
}

/* Probes of many streams shall not fall together: an eighth at random. The
 * longer nothing came, the less a probe can find: what was lost was lost with
 * the last batches. */
static void
draw_probe(struct kv_stream *stream)
{
    uint64_t us = kv_stream_us(stream->config.probe_interval_ms)
                  << stream->in_vain;

    stream->probe_us = us - rng_below(&stream->rng, us / 8 + 1);
    CHECK(stream->probe_us > 0);
}

void
kv_stream_stir(struct kv_stream *stream)
{
    if (stream->in_vain > 0) {
        stream->in_vain = 0;
        draw_probe(stream);
    }
}

int
kv_stream_new(struct kv_stream **out, const struct kv_stream_config *config,
              struct kv_counters *counters, uint64_t now_us, uint64_t seed)
{
    CHECK(config->replay_rounds > 0 && config->pending_bytes_max > 0);
    CHECK(config->probe_interval_ms > 0 && config->retry_ms > 0);
    struct kv_stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL) {
        return -ENOMEM;
    }
    stream->config = *config;
    stream->counters = counters;
    stream->now_us = now_us;
    stream->blank = true;
    rng_init(&stream->rng, seed);
    draw_probe(stream);
    kv_held_init(&stream->early, config->pending_bytes_max);
    kv_held_init(&stream->pending, config->pending_bytes_max);
    *out = stream;
    return 0;
}

void
kv_stream_free(struct kv_stream *stream)
{
    if (stream == NULL) {
        return;
    }
    kv_held_clear(&stream->early);
    kv_held_clear(&stream->pending);
    free(stream->lent);
    free(stream);
}

/* The connection */

static void
drop_connection(struct kv_stream *stream)
{
    stream->connected = false;
    stream->linked = false;
    stream->proved = false;
    stream->reading = false;
    stream->gap = false;
    stream->accepting = false;
    stream->has_live_last = false;
    stream->wanted = false;
    stream->opened = false;
    stream->part = false;
    kv_held_clear(&stream->early);
    kv_held_clear(&stream->pending);
    kv_round_stop(stream);
    CHECK(stream->early.count == 0 && stream->pending.count == 0);
}

void
kv_stream_connected(struct kv_stream *stream, uint64_t now_us)
{
    stream->now_us = now_us;
    drop_connection(stream);
    CHECK(!stream->round.active && stream->pending.count == 0);
    counter_bump(&stream->counters->connects, 1);
    stream->connected = true;
    stream->silent = false;
    stream->fruitless = 0;
    stream->confirmed = 0;
    stream->quiet_us = now_us;
    kv_stream_stir(stream);
    kv_round_want(stream);
}

void
kv_stream_disconnected(struct kv_stream *stream, uint64_t now_us)
{
    stream->now_us = now_us;
    if (stream->connected) {
        counter_bump(&stream->counters->disconnects, 1);
        drop_connection(stream);
    }
    CHECK(!stream->connected && !stream->round.active);
}

/* Time */

static bool
probe_is_armed(const struct kv_stream *stream)
{
    return stream->connected && stream->config.has_replay &&
           !stream->round.active && !stream->wanted;
}

void
kv_stream_tick(struct kv_stream *stream, uint64_t now_us)
{
    stream->now_us = now_us;
    kv_round_tick(stream);
    if (probe_is_armed(stream) &&
        now_us >= stream->quiet_us + stream->probe_us) {
        stream->in_vain += stream->in_vain < PROBES_SLOW;
        draw_probe(stream);
        kv_round_want(stream);
    }
}

uint64_t
kv_stream_deadline(const struct kv_stream *stream)
{
    uint64_t due = kv_reread_due(stream);
    uint64_t at = UINT64_MAX;

    if (stream->round.active) {
        at = stream->round.silent_at_us;
    } else if (stream->wanted) {
        at = stream->round_at_us;
    } else if (probe_is_armed(stream)) {
        at = stream->quiet_us + stream->probe_us;
    }
    return at < due ? at : due;
}

/* State */

enum kv_stream_state
kv_stream_state(const struct kv_stream *stream)
{
    enum kv_stream_state in_step =
        stream->complete ? KV_STREAM_LIVE : KV_STREAM_PARTIAL;

    if (!stream->connected) {
        return KV_STREAM_CONNECTING;
    }
    if (stream->dead || stream->gap || stream->reread != NULL) {
        return KV_STREAM_STALE;
    }
    if (kv_stream_unaided(stream)) {
        return stream->blank    ? KV_STREAM_PARTIAL
               : stream->linked ? in_step
                                : KV_STREAM_STALE;
    }
    if (stream->proved) {
        return in_step;
    }
    return stream->blank || stream->reading ? KV_STREAM_READING
                                            : KV_STREAM_STALE;
}

bool
kv_stream_is_whole(const struct kv_stream *stream)
{
    return stream->complete;
}

void
kv_stream_not_whole(struct kv_stream *stream)
{
    stream->complete = false;
}

uint64_t
kv_stream_ahead(const struct kv_stream *stream)
{
    CHECK(stream->early.count == 0 || stream->early_top > stream->next_seq);
    return stream->early.count > 0 ? stream->early_top - 1 : 0;
}

uint64_t
kv_stream_next_seq(const struct kv_stream *stream)
{
    return stream->next_seq;
}

bool
kv_stream_check(const struct kv_stream *stream, const char **reason)
{
    const struct {
        bool holds;
        const char *what;
    } rules[] = {
        {!stream->blank || stream->next_seq == 0,
         "a blank stream has applied something"},
        {stream->blank || stream->next_seq > stream->first_seq,
         "an epoch has begun without its first message"},
        {!stream->dead || !stream->blank, "nothing is dead"},
        {!stream->linked || (stream->connected && !stream->blank),
         "linked to nothing"},
        {!stream->linked || !stream->dead, "linked to what is dead"},
        {!stream->round.active || stream->connected,
         "a replay without a connection"},
        {!stream->round.active || stream->config.has_replay,
         "a replay without an endpoint"},
        {stream->early.count == 0 ||
             kv_held_lowest(&stream->early) > stream->next_seq,
         "an early message was due"},
        {!stream->linked ||
             kv_held_find(&stream->pending, stream->next_seq) == NULL,
         "a pending message was due"},
        {stream->pending.count == 0 || stream->round.active || stream->wanted,
         "messages are pending for ever"},
        {!stream->accepting, "still accepting holes"},
        {stream->outs_next == stream->outs_count, "outputs were not pulled"},
    };

    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (!rules[i].holds) {
            *reason = rules[i].what;
            return false;
        }
    }
    if (!stream->blank &&
        stream->recent[(stream->next_seq - 1) % KV_STREAM_RECENT].seq !=
            stream->next_seq - 1) {
        *reason = "the last message is not remembered";
        return false;
    }
    return kv_held_check(&stream->early, reason) &&
           kv_held_check(&stream->pending, reason);
}
