/* The shell against servers on the same loop that play an engine. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "../failing_alloc.h"
#include "node/httpd.h"
#include "node/token_ask.h"

#define SEEN_MAX  32
#define SPANS_MAX 64

enum act {
    ACT_ANSWER,
    ACT_MUTE,  /* never answers */
    ACT_ABORT, /* closes without a byte */
    ACT_CUT,   /* closes in the middle of the body */
    ACT_CHUNKS,
};

struct reply {
    enum act act;
    unsigned status;
    const char *body;
};

/* What comes to an engine, and what it says to the i-th request. */
static struct engine {
    struct httpd *httpd;
    uint16_t port;
    const struct reply *script;
    unsigned seen;
    unsigned gone;
    char path[SEEN_MAX][64];
    char body[SEEN_MAX][512];
    char host[64];
    char key[64];
} engine;

static struct heard {
    unsigned count;
    struct token_answer answer;
    uint32_t tokens[16];
} heard;

static uv_loop_t loop;
static struct token_ask *ask;
static struct fleet_worker worker;
static struct token_question *question;

static struct token_ask_limits limits = {
    .open_max = 4,
    .connections_max = 2,
    .timeout_ms = 60000,
    .answer_bytes_max = 4096,
    .retry_ms = 60000,
};

static const struct httpd_limits server_limits = {
    .connections_max = 64,
    .head_bytes_max = 4096,
    .body_bytes_max = 65536,
    .unsent_bytes_max = 65536,
    .idle_timeout_ms = 60000,
    .write_timeout_ms = 60000,
};

#define CHAT \
    "{\"model\":\"m\",\"messages\":[{\"role\":\"u\",\"content\":\"a\"}]}"
#define TEXT "{\"prompt\":\"a\",\"model\":\"m\"}"
#define OK   "{\"token_ids\":[1,2,3]}"

static void
copy(char *out, size_t room, struct slice text)
{
    (void)snprintf(out, room, "%.*s", (int)text.len,
                   text.len != 0 ? text.ptr : "");
}

static void
note(struct httpd_request *request)
{
    const struct http_head *head = httpd_head(request);
    const struct http_header *key =
        http_head_find(head, HTTP_FIELD_AUTHORIZATION);

    cr_assert_lt(engine.seen, SEEN_MAX);
    copy(engine.path[engine.seen], 64, head->path);
    copy(engine.body[engine.seen], 512, httpd_body(request));
    copy(engine.host, 64, http_head_find(head, HTTP_FIELD_HOST)->value);
    copy(engine.key, 64, key != NULL ? key->value : SLICE(""));
    engine.seen++;
}

static void
on_request(void *context, struct httpd_request *request)
{
    const struct reply *reply = &engine.script[engine.seen];

    (void)context;
    note(request);
    switch (reply->act) {
    case ACT_ANSWER:
        httpd_answer(request, reply->status, "application/json", SLICE(""),
                     slice_of(reply->body));
        return;
    case ACT_MUTE:
        return;
    case ACT_ABORT:
        httpd_abort(request);
        return;
    case ACT_CUT:
    case ACT_CHUNKS:
        httpd_begin(request, reply->status, "application/json", SLICE(""));
        cr_assert_eq(httpd_send(request, slice_of(reply->body)), 0);
        if (reply->act == ACT_CHUNKS) {
            httpd_end(request);
        } else {
            httpd_abort(request);
        }
        return;
    }
}

static void
on_gone(void *context, struct httpd_request *request)
{
    (void)context;
    (void)request;
    engine.gone++;
}

static void
serve(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    struct httpd_handler handler = {.request = on_request, .gone = on_gone};

    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    cr_assert_eq(
        httpd_new(&engine.httpd, &loop, (const struct sockaddr *)&address,
                  &server_limits, &handler),
        0);
    engine.port = httpd_port(engine.httpd);
}

static void
set_worker(uint16_t port)
{
    struct sockaddr_in *in = (struct sockaddr_in *)(void *)&worker.address;

    worker = (struct fleet_worker){.slot = 3, .generation = 1};
    in->sin_family = AF_INET;
    in->sin_port = htons(port);
    in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    worker.address_len = sizeof(*in);
    strcpy(worker.host_header, "engine:1");
}

