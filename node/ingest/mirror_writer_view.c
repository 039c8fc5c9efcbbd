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
has_grain(const struct mirror_writer *writer, uint32_t grain)
{
    CHECK(grain != 0 && writer->grains_count <= MIRROR_GROUPS_MAX);
    for (uint32_t i = 0; i < writer->grains_count; i++) {
        if (writer->grains[i] == grain) {
            return true;
        }
    }
    return false;
}

/* The grains are in order, and the smallest ones stay. */
static void
add_grain(struct mirror_writer *writer, uint32_t grain)
{
    uint32_t *grains = writer->grains;
    uint32_t at = 0;

    while (at < writer->grains_count && grains[at] < grain) {
        at++;
    }
    if (at == MIRROR_GROUPS_MAX || has_grain(writer, grain)) {
        return;
    }
    writer->grains_count += writer->grains_count < MIRROR_GROUPS_MAX;
    memmove(grains + at + 1, grains + at,
            (writer->grains_count - 1 - at) * sizeof *grains);
    grains[at] = grain;
}

/* The smallest block sizes have the groups, those without a look ahead first:
 * so all nodes leave out the same streams, in whatever order they met them. */
static void
choose_grains(struct mirror_writer *writer)
{
    writer->grains_count = 0;
    for (uint32_t i = 0; i < writer->streams_count; i++) {
        if (mirror_writer_stream_fit(writer->streams[i])) {
            add_grain(writer, shape_grain(writer->streams[i]->shape));
        }
    }
    for (uint32_t i = 0; i < writer->streams_count; i++) {
        struct mirror_writer_stream *stream = writer->streams[i];
        stream->left_out = mirror_writer_stream_fit(stream) &&
                           !has_grain(writer, shape_grain(stream->shape));
    }
    CHECK(writer->grains_count <= MIRROR_GROUPS_MAX);
}

static void
show(const struct mirror_writer *writer,
     const struct mirror_writer_stream *stream, struct mirror_view *view)
{
    uint32_t worker = stream->id.worker;
    uint32_t group = 0;

    CHECK(worker < WORKERS_MAX && stream->slot < WORKERS_MAX);
    CHECK(view->groups_count > 0);
    while (view->groups[group].grain != shape_grain(stream->shape)) {
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
    choose_grains(writer);
    view->version = writer->view->version + 1;
    view->groups_count = writer->grains_count;
    for (uint32_t i = 0; i < writer->grains_count; i++) {
        view->groups[i].grain = writer->grains[i];
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
