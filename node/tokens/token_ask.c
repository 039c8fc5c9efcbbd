/* Questions to engines' renderers, from their start to their end. */
#include "node/tokens/token_ask.h"

#include <errno.h>
#include <stdlib.h>

#include "node/tokens/token_ask_internal.h"

int
token_ask_new(struct token_ask **out, uv_loop_t *loop,
              const struct token_ask_limits *limits)
{
    struct token_ask *ask = calloc(1, sizeof(*ask));

    CHECK(limits->answer_bytes_max < UINT32_MAX && limits->timeout_ms != 0);
    CHECK(limits->connections_max <= ASK_PLACES_MAX);
    *out = ask;
    if (ask == NULL) {
        return -ENOMEM;
    }
    ask->loop = loop;
    ask->limits = *limits;
    deadline_list_init(&ask->soon, 1);
    (void)uv_timer_init(loop, &ask->timer); /* cannot fail */
    ask->timer.data = ask;
    return 0;
}

void
token_ask_use_tls(struct token_ask *ask, const struct sock_tls_context *tls)
{
    ask->tls = tls;
}

static void
on_timer_closed(uv_handle_t *handle)
{
    struct token_ask *ask = handle->data;

    CHECK(ask->closing && ask->first == NULL);
    token_ids_fini(&ask->ids);
    free(ask);
}

void
token_ask_free(struct token_ask *ask)
{
    if (ask == NULL) {
        return;
    }
    CHECK(!ask->closing);
    for (struct token_question *q = ask->first, *next; q != NULL; q = next) {
        next = q->next;
        token_ask_forget(q);
    }
    CHECK(ask->first == NULL);
    for (uint32_t slot = 0; slot < WORKERS_MAX; slot++) {
        ask_conn_close_idle(&ask->slots[slot]);
    }
    ask->closing = true;
    uv_close((uv_handle_t *)&ask->timer, on_timer_closed);
}

static void
free_question(struct token_question *q)
{
    CHECK(q->over && q->call == NULL);
    buf_fini(&q->lines);
    buf_fini(&q->body);
    free(q);
}

/* It is open no more. */
static void
leave(struct token_question *q)
{
    struct token_ask *ask = q->ask;

    CHECK(!q->over && q->call == NULL);
    q->over = true;
    deadline_clear(&q->deadline);
    *(q->prev != NULL ? &q->prev->next : &ask->first) = q->next;
    if (q->next != NULL) {
        q->next->prev = q->prev;
    }
    ask->stats.open--;
    ask->stats.copied_bytes -= q->body.len;
}

/* Reports to the caller; the question is freed. */
static void
finish(struct token_question *q, enum token_outcome outcome)
{
    struct token_ask *ask = q->ask;
    struct token_answer answer = {.outcome = outcome};

    leave(q);
    ask->stats.answered += outcome == TOKEN_OK;
    ask->stats.unable += outcome == TOKEN_UNABLE;
    ask->stats.refused += outcome == TOKEN_REFUSED;
    ask->stats.failed += outcome == TOKEN_FAILED;
    if (outcome == TOKEN_OK) {
        answer.tokens = ask->ids.ids;
        answer.count = ask->ids.count;
        answer.rendered = q->way == ASK_RENDER;
        answer.media = ask->media.count != 0 ? &ask->media : NULL;
    }
    q->done(q->context, &answer);
    free_question(q);
}

static void on_timer(uv_timer_t *timer);

/* Lets the timer run while a question must end soon. */
static void
arm(struct token_ask *ask)
{
    if (!ask->closing && ask->soon.first != NULL &&
        uv_is_active((uv_handle_t *)&ask->timer) == 0) {
        /* Fails only for a closing handle. */
        (void)uv_timer_start(&ask->timer, on_timer, 1, 0);
    }
}

static void
on_timer(uv_timer_t *timer)
{
    struct token_ask *ask = timer->data;
    struct deadline *due;

    while (!ask->closing &&
           (due = deadline_next_due(&ask->soon, uv_now(ask->loop) * 1000)) !=
               NULL) {
        struct token_question *q = (struct token_question *)due;
        finish(q, q->soon);
    }
    arm(ask);
}

/* Ends it from the loop: callers of token_ask_start() are not called back from
 * within. */
