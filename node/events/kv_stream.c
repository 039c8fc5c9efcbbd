/* One rank's batches in order: live ones, gaps, and what a restart means. */
#include "node/events/kv_stream.h"

#include <errno.h>
#include <stdlib.h>

#include "index/base/mutant.h"
#include "node/events/kv_stream_internal.h"

#define REREADS_MAX    12U /* doublings of the wait */
#define REREAD_CALM_US UINT64_C(60000000)

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

/* Probes of many streams shall not fall together: an eighth at random. */
static void
draw_probe(struct kv_stream *stream)
{
    uint64_t us = kv_stream_us(stream->config.probe_interval_ms);

    stream->probe_us = us - rng_below(&stream->rng, us / 8 + 1);
    CHECK(stream->probe_us > 0);
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

/* The epoch */

enum kv_known
kv_stream_known(const struct kv_stream *stream, uint64_t seq,
                uint64_t fingerprint)
{
    const struct kv_recent *recent = &stream->recent[seq % KV_STREAM_RECENT];

    /* fingerprint 0 is an empty place: as seldom as any fingerprint, and
     * harmless. */
    if (stream->blank || recent->fingerprint == 0 || recent->seq != seq) {
        return KV_KNOWN_NOT;
    }
    return recent->fingerprint == fingerprint ? KV_KNOWN_SAME : KV_KNOWN_OTHER;
}

static void
wipe(struct kv_stream *stream)
{
    if (stream->dead && !stream->force) {
        counter_bump(&stream->counters->restarts, 1);
    }
    kv_held_clear(&stream->early);
    memset(stream->recent, 0, sizeof stream->recent);
    stream->dead = false;
    stream->force = false;
    stream->gap = false;
    stream->proved = false;
    stream->reading = false;
    stream->unread = false;
    stream->accepting = false;
    stream->opened = false;
    stream->why = NULL;
}

static void
push_begin(struct kv_stream *stream, uint64_t ask, const char *reason)
{
    CHECK(reason != NULL && ask <= stream->ask);
    stream->ask_told = ask;
    kv_stream_push(stream, &(struct kv_out){.kind = KV_OUT_BEGIN,
                                            .seq = stream->next_seq,
                                            .process = stream->process,
                                            .ask = ask,
                                            .whole = stream->complete,
                                            .reason = reason});
}

static void
push_gap(struct kv_stream *stream)
{
    kv_stream_push(stream, &(struct kv_out){.kind = KV_OUT_GAP});
}

/* This message is the epoch's first known one, applied next. */
static void
start_at(struct kv_stream *stream, uint64_t seq, uint64_t fingerprint)
{
    stream->opened = false;
    stream->blank = false;
    stream->complete = seq == 0;
    stream->first_seq = seq;
    stream->first_fingerprint = fingerprint;
    stream->next_seq = seq;
}

/* A new epoch whose first known message is this one, of a process that is
 * named by what it said first: any observer can find that out. */
void
kv_stream_begin(struct kv_stream *stream, uint64_t seq, uint64_t fingerprint,
                uint64_t ask, const char *reason)
{
    CHECK(reason != NULL);
    wipe(stream);
    start_at(stream, seq, fingerprint);
    stream->part = seq != 0;
    stream->process =
        seq == 0 ? fingerprint : rng_mix(fingerprint ^ rng_mix(seq));
    push_begin(stream, ask, reason);
}

/* The same process from this message on: a reading that begins in the middle
 * once more keeps its name. */
static void
begin_again(struct kv_stream *stream, uint64_t seq, uint64_t fingerprint,
            const char *reason)
{
    CHECK(stream->part && seq != 0);
    wipe(stream);
    start_at(stream, seq, fingerprint);
    push_begin(stream, stream->ask, reason);
    push_gap(stream);
}

void
kv_stream_forget(struct kv_stream *stream, bool empty, uint64_t ask,
                 const char *reason)
{
    bool named = stream->part && !empty;

    CHECK(reason != NULL);
    wipe(stream);
    stream->blank = true;
    stream->linked = false;
    stream->next_seq = 0;
    stream->complete = empty;
    stream->opened = !empty;
    if (!named) {
        stream->process = empty ? KV_STREAM_EMPTY : rng_next(&stream->rng);
    }
    stream->part = !empty;
    push_begin(stream, ask, reason);
    if (named) {
        push_gap(stream);
    }
}

/* A live copy of what was applied says where the live connection leads. */
static void
compare_pending(struct kv_stream *stream, uint64_t seq, uint64_t fingerprint)
{
    struct kv_message *live = kv_held_take(&stream->pending, seq);

    if (live == NULL) {
        return;
    }
    stream->linked = live->fingerprint == fingerprint || MUTANT(TRUST_LIVE);
    if (!stream->linked) {
        kv_held_clear(&stream->pending);
    }
    free(live);
}

void
kv_stream_apply(struct kv_stream *stream, uint64_t fingerprint,
                struct slice payload)
{
    uint64_t seq = stream->next_seq;

    CHECK(!stream->blank && !stream->dead && seq != UINT64_MAX);
    stream->recent[seq % KV_STREAM_RECENT] =
        (struct kv_recent){.seq = seq, .fingerprint = fingerprint};
    stream->next_seq = seq + 1;
    CHECK(stream->next_seq > stream->first_seq);
    free(kv_held_take(&stream->early, seq));
    compare_pending(stream, seq, fingerprint);
    kv_stream_push(stream, &(struct kv_out){.kind = KV_OUT_APPLY,
                                            .seq = seq,
                                            .fingerprint = fingerprint,
                                            .payload = payload});
}

void
kv_stream_restart(struct kv_stream *stream, const char *reason)
{
    CHECK(reason != NULL);
    if (!stream->dead) {
        stream->dead = !stream->blank;
        stream->why = reason;
    }
    stream->proved = false;
    stream->linked = false;
    stream->reading = false;
    stream->accepting = false;
    stream->fruitless = 0;
    stream->confirmed = 0;
    kv_held_clear(&stream->early);
    kv_round_stop(stream);
    kv_round_want(stream);
}

void
kv_stream_cleared(struct kv_stream *stream)
{
    CHECK(!stream->blank);
    stream->complete = true;
}

/* Reading again */

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
    stream->now_us = now_us;
    if (ask > stream->ask) {
        stream->ask = ask;
        stream->reread = stream->reread != NULL ? stream->reread : reason;
    } else {
        kv_stream_read_again(stream, reason);
    }
}

