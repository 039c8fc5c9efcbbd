/*
 * One request on its way, as far as it takes memory, sockets and clocks: does
 * what dispatch.c decides.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "node/edge/answer_internal.h"
#include "node/edge/logging_internal.h"
#include "node/route/dispatch.h"

/* limits.head_bytes_max is at most 1 MiB. */
#define HEAD_MAX_BYTES  (((size_t)1 << 20) + EDGE_ADDED_BYTES)
#define HEAD_KEPT_BYTES ((size_t)8 << 10) /* from request to request */

_Static_assert(WORKERS_MAX > 256 || sizeof(struct exchange) <= 2816,
               "a stream keeps it to its end: what few need is a part");

struct exchange *
exchange_new(struct client *client)
{
    struct lane *lane = client->lane;
    struct exchange *x = lane->free_exchanges;
    struct buf head;

    CHECK(client->exchange == NULL);
    if (x != NULL) {
        lane->free_exchanges = x->next_free;
        head = x->head; /* its memory is kept from request to request */
    } else {
        x = malloc(sizeof(*x));
        if (x == NULL) {
            return NULL;
        }
        buf_init(&head, HEAD_MAX_BYTES);
    }
    memset(x, 0, sizeof(*x));
    usage_watch_init(&x->watch);
    x->head = head;
    x->client = client;
    uint64_t whole_us = client->framing.whole_us;
    dispatch_init(&x->dispatch, &lane->dispatch,
                  whole_us != 0 ? whole_us : lane_clock_us());
    client->exchange = x;
    gauge_add(&lane->node->inflight, 1);
    gauge_add(&lane->shared->streams, 1);
    return x;
}

/* Parts */

struct edge_part {
    struct edge_part *next;
    max_align_t bytes[];
};

void *
exchange_part(struct exchange *x, size_t size)
{
    struct edge_part *part = calloc(1, sizeof(*part) + size);

    if (part == NULL) {
        return NULL;
    }
    part->next = x->parts;
    x->parts = part;
    return part->bytes;
}

static void
trim_head(struct exchange *x)
{
    if (x->head.size > HEAD_KEPT_BYTES) {
        buf_fini(&x->head);
        buf_init(&x->head, HEAD_MAX_BYTES);
    }
}

static void
free_parts(struct exchange *x)
{
    while (x->parts != NULL) {
        struct edge_part *part = x->parts;
        x->parts = part->next;
        free(part);
    }
}

/* The end */

static uint64_t
wall_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static uint64_t
wall_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void
wake_control(struct lane *lane)
{
    if (lane->dispatch.told) {
        lane->dispatch.told = false;
        if (latch_take(&lane->node->asleep)) {
            (void)uv_async_send(lane->node->wake);
        }
    }
}

static void ON_LANE
leave_pool(struct exchange *x)
{
    if (x->pool != NULL) {
        upstream_pool_put(x->client->lane, x->pool);
        x->pool = NULL;
    }
}

static void ON_LANE
let_go_of_upstream(struct exchange *x)
{
    if (x->upstream != NULL) {
        struct upstream *up = x->upstream;
        x->upstream = NULL;
        up->exchange = NULL;
        upstream_close(up);
    }
}

/* Of our own answer, if that ends x. */
static enum metrics_reason ON_LANE
why_refused(const struct exchange *x, unsigned status)
{
    const char *code = x->client->lane->refusal_code;

    if (code != NULL) {
        return metrics_reason_of(code);
    }
    if (status >= 400) { /* told by an event, after others of its stream */
        return METRICS_BROKE_OFF;
    }
    return x->caching.verdict == CACHING_HIT ? METRICS_CACHED : METRICS_LOCAL;
}