static void
finish_soon(struct token_question *q, enum token_outcome outcome)
{
    q->soon = outcome;
    deadline_set(&q->deadline, &q->ask->soon, uv_now(q->ask->loop) * 1000);
    arm(q->ask);
}

/* Asks in the question's way, or ends it. */
static void
ask_now(struct token_question *q)
{
    if (q->way == ASK_NOTHING) {
        finish_soon(q, TOKEN_UNABLE);
        return;
    }
    if (ask_conn_send(q) != 0) {
        finish_soon(q, TOKEN_FAILED);
    }
}

void
ask_failed(struct token_question *q, enum ask_fault fault)
{
    q->ask->stats.too_large += fault == ASK_FAULT_LARGE;
    q->ask->stats.timed_out += fault == ASK_FAULT_LATE;
    if (fault != ASK_FAULT_LARGE) {
        ask_learn_failed(q);
    }
    finish(q, TOKEN_FAILED);
}

/* What the answer says of pictures. False: they are not named, so that the
 * tokens alone would not tell this prompt from others. */
static bool
take_media(struct token_question *q, struct slice body)
{
    struct token_media *media = &q->ask->media;

    media->count = 0;
    if (q->way != ASK_RENDER || memmem(body.ptr, body.len, "\"mm_hashes\"",
                                       strlen("\"mm_hashes\"")) == NULL) {
        return !q->media;
    }
    return token_media_read(media, body) == 0;
}

/* False: it is an answer without any, to a question that was not understood:
 * llama.cpp's /tokenize reads `content` alone. */
static bool
take_ids(struct token_question *q, struct slice body)
{
    struct slice key =
        q->way == ASK_RENDER ? SLICE("token_ids") : SLICE("tokens");

    if (token_ids_read(&q->ask->ids, body, key) != 0) {
        ask_failed(q, ASK_FAULT_BROKEN);
        return true;
    }
    if (q->ask->ids.count == 0) {
        return false;
    }
    ask_learn_good(q);
    finish(q, take_media(q, body) ? TOKEN_OK : TOKEN_REFUSED);
    return true;
}

/* Whether the path is missing; but a 404 may be about the model. vLLM refuses
 * its renderer with 403 unless it was started with --enable-scale-out. */
static bool
is_missing(unsigned status, struct slice body)
{
    if (status == 404) {
        return body.len == 0 ||
               memmem(body.ptr, body.len, "model", strlen("model")) == NULL;
    }
    return status == 403 || status == 405 || status == 501;
}

void
ask_answered(struct token_question *q, unsigned status, struct slice body)
{
    bool missing = is_missing(status, body);

    if (status == 200 && take_ids(q, body)) {
        return;
    }
    if (!missing && status != 200 &&
        (status / 100 != 4 || status == 408 || status == 429)) {
        ask_failed(q, ASK_FAULT_BROKEN);
        return;
    }
    if (!ask_learn_refused(q, missing)) {
        finish(q, TOKEN_REFUSED);
        return;
    }
    q->way = ask_way_after(q);
    ask_now(q);
}

static bool
is_askable(const struct scan *scan)
{
    bool text = scan->shape == SCAN_STRING ||
                (scan->shape == SCAN_STRINGS && scan->prompts == 1);

    switch (scan->api) {
    case SCAN_API_TEXT:
        return text && !scan->prompt_is_input;
    case SCAN_API_CHAT:
    case SCAN_API_MESSAGES:
        return scan->shape == SCAN_MESSAGES && !scan->prompt_is_input;
    case SCAN_API_RESPONSES:
        return scan->prompt_is_input && !scan->stateful &&
               (scan->shape == SCAN_STRING || scan->shape == SCAN_MESSAGES);
    case SCAN_API_EMBEDDINGS:
    case SCAN_API_POOLING:
    case SCAN_API_GUESSED:
    case SCAN_API_OTHER:
    case SCAN_APIS:
        break;
    }
    return false;
}

/* Of one text in brackets, the text. */
static struct scan_text
without_brackets(const char *body, struct scan_text raw)
{
    while (raw.len != 0 && body[raw.at] != '"') {
        raw.at++;
        raw.len--;
    }
    while (raw.len != 0 && body[raw.at + raw.len - 1] != '"') {
        raw.len--;
    }
    return raw;
}

