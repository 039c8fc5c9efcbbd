/* The table of streams: which exist, and the state of each. */
#include "node/ingest/mirror_writer.h"

#include <errno.h>
#include <stdlib.h>

#include "node/ingest/mirror_writer_internal.h"

int
mirror_writer_new(struct mirror_writer **out,
                  const struct mirror_writer_limits *limits,
                  struct mirror *mirror, struct qsbr *qsbr,
                  struct publish *view)
{
    struct mirror_writer *writer = calloc(1, sizeof *writer);
    struct mirror_view *empty = mirror_writer_view_new();

    CHECK(limits->stale_permille <= 1000 &&
          limits->accuracy.discount_permille <= 1000);
    CHECK(mirror != NULL && qsbr != NULL && view != NULL);
    if (writer == NULL || empty == NULL) {
        free(writer);
        free(empty);
        return -ENOMEM;
    }
    writer->limits = *limits;
    writer->mirror = mirror;
    writer->qsbr = qsbr;
    writer->publish = view;
    writer->view = empty;
    publish_set(view, empty);
    *out = writer;
    return 0;
}

static void
forget_worker(struct mirror_writer *writer, uint32_t worker)
{
    struct mirror_writer_worker *w = &writer->worker[worker];

    CHECK(worker < WORKERS_MAX);
    CHECK((w->ranks == 0) == (w->stream == NULL));
    for (uint32_t rank = 0; rank < w->ranks; rank++) {
        mirror_writer_stream_close(writer, &w->stream[rank]);
    }
    free(w->stream);
    *w = (struct mirror_writer_worker){.ranks = 0};
}

void
mirror_writer_free(struct mirror_writer *writer)
{
    if (writer == NULL) {
        return;
    }
    publish_set(writer->publish, NULL);
    mirror_writer_view_retire(writer);
    worker_set_clear(&writer->shown);
    for (uint32_t worker = 0; worker < WORKERS_MAX; worker++) {
        forget_worker(writer, worker);
    }
    WORKER_SET_EACH (slot, &writer->closing) {
        mirror_close(writer->mirror, slot);
    }
    free(writer->streams);
    free(writer);
}

/* Puts the streams in order; there is room. */
static void
list_streams(struct mirror_writer *writer)
{
    uint32_t count = 0;

    for (uint32_t worker = 0; worker < WORKERS_MAX; worker++) {
        const struct mirror_writer_worker *w = &writer->worker[worker];
        for (uint32_t rank = 0; rank < w->ranks; rank++) {
            CHECK(w->stream[rank].id.worker == worker &&
                  w->stream[rank].id.rank == rank);
            writer->streams[count++] = &w->stream[rank];
        }
    }
    writer->streams_count = count;
    writer->changed = true;
}

int
mirror_writer_worker_add(struct mirror_writer *writer, uint32_t worker,
                         uint32_t generation, uint32_t ranks)
{
    CHECK(worker < WORKERS_MAX && ranks >= 1 && ranks <= UINT16_MAX);
    mirror_writer_worker_remove(writer, worker);
    CHECK(writer->worker[worker].stream == NULL);
    struct mirror_writer_stream *stream = calloc(ranks, sizeof *stream);
    size_t count = (size_t)writer->streams_count + ranks;
    struct mirror_writer_stream **streams =
        realloc(writer->streams, count * sizeof(struct mirror_writer_stream *));

    writer->streams = streams != NULL ? streams : writer->streams;
    if (stream == NULL || streams == NULL) {
        free(stream);
        return -ENOMEM;
    }
    for (uint32_t rank = 0; rank < ranks; rank++) {
        stream[rank].id = (struct mirror_writer_id){worker, generation, rank};
        stream[rank].state = KV_STREAM_CONNECTING;
        stream[rank].slot = WORKER_NONE;
    }
    writer->worker[worker] = (struct mirror_writer_worker){
        .generation = generation, .ranks = ranks, .stream = stream};
    list_streams(writer);
    return 0;
}

void
mirror_writer_worker_remove(struct mirror_writer *writer, uint32_t worker)
{
    CHECK(worker < WORKERS_MAX);
    if (writer->worker[worker].ranks > 0) {
        forget_worker(writer, worker);
        list_streams(writer);
    }
}

