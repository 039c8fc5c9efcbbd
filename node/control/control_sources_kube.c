/* Workers that EndpointSlices of Kubernetes name: lists, and a watch that says
 * when to list again. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/control/control_sources_internal.h"
#include "node/control/kube_api.h"

#define LIST_MS        10000U
#define LIST_BYTES_MAX ((size_t)8 << 20)
#define WATCH_S        120U /* then the server ends it, and it is resumed */
#define WATCH_MS       ((WATCH_S + 15U) * 1000U)
#define LINE_BYTES_MAX ((size_t)1 << 20)
#define TARGET_MAX     1024U
#define SETTLE_US      UINT64_C(200000) /* after a change: of several */

/* Asks for the source's slices; more: of the query. NULL, or why that cannot
 * be. */
static const char *
ask(struct control_source *source, const char *more,
    struct httpc_request *request, struct httpc **call)
{
    const struct config_kube *kube = &source->kube->names;
    char rest[TARGET_MAX];
    const struct kube_api_place place = {.group = "discovery.k8s.io/v1",
                                         .space = slice_of(kube->space),
                                         .rest = rest};

    (void)snprintf(rest, sizeof rest, "endpointslices?labelSelector=%s%s",
                   kube->labels, more);
    request->method = "GET";
    request->context = source;
    return kube_api_start(&source->control->node->config->kubernetes,
                          &source->control->loop, &place, request, call);
}

/* The watch */

/* It is over, and what it knew is not to be trusted: the next look lists. None
 * comes sooner than it is due, so a server that ends each watch is asked no more
 * often than one without. */
static void ON_CONTROL
break_watch(struct control_source *source)
{
    struct source_kube *kube = source->kube;

    if (kube->watch != NULL) {
        httpc_cancel(kube->watch);
        kube->watch = NULL;
    }
    kube->version[0] = '\0';
    kube->stale = true;
}

static void ON_CONTROL
take_line(struct control_source *source, struct slice line)
{
    struct source_kube *kube = source->kube;

    if (slice_trim(line).len == 0) {
        return;
    }
    switch (kube_event_read(line, kube->version)) {
    case KUBE_CHANGED:
        kube->stale = true;
        if (kube->call == NULL) { /* else at its end */
            source_soon(source, SETTLE_US);
        }
        break;
    case KUBE_BOOKMARK:
        break;
    case KUBE_GONE:
        break_watch(source);
        break;
    }
}

static void
on_watched(void *context, struct slice piece)
{
    struct control_source *source = context;
    struct source_kube *kube = source->kube;

    role_is_control();
    while (piece.len != 0 && kube->watch != NULL) {
        const char *end = memchr(piece.ptr, '\n', piece.len);
        size_t len = end != NULL ? (size_t)(end - piece.ptr) : piece.len;
        buf_add(&kube->line, piece.ptr, len);
        if (kube->line.failed) {
            buf_clear(&kube->line);
            break_watch(source);
            return;
        }
        len += end != NULL;
        slice_skip(&piece, len);
        if (end != NULL) {
            take_line(source, buf_slice(&kube->line));
            buf_clear(&kube->line);
        }
    }
}

static void
on_watch_end(void *context, const struct httpc_answer *answer)
{
    struct control_source *source = context;
    struct source_kube *kube = source->kube;

    role_is_control();
    kube->watch = NULL;
    buf_clear(&kube->line);
    if (answer->outcome != HTTPC_OK || answer->head->status != 200) {
        kube->version[0] =
            '\0'; /* the next look lists; else it goes on there */
    }
}

/* From where the list or the watch before ended. */
static void ON_CONTROL
watch(struct control_source *source)
{
    struct source_kube *kube = source->kube;
    char more[KUBE_VERSION_MAX + 96];
    struct httpc_request request = {
        .timeout_ms = WATCH_MS,
        .connect_ms = LIST_MS,
        .answer_bytes_max = (size_t)64 << 10,
        .done = on_watch_end,
        .piece = on_watched,
    };

    CHECK(kube->watch == NULL);
    if (kube->version[0] == '\0') {
        return;
    }
    (void)snprintf(more, sizeof more,
                   "&watch=1&allowWatchBookmarks=true&timeoutSeconds=%u"
                   "&resourceVersion=%s",
                   WATCH_S, kube->version);
    if (ask(source, more, &request, &kube->watch) != NULL) {
        kube->watch = NULL; /* the next look lists */
        kube->version[0] = '\0';
    }
}

