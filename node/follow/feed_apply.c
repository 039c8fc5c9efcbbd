/* What sources deliver, and what answers say of it. */
#include "node/follow/feed_internal.h"

#include "node/follow/feed_stream_internal.h"

static struct feed_stream *
find(const struct feed *feed, uint32_t worker, uint32_t generation,
     uint32_t rank)
{
    if (worker >= WORKERS_MAX || rank >= feed->worker[worker].ranks ||
        generation != feed->worker[worker].generation) {
        return NULL;
    }
    return &feed->worker[worker].stream[rank];
}

static bool
misses_events(const struct feed_stream *stream)
{
    switch (stream->state) {
    case KV_STREAM_LIVE:
    case KV_STREAM_PARTIAL:
        return stream->lost;
    case KV_STREAM_READING:
        return stream->lost || stream->in_step;
    case KV_STREAM_CONNECTING:
    case KV_STREAM_STALE:
        break;
    }
    return true;
}

uint32_t
feed_stream_trust(const struct feed *feed, const struct feed_stream *stream)
{
    uint32_t trust = accuracy_trust(&stream->accuracy, &feed->limits.accuracy);
    uint32_t stale = feed->limits.stale_permille;

    return misses_events(stream) && stale < trust ? stale : trust;
}

bool
feed_stream_fit(const struct feed_stream *stream)
{
    return stream->slot != WORKER_NONE && stream->block_tokens != 0 &&
           !stream->contested && !stream->deaf;
}

bool
feed_stream_open(struct feed *feed, struct feed_stream *stream)
{
    uint32_t slot;

    CHECK(stream->slot == WORKER_NONE && !stream->used);
    if (mirror_open(feed->mirror, &slot) != 0) {
        return false;
    }
    CHECK(slot < WORKERS_MAX);
    stream->slot = slot;
    feed->changed = true;
    return true;
}

static void
close_slot(struct feed *feed, uint32_t slot)
{
    if (worker_set_has(&feed->shown, slot)) {
        worker_set_add(&feed->closing, slot);
    } else {
        mirror_close(feed->mirror, slot);
    }
}

void
feed_stream_close(struct feed *feed, struct feed_stream *stream)
{
    if (stream->slot != WORKER_NONE) {
        close_slot(feed, stream->slot);
        stream->slot = WORKER_NONE;
        stream->used = false;
        feed->changed = true;
    }
}

/* Nothing is held from here on: a slot that was used is exchanged. */
static void
forget(struct feed *feed, struct feed_stream *stream)
{
    if (stream->slot != WORKER_NONE && !stream->used) {
        return;
    }
    feed_stream_close(feed, stream);
    if (!feed_stream_open(feed, stream)) {
        feed->stats.no_slot++;
    }
}

void
feed_reset(struct feed *feed, uint32_t worker, uint32_t generation,
           uint32_t rank, uint64_t epoch)
{
    struct feed_stream *stream = find(feed, worker, generation, rank);

    if (stream == NULL) {
        return;
    }
    stream->has_epoch = true;
    stream->epoch = epoch;
    stream->seq = 0;
    stream->holes = 0;
    stream->sized = false; /* most likely the same again */
    stream->in_step = false;
    stream->lost = false;
    stream->deaf = false;
    accuracy_reread(&stream->accuracy);
    forget(feed, stream);
    feed->stats.epochs++;
    feed->changed = true;
}

void
feed_contested(struct feed *feed, uint32_t worker, uint32_t generation,
               uint32_t rank, bool contested)
{
    struct feed_stream *stream = find(feed, worker, generation, rank);

    if (stream != NULL && stream->contested != contested) {
        stream->contested = contested;
        feed->changed = true;
    }
}

void
feed_state(struct feed *feed, uint32_t worker, uint32_t generation,
           uint32_t rank, enum kv_stream_state state)
{
    struct feed_stream *stream = find(feed, worker, generation, rank);

    if (stream == NULL || stream->state == state) {
        return;
    }
    stream->state = state;
    if (state == KV_STREAM_LIVE || state == KV_STREAM_PARTIAL) {
        stream->in_step = true;
        stream->rereads = stream->lost ? stream->rereads : 0;
    }
    feed->changed = true;
}

