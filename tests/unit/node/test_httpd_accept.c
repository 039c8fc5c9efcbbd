#include <sys/resource.h>

#include "tests/unit/node/httpd_rig.h"

TestSuite(node_httpd_accept, .timeout = 60);

Test(node_httpd_accept, without_descriptors_it_waits_and_goes_on)
{
    struct rig rig;
    struct wire wire;
    struct wire_reply reply;
    struct rlimit limit, none;

    rig_init(&rig, &rig_limits);
    wire_open(&wire, &rig.loop, rig.port);
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = (rlim_t)wire.fd + 1;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    wire_text(&wire, "GET /stream HTTP/1.1\r\nHost: h\r\n\r\n");
    WAIT(&rig.loop, httpd_stats(rig.httpd)->accept_pauses == 2);
    cr_assert_eq(httpd_stats(rig.httpd)->accepted, 0);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    wire_reply(&wire, &reply);
    cr_assert_eq(reply.status, 200);
    wire_close(&wire);
    rig_fini(&rig);
}

Test(node_httpd_accept, connections_come_and_go)
{
    struct rig rig;
    struct wire wires[40];
    struct wire_reply reply;

    rig_init(&rig, &rig_limits);
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 40; i++) {
            wire_open(&wires[i], &rig.loop, rig.port);
            wire_text(&wires[i], "GET /stream HTTP/1.1\r\nHost: h\r\n\r\n");
        }
        for (int i = 0; i < 40; i++) {
            wire_reply(&wires[i], &reply);
            wire_close(&wires[i]);
        }
        WAIT(&rig.loop, httpd_stats(rig.httpd)->connections == 0);
    }
    cr_assert_eq(httpd_stats(rig.httpd)->accepted, 160);
    cr_assert_eq(httpd_stats(rig.httpd)->refused, 0);
    rig_fini(&rig);
}
