/*
 * Strangers: each is refused by name, and nobody else notices.
 */
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/mesh/link_rig.h"

TestSuite(mesh_link_refuse, .init = rig_init, .fini = rig_fini, .timeout = 60);

static const struct frame data = {.major = FRAME_MAJOR_MAX,
                                  .type = FRAME_DATA,
                                  .session = 1000,
                                  .sequence = 1};

/* One refusal, for that reason; nothing was told. */
static void
expect(int stranger, enum mesh_refusal reason, const char *what)
{
    RIG_UNTIL(rig.nodes[0].refused[reason] == 1);
    cr_assert_str_eq(rig.nodes[0].refused_what, what);
    cr_assert_eq(strncmp(rig.nodes[0].refused_from, "127.0.0.1:", 10), 0);
    (void)close(stranger);
    RIG_UNTIL(rig_stats(0).pipes == 0);
    cr_assert_eq(rig_stats(0).refused[reason], 1);
    cr_assert_eq(rig.nodes[0].received[MESH_CTL], 0);
    cr_assert_eq(rig.nodes[0].ups, 0);
}

Test(mesh_link_refuse, another_cluster)
{
    (void)rig_open_default(0);
    int stranger = rig_stranger(0);
    struct frame_hello hello = rig_hello("127.0.0.1:9");

    (void)strcpy(hello.cluster, "green");
    rig_say_hello(stranger, &hello, 1000);
    expect(stranger, MESH_REFUSED_CLUSTER, "green");
}

/* Two nodes configured apart: neither is up, and both say why. */
Test(mesh_link_refuse, another_cluster_each_way)
{
    struct mesh_link_config config = rig_config(1);

    (void)rig_open_default(0);
    config.cluster = "green";
    (void)rig_open(1, &config);
    cr_assert_eq(rig_send(0, 1, MESH_CTL, "x"), 0);
    cr_assert_eq(rig_send(1, 0, MESH_CTL, "x"), 0);
    RIG_UNTIL(rig.nodes[0].refused[MESH_REFUSED_CLUSTER] > 2);
    RIG_UNTIL(rig.nodes[1].refused[MESH_REFUSED_CLUSTER] > 2);
    cr_assert(rig.nodes[0].ups == 0 && rig.nodes[1].ups == 0);
    cr_assert_eq(rig.nodes[0].received[MESH_CTL], 0);
}

Test(mesh_link_refuse, garbage)
{
    (void)rig_open_default(0);
    int stranger = rig_stranger(0);

    rig_say(stranger, "GET / HTTP/1.1\r\n\r\n", 18);
    expect(stranger, MESH_REFUSED_GARBAGE, "no frame of this mesh");
}

Test(mesh_link_refuse, a_damaged_frame)
{
    uint8_t bytes[FRAME_HEAD_SIZE + 2] = {[FRAME_HEAD_SIZE] = 'h'};

    (void)rig_open_default(0);
    int stranger = rig_stranger(0);
    frame_seal(&data, bytes, sizeof bytes);
    bytes[FRAME_HEAD_SIZE] = 'H';
    rig_say(stranger, bytes, sizeof bytes);
    expect(stranger, MESH_REFUSED_GARBAGE, "a frame was damaged");
}

Test(mesh_link_refuse, frames_before_a_hello)
{
    (void)rig_open_default(0);
    int stranger = rig_stranger(0);

    rig_say_frame(stranger, &data, "x");
    expect(stranger, MESH_REFUSED_HELLO, "a frame came before it");
}

Test(mesh_link_refuse, a_later_major_version_by_its_number)
{
    struct frame later = {.major = 3, .minor = 7, .type = FRAME_HELLO};

    (void)rig_open_default(0);
    int stranger = rig_stranger(0);
    rig_say_frame(stranger, &later, "whatever a hello is then");
    expect(stranger, MESH_REFUSED_VERSION, "3.7, this node speaks 2");
}

Test(mesh_link_refuse, an_earlier_major_version_by_its_number)
{
    struct frame earlier = {.major = 1, .type = FRAME_HELLO};

    (void)rig_open_default(0);
    int stranger = rig_stranger(0);
    rig_say_frame(stranger, &earlier, "a hello as it was before msgpack");
    expect(stranger, MESH_REFUSED_VERSION, "1.0, this node speaks 2");
}

/* It can write our hellos, but says that it speaks only later versions. */
Test(mesh_link_refuse, versions_that_do_not_meet)
{
    (void)rig_open_default(0);
    int stranger = rig_stranger(0);
    struct frame_hello hello = rig_hello("127.0.0.1:9");

    hello.major_min = 3;
    hello.major_max = 4;
    rig_say_hello(stranger, &hello, 1000);
    expect(stranger, MESH_REFUSED_VERSION, "3..4, this node speaks 2");
}

