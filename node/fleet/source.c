/* What becomes of the workers that a source lists, and of those that it lists
 * no more. */
#include "node/fleet/source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/fleet/roster_apply.h"

int
source_init(struct source *source, uint32_t missed_max)
{
    CHECK(missed_max > 0);
    *source = (struct source){.missed_max = missed_max};
    source->marks = calloc(WORKERS_MAX, sizeof *source->marks);
    return source->marks != NULL ? 0 : -ENOMEM;
}

void
source_fini(struct source *source)
{
    free(source->marks);
    *source = (struct source){.marks_count = 0};
}

static struct source_mark *
find(const struct source *source, const char *id)
{
    for (uint32_t i = 0; i < source->marks_count; i++) {
        if (strcmp(source->marks[i].id, id) == 0) {
            return &source->marks[i];
        }
    }
    return NULL;
}

/* NULL: there is no room. */
static struct source_mark *
find_or_add(struct source *source, const char *id)
{
    struct source_mark *mark = find(source, id);

    CHECK(strlen(id) < CONFIG_LABEL_MAX);
    if (mark == NULL && source->marks_count < WORKERS_MAX) {
        mark = &source->marks[source->marks_count++];
        *mark = (struct source_mark){.listed = false};
        (void)snprintf(mark->id, sizeof mark->id, "%s", id);
    }
    return mark;
}

static bool
is_as_before(const struct config_worker *before, uint32_t count,
             const struct config_worker *now)
{
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(before[i].id, now->id) == 0) {
            return roster_step(&before[i], false, now, false) == ROSTER_KEEP;
        }
    }
    return false;
}

void
source_listed(struct source *source, const struct config_worker *before,
              uint32_t before_count, const struct config_worker *now,
              uint32_t now_count, bool whole)
{
    CHECK(before_count <= WORKERS_MAX && now_count <= WORKERS_MAX);
    for (uint32_t i = 0; i < source->marks_count; i++) {
        source->marks[i].listed = false;
    }
    for (uint32_t i = 0; i < now_count; i++) {
        struct source_mark *mark = find_or_add(source, now[i].id);
        if (mark != NULL) {
            mark->fresh =
                mark->fresh || !is_as_before(before, before_count, &now[i]);
            mark->listed = true;
            mark->seen = true;
        }
    }
    for (uint32_t i = 0; i < source->marks_count; i++) {
        struct source_mark *mark = &source->marks[i];
        if (!mark->listed && whole && mark->missed < source->missed_max) {
            mark->missed++;
        }
    }
}

static enum source_step
step_listed(struct source_mark *mark, const struct source_there *there)
{
    bool fresh = mark->fresh;
    bool back = mark->missed != 0;

    mark->missed = 0;
    mark->fresh = false;
    mark->drained = false;
    mark->waited = there->left ? mark->waited + 1 : 0;
    if (!there->present) {
        return SOURCE_PUT;
    }
    if (!there->ours) {
        return SOURCE_KEEP;
    }
    if (!there->same && fresh) {
        return there->draining && !there->left ? SOURCE_RENEW : SOURCE_REPLACE;
    }
    bool ends = back || there->alone || mark->waited >= SOURCE_PATIENCE;
    return there->left && ends ? SOURCE_UNDRAIN : SOURCE_KEEP;
}

enum source_step
source_step(struct source *source, const char *id,
            const struct source_there *there)
{
    struct source_mark *mark = find_or_add(source, id);

    CHECK(there->present || !(there->ours || there->draining));
    if (mark == NULL) {
        return SOURCE_KEEP;
    }
    if (mark->listed) {
        return step_listed(mark, there);
    }
    if (mark->drained && !there->draining) { /* others know better */
        mark->drained = false;
        mark->seen = false;
    }
    bool judges = mark->seen || there->alone || there->unwell;
    if (!there->present || !there->ours || !judges ||
        mark->missed < source->missed_max) {
        return SOURCE_KEEP;
    }
    if (!there->draining) {
        mark->drained = true;
        return SOURCE_DRAIN;
    }
    if (there->drained) {
        mark->seen = false; /* whoever still has it listed may put it back */
        return SOURCE_REMOVE;
    }
    return SOURCE_KEEP;
}

void
source_sweep(struct source *source,
             bool (*keep)(const void *context, const char *id),
             const void *context)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < source->marks_count; i++) {
        const struct source_mark *mark = &source->marks[i];
        if (mark->listed || keep(context, mark->id)) {
            source->marks[kept++] = *mark;
        }
    }
    source->marks_count = kept;
}

static void
take_host(struct url *url, const char *host)
{
    if (url->host[0] != '\0') {
        (void)snprintf(url->host, sizeof url->host, "%s", host);
    }
}

bool
source_worker(const struct config_worker *source, const char *host,
              uint16_t port, struct config_worker *worker)
{
    char authority[URL_TEXT_MAX];

    CHECK(source->from[0] != '\0' && port != 0);
    *worker = *source;
    worker->url = (struct url){.port = port};
    (void)snprintf(worker->url.host, sizeof worker->url.host, "%s", host);
    take_host(&worker->events, host);
    take_host(&worker->replay, host);
    size_t len = strlen(url_authority(&worker->url, authority));
    if (len >= sizeof worker->id) {
        return false;
    }
    memcpy(worker->id, authority, len + 1);
    return true;
}