/* Lists */

static const char *
refusal(const struct httpc_answer *answer)
{
    if (answer->outcome != HTTPC_OK) {
        return answer->why[0] != '\0' ? answer->why
                                      : httpc_outcome_name(answer->outcome);
    }
    switch (answer->head->status) {
    case 200:
        return NULL;
    case 401:
        return "the API server does not know the token of kubernetes.dir";
    case 403:
        return "the service account may not list endpointslices";
    default:
        return "the API server answered with an error";
    }
}

/* A round of its addresses. NULL, or why there are none. */
static const char *
take_list(struct control_source *source, struct slice body)
{
    struct source_kube *kube = source->kube;
    struct kube_list *list = malloc(sizeof *list);

    if (list == NULL) {
        return "out of memory";
    }
    bool good = kube_slices_read(body, slice_of(kube->names.port), list);
    const char *why = !good ? "the API server's answer is no list of slices"
                      : list->slices == 0 ? "no slice has these labels"
                      : list->count == 0  ? "no endpoint is ready, or none has "
                                            "that port"
                                          : NULL;
    source->round.found_count = 0;
    source->round.cut = good && list->cut;
    for (uint32_t i = 0; why == NULL && i < list->count; i++) {
        source_found(&source->round, &list->found[i].ip, list->found[i].port);
    }
    if (why == NULL && source->round.found_count == 0) {
        why = "no endpoint has an address that can be used";
    }
    if (good) {
        memcpy(kube->version, list->version, sizeof kube->version);
    }
    free(list);
    return why;
}

static void
on_list(void *context, const struct httpc_answer *answer)
{
    struct control_source *source = context;
    struct source_kube *kube = source->kube;
    const char *why = refusal(answer);
    bool told = why == NULL;

    role_is_control();
    kube->call = NULL;
    if (told) {
        why = take_list(source, answer->body);
        if (kube->watch == NULL) {
            watch(source);
        }
    }
    if (why != NULL) {
        source_end_badly(source, told ? SOURCE_ABSENT : SOURCE_FAILED, why);
    } else {
        source_end_round(source);
    }
    source_soon(source, kube->stale ? SETTLE_US : UINT64_MAX);
}

void
source_kube_look(struct control_source *source)
{
    struct source_kube *kube = source->kube;
    struct httpc_request request = {
        .timeout_ms = LIST_MS,
        .answer_bytes_max = LIST_BYTES_MAX,
        .done = on_list,
    };

    CHECK(kube->call == NULL);
    if (kube->watch == NULL && !kube->stale) {
        watch(source); /* it ended in time: it goes on */
    }
    if (kube->watch != NULL && !kube->stale && source->outcome == SOURCE_GOOD) {
        source_end_unchanged(source);
        return;
    }
    kube->stale = false;
    const char *why = ask(source, "", &request, &kube->call);
    if (why != NULL) {
        kube->call = NULL;
        source_end_badly(source, SOURCE_FAILED, why);
    }
}

void
source_kube_renew(struct control_source *source)
{
    if (source->kube != NULL) {
        source->kube->stale = true;
    }
}

bool
source_kube_is_looking(const struct control_source *source)
{
    return source->kube != NULL && source->kube->call != NULL;
}

int
source_kube_open(struct control_source *source)
{
    struct source_kube *kube = calloc(1, sizeof *kube);

    if (kube == NULL) {
        return -ENOMEM;
    }
    bool good = config_from_kube(&source->like, &kube->names);
    CHECK(good);
    buf_init(&kube->line, LINE_BYTES_MAX);
    source->kube = kube;
    return 0;
}

void
source_kube_close(struct control_source *source)
{
    struct source_kube *kube = source->kube;

    if (kube == NULL) {
        return;
    }
    if (kube->call != NULL) {
        httpc_cancel(kube->call);
    }
    if (kube->watch != NULL) {
        httpc_cancel(kube->watch);
    }
    buf_fini(&kube->line);
    free(kube);
    source->kube = NULL;
}
