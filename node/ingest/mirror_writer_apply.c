/* What sources deliver, and what answers say of it. */
#include "node/ingest/mirror_writer.h"

#include "node/ingest/mirror_writer_internal.h"

static struct mirror_writer_stream *
find(const struct mirror_writer *writer, uint32_t worker, uint32_t generation,
     uint32_t rank)
{
    if (worker >= WORKERS_MAX || rank >= writer->worker[worker].ranks ||
        generation != writer->worker[worker].generation) {
        return NULL;
    }
    struct mirror_writer_stream *stream = &writer->worker[worker].stream[rank];
    CHECK(stream->id.worker == worker && stream->id.rank == rank);
    return stream;
}

static bool
misses_events(const struct mirror_writer_stream *stream)
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
mirror_writer_stream_trust(const struct mirror_writer *writer,
                           const struct mirror_writer_stream *stream)
{
    uint32_t trust =
        accuracy_trust(&stream->accuracy, &writer->limits.accuracy);
    uint32_t stale = writer->limits.stale_permille;

    CHECK(trust <= 1000 && stale <= 1000);
    if (stream->cleared) {
        return 0;
    }
    if (stream->state == KV_STREAM_PARTIAL && !stream->lost) {
        uint32_t partial = accuracy_partial_trust(
            &stream->accuracy, &writer->limits.accuracy, stale);
        return partial < trust ? partial : trust;
    }
    return misses_events(stream) && stale < trust ? stale : trust;
}

bool
mirror_writer_stream_fit(const struct mirror_writer_stream *stream)
{
    CHECK(stream->slot == WORKER_NONE || stream->has_epoch);
    CHECK(!stream->deaf || stream->lost);
    return stream->slot != WORKER_NONE && stream->block_tokens != 0 &&
           shape_is_ruled(stream->shape) && !stream->contested && !stream->deaf;
}

bool
mirror_writer_stream_open(struct mirror_writer *writer,
                          struct mirror_writer_stream *stream)
{
    uint32_t slot;

    CHECK(stream->has_epoch);
    CHECK(stream->slot == WORKER_NONE && !stream->used);
    if (mirror_open(writer->mirror, &slot) != 0) {
        return false;
    }
    CHECK(slot < WORKERS_MAX);
    CHECK(!worker_set_has(&writer->closing, slot) &&
          !worker_set_has(&writer->shown, slot));
    stream->slot = slot;
    writer->changed = true;
    return true;
}

static void
close_slot(struct mirror_writer *writer, uint32_t slot)
{
    CHECK(slot < WORKERS_MAX && !worker_set_has(&writer->closing, slot));
    if (worker_set_has(&writer->shown, slot)) {
        worker_set_add(&writer->closing, slot);
    } else {
        mirror_close(writer->mirror, slot);
    }
}

void
mirror_writer_stream_close(struct mirror_writer *writer,
                           struct mirror_writer_stream *stream)
{
    CHECK(stream->slot != WORKER_NONE || !stream->used);
    if (stream->slot != WORKER_NONE) {
        close_slot(writer, stream->slot);
        stream->slot = WORKER_NONE;
        stream->used = false;
        writer->changed = true;
    }
}

/* Nothing is held from here on: a slot that was used is exchanged. */
static void
forget(struct mirror_writer *writer, struct mirror_writer_stream *stream)
{
    CHECK(stream->has_epoch);
    if (stream->slot != WORKER_NONE && !stream->used) {
        return;
    }
    mirror_writer_stream_close(writer, stream);
    if (!mirror_writer_stream_open(writer, stream)) {
        writer->stats.no_slot++;
    }
    CHECK(!stream->used);
}

void
mirror_writer_reset(struct mirror_writer *writer, uint32_t worker,
                    uint32_t generation, uint32_t rank, uint64_t epoch)
{
    struct mirror_writer_stream *stream =
        find(writer, worker, generation, rank);

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
    stream->cleared = false;
    accuracy_reread(&stream->accuracy);
    forget(writer, stream);
    writer->stats.epochs++;
    writer->changed = true;
}

void
mirror_writer_contested(struct mirror_writer *writer, uint32_t worker,
                        uint32_t generation, uint32_t rank, bool contested)
{
    struct mirror_writer_stream *stream =
        find(writer, worker, generation, rank);

    if (stream != NULL && stream->contested != contested) {
        stream->contested = contested;
        writer->changed = true;
    }
}

void
mirror_writer_state(struct mirror_writer *writer, uint32_t worker,
                    uint32_t generation, uint32_t rank,
                    enum kv_stream_state state)
{
    struct mirror_writer_stream *stream =
        find(writer, worker, generation, rank);

    CHECK(state <= KV_STREAM_STALE);
    if (stream == NULL || stream->state == state) {
        return;
    }
    stream->state = state;
    if (state == KV_STREAM_LIVE || state == KV_STREAM_PARTIAL) {
        stream->in_step = true;
        stream->rereads = stream->lost ? stream->rereads : 0;
    }
    writer->changed = true;
}

