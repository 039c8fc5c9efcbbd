/* A stream's epoch: how it begins, what is applied to it, how it ends. */
#include "node/events/kv_stream_internal.h"

#include <stdlib.h>

#include "index/base/mutant.h"

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
    CHECK(stream->early.count == 0 && !stream->dead && !stream->reading);
}

/* A replay may have been asked for before a question that the connection alone
 * answered meanwhile. */
static void
push_begin(struct kv_stream *stream, uint64_t begun, const char *reason)
{
    uint64_t ask = begun > stream->ask_told ? begun : stream->ask_told;

    CHECK(reason != NULL && ask <= stream->ask);
    stream->proving = stream->proving && ask < stream->ask;
    stream->ask_told = ask;
    if (ask == stream->ask) {
        stream->reread = NULL; /* this is it */
    }
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
void
kv_epoch_start(struct kv_stream *stream, uint64_t seq, uint64_t fingerprint)
{
    CHECK(!stream->dead && seq != UINT64_MAX);
    stream->opened = false;
    stream->blank = false;
    stream->complete = seq == 0;
    stream->first_seq = seq;
    stream->first_fingerprint = fingerprint;
    stream->next_seq = seq;
}

/* A new epoch whose first known message is this one, of a process named by its
 * first known message: any observer can find that name. */
void
kv_stream_begin(struct kv_stream *stream, uint64_t seq, uint64_t fingerprint,
                uint64_t ask, const char *reason)
{
    CHECK(reason != NULL);
    wipe(stream);
    kv_epoch_start(stream, seq, fingerprint);
    stream->part = seq != 0;
    stream->process =
        seq == 0 ? fingerprint : rng_mix(fingerprint ^ rng_mix(seq));
    push_begin(stream, ask, reason);
    CHECK(!stream->blank && stream->next_seq == stream->first_seq);
}

/* The same process from this message on: a reading that begins in the middle
 * once more keeps its name. */
static void
begin_again(struct kv_stream *stream, uint64_t seq, uint64_t fingerprint,
            const char *reason)
{
    CHECK(stream->part && seq != 0);
    wipe(stream);
    kv_epoch_start(stream, seq, fingerprint);
    push_begin(stream, stream->ask, reason);
    push_gap(stream);
    CHECK(stream->part && !stream->complete);
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
    CHECK(stream->blank && !stream->linked && stream->early.count == 0);
}

/* A live copy of an applied message shows which process the live connection
 * leads to. */
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
    CHECK(stream->linked || stream->pending.count == 0);
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
    kv_stream_stir(stream);
    free(kv_held_take(&stream->early, seq));
    compare_pending(stream, seq, fingerprint);
    kv_stream_push(stream, &(struct kv_out){.kind = KV_OUT_APPLY,
                                            .seq = seq,
                                            .fingerprint = fingerprint,
                                            .payload = payload});
}

void
kv_epoch_skip_to(struct kv_stream *stream, uint64_t seq)
{
    CHECK(!stream->blank && seq > stream->next_seq && seq != UINT64_MAX);
    stream->next_seq = seq;
    stream->complete = false;
    kv_held_drop_below(&stream->pending, seq);
    push_gap(stream);
    CHECK_SLOW(stream->pending.count == 0 ||
               kv_held_lowest(&stream->pending) >= seq);
}

/* Batches are missing, and no replay has them. */
void
kv_epoch_jump(struct kv_stream *stream, uint64_t seq, uint64_t fingerprint)
{
    counter_bump(&stream->counters->gaps, 1);
    if (stream->part) {
        begin_again(stream, seq, fingerprint, "gap");
        stream->linked = true;
    } else {
        kv_epoch_skip_to(stream, seq);
    }
    stream->unread = true;
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
    CHECK(!stream->linked && !stream->round.active);
}

void
kv_stream_cleared(struct kv_stream *stream)
{
    CHECK(!stream->blank);
    stream->complete = true;
}
