/* A sidecar's connection on the control loop, and its items. */
#include "node/events/kv_sse_link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "node/base/log.h"
#include "node/http/httpc.h"

#define HEAD_BYTES_MAX ((size_t)64 << 10)
#define HEADERS_BYTES  (CONFIG_SECRET_MAX + SSE_READ_ID_MAX + 256)
#define DOUBLINGS_MAX  16

struct kv_sse_link {
    struct kv_sse_source source;
    uv_loop_t *loop;
    uv_timer_t timer; /* the next try, or the silence of this one */
    struct httpc *call;
    struct sse_read read;
    struct kv_sse core;
    struct rng rng;
    bool connected;     /* the stream began to arrive */
    bool answered;      /* ... and brought an event */
    uint32_t tries;     /* in a row that brought no event */
    bool freed;         /* by its owner; the timer ends it */
    const char *reread; /* asked for; NULL: not */
    uint64_t ask;
};

static void on_timer(uv_timer_t *timer);

static void
deliver(struct kv_sse_link *link, enum intake_item_kind kind,
        const struct kv_sse_out *out)
{
    const struct kv_sse_source *source = &link->source;
    struct intake_item item = {
        .kind = (uint32_t)kind,
        .worker = source->slot,
        .generation = source->generation,
        .rank = out->rank,
        .reading = source->reading,
        .state = (uint32_t)out->state,
        .whole = out->whole,
        .last = true, /* an event is a batch */
        .process = out->process,
        .ask = out->ask,
        .fingerprint = out->fingerprint,
    };

    (void)snprintf(item.reason, sizeof item.reason, "%s",
                   out->reason != NULL ? out->reason : "");
    if (!link->freed) {
        source->sink.item(source->sink.context, &item, out->record);
    }
}

static void
pull(struct kv_sse_link *link, bool *hangup)
{
    struct kv_sse_out out;

    while (kv_sse_next_out(&link->core, &out)) {
        switch (out.kind) {
        case KV_SSE_BEGIN:
            deliver(link, INTAKE_BEGIN, &out);
            break;
        case KV_SSE_STATE:
            deliver(link, INTAKE_STATE, &out);
            break;
        case KV_SSE_RECORD:
            deliver(link, INTAKE_RECORD, &out);
            break;
        case KV_SSE_HANGUP:
            *hangup = true;
            break;
        }
    }
}

static void
start_timer(struct kv_sse_link *link, uint64_t ms)
{
    ms = link->freed ? 0 : ms;
    CHECK(uv_timer_start(&link->timer, on_timer, ms, 0) == 0);
}

/* How long to wait before the next try. */
static uint32_t
retry_wait_ms(struct kv_sse_link *link)
{
    uint32_t most = link->source.retry_max_ms;
    uint64_t base =
        link->read.retry_ms != 0 ? link->read.retry_ms : link->source.retry_ms;
    uint32_t doublings = link->tries > 0 ? link->tries - 1 : 0;
    doublings = doublings < DOUBLINGS_MAX ? doublings : DOUBLINGS_MAX;
    uint64_t wait = base << doublings;

    wait = wait < most ? wait : most;
    return (uint32_t)(wait - rng_below(&link->rng, wait / 4 + 1));
}

/* Whatever there was of a connection is over; another one follows. */
static void
end(struct kv_sse_link *link, const char *reason)
{
    bool hangup = false;

    if (link->call != NULL) {
        httpc_cancel(link->call);
        link->call = NULL;
    }
    link->tries = link->answered ? 0 : link->tries + (link->tries < 1000);
    uint32_t wait_ms = retry_wait_ms(link);
    LOG_WARNING("sse_ended", KV("worker", link->source.id),
                KV("reason", reason), KV("retry_ms", wait_ms),
                KV("hint", "it is tried again: look at the sidecar"));
    link->connected = false;
    link->answered = false;
    kv_sse_disconnected(&link->core);
    pull(link, &hangup);
    start_timer(link, wait_ms);
}

static void
on_done(void *context, const struct httpc_answer *answer)
{
    struct kv_sse_link *link = context;
    char reason[40] = "the stream ended";

    link->call = NULL;
    if (answer->outcome != HTTPC_OK) {
        end(link, answer->why[0] != '\0' ? answer->why
                                         : httpc_outcome_name(answer->outcome));
        return;
    }
    if (answer->head->status / 100 != 2) {
        (void)snprintf(reason, sizeof reason, "status %u",
                       answer->head->status);
    }
    end(link, reason);
}

/* The events of a piece. True: hang up. */
static bool
take_events(struct kv_sse_link *link)
{
    struct sse_event event;
    bool hangup = false;

    while (!hangup && sse_read_next(&link->read, &event)) {
        link->answered = true;
        kv_sse_event(&link->core, &event);
        pull(link, &hangup);
    }
    return hangup;
}

