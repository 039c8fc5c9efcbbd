#include "tests/unit/node/http/httpd_rig.h"

TestSuite(node_httpd_stream, .timeout = 60);

Test(node_httpd_stream, input_behind_an_open_request_is_bounded)
{
    struct rig rig;
    struct raw_socket wire;
    static char junk[4 << 20];

    rig_init(&rig, &rig_limits);
    raw_socket_open(&wire, &rig.loop, rig.port);
    raw_socket_text(&wire, GET_LATER);
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
    rig_expect(&wire, 200, "ok");
    struct raw_socket_reply reply;
    raw_socket_reply(&wire, &reply);
    cr_assert_eq(reply.status, 400);
    raw_socket_close(&wire);
    rig_fini(&rig);
}

Test(node_httpd_stream, a_slow_client_costs_bounded_memory_and_gets_it_all)
{
    struct rig rig;
    struct raw_socket wire;
    struct raw_socket_reply *reply = malloc(sizeof(*reply));

    rig_init(&rig, &rig_limits);
    raw_socket_open(&wire, &rig.loop, rig.port);
    (void)uv_poll_stop(&wire.poll); /* reads nothing for now */
    raw_socket_text(&wire, GET_FLOOD);
    WAIT(&rig.loop, httpd_stats(rig.httpd)->sends_refused != 0);
    cr_assert_lt(rig.flooded, FLOOD_BYTES);
    raw_socket_listen(&wire);
    WAIT(&rig.loop, wire.got.len > FLOOD_BYTES && rig.flooded == FLOOD_BYTES);
    raw_socket_reply(&wire, reply);
    cr_assert_eq(reply->size, FLOOD_BYTES);
    cr_assert_eq(rig.flooded, FLOOD_BYTES);
    cr_assert_eq(reply->digest, rig.digest);
    cr_assert_gt(rig.drained, 0);
    /* One piece's chunk framing may come on top. */
    cr_assert_leq(rig.unsent_most, rig_limits.unsent_bytes_max + 16);
    raw_socket_text(&wire, ECHO_LENGTH);
    rig_expect(&wire, 200, "hello");
    free(reply);
    raw_socket_close(&wire);
    rig_fini(&rig);
}

Test(node_httpd_stream, pieces_behind_a_half_sent_queue_keep_their_order)
{
    struct rig rig;
    struct raw_socket wire;
    struct raw_socket_reply *reply = malloc(sizeof(*reply));
    struct httpd_limits limits = rig_limits;

    limits.unsent_bytes_max = FLOOD_BYTES / 2; /* more than a kernel takes */
    rig_init(&rig, &limits);
    raw_socket_open(&wire, &rig.loop, rig.port);
    (void)uv_poll_stop(&wire.poll);
    raw_socket_text(&wire, GET_FLOOD);
    WAIT(&rig.loop, httpd_stats(rig.httpd)->sends_refused != 0);
    const struct httpd_conn *conn = rig.last->conn;
    raw_socket_listen(&wire);
    WAIT(&rig.loop, conn->out_at > conn->out.len / 2);
    cr_assert_lt(conn->out_at, conn->out.len);
    cr_assert_lt(rig.flooded, FLOOD_BYTES);
    rig_flood(&rig, rig.last);
    WAIT(&rig.loop, wire.got.len > FLOOD_BYTES && rig.flooded == FLOOD_BYTES);
    raw_socket_reply(&wire, reply);
    cr_assert_eq(reply->size, FLOOD_BYTES);
    cr_assert_eq(reply->digest, rig.digest);
    free(reply);
    raw_socket_close(&wire);
    rig_fini(&rig);
}

Test(node_httpd_stream, a_long_pipeline_stays_within_its_bound)
{
    struct rig rig;
    struct raw_socket wire;
    struct buf all;
    struct httpd_limits limits = rig_limits;
    enum {
        COUNT = 3000
    };

    limits.head_bytes_max = 256;
    limits.body_bytes_max = 256;
    rig_init(&rig, &limits);
    buf_init(&all, 1 << 20);
    for (int i = 0; i < COUNT; i++) {
        buf_add_text(&all, GET_LATER);
    }
    raw_socket_open(&wire, &rig.loop, rig.port);
    raw_socket_put(&wire, all.ptr, all.len);
    for (unsigned i = 1; i <= COUNT; i++) {
        WAIT(&rig.loop, rig.requests == i);
        /* Lets it read ahead as far as it will. */
        (void)uv_run(&rig.loop, UV_RUN_NOWAIT);
        cr_assert_leq(rig.held->conn->in.size, 512 + 16384);
        httpd_answer(rig.held, 200, NULL, SLICE(""), SLICE("x"));
    }
    for (int i = 0; i < COUNT; i++) {
        rig_expect(&wire, 200, "x");
    }
    buf_fini(&all);
    raw_socket_close(&wire);
    rig_fini(&rig);
}