static void
start(void)
{
    cr_assert_eq(uv_loop_init(&loop), 0);
    serve(0);
    set_worker(engine.port);
    cr_assert_eq(token_ask_new(&ask, &loop, &limits), 0);
}

static void
stop(void)
{
    token_ask_free(ask);
    httpd_free(engine.httpd);
    cr_assert_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    cr_assert_eq(uv_loop_close(&loop), 0);
}

TestSuite(node_token_ask, .init = start, .fini = stop);

/* With other limits. */
static void
limit(struct token_ask_limits to)
{
    token_ask_free(ask);
    cr_assert_eq(token_ask_new(&ask, &loop, &to), 0);
}

static void
on_answer(void *context, const struct token_answer *answer)
{
    struct heard *h = context;

    h->count++;
    h->answer = *answer;
    for (uint32_t i = 0; i < answer->count && i < 16; i++) {
        h->tokens[i] = answer->tokens[i];
    }
}

static int
ask_it(const char *body)
{
    struct scan_span spans[SPANS_MAX];
    struct scan_limits scan_limits = {.depth_max = 64, .spans_max = SPANS_MAX};
    struct scan scan = {.spans = spans};

    cr_assert_eq(scan_body(body, strlen(body), &scan_limits, &scan), 0);
    return token_ask_start(ask, &question, &worker, slice_of(body), &scan,
                           &heard, on_answer);
}

static bool
is_able(void)
{
    return token_ask_able(ask, &worker);
}

/* Asks and waits for the answer. */
static enum token_outcome
answer_to(const char *body)
{
    unsigned before = heard.count;

    cr_assert_eq(ask_it(body), 0);
    cr_assert_eq(heard.count, before);
    while (heard.count == before) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    }
    cr_assert_eq(heard.count, before + 1);
    return heard.answer.outcome;
}

static void
turn_until_seen(unsigned count)
{
    while (engine.seen < count) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    }
}

static const struct token_ask_stats *
stats(void)
{
    return token_ask_stats(ask);
}

static void
tokens_are(uint32_t a, uint32_t b, uint32_t c)
{
    cr_assert_eq(heard.answer.count, 3);
    cr_assert_eq(heard.tokens[0], a);
    cr_assert_eq(heard.tokens[1], b);
    cr_assert_eq(heard.tokens[2], c);
}

Test(node_token_ask, a_chat_is_rendered_from_the_body_as_it_came)
{
    engine.script = (const struct reply[]){{ACT_ANSWER, 200, OK}};
    strcpy(worker.base_path, "/base");
    strcpy(worker.api_key, "secret");
    cr_assert_eq(answer_to(" " CHAT " "), TOKEN_OK);
    tokens_are(1, 2, 3);
    cr_assert_str_eq(engine.path[0], "/base/v1/chat/completions/render");
    cr_assert_str_eq(engine.body[0], " " CHAT " ");
    cr_assert_str_eq(engine.host, "engine:1");
    cr_assert_str_eq(engine.key, "Bearer secret");
    cr_assert_eq(stats()->answered, 1);
    cr_assert_eq(stats()->open, 0);
}

Test(node_token_ask, a_text_is_rendered_too)
{
    engine.script = (const struct reply[]){
        {ACT_CHUNKS, 200, "[{\"token_ids\": [4, 5, 6]}, {}]"}};
    cr_assert_eq(answer_to(TEXT), TOKEN_OK);
    tokens_are(4, 5, 6);
    cr_assert_str_eq(engine.path[0], "/v1/completions/render");
    cr_assert_str_eq(engine.key, "");
}

Test(node_token_ask, of_pictures_the_layout_is_enough)
{
    engine.script = (const struct reply[]){{ACT_ANSWER, 200, OK}};
    cr_assert_eq(
        answer_to(" {\"messages\":[{\"content\":[{\"type\":\"image_url\","
                  "\"image_url\":\"http://x\"}]}]}"),
        TOKEN_OK);
    cr_assert_str_eq(engine.body[0],
                     "{\"return_mm_kwargs\":false,\"messages\":[{\"content\":[{"
                     "\"type\":\"image_url\",\"image_url\":\"http://x\"}]}]}");
}

