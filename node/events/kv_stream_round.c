/* Replays of a stream: requested, compared, and joined with live messages. */
#include "node/events/kv_stream_internal.h"

#define SILENT_PROBES 8U /* probe intervals between tries at a silent replay */

/* As soon as the rate limit allows. */
void
kv_round_want(struct kv_stream *stream)
{
    uint64_t at =
        stream->asked_us == 0
            ? stream->now_us
            : stream->asked_us + kv_stream_us(stream->config.retry_ms);

    if (!stream->config.has_replay) {
        return;
    }
    if (!stream->wanted || at < stream->round_at_us) {
        stream->round_at_us = at;
    }
    stream->wanted = true;
    CHECK(stream->wanted && stream->round_at_us >= stream->asked_us);
}

static void
listen_on(struct kv_stream *stream)
{
    stream->quiet_us = stream->now_us;
    stream->round.silent_at_us =
        stream->now_us + kv_stream_us(stream->config.replay_timeout_ms);
}

/*
 * From the last applied message on, including it: its fingerprint proves that
 * the answer is of the same process. From the beginning if nothing was applied,
 * or the epoch is dead.
 */
void
kv_round_ask(struct kv_stream *stream)
{
    bool fresh = stream->blank || stream->dead;
    uint64_t from = fresh ? 0 : stream->next_seq - 1;

    CHECK(stream->connected && !stream->round.active);
    CHECK(stream->config.has_replay && (fresh || stream->next_seq > 0));
    if (stream->early.count == 0) {
        stream->early_top = 0;
    }
    stream->wanted = false;
    stream->asked_us = stream->now_us;
    stream->round = (struct kv_round){
        .active = true,
        .fresh = fresh,
        .ask = stream->ask,
        .from = from,
        .fingerprint =
            fresh ? 0 : stream->recent[from % KV_STREAM_RECENT].fingerprint,
        .next_before = stream->next_seq,
        .early_before = stream->early.count,
        .early_top = stream->early_top,
        .linked_before = stream->linked,
    };
    listen_on(stream);
    counter_bump(&stream->counters->replays, 1);
    kv_stream_push(stream,
                   &(struct kv_out){.kind = KV_OUT_REPLAY, .seq = from});
    CHECK(stream->round.silent_at_us >= stream->now_us);
}

void
kv_round_stop(struct kv_stream *stream)
{
    if (stream->round.active) {
        stream->round.active = false;
        kv_stream_push(stream, &(struct kv_out){.kind = KV_OUT_HANGUP});
    }
}

static bool
round_helped(const struct kv_stream *stream)
{
    return stream->next_seq != stream->round.next_before ||
           stream->early.count > stream->round.early_before ||
           stream->linked != stream->round.linked_before;
}

/* Whether a round closed part of a hole. Messages published since the last
 * round prove nothing, because every round brings some while the engine
 * works. */
static bool
hole_shrank(const struct kv_stream *stream)
{
    return stream->next_seq != stream->round.next_before ||
           stream->round.filled || stream->round.early_before == 0 ||
           stream->linked != stream->round.linked_before;
}

static uint32_t
confirmations(const struct kv_stream *stream)
{
    CHECK(stream->config.replay_rounds > 0);
    return stream->config.replay_rounds < KV_STREAM_CONFIRM
               ? stream->config.replay_rounds
               : KV_STREAM_CONFIRM;
}

/* What is missing now is lost for good: the stream is incomplete. */
static void
accept_hole(struct kv_stream *stream)
{
    CHECK(!stream->blank && stream->confirmed >= confirmations(stream));
    stream->accepting = true;
    stream->complete = false;
    stream->confirmed = 0;
    counter_bump(&stream->counters->replay_incomplete, 1);
}

/*
 * The replay is the authority, and after several rounds it still does not know
 * a live message. If the connection is proved, the replay has a hole. If not,
 * the message may be of another process and must not be used.
 */
static void
give_up_pending(struct kv_stream *stream)
{
    CHECK(stream->pending.count > 0);
    if (stream->linked) {
        accept_hole(stream);
        return;
    }
    counter_bump(&stream->counters->pending_dropped, stream->pending.count);
    kv_held_clear(&stream->pending);
    stream->confirmed = 0;
    stream->gap = true;
}

/* A replay was read to its end, and nothing is missing before that. */
static void
in_step(struct kv_stream *stream)
{
    bool helped = round_helped(stream);

    CHECK(stream->connected && !stream->round.active);
    stream->proved = true;
    stream->reading = false;
    stream->gap = false;
    stream->fruitless = 0;
    if (!stream->blank) {
        kv_held_drop_below(&stream->pending, stream->next_seq);
    }
    bool waiting = stream->pending.count > 0 &&
                   !(stream->linked &&
                     kv_held_find(&stream->pending, stream->next_seq) != NULL);
    stream->confirmed = waiting && !helped ? stream->confirmed + 1 : 0;
    if (stream->confirmed >= confirmations(stream)) {
        give_up_pending(stream);
    }
    kv_stream_prove_round(stream);
    if (stream->unread && !stream->complete) {
        stream->unread = false;
        kv_stream_read_again(stream, "replay answers again");
    }
}

/* A replay was read to its end, but it had holes. */
static void
in_holes(struct kv_stream *stream)
{
    CHECK(stream->connected && !stream->round.active);
    if (!stream->gap) {
        counter_bump(&stream->counters->gaps, 1);
    }
    stream->gap = true;
    stream->fruitless = 0;
    stream->confirmed = hole_shrank(stream) ? 0 : stream->confirmed + 1;
    if (stream->early.count > 0 && stream->confirmed >= confirmations(stream)) {
        accept_hole(stream);
        stream->gap = false;
        stream->proved = true;
        stream->reading = false;
        return;
    }
    kv_round_want(stream);
}