Test(mesh_link_refuse, an_address_it_does_not_come_from)
{
    (void)rig_open_default(0);
    int stranger = rig_stranger(0);
    struct frame_hello hello = rig_hello("192.0.2.1:7946");

    rig_say_hello(stranger, &hello, 1000);
    expect(stranger, MESH_REFUSED_ADDRESS, "192.0.2.1:7946");
    cr_assert_eq(rig_stats(0).dials, 0);
}

Test(mesh_link_refuse, itself)
{
    (void)rig_open_default(0);
    int stranger = rig_stranger(0);
    struct frame_hello hello = rig_hello("127.0.0.1:9");

    rig_say_hello(stranger, &hello, 1);
    expect(stranger, MESH_REFUSED_SELF, "127.0.0.1:9");
}

Test(mesh_link_refuse, who_says_nothing)
{
    struct mesh_link_config config = rig_config(0);

    config.limits.hello_ms = 500;
    (void)rig_open(0, &config);
    int stranger = rig_stranger(0);
    expect(stranger, MESH_REFUSED_SILENT, "no hello came");
}

/* The connection is closed before there is a message. */
Test(mesh_link_refuse, a_message_over_the_size)
{
    static uint8_t large[2 << 20];

    (void)rig_open_default(0);
    (void)rig_open_default(1);
    rig_meet(1, 0);
    int stranger = rig_stranger(0);
    rig_say(stranger, large, sizeof large);
    RIG_UNTIL(rig_stats(0).pipes == 2);
    cr_assert_eq(rig_send(1, 0, MESH_CTL, "still here"), 0);
    RIG_UNTIL(rig.nodes[0].received[MESH_CTL] == 1);
    cr_assert_eq(rig.nodes[0].downs, 0);
    (void)close(stranger);
}

/* Fields and types of a later minor version pass. */
Test(mesh_link_refuse, not_who_is_a_minor_version_ahead)
{
    uint8_t bytes[FRAME_HEAD_SIZE + FRAME_HELLO_MAX + 4] = {0};
    struct frame frame = {.major = FRAME_MAJOR_MAX,
                          .minor = 9,
                          .type = FRAME_HELLO,
                          .session = 1000};
    struct frame_hello hello = rig_hello("127.0.0.1:9");

    (void)rig_open_default(0);
    int stranger = rig_stranger(0);
    hello.major_max = FRAME_MAJOR_MAX + 1;
    size_t size =
        FRAME_HEAD_SIZE + frame_hello_write(&hello, bytes + FRAME_HEAD_SIZE);
    frame_seal(&frame, bytes, size + 4);
    rig_say(stranger, bytes, size + 4);
    frame.type = 200;
    rig_say_frame(stranger, &frame, "of a type not known here");
    rig_say_frame(stranger, &data, "x");
    RIG_UNTIL(rig.nodes[0].received[MESH_CTL] == 1);
    cr_assert_eq(rig_stats(0).frames_unknown, 1);
    (void)close(stranger);
}

Test(mesh_link_refuse, a_frame_that_came_before)
{
    struct frame frame = data;
    struct frame_hello hello = rig_hello("127.0.0.1:9");

    (void)rig_open_default(0);
    int stranger = rig_stranger(0);
    rig_say_hello(stranger, &hello, 1000);
    frame.sequence = 5;
    rig_say_frame(stranger, &frame, "a");
    frame.sequence = 8;
    rig_say_frame(stranger, &frame, "b");
    RIG_UNTIL(rig.nodes[0].received[MESH_CTL] == 2);
    cr_assert_eq(rig_stats(0).frames_lost, 2);
    rig_say_frame(stranger, &frame, "b");
    RIG_UNTIL(rig.nodes[0].refused[MESH_REFUSED_SEQUENCE] == 1);
    cr_assert_eq(rig.nodes[0].received[MESH_CTL], 2);
    (void)close(stranger);
}

/* A host that no peer has: each stranger takes the place of an older one. */
Test(mesh_link_refuse, more_connections_than_peers_can_have)
{
    struct mesh_link_config config = rig_config(0);
    int strangers[24];

    config.limits.peers_max = 1; /* so 20 connections, and 2 by such a host */
    config.limits.hello_ms = 20000;
    (void)rig_open(0, &config);
    for (unsigned i = 0; i < 24; i++) {
        unsigned refused = i < 2 ? 0 : i - 1;
        strangers[i] = rig_stranger(0);
        RIG_UNTIL(rig.nodes[0].refused[MESH_REFUSED_PIPES] == refused &&
                  rig_stats(0).pipes == (i < 2 ? i + 1 : 2));
    }
    for (unsigned i = 0; i < 24; i++) {
        (void)close(strangers[i]);
    }
    RIG_UNTIL(rig_stats(0).pipes == 0);
}

