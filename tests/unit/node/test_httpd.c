#include "tests/unit/node/httpd_rig.h"

TestSuite(node_httpd, .timeout = 60);

static const char echo_length[] = "POST /echo HTTP/1.1\r\nHost: h\r\n"
                                  "Content-Length: 5\r\n\r\nhello";
static const char echo_chunked[] =
    "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    "3;a=b\r\nhel\r\n2\r\nlo\r\n0\r\nT: x\r\n\r\n";
static const char get_later[] = "GET /later HTTP/1.1\r\nHost: h\r\n\r\n";
static const char get_stream[] = "GET /stream HTTP/1.1\r\nHost: h\r\n\r\n";
static const char get_flood[] = "GET /flood HTTP/1.1\r\nHost: h\r\n\r\n";

static void
expect_reply(struct wire *wire, unsigned status, const char *body)
{
    struct wire_reply reply;

    wire_reply(wire, &reply);
    cr_assert_eq(reply.status, status, "%u: %s", reply.status, reply.body);
    cr_assert_str_eq(reply.body, body);
}

Test(node_httpd, a_connection_serves_many_requests)
{
    struct rig rig;
    struct wire wire;

    rig_init(&rig, &rig_limits);
    wire_open(&wire, &rig.loop, rig.port);
    for (int i = 0; i < 10; i++) {
        wire_text(&wire, echo_length);
        expect_reply(&wire, 200, "hello");
        wire_text(&wire, echo_chunked);
        expect_reply(&wire, 200, "hello");
        wire_text(&wire, get_stream);
        expect_reply(&wire, 200, "one two three");
    }
    cr_assert_eq(httpd_stats(rig.httpd)->accepted, 1);
    cr_assert_eq(httpd_stats(rig.httpd)->requests, 30);
    cr_assert_eq(httpd_stats(rig.httpd)->requests_open, 0);
    wire_close(&wire);
    rig_fini(&rig);
    cr_assert_eq(rig.gone, 0);
}

Test(node_httpd, heads_say_what_follows)
{
    struct rig rig;
    struct wire wire;

    rig_init(&rig, &rig_limits);
    wire_open(&wire, &rig.loop, rig.port);
    wire_text(&wire, echo_length);
    WAIT(&rig.loop, wire.got.len >= 5 && memcmp(wire.got.ptr + wire.got.len - 5,
                                                "hello", 5) == 0);
    cr_assert(slice_equal(buf_slice(&wire.got),
                          SLICE("HTTP/1.1 200 OK\r\nContent-Type: text/plain"
                                "\r\nX-Extra: yes\r\nContent-Length: 5\r\n\r\n"
                                "hello")));
    buf_clear(&wire.got);
    wire_text(&wire, "GET /none HTTP/1.1\r\nHost: h\r\n\r\n");
    expect_reply(&wire, 404,
                 "{\"error\":{\"message\":\"nothing \\\"here\\\"\\n\","
                 "\"type\":\"not_found_error\",\"code\":\"no_such_path\"}}");
    wire_close(&wire);
    rig_fini(&rig);
}

/* On loopback, what was sent is there when send() returns, so running the loop
 * once makes the server see exactly this much. */
static void
send_split(struct rig *rig, struct wire *wire, const char *bytes, size_t len,
           size_t at)
{
    wire_put(wire, bytes, at);
    (void)uv_run(&rig->loop, UV_RUN_NOWAIT);
    wire_put(wire, bytes + at, len - at);
}

Test(node_httpd, any_split_reads_the_same)
{
    struct rig rig;
    struct wire wire;

    rig_init(&rig, &rig_limits);
    wire_open(&wire, &rig.loop, rig.port);
    for (size_t at = 1; at < sizeof(echo_length) - 1; at++) {
        send_split(&rig, &wire, echo_length, sizeof(echo_length) - 1, at);
        expect_reply(&wire, 200, "hello");
    }
    for (size_t at = 1; at < sizeof(echo_chunked) - 1; at++) {
        send_split(&rig, &wire, echo_chunked, sizeof(echo_chunked) - 1, at);
        expect_reply(&wire, 200, "hello");
    }
    wire_close(&wire);
    rig_fini(&rig);
}