/* Frees x. status: of our own answer, if that ends it. */
static void ON_LANE
end(struct exchange *x, enum dispatch_end how, unsigned status)
{
    struct lane *lane = x->client->lane;
    struct dispatch_report report = {
        .end = how,
        .status = status,
        .why = why_refused(x, status),
        .now_us = lane_clock_us(),
        .wall_ms = wall_ms(),
    };
    bool judged = false; /* the engine's counts are those of this prompt */

    CHECK(x->client->exchange == x);
    if (how == DISPATCH_DONE) {
        usage_watch_end(&x->watch, &report.usage);
        dispatch_correct_usage(&x->dispatch, &report.usage);
        judged = x->dispatch.resumed == 0 && x->dispatch.split.begun_us == 0;
        if (judged) {
            inquiry_judge(x, &report.usage);
        }
    }
    struct usage cost =
        limit_usage(x, how == DISPATCH_DONE ? &report.usage : NULL);
    admit_count(x, &cost);
    limit_end(x, &cost);
    inquiry_ended(x, judged ? &report.usage : NULL);
    waiting_end(x);
    struct fact_request logged;
    if ((lane->log_requests != CONFIG_LOG_OFF || x->sampled) &&
        logging_begin(&logged, x, &report)) {
        report.request = &logged;
    }
    caching_fini(x, how == DISPATCH_DONE);
    dispatch_end(&x->dispatch, &report);
    wake_control(lane);
    let_go_of_upstream(x);
    prefill_drop(x);
    inquiry_leave(x);
    deadline_clear(&x->deadline);
    leave_pool(x);
    resuming_fini(x);
    sorting_forget(x);
    naming_release(x);
    alive_end(x);
    whole_fini(x);
    translating_fini(x);
    rewriting_fini(x);
    free_parts(x);
    trim_head(x);
    x->client->exchange = NULL;
    gauge_add(&lane->node->inflight, -1);
    gauge_add(&lane->shared->streams, -1);
    x->next_free = lane->free_exchanges;
    lane->free_exchanges = x;
}

void
exchange_drop(struct exchange *x, unsigned status)
{
    struct lane *lane = x->client->lane;

    end(x, DISPATCH_REFUSED, status);
    lane->refusal_code = NULL; /* the client's next request may be served now */
}

void
exchange_end(struct exchange *x)
{
    struct client *client = x->client;

    CHECK(x->upstream == NULL);
    end(x, DISPATCH_DONE, 0);
    client_answered(client);
}

void
exchange_cancel(struct exchange *x)
{
    inquiry_cancel(x);
    end(x, DISPATCH_CANCELLED, 0);
}

/* Whether the client of an answer in another form can be told how it ends. */
static bool
is_told_by_event(const struct exchange *x)
{
    return x->dialect.streams && !x->dialect.saying->stream.done &&
           x->client->out == NULL;
}

static void ON_LANE
refuse_rest(struct exchange *x)
{
    reply_error(x->client, 502, "answer_broke_off",
                "the worker's answer ended too early");
}

static void ON_LANE
sever(struct exchange *x)
{
    struct client *client = x->client;
    bool framed = rewriting_is_framed(x);

    if (is_told_by_event(x)) { /* nobody went on with it */
        refuse_rest(x);
        return;
    }
    end(x, DISPATCH_SEVERED, 0);
    /* Where the framing cannot show that bytes are missing, a reset does. */
    if (framed) {
        form_cut(client);
        client_end(client);
    } else {
        client_close(client, true);
    }
}

/* Attempts */

static const char *
residency_of(const struct exchange *x)
{
    return x->client->framing.admission.residency.islands;
}

/* And which rank was chosen. */
uint32_t
exchange_hints(const struct route_choice *choice, char hints[EDGE_HINTS_MAX])
{
    int len = 0;

    if (choice->placed && choice->best.tokens != 0) {
        len = snprintf(hints, EDGE_HINTS_MAX, "x-kvasir-tier: %s\r\n",
                       event_tier_name((enum tier)choice->best.tier));
    }
    if (choice->ranked) {
        len += snprintf(hints + len, EDGE_HINTS_MAX - (size_t)len,
                        "X-data-parallel-rank: %u\r\n", choice->best.rank);
    }
    CHECK(len >= 0 && (size_t)len < EDGE_HINTS_MAX);
    return (uint32_t)len;
}

/* The scratch has served other requests while x waited. Reading the body again
 * costs no more than sending it does, which follows: 7 us of 11 for 32 KB, 30
 * of 30 for 128 KB, 2.3 ms of 1.3 for 8 MB, and only after a wait for tokens
 * or for a worker that failed. What would save it is a copy of up to 64 KiB of
 * keys for each request that waits, and more code than this. */
