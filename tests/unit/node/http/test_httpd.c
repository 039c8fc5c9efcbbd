#include "tests/unit/node/http/httpd_rig.h"

TestSuite(node_httpd, .timeout = 60);

Test(node_httpd, a_connection_serves_many_requests)
{
    struct rig rig;
    struct raw_socket wire;

    rig_init(&rig, &rig_limits);
    raw_socket_open(&wire, &rig.loop, rig.port);
    for (int i = 0; i < 10; i++) {
        raw_socket_text(&wire, ECHO_LENGTH);
        rig_expect(&wire, 200, "hello");
        raw_socket_text(&wire, ECHO_CHUNKED);
        rig_expect(&wire, 200, "hello");
        raw_socket_text(&wire, GET_STREAM);
        rig_expect(&wire, 200, "one two three");
    }
    cr_assert_eq(httpd_stats(rig.httpd)->accepted, 1);
    cr_assert_eq(httpd_stats(rig.httpd)->requests, 30);
    cr_assert_eq(httpd_stats(rig.httpd)->requests_open, 0);
    raw_socket_close(&wire);
    rig_fini(&rig);
    cr_assert_eq(rig.gone, 0);
}

Test(node_httpd, heads_say_what_follows)
{
    struct rig rig;
    struct raw_socket wire;

    rig_init(&rig, &rig_limits);
    raw_socket_open(&wire, &rig.loop, rig.port);
    raw_socket_text(&wire, ECHO_LENGTH);
    WAIT(&rig.loop, wire.got.len >= 5 && memcmp(wire.got.ptr + wire.got.len - 5,
                                                "hello", 5) == 0);
    cr_assert(slice_equal(buf_slice(&wire.got),
                          SLICE("HTTP/1.1 200 OK\r\nContent-Type: text/plain"
                                "\r\nX-Extra: yes\r\nContent-Length: 5\r\n\r\n"
                                "hello")));
    buf_clear(&wire.got);
    raw_socket_text(&wire, "GET /none HTTP/1.1\r\nHost: h\r\n\r\n");
    rig_expect(&wire, 404,
               "{\"error\":{\"message\":\"nothing \\\"here\\\"\\n\","
               "\"type\":\"not_found_error\",\"code\":\"no_such_path\"}}");
    raw_socket_close(&wire);
    rig_fini(&rig);
}

/* On loopback, what was sent is there when send() returns, so running the loop
 * once makes the server see exactly this much. */
static void
send_split(struct rig *rig, struct raw_socket *wire, const char *bytes,
           size_t len, size_t at)
{
    raw_socket_put(wire, bytes, at);
    (void)uv_run(&rig->loop, UV_RUN_NOWAIT);
    raw_socket_put(wire, bytes + at, len - at);
}

Test(node_httpd, any_split_reads_the_same)
{
    struct rig rig;
    struct raw_socket wire;

    rig_init(&rig, &rig_limits);
    raw_socket_open(&wire, &rig.loop, rig.port);
    for (size_t at = 1; at < sizeof(ECHO_LENGTH) - 1; at++) {
        send_split(&rig, &wire, ECHO_LENGTH, sizeof(ECHO_LENGTH) - 1, at);
        rig_expect(&wire, 200, "hello");
    }
    for (size_t at = 1; at < sizeof(ECHO_CHUNKED) - 1; at++) {
        send_split(&rig, &wire, ECHO_CHUNKED, sizeof(ECHO_CHUNKED) - 1, at);
        rig_expect(&wire, 200, "hello");
    }
    raw_socket_close(&wire);
    rig_fini(&rig);
}

Test(node_httpd, one_byte_at_a_time_reads_the_same)
{
    struct rig rig;
    struct raw_socket wire;
    static const char text[] = ECHO_CHUNKED;

    rig_init(&rig, &rig_limits);
    raw_socket_open(&wire, &rig.loop, rig.port);
    for (size_t i = 0; i < sizeof(text) - 1; i++) {
        raw_socket_put(&wire, text + i, 1);
        (void)uv_run(&rig.loop, UV_RUN_NOWAIT);
    }
    rig_expect(&wire, 200, "hello");
    raw_socket_close(&wire);
    rig_fini(&rig);
}

Test(node_httpd, pipelined_requests_are_answered_in_order)
{
    struct rig rig;
    struct raw_socket wire;

    rig_init(&rig, &rig_limits);
    raw_socket_open(&wire, &rig.loop, rig.port);
    char all[1024];
    (void)snprintf(all, sizeof(all), "%s%s%s%s", ECHO_CHUNKED, GET_STREAM,
                   ECHO_LENGTH, GET_STREAM);
    raw_socket_text(&wire, all);
    rig_expect(&wire, 200, "hello");
    rig_expect(&wire, 200, "one two three");
    rig_expect(&wire, 200, "hello");
    rig_expect(&wire, 200, "one two three");
    raw_socket_close(&wire);
    rig_fini(&rig);
}