/* The wait until the next re-read because of lost records. */
static uint64_t
reread_wait_us(const struct mirror_writer *writer,
               const struct mirror_writer_stream *stream)
{
    uint32_t doublings = stream->rereads > 0 ? stream->rereads - 1 : 0;

    doublings = doublings < ACCURACY_DOUBLINGS ? doublings : ACCURACY_DOUBLINGS;
    return ((uint64_t)writer->limits.accuracy.reread_ms * 1000) << doublings;
}

/* A re-read repairs what was left out: after a lack of slots as soon as there
 * is one; otherwise after a wait, because room may appear. */
static void
lose(struct mirror_writer *writer, struct mirror_writer_stream *stream,
     bool deaf)
{
    CHECK(stream->has_epoch);
    if (!stream->lost) {
        bool at_once = deaf && stream->rereads == 0;
        stream->reread_due_us =
            writer->now_us + (at_once ? 0 : reread_wait_us(writer, stream));
    }
    stream->lost = true;
    stream->deaf |= deaf;
    writer->changed = true;
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
    CHECK(after <= record->words_count); /* its words are whole */
    return after;
}

/* Whether its words are whole, and its blocks like the others. */
static bool
is_sound(const struct mirror_writer_stream *stream,
         const struct event_record *record)
{
    uint32_t grain = shape_grain(record->block_tokens);

    return record->words_count <= EVENT_WORDS_MAX &&
           event_check(record->words, record->words_count) &&
           (grain == 0 || !stream->sized ||
            grain == shape_grain(stream->shape));
}

/* Whether the record is one for this stream, now. */
static bool
accept(struct mirror_writer *writer, struct mirror_writer_stream *stream,
       const struct event_record *record)
{
    if (!stream->has_epoch || record->epoch != stream->epoch) {
        writer->stats.dropped_epoch++;
        return false;
    }
    if (record->seq != 0 && record->seq < stream->seq) {
        writer->stats.dropped_old++;
        return false;
    }
    if (!is_sound(stream, record)) {
        writer->stats.dropped_bad++;
        lose(writer, stream, false);
        return false;
    }
    return true;
}

/* Even a record without blocks may know the block size. */
static int
tell_holes(struct mirror_writer *writer, struct mirror_writer_stream *stream,
           uint32_t holes)
{
    CHECK(stream->has_epoch);
    if (stream->slot == WORKER_NONE || stream->deaf) {
        return 0;
    }
    writer->stats.records++;
    int outcome = mirror_apply(writer->mirror, stream->slot, NULL, 0, holes);
    return outcome < 0 ? outcome : 0;
}

static int
apply(struct mirror_writer *writer, struct mirror_writer_stream *stream,
      const struct event_record *record)
{
    uint32_t from = after_clear(record);

    CHECK(stream->has_epoch && record->epoch == stream->epoch);
    if (from > 0) {
        writer->stats.clears++;
        writer->changed |= stream->lost;
        stream->lost = false; /* the state that lacked it is gone, too */
        stream->deaf = false;
        forget(writer, stream);
    }
    if (from == record->words_count) {
        return tell_holes(writer, stream, record->holes);
    }
    if (stream->slot == WORKER_NONE || stream->deaf) {
        writer->stats.dropped_lost++;
        lose(writer, stream, true);
        return 0;
    }
    stream->used = true;
    int outcome =
        mirror_apply(writer->mirror, stream->slot, record->words + from,
                     record->words_count - from, record->holes);
    writer->stats.records += outcome == 0;
    writer->stats.full += outcome == MIRROR_E_FULL;
    writer->stats.no_memory += outcome < 0;
    if (outcome != 0) {
        lose(writer, stream, false);
    }
    return outcome < 0 ? outcome : 0;
}

/* The other ranks of an engine have blocks of the same size, so a rank that
 * holds nothing yet can be looked up, and can have expectations. */
static void
learn_shape(struct mirror_writer *writer, struct mirror_writer_worker *worker,
            struct mirror_writer_stream *stream, uint32_t shape)
{
    CHECK(worker->ranks > 0 && stream->has_epoch);
    if (shape_tokens(shape) == 0 || (stream->sized && stream->shape == shape)) {
        return;
    }
    stream->sized = true;
    writer->changed |= stream->shape != shape;
    stream->shape = shape;
    stream->block_tokens = shape_tokens(shape);
    for (uint32_t i = 0; i < worker->ranks; i++) {
        if (worker->stream[i].block_tokens == 0) {
            worker->stream[i].shape = shape;
            worker->stream[i].block_tokens = shape_tokens(shape);
            writer->changed = true;
        }
    }
}

