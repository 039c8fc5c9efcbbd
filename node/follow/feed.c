/* The table of streams: who there is, how each one stands. */
#include "node/follow/feed_internal.h"

#include <errno.h>
#include <stdlib.h>

#include "node/follow/feed_stream_internal.h"

int
feed_new(struct feed **out, const struct feed_limits *limits,
         struct mirror *mirror, struct qsbr *qsbr, struct publish *view)
{
    struct feed *feed = calloc(1, sizeof *feed);
    struct mirror_view *empty = feed_view_new();

    CHECK(limits->stale_permille <= 1000 &&
          limits->accuracy.discount_permille <= 1000);
    if (feed == NULL || empty == NULL) {
        free(feed);
        free(empty);
        return -ENOMEM;
    }
    feed->limits = *limits;
    feed->mirror = mirror;
    feed->qsbr = qsbr;
    feed->publish = view;
    feed->view = empty;
    publish_set(view, empty);
    *out = feed;
    return 0;
}

static void
forget_worker(struct feed *feed, uint32_t worker)
{
    struct feed_worker *w = &feed->worker[worker];

    for (uint32_t rank = 0; rank < w->ranks; rank++) {
        feed_stream_close(feed, &w->stream[rank]);
    }
    free(w->stream);
    *w = (struct feed_worker){.ranks = 0};
}

void
feed_free(struct feed *feed)
{
    if (feed == NULL) {
        return;
    }
    publish_set(feed->publish, NULL);
    feed_view_retire(feed);
    worker_set_clear(&feed->shown);
    for (uint32_t worker = 0; worker < WORKERS_MAX; worker++) {
        forget_worker(feed, worker);
    }
    WORKER_SET_EACH (slot, &feed->closing) {
        mirror_close(feed->mirror, slot);
    }
    free(feed->streams);
    free(feed);
}

/* Puts the streams in order; there is room. */
static void
list_streams(struct feed *feed)
{
    uint32_t count = 0;

    for (uint32_t worker = 0; worker < WORKERS_MAX; worker++) {
        const struct feed_worker *w = &feed->worker[worker];
        for (uint32_t rank = 0; rank < w->ranks; rank++) {
            feed->streams[count++] = &w->stream[rank];
        }
    }
    feed->streams_count = count;
    feed->changed = true;
}

int
feed_worker_add(struct feed *feed, uint32_t worker, uint32_t generation,
                uint32_t ranks)
{
    CHECK(worker < WORKERS_MAX && ranks >= 1 && ranks <= UINT16_MAX);
    feed_worker_remove(feed, worker);
    struct feed_stream *stream = calloc(ranks, sizeof *stream);
    size_t count = (size_t)feed->streams_count + ranks;
    struct feed_stream **streams =
        realloc(feed->streams, count * sizeof(struct feed_stream *));

    feed->streams = streams != NULL ? streams : feed->streams;
    if (stream == NULL || streams == NULL) {
        free(stream);
        return -ENOMEM;
    }
    for (uint32_t rank = 0; rank < ranks; rank++) {
        stream[rank].id = (struct feed_id){worker, generation, rank};
        stream[rank].state = KV_STREAM_CONNECTING;
        stream[rank].slot = WORKER_NONE;
    }
    feed->worker[worker] = (struct feed_worker){
        .generation = generation, .ranks = ranks, .stream = stream};
    list_streams(feed);
    return 0;
}

void
feed_worker_remove(struct feed *feed, uint32_t worker)
{
    CHECK(worker < WORKERS_MAX);
    if (feed->worker[worker].ranks > 0) {
        forget_worker(feed, worker);
        list_streams(feed);
    }
}

bool
feed_status(const struct feed *feed, uint32_t at, struct feed_status *status)
{
    if (at >= feed->streams_count) {
        return false;
    }
    const struct feed_stream *stream = feed->streams[at];
    bool open = stream->slot != WORKER_NONE;
    *status = (struct feed_status){
        .worker = stream->id.worker,
        .generation = stream->id.generation,
        .rank = stream->id.rank,
        .state = stream->state,
        .epoch = stream->epoch,
        .seq = stream->seq,
        .blocks = open ? mirror_slot_blocks(feed->mirror, stream->slot) : 0,
        .digest = open ? mirror_slot_digest(feed->mirror, stream->slot) : 0,
        .holes = stream->holes,
        .block_tokens = stream->block_tokens,
        .slot = stream->slot,
        .trust_permille = feed_stream_trust(feed, stream),
        .lost = stream->lost,
        .contested = stream->contested,
        .left_out = stream->left_out,
        .in_view = feed_stream_in_view(stream),
        .accuracy = stream->accuracy,
    };
    return true;
}

void
feed_stats(const struct feed *feed, struct feed_stats *stats)
{
    *stats = feed->stats;
    stats->streams = feed->streams_count;
    for (uint32_t i = 0; i < feed->streams_count; i++) {
        const struct feed_stream *stream = feed->streams[i];
        stats->in_view += feed_stream_in_view(stream);
        stats->without_slot += stream->has_epoch && stream->slot == WORKER_NONE;
        stats->lost += stream->lost;
        stats->contested += stream->contested;
        stats->left_out += stream->left_out;
    }
}

static const char *
check_stream(const struct feed_stream *stream, const struct worker_set *closing,
             struct worker_set *slots)
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
check_view(const struct feed *feed)
{
    const struct mirror_view *view = feed->view;
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
    for (uint32_t i = 0; i < feed->streams_count && !feed->changed; i++) {
        const struct feed_stream *stream = feed->streams[i];
        bool shown =
            stream->slot != WORKER_NONE && worker_set_has(&seen, stream->slot);
        if (stream->left_out && !feed_stream_fit(stream)) {
            return "a stream is left out that would not be in";
        }
        if (feed_stream_in_view(stream) != shown) {
            return "the view and the streams differ";
        }
        in_view += shown;
    }
    return feed->changed || in_view == worker_set_count(&seen)
               ? NULL
               : "the view has slots of no stream";
}

bool
feed_check(const struct feed *feed, const char **reason)
{
    struct worker_set slots;

    worker_set_clear(&slots);
    *reason = NULL;
    for (uint32_t i = 0; i < feed->streams_count && *reason == NULL; i++) {
        const struct feed_stream *stream = feed->streams[i];
        const struct feed_worker *w = &feed->worker[stream->id.worker];
        *reason = stream == &w->stream[stream->id.rank] &&
                          stream->id.generation == w->generation
                      ? check_stream(stream, &feed->closing, &slots)
                      : "a stream is not where its name says";
    }
    *reason = *reason == NULL ? check_view(feed) : *reason;
    return *reason == NULL;
}
