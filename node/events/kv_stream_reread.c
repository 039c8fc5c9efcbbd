/* Reads a stream again from its first batch, on request. */
#include "node/events/kv_stream_internal.h"

#define REREADS_MAX    12U /* doublings of the wait */
#define REREAD_CALM_US UINT64_C(60000000)

void
kv_stream_read_again(struct kv_stream *stream, const char *reason)
{
    CHECK(reason != NULL);
    if (stream->blank || stream->dead || stream->reread != NULL) {
        return;
    }
    stream->reread = reason;
}

void
kv_stream_reread(struct kv_stream *stream, const char *reason, uint64_t ask,
                 uint64_t now_us)
{
    CHECK(stream->ask >= stream->ask_told);
    stream->now_us = now_us;
    if (ask > stream->ask) {
        stream->ask = ask;
        stream->proving = false;
        stream->reread = stream->reread != NULL ? stream->reread : reason;
    } else {
        kv_stream_read_again(stream, reason);
    }
}

uint64_t
kv_reread_due(const struct kv_stream *stream)
{
    return stream->reread != NULL && stream->connected ? stream->reread_at_us
                                                       : UINT64_MAX;
}

/* Whether the requested reading happens anyway, with the question's number. */
static bool
is_read_anyway(const struct kv_stream *stream)
{
    CHECK(stream->ask >= stream->ask_told);
    if (!stream->blank && !stream->dead) {
        return false;
    }
    if (stream->ask == stream->ask_told) {
        return true;
    }
    return !kv_stream_unaided(stream) &&
           (stream->round.active ? stream->round.ask == stream->ask
                                 : stream->wanted);
}

void
kv_reread_start(struct kv_stream *stream)
{
    const char *reason = stream->reread;
    uint64_t wait_us = kv_stream_us(stream->config.retry_ms) << stream->rereads;

    CHECK(stream->rereads <= REREADS_MAX);
    CHECK(reason != NULL && stream->connected);
    stream->reread = NULL;
    if (is_read_anyway(stream)) {
        stream->force |= stream->dead; /* also if it is the same process */
        return;
    }
    if (stream->now_us - stream->reread_last_us >
        REREAD_CALM_US + 8 * wait_us) {
        stream->rereads = 0;
    }
    wait_us = kv_stream_us(stream->config.retry_ms) << stream->rereads;
    stream->rereads +=
        stream->rereads < REREADS_MAX; /* the last one did not help */
    stream->reread_last_us = stream->now_us;
    stream->reread_at_us = stream->now_us + wait_us;
    counter_bump(&stream->counters->rereads, 1);
    if (kv_stream_unaided(stream)) {
        if (stream->round.active) { /* a try at a replay that is silent */
            kv_round_stop(stream);
            kv_round_later(stream);
        }
        kv_stream_forget(stream, false, stream->ask, reason);
        return;
    }
    stream->force = true;
    kv_stream_restart(stream, reason);
}

bool
kv_stream_cleared_answers(struct kv_stream *stream, uint64_t *ask)
{
    const struct kv_round *round = &stream->round;
    bool asked = stream->ask != stream->ask_told && !stream->proving;
    bool lives = stream->linked || (round->active && round->ask == stream->ask);

    CHECK(stream->complete && !stream->blank && !stream->dead);
    if (stream->reread == NULL || (asked && !lives)) {
        return false;
    }
    stream->reread = NULL;
    stream->ask_told = asked ? stream->ask : stream->ask_told;
    *ask = stream->ask_told;
    return asked;
}

bool
kv_stream_empty_answers(struct kv_stream *stream, uint64_t ask, uint64_t *seq,
                        uint64_t *fingerprint)
{
    if (!kv_stream_unaided(stream) || !stream->linked || !stream->complete ||
        stream->reread != NULL || ask <= stream->ask) {
        return false;
    }
    CHECK(!stream->blank && !stream->dead);
    stream->ask = ask;
    stream->ask_told = ask;
    stream->proving = false;
    *seq = stream->next_seq - 1;
    *fingerprint = stream->recent[*seq % KV_STREAM_RECENT].fingerprint;
    return true;
}

/* Proof */

static void
tell_proved(struct kv_stream *stream)
{
    CHECK(stream->proving && !stream->blank);
    stream->proving = false;
    stream->ask_told = stream->ask;
    kv_stream_push(stream,
                   &(struct kv_out){.kind = KV_OUT_PROVED, .ask = stream->ask});
}

void
kv_stream_prove_unaided(struct kv_stream *stream)
{
    if (stream->proving && stream->linked) {
        tell_proved(stream);
    } else if (stream->proving) {
        stream->proving = false;
        stream->reread = "asked for";
    }
}

void
kv_stream_prove(struct kv_stream *stream, uint64_t ask, uint64_t now_us)
{
    stream->now_us = now_us;
    if (stream->blank || stream->dead || stream->reread != NULL ||
        ask <= stream->ask) {
        kv_stream_reread(stream, "asked for", ask, now_us);
        return;
    }
    stream->ask = ask;
    stream->proving = true;
    if (kv_stream_unaided(stream)) {
        kv_stream_prove_unaided(stream);
    } else if (stream->connected) { /* else it is asked for on connecting */
        kv_round_want(stream);
    }
}

void
kv_stream_prove_round(struct kv_stream *stream)
{
    if (stream->proving && stream->round.ask == stream->ask && !stream->blank) {
        tell_proved(stream);
    } else if (stream->proving) {
        kv_round_want(stream);
    }
}
