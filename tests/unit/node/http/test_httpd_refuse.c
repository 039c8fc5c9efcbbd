#include "tests/unit/node/http/httpd_rig.h"

TestSuite(node_httpd_refuse, .timeout = 60);

static void
expect_refusal(struct rig *rig, const char *bytes, size_t len, unsigned status)
{
    struct raw_socket wire;
    struct raw_socket_reply reply;
    uint64_t before = httpd_stats(rig->httpd)->bad_requests;

    raw_socket_open(&wire, &rig->loop, rig->port);
    raw_socket_put(&wire, bytes, len);
    raw_socket_reply(&wire, &reply);
    cr_assert_eq(reply.status, status, "%u for %.60s", reply.status, bytes);
    cr_assert(!reply.keep_alive);
    cr_assert_eq(strncmp(reply.body, "{\"error\":{\"message\":\"", 21), 0);
    raw_socket_expect_end(&wire);
    cr_assert_eq(httpd_stats(rig->httpd)->bad_requests, before + 1);
    raw_socket_close(&wire);
}

static void
expect_text_refused(struct rig *rig, const char *text, unsigned status)
{
    expect_refusal(rig, text, strlen(text), status);
}

Test(node_httpd_refuse, what_is_not_http_is_refused_and_closed)
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

Test(node_httpd_refuse, what_is_over_a_limit_is_refused_and_closed)
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

/* Answered without their bodies, of which some may be on their way. */
Test(node_httpd_refuse, a_body_that_is_not_wanted_is_not_read)
{
    static const char *const starts[] = {
        "Content-Length: 60000\r\n\r\n",
        "Content-Length: 60000\r\nExpect: 100-continue\r\n\r\n",
        "Content-Length: 60000\r\n\r\nGET /later HTTP/1.1\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    };
    struct rig rig;

    rig_init(&rig, &rig_limits);
    rig.wants_no_body = true;
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        struct raw_socket wire;
        struct raw_socket_reply reply;
        raw_socket_open(&wire, &rig.loop, rig.port);
        raw_socket_text(&wire, "POST /echo HTTP/1.1\r\nHost: h\r\n");
        raw_socket_text(&wire, starts[i]);
        raw_socket_reply(&wire, &reply);
        cr_assert_eq(reply.status, 200, "%zu: %u", i, reply.status);
        cr_assert_str_eq(reply.body, "");
        cr_assert(!reply.keep_alive);
        raw_socket_expect_end(&wire);
        raw_socket_close(&wire);
        cr_assert_eq(rig.requests, i + 1);
    }
    rig_fini(&rig);
}

/* The connection that was accepted last, in that state. */
static struct httpd_conn *
wait_for_state(struct rig *rig, enum httpd_state state)
{
    struct list_link *all = &rig->httpd->connections;

    WAIT(&rig->loop,
         !list_is_empty(all) &&
             LIST_OWNER(all->prev, struct httpd_conn, all)->state == state);
    return LIST_OWNER(all->prev, struct httpd_conn, all);
}

static void
expect_timeout(const char *half, enum httpd_state state)
{
    struct rig rig;
    struct raw_socket wire;
    struct raw_socket_reply reply;

    rig_init(&rig, &rig_limits);
    raw_socket_open(&wire, &rig.loop, rig.port);
    raw_socket_text(&wire, half);
    rig_let_expire(wait_for_state(&rig, state));
    raw_socket_reply(&wire, &reply);
    cr_assert_eq(reply.status, 408);
    cr_assert(!reply.keep_alive);
    raw_socket_expect_end(&wire);
    cr_assert_eq(httpd_stats(rig.httpd)->read_timeouts, 1);
    raw_socket_close(&wire);
    rig_fini(&rig);
}

Test(node_httpd_refuse, half_a_request_meets_408)
{
    expect_timeout("GET /echo HT", HTTPD_HEAD);
    expect_timeout("POST /echo HTTP/1.1\r\nHost: h\r\n"
                   "Content-Length: 9\r\n\r\nx",
                   HTTPD_BODY);
}

Test(node_httpd_refuse, silence_is_just_closed)
{
    struct rig rig;
    struct raw_socket wires[3];
    struct httpd_limits limits = rig_limits;

    limits.idle_timeout_ms = 10; /* by the clock: it can only come */
    rig_init(&rig, &limits);
    for (int i = 0; i < 3; i++) {
        raw_socket_open(&wires[i], &rig.loop, rig.port);
    }
    for (int i = 0; i < 3; i++) {
        raw_socket_expect_end(&wires[i]);
        raw_socket_close(&wires[i]);
    }
    cr_assert_eq(httpd_stats(rig.httpd)->idle_timeouts, 3);
    rig_fini(&rig);
}

Test(node_httpd_refuse, a_timer_that_fires_early_is_set_again)
{
    struct rig rig;
    struct raw_socket wire;

    rig_init(&rig, &rig_limits);
    raw_socket_open(&wire, &rig.loop, rig.port);
    struct httpd_conn *conn = wait_for_state(&rig, HTTPD_IDLE);
    rig_fire_timer(&rig);
    cr_assert(uv_is_active((uv_handle_t *)&rig.httpd->timer));
    cr_assert_not_null(conn->deadline.list);
    raw_socket_close(&wire);
    rig_fini(&rig);
}

