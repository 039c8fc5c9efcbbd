/*
 * The cache of answers, as requests meet it. An answer is recorded as it goes out
 * to its client, head and all, and taken apart when it is whole: so what is kept
 * is what the client got, whatever was done to it on its way. Replayed it has a
 * length, a stream too.
 *
 * A hit spends a request of its tenant's limits and no tokens: limits of requests
 * say how often somebody may ask, those of tokens what is computed for him, and
 * nothing is. Who waits for the first of his kind spends his request then.
 */
#include <stdlib.h>

#include "node/answers/answers.h"
#include "node/answers/answers_rule.h"
#include "node/base/list.h"
#include "node/edge/answer_internal.h"

#define HEAD_MORE ((size_t)8 << 10) /* beside a body, and for its chunks */

/* Names */

static void
bypass(struct exchange *x, enum answers_pass pass)
{
    struct metrics_lane *m = &x->client->lane->shared->metrics;
    struct counter *counts[ANSWERS_PASSES] = {
        [ANSWERS_PATH] = &m->answer_cache_bypass_path,
        [ANSWERS_ASKED] = &m->answer_cache_bypass_asked,
        [ANSWERS_SAMPLED] = &m->answer_cache_bypass_sampled,
        [ANSWERS_STATE] = &m->answer_cache_bypass_state,
        [ANSWERS_MEDIA] = &m->answer_cache_bypass_media,
        [ANSWERS_SHAPE] = &m->answer_cache_bypass_shape,
    };

    CHECK(pass > ANSWERS_MAY && pass < ANSWERS_PASSES);
    x->caching.verdict = CACHING_BYPASS;
    x->caching.why = answers_pass_name(pass);
    counter_bump(counts[pass], 1);
}

/* Fields that say who asks, or of which version, organisation or trial, or what
 * SGLang (0.5.23) puts into its answers. A key of the node's own is a tenant, which
 * counts already. */
static bool
counts_field(const struct exchange *x, const struct http_header *h)
{
    if (h->field == HTTP_FIELD_AUTHORIZATION ||
        slice_equal_nocase(h->name, ADMIT_KEY_FIELD)) {
        return !x->client->framing.admission.keyed;
    }
    return slice_begins_nocase(h->name, SLICE("anthropic-")) ||
           slice_begins_nocase(h->name, SLICE("openai-")) ||
           slice_begins_nocase(h->name, SLICE("x-sglext-")) ||
           slice_equal_nocase(h->name, SLICE("api-key"));
}

/* The body of the request in the scratch has that name; this is that of all that
 * its answer depends on. */
static struct key_wide ON_LANE
name_whole(struct exchange *x, const struct http_head *head,
           struct key_wide name)
{
    struct lane *lane = x->client->lane;
    struct node_shared *node = lane->node;
    uint64_t seed = answers_seed(node->answers);

    name = answers_form_add(name, head->target, seed);
    for (size_t i = 0; i < head->headers_count; i++) {
        const struct http_header *h = &head->headers[i];
        if (counts_field(x, h)) {
            name = answers_form_add(name, h->name, seed);
            name = answers_form_add(name, h->value, seed);
        }
    }
    /* What engines tell of a model's version: where it was loaded from. */
    qsbr_online(&node->qsbr, lane->shared->reader);
    const struct fleet_model *model =
        fleet_view_model(fleet_view_get(node->board), lane->route.model);
    if (model != NULL) {
        name = answers_form_add(name, model->fact[MODEL_ROOT], seed);
        name = answers_form_add(name, model->fact[MODEL_PARENT], seed);
    }
    qsbr_offline(lane->shared->reader);
    return name;
}

static void ON_LANE
set_key(struct exchange *x, const struct http_head *head,
        const struct answers_form *form)
{
    struct edge_resembling *r = &x->caching.resembling;

    x->caching.key = (struct answers_key){
        .name = name_whole(x, head, form->name),
        .tenant = x->tenant,
        .model = key_digest(x->client->lane->route.model),
    };
    r->may = r->may && form->holed;
    if (r->may) {
        r->kin = name_whole(x, head, form->kin);
    }
}

static struct answers_control
control_of(const struct http_head *head)
{
    struct answers_control control = {.no_store = false};

    for (size_t i = 0; i < head->headers_count; i++) {
        const struct http_header *h = &head->headers[i];
        if (h->field == HTTP_FIELD_OTHER &&
            slice_equal_nocase(h->name, SLICE("cache-control"))) {
            answers_control_read(h->value, &control);
        }
    }
    return control;
}

