#include "mesh/link.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/mesh/link_rig.h"

TestSuite(mesh_link, .init = rig_init, .fini = rig_fini, .timeout = 60);

static bool
text_is(unsigned n, const char *text)
{
    return slice_equal(buf_slice(&rig.nodes[n].text), slice_of(text));
}

Test(mesh_link, two_that_meet_hear_each_other)
{
    (void)rig_open_default(0);
    (void)rig_open_default(1);
    rig_meet(0, 1);
    cr_assert(rig.nodes[0].up_session == 2 && rig.nodes[1].up_session == 1);
    cr_assert_eq(rig_send(1, 0, MESH_BULK, "state"), 0);
    cr_assert_eq(rig_send(0, 1, MESH_CTL, "probe"), 0);
    RIG_UNTIL(text_is(0, "state;") && text_is(1, "probe;"));
    cr_assert_str_eq(rig.nodes[0].from_name, "node-1");
    cr_assert_eq(rig.nodes[0].from_session, 2);
    cr_assert_eq(rig.nodes[0].received[MESH_BULK], 1);
}

Test(mesh_link, frames_of_a_lane_arrive_once_and_in_order)
{
    char expected[4096] = "";
    char text[16];

    (void)rig_open_default(0);
    (void)rig_open_default(1);
    rig_meet(0, 1);
    for (unsigned i = 0; i < 200; i++) {
        (void)snprintf(text, sizeof text, "%u", i);
        cr_assert_eq(rig_send(0, 1, MESH_CTL, text), 0);
        (void)strcat(strcat(expected, text), ";");
    }
    RIG_UNTIL(rig.nodes[1].received[MESH_CTL] == 200);
    cr_assert(text_is(1, expected));
    cr_assert_eq(rig_stats(1).frames_lost, 0);
}

Test(mesh_link, what_cannot_be_sent_is_an_outcome)
{
    static char large[MESH_BODY_MAX + 2];
    const char *self = rig_open_default(0);
    struct mesh_link *link = rig.nodes[0].link;

    memset(large, 'x', sizeof large - 1);
    cr_assert_eq(mesh_link_send(link, "node-1:7946", MESH_CTL, SLICE("x")),
                 MESH_LINK_E_ADDRESS);
    cr_assert_eq(mesh_link_send(link, "127.0.0.1:0", MESH_CTL, SLICE("x")),
                 MESH_LINK_E_ADDRESS);
    cr_assert_eq(mesh_link_send(link, self, MESH_CTL, SLICE("x")),
                 MESH_LINK_E_ADDRESS);
    cr_assert_eq(mesh_link_send(link, "127.0.0.1:9", MESH_CTL, slice_of(large)),
                 MESH_LINK_E_SIZE);
    cr_assert_eq(mesh_link_send(link, "127.0.0.1:9", MESH_BULK, SLICE("x")),
                 MESH_LINK_E_DOWN);
    cr_assert_eq(mesh_link_send(link, "127.0.0.1:9", MESH_CTL, SLICE("x")), 0);
}

Test(mesh_link, the_largest_body_arrives)
{
    static char large[MESH_BODY_MAX + 1];

    (void)rig_open_default(0);
    (void)rig_open_default(1);
    rig_meet(0, 1);
    memset(large, 'x', sizeof large - 1);
    cr_assert_eq(rig_send(0, 1, MESH_BULK, large), 0);
    RIG_UNTIL(rig_stats(1).bytes_received >= MESH_BODY_MAX);
}

Test(mesh_link, an_address_written_otherwise_is_the_same_peer)
{
    struct mesh_link_config config = rig_config(0);
    char other[MESH_ADDRESS_MAX];

    config.listen = "[::1]:0";
    const char *address = rig_open(0, &config);
    (void)rig_open_default(1);
    (void)snprintf(other, sizeof other, "[0:0::0001]:%s",
                   strrchr(address, ':') + 1);
    cr_assert_eq(
        mesh_link_send(rig.nodes[1].link, address, MESH_CTL, SLICE("a")), 0);
    cr_assert_eq(mesh_link_send(rig.nodes[1].link, other, MESH_CTL, SLICE("b")),
                 0);
    cr_assert_eq(rig_stats(1).peers, 1);
    RIG_UNTIL(text_is(0, "a;b;"));
}

Test(mesh_link, peers_are_bounded)
{
    struct mesh_link_config config = rig_config(0);

    config.limits.peers_max = 1;
    (void)rig_open(0, &config);
    (void)rig_open_default(1);
    (void)rig_open_default(2);
    rig_meet(0, 1);
    cr_assert_eq(rig_send(0, 2, MESH_CTL, "x"), MESH_LINK_E_PEERS);
    cr_assert_eq(rig_send(2, 0, MESH_CTL, "x"), 0);
    RIG_UNTIL(rig.nodes[0].refused[MESH_REFUSED_PEERS] > 0);
    cr_assert_eq(rig.nodes[0].received[MESH_CTL], 0);
}