static void ON_LANE
read_again(struct exchange *x)
{
    struct route_scratch *route = &x->client->lane->route;

    if (!x->dispatch.routed) {
        route_read_form(route, x->body);
    } else {
        route->isolation = &x->client->framing.admission.isolation;
        /* As before: of the same bytes, by limits.json_depth_max and
         * limits.spans_max of the start, which no reload changes. */
        CHECK(route_read(route, x->body, x->api) == 0);
        inquiry_recall(x);
    }
    x->read = true;
}

void
exchange_add_edit(struct edge_edits *edits, struct body_edit edit)
{
    uint32_t at = edits->count++;

    CHECK(edits->count <= EDGE_EDITS_MAX);
    for (; at > 0 && edits->edit[at - 1].at > edit.at; at--) {
        edits->edit[at] = edits->edit[at - 1];
    }
    edits->edit[at] = edit;
}

/* It is so long then. */
static void
set_length(struct edge_edits *edits, size_t size)
{
    int len =
        snprintf(edits->length, sizeof(edits->length), "%zu\r\n\r\n", size);

    CHECK(len > 0 && (size_t)len < sizeof(edits->length));
    edits->length_len = (uint32_t)len;
}

/* How long a body of that size is then. */
static size_t
edited_size(const struct edge_edits *edits, size_t size)
{
    for (uint32_t i = 0; i < edits->count; i++) {
        size = size - edits->edit[i].cut + edits->edit[i].text.len;
    }
    return size;
}

void
exchange_end_edits(const struct exchange *x, struct edge_edits *edits)
{
    size_t size = edited_size(edits, x->body.len);

    edits->length_len = 0;
    if (edits->count != 0 || x->naming.next > 1) {
        set_length(edits, size);
    }
}

void
exchange_list_edits(const struct exchange *x, struct edge_edits *edits)
{
    const struct edge_ask *ask = &x->ask;
    const struct edge_salt *salt = &x->salt;

    edits->count = 0;
    for (uint32_t i = 0; i < x->resuming.asks; i++) {
        exchange_add_edit(edits, x->resuming.ask[i]);
    }
    if (x->dialect.on) {
        set_length(edits, edited_size(edits, x->dialect.chat.len));
        return;
    }
    if (salt->sent) {
        exchange_add_edit(
            edits, (struct body_edit){salt->at, salt->cut,
                                      (struct slice){salt->text, salt->len}});
    }
    if (ask->asks || ask->asks_each) {
        exchange_add_edit(edits,
                          (struct body_edit){
                              ask->lack.at, ask->lack.cut,
                              scan_usage_text(ask->lack.lack, ask->asks_each)});
    }
    if (x->dialect.marks) {
        exchange_add_edit(edits, translating_mark(x));
    }
    prefill_add_edits(x, edits);
    exchange_end_edits(x, edits);
}

/* Makes the chat, if its worker gets one. */
static void ON_LANE
translate(struct exchange *x)
{
    if (x->dialect.on && !translating_prepare(x)) {
        CHECK(x->dialect.chat.len == 0); /* run() says so */
    }
}

static void ON_LANE
elect(struct exchange *x)
{
    struct lane *lane = x->client->lane;
    struct node_shared *node = lane->node;
    const struct fleet_lease *lease = &x->dispatch.choice.lease;
    struct elect_config own;

    leave_pool(x); /* of the attempt before */
    prefill_drop(x);
    if (!x->read) {
        read_again(x);
    }
    limit_recount(x);
    qsbr_online(&node->qsbr, lane->shared->reader);
    struct route_world world =
        shared_world(node, shared_elect_for(&lane->elect, &lane->policies,
                                            lane->route.model, &own));
    world.affinity = lane->session.mode;
    world.session = x->session;
    if (x->stored != 0) {
        world.affinity = SESSION_BOUND;
        world.session = x->stored;
    }
    world.residency = residency_of(x);
    world.placed = x->wait.placed;
    world.place = x->wait.place;
    x->dispatch.split.choice.asked = prefill_asks(x, world.view);
    if (x->client->pick != NULL) {
        pick_restrict(x->client->pick, world.view, &x->dispatch.tried);
    }
    dispatch_elect(&x->dispatch, &world,
                   moment_counts(&node->board->moment) ? wall_us() : 0);
    if (lease->taken) {
        x->pool = upstream_pool_get(lane, world.view, lease->slot);
        prefill_elected(x, world.view);
    }
    qsbr_offline(lane->shared->reader);
    x->ask.repeats = false;
    if (lease->taken) {
        inquiry_sent(x);
        resuming_count(x);
        x->salt.sent = x->salt.possible && x->pool != NULL &&
                       route_salts(x->api, x->pool->worker.kind);
        translating_elect(x);
        translate(x);
    }
    dispatch_elected(&x->dispatch, lane_clock_us());
    if (x->client->pick != NULL && lease->taken) {
        pick_elected(x);
    }
    waiting_end(x);
}

