/* What lanes are told: built from the streams, published, the one before
 * retired. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "node/follow/feed_stream_internal.h"

struct mirror_view *
feed_view_new(void)
{
    struct mirror_view *view = calloc(1, sizeof *view);

    if (view != NULL) {
        view->version = 1;
    }
    return view;
}

static void
free_view(struct qsbr_node *node)
{
    free(node); /* the first member of what is retired here */
}

_Static_assert(offsetof(struct mirror_view, node) == 0, "free_view()");

void
feed_view_retire(struct feed *feed)
{
    qsbr_retire(feed->qsbr, &feed->view->node, free_view);
    feed->view = NULL;
}

static bool
has_size(const struct feed *feed, uint32_t block_tokens)
{
    for (uint32_t i = 0; i < feed->sizes_count; i++) {
        if (feed->sizes[i] == block_tokens) {
            return true;
        }
    }
    return false;
}

static bool
size_is_used(const struct feed *feed, uint32_t block_tokens)
{
    for (uint32_t i = 0; i < feed->streams_count; i++) {
        if (feed_stream_fit(feed->streams[i]) &&
            feed->streams[i]->block_tokens == block_tokens) {
            return true;
        }
    }
    return false;
}

/* A block size that has a group keeps it while somebody uses it; a further
 * one gets a group that is free, in the order of the streams. */
static void
choose_sizes(struct feed *feed)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < feed->sizes_count; i++) {
        if (size_is_used(feed, feed->sizes[i])) {
            feed->sizes[kept++] = feed->sizes[i];
        }
    }
    feed->sizes_count = kept;
    for (uint32_t i = 0; i < feed->streams_count; i++) {
        struct feed_stream *stream = feed->streams[i];
        bool fit = feed_stream_fit(stream);
        if (fit && !has_size(feed, stream->block_tokens) &&
            feed->sizes_count < MIRROR_GROUPS_MAX) {
            feed->sizes[feed->sizes_count++] = stream->block_tokens;
        }
        stream->left_out = fit && !has_size(feed, stream->block_tokens);
    }
}

static void
show(const struct feed *feed, const struct feed_stream *stream,
     struct mirror_view *view)
{
    uint32_t worker = stream->id.worker;
    uint32_t group = 0;

    while (view->groups[group].block_tokens != stream->block_tokens) {
        group++;
        CHECK(group < view->groups_count);
    }
    worker_set_add(&view->groups[group].slots, stream->slot);
    worker_set_add(&view->workers, worker);
    view->owner[stream->slot] = (uint16_t)worker;
    view->rank[stream->slot] = (uint16_t)stream->id.rank;
    view->trust_permille[stream->slot] =
        (uint16_t)feed_stream_trust(feed, stream);
    view->generation[worker] = stream->id.generation;
    view->ranks[worker] = (uint16_t)feed->worker[worker].ranks;
}

/* All that lanes read; views are calloc()ed, so padding is equal too. */
static bool
says_the_same(const struct mirror_view *a, const struct mirror_view *b)
{
    size_t from = offsetof(struct mirror_view, groups_count);

    return memcmp((const char *)a + from, (const char *)b + from,
                  sizeof *a - from) == 0;
}

/* What the published view has, and closes what it has no longer. */
static void
note_shown(struct feed *feed)
{
    worker_set_clear(&feed->shown);
    for (uint32_t i = 0; i < feed->view->groups_count; i++) {
        WORKER_SET_EACH (slot, &feed->view->groups[i].slots) {
            worker_set_add(&feed->shown, slot);
        }
    }
    WORKER_SET_EACH (slot, &feed->closing) {
        CHECK(!worker_set_has(&feed->shown, slot));
        mirror_close(feed->mirror, slot);
    }
    worker_set_clear(&feed->closing);
}

bool
feed_view_renew(struct feed *feed)
{
    if (!feed->changed) {
        return true;
    }
    struct mirror_view *view = feed_view_new();
    if (view == NULL) {
        return false;
    }
    choose_sizes(feed);
    view->version = feed->view->version + 1;
    view->groups_count = feed->sizes_count;
    for (uint32_t i = 0; i < feed->sizes_count; i++) {
        view->groups[i].block_tokens = feed->sizes[i];
    }
    for (uint32_t i = 0; i < feed->streams_count; i++) {
        if (feed_stream_in_view(feed->streams[i])) {
            show(feed, feed->streams[i], view);
        }
    }
    feed->changed = false;
    if (says_the_same(view, feed->view)) {
        CHECK(worker_set_empty(&feed->closing));
        free(view);
        return true;
    }
    publish_set(feed->publish, view);
    feed_view_retire(feed);
    feed->view = view;
    feed->stats.views++;
    note_shown(feed);
    return true;
}