/* Whether what is wanted happens anyhow, questions and all. */
static bool
is_read_anyway(const struct kv_stream *stream)
{
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

static void
start_reread(struct kv_stream *stream)
{
    const char *reason = stream->reread;
    uint64_t wait_us = kv_stream_us(stream->config.retry_ms) << stream->rereads;

    CHECK(reason != NULL && stream->connected);
    stream->reread = NULL;
    if (is_read_anyway(stream)) {
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
        kv_round_stop(stream);
        kv_stream_forget(stream, false, stream->ask, reason);
        return;
    }
    stream->force = true;
    kv_stream_restart(stream, reason);
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
}

/* Live messages */

static void
begin_live(struct kv_stream *stream, uint64_t seq, uint64_t fingerprint,
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
        start_at(stream, seq, fingerprint);
    } else {
        kv_stream_begin(stream, seq, fingerprint, stream->ask, reason);
    }
    stream->linked = true;
    stream->unread = seq > 0;
}

static void
skip_to(struct kv_stream *stream, uint64_t seq)
{
    CHECK(!stream->blank && seq > stream->next_seq && seq != UINT64_MAX);
    stream->next_seq = seq;
    stream->complete = false;
    kv_held_drop_below(&stream->pending, seq);
    push_gap(stream);
}

/* Batches are missing, and no replay has them. */
static void
jump(struct kv_stream *stream, uint64_t seq, uint64_t fingerprint)
{
    counter_bump(&stream->counters->gaps, 1);
    if (stream->part) {
        begin_again(stream, seq, fingerprint, "gap");
        stream->linked = true;
    } else {
        skip_to(stream, seq);
    }
    stream->unread = true;
}