Test(node_token_ask, without_a_renderer_the_tokeniser_is_asked)
{
    engine.script = (const struct reply[]){
        {ACT_ANSWER, 404, "{\"detail\":\"Not Found\"}"},
        {ACT_ANSWER, 200, "{\"count\":3,\"tokens\":[7,8,9]}"},
        {ACT_ANSWER, 200, "{\"tokens\":[1,2,3]}"},
    };
    cr_assert_eq(
        answer_to("{\"stream\":true,\"tools\":[ {} ],\"messages\": [ "
                  "{\"role\":\"u\"} ] ,\"chat_template\":\"x\\n\",\"user\":1,"
                  "\"add_generation_prompt\":false,\"model\":\"m\\/\"}"),
        TOKEN_OK);
    tokens_are(7, 8, 9);
    cr_assert_str_eq(engine.path[0], "/v1/chat/completions/render");
    cr_assert_str_eq(engine.path[1], "/tokenize");
    cr_assert_str_eq(engine.body[1],
                     "{\"messages\":[ {\"role\":\"u\"} ],\"model\":\"m\\/\","
                     "\"tools\":[ {} ],\"chat_template\":\"x\\n\","
                     "\"add_generation_prompt\":false}");
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
    cr_assert_str_eq(engine.path[2], "/tokenize"); /* at once */
    cr_assert_eq(stats()->asked, 2);
}

Test(node_token_ask, texts_and_chats_are_learnt_apart)
{
    engine.script = (const struct reply[]){
        {ACT_ANSWER, 405, ""},
        {ACT_ANSWER, 501, ""},
        {ACT_ANSWER, 404, ""},
        {ACT_ANSWER, 200, "{\"tokens\":[1,2,3]}"},
    };
    cr_assert_eq(answer_to(CHAT), TOKEN_UNABLE);
    cr_assert(is_able());
    cr_assert_eq(answer_to("{\"add_special_tokens\":false,\"documents\":[1],"
                           "\"tools\":[1],\"prompt\":[ \"a\" ]}"),
                 TOKEN_OK);
    cr_assert_str_eq(engine.path[2], "/v1/completions/render");
    cr_assert_str_eq(engine.body[3],
                     "{\"prompt\":\"a\",\"add_special_tokens\":false}");
    cr_assert_eq(answer_to(CHAT), TOKEN_UNABLE);
    cr_assert_eq(engine.seen, 4);
}

Test(node_token_ask, what_an_engine_cannot_is_tried_again_after_a_while)
{
    struct token_ask_limits short_memory = limits;

    short_memory.retry_ms = 20;
    limit(short_memory);
    engine.script = (const struct reply[]){{ACT_ANSWER, 404, ""},
                                           {ACT_ANSWER, 404, ""},
                                           {ACT_ANSWER, 404, ""},
                                           {ACT_ANSWER, 404, ""},
                                           {ACT_ANSWER, 200, OK}};
    cr_assert_eq(answer_to(CHAT), TOKEN_UNABLE);
    cr_assert_eq(answer_to(TEXT), TOKEN_UNABLE);
    while (!is_able()) {
        uv_update_time(&loop);
    }
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
    cr_assert_str_eq(engine.path[4], "/v1/chat/completions/render");
}

Test(node_token_ask, a_prompt_may_be_refused)
{
    engine.script =
        (const struct reply[]){{ACT_ANSWER, 400, "{}"}, {ACT_ANSWER, 200, OK}};
    cr_assert_eq(answer_to(CHAT), TOKEN_REFUSED);
    cr_assert(is_able());
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
}

Test(node_token_ask, an_unknown_model_is_no_missing_path)
{
    engine.script = (const struct reply[]){
        {ACT_ANSWER, 404, "{\"message\":\"The model `m` does not exist.\"}"},
        {ACT_ANSWER, 200, OK}};
    cr_assert_eq(answer_to(CHAT), TOKEN_REFUSED);
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
    cr_assert_str_eq(engine.path[1], "/v1/chat/completions/render");
}

