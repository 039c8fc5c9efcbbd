/*
 * Answers that nodes share by a Redis: the first request of a kind asks it before
 * it asks an engine, and what an engine answers goes there. Each lane has a
 * connection of its own, which it never waits for: who asks holds nothing meanwhile
 * but his place among the open requests, for answer_cache.redis_wait at most.
 *
 * Two commands are one question: for the marks of what was cleared, and for the
 * answer (redis_marks.h). Without marks an answer is neither taken nor sent. Of
 * what comes nothing is believed that was not sealed by the nodes' secret.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "node/answers/answers.h"
#include "node/base/list.h"
#include "node/base/log.h"
#include "node/edge/answer_internal.h"
#include "node/redis/redis.h"
#include "node/redis/redis_marks.h"
#include "node/redis/redis_refusal.h"
#include "node/redis/redis_seal.h"

#define SEALED_MORE     ((size_t)1 << 10) /* beside an answer's body */
#define REFUSALS_LOG_US UINT64_C(60000000)

static uint64_t
wall_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* The connection */

static void
on_changed(void *context, bool open, const char *why)
{
    struct lane *lane = context;

    gauge_set(&lane->shared->redis_open, open);
    if (open) {
        LOG_INFO("redis_open", KV("lane", lane->number));
    } else {
        LOG_WARNING(
            "redis_away", KV("lane", lane->number), KV("why", why),
            KV("hint",
               "answers are kept in this node's memory alone until it is back: "
               "look at answer_cache.redis, and at that server"));
    }
}

/* Of what Redis has under a name. */
static size_t
bytes_max(const struct lane *lane)
{
    return answers_size_max(lane->node->answers) + SEALED_MORE;
}

/* Who refuses one answer refuses the next, too: a line a minute. */
static void ON_LANE
log_refusal(struct lane *lane, enum redis_refusal refusal, struct slice said)
{
    uint64_t dropped;

    if (gate_pass(&lane->redis_refusals, lane_now_us(lane), REFUSALS_LOG_US, 1,
                  &dropped)) {
        LOG_WARNING("redis_refused", KV("lane", lane->number),
                    KV("why", redis_refusal_why(refusal)), KV("said", said),
                    KV("since_last", dropped),
                    KV("hint", redis_refusal_hint(refusal)));
    }
}

/* It was sent an answer. That it went away meanwhile is told elsewhere. */
static void
on_kept(struct redis_call *call, const struct resp *reply)
{
    role_is_lane();
    struct lane *lane = LIST_OWNER(call, struct lane, redis_keeps);
    struct metrics_lane *m = &lane->shared->metrics;
    struct counter *counts[REDIS_REFUSALS] = {
        [REDIS_FULL] = &m->answer_cache_shared_full,
        [REDIS_READ_ONLY] = &m->answer_cache_shared_read_only,
        [REDIS_PASSWORD] = &m->answer_cache_shared_password,
        [REDIS_RIGHTS] = &m->answer_cache_shared_rights,
        [REDIS_OTHER] = &m->answer_cache_shared_refused_other,
    };

    if (reply != NULL && reply->item.kind == RESP_ERROR) {
        enum redis_refusal refusal = redis_refusal_of(reply->item.bytes);
        counter_bump(counts[refusal], 1);
        log_refusal(lane, refusal, reply->item.bytes);
    }
}

int
sharing_lane_init(struct lane *lane)
{
    const struct node_redis *shared = lane->node->redis;
    uint8_t nonce[REDIS_NONCE_BYTES];
    struct redis_marks_text text;
    struct slice greeting[REDIS_MARKS_SET];

    if (!redis_nonce(nonce)) {
        return -ENOMEM;
    }
    redis_marks_begin(nonce, &text, greeting);
    lane->redis_keeps.done = on_kept;
    const struct redis_config config = {
        .place = &shared->place,
        .secret = &shared->secret,
        .timeout_ms = lane->node->config->answer_cache.redis_wait_ms,
        .bytes_max = bytes_max(lane),
        .unsent_max = 2 * bytes_max(lane) + ((size_t)64 << 10),
        .greeting = greeting,
        .greeting_count = REDIS_MARKS_SET,
        .changed = on_changed,
        .context = lane,
    };
    return redis_new(&lane->redis, &lane->loop, &config);
}

/* Asking */

/* Nobody has set the mark of all answers, or it was evicted. */
static void ON_LANE
begin_marks(struct lane *lane)
{
    uint8_t nonce[REDIS_NONCE_BYTES];
    struct redis_marks_text text;
    struct slice words[REDIS_MARKS_SET];

    if (redis_nonce(nonce)) {
        redis_marks_begin(nonce, &text, words);
        (void)!redis_send(lane->redis, words, REDIS_MARKS_SET, NULL);
    }
}

static void ON_LANE
miss(struct exchange *x, struct counter *count)
{
    counter_bump(count, 1);
    sharing_forget(x);
    caching_go_on(x);
}