Test(node_httpd, the_next_request_waits_for_the_answer_before_it)
{
    struct rig rig;
    struct raw_socket wire;
    char all[1024];

    rig_init(&rig, &rig_limits);
    raw_socket_open(&wire, &rig.loop, rig.port);
    (void)snprintf(all, sizeof(all), "%s%s%s", GET_LATER, GET_LATER,
                   ECHO_LENGTH);
    raw_socket_text(&wire, all);
    WAIT(&rig.loop, rig.requests == 1);
    (void)uv_run(&rig.loop, UV_RUN_NOWAIT);
    cr_assert_eq(rig.requests, 1);
    rig.depth = 1; /* a callback from within httpd_answer() would show */
    httpd_answer(rig.held, 200, NULL, SLICE(""), SLICE("first"));
    rig.depth = 0;
    WAIT(&rig.loop, rig.requests == 2);
    httpd_answer(rig.held, 200, NULL, SLICE(""), SLICE("second"));
    rig_expect(&wire, 200, "first");
    rig_expect(&wire, 200, "second");
    rig_expect(&wire, 200, "hello");
    raw_socket_close(&wire);
    rig_fini(&rig);
}

Test(node_httpd, a_body_of_the_largest_size_is_taken)
{
    struct rig rig;
    struct raw_socket wire;
    struct raw_socket_reply reply;
    static char text[70000];

    rig_init(&rig, &rig_limits);
    raw_socket_open(&wire, &rig.loop, rig.port);
    int len = snprintf(text, sizeof(text),
                       "POST /echo HTTP/1.1\r\nHost: h\r\n"
                       "Content-Length: 65536\r\n\r\n");
    memset(text + len, 'b', 65536);
    for (int i = 0; i < 3; i++) {
        raw_socket_put(&wire, text, (size_t)len + 65536);
        raw_socket_reply(&wire, &reply);
        cr_assert_eq(reply.status, 200);
        cr_assert_eq(reply.size, 65536);
    }
    /* An idle connection does not keep what a large body took. */
    cr_assert_leq(rig.last->conn->in.size, HTTPD_KEEP_BYTES);
    raw_socket_close(&wire);
    rig_fini(&rig);
}

Test(node_httpd, a_post_without_a_body_needs_no_length)
{
    struct rig rig;
    struct raw_socket wire;

    rig_init(&rig, &rig_limits);
    raw_socket_open(&wire, &rig.loop, rig.port);
    raw_socket_text(&wire, "POST /echo HTTP/1.1\r\nHost: h\r\n\r\n");
    rig_expect(&wire, 200, "");
    raw_socket_text(&wire, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 0"
                           "\r\nContent-Type: text/plain\r\n\r\n");
    rig_expect(&wire, 200, "");
    raw_socket_close(&wire);
    rig_fini(&rig);
}

Test(node_httpd, expect_is_answered_before_the_body_comes)
{
    struct rig rig;
    struct raw_socket wire;
    struct raw_socket_reply reply;

    rig_init(&rig, &rig_limits);
    raw_socket_open(&wire, &rig.loop, rig.port);
    raw_socket_text(&wire,
                    "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n"
                    "Expect: 100-continue\r\n\r\n");
    raw_socket_reply(&wire, &reply);
    cr_assert_eq(reply.status, 100);
    raw_socket_text(&wire, "ok");
    rig_expect(&wire, 200, "ok");
    raw_socket_text(&wire,
                    "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n"
                    "Expect: 100-continue\r\n\r\nok");
    rig_expect(&wire, 200, "ok"); /* no 100: the body was there */
    raw_socket_text(&wire,
                    "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n"
                    "Expect: 100-continue\r\n\r\no");
    (void)uv_run(&rig.loop, UV_RUN_NOWAIT);
    raw_socket_text(&wire, "k");
    rig_expect(&wire, 200, "ok"); /* no 100: the body had begun */
    raw_socket_text(&wire,
                    "POST /echo HTTP/1.1\r\nHost: h\r\n"
                    "Content-Length: 70000\r\nExpect: 100-continue\r\n\r\n");
    raw_socket_reply(&wire, &reply);
    cr_assert_eq(reply.status, 413);
    raw_socket_expect_end(&wire);
    raw_socket_close(&wire);
    rig_fini(&rig);
}

