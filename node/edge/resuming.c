/*
 * Streams that go on at another worker: keeps the request and the text for as
 * long as that may be, and asks for the rest. node/route/resume.h reads the
 * stream and joins it.
 */
#include "node/edge/answer_internal.h"
#include "node/route/resume_may.h"

void
resuming_init(struct exchange *x, const struct scan *scan)
{
    const struct lane *lane = x->client->lane;
    enum resume_rule rule = (enum resume_rule)lane->dispatch.retries.streams;
    enum resume_pass pass = resume_judge(
        scan, x->body.len, rule, lane->dispatch.retries.after_send != 0);

    x->resuming.exact = scan->greedy;
    x->resuming.usage = scan->include_usage;
    x->resuming.possible = pass == RESUME_MAY && !x->client->picked;
    x->resuming.why = resume_pass_name(pass);
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

/* False: no memory. */
static bool ON_LANE
take_part(struct exchange *x)
{
    struct edge_resuming *r = &x->resuming;

    if (r->resume == NULL) { /* else a head before could not be written */
        r->resume = exchange_part(x, sizeof(*r->resume));
    }
    return r->resume != NULL;
}

void
resuming_begin(struct exchange *x)
{
    enum scan_api api = x->dialect.on ? SCAN_API_CHAT : x->api;

    bool ours = api == SCAN_API_CHAT || api == SCAN_API_TEXT;

    x->resuming.framed = x->resuming.possible && ours &&
                         lane_memory_is_free(&x->client->lane->memory) &&
                         take_part(x);
    if (x->resuming.possible && !x->resuming.framed) {
        x->resuming.why = ours ? "memory" : resume_pass_name(RESUME_OWN_PATH);
    }
    if (x->resuming.framed) {
        resume_init(x->resuming.resume);
        resume_begin(x->resuming.resume, api, x->resuming.exact, x->shown);
    }
}

static void ON_LANE
give_room(struct exchange *x)
{
    struct resume *r = x->resuming.resume;

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
    struct resume *r = x->resuming.resume;
    size_t size;
    char *room;

    if (need > RESUME_BYTES_MAX ||
        !lane_memory_is_free(&x->client->lane->memory)) {
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
    struct resume *r = x->resuming.resume;
    size_t need = resume_needs(r, piece.len);

    if (need > r->size && !grow_room(x, need)) {
        resume_end(r);
    }
    resume_give(r, piece);
}

void
resuming_settle(struct exchange *x)
{
    if (!x->resuming.resume->on && x->body.ptr != NULL) {
        x->body = (struct slice){.ptr = NULL, .len = 0};
        naming_release(x);
        translating_release(x);
        client_release_request(x->client);
    }
}

bool
resuming_is_torn(const struct exchange *x)
{
    return x->resuming.framed && x->resuming.resume->torn;
}

void
resuming_give_up(struct exchange *x)
{
    if (x->resuming.framed) {
        resume_end(x->resuming.resume);
    }
}

/* Why nobody is asked for the rest, whatever the request says; "": somebody may
 * be. */
static const char *ON_LANE
obstacle(const struct exchange *x)
{
    const struct resume *r = x->resuming.resume;

    return r->torn ? "torn"
           : !r->on || (x->dialect.streams && x->dialect.saying->stream.done)
               ? "answer"
           : x->client->out != NULL             ? "client"
           : !dispatch_may_resume(&x->dispatch) ? "attempts"
                                                : "";
}

bool
resuming_ask(struct exchange *x)
{
    struct slice body = x->dialect.streams ? x->dialect.chat : x->body;
    struct edge_resuming *resuming = &x->resuming;
    struct resume *r = resuming->resume;
    struct slice member;

    if (!x->resuming.framed) {
        return false;
    }
    x->resuming.why = obstacle(x);
    if (x->resuming.why[0] != '\0') {
        return false;
    }
    if (resuming->ask == NULL) {
        resuming->ask =
            exchange_part(x, RESUME_EDITS_MAX * sizeof(*resuming->ask));
    }
    if (resuming->ask == NULL) {
        resuming->why = "memory";
        return false;
    }
    int count = resume_ask(r, body, resuming->ask);
    if (count < 0) {
        x->resuming.why = resume_keeps(body, r->api, &member)
                              ? "answer"
                              : resume_pass_name(RESUME_MEMBER);
        return false;
    }
    x->resuming.asks = (uint32_t)count;
    x->resuming.why = "nobody"; /* if it is severed all the same */
    return true;
}

bool
resuming_suits(const struct exchange *x)
{
    return translating_suits(x) &&
           (x->resuming.asks == 0 ||
            resume_suits(x->pool->worker.kind, x->api, x->resuming.exact));
}

void
resuming_fini(struct exchange *x)
{
    if (x->resuming.framed) {
        give_room(x);
        resume_fini(x->resuming.resume);
    }
}
