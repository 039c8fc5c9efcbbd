/*
 * What a request takes of its tenant's limits and of its model's, and what it
 * has spent of them.
 *
 * A request is spent when it is let through. Of tokens its prompt is spent when
 * its answer begins, a stream's tokens as they pass, and the rest when it ends,
 * by what its engine reported; until then what it may need is open. So a minute's
 * tokens are those of that minute, and a client that leaves pays for what it
 * got. Who is sent to no worker, or got an error, spends no tokens.
 *
 * Of a mesh's limit a node has a part at hand, and gets more as it is asked for
 * (limits_meter.h). A request that fits, but not into what is at hand, waits for
 * that: each tick of the lane looks who can go on, in the order in which they
 * came.
 */
#include <stdio.h>
#include <time.h>

#include "node/base/list.h"
#include "node/base/log.h"
#include "node/edge/edge_internal.h"
#include "node/limits/limits_text.h"
#include "node/route/route_needs.h"

#define EVENTS_SLACK 8U  /* of a stream: those that have no token */
#define EVENTS_STEP  32U /* settled at one time */
#define MESSAGE_MAX  256U
#define WAIT_US      UINT64_C(3000000) /* for what is not at hand */
#define SECOND_LEN   19U               /* of 2024-05-01T10:00:59 */

/* Gates */

/* Of n that were taken at its gates, up to the one that ends them, these were
 * spent. */
static void
settle_before(struct exchange *x, unsigned end, enum limits_of of, uint64_t n,
              uint64_t spent)
{
    for (unsigned i = 0; i < end; i++) {
        struct limits_gate *gate = x->limit.gates.at[i][of];
        if (gate != NULL) {
            limits_gate_settle(gate, n, spent);
        }
    }
}

static void
settle(struct exchange *x, enum limits_of of, uint64_t n, uint64_t spent)
{
    settle_before(x, LIMITS_WHOSES, of, n, spent);
}

/* Takes n at all of its gates, or at none. */
static enum limits_take
take(struct exchange *x, enum limits_of of, uint64_t n)
{
    struct edge_limit *limit = &x->limit;
    bool waits = limit->since_us != 0;

    limit->needs = n;
    limit->short_of = (uint8_t)of;
    for (unsigned i = 0; i < LIMITS_WHOSES; i++) {
        struct limits_gate *gate = limit->gates.at[i][of];
        enum limits_take outcome =
            gate != NULL ? limits_gate_ask(gate, n, waits) : LIMITS_TAKEN;
        if (outcome != LIMITS_TAKEN) {
            limit->short_at = gate;
            limit->short_whose = (uint8_t)i;
            settle_before(x, i, of, n, 0);
            return outcome;
        }
    }
    return LIMITS_TAKEN;
}

/* Of tokens, which are spent piece by piece. */
static void
spend(struct edge_limit *limit, struct exchange *x, uint64_t taken,
      uint64_t spent)
{
    CHECK(taken <= limit->taken);
    settle(x, LIMITS_TOKENS, taken, spent);
    limit->taken -= taken;
    limit->spent += spent;
}

static bool
counts_tokens(const struct edge_limit *limit)
{
    bool any = false;

    for (unsigned i = 0; i < LIMITS_WHOSES; i++) {
        any = any || limit->gates.at[i][LIMITS_TOKENS] != NULL;
    }
    return limit->holds && any;
}

/* What passes of its answer counts: against its tenant's limits, or for what its
 * tenant is charged if its client leaves. */
static bool
is_counted(const struct exchange *x)
{
    return counts_tokens(&x->limit) || x->client->framing.admission.keyed;
}

/* Refusing */

static struct limits_standing
standing_of(const struct edge_limit *limit)
{
    return limits_gate_standing(limit->short_at, limit->needs);
}

/* 0: it never fits. */
static uint64_t
wait_s(const struct edge_limit *limit)
{
    struct limits_standing s = standing_of(limit);

    return limit->needs > s.limit ? 0
           : s.wait_ms > 1000     ? (s.wait_ms + 999) / 1000
                                  : 1;
}