/* Without a replay the connection is the only witness: what comes by another
 * one begins anew. */
static void
live_unaided(struct kv_stream *stream, uint64_t seq, uint64_t fingerprint,
             struct slice payload)
{
    const char *reason = "first";

    if (!stream->blank) {
        if (kv_stream_known(stream, seq, fingerprint) == KV_KNOWN_SAME) {
            stream->linked = true;
            return;
        }
        if (stream->linked && seq >= stream->next_seq) {
            if (seq > stream->next_seq) {
                jump(stream, seq, fingerprint);
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
    begin_live(stream, seq, fingerprint, reason);
    kv_stream_apply(stream, fingerprint, payload);
}

static bool
is_pending(const struct kv_stream *stream, uint64_t seq, uint64_t fingerprint)
{
    const struct kv_message *held = kv_held_find(&stream->pending, seq);

    return held != NULL && held->fingerprint == fingerprint;
}

/* What runs backwards is not one process: nothing that came by this
 * connection proves anything any more. */
static void
doubt(struct kv_stream *stream)
{
    kv_held_clear(&stream->pending);
    stream->linked = false;
    stream->proved = false;
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
}

static void
live_aided(struct kv_stream *stream, uint64_t seq, uint64_t fingerprint,
           struct slice payload)
{
    enum kv_known known =
        stream->dead ? KV_KNOWN_NOT : kv_stream_known(stream, seq, fingerprint);

    if (known == KV_KNOWN_SAME) {
        if (!stream->linked) { /* what came before it ran ahead of it */
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
        begin_live(stream, seq, fingerprint, "first");
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

    stream->now_us = now_us;
    counter_bump(&stream->counters->messages, 1);
    if (!stream->connected || seq == UINT64_MAX) {
        return;
    }
    stream->quiet_us = now_us;
    if (kv_stream_unaided(stream)) {
        live_unaided(stream, seq, fingerprint, payload);
    } else {
        live_aided(stream, seq, fingerprint, payload);
    }
}

/* Time */

static bool
probe_is_armed(const struct kv_stream *stream)
{
    return stream->connected && stream->config.has_replay &&
           !stream->round.active && !stream->wanted;
}

static uint64_t
reread_due(const struct kv_stream *stream)
{
    return stream->reread != NULL && stream->connected ? stream->reread_at_us
                                                       : UINT64_MAX;
}

void
kv_stream_tick(struct kv_stream *stream, uint64_t now_us)
{
    stream->now_us = now_us;
    kv_round_tick(stream);
    if (probe_is_armed(stream) &&
        now_us >= stream->quiet_us + stream->probe_us) {
        draw_probe(stream);
        kv_round_want(stream);
    }
}

uint64_t
kv_stream_deadline(const struct kv_stream *stream)
{
    uint64_t due = reread_due(stream);
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

/* Outputs */

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
        skip_to(stream, kv_held_lowest(&stream->early));
        next = kv_held_take(&stream->early, stream->next_seq);
    }
    if (next == NULL && stream->accepting && stream->linked &&
        stream->pending.count > 0) {
        skip_to(stream, kv_held_lowest(&stream->pending));
        next = kv_held_take(&stream->pending, stream->next_seq);
    }
    return next;
}

/* A held live message that an epoch begins with, or NULL. */
static struct kv_message *
first_held(struct kv_stream *stream)
{
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
        jump(stream, seq, first->fingerprint);
    } else {
        begin_live(stream, seq, first->fingerprint,
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
    stream->lent = message;
    return true;
}

/* What is still held needs a replay; and what is due is done. */
static void
settle(struct kv_stream *stream)
{
    if (!stream->connected) {
        return;
    }
    if (stream->now_us >= reread_due(stream)) {
        start_reread(stream);
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
}

bool
kv_stream_next_out(struct kv_stream *stream, struct kv_out *out)
{
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
        return false;
    }
    stream->told = state;
    *out = (struct kv_out){.kind = KV_OUT_STATE, .state = state};
    return true;
}

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
