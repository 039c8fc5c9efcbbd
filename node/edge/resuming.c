/*
 * Streams that go on at another worker: keeps the request and the text for as
 * long as that may be, and asks for the rest. node/route/resume.h reads the
 * stream and joins it.
 */
#include "node/edge/answer_internal.h"

/* A larger request is not kept, nor read again while a lane waits. */
#define REQUEST_MAX ((size_t)1 << 20)

/* Whether there is a text to go on with; of Messages and Responses as chats. */
static bool
is_apt(const struct scan *scan)
{
    switch (scan->api) {
    case SCAN_API_CHAT:
    case SCAN_API_MESSAGES:
        return scan->shape == SCAN_MESSAGES;
    case SCAN_API_RESPONSES:
        return scan->shape == SCAN_MESSAGES || scan->shape == SCAN_STRING;
    case SCAN_API_TEXT:
        return scan->shape == SCAN_STRING || scan->shape == SCAN_ID_LIST;
    case SCAN_API_GUESSED:
    case SCAN_API_EMBEDDINGS:
    case SCAN_API_POOLING:
    case SCAN_API_OTHER:
    case SCAN_APIS:
        break;
    }
    return false;
}

void
resuming_init(struct exchange *x, const struct scan *scan)
{
    const struct lane *lane = x->client->lane;
    enum resume_rule rule = (enum resume_rule)lane->dispatch.retries.streams;
    bool alone = scan->n == 1 && scan->prompts == 1;
    bool plain = !scan->stateful && !scan->rescored && !scan->truncated;

    x->resuming.exact = scan->greedy;
    x->resuming.usage = scan->include_usage;
    x->resuming.possible =
        (rule == RESUME_ALWAYS || (rule == RESUME_GREEDY && scan->greedy)) &&
        scan->stream && alone && plain && is_apt(scan) &&
        x->body.len <= REQUEST_MAX && lane->dispatch.retries.after_send != 0;
}

void
resuming_count(struct exchange *x)
{
    struct edge_ask *ask = &x->ask;
    bool may = !ask->refused && x->pool != NULL && !x->pool->usage_unknown;
    enum engine_kind kind = may ? x->pool->worker.kind : ENGINE_OTHER;

    ask->asks = may && ask->possible && !engine_kind_tells_usage(kind);
    ask->asks_each = may && ask->each_possible && engine_kind_counts(kind);
}

void
resuming_strip(struct exchange *x)
{
    const struct edge_ask *ask = &x->ask;
    bool null = x->api == SCAN_API_TEXT &&
                x->pool->worker.kind == ENGINE_SGLANG; /* it says so unasked */

    if (!x->strips) {
        usage_strip_init(&x->strip);
        x->strip.last = false;
    }
    x->strips = x->strips || ask->asks || ask->asks_each;
    x->strip.last = x->strip.last || ask->asks;
    if (ask->asks_each) {
        x->strip.each = null ? USAGE_STRIP_NULL : USAGE_STRIP_CUT;
    }
}

/* Half of the memory is for requests that are still to be served. */
static bool
is_room(const struct lane_memory *memory)
{
    return counter_read(memory->held) < memory->held_max_bytes / 2;
}

void
resuming_begin(struct exchange *x)
{
    enum scan_api api = x->dialect.on ? SCAN_API_CHAT : x->api;

    x->resuming.framed = x->resuming.possible &&
                         (api == SCAN_API_CHAT || api == SCAN_API_TEXT) &&
                         is_room(&x->client->lane->memory);
    if (x->resuming.framed) {
        resume_begin(&x->resume, api, x->resuming.exact, x->shown);
    }
}

static void ON_LANE
give_room(struct exchange *x)
{
    struct resume *r = &x->resume;

    if (r->room != NULL) {
        lane_memory_give(&x->client->lane->memory, x->client->quota, r->room,
                         r->size);
        r->room = NULL;
        r->size = 0;
    }
}

/* The stream gets a larger room. False: there is none. */
static bool ON_LANE
grow_room(struct exchange *x, size_t need)
{
    struct resume *r = &x->resume;
    size_t size;
    char *room;

    if (need > RESUME_BYTES_MAX || !is_room(&x->client->lane->memory)) {
        return false;
    }
    room = lane_memory_take(&x->client->lane->memory, x->client->quota, need,
                            &size);
    if (room == NULL) {
        return false;
    }
    if (r->room != NULL) {
        memcpy(room, r->room, r->text_len + r->held_len);
        give_room(x);
    }
    r->room = room;
    r->size = size;
    return true;
}

void
resuming_give(struct exchange *x, struct slice piece)
{
    struct resume *r = &x->resume;
    size_t need = resume_needs(r, piece.len);

    if (need > r->size && !grow_room(x, need)) {
        resume_end(r);
    }
    resume_give(r, piece);
}

void
resuming_settle(struct exchange *x)
{
    if (!x->resume.on && x->body.ptr != NULL) {
        x->body = (struct slice){.ptr = NULL, .len = 0};
        naming_release(x);
        translating_release(x);
        client_release_request(x->client);
    }
}

bool
resuming_ask(struct exchange *x)
{
    struct resume *r = &x->resume;
    int count;

    if (!x->resuming.framed || !r->on || x->client->out != NULL ||
        (x->dialect.streams && x->says.done) ||
        !dispatch_may_resume(&x->dispatch)) {
        return false;
    }
    count = resume_ask(r, x->dialect.streams ? x->dialect.chat : x->body,
                       x->resuming.ask);
    if (count < 0) {
        return false;
    }
    x->resuming.asks = (uint32_t)count;
    return true;
}

bool
resuming_suits(const struct exchange *x)
{
    enum engine_kind kind = x->pool->worker.kind;

    if (!translating_suits(x)) {
        return false;
    }
    if (x->resuming.asks == 0 || x->api == SCAN_API_TEXT) {
        return true;
    }
    /* Where the seam shows whether it went on, one may try. */
    return kind == ENGINE_VLLM || kind == ENGINE_SGLANG ||
           (kind == ENGINE_OTHER && x->resuming.exact);
}

void
resuming_fini(struct exchange *x)
{
    give_room(x);
    resume_fini(&x->resume);
}