/* In the form of the API that was asked. */
static void ON_LANE
answer_refusal(struct exchange *x, const char *message)
{
    reply_error(x->client, 429, "rate_limit_exceeded", message);
}

static void ON_LANE
refuse(struct exchange *x)
{
    static const char *const reasons[2][LIMITS_OFS] = {
        {"over its tenant's limit of requests",
         "over its tenant's limit of tokens",
         "over its tenant's limit of concurrent requests"},
        {"over its model's limit of requests",
         "over its model's limit of tokens",
         "over its model's limit of concurrent requests"},
    };
    static const char *const whose[LIMITS_WHOSES] = {
        [LIMITS_TENANT] = "",
        [LIMITS_TENANT_MODEL] = " for this model",
        [LIMITS_MODEL] = " for this model and all its clients",
    };
    struct edge_limit *limit = &x->limit;
    char message[MESSAGE_MAX];
    char when[64] = "it can never fit";

    limit->refused = true;
    struct limits_standing s = standing_of(limit);
    uint64_t seconds = wait_s(limit);
    if (seconds != 0) {
        (void)snprintf(when, sizeof(when), "try again in %llu s",
                       (unsigned long long)seconds);
    }
    (void)snprintf(message, sizeof(message),
                   "rate limit of %s reached%s: limit %llu, used %llu, "
                   "requested %llu; %s",
                   limits_of_name((enum limits_of)limit->short_of),
                   whose[limit->short_whose], (unsigned long long)s.limit,
                   (unsigned long long)(s.limit - s.left),
                   (unsigned long long)limit->needs, when);
    x->dispatch.choice.elect.reason =
        reasons[limit->short_whose == LIMITS_MODEL][limit->short_of];
    answer_refusal(x, message);
}

/* Waiting */

static bool
is_late(const struct exchange *x, uint64_t now_us)
{
    return now_us >= x->limit.since_us + WAIT_US || waiting_is_over(x, now_us);
}

static void
leave(struct exchange *x)
{
    struct edge_limit *limit = &x->limit;

    if (limit->waits) {
        limits_gate_leave(limit->short_at, limit->needs);
        limit->waits = false;
        deadline_clear(&x->deadline);
    }
}

/* It has not got all that it needs. */
static void ON_LANE
stop(struct exchange *x, enum limits_take outcome)
{
    struct lane *lane = x->client->lane;
    struct edge_limit *limit = &x->limit;

    if (outcome == LIMITS_WAITS) {
        if (limit->since_us == 0) {
            limit->since_us = lane_now_us(lane);
        }
        if (!is_late(x, lane_now_us(lane))) {
            limits_gate_wait(limit->short_at, limit->needs);
            limit->waits = true;
            inquiry_forget(x);
            x->read = false;
            lane_time(lane, &x->deadline, LANE_TIMEOUT_LIMIT);
            return;
        }
        counter_add(&limit->short_at->refused, 1);
    }
    refuse(x);
}

void
limit_look(struct lane *lane, uint64_t now_us)
{
    struct deadline *next;

    for (struct deadline *d = lane->expiries[LANE_TIMEOUT_LIMIT].first;
         d != NULL; d = next) {
        struct exchange *x = LIST_OWNER(d, struct exchange, deadline);
        const struct edge_limit *limit = &x->limit;
        next = d->next;
        CHECK(limit->waits);
        if (is_late(x, now_us) ||
            limits_gate_look(limit->short_at, limit->needs, true) !=
                LIMITS_WAITS) {
            leave(x);
            exchange_limited(x);
        }
    }
}

/* A request's way */

static bool ON_LANE
take_request(struct exchange *x)
{
    struct edge_limit *limit = &x->limit;
    enum limits_take outcome = take(x, LIMITS_CONCURRENT, 1);

    if (outcome == LIMITS_TAKEN && !limit->through) {
        outcome = take(x, LIMITS_REQUESTS, 1);
        if (outcome != LIMITS_TAKEN) {
            settle(x, LIMITS_CONCURRENT, 1, 0);
        }
    }
    limit->holds = outcome == LIMITS_TAKEN;
    if (!limit->holds) {
        stop(x, outcome);
        return false;
    }
    return true;
}