Test(node_token_ask, a_proven_path_is_not_given_up_for_one_404)
{
    engine.script =
        (const struct reply[]){{ACT_ANSWER, 200, OK},
                               {ACT_ANSWER, 404, ""},
                               {ACT_ANSWER, 400, ""},
                               {ACT_ANSWER, 404, ""},
                               {ACT_ANSWER, 404, ""},
                               {ACT_ANSWER, 404, ""},
                               {ACT_ANSWER, 200, "{\"tokens\":[1,2,3]}"}};
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
    for (unsigned i = 1; i < 5; i++) {
        cr_assert_eq(answer_to(CHAT), TOKEN_REFUSED);
    }
    cr_assert_eq(answer_to(CHAT), TOKEN_OK); /* the fourth 404: it is gone */
    cr_assert_str_eq(engine.path[6], "/tokenize");
}

Test(node_token_ask, one_that_only_refuses_is_no_renderer)
{
    engine.script = (const struct reply[]){
        {ACT_ANSWER, 422, ""}, {ACT_ANSWER, 422, ""}, {ACT_ANSWER, 422, ""},
        {ACT_ANSWER, 422, ""}, {ACT_ANSWER, 422, ""}, {ACT_ANSWER, 422, ""},
        {ACT_ANSWER, 422, ""}, {ACT_ANSWER, 422, ""}};
    for (unsigned i = 0; i < 6; i++) {
        cr_assert_eq(answer_to(CHAT), TOKEN_REFUSED);
    }
    cr_assert_eq(answer_to(CHAT), TOKEN_UNABLE);
    cr_assert_eq(engine.seen, 8);
}

Test(node_token_ask, what_makes_no_sense_is_a_failure)
{
    engine.script = (const struct reply[]){{ACT_ANSWER, 200, "<html>"},
                                           {ACT_ANSWER, 200, "{}"},
                                           {ACT_ANSWER, 503, "{}"},
                                           {ACT_ANSWER, 302, "{}"}};
    for (unsigned i = 0; i < 4; i++) {
        cr_assert(is_able());
        cr_assert_eq(answer_to(CHAT), TOKEN_FAILED);
    }
    cr_assert_not(is_able()); /* left alone for a while */
    worker.generation++;
    cr_assert(is_able()); /* another worker in its place */
    cr_assert_eq(stats()->failed, 4);
}

Test(node_token_ask, a_success_makes_up_for_failures)
{
    engine.script = (const struct reply[]){{ACT_ANSWER, 500, ""},
                                           {ACT_ANSWER, 500, ""},
                                           {ACT_ANSWER, 500, ""},
                                           {ACT_ANSWER, 200, OK},
                                           {ACT_ANSWER, 500, ""}};
    for (unsigned i = 0; i < 3; i++) {
        cr_assert_eq(answer_to(CHAT), TOKEN_FAILED);
    }
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
    cr_assert_eq(answer_to(CHAT), TOKEN_FAILED);
    cr_assert(is_able());
}

Test(node_token_ask, an_answer_over_the_bound_is_a_failure)
{
    static char huge[4200];

    memset(huge, ' ', sizeof(huge) - 1);
    engine.script = (const struct reply[]){{ACT_ANSWER, 200, huge},
                                           {ACT_CHUNKS, 200, huge},
                                           {ACT_ANSWER, 200, OK}};
    cr_assert_eq(answer_to(CHAT), TOKEN_FAILED);
    cr_assert_eq(answer_to(CHAT), TOKEN_FAILED);
    cr_assert_eq(stats()->too_large, 2);
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
}

Test(node_token_ask, an_answer_at_the_bound_is_fine)
{
    static char large[4097];

    memset(large, ' ', sizeof(large) - 1);
    memcpy(large, OK, strlen(OK));
    engine.script = (const struct reply[]){{ACT_ANSWER, 200, large},
                                           {ACT_CHUNKS, 200, large}};
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
}

