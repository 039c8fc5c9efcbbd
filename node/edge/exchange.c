/*
 * One request on its way: election, attempts, retries, the end. What is
 * learned on the way goes to the control thread as facts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "node/edge/edge_internal.h"
#include "node/route/attempt.h"
#include "node/text/usage.h"
#include "node/view/facts.h"

/* limits.head_bytes_max is at most 1 MiB. */
#define HEAD_MAX_BYTES (((size_t)1 << 20) + EDGE_ADDED_BYTES)

struct exchange *
exchange_new(struct client *client)
{
    struct lane *lane = client->lane;
    struct exchange *x = lane->free_exchanges;
    struct buf head;

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
    memset(x, 0, offsetof(struct exchange, tail));
    x->tail_len = 0;
    x->first_byte_us = 0;
    x->first_token_us = 0;
    x->routed_us = 0;
    x->head = head;
    x->client = client;
    x->begun_us = lane_clock_us();
    client->exchange = x;
    gauge_add(&lane->node->inflight, 1);
    gauge_add(&lane->shared->streams, 1);
    return x;
}

/* Facts */

/* Room for a fact of that size, or NULL (counted). */
static void *
fact_reserve(struct lane *lane, size_t size)
{
    void *fact = ring_reserve(&lane->shared->facts, size);

    if (fact == NULL) {
        counter_bump(&lane->shared->metrics.facts_lost, 1);
    }
    return fact;
}

static void
fact_commit(struct lane *lane)
{
    ring_commit(&lane->shared->facts);
    if (latch_take(&lane->node->asleep)) {
        (void)uv_async_send(lane->node->wake);
    }
}

static void
tell_prefix(struct lane *lane, const struct attempt_prefix *prefix)
{
    struct fact_learn *fact = fact_reserve(lane, attempt_prefix_size(prefix));

    if (fact != NULL) {
        attempt_prefix_write(prefix, fact);
        fact_commit(lane);
    }
}

/* The worker is about to hold these: as text, for when tokens are not known,
 * and as tokens until its own events say so. */
static void
tell_learn(struct exchange *x, const struct route_scratch *route)
{
    struct attempt_prefix prefixes[2];
    uint32_t count = attempt_prefixes(&x->choice, route, x->routed, prefixes);

    for (uint32_t i = 0; i < count; i++) {
        tell_prefix(x->client->lane, &prefixes[i]);
    }
}

static void
tell_outcome(struct exchange *x, enum fact_result result)
{
    struct fact_outcome *fact;

    if (!attempt_matters(result, x->watched)) {
        return;
    }
    fact = fact_reserve(x->client->lane, sizeof(*fact));
    if (fact != NULL) {
        *fact = (struct fact_outcome){
            .kind = FACT_OUTCOME,
            .slot = x->pool->slot,
            .generation = x->pool->generation,
            .result = result,
        };
        fact_commit(x->client->lane);
    }
}

static uint64_t
wall_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void
fill_decision(const struct exchange *x, unsigned status, uint64_t now_us,
              struct fact_decision *fact)
{
    uint64_t first_us = x->first_byte_us;
    uint64_t token_us = x->first_token_us;

    *fact = (struct fact_decision){
        .kind = FACT_DECISION,
        .slot = x->pool != NULL ? x->pool->slot : WORKER_NONE,
        .generation = x->pool != NULL ? x->pool->generation : 0,
        .mode = x->choice.elect.mode,
        .overlap = x->choice.elect.overlap,
        .total = x->total,
        .exact = x->choice.exact,
        .whole = x->choice.placed && x->total_whole,
        .predicted_tokens = x->choice.exact ? x->choice.best.tokens : 0,
        .block_tokens = x->choice.exact ? x->choice.best.block_tokens : 0,
        .rank = x->choice.exact ? x->choice.best.rank : 0,
        .attempts = x->attempts_count + (x->state == EXCHANGE_STREAMING),
        .status = status,
        .stream = x->stream,
        .imbalanced = x->choice.elect.imbalanced,
        .wall_ms = wall_ms() - (now_us - x->begun_us) / 1000,
        .route_us = x->routed_us != 0 ? x->routed_us - x->begun_us : 0,
        .first_byte_us = first_us != 0 ? first_us - x->begun_us : 0,
        .first_token_us = token_us != 0 ? token_us - x->begun_us : 0,
        .duration_us = now_us - x->begun_us,
    };
    memcpy(fact->id, x->id, sizeof(fact->id));
    memcpy(fact->model, x->model, sizeof(fact->model));
}