Test(node_httpd, one_byte_at_a_time_reads_the_same)
{
    struct rig rig;
    struct wire wire;

    rig_init(&rig, &rig_limits);
    wire_open(&wire, &rig.loop, rig.port);
    for (size_t i = 0; i < sizeof(echo_chunked) - 1; i++) {
        wire_put(&wire, echo_chunked + i, 1);
        (void)uv_run(&rig.loop, UV_RUN_NOWAIT);
    }
    expect_reply(&wire, 200, "hello");
    wire_close(&wire);
    rig_fini(&rig);
}

Test(node_httpd, pipelined_requests_are_answered_in_order)
{
    struct rig rig;
    struct wire wire;

    rig_init(&rig, &rig_limits);
    wire_open(&wire, &rig.loop, rig.port);
    char all[1024];
    (void)snprintf(all, sizeof(all), "%s%s%s%s", echo_chunked, get_stream,
                   echo_length, get_stream);
    wire_text(&wire, all);
    expect_reply(&wire, 200, "hello");
    expect_reply(&wire, 200, "one two three");
    expect_reply(&wire, 200, "hello");
    expect_reply(&wire, 200, "one two three");
    wire_close(&wire);
    rig_fini(&rig);
}

Test(node_httpd, the_next_request_waits_for_the_answer_before_it)
{
    struct rig rig;
    struct wire wire;
    char all[1024];

    rig_init(&rig, &rig_limits);
    wire_open(&wire, &rig.loop, rig.port);
    (void)snprintf(all, sizeof(all), "%s%s%s", get_later, get_later,
                   echo_length);
    wire_text(&wire, all);
    WAIT(&rig.loop, rig.requests == 1);
    (void)uv_run(&rig.loop, UV_RUN_NOWAIT);
    cr_assert_eq(rig.requests, 1);
    rig.depth = 1; /* a callback from within httpd_answer() would show */
    httpd_answer(rig.held, 200, NULL, SLICE(""), SLICE("first"));
    rig.depth = 0;
    WAIT(&rig.loop, rig.requests == 2);
    httpd_answer(rig.held, 200, NULL, SLICE(""), SLICE("second"));
    expect_reply(&wire, 200, "first");
    expect_reply(&wire, 200, "second");
    expect_reply(&wire, 200, "hello");
    wire_close(&wire);
    rig_fini(&rig);
}

Test(node_httpd, input_behind_an_open_request_is_bounded)
{
    struct rig rig;
    struct wire wire;
    static char junk[4 << 20];

    rig_init(&rig, &rig_limits);
    wire_open(&wire, &rig.loop, rig.port);
    wire_text(&wire, get_later);
    WAIT(&rig.loop, rig.held != NULL);
    memset(junk, '\r', sizeof(junk));
    int sent = 0;
    do { /* until the kernel's buffers are full, too */
        ssize_t n =
            send(wire.fd, junk, sizeof(junk), MSG_DONTWAIT | MSG_NOSIGNAL);
        sent = n > 0;
        (void)uv_run(&rig.loop, UV_RUN_NOWAIT);
    } while (sent);
    const struct httpd_conn *conn = rig.held->conn;
    cr_assert_eq(conn->in.len, conn->in.size);
    cr_assert_leq(conn->in.size, 8192);
    httpd_answer(rig.held, 200, NULL, SLICE(""), SLICE("ok"));
    expect_reply(&wire, 200, "ok");
    struct wire_reply reply;
    wire_reply(&wire, &reply);
    cr_assert_eq(reply.status, 400);
    wire_close(&wire);
    rig_fini(&rig);
}

static void
expect_refusal(struct rig *rig, const char *bytes, size_t len, unsigned status)
{
    struct wire wire;
    struct wire_reply reply;
    uint64_t before = httpd_stats(rig->httpd)->bad_requests;

    wire_open(&wire, &rig->loop, rig->port);
    wire_put(&wire, bytes, len);
    wire_reply(&wire, &reply);
    cr_assert_eq(reply.status, status, "%u for %.60s", reply.status, bytes);
    cr_assert(!reply.keep_alive);
    cr_assert_eq(strncmp(reply.body, "{\"error\":{\"message\":\"", 21), 0);
    wire_expect_end(&wire);
    cr_assert_eq(httpd_stats(rig->httpd)->bad_requests, before + 1);
    wire_close(&wire);
}