Test(node_token_ask, a_connection_cut_in_the_middle_is_a_failure)
{
    engine.script =
        (const struct reply[]){{ACT_ANSWER, 200, OK},
                               {ACT_CUT, 200, "{\"token_ids\":[1,2"},
                               {ACT_ANSWER, 200, OK}};
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
    cr_assert_eq(answer_to(CHAT), TOKEN_FAILED);
    cr_assert_eq(engine.seen, 2);
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
}

Test(node_token_ask, connections_are_kept)
{
    static const struct reply ok = {ACT_ANSWER, 200, OK};

    engine.script = (const struct reply[]){ok, ok, ok};
    for (unsigned i = 0; i < 3; i++) {
        cr_assert_eq(answer_to(CHAT), TOKEN_OK);
    }
    cr_assert_eq(httpd_stats(engine.httpd)->accepted, 1);
    cr_assert_eq(stats()->connected, 1);
    cr_assert_eq(stats()->reused, 2);
    cr_assert_eq(stats()->idle, 1);
}

Test(node_token_ask, only_so_many_connections_are_kept)
{
    static const struct reply ok = {ACT_ANSWER, 200, OK};

    engine.script = (const struct reply[]){ok, ok, ok, ok, ok};
    for (unsigned i = 0; i < 4; i++) {
        cr_assert_eq(ask_it(CHAT), 0);
    }
    cr_assert_eq(ask_it(CHAT), TOKEN_ASK_E_BUSY);
    cr_assert_null(question);
    cr_assert_eq(stats()->open, 4);
    while (heard.count < 4) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    }
    cr_assert_eq(stats()->connected, 4);
    cr_assert_eq(stats()->idle, 2);
    cr_assert_eq(stats()->busy, 1);
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
}

Test(node_token_ask, a_kept_connection_found_dead_is_replaced)
{
    engine.script = (const struct reply[]){
        {ACT_ANSWER, 200, OK}, {ACT_ABORT, 0, NULL}, {ACT_ANSWER, 200, OK}};
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
    cr_assert_eq(engine.seen, 3);
    cr_assert_eq(stats()->connected, 2);
    cr_assert_eq(stats()->failed, 0);
}

Test(node_token_ask, a_new_connection_found_dead_is_a_failure)
{
    engine.script = (const struct reply[]){{ACT_ABORT, 0, NULL},
                                           {ACT_ANSWER, 200, OK},
                                           {ACT_ABORT, 0, NULL},
                                           {ACT_ABORT, 0, NULL}};
    cr_assert_eq(answer_to(CHAT), TOKEN_FAILED);
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
    cr_assert_eq(answer_to(CHAT), TOKEN_FAILED);
    cr_assert_eq(engine.seen, 4);
}

Test(node_token_ask, a_kept_connection_that_ends_is_let_go)
{
    engine.script =
        (const struct reply[]){{ACT_ANSWER, 200, OK}, {ACT_ANSWER, 200, OK}};
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
    httpd_free(engine.httpd);
    while (stats()->idle != 0) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    }
    serve(engine.port);
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
    cr_assert_eq(stats()->reused, 0);
}

Test(node_token_ask, connections_of_an_earlier_worker_are_not_used)
{
    engine.script =
        (const struct reply[]){{ACT_ANSWER, 200, OK}, {ACT_ANSWER, 200, OK}};
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
    worker.generation++;
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
    cr_assert_eq(stats()->reused, 0);
    cr_assert_eq(stats()->idle, 1);
}

Test(node_token_ask, what_is_forgotten_is_not_heard_of)
{
    engine.script = (const struct reply[]){{ACT_MUTE, 0, NULL}};
    cr_assert_eq(ask_it(CHAT), 0);
    turn_until_seen(1);
    token_ask_forget(question);
    cr_assert_eq(stats()->open, 0);
    while (engine.gone == 0) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    }
    cr_assert_eq(ask_it(CHAT), 0);
    token_ask_forget(question); /* not even connected */
    cr_assert_eq(heard.count, 0);
    cr_assert_eq(stats()->forgotten, 2);
}