/* How long until the next re-read for what was lost. */
static uint64_t
reread_wait_us(const struct feed *feed, const struct feed_stream *stream)
{
    uint32_t doublings = stream->rereads > 0 ? stream->rereads - 1 : 0;

    doublings = doublings < ACCURACY_DOUBLINGS ? doublings : ACCURACY_DOUBLINGS;
    return ((uint64_t)feed->limits.accuracy.reread_ms * 1000) << doublings;
}

/* What was left out is made up for by a re-read: the first for want of a slot
 * as soon as there is one, others after a wait, as room may come. */
static void
lose(struct feed *feed, struct feed_stream *stream, bool deaf)
{
    if (!stream->lost) {
        bool at_once = deaf && stream->rereads == 0;
        stream->reread_due_us =
            feed->now_us + (at_once ? 0 : reread_wait_us(feed, stream));
    }
    stream->lost = true;
    stream->deaf |= deaf;
    feed->changed = true;
}

/* Where the words after the last CLEAR begin; 0: there is none. */
static uint32_t
after_clear(const struct event_record *record)
{
    uint32_t after = 0;

    for (uint32_t at = 0; at < record->words_count;) {
        uint64_t op = record->words[at];
        at += 1 + event_op_count(op);
        after = event_op_kind(op) == EVENT_CLEAR ? at : after;
    }
    return after;
}

/* Whether its words are whole, and its blocks as large as the others. */
static bool
is_sound(const struct feed_stream *stream, const struct event_record *record)
{
    return record->words_count <= EVENT_WORDS_MAX &&
           event_check(record->words, record->words_count) &&
           (record->block_tokens == 0 || !stream->sized ||
            record->block_tokens == stream->block_tokens);
}

/* Whether the record is one for this stream, now. */
static bool
accept(struct feed *feed, struct feed_stream *stream,
       const struct event_record *record)
{
    if (!stream->has_epoch || record->epoch != stream->epoch) {
        feed->stats.dropped_epoch++;
        return false;
    }
    if (record->seq != 0 && record->seq < stream->seq) {
        feed->stats.dropped_old++;
        return false;
    }
    if (!is_sound(stream, record)) {
        feed->stats.dropped_bad++;
        lose(feed, stream, false);
        return false;
    }
    return true;
}

/* A record without a block in it may be the one that knows. */
static int
tell_holes(struct feed *feed, struct feed_stream *stream, uint32_t holes)
{
    if (stream->slot == WORKER_NONE || stream->deaf) {
        return 0;
    }
    feed->stats.records++;
    int outcome = mirror_apply(feed->mirror, stream->slot, NULL, 0, holes);
    return outcome < 0 ? outcome : 0;
}

static int
apply(struct feed *feed, struct feed_stream *stream,
      const struct event_record *record)
{
    uint32_t from = after_clear(record);

    if (from > 0) {
        feed->stats.clears++;
        feed->changed |= stream->lost;
        stream->lost = false; /* it is not held any more either */
        stream->deaf = false;
        forget(feed, stream);
    }
    if (from == record->words_count) {
        return tell_holes(feed, stream, record->holes);
    }
    if (stream->slot == WORKER_NONE || stream->deaf) {
        feed->stats.dropped_lost++;
        lose(feed, stream, true);
        return 0;
    }
    stream->used = true;
    int outcome = mirror_apply(feed->mirror, stream->slot, record->words + from,
                               record->words_count - from, record->holes);
    feed->stats.records += outcome == 0;
    feed->stats.full += outcome == MIRROR_E_FULL;
    feed->stats.no_memory += outcome < 0;
    if (outcome != 0) {
        lose(feed, stream, false);
    }
    return outcome < 0 ? outcome : 0;
}

/* The other ranks of an engine have blocks of the same size, so one that held
 * nothing yet can be looked up (and be sent something) too. */
static void
learn_size(struct feed *feed, struct feed_worker *worker,
           struct feed_stream *stream, uint32_t block_tokens)
{
    stream->sized = true;
    feed->changed |= stream->block_tokens != block_tokens;
    stream->block_tokens = block_tokens;
    for (uint32_t i = 0; i < worker->ranks; i++) {
        if (worker->stream[i].block_tokens == 0) {
            worker->stream[i].block_tokens = block_tokens;
            feed->changed = true;
        }
    }
}