/* The end marker alone: this process has nothing from there on. */
static void
in_nothing(struct kv_stream *stream)
{
    CHECK(!stream->round.heard && !stream->round.active);
    if (!stream->round.fresh) {
        kv_stream_restart(stream, "restarted");
        return;
    }
    if (!stream->blank || stream->opened ||
        stream->round.ask != stream->ask_told) {
        kv_stream_forget(stream, true, stream->round.ask,
                         stream->why != NULL ? stream->why : "empty");
    }
    stream->complete = true;
    in_step(stream);
}

void
kv_stream_replay_end(struct kv_stream *stream, uint64_t now_us)
{
    stream->now_us = now_us;
    if (!stream->round.active) {
        return;
    }
    stream->quiet_us = now_us;
    stream->silent = false;
    kv_round_stop(stream);
    if (!stream->round.heard) {
        in_nothing(stream);
    } else if (stream->early.count > 0 || stream->round.lost) {
        in_holes(stream);
    } else {
        in_step(stream);
    }
    CHECK(!stream->round.active);
}

/* Another try at a replay that does not answer. */
void
kv_round_later(struct kv_stream *stream)
{
    CHECK(stream->config.has_replay);
    stream->wanted = true;
    stream->round_at_us =
        stream->now_us +
        SILENT_PROBES * kv_stream_us(stream->config.probe_interval_ms);
}

/* There is no answer: continue as if there were no replay, and try again
 * later. */
static void
give_up(struct kv_stream *stream)
{
    CHECK(!stream->round.active);
    if (!stream->silent) {
        counter_bump(&stream->counters->replay_incomplete, 1);
    }
    stream->silent = true;
    stream->fruitless = 0;
    stream->confirmed = 0;
    stream->gap = false;
    stream->reading = false;
    kv_held_clear(&stream->early);
    if (stream->dead || (stream->blank && stream->ask != stream->ask_told)) {
        kv_stream_forget(stream, false, stream->ask,
                         stream->why != NULL ? stream->why : "asked for");
    }
    kv_stream_prove_unaided(stream);
    kv_round_later(stream);
    CHECK(stream->early.count == 0 && !stream->dead);
}

void
kv_round_tick(struct kv_stream *stream)
{
    if (!stream->round.active || stream->now_us < stream->round.silent_at_us) {
        return;
    }
    stream->fruitless = round_helped(stream) ? 0 : stream->fruitless + 1;
    kv_round_stop(stream);
    if (stream->silent || stream->fruitless >= stream->config.replay_rounds) {
        give_up(stream);
    } else {
        kv_round_want(stream);
    }
}

/* Replies */

/* The first reply shows which process answers. True when there is nothing more
 * to do. */
static bool
meet(struct kv_stream *stream, uint64_t seq, uint64_t fingerprint)
{
    struct kv_round *round = &stream->round;

    CHECK(round->active && round->heard);
    if (round->fresh) {
        bool same = !stream->blank && !stream->force &&
                    seq == stream->first_seq &&
                    fingerprint == stream->first_fingerprint;
        if (same) { /* as before: the process that caused the doubt is gone */
            stream->dead = false;
            round->fresh = false;
            return false;
        }
        kv_stream_begin(stream, seq, fingerprint, round->ask,
                        stream->dead || stream->force ? stream->why : "first");
        stream->linked = false;
        stream->reading = true;
        return false;
    }
    if (seq < round->from) {
        return true; /* not the requested reply */
    }
    if (seq > round->from) {
        counter_bump(&stream->counters->gaps, 1);
        kv_stream_begin(stream, seq, fingerprint, round->ask,
                        "history is gone");
        stream->linked = false;
        stream->reading = true;
        return false;
    }
    if (fingerprint != round->fingerprint) {
        kv_stream_restart(stream, "restarted");
        return true;
    }
    return false;
}

static void
hold_early(struct kv_stream *stream, uint64_t seq, uint64_t fingerprint,
           struct slice payload)
{
    const struct kv_message *held = kv_held_find(&stream->early, seq);

    CHECK(seq > stream->next_seq && seq != UINT64_MAX);
    if (held != NULL) {
        if (held->fingerprint != fingerprint) {
            kv_stream_restart(stream, "restarted");
        }
        return;
    }
    if (!kv_held_put(&stream->early, seq, fingerprint, payload)) {
        stream->round.lost = true;
        return;
    }
    if (seq < stream->round.early_top) {
        stream->round.filled = true;
    }
    if (seq >= stream->early_top) {
        stream->early_top = seq + 1;
    }
    CHECK(seq < stream->early_top);
}

void
kv_stream_replayed(struct kv_stream *stream, uint64_t seq, struct slice payload,
                   uint64_t now_us)
{
    uint64_t fingerprint = key_digest(payload);

    payload = kv_stream_kept(stream, payload);
    stream->now_us = now_us;
    counter_bump(&stream->counters->messages, 1);
    if (!stream->round.active || seq == UINT64_MAX) {
        return;
    }
    listen_on(stream);
    stream->silent = false;
    if (!stream->round.heard) {
        stream->round.heard = true;
        if (meet(stream, seq, fingerprint)) {
            return;
        }
    }
    if (seq == stream->next_seq) {
        kv_stream_apply(stream, fingerprint, payload);
    } else if (seq > stream->next_seq) {
        hold_early(stream, seq, fingerprint, payload);
    } else if (kv_stream_known(stream, seq, fingerprint) == KV_KNOWN_OTHER) {
        kv_stream_restart(stream, "restarted");
    }
    CHECK(stream->early.count == 0 || !stream->blank);
}