static void
on_answer_forget(void *context, const struct token_answer *answer)
{
    on_answer(context, answer);
    token_ask_forget(question);
    if (heard.count == 1) {
        struct scan_span spans[SPANS_MAX];
        struct scan_limits l = {.depth_max = 64, .spans_max = SPANS_MAX};
        struct scan scan = {.spans = spans};
        cr_assert_eq(scan_body(CHAT, strlen(CHAT), &l, &scan), 0);
        cr_assert_eq(token_ask_start(ask, &question, &worker, SLICE(CHAT),
                                     &scan, context, on_answer_forget),
                     0);
    }
}

Test(node_token_ask, from_within_an_answer_one_may_forget_and_ask)
{
    struct scan_span spans[SPANS_MAX];
    struct scan_limits l = {.depth_max = 64, .spans_max = SPANS_MAX};
    struct scan scan = {.spans = spans};

    engine.script =
        (const struct reply[]){{ACT_ANSWER, 200, OK}, {ACT_ANSWER, 200, OK}};
    cr_assert_eq(scan_body(CHAT, strlen(CHAT), &l, &scan), 0);
    cr_assert_eq(token_ask_start(ask, &question, &worker, SLICE(CHAT), &scan,
                                 &heard, on_answer_forget),
                 0);
    while (heard.count < 2) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    }
    cr_assert_eq(heard.answer.outcome, TOKEN_OK);
    cr_assert_eq(stats()->forgotten, 0);
    cr_assert_eq(stats()->reused, 1);
}

Test(node_token_ask, no_answer_within_the_time_is_a_failure)
{
    struct token_ask_limits hasty = limits;

    hasty.timeout_ms = 30;
    limit(hasty);
    engine.script =
        (const struct reply[]){{ACT_MUTE, 0, NULL}, {ACT_MUTE, 0, NULL}};
    cr_assert_eq(ask_it(CHAT), 0);
    cr_assert_eq(ask_it(CHAT), 0);
    while (heard.count < 2) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    }
    cr_assert_eq(heard.answer.outcome, TOKEN_FAILED);
    cr_assert_eq(stats()->timed_out, 2);
    cr_assert_eq(stats()->idle, 0);
}

Test(node_token_ask, a_worker_that_does_not_listen_is_a_failure)
{
    httpd_free(engine.httpd);
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    cr_assert_eq(answer_to(CHAT), TOKEN_FAILED);
    worker.address_len = 0;
    cr_assert_not(is_able());
    cr_assert_eq(answer_to(CHAT), TOKEN_FAILED);
    serve(0);
}

Test(node_token_ask, not_every_prompt_is_for_a_renderer)
{
    static const char *const bodies[] = {
        "{\"prompt\":[1,2]}",      "{\"prompt\":[[1,2]]}",
        "{\"input\":\"a\"}",       "{\"prompt\":[\"a\",\"b\"]}",
        "{\"input\":[{\"a\":1}]}", "{\"model\":\"m\"}"};

    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        cr_assert_eq(ask_it(bodies[i]), TOKEN_ASK_E_SHAPE, "%s", bodies[i]);
    }
}

Test(node_token_ask, can_be_freed_with_everything_open)
{
    static const struct reply mute = {ACT_MUTE, 0, NULL};

    engine.script =
        (const struct reply[]){{ACT_ANSWER, 200, OK}, mute, mute, mute, mute};
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
    cr_assert_eq(ask_it(CHAT), 0);
    turn_until_seen(2);
    cr_assert_eq(ask_it(CHAT), 0);
    worker.address_len = 0;
    cr_assert_eq(ask_it(CHAT), 0);
}

/* A server that says what it is told, whatever is asked. */
static struct mouth {
    uv_tcp_t listener;
    uv_tcp_t tcp[4];
    uv_write_t write[4];
    unsigned count;
    const char *words;
    bool closes;
} mouth;

static void
on_mouth_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *room)
{
    static char raw[4096];

    (void)handle;
    (void)suggested;
    *room = uv_buf_init(raw, sizeof(raw));
}

static void
on_mouth_said(uv_write_t *write, int status)
{
    uv_handle_t *handle = (uv_handle_t *)write->handle;

    (void)status;
    if (mouth.closes && !uv_is_closing(handle)) {
        uv_close(handle, NULL);
    }
}