/* Whether a renderer alone tells its tokens: pictures are placeholders, and what
 * is cut off is not known elsewhere. */
static bool
is_strict(const struct scan *scan)
{
    return scan->media || scan->truncated;
}

bool
token_ask_able(const struct token_ask *ask, const struct fleet_worker *worker,
               enum scan_api api)
{
    return worker->address_len != 0 &&
           ask_way_now(ask, worker->slot, worker->generation, api) !=
               ASK_NOTHING;
}

/* A question with copies of all it needs, not open yet. */
static struct token_question *
make(struct token_ask *ask, const struct fleet_worker *worker,
     struct slice body, const struct scan *scan)
{
    struct token_question *q = calloc(1, sizeof(*q));

    if (q == NULL) {
        return NULL;
    }
    q->ask = ask;
    q->end_ms = uv_now(ask->loop) + ask->limits.timeout_ms;
    q->slot = worker->slot;
    q->generation = worker->generation;
    q->address = worker->address;
    bool sound = url_parse_web(slice_of(worker->url), &q->url) == NULL;
    CHECK(sound); /* the configuration was read with the same */
    q->api = scan->api;
    q->media = scan->media;
    q->strict = is_strict(scan);
    q->parts.model = scan->model;
    q->parts.prompt = scan->shape == SCAN_STRINGS
                          ? without_brackets(body.ptr, scan->prompt_raw)
                          : scan->prompt_raw;
    q->parts.tools = scan->tools_raw;
    memcpy(q->parts.options, scan->options, sizeof(q->parts.options));
    if (worker->kind == ENGINE_SGLANG) {
        /* Its /tokenize does as it is told, and its chats do not (0.5.23). */
        q->parts.options[SCAN_ADD_GENERATION_PROMPT].present = false;
    }
    buf_init(&q->lines, SIZE_MAX / 2);
    buf_init(&q->body, SIZE_MAX / 2); /* what the caller hands in */
    ask_text_lines(&q->lines, worker);
    buf_add_slice(&q->body, body);
    if (q->lines.failed || q->body.failed) {
        q->over = true;
        free_question(q);
        return NULL;
    }
    return q;
}

static void
enter(struct token_question *q)
{
    struct token_ask *ask = q->ask;

    q->next = ask->first;
    if (q->next != NULL) {
        q->next->prev = q;
    }
    ask->first = q;
    ask->stats.open++;
    ask->stats.copied_bytes += q->body.len;
    ask->stats.asked++;
}

int
token_ask_start(struct token_ask *ask, struct token_question **out,
                const struct fleet_worker *worker, struct slice body,
                const struct scan *scan, void *context,
                void (*done)(void *context, const struct token_answer *answer))
{
    CHECK(!ask->closing && done != NULL);
    *out = NULL;
    if (!is_askable(scan) ||
        (is_strict(scan) && ask_way_now(ask, worker->slot, worker->generation,
                                        scan->api) != ASK_RENDER)) {
        return TOKEN_ASK_E_SHAPE;
    }
    if (ask->stats.open >= ask->limits.open_max ||
        ask->stats.copied_bytes + body.len > ask->limits.copied_bytes_max) {
        ask->stats.busy++;
        return TOKEN_ASK_E_BUSY;
    }
    struct token_question *q = make(ask, worker, body, scan);
    if (q == NULL) {
        return -ENOMEM;
    }
    q->context = context;
    q->done = done;
    ask_slot_renew(ask, q->slot, q->generation);
    q->way = ask_way_now(ask, q->slot, q->generation, q->api);
    enter(q);
    if (worker->address_len == 0) {
        finish_soon(q, TOKEN_FAILED);
    } else {
        ask_now(q);
    }
    *out = q;
    return 0;
}

void
token_ask_forget(struct token_question *question)
{
    if (question->over) {
        return; /* from within its done */
    }
    ask_conn_drop(question);
    question->ask->stats.forgotten++;
    leave(question);
    free_question(question);
}

struct token_ask_stats
token_ask_stats(const struct token_ask *ask)
{
    struct token_ask_stats stats = ask->stats;

    for (uint32_t slot = 0; slot < WORKERS_MAX; slot++) {
        for (unsigned i = 0; i < ASK_PLACES_MAX; i++) {
            stats.idle += ask->slots[slot].idle[i] != NULL;
        }
    }
    return stats;
}