/* Everything that is said when a request ends, however it does. */
static void
tell_end(struct exchange *x, unsigned status, bool cut, bool cancelled)
{
    struct lane *lane = x->client->lane;
    struct metrics_lane *m = &lane->shared->metrics;
    struct fact_decision *fact = fact_reserve(lane, sizeof(*fact));
    struct usage usage = {.prompt_tokens = 0};
    uint64_t now_us = lane_clock_us();

    if (x->state == EXCHANGE_STREAMING && !cut && !cancelled) {
        usage_find((struct slice){.ptr = x->tail, .len = x->tail_len}, &usage);
        counter_bump(&m->prompt_tokens, usage.prompt_tokens);
        counter_bump(&m->cached_tokens, usage.cached_tokens);
    }
    histogram_add(&m->duration, now_us - x->begun_us);
    if (fact != NULL) {
        fill_decision(x, status, now_us, fact);
        fact->cut = cut;
        fact->cancelled = cancelled;
        fact->prompt_tokens = usage.prompt_tokens;
        fact->cached_tokens = usage.cached_tokens;
        fact->cached_known = usage.cached_known;
        fact_commit(lane);
    }
}

/* The end */

static struct attempt_counts
counts_of(const struct exchange *x)
{
    struct node_shared *node = x->client->lane->node;

    return (struct attempt_counts){.board = node->board,
                                   .rank_inflight = node->rank_inflight};
}

static void
leave_pool(struct exchange *x)
{
    struct attempt_counts counts = counts_of(x);

    attempt_end(&x->choice, &counts);
    if (x->pool != NULL) {
        upstream_pool_put(x->client->lane, x->pool);
        x->pool = NULL;
    }
}

static void
free_exchange(struct exchange *x)
{
    struct lane *lane = x->client->lane;

    CHECK(x->upstream == NULL);
    inquiry_leave(x);
    deadline_clear(&x->deadline);
    leave_pool(x);
    x->client->exchange = NULL;
    gauge_add(&lane->node->inflight, -1);
    gauge_add(&lane->shared->streams, -1);
    x->next_free = lane->free_exchanges;
    lane->free_exchanges = x;
}

static void
let_go_of_upstream(struct exchange *x)
{
    if (x->upstream != NULL) {
        struct upstream *up = x->upstream;
        x->upstream = NULL;
        up->exchange = NULL;
        upstream_close(up);
    }
}

void
exchange_drop(struct exchange *x, unsigned status)
{
    tell_end(x, status, false, false);
    let_go_of_upstream(x);
    free_exchange(x);
}

void
exchange_end(struct exchange *x)
{
    struct client *client = x->client;

    tell_end(x, x->status, false, false);
    free_exchange(x);
    client_answered(client);
}

void
exchange_cancel(struct exchange *x)
{
    counter_bump(&x->client->lane->shared->metrics.cancelled, 1);
    tell_end(x, x->status, false, true);
    let_go_of_upstream(x);
    free_exchange(x);
}

void
exchange_cut(struct exchange *x)
{
    struct client *client = x->client;
    struct lane *lane = client->lane;
    bool length_unknown = x->body_kind == HTTP_BODY_CLOSE || x->unchunk;

    counter_bump(&lane->shared->metrics.cut, 1);
    counter_add(&lane->node->board->counters[x->pool->slot].streams_cut, 1);
    tell_outcome(x, FACT_CLOSED);
    tell_end(x, x->status, true, false);
    let_go_of_upstream(x);
    free_exchange(x);
    /* Where the framing cannot show that bytes are missing, a reset does. */
    client_close(client, length_unknown);
}

/* Attempts */

static const char *
fault_text(const struct attempt *a)
{
    switch (a->fault) {
    case ATTEMPT_CONNECT:
        return "could not connect";
    case ATTEMPT_EXHAUSTED:
        return "no descriptor, port or memory here to connect";
    case ATTEMPT_CONNECT_TIMEOUT:
        return "connecting timed out";
    case ATTEMPT_FIRST_BYTE_TIMEOUT:
        return "no answer in time";
    case ATTEMPT_CLOSED:
        return "closed without an answer";
    case ATTEMPT_BAD:
        return "did not answer in HTTP/1.1";
    case ATTEMPT_STATUS:
        return "answered";
    }
    return "failed";
}

static void
refuse_all_failed(struct exchange *x)
{
    char text[1024];
    struct buf message;

    buf_init(&message, sizeof(text));
    buf_printf(&message, "%u attempt%s failed:", x->attempts_count,
               x->attempts_count == 1 ? "" : "s");
    for (uint32_t i = 0; i < x->attempts_count; i++) {
        const struct attempt *a = &x->attempts[i];
        buf_printf(&message, "%s %s %s", i == 0 ? "" : ",", a->worker,
                   fault_text(a));
        if (a->fault == ATTEMPT_STATUS) {
            buf_printf(&message, " %u", a->status);
        }
    }
    (void)snprintf(text, sizeof(text), "%.*s", (int)message.len,
                   message.ptr != NULL ? message.ptr : "");
    buf_fini(&message);
    counter_bump(&x->client->lane->shared->metrics.all_failed, 1);
    reply_error(x->client, 502, "all_attempts_failed", text);
}