static void
on_mouth_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *room)
{
    uv_buf_t out = {.base = (char *)(uintptr_t)mouth.words,
                    .len = strlen(mouth.words)};
    uv_write_t *write = stream->data;

    (void)room;
    if (got < 0) {
        uv_close((uv_handle_t *)stream, NULL);
    } else if (got > 0) {
        cr_assert_eq(uv_write(write, stream, &out, 1, on_mouth_said), 0);
    }
}

static void
on_mouth(uv_stream_t *listener, int status)
{
    uv_tcp_t *tcp = &mouth.tcp[mouth.count];

    cr_assert_eq(status, 0);
    cr_assert_eq(uv_tcp_init(&loop, tcp), 0);
    tcp->data = &mouth.write[mouth.count++];
    cr_assert_eq(uv_accept(listener, (uv_stream_t *)tcp), 0);
    cr_assert_eq(
        uv_read_start((uv_stream_t *)tcp, on_mouth_alloc, on_mouth_read), 0);
}

/* What becomes of an answer of these bytes. */
static enum token_outcome
told(const char *words, bool closes)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    struct sockaddr_storage name;
    int len = sizeof(name);

    mouth = (struct mouth){.words = words, .closes = closes};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    cr_assert_eq(uv_tcp_init(&loop, &mouth.listener), 0);
    cr_assert_eq(uv_tcp_bind(&mouth.listener, (struct sockaddr *)&address, 0),
                 0);
    cr_assert_eq(uv_listen((uv_stream_t *)&mouth.listener, 4, on_mouth), 0);
    cr_assert_eq(
        uv_tcp_getsockname(&mouth.listener, (struct sockaddr *)&name, &len), 0);
    set_worker(ntohs(((struct sockaddr_in *)(void *)&name)->sin_port));
    enum token_outcome outcome = answer_to(CHAT);
    uv_close((uv_handle_t *)&mouth.listener, NULL);
    token_ask_free(ask);
    httpd_free(engine.httpd);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    serve(0);
    cr_assert_eq(token_ask_new(&ask, &loop, &limits), 0);
    return outcome;
}

#define HEAD "HTTP/1.1 200 OK\r\n"

Test(node_token_ask, interim_answers_are_passed_over)
{
    cr_assert_eq(told("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 \r\n\r\n" HEAD
                      "Content-Length: 21\r\n\r\n" OK,
                      false),
                 TOKEN_OK);
}

Test(node_token_ask, a_body_may_last_until_the_connection_ends)
{
    cr_assert_eq(told(HEAD "\r\n" OK, true), TOKEN_OK);
}

Test(node_token_ask, what_is_not_http_is_a_failure)
{
    cr_assert_eq(told("SSH-2.0-x\r\n", false), TOKEN_FAILED);
    cr_assert_eq(told("HTTP/1.1 101 Up\r\n\r\n", false), TOKEN_FAILED);
    cr_assert_eq(told(HEAD "Transfer-Encoding: chunked\r\n\r\nx\r\n", false),
                 TOKEN_FAILED);
    cr_assert_eq(told(HEAD "Content-Length: 99\r\n\r\n" OK, true),
                 TOKEN_FAILED);
}

Test(node_token_ask, without_memory_an_answer_comes_all_the_same)
{
    static struct reply script[SEEN_MAX];
    uint64_t n = 0;

    for (unsigned i = 0; i < SEEN_MAX; i++) {
        script[i] = i % 2 == 0
                        ? (struct reply){ACT_ANSWER, 404, ""}
                        : (struct reply){ACT_ANSWER, 200, "{\"tokens\":[1]}"};
    }
    engine.script = script;
    for (; failing_alloc_after(n); n++) {
        unsigned before = heard.count;
        engine.seen = 0;
        worker.generation++;
        int outcome = ask_it(CHAT);
        while (outcome == 0 && heard.count == before) {
            (void)uv_run(&loop, UV_RUN_NOWAIT);
        }
        cr_assert(outcome == 0 || outcome == -ENOMEM);
    }
    failing_alloc_stop();
    cr_assert_gt(n, 5);
}