/* What Redis has under the name. */
static void ON_LANE
take(struct exchange *x, struct slice sealed)
{
    struct lane *lane = x->client->lane;
    struct metrics_lane *m = &lane->shared->metrics;
    struct edge_caching *c = &x->caching;
    uint64_t ttl_ms = lane->answer_cache.ttl_ms;
    struct answers_kept *answer;
    struct redis_facts facts;

    if (redis_unseal(&lane->node->redis->secret, &c->key, sealed,
                     answers_size_max(lane->node->answers), &facts,
                     &answer) != 0) {
        miss(x, &m->answer_cache_shared_bad);
        return;
    }
    uint64_t now_ms = wall_ms(); /* and another's clock may be ahead */
    uint64_t age_ms = now_ms > facts.made_ms ? now_ms - facts.made_ms : 0;
    if (!c->marked || facts.cleared != c->cleared || age_ms >= ttl_ms) {
        free(answer);
        miss(x, &m->answer_cache_shared_misses);
        return;
    }
    counter_bump(&m->answer_cache_shared_hits, 1);
    c->why = "redis";
    caching_found(x, answer, age_ms * 1000);
}

static void
on_reply(struct redis_call *call, const struct resp *reply)
{
    role_is_lane();
    struct exchange *x = LIST_OWNER(call, struct exchange, caching.call);
    struct edge_caching *c = &x->caching;
    struct lane *lane = x->client->lane;
    struct metrics_lane *m = &lane->shared->metrics;

    if (reply == NULL || reply->item.kind == RESP_ERROR) {
        miss(x, &m->answer_cache_shared_failed);
        return;
    }
    if (c->hears) {
        c->hears = false;
        c->marked = redis_marks_read(reply, &c->cleared);
        if (!c->marked) {
            begin_marks(lane);
        }
        if (call->waits == 0) { /* it wants no answer that is there */
            miss(x, &m->answer_cache_shared_misses);
        }
        return;
    }
    if (reply->item.kind == RESP_BYTES && reply->item.bytes.len != 0) {
        take(x, reply->item.bytes);
    } else {
        miss(x, &m->answer_cache_shared_misses);
    }
}

bool
sharing_ask(struct exchange *x)
{
    struct lane *lane = x->client->lane;
    struct edge_caching *c = &x->caching;
    struct redis_marks_text text;
    struct slice marks[REDIS_MARKS_ASK];
    char name[REDIS_NAME_MAX];
    char last[24];

    if (!redis_is_open(lane->redis)) {
        counter_bump(&lane->shared->metrics.answer_cache_shared_away, 1);
        return false;
    }
    redis_marks_ask(&c->key, &text, marks);
    /* A node of more memory may have sent more than is taken here. */
    (void)snprintf(last, sizeof(last), "%zu", bytes_max(lane) - 1);
    const struct slice get[4] = {SLICE("GETRANGE"),
                                 {name, redis_name(&c->key, name)},
                                 SLICE("0"),
                                 slice_of(last)};
    c->call = (struct redis_call){.done = on_reply};
    bool asked = redis_send(lane->redis, marks, REDIS_MARKS_ASK, &c->call);
    if (asked && !c->anew && !redis_send(lane->redis, get, 4, &c->call)) {
        sharing_forget(x);
        asked = false;
    }
    if (!asked) {
        counter_bump(&lane->shared->metrics.answer_cache_shared_away, 1);
        return false;
    }
    c->hears = true;
    x->read = false;
    return true;
}

void
sharing_forget(struct exchange *x)
{
    struct lane *lane = x->client->lane;

    if (lane->redis != NULL) {
        redis_forget(lane->redis, &x->caching.call);
    }
}

/* Keeping */

void
sharing_keep(struct exchange *x, const struct answers_kept *answer)
{
    struct lane *lane = x->client->lane;
    struct metrics_lane *m = &lane->shared->metrics;
    const struct edge_caching *c = &x->caching;
    struct redis_facts facts = {.made_ms = wall_ms(), .cleared = c->cleared};
    uint8_t nonce[REDIS_NONCE_BYTES];
    char name[REDIS_NAME_MAX];
    char ttl[24];
    struct buf sealed;

    (void)snprintf(ttl, sizeof(ttl), "%u", lane->answer_cache.ttl_ms);
    buf_init(&sealed, answer->len + SEALED_MORE);
    bool good = lane->redis != NULL && redis_is_open(lane->redis) &&
                redis_nonce(nonce) &&
                redis_seal(&lane->node->redis->secret, &c->key, &facts, nonce,
                           answer, &sealed) == 0 &&
                !sealed.failed;
    const struct slice words[5] = {SLICE("SET"),
                                   {name, redis_name(&c->key, name)},
                                   buf_slice(&sealed),
                                   SLICE("PX"),
                                   slice_of(ttl)};
    good = good && redis_send(lane->redis, words, 5, &lane->redis_keeps);
    counter_bump(
        good ? &m->answer_cache_shared_sent : &m->answer_cache_shared_unsent,
        1);
    buf_fini(&sealed);
}