bool
mirror_writer_status(const struct mirror_writer *writer, uint32_t at,
                     struct mirror_writer_status *status)
{
    if (at >= writer->streams_count) {
        return false;
    }
    const struct mirror_writer_stream *stream = writer->streams[at];
    bool open = stream->slot != WORKER_NONE;
    CHECK(stream->id.worker < WORKERS_MAX);
    CHECK(!open || stream->slot < WORKERS_MAX);
    *status = (struct mirror_writer_status){
        .worker = stream->id.worker,
        .generation = stream->id.generation,
        .rank = stream->id.rank,
        .state = stream->state,
        .epoch = stream->epoch,
        .seq = stream->seq,
        .blocks = open ? mirror_slot_blocks(writer->mirror, stream->slot) : 0,
        .digest = open ? mirror_slot_digest(writer->mirror, stream->slot) : 0,
        .holes = stream->holes,
        .block_tokens = stream->block_tokens,
        .shape = stream->shape,
        .slot = stream->slot,
        .trust_permille = mirror_writer_stream_trust(writer, stream),
        .lost = stream->lost,
        .contested = stream->contested,
        .left_out = stream->left_out,
        .unruled = !shape_is_ruled(stream->shape),
        .in_view = mirror_writer_stream_in_view(stream),
        .recomputes =
            open && worker_set_has(&writer->view->recomputing, stream->slot),
        .accuracy = stream->accuracy,
    };
    return true;
}

void
mirror_writer_stats(const struct mirror_writer *writer,
                    struct mirror_writer_stats *stats)
{
    *stats = writer->stats;
    stats->streams = writer->streams_count;
    for (uint32_t i = 0; i < writer->streams_count; i++) {
        const struct mirror_writer_stream *stream = writer->streams[i];
        stats->in_view += mirror_writer_stream_in_view(stream);
        stats->without_slot += stream->has_epoch && stream->slot == WORKER_NONE;
        stats->lost += stream->lost;
        stats->contested += stream->contested;
        stats->left_out += stream->left_out;
    }
    CHECK(stats->in_view + stats->without_slot <= stats->streams);
}

static const char *
check_stream(const struct mirror_writer_stream *stream,
             const struct worker_set *closing, struct worker_set *slots)
{
    if (stream->slot != WORKER_NONE) {
        if (stream->slot >= WORKERS_MAX ||
            worker_set_has(slots, stream->slot)) {
            return "a slot of the mirror has two streams";
        }
        worker_set_add(slots, stream->slot);
        if (!stream->has_epoch) {
            return "a stream has a slot and no epoch";
        }
        if (worker_set_has(closing, stream->slot)) {
            return "a stream has a slot that is given back";
        }
    }
    if (stream->used && stream->slot == WORKER_NONE) {
        return "something was applied to no slot";
    }
    if (stream->deaf && !stream->lost) {
        return "a stream takes no records and lost none";
    }
    return NULL;
}

/* The view against itself, and against the streams unless it is outdated. */
static const char *
check_view(const struct mirror_writer *writer)
{
    const struct mirror_view *view = writer->view;
    struct worker_set seen;
    uint32_t in_view = 0;

    worker_set_clear(&seen);
    for (uint32_t i = 0; i < view->groups_count; i++) {
        WORKER_SET_EACH (slot, &view->groups[i].slots) {
            if (worker_set_has(&seen, slot)) {
                return "a slot is in two groups";
            }
            worker_set_add(&seen, slot);
            if (!worker_set_has(&view->workers, view->owner[slot])) {
                return "a slot's owner is not in the view";
            }
        }
    }
    for (uint32_t i = 0; i < writer->streams_count && !writer->changed; i++) {
        const struct mirror_writer_stream *stream = writer->streams[i];
        bool shown =
            stream->slot != WORKER_NONE && worker_set_has(&seen, stream->slot);
        if (stream->left_out && !mirror_writer_stream_fit(stream)) {
            return "a stream is left out that would not be in";
        }
        if (mirror_writer_stream_in_view(stream) != shown) {
            return "the view and the streams differ";
        }
        in_view += shown;
    }
    return writer->changed || in_view == worker_set_count(&seen)
               ? NULL
               : "the view has slots of no stream";
}

bool
mirror_writer_check(const struct mirror_writer *writer, const char **reason)
{
    struct worker_set slots;

    worker_set_clear(&slots);
    *reason = NULL;
    for (uint32_t i = 0; i < writer->streams_count && *reason == NULL; i++) {
        const struct mirror_writer_stream *stream = writer->streams[i];
        const struct mirror_writer_worker *w =
            &writer->worker[stream->id.worker];
        *reason = stream == &w->stream[stream->id.rank] &&
                          stream->id.generation == w->generation
                      ? check_stream(stream, &writer->closing, &slots)
                      : "a stream is not where its name says";
    }
    *reason = *reason == NULL ? check_view(writer) : *reason;
    return *reason == NULL;
}