int
feed_record(struct feed *feed, uint32_t worker, uint32_t generation,
            uint32_t rank, const struct event_record *record)
{
    struct feed_stream *stream = find(feed, worker, generation, rank);

    if (stream == NULL) {
        feed->stats.dropped_unknown++;
        return 0;
    }
    if (!accept(feed, stream, record)) {
        return 0;
    }
    stream->seq = record->seq != 0 ? record->seq : stream->seq;
    stream->holes = record->holes;
    if (record->block_tokens != 0 && !stream->sized) {
        learn_size(feed, &feed->worker[worker], stream, record->block_tokens);
    }
    return apply(feed, stream, record);
}

bool
feed_restore(struct feed *feed, const struct feed_id *id,
             const struct feed_restored *restored)
{
    struct feed_stream *stream =
        find(feed, id->worker, id->generation, id->rank);

    if (stream == NULL || stream->has_epoch) {
        return false;
    }
    CHECK(stream->slot == WORKER_NONE && restored->slot < WORKERS_MAX);
    stream->has_epoch = true;
    stream->in_step = true; /* what comes first fills a gap */
    stream->used = true;
    stream->epoch = restored->epoch;
    stream->seq = restored->seq;
    stream->holes = restored->holes;
    stream->slot = restored->slot;
    if (restored->block_tokens != 0) {
        learn_size(feed, &feed->worker[id->worker], stream,
                   restored->block_tokens);
    }
    feed->stats.epochs++;
    feed->changed = true;
    return true;
}

uint32_t
feed_slot(const struct feed *feed, uint32_t worker, uint32_t generation,
          uint32_t rank)
{
    const struct feed_stream *stream = find(feed, worker, generation, rank);

    return stream != NULL ? stream->slot : WORKER_NONE;
}

uint32_t
feed_whole_slot(const struct feed *feed, uint32_t worker, uint32_t generation,
                uint32_t rank)
{
    const struct feed_stream *stream = find(feed, worker, generation, rank);

    return stream != NULL && !stream->lost ? stream->slot : WORKER_NONE;
}

bool
feed_answer(struct feed *feed, uint32_t worker, uint32_t generation,
            uint32_t rank, const struct accuracy_answer *answer,
            uint64_t now_us)
{
    struct feed_stream *stream = find(feed, worker, generation, rank);

    feed->now_us = now_us;
    if (stream == NULL || !feed_stream_in_view(stream) ||
        misses_events(stream)) {
        return false;
    }
    if (stream->state == KV_STREAM_PARTIAL &&
        answer->predicted_tokens < answer->cached_tokens) {
        feed->stats.explained++;
        return false;
    }
    bool wrong = stream->accuracy.wrong;
    bool reread = accuracy_note(&stream->accuracy, &feed->limits.accuracy,
                                answer, now_us);
    feed->changed |= stream->accuracy.wrong != wrong;
    return reread;
}

bool
feed_next_reread(struct feed *feed, struct feed_id *id, uint64_t now_us)
{
    feed->now_us = now_us;
    for (uint32_t i = 0; i < feed->streams_count; i++) {
        struct feed_stream *stream = feed->streams[i];
        if (stream->lost && stream->slot != WORKER_NONE &&
            now_us >= stream->reread_due_us) {
            stream->rereads++;
            stream->reread_due_us = now_us + reread_wait_us(feed, stream);
            feed->stats.rereads++;
            *id = stream->id;
            return true;
        }
    }
    return false;
}

bool
feed_work(struct feed *feed, uint32_t budget)
{
    bool opened = true;

    for (uint32_t i = 0; i < feed->streams_count && opened; i++) {
        struct feed_stream *stream = feed->streams[i];
        if (stream->has_epoch && stream->slot == WORKER_NONE) {
            opened = feed_stream_open(feed, stream);
        }
    }
    return !feed_view_renew(feed) || mirror_work(feed->mirror, budget);
}
