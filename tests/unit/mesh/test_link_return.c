/*
 * Peers that are let go of and come back: dropped, replaced at their address
 * under a flood, standing still in a full mesh; and one, played by hand, that
 * does not hear us any more.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/mesh/link_rig.h"

#include <nng/nng.h>

#include <nng/protocol/pipeline0/pull.h>

TestSuite(mesh_link_return, .init = rig_init, .fini = rig_fini, .timeout = 100);

static bool
both_up(unsigned a, unsigned b)
{
    return rig_stats(a).peers_up > 0 && rig_stats(b).peers_up > 0;
}

Test(mesh_link_return, who_was_dropped_is_told_nothing_and_comes_back)
{
    (void)rig_open_default(0);
    const char *address = rig_open_default(1);
    rig_meet(0, 1);
    mesh_link_drop(rig.nodes[0].link, address);
    cr_assert_eq(rig_stats(0).peers, 0);
    RIG_UNTIL(rig.nodes[1].downs == 1);
    RIG_UNTIL(rig.nodes[0].ups == 2 && rig.nodes[1].ups == 2);
    cr_assert_eq(rig.nodes[0].downs, 0);
    cr_assert_eq(rig_send(0, 1, MESH_BULK, "there"), 0);
    cr_assert_eq(rig_send(1, 0, MESH_BULK, "back"), 0);
    RIG_UNTIL(rig.nodes[0].received[MESH_BULK] == 1 &&
              rig.nodes[1].received[MESH_BULK] == 1);
}

/* Sent to at once, it is dialled while its old connections still end. */
Test(mesh_link_return, who_is_dropped_again_and_again_is_up_each_time)
{
    (void)rig_open_default(0);
    const char *address = rig_open_default(1);
    rig_meet(0, 1);
    for (unsigned i = 0; i < 5; i++) {
        mesh_link_drop(rig.nodes[0].link, address);
        cr_assert_eq(rig_send(0, 1, MESH_CTL, "x"), 0);
        mesh_link_drop(rig.nodes[0].link, address);
        cr_assert_eq(rig_send(0, 1, MESH_CTL, "y"), 0);
        RIG_UNTIL(rig.nodes[0].ups == i + 2 && both_up(0, 1));
    }
    unsigned before = rig.nodes[1].received[MESH_CTL];
    cr_assert_eq(rig_send(0, 1, MESH_CTL, "last"), 0);
    RIG_UNTIL(rig.nodes[1].received[MESH_CTL] > before);
    cr_assert_eq(rig_stats(0).refused[MESH_REFUSED_SEQUENCE], 0);
    cr_assert_eq(rig_stats(1).refused[MESH_REFUSED_SEQUENCE], 0);
}

static void
flood(unsigned from, unsigned to)
{
    for (unsigned i = 0; i < 20; i++) {
        (void)rig_send(from, to, MESH_CTL, "flood");
        (void)rig_send(from, to, MESH_BULK, "flood");
    }
}

static bool
flooded(void)
{
    flood(0, 1);
    flood(1, 0);
    return rig_stats(0).frames_received > 1000 &&
           rig_stats(1).frames_received > 1000;
}

Test(mesh_link_return, a_process_replaced_at_its_address_under_a_flood)
{
    struct mesh_link_config config = rig_config(1);
    char address[MESH_ADDRESS_MAX];

    (void)rig_open_default(0);
    (void)snprintf(address, sizeof address, "%s", rig_open_default(1));
    rig_meet(0, 1);
    RIG_UNTIL(flooded());
    rig_close(1);
    config.listen = address;
    for (unsigned i = 0; i < 100; i++) {
        /* To who is not there, or only half. */
        int rc = mesh_link_send(rig.nodes[0].link, address,
                                i % 2 == 0 ? MESH_CTL : MESH_BULK, SLICE("x"));
        cr_assert_geq(rc, 0);
    }
    config.session = 77;
    (void)rig_open(1, &config);
    RIG_UNTIL(flooded() && rig.nodes[0].up_session == 77 && both_up(0, 1));
    cr_assert_eq(rig_stats(1).refused[MESH_REFUSED_SEQUENCE], 0);
}