Test(node_httpd_refuse, a_slow_handler_is_not_timed)
{
    struct rig rig;
    struct raw_socket wire;

    rig_init(&rig, &rig_limits);
    raw_socket_open(&wire, &rig.loop, rig.port);
    raw_socket_text(&wire, GET_LATER);
    WAIT(&rig.loop, rig.held != NULL);
    struct httpd_conn *conn = rig.held->conn;
    cr_assert_null(conn->deadline.list);
    httpd_begin(rig.held, 200, NULL, SLICE(""));
    cr_assert_null(conn->deadline.list);
    httpd_end(rig.held);
    cr_assert_eq(conn->deadline.list,
                 &rig.httpd->deadlines[HTTPD_DEADLINE_IDLE]);
    raw_socket_close(&wire);
    rig_fini(&rig);
}

Test(node_httpd_refuse, a_body_that_trickles_gains_no_time)
{
    struct rig rig;
    struct raw_socket wire;
    static const char text[1100];

    rig_init(&rig, &rig_limits);
    raw_socket_open(&wire, &rig.loop, rig.port);
    raw_socket_text(&wire, "POST /echo HTTP/1.1\r\nHost: h\r\n"
                           "Content-Length: 9999\r\n\r\n");
    struct httpd_conn *conn = wait_for_state(&rig, HTTPD_BODY);
    size_t armed_at = conn->armed_at;
    raw_socket_put(&wire, text, 1000);
    WAIT(&rig.loop, conn->in.len == armed_at + 1000);
    cr_assert_eq(conn->armed_at, armed_at);
    raw_socket_put(&wire, text, 24);
    WAIT(&rig.loop, conn->in.len == armed_at + 1024);
    cr_assert_eq(conn->armed_at, armed_at + 1024);
    raw_socket_close(&wire);
    rig_fini(&rig);
}

Test(node_httpd_refuse, who_only_holds_on_makes_room)
{
    struct rig rig;
    struct raw_socket first;
    struct raw_socket second;
    struct httpd_limits limits = rig_limits;

    limits.connections_max = 1;
    rig_init(&rig, &limits);
    raw_socket_open(&first, &rig.loop, rig.port);
    raw_socket_text(&first, "POST / HTTP/1.1\r\nHost: x\r\n");
    (void)wait_for_state(&rig, HTTPD_HEAD);
    raw_socket_open(&second, &rig.loop, rig.port);
    raw_socket_text(&second, ECHO_LENGTH);
    rig_expect(&second, 200, "hello");
    raw_socket_expect_end(&first);
    cr_assert_eq(httpd_stats(rig.httpd)->made_room, 1);
    cr_assert_eq(httpd_stats(rig.httpd)->refused, 0);
    raw_socket_close(&first);
    raw_socket_close(&second);
    rig_fini(&rig);
}

/* Both are accepted before either is read. */
Test(node_httpd_refuse, who_has_sent_a_request_makes_no_room)
{
    struct rig rig;
    struct raw_socket first;
    struct raw_socket second;
    struct raw_socket_reply reply;
    struct httpd_limits limits = rig_limits;

    limits.connections_max = 1;
    rig_init(&rig, &limits);
    raw_socket_open(&first, &rig.loop, rig.port);
    raw_socket_text(&first, ECHO_LENGTH);
    raw_socket_open(&second, &rig.loop, rig.port);
    raw_socket_text(&second, ECHO_LENGTH);
    raw_socket_reply(&second, &reply);
    cr_assert_eq(reply.status, 503);
    rig_expect(&first, 200, "hello");
    cr_assert_eq(httpd_stats(rig.httpd)->made_room, 0);
    raw_socket_close(&first);
    raw_socket_close(&second);
    rig_fini(&rig);
}

Test(node_httpd_refuse, over_its_connections_it_says_503)
{
    struct rig rig;
    struct raw_socket first;
    struct raw_socket second;
    struct raw_socket_reply reply;
    struct httpd_limits limits = rig_limits;

    limits.connections_max = 1;
    rig_init(&rig, &limits);
    raw_socket_open(&first, &rig.loop, rig.port);
    raw_socket_text(&first, GET_LATER);
    WAIT(&rig.loop, httpd_stats(rig.httpd)->requests_open == 1);
    raw_socket_open(&second, &rig.loop, rig.port);
    raw_socket_text(&second, ECHO_LENGTH);
    raw_socket_reply(&second, &reply);
    cr_assert_eq(reply.status, 503);
    raw_socket_expect_end(&second);
    raw_socket_close(&second);
    cr_assert_eq(httpd_stats(rig.httpd)->refused, 1);
    raw_socket_close(&first);
    WAIT(&rig.loop, httpd_stats(rig.httpd)->connections == 0);
    raw_socket_open(&first, &rig.loop, rig.port);
    raw_socket_text(&first, ECHO_LENGTH);
    rig_expect(&first, 200, "hello");
    raw_socket_close(&first);
    rig_fini(&rig);
}
