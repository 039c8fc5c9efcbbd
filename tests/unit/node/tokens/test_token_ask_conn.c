/* Connections: kept, lost, cut, misused; and time and memory. */
#include "tests/unit/failing_alloc.h"
#include "token_ask_rig.h"

TestSuite(node_token_ask_conn, .init = start, .fini = stop);

Test(node_token_ask_conn, an_answer_over_the_bound_is_a_failure)
{
    static char huge[4200];

    memset(huge, ' ', sizeof(huge) - 1);
    engine.script = (const struct reply[]){{ACT_ANSWER, 200, huge},
                                           {ACT_CHUNKS, 200, huge},
                                           {ACT_ANSWER, 200, OK}};
    cr_assert_eq(answer_to(CHAT), TOKEN_FAILED);
    cr_assert_eq(answer_to(CHAT), TOKEN_FAILED);
    cr_assert_eq(stats().too_large, 2);
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
}

Test(node_token_ask_conn, an_answer_at_the_bound_is_fine)
{
    static char large[4097];

    memset(large, ' ', sizeof(large) - 1);
    memcpy(large, OK, strlen(OK));
    engine.script = (const struct reply[]){{ACT_ANSWER, 200, large},
                                           {ACT_CHUNKS, 200, large}};
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
}

Test(node_token_ask_conn, a_connection_cut_in_the_middle_is_a_failure)
{
    engine.script =
        (const struct reply[]){{ACT_ANSWER, 200, OK},
                               {ACT_SEVER, 200, "{\"token_ids\":[1,2"},
                               {ACT_ANSWER, 200, OK}};
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
    cr_assert_eq(answer_to(CHAT), TOKEN_FAILED);
    cr_assert_eq(engine.seen, 2);
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
}

Test(node_token_ask_conn, connections_are_kept)
{
    static const struct reply ok = {ACT_ANSWER, 200, OK};

    engine.script = (const struct reply[]){ok, ok, ok};
    for (unsigned i = 0; i < 3; i++) {
        cr_assert_eq(answer_to(CHAT), TOKEN_OK);
    }
    cr_assert_eq(accepted(), 1);
    cr_assert_eq(stats().idle, 1);
}

Test(node_token_ask_conn, bodies_are_copied_up_to_a_number_of_bytes)
{
    static char large[1 << 10];

    memset(large, ' ', sizeof large - 1);
    memcpy(large, CHAT, strlen(CHAT));
    engine.script =
        (const struct reply[]){{ACT_ANSWER, 200, OK}, {ACT_ANSWER, 200, OK}};
    cr_assert_eq(ask_it(CHAT), 0);
    cr_assert_eq(ask_it(large), TOKEN_ASK_E_BUSY);
    cr_assert_eq(stats().copied_bytes, strlen(CHAT));
    cr_assert_eq(stats().busy, 1);
    while (heard.count < 1) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    }
    cr_assert_eq(stats().copied_bytes, 0);
    cr_assert_eq(ask_it(large), 0);
    token_ask_forget(question);
    cr_assert_eq(stats().copied_bytes, 0);
}

Test(node_token_ask_conn, only_so_many_connections_are_kept)
{
    static const struct reply ok = {ACT_ANSWER, 200, OK};

    engine.script = (const struct reply[]){ok, ok, ok, ok, ok};
    for (unsigned i = 0; i < 4; i++) {
        cr_assert_eq(ask_it(CHAT), 0);
    }
    cr_assert_eq(ask_it(CHAT), TOKEN_ASK_E_BUSY);
    cr_assert_null(question);
    cr_assert_eq(stats().open, 4);
    while (heard.count < 4) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    }
    cr_assert_eq(accepted(), 4);
    cr_assert_eq(stats().idle, 2);
    cr_assert_eq(stats().busy, 1);
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
}

Test(node_token_ask_conn, a_kept_connection_found_dead_is_replaced)
{
    engine.script = (const struct reply[]){
        {ACT_ANSWER, 200, OK}, {ACT_ABORT, 0, NULL}, {ACT_ANSWER, 200, OK}};
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
    cr_assert_eq(engine.seen, 3);
    cr_assert_eq(accepted(), 2);
    cr_assert_eq(stats().failed, 0);
}

Test(node_token_ask_conn, a_new_connection_found_dead_is_a_failure)
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

Test(node_token_ask_conn, a_kept_connection_that_ends_is_let_go)
{
    engine.script =
        (const struct reply[]){{ACT_ANSWER, 200, OK}, {ACT_ANSWER, 200, OK}};
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
    httpd_free(engine.httpd);
    while (stats().idle != 0) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    }
    serve(engine.port);
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
    cr_assert_eq(accepted(), 1);
}

Test(node_token_ask_conn, connections_of_an_earlier_worker_are_not_used)
{
    engine.script =
        (const struct reply[]){{ACT_ANSWER, 200, OK}, {ACT_ANSWER, 200, OK}};
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
    worker.generation++;
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
    cr_assert_eq(accepted(), 2);
    cr_assert_eq(stats().idle, 1);
}

