/*
 * For tests of asking: a server on the same loop that plays an engine by a
 * script, and what becomes of questions to it.
 */
#ifndef TESTS_UNIT_NODE_TOKEN_ASK_RIG_H
#define TESTS_UNIT_NODE_TOKEN_ASK_RIG_H

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "node/http/httpd.h"
#include "node/tokens/token_ask.h"

#define SEEN_MAX  32
#define SPANS_MAX 64

enum act {
    ACT_ANSWER,
    ACT_MUTE,  /* never answers */
    ACT_ABORT, /* closes without a byte */
    ACT_SEVER, /* closes in the middle of the body */
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
    struct token_media media;
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
    .copied_bytes_max = 1024,
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

static inline void
copy(char *out, size_t room, struct slice text)
{
    (void)snprintf(out, room, "%.*s", (int)text.len,
                   text.len != 0 ? text.ptr : "");
}

static inline void
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

static inline void
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
    case ACT_SEVER:
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

static inline void
on_gone(void *context, struct httpd_request *request)
{
    (void)context;
    (void)request;
    engine.gone++;
}

static inline void
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

static inline void
set_worker(uint16_t port)
{
    struct sockaddr_in *in = (struct sockaddr_in *)(void *)&worker.address;

    worker = (struct fleet_worker){.slot = 3, .generation = 1};
    in->sin_family = AF_INET;
    in->sin_port = htons(port);
    in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    worker.address_len = sizeof(*in);
    strcpy(worker.url, "http://engine:1");
}

static inline void
start(void)
{
    cr_assert_eq(uv_loop_init(&loop), 0);
    serve(0);
    set_worker(engine.port);
    cr_assert_eq(token_ask_new(&ask, &loop, &limits), 0);
}

static inline void
stop(void)
{
    token_ask_free(ask);
    httpd_free(engine.httpd);
    cr_assert_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    cr_assert_eq(uv_loop_close(&loop), 0);
}

/* With other limits. */
static inline void
limit(struct token_ask_limits to)
{
    token_ask_free(ask);
    cr_assert_eq(token_ask_new(&ask, &loop, &to), 0);
}

static inline void
on_answer(void *context, const struct token_answer *answer)
{
    struct heard *h = context;

    h->count++;
    h->answer = *answer;
    if (answer->media != NULL) {
        h->media = *answer->media;
    }
    for (uint32_t i = 0; i < answer->count && i < 16; i++) {
        h->tokens[i] = answer->tokens[i];
    }
}

static inline int
ask_it_of(enum scan_api api, const char *body)
{
    struct scan_span spans[SPANS_MAX];
    struct scan_limits scan_limits = {.depth_max = 64, .spans_max = SPANS_MAX};
    struct scan scan = {.spans = spans, .api = api};

    cr_assert_eq(scan_body(body, strlen(body), &scan_limits, &scan), 0);
    return token_ask_start(ask, &question, &worker, slice_of(body), &scan,
                           &heard, on_answer);
}

static inline int
ask_it(const char *body)
{
    return ask_it_of(SCAN_API_GUESSED, body);
}

static inline bool
is_able(void)
{
    return token_ask_able(ask, &worker, SCAN_API_CHAT);
}

/* Asks and waits for the answer. */
static inline enum token_outcome
answer_to_of(enum scan_api api, const char *body)
{
    unsigned before = heard.count;

    cr_assert_eq(ask_it_of(api, body), 0);
    cr_assert_eq(heard.count, before);
    while (heard.count == before) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    }
    cr_assert_eq(heard.count, before + 1);
    return heard.answer.outcome;
}

static inline enum token_outcome
answer_to(const char *body)
{
    return answer_to_of(SCAN_API_GUESSED, body);
}

static inline void
turn_until_seen(unsigned count)
{
    while (engine.seen < count) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    }
}

static inline struct token_ask_stats
stats(void)
{
    return token_ask_stats(ask);
}

static inline uint64_t
accepted(void)
{
    return httpd_stats(engine.httpd)->accepted;
}

static inline void
tokens_are(uint32_t a, uint32_t b, uint32_t c)
{
    cr_assert_eq(heard.answer.count, 3);
    cr_assert_eq(heard.tokens[0], a);
    cr_assert_eq(heard.tokens[1], b);
    cr_assert_eq(heard.tokens[2], c);
}

#endif
