/* What lanes see: built from the streams and published; the previous view is
 * retired. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "node/ingest/mirror_writer_internal.h"

struct mirror_view *
mirror_writer_view_new(void)
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
mirror_writer_view_retire(struct mirror_writer *writer)
{
    CHECK(writer->view != NULL);
    qsbr_retire(writer->qsbr, &writer->view->node, free_view);
    writer->view = NULL;
}

static bool
has_size(const struct mirror_writer *writer, uint32_t block_tokens)
{
    CHECK(block_tokens != 0 && writer->sizes_count <= MIRROR_GROUPS_MAX);
    for (uint32_t i = 0; i < writer->sizes_count; i++) {
        if (writer->sizes[i] == block_tokens) {
            return true;
        }
    }
    return false;
}

/* The sizes are in order, and the smallest ones stay. */
static void
add_size(struct mirror_writer *writer, uint32_t block_tokens)
{
    uint32_t *sizes = writer->sizes;
    uint32_t at = 0;

    while (at < writer->sizes_count && sizes[at] < block_tokens) {
        at++;
    }
    if (at == MIRROR_GROUPS_MAX || has_size(writer, block_tokens)) {
        return;
    }
    writer->sizes_count += writer->sizes_count < MIRROR_GROUPS_MAX;
    memmove(sizes + at + 1, sizes + at,
            (writer->sizes_count - 1 - at) * sizeof *sizes);
    sizes[at] = block_tokens;
}

/* The smallest block sizes have the groups: so all nodes leave out the same
 * streams, in whatever order they met them. */
static void
choose_sizes(struct mirror_writer *writer)
{
    writer->sizes_count = 0;
    for (uint32_t i = 0; i < writer->streams_count; i++) {
        if (mirror_writer_stream_fit(writer->streams[i])) {
            add_size(writer, writer->streams[i]->block_tokens);
        }
    }
    for (uint32_t i = 0; i < writer->streams_count; i++) {
        struct mirror_writer_stream *stream = writer->streams[i];
        stream->left_out = mirror_writer_stream_fit(stream) &&
                           !has_size(writer, stream->block_tokens);
    }
    CHECK(writer->sizes_count <= MIRROR_GROUPS_MAX);
}

static void
show(const struct mirror_writer *writer,
     const struct mirror_writer_stream *stream, struct mirror_view *view)
{
    uint32_t worker = stream->id.worker;
    uint32_t group = 0;

    CHECK(worker < WORKERS_MAX && stream->slot < WORKERS_MAX);
    CHECK(view->groups_count > 0);
    while (view->groups[group].block_tokens != stream->block_tokens) {
        group++;
        CHECK(group < view->groups_count);
    }
    CHECK(!worker_set_has(&view->groups[group].slots, stream->slot));
    worker_set_add(&view->groups[group].slots, stream->slot);
    worker_set_add(&view->workers, worker);
    if (shape_windows(stream->shape) > 0) {
        worker_set_add(&view->windowed, stream->slot);
        view->shape[stream->slot] = stream->shape;
    }
    if (stream->accuracy.recomputes) {
        worker_set_add(&view->recomputing, stream->slot);
    }
    view->owner[stream->slot] = (uint16_t)worker;
    view->rank[stream->slot] = (uint16_t)stream->id.rank;
    view->trust_permille[stream->slot] =
        (uint16_t)mirror_writer_stream_trust(writer, stream);
    view->generation[worker] = stream->id.generation;
    view->ranks[worker] = (uint16_t)writer->worker[worker].ranks;
}

/* All that lanes read; views are calloc()ed, so padding is equal too. */
static bool
says_the_same(const struct mirror_view *a, const struct mirror_view *b)
{
    size_t from = offsetof(struct mirror_view, groups_count);

    return memcmp((const char *)a + from, (const char *)b + from,
                  sizeof *a - from) == 0;
}

/* Records the slots in the published view, and closes those that left it. */
static void
note_shown(struct mirror_writer *writer)
{
    worker_set_clear(&writer->shown);
    for (uint32_t i = 0; i < writer->view->groups_count; i++) {
        WORKER_SET_EACH (slot, &writer->view->groups[i].slots) {
            CHECK(!worker_set_has(&writer->shown, slot)); /* in two groups */
            worker_set_add(&writer->shown, slot);
        }
    }
    WORKER_SET_EACH (slot, &writer->closing) {
        CHECK(!worker_set_has(&writer->shown, slot));
        mirror_close(writer->mirror, slot);
    }
    worker_set_clear(&writer->closing);
}

bool
mirror_writer_view_renew(struct mirror_writer *writer)
{
    CHECK(writer->view != NULL);
    if (!writer->changed) {
        return true;
    }
    struct mirror_view *view = mirror_writer_view_new();
    if (view == NULL) {
        return false;
    }
    choose_sizes(writer);
    view->version = writer->view->version + 1;
    view->groups_count = writer->sizes_count;
    for (uint32_t i = 0; i < writer->sizes_count; i++) {
        view->groups[i].block_tokens = writer->sizes[i];
    }
    for (uint32_t i = 0; i < writer->streams_count; i++) {
        if (mirror_writer_stream_in_view(writer->streams[i])) {
            show(writer, writer->streams[i], view);
        }
    }
    writer->changed = false;
    if (says_the_same(view, writer->view)) {
        CHECK(worker_set_empty(&writer->closing));
        free(view);
        return true;
    }
    publish_set(writer->publish, view);
    mirror_writer_view_retire(writer);
    writer->view = view;
    writer->stats.views++;
    note_shown(writer);
    return true;
}