Test(node_httpd_stream, a_client_that_takes_nothing_is_cut)
{
    struct rig rig;
    struct raw_socket wire;
    struct httpd_limits limits = rig_limits;

    limits.write_timeout_ms = 20;
    rig_init(&rig, &limits);
    raw_socket_open(&wire, &rig.loop, rig.port);
    (void)uv_poll_stop(&wire.poll);
    raw_socket_text(&wire, GET_FLOOD);
    WAIT(&rig.loop, rig.gone == 1);
    cr_assert_eq(httpd_stats(rig.httpd)->write_timeouts, 1);
    cr_assert_eq(httpd_stats(rig.httpd)->connections, 0);
    raw_socket_close(&wire);
    rig_fini(&rig);
}

Test(node_httpd_stream, a_client_that_takes_a_little_is_not_cut)
{
    struct rig rig;
    struct raw_socket wire;
    struct httpd_limits limits = rig_limits;

    limits.unsent_bytes_max = FLOOD_BYTES / 2; /* more than a kernel takes */
    rig_init(&rig, &limits);
    raw_socket_open(&wire, &rig.loop, rig.port);
    (void)uv_poll_stop(&wire.poll);
    raw_socket_text(&wire, GET_FLOOD);
    WAIT(&rig.loop, httpd_stats(rig.httpd)->sends_refused != 0);
    struct httpd_conn *conn = rig.last->conn;
    for (int i = 0; i < 3; i++) {
        raw_socket_listen(&wire);
        WAIT(&rig.loop, httpd_out_moved(conn));
        (void)uv_poll_stop(&wire.poll);
        rig_let_expire(conn);
        cr_assert_eq(conn->state, HTTPD_BUSY);
    }
    rig_let_expire(conn); /* nothing since */
    WAIT(&rig.loop, rig.gone == 1);
    cr_assert_eq(httpd_stats(rig.httpd)->write_timeouts, 1);
    raw_socket_close(&wire);
    rig_fini(&rig);
}

Test(node_httpd_stream,
     a_client_that_leaves_is_noticed_while_the_handler_is_silent)
{
    struct rig rig;
    struct raw_socket wire;

    rig_init(&rig, &rig_limits);
    raw_socket_open(&wire, &rig.loop, rig.port);
    raw_socket_text(&wire, GET_LATER);
    WAIT(&rig.loop, rig.held != NULL);
    httpd_begin(rig.held, 200, "text/event-stream", SLICE(""));
    cr_assert_eq(httpd_send(rig.held, SLICE("data: 1\n\n")), 0);
    WAIT(&rig.loop, wire.got.len != 0);
    raw_socket_close(&wire);
    WAIT(&rig.loop, rig.gone == 1);
    cr_assert_null(rig.held);
    cr_assert_eq(httpd_stats(rig.httpd)->connections, 0);
    rig_fini(&rig);
    cr_assert_eq(rig.gone, 1);
}

Test(node_httpd_stream, a_client_that_leaves_is_noticed_behind_unread_input)
{
    struct rig rig;
    struct raw_socket wire;
    static char junk[16384];

    rig_init(&rig, &rig_limits);
    raw_socket_open(&wire, &rig.loop, rig.port);
    raw_socket_text(&wire, GET_LATER);
    WAIT(&rig.loop, rig.held != NULL);
    raw_socket_put(&wire, junk, sizeof(junk));
    WAIT(&rig.loop, !rig.held->conn->reading);
    raw_socket_close(&wire);
    WAIT(&rig.loop, rig.gone == 1);
    rig_fini(&rig);
}

Test(node_httpd_stream, a_client_that_leaves_in_the_flood_is_gone_once)
{
    struct rig rig;
    struct raw_socket wire;

    rig_init(&rig, &rig_limits);
    raw_socket_open(&wire, &rig.loop, rig.port);
    (void)uv_poll_stop(&wire.poll);
    raw_socket_text(&wire, GET_FLOOD);
    WAIT(&rig.loop, httpd_stats(rig.httpd)->sends_refused != 0);
    raw_socket_close(&wire);
    WAIT(&rig.loop, httpd_stats(rig.httpd)->connections == 0);
    cr_assert_eq(rig.gone, 1);
    rig_fini(&rig);
}

Test(node_httpd_stream, sends_to_a_dead_client_do_nothing_until_gone)
{
    struct rig rig;
    struct raw_socket wire;
    struct linger hard = {.l_onoff = 1, .l_linger = 0};

    rig_init(&rig, &rig_limits);
    raw_socket_open(&wire, &rig.loop, rig.port);
    raw_socket_text(&wire, GET_LATER);
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

Test(node_httpd_stream, an_aborted_answer_is_cut_short)
{
    struct rig rig;
    struct raw_socket wire;

    rig_init(&rig, &rig_limits);
    raw_socket_open(&wire, &rig.loop, rig.port);
    raw_socket_text(&wire, GET_LATER);
    WAIT(&rig.loop, rig.held != NULL);
    httpd_begin(rig.held, 200, NULL, SLICE(""));
    cr_assert_eq(httpd_send(rig.held, SLICE("half")), 0);
    httpd_abort(rig.held);
    WAIT(&rig.loop, wire.over);
    cr_assert_eq(strncmp(wire.got.ptr + wire.got.len - 9, "4\r\nhalf\r\n", 9),
                 0);
    cr_assert_eq(rig.gone, 0);
    raw_socket_close(&wire);
    rig_fini(&rig);
}