Test(node_httpd, a_request_seen_before_the_end_of_input_is_answered)
{
    struct rig rig;
    struct raw_socket wire;

    rig_init(&rig, &rig_limits);
    raw_socket_open(&wire, &rig.loop, rig.port);
    raw_socket_text(&wire, GET_LATER ECHO_LENGTH);
    WAIT(&rig.loop, rig.held != NULL);
    struct sock *sock = &rig.held->conn->sock;
    httpd_answer(rig.held, 200, NULL, SLICE(""), SLICE("first"));
    /* The end arrives before the loop comes to what is already here. */
    cr_assert_eq(shutdown(wire.fd, SHUT_WR), 0);
    sock->ready(sock, SOCK_READ);
    rig_expect(&wire, 200, "first");
    rig_expect(&wire, 200, "hello");
    raw_socket_expect_end(&wire);
    raw_socket_close(&wire);
    rig_fini(&rig);
}

Test(node_httpd, http_1_0_is_understood)
{
    struct rig rig;
    struct raw_socket wire;
    struct raw_socket_reply reply;

    rig_init(&rig, &rig_limits);
    raw_socket_open(&wire, &rig.loop, rig.port);
    raw_socket_text(&wire,
                    "GET /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    raw_socket_reply(&wire, &reply);
    cr_assert(reply.keep_alive);
    raw_socket_text(&wire,
                    "GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    raw_socket_reply(&wire, &reply);
    cr_assert_eq(reply.framing, HTTP_BODY_CLOSE);
    cr_assert(!reply.keep_alive);
    cr_assert_str_eq(reply.body, "one two three");
    raw_socket_close(&wire);

    raw_socket_open(&wire, &rig.loop, rig.port);
    raw_socket_text(&wire, "POST /echo HTTP/1.0\r\nContent-Length: 1\r\n\r\nx");
    raw_socket_reply(&wire, &reply);
    cr_assert_eq(reply.framing, HTTP_BODY_LENGTH);
    raw_socket_expect_end(&wire);
    raw_socket_close(&wire);
    rig_fini(&rig);
}

Test(node_httpd, a_client_may_ask_to_close)
{
    struct rig rig;
    struct raw_socket wire;
    struct raw_socket_reply reply;

    rig_init(&rig, &rig_limits);
    raw_socket_open(&wire, &rig.loop, rig.port);
    raw_socket_text(&wire, "GET /stream HTTP/1.1\r\nHost: h\r\n"
                           "Connection: close\r\n\r\n");
    raw_socket_reply(&wire, &reply);
    cr_assert(!reply.keep_alive);
    cr_assert_eq(reply.framing, HTTP_BODY_CHUNKED);
    raw_socket_expect_end(&wire);
    raw_socket_close(&wire);
    rig_fini(&rig);
}

Test(node_httpd, head_gets_the_head_alone)
{
    struct rig rig;
    struct raw_socket wire;
    struct raw_socket_reply reply;

    rig_init(&rig, &rig_limits);
    raw_socket_open(&wire, &rig.loop, rig.port);
    raw_socket_text(&wire, "HEAD /none HTTP/1.1\r\nHost: h\r\n\r\n");
    WAIT(&rig.loop, raw_socket_take(&wire, HTTP_HEAD, &reply));
    cr_assert_eq(reply.status, 404);
    raw_socket_text(&wire, "HEAD /stream HTTP/1.1\r\nHost: h\r\n\r\n");
    WAIT(&rig.loop, raw_socket_take(&wire, HTTP_HEAD, &reply));
    raw_socket_text(&wire, ECHO_LENGTH);
    rig_expect(&wire, 200, "hello");
    raw_socket_close(&wire);
    rig_fini(&rig);
}

Test(node_httpd, an_answer_without_a_body_says_no_length)
{
    struct rig rig;
    struct raw_socket wire;

    rig_init(&rig, &rig_limits);
    raw_socket_open(&wire, &rig.loop, rig.port);
    raw_socket_text(&wire, GET_LATER);
    WAIT(&rig.loop, rig.held != NULL);
    httpd_answer(rig.held, 204, NULL, SLICE(""), SLICE("swallowed"));
    raw_socket_text(&wire, ECHO_LENGTH);
    WAIT(&rig.loop, wire.got.len > 60);
    cr_assert_eq(strncmp(wire.got.ptr,
                         "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200", 39),
                 0);
    raw_socket_close(&wire);
    rig_fini(&rig);
}

Test(node_httpd, a_client_that_ends_its_side_still_gets_what_was_answered)
{
    struct rig rig;
    struct raw_socket wire;

    rig_init(&rig, &rig_limits);
    raw_socket_open(&wire, &rig.loop, rig.port);
    raw_socket_text(&wire, GET_STREAM);
    raw_socket_text(&wire, ECHO_LENGTH);
    cr_assert_eq(shutdown(wire.fd, SHUT_WR), 0);
    rig_expect(&wire, 200, "one two three");
    rig_expect(&wire, 200, "hello");
    raw_socket_expect_end(&wire);
    cr_assert_eq(rig.gone, 0);
    raw_socket_close(&wire);
    rig_fini(&rig);
}