static void
on_piece(void *context, struct slice piece)
{
    struct kv_sse_link *link = context;
    bool hangup = false;

    if (link->source.silence_ms > 0 && link->reread == NULL) {
        start_timer(link, link->source.silence_ms);
    }
    if (!link->connected) {
        link->connected = true;
        LOG_INFO("sse_connected", KV("worker", link->source.id));
        kv_sse_connected(&link->core);
        pull(link, &hangup);
    }
    sse_read_give(&link->read, piece);
    if (take_events(link)) {
        end(link, "events are missing");
    } else if (link->read.fault != NULL) {
        end(link, link->read.fault);
    }
}

/* An id is sent back as it came, unless it would break the line it is in. */
static bool
fits_a_header(struct slice id)
{
    for (size_t i = 0; i < id.len; i++) {
        if ((unsigned char)id.ptr[i] < 0x20 || id.ptr[i] == 0x7f) {
            return false;
        }
    }
    return id.len > 0;
}

static size_t
write_headers(const struct kv_sse_link *link, char *out, size_t room)
{
    struct slice id = kv_sse_last_id(&link->core);
    struct buf headers;

    buf_init(&headers, room);
    buf_add_text(&headers, "Accept: text/event-stream\r\n"
                           "Cache-Control: no-store\r\n");
    if (link->source.api_key[0] != '\0') {
        buf_add_text(&headers, "Authorization: Bearer ");
        buf_add_text(&headers, link->source.api_key);
        buf_add_text(&headers, "\r\n");
    }
    if (fits_a_header(id)) {
        buf_add_text(&headers, "Last-Event-ID: ");
        buf_add_slice(&headers, id);
        buf_add_text(&headers, "\r\n");
    }
    size_t len = headers.failed ? 0 : headers.len;
    memcpy(out, len > 0 ? headers.ptr : "", len);
    buf_fini(&headers);
    return len;
}

static void
start_call(struct kv_sse_link *link)
{
    char headers[HEADERS_BYTES];
    size_t len = write_headers(link, headers, sizeof headers);
    const struct url *url = &link->source.url;
    struct httpc_request request = {
        .host = url->host,
        .port = url->port,
        .deny = &link->source.deny,
        .tls =
            url->tls ? link->source.sink.tls(link->source.sink.context) : NULL,
        .method = "GET",
        .target = url->path[0] != '\0' ? url->path : "/",
        .headers = {headers, len},
        .answer_bytes_max = HEAD_BYTES_MAX,
        .context = link,
        .done = on_done,
        .piece = on_piece,
    };

    sse_read_restart(&link->read);
    if (httpc_start(&link->call, link->loop, &request) != 0) {
        link->call = NULL;
        end(link, "not sent");
    } else if (link->source.silence_ms > 0) {
        start_timer(link, link->source.silence_ms);
    }
}

static void
on_closed(uv_handle_t *handle)
{
    struct kv_sse_link *link = handle->data;

    sse_read_fini(&link->read);
    free(link);
}

static void
bury(struct kv_sse_link *link)
{
    CHECK(link->freed);
    if (link->call != NULL) {
        httpc_cancel(link->call);
    }
    uv_close((uv_handle_t *)&link->timer, on_closed);
}

static void
on_timer(uv_timer_t *timer)
{
    struct kv_sse_link *link = timer->data;
    bool hangup = false;

    if (link->freed) {
        bury(link);
        return;
    }
    if (link->reread != NULL) {
        kv_sse_reread(&link->core, link->reread, link->ask);
        link->reread = NULL;
        if (link->call != NULL) {
            httpc_cancel(link->call);
            link->call = NULL;
        }
        link->connected = false;
        kv_sse_disconnected(&link->core);
        pull(link, &hangup);
    }
    if (link->call != NULL) {
        end(link, "silence");
    } else {
        start_call(link);
    }
}

int
kv_sse_link_new(struct kv_sse_link **out, uv_loop_t *loop,
                const struct kv_sse_source *source)
{
    struct kv_sse_link *link = calloc(1, sizeof *link);

    if (link == NULL) {
        return -ENOMEM;
    }
    link->source = *source;
    link->loop = loop;
    sse_read_init(&link->read, KV_SSE_EVENT_BYTES_MAX);
    kv_sse_init(&link->core, source->identity, source->ranks, source->seed);
    rng_init(&link->rng, source->seed + 1);
    CHECK(uv_timer_init(loop, &link->timer) == 0);
    link->timer.data = link;
    start_timer(link, 0);
    *out = link;
    return 0;
}

void
kv_sse_link_free(struct kv_sse_link *link)
{
    if (link != NULL) {
        CHECK(!link->freed);
        link->freed = true;
        start_timer(link, 0);
    }
}

void
kv_sse_link_reread(struct kv_sse_link *link, const char *reason, uint64_t ask)
{
    link->reread = reason;
    link->ask = ask;
    start_timer(link, 0);
}

bool
kv_sse_link_is_connected(const struct kv_sse_link *link)
{
    return link->connected;
}

bool
kv_sse_link_is_failing(const struct kv_sse_link *link)
{
    return !link->connected && link->tries > 0;
}

const struct kv_sse_stats *
kv_sse_link_stats(const struct kv_sse_link *link)
{
    return &link->core.stats;
}