static void
refuse_unplaced(struct exchange *x, int outcome)
{
    struct metrics_lane *m = &x->client->lane->shared->metrics;
    char text[160];

    if (x->attempts_count != 0) {
        refuse_all_failed(x);
    } else if (outcome == ROUTE_E_NO_MODEL) {
        counter_bump(&m->requests_no_model, 1);
        (void)snprintf(text, sizeof(text), "no worker serves the model '%s'",
                       x->model);
        reply_error(x->client, 404, "model_not_found", text);
    } else {
        counter_bump(&m->requests_no_worker, 1);
        reply_error(x->client, 503, "no_worker",
                    "no worker is healthy, connected and free to take this "
                    "request; see `kvasir status`");
    }
}

static void
count_mode(struct exchange *x)
{
    struct metrics_lane *m = &x->client->lane->shared->metrics;

    counter_bump(&m->forwarded, 1);
    counter_bump(&m->imbalanced, x->choice.elect.imbalanced);
    if (x->choice.exact) {
        counter_bump(&m->exact, 1);
        counter_bump(&m->tokens_matched, x->choice.best.tokens);
    } else {
        counter_bump(&m->blocks_matched, x->choice.elect.overlap);
    }
    switch (x->choice.elect.mode) {
    case ELECT_AFFINITY:
        counter_bump(&m->mode_affinity, 1);
        break;
    case ELECT_BALANCE:
        counter_bump(&m->mode_balance, 1);
        break;
    case ELECT_POLICY:
        counter_bump(&m->mode_policy, 1);
        break;
    }
}

/* What the engine is told of the choice. */
static void
write_hints(struct exchange *x)
{
    const struct route_choice *choice = &x->choice;
    int len = 0;

    if (choice->placed && choice->best.tokens != 0) {
        len = snprintf(x->hints, sizeof(x->hints), "x-kvasir-tier: %s\r\n",
                       event_tier_name((enum tier)choice->best.tier));
    }
    if (choice->ranked) {
        len += snprintf(x->hints + len, sizeof(x->hints) - (size_t)len,
                        "X-data-parallel-rank: %u\r\n", choice->best.rank);
    }
    CHECK(len >= 0 && (size_t)len < sizeof(x->hints));
    x->hints_len = (uint32_t)len;
}

/* Chooses a worker and takes hold of what the attempt needs of it. The route
 * scratch holds this request. */
static int
elect(struct exchange *x)
{
    struct lane *lane = x->client->lane;
    struct node_shared *node = lane->node;

    qsbr_online(&node->qsbr, lane->shared->reader);
    struct route_world world = shared_world(node);
    inquiry_know(lane, &world, x->body);
    int outcome =
        route_elect(&lane->route, &world, &x->tried, &lane->rng, &x->choice);
    if (outcome == 0) {
        uint32_t worker = x->choice.elect.worker;
        x->pool = upstream_pool_get(lane, world.view, worker);
        x->watched = worker_set_has(&world.view->watched, worker);
        x->total = lane->route.total;
        x->total_whole = lane->route.tokens.prompt.whole;
        struct attempt_counts counts = counts_of(x);
        attempt_begin(&x->choice, &lane->route, &counts);
        write_hints(x);
        counter_bump(&lane->shared->metrics.inexact,
                     !x->choice.exact &&
                         worker_set_has(&world.tokens.view->workers, worker));
    }
    qsbr_offline(lane->shared->reader);
    if (outcome == 0 && x->pool == NULL) {
        leave_pool(x);
        return ROUTE_E_NO_WORKER;
    }
    return outcome;
}

/* The scratch has served other requests since the first attempt. */
static void
read_again(struct exchange *x)
{
    struct route_scratch *route = &x->client->lane->route;

    if (x->routed) {
        CHECK(route_read(route, x->body, x->rendered) == 0);
    } else {
        route_read_nothing(route);
    }
}