Test(mesh_link, who_is_there_gets_the_place_of_who_is_not)
{
    struct mesh_link_config config = rig_config(0);
    char address[MESH_ADDRESS_MAX];

    config.limits.peers_max = 2;
    (void)rig_open(0, &config);
    (void)rig_open_default(1);
    rig_meet(0, 1);
    (void)snprintf(address, sizeof address, "%s", rig_open_default(3));
    rig_close(3);
    cr_assert_eq(
        mesh_link_send(rig.nodes[0].link, address, MESH_CTL, SLICE("x")), 0);
    cr_assert_eq(rig_stats(0).peers, 2);
    (void)rig_open_default(2);
    rig_meet(2, 0);
    cr_assert_eq(rig_stats(0).peers, 2);
    cr_assert_eq(rig.nodes[0].downs, 0);
    cr_assert_eq(
        mesh_link_send(rig.nodes[0].link, address, MESH_CTL, SLICE("x")),
        MESH_LINK_E_PEERS);
}

Test(mesh_link, a_listener_that_went_away_and_came_back_is_found)
{
    struct mesh_link_config config = rig_config(1);
    char address[MESH_ADDRESS_MAX];

    (void)rig_open_default(0);
    (void)snprintf(address, sizeof address, "%s", rig_open_default(1));
    rig_meet(0, 1);
    rig_close(1);
    RIG_UNTIL(rig.nodes[0].downs == 1);
    cr_assert_eq(
        mesh_link_send(rig.nodes[0].link, address, MESH_BULK, SLICE("x")),
        MESH_LINK_E_DOWN);
    config.listen = address;
    config.session = 77;
    (void)rig_open(1, &config);
    RIG_UNTIL(rig.nodes[0].ups == 2 && rig.nodes[1].ups >= 2);
    cr_assert_eq(rig.nodes[0].up_session, 77);
    cr_assert_eq(rig_send(0, 1, MESH_BULK, "again"), 0);
    RIG_UNTIL(rig.nodes[1].received[MESH_BULK] == 1);
}

/* The old process hangs with its connections open, as behind a partition. */
Test(mesh_link, connections_of_a_superseded_process_are_closed)
{
    (void)rig_open_default(0);
    int old = rig_stranger(0);
    int young = rig_stranger(0);
    struct frame_hello hello = rig_hello("127.0.0.1:9");
    struct frame data = {
        .major = FRAME_MAJOR_MAX, .type = FRAME_DATA, .session = 1000};

    rig_say_hello(old, &hello, 1000);
    data.sequence = 1;
    rig_say_frame(old, &data, "old");
    RIG_UNTIL(text_is(0, "old;"));
    hello.nonce++;
    rig_say_hello(young, &hello, 2000);
    data.session = 2000;
    rig_say_frame(young, &data, "young");
    RIG_UNTIL(text_is(0, "old;young;"));
    RIG_UNTIL(rig_stats(0).pipes == 1);
    (void)close(old);
    (void)close(young);
}

Test(mesh_link, a_peer_in_doubt_is_proven_anew)
{
    (void)rig_open_default(0);
    const char *address = rig_open_default(1);
    rig_meet(0, 1);
    mesh_link_doubt(rig.nodes[0].link, address);
    cr_assert_eq(rig.nodes[0].downs, 1);
    cr_assert_str_eq(rig.nodes[0].down_reason, "in doubt");
    RIG_UNTIL(rig.nodes[0].ups == 2);
    cr_assert_eq(rig_send(0, 1, MESH_BULK, "fine"), 0);
    RIG_UNTIL(rig.nodes[1].received[MESH_BULK] == 1);
}

Test(mesh_link, silence_is_filled_so_that_a_quiet_link_stays_up)
{
    struct mesh_link_config config = rig_config(0);

    config.limits.idle_ms = 30;
    config.limits.silent_ms = 300;
    (void)rig_open(0, &config);
    config = rig_config(1);
    config.limits.idle_ms = 30;
    config.limits.silent_ms = 300;
    (void)rig_open(1, &config);
    rig_meet(0, 1);
    uint64_t before = rig_stats(0).frames_sent;
    RIG_UNTIL(rig_stats(0).frames_sent > before + 40);
    cr_assert_eq(rig.nodes[0].downs, 0);
    cr_assert_eq(rig.nodes[1].refused[MESH_REFUSED_SILENT], 0);
}

Test(mesh_link, a_peer_may_be_dropped_from_within_down)
{
    char address[MESH_ADDRESS_MAX];

    (void)rig_open_default(0);
    (void)snprintf(address, sizeof address, "%s", rig_open_default(1));
    rig_meet(0, 1);
    rig.nodes[0].drop_on_down = address;
    rig_close(1);
    RIG_UNTIL(rig.nodes[0].downs == 1);
    cr_assert_eq(rig_stats(0).peers, 0);
    cr_assert_eq(rig.nodes[0].downs, 1);
}