bool
limit_begin(struct exchange *x, struct slice model)
{
    struct lane *lane = x->client->lane;
    struct node_shared *node = lane->node;
    struct edge_limit *limit = &x->limit;

    if (publish_get(&node->limits) == NULL) {
        return true;
    }
    qsbr_online(&node->qsbr, lane->shared->reader);
    const struct limits_view *view = publish_get(&node->limits);
    bool any = view != NULL &&
               limits_view_find(view, x->dispatch.tenant, model, &limit->gates);
    qsbr_offline(lane->shared->reader);
    return !any || take_request(x);
}

bool
limit_again(struct exchange *x)
{
    return x->limit.holds || take_request(x);
}

/* What it took of its requests comes to this, unless it was settled before. */
static void
settle_request(struct exchange *x, uint64_t spent)
{
    if (!x->limit.through) {
        settle(x, LIMITS_REQUESTS, 1, spent);
        x->limit.through = spent != 0;
    }
}

void
limit_let_through(struct exchange *x)
{
    if (x->limit.holds) {
        settle_request(x, 1);
    }
}

bool
limit_tokens(struct exchange *x)
{
    struct edge_limit *limit = &x->limit;
    struct route_needs of = {.prompt = 0};

    if (is_counted(x) && x->dispatch.routed) {
        of = route_needs(&x->client->lane->route, x->body.len);
    }
    limit->prompt = of.prompt;
    limit->counted = of.counted;
    if (!limit->holds) {
        return true;
    }
    if (counts_tokens(limit)) {
        uint64_t needs = of.prompt + of.answer != 0 ? of.prompt + of.answer : 1;
        enum limits_take outcome = take(x, LIMITS_TOKENS, needs);
        if (outcome != LIMITS_TAKEN) {
            settle_request(x, 0);
            settle(x, LIMITS_CONCURRENT, 1, 0);
            limit->holds = false;
            stop(x, outcome);
            return false;
        }
        limit->taken = needs;
    }
    settle_request(x, 1);
    return true;
}

void
limit_recount(struct exchange *x)
{
    struct edge_limit *limit = &x->limit;

    if (!counts_tokens(limit) || limit->counted || !x->dispatch.routed) {
        return;
    }
    uint64_t before = limit->prompt;
    struct route_needs of = route_needs(&x->client->lane->route, x->body.len);
    limit->prompt = of.prompt;
    limit->counted = of.counted;
    uint64_t n = limit->taken;
    uint64_t rest = n > before ? n - before : 0;
    limit->taken = rest + limit->prompt;
    for (unsigned i = 0; i < LIMITS_WHOSES; i++) {
        struct limits_gate *gate = limit->gates.at[i][LIMITS_TOKENS];
        if (gate != NULL) {
            limits_gate_change(gate, n, limit->taken);
        }
    }
}

/* Lines that follow an empty one begin an event; the frames of chunks look like
 * further empty lines. */
static void
count_events(struct edge_limit *limit, struct slice bytes)
{
    const char *at = bytes.ptr;
    const char *end = at + bytes.len;

    while (at < end) {
        const char *line = memchr(at, '\n', (size_t)(end - at));
        const char *stop = line != NULL ? line : end;
        size_t len = (size_t)(stop - at);
        bool empty = !limit->in_line && (len == 0 || (len == 1 && *at == '\r'));

        if (line == NULL) {
            limit->in_line = limit->in_line || len != 0;
            return;
        }
        limit->events += empty && limit->in_event;
        limit->in_event = !empty;
        limit->in_line = false;
        at = line + 1;
    }
}

/* Of the answer, as far as its events tell. */
static uint64_t
streamed(const struct edge_limit *limit)
{
    return limit->events > EVENTS_SLACK ? limit->events - EVENTS_SLACK : 0;
}