static void
expect_text_refused(struct rig *rig, const char *text, unsigned status)
{
    expect_refusal(rig, text, strlen(text), status);
}

Test(node_httpd, what_is_not_http_is_refused_and_closed)
{
    struct rig rig;
    static const char nul[] = "GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n";

    rig_init(&rig, &rig_limits);
    expect_text_refused(&rig, "hello\r\n\r\n", 400);
    expect_text_refused(&rig, "\x16\x03\x01\x02\r\n\r\n", 400);
    expect_text_refused(&rig, "GET / HTTP/1.1\r\n\r\n", 400);
    expect_text_refused(&rig, "GET / HTTP/1.1\nHost: h\n\n", 400);
    expect_text_refused(&rig, "GET / HTTP/2.0\r\nHost: h\r\n\r\n", 505);
    expect_refusal(&rig, nul, sizeof(nul) - 1, 400);
    expect_text_refused(&rig,
                        "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 5"
                        "\r\nTransfer-Encoding: chunked\r\n\r\n",
                        400);
    expect_text_refused(&rig,
                        "POST /echo HTTP/1.1\r\nHost: h\r\n"
                        "Transfer-Encoding: gzip, chunked\r\n\r\n",
                        501);
    expect_text_refused(&rig,
                        "POST /echo HTTP/1.1\r\nHost: h\r\n"
                        "Transfer-Encoding: chunked\r\n\r\n5 \r\nhello\r\n",
                        400);
    cr_assert_eq(rig.requests, 0);
    rig_fini(&rig);
}

Test(node_httpd, what_is_over_a_limit_is_refused_and_closed)
{
    struct rig rig;
    static char text[200000];

    rig_init(&rig, &rig_limits);
    int len = snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: h\r\nX: ");
    memset(text + len, 'x', 5000);
    expect_refusal(&rig, text, (size_t)len + 5000, 431);
    expect_text_refused(&rig,
                        "POST /echo HTTP/1.1\r\nHost: h\r\n"
                        "Content-Length: 65537\r\n\r\n",
                        413);
    expect_text_refused(&rig,
                        "POST /echo HTTP/1.1\r\nHost: h\r\n"
                        "Content-Type: text/plain\r\n\r\n",
                        411);
    /* All of a body that is too large is sent before the answer is read. */
    len = snprintf(text, sizeof(text),
                   "POST /echo HTTP/1.1\r\nHost: h\r\n"
                   "Transfer-Encoding: chunked\r\n\r\n20000\r\n");
    memset(text + len, 'x', 0x20000);
    expect_refusal(&rig, text, (size_t)len + 0x20000, 413);

    struct httpd_limits limits = rig_limits;
    rig_fini(&rig);
    limits.head_bytes_max = 16384;
    rig_init(&rig, &limits);
    memset(text, 'x', 9000);
    memcpy(text, "GET /", 5);
    memcpy(text + 9000, " HTTP/1.1\r\nHost: h\r\n\r\n", 23);
    expect_refusal(&rig, text, 9023, 414);
    rig_fini(&rig);
}

Test(node_httpd, a_body_of_the_largest_size_is_taken)
{
    struct rig rig;
    struct wire wire;
    struct wire_reply reply;
    static char text[70000];

    rig_init(&rig, &rig_limits);
    wire_open(&wire, &rig.loop, rig.port);
    int len = snprintf(text, sizeof(text),
                       "POST /echo HTTP/1.1\r\nHost: h\r\n"
                       "Content-Length: 65536\r\n\r\n");
    memset(text + len, 'b', 65536);
    for (int i = 0; i < 3; i++) {
        wire_put(&wire, text, (size_t)len + 65536);
        wire_reply(&wire, &reply);
        cr_assert_eq(reply.status, 200);
        cr_assert_eq(reply.size, 65536);
    }
    wire_close(&wire);
    rig_fini(&rig);
}