/* Redials are minutes apart, and that is not waited for. */
Test(mesh_link_return, a_process_that_returns_is_dialled_when_it_speaks)
{
    struct mesh_link_config config = rig_config(0);
    char address[MESH_ADDRESS_MAX];

    config.limits.redial_ms = 600000;
    (void)rig_open(0, &config);
    (void)snprintf(address, sizeof address, "%s", rig_open_default(1));
    rig_meet(0, 1);
    rig_close(1);
    RIG_UNTIL(rig.nodes[0].downs == 1);
    config = rig_config(1);
    config.listen = address;
    config.session = 77;
    (void)rig_open(1, &config);
    cr_assert_eq(rig_send(1, 0, MESH_CTL, "I am back"), 0);
    RIG_UNTIL(rig.nodes[0].up_session == 77 && both_up(0, 1));
}

Test(mesh_link_return, one_of_three_stands_still_and_the_others_go_on)
{
    struct mesh_link_config config;
    struct mesh_link_peer peer;

    for (unsigned n = 0; n < 3; n++) {
        config = rig_config(n);
        config.limits.ctl_frames = 16;
        config.limits.bulk_frames = 16;
        config.limits.inbox_frames = 16;
        config.limits.silent_ms = 60000;
        rig.on_other[n] = n == 2;
        (void)rig_open(n, &config);
    }
    rig_meet(0, 1);
    rig_meet(0, 2);
    rig_meet(1, 2);
    rig.other_stopped = true;
    for (unsigned n = 0; n < 2; n++) {
        static char page[MESH_BODY_MAX + 1];
        memset(page, 'p', sizeof page - 1);
        RIG_UNTIL(rig_send(n, 2, MESH_BULK, page) == MESH_LINK_E_FULL);
        RIG_UNTIL(rig_send(n, 2, MESH_CTL, page) == MESH_LINK_E_FULL);
    }
    RIG_UNTIL(flooded());
    for (unsigned n = 0; n < 3; n++) {
        for (uint32_t i = 0; mesh_link_peer(rig.nodes[n].link, i, &peer); i++) {
            cr_assert_leq(peer.frames[MESH_CTL], 16 + 2);
            cr_assert_leq(peer.frames[MESH_BULK], 16 + 2);
        }
        cr_assert_leq(rig_stats(n).inbox_peak, 16);
    }
    cr_assert(rig.nodes[0].downs == 0 && rig.nodes[1].downs == 0);
    rig.other_stopped = false;
    RIG_UNTIL(rig.nodes[0].resumed > 0 && rig.nodes[1].resumed > 0);
    RIG_UNTIL(rig_stats(0).peers_up == 2 && rig_stats(1).peers_up == 2 &&
              rig_stats(2).peers_up == 2);
}

/* A peer played by hand: it listens, and says what it wants. */
struct hand {
    nng_socket pull;
    int push[MESH_CHANNELS];
    char address[MESH_ADDRESS_MAX];
    uint64_t nonce[MESH_CHANNELS]; /* of node 0, by its last hello */
    unsigned hellos[MESH_CHANNELS];
};

static void
hand_open(struct hand *hand)
{
    nng_listener listener;
    nng_sockaddr at;

    memset(hand, 0, sizeof *hand);
    cr_assert_eq(nng_pull0_open(&hand->pull), 0);
    cr_assert_eq(nng_listen(hand->pull, "tcp://127.0.0.1:0", &listener, 0), 0);
    cr_assert_eq(nng_listener_get_addr(listener, NNG_OPT_LOCADDR, &at), 0);
    (void)snprintf(
        hand->address, sizeof hand->address, "127.0.0.1:%u",
        (unsigned)((at.s_in.sa_port & 0xff) << 8 | at.s_in.sa_port >> 8));
    hand->push[MESH_CTL] = rig_stranger(0);
    hand->push[MESH_BULK] = rig_stranger(0);
}

/* Its NNG socket ends with the test's process: closing one whose peer comes and
 * goes, as a peer that is dialled anew does, can hang in NNG 1.5 for good. */
static void
hand_close(struct hand *hand)
{
    (void)close(hand->push[MESH_CTL]);
    (void)close(hand->push[MESH_BULK]);
}

/* Reads what came; true when both channels said hello more than so often. */
static bool
hand_heard(struct hand *hand, unsigned ctl, unsigned bulk)
{
    struct frame_hello hello;
    struct frame frame;
    nng_msg *msg;

    while (nng_recvmsg(hand->pull, &msg, NNG_FLAG_NONBLOCK) == 0) {
        cr_assert_eq(frame_read(nng_msg_body(msg), nng_msg_len(msg), &frame),
                     0);
        if (frame.type == FRAME_HELLO) {
            cr_assert_eq(frame_hello_read(frame.body, &hello), 0);
            hand->nonce[hello.channel] = hello.nonce;
            hand->hellos[hello.channel]++;
        }
        nng_msg_free(msg);
    }
    return hand->hellos[MESH_CTL] > ctl && hand->hellos[MESH_BULK] > bulk;
}