Test(node_token_ask_conn, a_worker_that_moved_is_asked_at_its_new_address)
{
    struct httpd *first = engine.httpd;

    engine.script =
        (const struct reply[]){{ACT_ANSWER, 200, OK}, {ACT_ANSWER, 200, OK}};
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
    serve(0);
    set_worker(engine.port);
    cr_assert_eq(answer_to(CHAT), TOKEN_OK);
    cr_assert_eq(httpd_stats(engine.httpd)->requests, 1);
    cr_assert_eq(stats().idle, 1);
    httpd_free(first);
}

Test(node_token_ask_conn, what_is_forgotten_is_not_heard_of)
{
    engine.script = (const struct reply[]){{ACT_MUTE, 0, NULL}};
    cr_assert_eq(ask_it(CHAT), 0);
    turn_until_seen(1);
    token_ask_forget(question);
    cr_assert_eq(stats().open, 0);
    while (engine.gone == 0) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    }
    cr_assert_eq(ask_it(CHAT), 0);
    token_ask_forget(question); /* not even connected */
    cr_assert_eq(heard.count, 0);
    cr_assert_eq(stats().forgotten, 2);
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

Test(node_token_ask_conn, from_within_an_answer_one_may_forget_and_ask)
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
    cr_assert_eq(stats().forgotten, 0);
    cr_assert_eq(accepted(), 1);
}

Test(node_token_ask_conn, no_answer_within_the_time_is_a_failure)
{
    struct token_ask_limits hasty = limits;

    hasty.timeout_ms = 30;
    limit(hasty);
    engine.script = (const struct reply[]){{ACT_MUTE, 0, NULL},
                                           {ACT_MUTE, 0, NULL},
                                           {ACT_MUTE, 0, NULL},
                                           {ACT_MUTE, 0, NULL}};
    cr_assert_eq(ask_it(CHAT), 0);
    cr_assert_eq(ask_it(CHAT), 0);
    while (heard.count < 2) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    }
    cr_assert_eq(heard.answer.outcome, TOKEN_FAILED);
    cr_assert_eq(stats().timed_out, 2);
    cr_assert_eq(stats().idle, 0);
    cr_assert(is_able());
    cr_assert_eq(answer_to(CHAT), TOKEN_FAILED);
    cr_assert_eq(answer_to(CHAT), TOKEN_FAILED);
    cr_assert_not(is_able()); /* four in a row */
}

Test(node_token_ask_conn, a_worker_that_does_not_listen_is_a_failure)
{
    httpd_free(engine.httpd);
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    cr_assert_eq(answer_to(CHAT), TOKEN_FAILED);
    worker.address_len = 0;
    cr_assert_not(is_able());
    cr_assert_eq(answer_to(CHAT), TOKEN_FAILED);
    serve(0);
}

Test(node_token_ask_conn, can_be_freed_with_everything_open)
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
    bool kept; /* the connection, by who asked */
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
    mouth.kept = stats().idle != 0;
    uv_close((uv_handle_t *)&mouth.listener, NULL);
    token_ask_free(ask);
    httpd_free(engine.httpd);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    serve(0);
    cr_assert_eq(token_ask_new(&ask, &loop, &limits), 0);
    return outcome;
}

#define HEAD "HTTP/1.1 200 OK\r\n"

Test(node_token_ask_conn, interim_answers_are_passed_over)
{
    cr_assert_eq(told("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 \r\n\r\n" HEAD
                      "Content-Length: 21\r\n\r\n" OK,
                      false),
                 TOKEN_OK);
    cr_assert(mouth.kept);
}

Test(node_token_ask_conn, what_is_not_to_be_kept_is_not)
{
    cr_assert_eq(
        told(HEAD "Content-Length: 21\r\nConnection: close\r\n\r\n" OK, false),
        TOKEN_OK);
    cr_assert_not(mouth.kept);
    cr_assert_eq(told(HEAD "Content-Length: 21\r\n\r\n" OK "HTTP", false),
                 TOKEN_OK);
    cr_assert_not(mouth.kept);
    cr_assert_eq(told(HEAD "Transfer-Encoding: chunked\r\n\r\n15\r\n" OK
                           "\r\n0\r\n\r\nHTTP",
                      false),
                 TOKEN_OK);
    cr_assert_not(mouth.kept);
    cr_assert_eq(
        told("HTTP/1.0 200 OK\r\nContent-Length: 21\r\n\r\n" OK, false),
        TOKEN_OK);
    cr_assert_not(mouth.kept);
}

Test(node_token_ask_conn, a_length_over_the_bound_is_not_waited_for)
{
    cr_assert_eq(told(HEAD "Content-Length: 4097\r\n\r\n", false),
                 TOKEN_FAILED);
}

Test(node_token_ask_conn, a_body_may_last_until_the_connection_ends)
{
    cr_assert_eq(told(HEAD "\r\n" OK, true), TOKEN_OK);
}

Test(node_token_ask_conn, what_is_not_http_is_a_failure)
{
    cr_assert_eq(told("SSH-2.0-x\r\n", false), TOKEN_FAILED);
    cr_assert_eq(told("HTTP/1.1 101 Up\r\n\r\n", false), TOKEN_FAILED);
    cr_assert_eq(told(HEAD "Transfer-Encoding: chunked\r\n\r\nx\r\n", false),
                 TOKEN_FAILED);
    cr_assert_eq(told(HEAD "Content-Length: 99\r\n\r\n" OK, true),
                 TOKEN_FAILED);
}

Test(node_token_ask_conn, without_memory_an_answer_comes_all_the_same)
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