Test(mesh_link, control_frames_that_waited_too_long_are_not_sent)
{
    struct mesh_link_config config = rig_config(0);
    char address[MESH_ADDRESS_MAX];

    config.limits.stale_ms = 1;
    (void)rig_open(0, &config);
    (void)snprintf(address, sizeof address, "%s", rig_open_default(1));
    rig_meet(1, 0);
    rig_close(1);
    uint64_t dials = rig_stats(0).dials;
    RIG_UNTIL(rig_stats(0).dials > dials + 2); /* neither channel is there */
    cr_assert_eq(
        mesh_link_send(rig.nodes[0].link, address, MESH_CTL, SLICE("stale")),
        0);
    rig_turns(20);
    config = rig_config(1);
    config.listen = address;
    (void)rig_open(1, &config);
    RIG_UNTIL(rig.nodes[0].ups == 2);
    cr_assert_eq(rig_send(0, 1, MESH_CTL, "fresh"), 0);
    RIG_UNTIL(text_is(1, "fresh;"));
    cr_assert_eq(rig_stats(0).frames_stale, 1);
}

/* A host whose kernel accepts while its process does not, as when it is
 * stopped. */
Test(mesh_link, a_process_that_stands_still_is_dialled_again_and_again)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    char text[MESH_ADDRESS_MAX];

    cr_assert_geq(fd, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&address, size), 0);
    cr_assert_eq(listen(fd, 100), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    (void)snprintf(text, sizeof text, "127.0.0.1:%u", ntohs(address.sin_port));
    (void)rig_open_default(0);
    cr_assert_eq(mesh_link_send(rig.nodes[0].link, text, MESH_CTL, SLICE("x")),
                 0);
    RIG_UNTIL(rig_stats(0).dials > 20);
    cr_assert_eq(rig.nodes[0].ups, 0);
    (void)close(fd);
}

Test(mesh_link, a_peer_that_nobody_wants_is_forgotten)
{
    struct mesh_link_config config = rig_config(0);

    config.limits.forget_ms = 50;
    (void)rig_open(0, &config);
    cr_assert_eq(
        mesh_link_send(rig.nodes[0].link, "127.0.0.1:9", MESH_CTL, SLICE("x")),
        0);
    cr_assert_eq(rig_stats(0).peers, 1);
    RIG_UNTIL(rig_stats(0).peers == 0);
}

Test(mesh_link, closing_under_load_leaves_nothing_behind)
{
    (void)rig_open_default(0);
    (void)rig_open_default(1);
    (void)rig_open_default(2);
    rig_meet(0, 1);
    rig_meet(0, 2);
    for (unsigned i = 0; i < 100; i++) {
        cr_assert_geq(rig_send(0, 1, MESH_CTL, "to one"), 0);
        cr_assert_geq(rig_send(0, 2, MESH_BULK, "to the other"), 0);
        cr_assert_geq(rig_send(2, 0, MESH_BULK, "and back"), 0);
    }
    rig_close(0); /* with all of it on its way; the rest is for ASan */
}

Test(mesh_link, without_tls_it_is_bound_to_loopback)
{
    struct mesh_link_config config = rig_config(0);

    config.listen = "0.0.0.0:0";
    const char *address = rig_open(0, &config);
    cr_assert_eq(strncmp(address, "127.0.0.1:", 10), 0);
    cr_assert_not_null(mesh_link_warning(rig.nodes[0].link));
    (void)rig_open_default(1);
    cr_assert_null(mesh_link_warning(rig.nodes[1].link));
}

Test(mesh_link, insecure_binds_as_told_with_a_warning)
{
    struct mesh_link_config config = rig_config(0);

    config.listen = "0.0.0.0:0";
    config.advertise = "127.0.0.1:0";
    config.insecure = true;
    const char *address = rig_open(0, &config);
    cr_assert_neq(atoi(strrchr(address, ':') + 1), 0);
    cr_assert_not_null(mesh_link_warning(rig.nodes[0].link));
    (void)rig_open_default(1);
    rig_meet(1, 0);
}

Test(mesh_link, a_configuration_that_cannot_be_says_why)
{
    struct mesh_link_sink sink = {.context = NULL};
    struct mesh_link *link;
    const char *why;
    struct mesh_link_config config = rig_config(0);

    config.listen = "localhost:7946";
    cr_assert_eq(mesh_link_new(&link, &rig.loop, &config, &sink, &why),
                 MESH_LINK_E_CONFIG);
    cr_assert_not_null(why);
    config = rig_config(0);
    config.cluster = "two words";
    cr_assert_eq(mesh_link_new(&link, &rig.loop, &config, &sink, &why),
                 MESH_LINK_E_CONFIG);
    config = rig_config(0);
    config.tls.ca = "ca.pem";
    cr_assert_eq(mesh_link_new(&link, &rig.loop, &config, &sink, &why),
                 MESH_LINK_E_CONFIG);
    config = rig_config(0);
    config.listen = rig_open_default(1);
    cr_assert_eq(mesh_link_new(&link, &rig.loop, &config, &sink, &why),
                 -EADDRINUSE);
}