static void
hand_say(struct hand *hand, enum mesh_channel channel, uint64_t number,
         bool heard)
{
    struct frame_hello hello = rig_hello(hand->address);
    uint8_t bytes[FRAME_HEAD_SIZE + FRAME_HELLO_MAX];
    const struct frame frame = {.major = FRAME_MAJOR_MAX,
                                .type = FRAME_HELLO,
                                .session = 1000,
                                .sequence = number};

    hello.channel = (uint8_t)channel;
    for (unsigned i = 0; i < MESH_CHANNELS; i++) {
        hello.echo[i] = heard ? hand->nonce[i] : 0;
    }
    size_t size =
        FRAME_HEAD_SIZE + frame_hello_write(&hello, bytes + FRAME_HEAD_SIZE);
    frame_seal(&frame, bytes, size);
    rig_say(hand->push[channel], bytes, size);
}

/* Node 0 and the hand are up for each other. */
static void
hand_meet(struct hand *hand)
{
    struct mesh_link_config config = rig_config(0);

    config.limits.redial_ms = 1000; /* connections last while we look */
    config.limits.silent_ms = 60000;
    (void)rig_open(0, &config);
    hand_open(hand);
    cr_assert_eq(
        mesh_link_send(rig.nodes[0].link, hand->address, MESH_CTL, SLICE("x")),
        0);
    RIG_UNTIL(hand_heard(hand, 0, 0));
    hand_say(hand, MESH_CTL, 10, true);
    hand_say(hand, MESH_BULK, 20, true);
    RIG_UNTIL(rig.nodes[0].ups == 1);
}

/* It answers each hello, as a peer does: on a slow machine node 0 may have dialled
 * once more before it reads the answer to the one before. */
static bool
hand_answers(struct hand *hand, uint64_t *number)
{
    unsigned before = hand->hellos[MESH_CTL] + hand->hellos[MESH_BULK];

    (void)hand_heard(hand, 0, 0);
    if (hand->hellos[MESH_CTL] + hand->hellos[MESH_BULK] != before) {
        hand_say(hand, MESH_CTL, (*number)++, true);
    }
    return rig.nodes[0].ups == 2;
}

Test(mesh_link_return, who_does_not_hear_us_any_more_is_dialled_anew)
{
    uint64_t number = 31;
    struct hand hand;

    hand_meet(&hand);
    uint64_t dials = rig_stats(0).dials;
    uint64_t nonce = hand.nonce[MESH_BULK];
    hand_say(&hand, MESH_CTL, 30, false);
    RIG_UNTIL(rig.nodes[0].downs == 1);
    RIG_UNTIL(hand_heard(&hand, 0, 0) && rig_stats(0).dials >= dials + 2 &&
              hand.nonce[MESH_BULK] != nonce);
    RIG_UNTIL(hand_heard(&hand, 1, 1));
    hand_say(&hand, MESH_CTL, number++, true);
    RIG_UNTIL(hand_answers(&hand, &number));
    hand_close(&hand);
}

/* On the other channel came what is true now. */
Test(mesh_link_return, a_hello_that_was_overtaken_says_nothing)
{
    struct hand hand;

    hand_meet(&hand);
    hand_say(&hand, MESH_CTL, 19, false);
    const struct frame data = {.major = FRAME_MAJOR_MAX,
                               .type = FRAME_DATA,
                               .session = 1000,
                               .sequence = 1};
    rig_say_frame(hand.push[MESH_CTL], &data, "after it");
    RIG_UNTIL(rig.nodes[0].received[MESH_CTL] == 1);
    cr_assert_eq(rig.nodes[0].downs, 0);
    cr_assert_eq(rig_stats(0).peers_up, 1);
    hand_close(&hand);
}

Test(mesh_link_return, who_never_echoes_is_dialled_anew_after_a_while)
{
    struct hand hand;

    (void)rig_open_default(0);
    hand_open(&hand);
    cr_assert_eq(
        mesh_link_send(rig.nodes[0].link, hand.address, MESH_CTL, SLICE("x")),
        0);
    RIG_UNTIL(hand_heard(&hand, 0, 0));
    unsigned ctl = hand.hellos[MESH_CTL];
    RIG_UNTIL(hand_heard(&hand, ctl + 2, 0));
    cr_assert_eq(rig.nodes[0].ups, 0);
    hand_close(&hand);
}