Test(node_httpd, a_post_without_a_body_needs_no_length)
{
    struct rig rig;
    struct wire wire;

    rig_init(&rig, &rig_limits);
    wire_open(&wire, &rig.loop, rig.port);
    wire_text(&wire, "POST /echo HTTP/1.1\r\nHost: h\r\n\r\n");
    expect_reply(&wire, 200, "");
    wire_text(&wire, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 0"
                     "\r\nContent-Type: text/plain\r\n\r\n");
    expect_reply(&wire, 200, "");
    wire_close(&wire);
    rig_fini(&rig);
}

Test(node_httpd, expect_is_answered_before_the_body_comes)
{
    struct rig rig;
    struct wire wire;
    struct wire_reply reply;

    rig_init(&rig, &rig_limits);
    wire_open(&wire, &rig.loop, rig.port);
    wire_text(&wire, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n"
                     "Expect: 100-continue\r\n\r\n");
    wire_reply(&wire, &reply);
    cr_assert_eq(reply.status, 100);
    wire_text(&wire, "ok");
    expect_reply(&wire, 200, "ok");
    wire_text(&wire, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n"
                     "Expect: 100-continue\r\n\r\nok");
    expect_reply(&wire, 200, "ok"); /* no 100: the body was there */
    wire_text(&wire, "POST /echo HTTP/1.1\r\nHost: h\r\n"
                     "Content-Length: 70000\r\nExpect: 100-continue\r\n\r\n");
    wire_reply(&wire, &reply);
    cr_assert_eq(reply.status, 413);
    wire_expect_end(&wire);
    wire_close(&wire);
    rig_fini(&rig);
}

