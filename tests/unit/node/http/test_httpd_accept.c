#include <sys/resource.h>

#include "tests/unit/node/http/httpd_rig.h"

TestSuite(node_httpd_accept, .timeout = 60);

Test(node_httpd_accept, without_descriptors_it_waits_and_goes_on)
{
    struct rig rig;
    struct raw_socket wire;
    struct raw_socket_reply reply;
    struct rlimit limit;
    struct rlimit none;

    rig_init(&rig, &rig_limits);
    raw_socket_open(&wire, &rig.loop, rig.port);
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = (rlim_t)wire.fd + 1;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    raw_socket_text(&wire, "GET /stream HTTP/1.1\r\nHost: h\r\n\r\n");
    WAIT(&rig.loop, httpd_stats(rig.httpd)->accept_pauses == 2);
    rig_fire_timer(&rig); /* too early */
    WAIT(&rig.loop, httpd_stats(rig.httpd)->accept_pauses == 3);
    cr_assert_eq(httpd_stats(rig.httpd)->accepted, 0);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    raw_socket_reply(&wire, &reply);
    cr_assert_eq(reply.status, 200);
    raw_socket_close(&wire);
    rig_fini(&rig);
}

Test(node_httpd_accept, connections_come_and_go)
{
    struct rig rig;
    struct raw_socket wires[40];
    struct raw_socket_reply reply;

    rig_init(&rig, &rig_limits);
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 40; i++) {
            raw_socket_open(&wires[i], &rig.loop, rig.port);
            raw_socket_text(&wires[i],
                            "GET /stream HTTP/1.1\r\nHost: h\r\n\r\n");
        }
        for (int i = 0; i < 40; i++) {
            raw_socket_reply(&wires[i], &reply);
            raw_socket_close(&wires[i]);
        }
        WAIT(&rig.loop, httpd_stats(rig.httpd)->connections == 0);
    }
    cr_assert_eq(httpd_stats(rig.httpd)->accepted, 160);
    cr_assert_eq(httpd_stats(rig.httpd)->refused, 0);
    rig_fini(&rig);
}

Test(node_httpd_accept, stopping_lets_open_requests_end)
{
    struct rig rig;
    struct raw_socket open;
    struct raw_socket idle;
    struct raw_socket_reply reply;

    rig_init(&rig, &rig_limits);
    raw_socket_open(&idle, &rig.loop, rig.port);
    raw_socket_text(&idle, ECHO_LENGTH);
    rig_expect(&idle, 200, "hello");
    raw_socket_open(&open, &rig.loop, rig.port);
    raw_socket_text(&open, GET_LATER);
    WAIT(&rig.loop, rig.held != NULL);
    httpd_stop(rig.httpd);
    raw_socket_expect_end(&idle);
    raw_socket_close(&idle);
    httpd_answer(rig.held, 200, NULL, SLICE(""), SLICE("last"));
    raw_socket_reply(&open, &reply);
    cr_assert(!reply.keep_alive);
    cr_assert_str_eq(reply.body, "last");
    raw_socket_expect_end(&open);
    raw_socket_close(&open);
    WAIT(&rig.loop, httpd_stats(rig.httpd)->connections == 0);
    cr_assert(!uv_is_active((uv_handle_t *)&rig.httpd->timer));
    cr_assert_eq(uv_run(&rig.loop, UV_RUN_DEFAULT), 0); /* it can end */
    rig_fini(&rig);
}

Test(node_httpd_accept, freeing_reports_open_requests_gone_at_once)
{
    struct rig rig;
    struct raw_socket wire;

    rig_init(&rig, &rig_limits);
    raw_socket_open(&wire, &rig.loop, rig.port);
    raw_socket_text(&wire, GET_LATER);
    WAIT(&rig.loop, rig.held != NULL);
    httpd_free(rig.httpd);
    rig.httpd = NULL;
    cr_assert_eq(rig.gone, 1);
    WAIT(&rig.loop, wire.over);
    raw_socket_close(&wire);
    rig_fini(&rig);
    cr_assert_eq(rig.gone, 1);
}

Test(node_httpd_accept, a_handler_may_free_the_server)
{
    struct rig rig;
    struct raw_socket wire;

    rig_init(&rig, &rig_limits);
    rig.free_in_handler = true;
    raw_socket_open(&wire, &rig.loop, rig.port);
    raw_socket_text(&wire, GET_LATER);
    raw_socket_text(&wire, GET_LATER);
    WAIT(&rig.loop, wire.over);
    cr_assert_eq(rig.requests, 1);
    cr_assert_eq(rig.gone, 1);
    raw_socket_close(&wire);
    rig_fini(&rig);
}

Test(node_httpd_accept, a_taken_port_is_an_error)
{
    struct rig rig;
    struct httpd *second = NULL;
    struct httpd_handler handler = {.request = rig_on_request};

    rig_init(&rig, &rig_limits);
    struct sockaddr_in address = raw_socket_loopback(rig.port);
    cr_assert_eq(httpd_new(&second, &rig.loop, (struct sockaddr *)&address,
                           &rig_limits, &handler),
                 -EADDRINUSE);
    cr_assert_null(second);
    rig_fini(&rig);
}