void
caching_read(struct exchange *x, const struct http_head *head)
{
    struct lane *lane = x->client->lane;
    struct answers_control control = control_of(head);
    enum answers_pass pass = ANSWERS_PATH;
    struct slice question = SLICE("");
    struct answers_form form;

    if (control.no_store) {
        pass = ANSWERS_ASKED;
    } else if (x->dispatch.routed && x->stored != 0) {
        pass = ANSWERS_STATE;
    } else if (x->dispatch.routed) {
        question = resembling_question(x);
        pass = answers_judge_around(&lane->route.scan, x->body, question,
                                    lane->answer_cache.seeded != 0,
                                    answers_seed(lane->node->answers), &form);
    }
    if (pass != ANSWERS_MAY) {
        bypass(x, pass);
        return;
    }
    resembling_read(x, question);
    set_key(x, head, &form);
    x->caching.verdict = CACHING_MISS;
    x->caching.asks = true;
    x->caching.anew = control.no_cache;
}

/* Answering */

/* Frees x. */
static void ON_LANE
send_answer(struct exchange *x, const struct answers_kept *answer,
            uint64_t age_us)
{
    x->caching.verdict = CACHING_HIT;
    x->caching.age_s = (uint32_t)(age_us / 1000000);
    x->caching.alike = answer->alike;
    if (answer->alike != 0) {
        x->caching.why = "semantic";
    }
    x->dispatch.choice.elect.reason = "answered from the answer cache";
    counter_bump(&x->client->lane->shared->metrics.answer_cache_hits, 1);
    limit_let_through(x);
    reply_send(x->client, 200, answer->type,
               (struct slice){answer->body, answer->len});
}

static void ON_LANE
answer_from(struct exchange *x, const struct answers_kept *answer)
{
    struct lane *lane = x->client->lane;
    struct answers_key key = x->caching.key;
    uint64_t now_us = lane_now_us(lane);
    uint64_t kept_us =
        now_us > answer->since_us ? now_us - answer->since_us : 0;

    send_answer(x, answer, answer->age_us + kept_us);
    answers_give_back(lane->node->answers, &key, answer);
}

static void ON_LANE
follow(struct exchange *x)
{
    struct lane *lane = x->client->lane;

    limit_let_through(x);
    x->caching.follows = true;
    x->read = false;
    counter_bump(&lane->shared->metrics.answer_cache_waits, 1);
    lane_time(lane, &x->deadline, LANE_TIMEOUT_CACHE);
}

bool
caching_ask(struct exchange *x)
{
    struct lane *lane = x->client->lane;
    struct edge_caching *c = &x->caching;
    struct answers_asker asker = {
        .lane = lane->number, .leads = true, .anew = c->anew};
    struct answers_got got;

    c->asks = false;
    switch (answers_ask(lane->node->answers, &c->key, &asker, lane_now_us(lane),
                        &got)) {
    case ANSWERS_HIT:
        answer_from(x, got.answer);
        return true;
    case ANSWERS_FLYING:
        if (lane->answer_cache.wait_ms != 0) {
            follow(x);
            return true;
        }
        break;
    case ANSWERS_LEADS:
        c->flight = got.flight;
        c->records = true;
        if ((lane->redis != NULL && sharing_ask(x)) || resembling_ask(x)) {
            return true;
        }
        break;
    case ANSWERS_NONE:
        break;
    }
    counter_bump(&lane->shared->metrics.answer_cache_misses, 1);
    return false;
}

/* Waiting */

void
caching_go_on(struct exchange *x)
{
    if (x->caching.flight != NULL && resembling_ask(x)) {
        return;
    }
    deadline_clear(&x->deadline);
    x->caching.follows = false;
    counter_bump(&x->client->lane->shared->metrics.answer_cache_misses, 1);
    exchange_limited(x);
}

static void ON_LANE
look(struct exchange *x)
{
    struct lane *lane = x->client->lane;
    struct answers_asker asker = {.lane = lane->number};
    struct answers_got got;

    switch (answers_ask(lane->node->answers, &x->caching.key, &asker,
                        lane_now_us(lane), &got)) {
    case ANSWERS_HIT:
        deadline_clear(&x->deadline);
        x->caching.follows = false;
        answer_from(x, got.answer);
        break;
    case ANSWERS_FLYING:
        if (waiting_is_over(x, lane_now_us(lane))) {
            caching_go_on(x);
        }
        break;
    case ANSWERS_LEADS:
    case ANSWERS_NONE:
        caching_go_on(x);
        break;
    }
}