Test(node_httpd, http_1_0_is_understood)
{
    struct rig rig;
    struct wire wire;
    struct wire_reply reply;

    rig_init(&rig, &rig_limits);
    wire_open(&wire, &rig.loop, rig.port);
    wire_text(&wire, "GET /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    wire_reply(&wire, &reply);
    cr_assert(reply.keep_alive);
    wire_text(&wire, "GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    wire_reply(&wire, &reply);
    cr_assert_eq(reply.framing, HTTP_BODY_CLOSE);
    cr_assert(!reply.keep_alive);
    cr_assert_str_eq(reply.body, "one two three");
    wire_close(&wire);

    wire_open(&wire, &rig.loop, rig.port);
    wire_text(&wire, "POST /echo HTTP/1.0\r\nContent-Length: 1\r\n\r\nx");
    wire_reply(&wire, &reply);
    cr_assert_eq(reply.framing, HTTP_BODY_LENGTH);
    wire_expect_end(&wire);
    wire_close(&wire);
    rig_fini(&rig);
}

Test(node_httpd, a_client_may_ask_to_close)
{
    struct rig rig;
    struct wire wire;
    struct wire_reply reply;

    rig_init(&rig, &rig_limits);
    wire_open(&wire, &rig.loop, rig.port);
    wire_text(&wire, "GET /stream HTTP/1.1\r\nHost: h\r\n"
                     "Connection: close\r\n\r\n");
    wire_reply(&wire, &reply);
    cr_assert(!reply.keep_alive);
    cr_assert_eq(reply.framing, HTTP_BODY_CHUNKED);
    wire_expect_end(&wire);
    wire_close(&wire);
    rig_fini(&rig);
}

Test(node_httpd, head_gets_the_head_alone)
{
    struct rig rig;
    struct wire wire;
    struct wire_reply reply;

    rig_init(&rig, &rig_limits);
    wire_open(&wire, &rig.loop, rig.port);
    wire_text(&wire, "HEAD /none HTTP/1.1\r\nHost: h\r\n\r\n");
    WAIT(&rig.loop, wire_take(&wire, HTTP_HEAD, &reply));
    cr_assert_eq(reply.status, 404);
    wire_text(&wire, "HEAD /stream HTTP/1.1\r\nHost: h\r\n\r\n");
    WAIT(&rig.loop, wire_take(&wire, HTTP_HEAD, &reply));
    wire_text(&wire, echo_length);
    expect_reply(&wire, 200, "hello");
    wire_close(&wire);
    rig_fini(&rig);
}

Test(node_httpd, an_answer_without_a_body_says_no_length)
{
    struct rig rig;
    struct wire wire;

    rig_init(&rig, &rig_limits);
    wire_open(&wire, &rig.loop, rig.port);
    wire_text(&wire, get_later);
    WAIT(&rig.loop, rig.held != NULL);
    httpd_answer(rig.held, 204, NULL, SLICE(""), SLICE("swallowed"));
    wire_text(&wire, echo_length);
    WAIT(&rig.loop, wire.got.len > 60);
    cr_assert_eq(strncmp(wire.got.ptr,
                         "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200", 39),
                 0);
    wire_close(&wire);
    rig_fini(&rig);
}

Test(node_httpd, half_a_request_meets_408_and_silence_is_just_closed)
{
    struct rig rig;
    struct wire half, body, silent;
    struct wire_reply reply;
    struct httpd_limits limits = rig_limits;

    limits.idle_timeout_ms = 20;
    rig_init(&rig, &limits);
    wire_open(&half, &rig.loop, rig.port);
    wire_open(&body, &rig.loop, rig.port);
    wire_open(&silent, &rig.loop, rig.port);
    wire_text(&half, "GET /echo HT");
    wire_text(&body, "POST /echo HTTP/1.1\r\nHost: h\r\n"
                     "Content-Length: 9\r\n\r\nx");
    wire_reply(&half, &reply);
    cr_assert_eq(reply.status, 408);
    wire_expect_end(&half);
    wire_reply(&body, &reply);
    cr_assert_eq(reply.status, 408);
    wire_expect_end(&body);
    wire_expect_end(&silent);
    cr_assert_eq(httpd_stats(rig.httpd)->read_timeouts, 2);
    cr_assert_eq(httpd_stats(rig.httpd)->idle_timeouts, 1);
    wire_close(&half);
    wire_close(&body);
    wire_close(&silent);
    rig_fini(&rig);
}

Test(node_httpd, a_slow_handler_meets_no_timeout)
{
    struct rig rig;
    struct wire patient, silent;
    struct httpd_limits limits = rig_limits;

    limits.idle_timeout_ms = 10;
    limits.write_timeout_ms = 10;
    rig_init(&rig, &limits);
    wire_open(&patient, &rig.loop, rig.port);
    wire_text(&patient, get_later);
    WAIT(&rig.loop, rig.held != NULL);
    for (int i = 0; i < 3; i++) { /* the same time three times over */
        wire_open(&silent, &rig.loop, rig.port);
        wire_expect_end(&silent);
        wire_close(&silent);
    }
    httpd_answer(rig.held, 200, NULL, SLICE(""), SLICE("done"));
    expect_reply(&patient, 200, "done");
    wire_close(&patient);
    rig_fini(&rig);
}

Test(node_httpd, a_slow_client_costs_bounded_memory_and_gets_it_all)
{
    struct rig rig;
    struct wire wire;
    struct wire_reply *reply = malloc(sizeof(*reply));

    rig_init(&rig, &rig_limits);
    wire_open(&wire, &rig.loop, rig.port);
    (void)uv_poll_stop(&wire.poll); /* reads nothing for now */
    wire_text(&wire, get_flood);
    WAIT(&rig.loop, httpd_stats(rig.httpd)->sends_refused != 0);
    cr_assert_lt(rig.flooded, FLOOD_BYTES);
    wire_listen(&wire);
    wire_reply(&wire, reply);
    cr_assert_eq(reply->size, FLOOD_BYTES);
    cr_assert_eq(rig.flooded, FLOOD_BYTES);
    cr_assert_gt(rig.drained, 0);
    /* One piece's chunk framing may come on top. */
    cr_assert_leq(rig.unsent_most, rig_limits.unsent_bytes_max + 16);
    wire_text(&wire, echo_length);
    expect_reply(&wire, 200, "hello");
    free(reply);
    wire_close(&wire);
    rig_fini(&rig);
}

Test(node_httpd, a_client_that_takes_nothing_is_cut)
{
    struct rig rig;
    struct wire wire;
    struct httpd_limits limits = rig_limits;

    limits.write_timeout_ms = 20;
    rig_init(&rig, &limits);
    wire_open(&wire, &rig.loop, rig.port);
    (void)uv_poll_stop(&wire.poll);
    wire_text(&wire, get_flood);
    WAIT(&rig.loop, rig.gone == 1);
    cr_assert_eq(httpd_stats(rig.httpd)->write_timeouts, 1);
    cr_assert_eq(httpd_stats(rig.httpd)->connections, 0);
    wire_close(&wire);
    rig_fini(&rig);
}

Test(node_httpd, a_client_that_leaves_is_noticed_while_the_handler_is_silent)
{
    struct rig rig;
    struct wire wire;

    rig_init(&rig, &rig_limits);
    wire_open(&wire, &rig.loop, rig.port);
    wire_text(&wire, get_later);
    WAIT(&rig.loop, rig.held != NULL);
    httpd_begin(rig.held, 200, "text/event-stream", SLICE(""));
    cr_assert_eq(httpd_send(rig.held, SLICE("data: 1\n\n")), 0);
    WAIT(&rig.loop, wire.got.len != 0);
    wire_close(&wire);
    WAIT(&rig.loop, rig.gone == 1);
    cr_assert_null(rig.held);
    cr_assert_eq(httpd_stats(rig.httpd)->connections, 0);
    rig_fini(&rig);
    cr_assert_eq(rig.gone, 1);
}

Test(node_httpd, a_client_that_leaves_in_the_flood_is_gone_once)
{
    struct rig rig;
    struct wire wire;

    rig_init(&rig, &rig_limits);
    wire_open(&wire, &rig.loop, rig.port);
    (void)uv_poll_stop(&wire.poll);
    wire_text(&wire, get_flood);
    WAIT(&rig.loop, httpd_stats(rig.httpd)->sends_refused != 0);
    wire_close(&wire);
    WAIT(&rig.loop, httpd_stats(rig.httpd)->connections == 0);
    cr_assert_eq(rig.gone, 1);
    rig_fini(&rig);
}

Test(node_httpd, sends_to_a_dead_client_do_nothing_until_gone)
{
    struct rig rig;
    struct wire wire;
    struct linger hard = {.l_onoff = 1, .l_linger = 0};

    rig_init(&rig, &rig_limits);
    wire_open(&wire, &rig.loop, rig.port);
    wire_text(&wire, get_later);
    WAIT(&rig.loop, rig.held != NULL);
    struct httpd_request *request = rig.held;
    httpd_begin(request, 200, NULL, SLICE(""));
    (void)setsockopt(wire.fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    (void)close(wire.fd); /* a reset, which the server has not read yet */
    for (int i = 0; i < 100; i++) {
        cr_assert_eq(httpd_send(request, SLICE("x")), 0);
    }
    cr_assert_eq(rig.gone, 0);
    WAIT(&rig.loop, rig.gone == 1);
    uv_close((uv_handle_t *)&wire.poll, NULL);
    buf_fini(&wire.got);
    rig_fini(&rig);
}

Test(node_httpd, a_client_that_ends_its_side_still_gets_what_was_answered)
{
    struct rig rig;
    struct wire wire;

    rig_init(&rig, &rig_limits);
    wire_open(&wire, &rig.loop, rig.port);
    wire_text(&wire, get_stream);
    wire_text(&wire, echo_length);
    cr_assert_eq(shutdown(wire.fd, SHUT_WR), 0);
    expect_reply(&wire, 200, "one two three");
    expect_reply(&wire, 200, "hello");
    wire_expect_end(&wire);
    cr_assert_eq(rig.gone, 0);
    wire_close(&wire);
    rig_fini(&rig);
}

Test(node_httpd, an_aborted_answer_is_cut_short)
{
    struct rig rig;
    struct wire wire;

    rig_init(&rig, &rig_limits);
    wire_open(&wire, &rig.loop, rig.port);
    wire_text(&wire, get_later);
    WAIT(&rig.loop, rig.held != NULL);
    httpd_begin(rig.held, 200, NULL, SLICE(""));
    cr_assert_eq(httpd_send(rig.held, SLICE("half")), 0);
    httpd_abort(rig.held);
    WAIT(&rig.loop, wire.over);
    cr_assert_eq(strncmp(wire.got.ptr + wire.got.len - 9, "4\r\nhalf\r\n", 9),
                 0);
    cr_assert_eq(rig.gone, 0);
    wire_close(&wire);
    rig_fini(&rig);
}

Test(node_httpd, over_its_connections_it_says_503)
{
    struct rig rig;
    struct wire first, second;
    struct wire_reply reply;
    struct httpd_limits limits = rig_limits;

    limits.connections_max = 1;
    rig_init(&rig, &limits);
    wire_open(&first, &rig.loop, rig.port);
    wire_text(&first, echo_length);
    expect_reply(&first, 200, "hello");
    wire_open(&second, &rig.loop, rig.port);
    wire_text(&second, echo_length);
    wire_reply(&second, &reply);
    cr_assert_eq(reply.status, 503);
    wire_expect_end(&second);
    wire_close(&second);
    cr_assert_eq(httpd_stats(rig.httpd)->refused, 1);
    wire_close(&first);
    WAIT(&rig.loop, httpd_stats(rig.httpd)->connections == 0);
    wire_open(&first, &rig.loop, rig.port);
    wire_text(&first, echo_length);
    expect_reply(&first, 200, "hello");
    wire_close(&first);
    rig_fini(&rig);
}

Test(node_httpd, stopping_lets_open_requests_end)
{
    struct rig rig;
    struct wire open, idle;
    struct wire_reply reply;

    rig_init(&rig, &rig_limits);
    wire_open(&idle, &rig.loop, rig.port);
    wire_text(&idle, echo_length);
    expect_reply(&idle, 200, "hello");
    wire_open(&open, &rig.loop, rig.port);
    wire_text(&open, get_later);
    WAIT(&rig.loop, rig.held != NULL);
    httpd_stop(rig.httpd);
    wire_expect_end(&idle);
    wire_close(&idle);
    httpd_answer(rig.held, 200, NULL, SLICE(""), SLICE("last"));
    wire_reply(&open, &reply);
    cr_assert(!reply.keep_alive);
    cr_assert_str_eq(reply.body, "last");
    wire_expect_end(&open);
    wire_close(&open);
    cr_assert_eq(uv_run(&rig.loop, UV_RUN_DEFAULT), 0); /* it can end */
    cr_assert_eq(httpd_stats(rig.httpd)->connections, 0);
    rig_fini(&rig);
}

Test(node_httpd, freeing_reports_open_requests_gone_at_once)
{
    struct rig rig;
    struct wire wire;

    rig_init(&rig, &rig_limits);
    wire_open(&wire, &rig.loop, rig.port);
    wire_text(&wire, get_later);
    WAIT(&rig.loop, rig.held != NULL);
    httpd_free(rig.httpd);
    rig.httpd = NULL;
    cr_assert_eq(rig.gone, 1);
    WAIT(&rig.loop, wire.over);
    wire_close(&wire);
    rig_fini(&rig);
    cr_assert_eq(rig.gone, 1);
}

Test(node_httpd, a_handler_may_free_the_server)
{
    struct rig rig;
    struct wire wire;

    rig_init(&rig, &rig_limits);
    rig.free_in_handler = true;
    wire_open(&wire, &rig.loop, rig.port);
    wire_text(&wire, get_later);
    wire_text(&wire, get_later);
    WAIT(&rig.loop, wire.over);
    cr_assert_eq(rig.requests, 1);
    cr_assert_eq(rig.gone, 1);
    wire_close(&wire);
    rig_fini(&rig);
}

Test(node_httpd, a_taken_port_is_an_error)
{
    struct rig rig;
    struct httpd *second = NULL;
    struct httpd_handler handler = {.request = rig_on_request};

    rig_init(&rig, &rig_limits);
    struct sockaddr_in address = wire_loopback(rig.port);
    cr_assert_eq(httpd_new(&second, &rig.loop, (struct sockaddr *)&address,
                           &rig_limits, &handler),
                 -EADDRINUSE);
    cr_assert_null(second);
    rig_fini(&rig);
}
