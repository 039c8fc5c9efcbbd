/*
 * The request log (log.requests): which requests are told of, and what of
 * them; control writes the lines.
 */
#include <string.h>

#include "node/edge/answer_internal.h"
#include "node/edge/logging_internal.h"

static const char *const ends[] = {
    [DISPATCH_DONE] = "done",
    [DISPATCH_REFUSED] = "refused",
    [DISPATCH_CANCELLED] = "cancelled",
    [DISPATCH_SEVERED] = "severed",
};

/* Of N one; and each that failed. */
static bool
wants(struct lane *lane, bool failed)
{
    uint32_t every = lane->log_requests;

    return failed ||
           (every != CONFIG_LOG_ERRORS && lane->logged_count++ % every == 0);
}

/* Without its query, which may hold anything. */
static void
set_path(struct fact_origin *origin, struct slice path)
{
    const char *query = path.len != 0 ? memchr(path.ptr, '?', path.len) : NULL;
    size_t len = query != NULL ? (size_t)(query - path.ptr) : path.len;

    len = len < sizeof origin->path ? len : sizeof origin->path - 1;
    if (len != 0) {
        memcpy(origin->path, path.ptr, len);
    }
}

static void
set_method(struct fact_origin *origin, struct slice method)
{
    size_t room = sizeof origin->method - 1;

    if (method.len != 0) {
        memcpy(origin->method, method.ptr,
               method.len < room ? method.len : room);
    }
}

static void
set_client(struct fact_origin *origin, const struct client *client)
{
    origin->client_size = client->peer_size;
    memcpy(origin->client, client->peer, sizeof origin->client);
}

/* As it goes to workers; before there is such a head, as it came: it may have
 * waited, and others have used the lane's head since. */
static void ON_LANE
set_request(struct fact_origin *origin, const struct exchange *x)
{
    const struct http_head *head = &x->client->lane->head;

    if (x->fields_end == 0) {
        client_read_head(x->client);
        set_method(origin, head->method);
        set_path(origin, head->path);
        return;
    }
    struct slice line = {x->head.ptr, x->line_end};
    set_method(origin, slice_take(&line, ' '));
    set_path(origin, slice_take(&line, ' '));
}

bool
logging_begin(struct fact_request *fact, struct exchange *x,
              const struct dispatch_report *report)
{
    const struct dispatch *d = &x->dispatch;
    struct lane *lane = x->client->lane;
    bool hit = x->caching.verdict == CACHING_HIT || x->counting.done;
    bool failed = !hit && (report->end != DISPATCH_DONE || d->status >= 400);
    bool logged = lane->log_requests != CONFIG_LOG_OFF && wants(lane, failed);

    if (!logged && !x->sampled) {
        return false;
    }
    memset(fact, 0, sizeof *fact);
    fact->kind = FACT_REQUEST;
    fact->logged = logged;
    fact->end = hit && report->end == DISPATCH_REFUSED ? ends[DISPATCH_DONE]
                                                       : ends[report->end];
    fact->origin.cache = caching_name(x);
    fact->origin.cache_why = x->caching.why;
    if (report->end == DISPATCH_SEVERED && x->alive.stream) {
        fact->origin.not_resumed = x->resuming.why;
    }
    set_client(&fact->origin, x->client);
    set_request(&fact->origin, x);
    fact->origin.traced = x->traced;
    memcpy(fact->origin.trace, x->trace.trace, sizeof fact->origin.trace);
    memcpy(fact->origin.span, x->trace.span, sizeof fact->origin.span);
    fact->origin.code = report->status != 0 ? lane->refusal_code : NULL;
    if (x->sampled) {
        tracing_end(x, &fact->trace, report->now_us);
    }
    fact->failed_count = d->attempts_count < FACT_FAILED_MAX ? d->attempts_count
                                                             : FACT_FAILED_MAX;
    for (uint32_t i = 0; i < fact->failed_count; i++) {
        const struct dispatch_attempt *a = &d->attempt[i];
        fact->failed[i].why = exchange_fault_text(a);
        fact->failed[i].status = a->fault == DISPATCH_STATUS ? a->status : 0;
        memcpy(fact->failed[i].worker, a->worker, sizeof a->worker);
    }
    return true;
}

void
logging_refused(struct client *client, unsigned status, const char *code)
{
    struct lane *lane = client->lane;
    struct fact_request fact = {
        .kind = FACT_REQUEST,
        .logged = true,
        .end = ends[DISPATCH_REFUSED],
        .origin = {.code = code},
        .decision = {.slot = WORKER_NONE, .status = status},
    };

    set_client(&fact.origin, client);
    /* Else the head is not, or not yet, this request's. */
    if (!client->drop || client->judged) {
        set_method(&fact.origin, lane->head.method);
        set_path(&fact.origin, lane->head.path);
    }
    dispatch_tell_request(&lane->dispatch, &fact);
}