void
caching_look(struct lane *lane)
{
    struct deadline *next;

    for (struct deadline *d = lane->expiries[LANE_TIMEOUT_CACHE].first;
         d != NULL; d = next) {
        next = d->next;
        look(LIST_OWNER(d, struct exchange, deadline));
    }
}

void
caching_expired(struct exchange *x)
{
    CHECK(x->caching.follows);
    caching_go_on(x);
}

/* While a node drains, lanes end one by one, and those that still wait look at
 * each tick. */
static void ON_LANE
wake_lanes(const struct lane *lane, uint64_t lanes)
{
    const struct node_shared *node = lane->node;

    for (uint32_t i = 0; i < node->lanes_count && lanes != 0; i++) {
        if ((lanes >> i & 1) != 0 && gauge_read(&node->draining) == 0) {
            (void)uv_async_send(node->lanes[i].wakes);
        }
    }
}

/* Recording */

static void ON_LANE
free_record(struct exchange *x)
{
    struct edge_caching *c = &x->caching;
    struct lane *lane = x->client->lane;

    c->records = false;
    if (c->ptr != NULL) {
        lane_memory_give(&lane->memory, &lane->node->engines, c->ptr, c->size);
        c->ptr = NULL;
        c->len = 0;
    }
}

static void ON_LANE
land(struct exchange *x, struct answers_kept *answer)
{
    struct lane *lane = x->client->lane;
    struct edge_caching *c = &x->caching;

    CHECK(c->flight != NULL);
    uint64_t lanes = answers_land(lane->node->answers, &c->key, c->flight,
                                  answer, lane_now_us(lane));
    c->flight = NULL;
    resembling_forget(x);
    free_record(x);
    wake_lanes(lane, lanes);
}

void
caching_found(struct exchange *x, struct answers_kept *answer, uint64_t age_us)
{
    struct lane *lane = x->client->lane;
    struct answers *cache = lane->node->answers;
    struct answers_key key = x->caching.key;
    struct answers_flight *flight = x->caching.flight;

    CHECK(flight != NULL && x->caching.ptr == NULL);
    x->caching.flight = NULL;
    x->caching.records = false;
    resembling_forget(x);
    answer->age_us = age_us;
    send_answer(x, answer, age_us);
    wake_lanes(lane,
               answers_land(cache, &key, flight, answer, lane_now_us(lane)));
}

void
caching_drop(struct exchange *x)
{
    if (x->caching.flight != NULL) {
        counter_bump(&x->client->lane->shared->metrics.answer_cache_unkept, 1);
        land(x, NULL);
    }
}

/* Room for that many bytes in all. */
static bool ON_LANE
grow(struct exchange *x, size_t need)
{
    struct edge_caching *c = &x->caching;
    struct lane *lane = x->client->lane;
    size_t got;

    if (need > answers_size_max(lane->node->answers) + HEAD_MORE) {
        return false;
    }
    char *grown = lane_memory_take(&lane->memory, &lane->node->engines,
                                   c->len == 0 ? need : 2 * need, &got);
    if (grown == NULL) {
        return false;
    }
    if (c->ptr != NULL) {
        memcpy(grown, c->ptr, c->len);
        lane_memory_give(&lane->memory, &lane->node->engines, c->ptr, c->size);
    }
    c->ptr = grown;
    c->size = got;
    return true;
}

void
caching_pass(struct exchange *x, const struct iovec *parts, unsigned count)
{
    struct edge_caching *c = &x->caching;

    for (unsigned i = 0; i < count; i++) {
        size_t need = c->len + parts[i].iov_len;
        if (need > c->size && !grow(x, need)) {
            caching_drop(x);
            return;
        }
        if (parts[i].iov_len != 0) {
            memcpy(c->ptr + c->len, parts[i].iov_base, parts[i].iov_len);
            c->len = need;
        }
    }
}

/* What was recorded, taken apart. */
struct record {
    enum http_body framing;
    struct slice type;
    struct slice body; /* in its framing */
};

static bool ON_LANE
read_record(const struct exchange *x, struct http_head *head,
            struct record *record)
{
    const struct edge_caching *c = &x->caching;
    const struct lane *lane = x->client->lane;