#define SILENT 60U

/* Opens node 0 for 24 connections, and connects to it without a word: from as
 * many hosts, and each of them as often, as said. */
static void
be_silent(int strangers[SILENT], unsigned hosts)
{
    struct mesh_link_config config = rig_config(0);

    config.limits.peers_max = 2;
    config.limits.hello_ms = 600000;
    (void)rig_open(0, &config);
    for (unsigned i = 0; i < SILENT; i++) {
        strangers[i] = rig_connect(0, INADDR_LOOPBACK + 1 + i % hosts);
    }
}

static void
leave(const int strangers[SILENT])
{
    for (unsigned i = 0; i < SILENT; i++) {
        (void)close(strangers[i]);
    }
}

/* They connect and say nothing: other hosts still get in. */
Test(mesh_link_refuse, not_others_while_one_host_shakes_many_hands)
{
    int strangers[SILENT];

    be_silent(strangers, 1);
    RIG_UNTIL(rig.nodes[0].refused[MESH_REFUSED_PIPES] == SILENT - 3);
    (void)rig_open_default(1);
    rig_meet(1, 0);
    leave(strangers);
}

Test(mesh_link_refuse, not_others_while_many_hosts_shake_hands)
{
    int strangers[SILENT];

    be_silent(strangers, SILENT);
    RIG_UNTIL(rig.nodes[0].refused[MESH_REFUSED_PIPES] == SILENT - 12);
    (void)rig_open_default(1);
    rig_meet(1, 0);
    leave(strangers);
}

/* A peer's connections are not those that give way. */
Test(mesh_link_refuse, not_a_peer_while_many_hosts_shake_hands)
{
    int strangers[SILENT];

    be_silent(strangers, SILENT);
    (void)rig_open_default(1);
    rig_meet(1, 0);
    unsigned before = rig.nodes[0].refused[MESH_REFUSED_PIPES];
    for (unsigned i = 0; i < SILENT; i++) {
        (void)close(strangers[i]);
        strangers[i] = rig_connect(0, INADDR_LOOPBACK + 1 + i);
    }
    RIG_UNTIL(rig.nodes[0].refused[MESH_REFUSED_PIPES] >= before + SILENT / 2);
    cr_assert_eq(rig.nodes[0].downs + rig.nodes[1].downs, 0);
    mesh_link_doubt(rig.nodes[1].link, mesh_link_address(rig.nodes[0].link));
    RIG_UNTIL(rig.nodes[1].ups == 2);
    leave(strangers);
}

/* Nobody is to hold much memory here before a hello. */
Test(mesh_link_refuse, a_first_message_that_is_too_long_for_a_hello)
{
    static const uint8_t head[8] = {[6] = 0x20}; /* of 8 KiB */

    (void)rig_open_default(0);
    int stranger = rig_stranger(0);
    cr_assert_eq(send(stranger, head, sizeof head, MSG_NOSIGNAL), 8);
    expect(stranger, MESH_REFUSED_TRANSPORT, "a message over the size");
}

static void
stand_still(uv_prepare_t *prepare)
{
    uint64_t until = uv_hrtime() + 200000000; /* many ticks */

    while (uv_hrtime() < until) {
    }
    uv_close((uv_handle_t *)prepare, NULL);
}

/* It is accepted before the pause is noticed. */
Test(mesh_link_refuse, not_who_connects_at_the_end_of_a_pause)
{
    uv_prepare_t prepare;

    (void)rig_open_default(0);
    rig_turns(20);
    int stranger = rig_connect(0, INADDR_LOOPBACK);
    cr_assert_eq(uv_prepare_init(&rig.loop, &prepare), 0);
    cr_assert_eq(uv_prepare_start(&prepare, stand_still), 0);
    rig_turns(300);
    cr_assert_eq(rig.nodes[0].refused[MESH_REFUSED_TRANSPORT], 0);
    (void)close(stranger);
}

/* Time in which we did not run is no time of theirs. */
Test(mesh_link_refuse, not_who_waited_while_this_process_stood_still)
{
    struct mesh_link_config config = rig_config(0);

    config.limits.hello_ms = 500;
    rig.on_other[0] = true;
    (void)rig_open(0, &config);
    int stranger = rig_connect(0, INADDR_LOOPBACK);
    rig_turns(50);
    rig.other_stopped = true;
    rig_turns(600);
    rig.other_stopped = false;
    cr_assert_eq(send(stranger, "\0SP\0\0P\0", 8, MSG_NOSIGNAL), 8);
    RIG_UNTIL(rig_stats(0).pipes == 1);
    cr_assert_eq(rig.nodes[0].refused[MESH_REFUSED_TRANSPORT], 0);
    (void)close(stranger);
}