static void ON_LANE
connect_upstream(struct exchange *x)
{
    struct dispatch_failure failure = {.fault = DISPATCH_UNREACHABLE};
    bool suits = x->pool != NULL && resuming_suits(x);
    int outcome = suits ? upstream_begin(x, false) : UPSTREAM_E_EXHAUSTED;

    if (outcome == 0) {
        return;
    }
    if (outcome == UPSTREAM_E_EXHAUSTED) {
        failure.fault = DISPATCH_EXHAUSTED;
    }
    dispatch_failed(&x->dispatch, &failure);
}

/* Carries out the due action. Frees x if that ends it. */
static void ON_LANE
run(struct exchange *x)
{
    struct lane *lane = x->client->lane;

    for (;;) {
        switch (dispatch_next(&x->dispatch)) {
        case DISPATCH_ASK:
            lane_time_tokens(lane, &x->deadline, inquiry_is_local(x));
            break;
        case DISPATCH_ELECT:
            tracing_step(x, FACT_STEP_ELECT);
            elect(x);
            break;
        case DISPATCH_YIELD:
            lane_time_yield(lane, &x->deadline, x->dispatch.yield_us);
            break;
        case DISPATCH_QUEUE:
            tracing_step(x, FACT_STEP_QUEUE);
            waiting_begin(x);
            break;
        case DISPATCH_RENAME:
            if (!naming_next(x)) {
                return;
            }
            break;
        case DISPATCH_PREFILL:
            prefill_begin(x);
            break;
        case DISPATCH_CONNECT:
            if (x->dialect.on && x->dialect.chat.len == 0) {
                translating_refuse(x);
                return;
            }
            tracing_step(x, FACT_STEP_ATTEMPT);
            connect_upstream(x);
            break;
        case DISPATCH_REFUSE:
            exchange_refuse(x);
            return;
        case DISPATCH_SEVER:
            sever(x);
            return;
        case DISPATCH_WAIT:
            x->read = false;
            wake_control(lane);
            return;
        }
    }
}

/* The scratch holds x, which has its share of the limits of requests. */
static void ON_LANE
go(struct exchange *x)
{
    if ((x->caching.asks && caching_ask(x)) ||
        (x->counting.asks && counting_begin(x))) {
        return;
    }
    if (x->dispatch.routed) {
        tracing_step(x, FACT_STEP_TOKENS);
    }
    bool asked = x->dispatch.routed && inquiry_begin(x);
    if (!limit_tokens(x)) {
        return;
    }

    if (inquiry_is_local(x)) {
        x->client->lane->dispatch.late_in_row = 0; /* no engine's word */
    }
    dispatch_start(&x->dispatch, asked);
    if (x->dispatch.state != DISPATCH_ASKING) {
        inquiry_leave(x);
    }
    alive_begin(x);
    run(x);
}

void
exchange_start(struct exchange *x)
{
    struct slice model = x->naming.count != 0 ? slice_of(x->naming.names->asked)
                                              : x->client->lane->route.model;

    if (limit_begin(x, model)) {
        go(x);
    }
}

void
exchange_limited(struct exchange *x)
{
    CHECK(!x->read && x->upstream == NULL);
    if (limit_again(x)) {
        request_read_again(x);
        x->read = true;
        go(x);
    }
}