    record->body = (struct slice){c->ptr, c->len};
    if (x->alive.told) { /* its head went out with a comment */
        record->type = SLICE("text/event-stream");
        record->framing =
            rewriting_rechunks(x) ? HTTP_BODY_CHUNKED : HTTP_BODY_CLOSE;
        return x->alive.stream && !x->whole.gathers;
    }
    if (c->len == 0 ||
        http_head_parse_response(c->ptr, c->len, &lane->response_limits,
                                 x->method, head) != 0 ||
        head->status != 200 || request_is_encoded(head)) {
        return false;
    }
    const struct http_header *type =
        http_head_find(head, HTTP_FIELD_CONTENT_TYPE);
    record->type = type != NULL ? type->value : SLICE("application/json");
    record->framing = head->body;
    slice_skip(&record->body, head->size_bytes);
    return head->body != HTTP_BODY_LENGTH ||
           head->content_length == record->body.len;
}

/* The body out of its framing, to out unless that is NULL. False: it is not
 * whole. */
static bool
unframe(const struct record *record, char *out, size_t *len)
{
    struct http_chunk chunk = {.state = 0};
    struct slice in = record->body;
    struct slice data = in;
    int outcome = HTTP_CHUNK_E_DATA;

    *len = 0;
    if (record->framing != HTTP_BODY_CHUNKED) {
        *len = in.len;
        if (out != NULL && in.len != 0) {
            memcpy(out, in.ptr, in.len);
        }
        return true;
    }
    while ((outcome = http_chunk_next(&chunk, &in, &data)) ==
           HTTP_CHUNK_E_DATA) {
        if (out != NULL) {
            memcpy(out + *len, data.ptr, data.len);
        }
        *len += data.len;
    }
    return outcome == 0 && in.len == 0;
}

/* The answer that was recorded; NULL: it is none to keep. */
static struct answers_kept *ON_LANE
make_answer(struct exchange *x)
{
    struct slice events = SLICE("text/event-stream");
    struct record record;
    size_t len;

    if (!read_record(x, &x->client->lane->head, &record) ||
        record.type.len >= ANSWERS_TYPE_MAX || !unframe(&record, NULL, &len)) {
        return NULL;
    }
    struct answers_kept *answer = answers_kept_new(len);
    if (answer == NULL) {
        return NULL;
    }
    CHECK(unframe(&record, answer->body, &len));
    memcpy(answer->type, record.type.ptr, record.type.len);
    bool stream = slice_begins_nocase(record.type, events);
    if (stream != x->dispatch.stream ||
        !answers_is_whole(x->api, stream, (struct slice){answer->body, len})) {
        free(answer);
        return NULL;
    }
    return answer;
}

void
caching_end(struct exchange *x, bool done)
{
    /* Resumed answers may not be what one engine says; another model of an
     * alias is not the one that was named. */
    bool good = done && x->caching.records && x->dispatch.resumed == 0 &&
                x->naming.next <= 1;
    struct answers_kept *answer = good ? make_answer(x) : NULL;

    if (x->caching.call.waits != 0) {
        sharing_forget(x);
    }
    if (answer != NULL) {
        if (x->caching.marked) {
            sharing_keep(x, answer);
        }
        resembling_keep(x);
        land(x, answer);
    } else {
        caching_drop(x);
    }
}

/* What others are told */

const char *
caching_name(const struct exchange *x)
{
    switch (x->caching.verdict) {
    case CACHING_NONE:
        return NULL;
    case CACHING_HIT:
        return "hit";
    case CACHING_MISS:
        return "miss";
    case CACHING_BYPASS:
        return "bypass";
    }
    return NULL;
}

void
caching_add_headers(struct buf *out, const struct exchange *x)
{
    switch (x->caching.verdict) {
    case CACHING_NONE:
        break;
    case CACHING_HIT:
        if (x->caching.alike != 0) {
            buf_printf(out,
                       "X-Cache: SEMANTIC\r\nX-Cache-Similarity: %u.%03u\r\n",
                       x->caching.alike / 1000, x->caching.alike % 1000);
        } else {
            buf_add_text(out, "X-Cache: HIT\r\n");
        }
        buf_add_text(out, "Age: ");
        buf_add_uint(out, x->caching.age_s);
        buf_add(out, "\r\n", 2);
        break;
    case CACHING_MISS:
        buf_add_text(out, "X-Cache: MISS\r\n");
        break;
    case CACHING_BYPASS:
        buf_add_text(out, "X-Cache: BYPASS\r\n");
        break;
    }
}