static void
note_failure(struct exchange *x, enum attempt_fault fault, unsigned status)
{
    static const enum fact_result results[] = {
        [ATTEMPT_CONNECT] = FACT_CONNECT,
        [ATTEMPT_CONNECT_TIMEOUT] = FACT_TIMEOUT,
        [ATTEMPT_FIRST_BYTE_TIMEOUT] = FACT_TIMEOUT,
        [ATTEMPT_CLOSED] = FACT_CLOSED,
        [ATTEMPT_BAD] = FACT_CLOSED,
        [ATTEMPT_STATUS] = FACT_STATUS,
    };
    struct lane *lane = x->client->lane;
    struct metrics_lane *m = &lane->shared->metrics;
    struct counter *counters[] = {
        [ATTEMPT_CONNECT] = &m->attempts_connect,
        [ATTEMPT_EXHAUSTED] = &m->attempts_connect,
        [ATTEMPT_CONNECT_TIMEOUT] = &m->attempts_timeout,
        [ATTEMPT_FIRST_BYTE_TIMEOUT] = &m->attempts_timeout,
        [ATTEMPT_CLOSED] = &m->attempts_closed,
        [ATTEMPT_BAD] = &m->attempts_bad,
        [ATTEMPT_STATUS] = &m->attempts_status,
    };
    struct attempt *a = &x->attempts[x->attempts_count++];

    a->fault = fault;
    a->status = status;
    memcpy(a->worker, x->pool->worker.id, sizeof(a->worker));
    counter_bump(counters[fault], 1);
    if (fault != ATTEMPT_EXHAUSTED) {
        tell_outcome(x, results[fault]);
    }
    struct attempt_counts counts = counts_of(x);
    attempt_fail(&x->choice, &counts, &x->tried, fault != ATTEMPT_EXHAUSTED);
    leave_pool(x);
}

enum attempt_fault
exchange_fault_of(int outcome)
{
    return outcome == UPSTREAM_E_EXHAUSTED ? ATTEMPT_EXHAUSTED
                                           : ATTEMPT_CONNECT;
}

/* Goes through the candidates until one takes the request or none is left. */
static void
place(struct exchange *x)
{
    struct lane *lane = x->client->lane;
    uint32_t attempts_max = lane->node->config->policy.attempts_max;

    for (;;) {
        if (x->attempts_count == attempts_max ||
            x->attempts_count == EDGE_ATTEMPTS_MAX) {
            refuse_all_failed(x);
            return;
        }
        int outcome = elect(x);
        if (outcome != 0) {
            refuse_unplaced(x, outcome);
            return;
        }
        if (x->routed_us == 0) {
            x->routed_us = lane_clock_us();
            histogram_add(&lane->shared->metrics.route,
                          x->routed_us - x->begun_us);
        }
        tell_learn(x, &lane->route);
        counter_add(&lane->node->board->counters[x->pool->slot].requests, 1);
        outcome = upstream_begin(x);
        if (outcome == 0) {
            return;
        }
        note_failure(x, exchange_fault_of(outcome), 0);
    }
}

void
exchange_start(struct exchange *x)
{
    if (x->routed && inquiry_begin(x)) {
        x->state = EXCHANGE_ASKING;
        lane_time_tokens(x->client->lane, &x->deadline);
    } else {
        x->state = EXCHANGE_CONNECTING;
        place(x);
    }
}

void
exchange_go_on(struct exchange *x)
{
    CHECK(x->state == EXCHANGE_ASKING);
    inquiry_leave(x);
    deadline_clear(&x->deadline);
    x->state = EXCHANGE_CONNECTING;
    read_again(x);
    place(x);
}

void
exchange_expired(struct exchange *x)
{
    struct lane *lane = x->client->lane;

    lane->late_in_row++;
    counter_bump(&lane->shared->metrics.tokens_late, 1);
    exchange_go_on(x);
}

void
exchange_failed(struct exchange *x, enum attempt_fault fault, unsigned status)
{
    struct lane *lane = x->client->lane;

    CHECK(x->upstream == NULL && x->state != EXCHANGE_STREAMING);
    counter_add(&lane->node->board->counters[x->pool->slot].retries, 1);
    note_failure(x, fault, status);
    counter_bump(&lane->shared->metrics.retries, 1);
    x->state = EXCHANGE_CONNECTING;
    x->retried_stale = false;
    read_again(x);
    place(x);
}

void
exchange_answered(struct exchange *x)
{
    struct lane *lane = x->client->lane;
    struct metrics_lane *m = &lane->shared->metrics;

    x->first_byte_us = lane_clock_us();
    histogram_add(&m->first_byte, x->first_byte_us - x->begun_us);
    count_mode(x);
    fleet_lease_answered(&x->choice.lease, lane->node->board);
    tell_outcome(x, x->status == 500 ? FACT_STATUS : FACT_ANSWERED);
    if (x->status < 400) {
        counter_bump(&m->answers_2xx, 1);
    } else if (x->status < 500) {
        counter_bump(&m->answers_4xx, 1);
    } else {
        counter_bump(&m->answers_5xx, 1);
    }
}

void
exchange_spoke(struct exchange *x)
{
    x->first_token_us = lane_clock_us();
    histogram_add(&x->client->lane->shared->metrics.first_token,
                  x->first_token_us - x->begun_us);
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