void
exchange_answered_tokens(struct exchange *x)
{
    deadline_clear(&x->deadline);
    if (x->counting.waits) {
        counting_end(x);
        return;
    }
    dispatch_tokens(&x->dispatch);
    run(x);
}

void
exchange_expired(struct exchange *x)
{
    inquiry_leave(x);
    deadline_clear(&x->deadline);
    if (x->counting.waits) {
        counting_end(x);
        return;
    }
    if (x->dispatch.state == DISPATCH_QUEUED) {
        exchange_unplaced(x, DISPATCH_QUEUE_LATE, 1);
        return;
    }
    dispatch_expired(&x->dispatch);
    run(x);
}

void
exchange_placed(struct exchange *x)
{
    deadline_clear(&x->deadline);
    dispatch_placed(&x->dispatch, lane_clock_us());
    run(x);
}

void
exchange_unplaced(struct exchange *x, enum dispatch_refusal why,
                  uint32_t retry_after_s)
{
    deadline_clear(&x->deadline);
    dispatch_unplaced(&x->dispatch, why, retry_after_s, lane_clock_us());
    run(x);
}

void
exchange_failed(struct exchange *x, const struct dispatch_failure *failure)
{
    CHECK(x->upstream == NULL);
    dispatch_failed(&x->dispatch, failure);
    run(x);
}

void
exchange_prefill_failed(struct exchange *x,
                        const struct dispatch_failure *failure)
{
    CHECK(x->split->up == NULL);
    prefill_forget(x);
    if (dispatch_needs_prefill(&x->dispatch, failure)) {
        let_go_of_upstream(x);
    }
    dispatch_prefill_failed(&x->dispatch, failure);
    run(x);
}

void
exchange_prefilled(struct exchange *x, bool usable)
{
    struct usage usage;

    CHECK(x->split->up == NULL);
    usage_watch_end(&x->split->watch, &usage);
    dispatch_prefilled(&x->dispatch, usable, &usage, lane_clock_us());
    run(x);
}

void
exchange_unsplit(struct exchange *x)
{
    CHECK(x->upstream == NULL);
    prefill_drop(x);
    dispatch_unsplit(&x->dispatch);
    run(x);
}

void
exchange_unask(struct exchange *x)
{
    CHECK(x->upstream == NULL && (x->ask.asks || x->ask.asks_each));
    x->ask.asks = false;
    x->ask.asks_each = false;
    x->ask.refused = true;
    x->ask.repeats = true;
    dispatch_unasked(&x->dispatch);
    run(x);
}

void
exchange_late(struct exchange *x)
{
    CHECK(x->upstream == NULL);
    if (x->dispatch.state == DISPATCH_STREAMING) {
        if (x->whole.gathers || !response_finish(x)) {
            exchange_broke_off(x);
        }
        return;
    }
    dispatch_expired(&x->dispatch);
    run(x);
}

void
exchange_translate(struct exchange *x)
{
    CHECK(x->upstream == NULL && x->dialect.possible && !x->dialect.on);
    x->dialect.on = true;
    x->dialect.shown = true;
    translate(x);
    dispatch_unasked(&x->dispatch);
    run(x);
}

/* The answer */

void
exchange_answered(struct exchange *x, unsigned status)
{
    if (x->ask.repeats && status < 300) {
        x->pool->usage_unknown = true; /* the same body without it is good */
    }
    translating_answered(x, status);
    caching_answered(x, status);
    dispatch_answered(&x->dispatch, status, lane_clock_us());
    wake_control(x->client->lane);
}

void
exchange_broke_off(struct exchange *x)
{
    if (x->whole.gathers) {
        refuse_rest(x);
        return;
    }
    if (resuming_ask(x)) {
        let_go_of_upstream(x);
        dispatch_resumes(&x->dispatch);
        alive_begin(x);
    } else if (is_told_by_event(x)) {
        refuse_rest(x);
        return;
    } else {
        dispatch_broke_off(&x->dispatch);
    }
    run(x);
}

void
exchange_drained(struct exchange *x)
{
    if (x->finished) {
        exchange_end(x);
    } else {
        CHECK(x->upstream != NULL);
        upstream_resume(x->upstream);
    }
}