void
limit_pass(struct exchange *x, struct slice bytes)
{
    struct edge_limit *limit = &x->limit;

    if (!is_counted(x) || x->dispatch.status >= 300) {
        return;
    }
    if (!limit->begun) {
        limit->begun = true;
        uint64_t prompt =
            limit->prompt < limit->taken ? limit->prompt : limit->taken;
        spend(limit, x, prompt, prompt);
    }
    if (!x->dispatch.stream) {
        return;
    }
    count_events(limit, bytes);
    if (!counts_tokens(limit)) {
        return;
    }
    uint64_t all = limit->prompt + streamed(limit);
    if (all >= limit->spent + EVENTS_STEP) {
        uint64_t more = all - limit->spent;
        spend(limit, x, more < limit->taken ? more : limit->taken, more);
    }
}

static uint32_t
narrow(uint64_t tokens)
{
    return tokens < LIMITS_AMOUNT_MAX ? (uint32_t)tokens : LIMITS_AMOUNT_MAX;
}

struct usage
limit_usage(const struct exchange *x, const struct usage *told)
{
    const struct edge_limit *limit = &x->limit;
    const struct dispatch *d = &x->dispatch;
    /* Its client may have left while the worker was at its prompt. */
    bool works = d->state == DISPATCH_WAITING && d->sends != 0;

    if (told != NULL && (told->prompt_tokens | told->completion_tokens) != 0) {
        return *told;
    }
    return (struct usage){
        .prompt_tokens = limit->begun || works ? narrow(limit->prompt) : 0,
        .completion_tokens = narrow(streamed(limit)),
    };
}

void
limit_end(struct exchange *x, const struct usage *usage)
{
    struct edge_limit *limit = &x->limit;

    leave(x);
    if (!limit->holds) {
        return;
    }
    settle_request(x, 0); /* of who left before it was let through */
    if (counts_tokens(limit)) {
        uint64_t cost =
            (uint64_t)usage->prompt_tokens + usage->completion_tokens;
        spend(limit, x, limit->taken,
              cost > limit->spent ? cost - limit->spent : 0);
    }
    settle(x, LIMITS_CONCURRENT, 1, 0);
    limit->holds = false;
}

/* Headers */

/* Of its gates the one that has the least left. */
static bool
stands(const struct edge_limit *limit, enum limits_of of,
       struct limits_standing *s)
{
    bool any = false;

    for (unsigned i = 0; i < LIMITS_WHOSES; i++) {
        const struct limits_gate *gate = limit->gates.at[i][of];
        if (gate != NULL) {
            struct limits_standing one = limits_gate_standing(gate, 1);
            *s = !any || one.left < s->left ? one : *s;
            any = true;
        }
    }
    return any;
}

/* Anthropic's clients read a time of day. */
static void
add_anthropic(struct buf *out, enum limits_of of,
              const struct limits_standing *s)
{
    char until[LOG_TIME_ROOM];
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME_COARSE, &now);
    log_time_text((uint64_t)now.tv_sec * 1000 +
                      (uint64_t)now.tv_nsec / 1000000 + s->reset_ms + 999,
                  until);
    until[SECOND_LEN] = 'Z';
    limits_text_anthropic(out, of, s, (struct slice){until, SECOND_LEN + 1});
}

void
limit_add_headers(struct buf *out, const struct exchange *x)
{
    const struct edge_limit *limit = &x->limit;
    struct limits_standing s;

    if (!limit->holds && !limit->refused) {
        return;
    }
    if (limit->refused && wait_s(limit) != 0) {
        buf_add_text(out, "Retry-After: ");
        buf_add_uint(out, wait_s(limit));
        buf_add(out, "\r\n", 2);
    }
    for (unsigned of = LIMITS_REQUESTS; of <= LIMITS_TOKENS; of++) {
        if (!stands(limit, (enum limits_of)of, &s)) {
            continue;
        }
        if (x->api == SCAN_API_MESSAGES) {
            add_anthropic(out, (enum limits_of)of, &s);
        } else {
            limits_text_openai(out, (enum limits_of)of, &s);
        }
    }
}