int
mirror_writer_record(struct mirror_writer *writer, uint32_t worker,
                     uint32_t generation, uint32_t rank,
                     const struct event_record *record)
{
    struct mirror_writer_stream *stream =
        find(writer, worker, generation, rank);

    if (stream == NULL) {
        writer->stats.dropped_unknown++;
        return 0;
    }
    if (!accept(writer, stream, record)) {
        return 0;
    }
    if (record->seq > stream->seq) {
        writer->changed |= stream->cleared;
        stream->cleared = false;
    }
    stream->seq = record->seq != 0 ? record->seq : stream->seq;
    stream->holes = record->holes;
    learn_shape(writer, &writer->worker[worker], stream, record->block_tokens);
    return apply(writer, stream, record);
}

void
mirror_writer_cleared(struct mirror_writer *writer, uint32_t worker,
                      uint32_t generation)
{
    CHECK(worker < WORKERS_MAX);
    struct mirror_writer_worker *w = &writer->worker[worker];

    for (uint32_t i = 0; i < w->ranks && w->generation == generation; i++) {
        writer->changed |= !w->stream[i].cleared;
        w->stream[i].cleared = true;
    }
    /* Without memory the next mirror_writer_work() does. */
    writer->changed |= !mirror_writer_view_renew(writer);
}

bool
mirror_writer_restore(struct mirror_writer *writer,
                      const struct mirror_writer_id *id,
                      const struct mirror_writer_restored *restored)
{
    struct mirror_writer_stream *stream =
        find(writer, id->worker, id->generation, id->rank);

    if (stream == NULL || stream->has_epoch) {
        return false;
    }
    CHECK(stream->slot == WORKER_NONE && restored->slot < WORKERS_MAX);
    CHECK(!stream->used && !stream->lost);
    stream->has_epoch = true;
    stream->in_step = true; /* what comes first fills a gap */
    stream->used = true;
    stream->epoch = restored->epoch;
    stream->seq = restored->seq;
    stream->holes = restored->holes;
    stream->slot = restored->slot;
    learn_shape(writer, &writer->worker[id->worker], stream, restored->shape);
    writer->stats.epochs++;
    writer->changed = true;
    return true;
}

uint32_t
mirror_writer_slot(const struct mirror_writer *writer, uint32_t worker,
                   uint32_t generation, uint32_t rank)
{
    const struct mirror_writer_stream *stream =
        find(writer, worker, generation, rank);

    return stream != NULL ? stream->slot : WORKER_NONE;
}

uint32_t
mirror_writer_whole_slot(const struct mirror_writer *writer, uint32_t worker,
                         uint32_t generation, uint32_t rank)
{
    const struct mirror_writer_stream *stream =
        find(writer, worker, generation, rank);

    return stream != NULL && !stream->lost ? stream->slot : WORKER_NONE;
}

bool
mirror_writer_answer(struct mirror_writer *writer, uint32_t worker,
                     uint32_t generation, uint32_t rank,
                     const struct accuracy_answer *answer, uint64_t now_us)
{
    struct mirror_writer_stream *stream =
        find(writer, worker, generation, rank);

    writer->now_us = now_us;
    if (stream == NULL || !mirror_writer_stream_in_view(stream) ||
        misses_events(stream)) {
        return false;
    }
    uint32_t trust = mirror_writer_stream_trust(writer, stream);
    if (stream->state == KV_STREAM_PARTIAL &&
        accuracy_note_partial(&stream->accuracy, answer)) {
        writer->stats.explained++;
        writer->changed |= mirror_writer_stream_trust(writer, stream) != trust;
        return false;
    }
    bool recomputes = stream->accuracy.recomputes;
    bool reread = accuracy_note(&stream->accuracy, &writer->limits.accuracy,
                                answer, now_us);
    writer->changed |= mirror_writer_stream_trust(writer, stream) != trust ||
                       stream->accuracy.recomputes != recomputes;
    return reread;
}

bool
mirror_writer_next_reread(struct mirror_writer *writer,
                          struct mirror_writer_id *id, uint64_t now_us)
{
    writer->now_us = now_us;
    for (uint32_t i = 0; i < writer->streams_count; i++) {
        struct mirror_writer_stream *stream = writer->streams[i];
        if (stream->lost && stream->slot != WORKER_NONE &&
            now_us >= stream->reread_due_us) {
            CHECK(stream->has_epoch);
            stream->rereads++;
            stream->reread_due_us = now_us + reread_wait_us(writer, stream);
            writer->stats.rereads++;
            *id = stream->id;
            return true;
        }
    }
    return false;
}

bool
mirror_writer_work(struct mirror_writer *writer, uint32_t budget)
{
    bool opened = true;

    for (uint32_t i = 0; i < writer->streams_count && opened; i++) {
        struct mirror_writer_stream *stream = writer->streams[i];
        if (stream->has_epoch && stream->slot == WORKER_NONE) {
            opened = mirror_writer_stream_open(writer, stream);
        }
    }
    return !mirror_writer_view_renew(writer) ||
           mirror_work(writer->mirror, budget);
}
