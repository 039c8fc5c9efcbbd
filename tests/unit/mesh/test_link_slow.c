/*
 * A peer that does not read: it costs its own channels a bounded amount, and
 * nobody else anything.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/unit/mesh/link_rig.h"

#define FRAMES_MAX 12U
#define INBOX_MAX  16U

static char page[MESH_BODY_MAX + 1];
static char small[1001];

static void
init(void)
{
    struct mesh_link_config config;

    rig_init();
    memset(page, 'p', sizeof page - 1);
    memset(small, 's', sizeof small - 1);
    for (unsigned n = 0; n < 3; n++) {
        config = rig_config(n);
        config.limits.ctl_frames = FRAMES_MAX;
        config.limits.bulk_frames = FRAMES_MAX;
        config.limits.inbox_frames = INBOX_MAX;
        config.limits.inbox_bytes = 4 * MESH_BODY_MAX;
        config.limits.silent_ms = 60000;
        rig.on_other[n] = n == 2;
        (void)rig_open(n, &config);
    }
    rig_meet(0, 1);
    rig_meet(0, 2);
    rig.other_stopped = true;
}

TestSuite(mesh_link_slow, .init = init, .fini = rig_fini, .timeout = 60);

/* Node n's view of node 2. */
static struct mesh_link_peer
slow_one_of(unsigned n)
{
    const char *address = mesh_link_address(rig.nodes[2].link);
    struct mesh_link_peer peer;
    uint32_t at = 0;
    bool there;

    do {
        there = mesh_link_peer(rig.nodes[n].link, at++, &peer);
        cr_assert(there);
    } while (strcmp(peer.address, address) != 0);
    return peer;
}

static struct mesh_link_peer
slow_one(void)
{
    return slow_one_of(0);
}

/* Until nothing more is taken, with turns that let the kernel take what it can. */
static void
fill(enum mesh_channel channel)
{
    RIG_UNTIL(rig_send(0, 2, channel, page) == MESH_LINK_E_FULL);
}

Test(mesh_link_slow, bulk_is_dropped_whole_and_the_peer_is_lagging)
{
    fill(MESH_BULK);
    struct mesh_link_peer peer = slow_one();
    cr_assert(peer.up && peer.lagging);
    cr_assert(peer.frames[MESH_BULK] == 1 && peer.bytes[MESH_BULK] == 0);
    cr_assert_eq(rig_stats(0).frames_dropped, FRAMES_MAX);
    cr_assert_eq(rig_send(0, 2, MESH_BULK, "x"), MESH_LINK_E_FULL);
    cr_assert_eq(rig_stats(0).frames_dropped, FRAMES_MAX);
}

Test(mesh_link_slow, it_is_served_again_when_it_reads)
{
    fill(MESH_BULK);
    rig.other_stopped = false;
    RIG_UNTIL(rig.nodes[0].resumed == 1);
    cr_assert(!slow_one().lagging);
    cr_assert_eq(rig_send(0, 2, MESH_BULK, "again"), 0);
    RIG_UNTIL(rig_stats(2).frames_lost == FRAMES_MAX);
    cr_assert_eq(rig.nodes[0].downs, 0);
}

Test(mesh_link_slow, others_are_not_slowed)
{
    fill(MESH_BULK);
    fill(MESH_CTL);
    for (unsigned i = 1; i <= 200; i++) {
        cr_assert_eq(rig_send(0, 1, MESH_BULK, small), 0);
        cr_assert_eq(rig_send(0, 1, MESH_CTL, small), 0);
        RIG_UNTIL(rig.nodes[1].received[MESH_BULK] == i &&
                  rig.nodes[1].received[MESH_CTL] == i);
    }
    cr_assert(slow_one().lagging);
}

Test(mesh_link_slow, control_frames_wait_and_are_not_dropped)
{
    fill(MESH_CTL);
    cr_assert_eq(slow_one().frames[MESH_CTL], FRAMES_MAX + 1);
    cr_assert_eq(rig_send(0, 2, MESH_CTL, "x"), MESH_LINK_E_FULL);
    rig.other_stopped = false;
    RIG_UNTIL(slow_one().frames[MESH_CTL] == 0);
    RIG_UNTIL(rig_stats(2).frames_received >= FRAMES_MAX);
    cr_assert_eq(rig_stats(2).frames_lost, 0);
    cr_assert_eq(rig_stats(0).frames_dropped, 0);
}

/* Whole vectors and all gauges of a large fleet are control frames, too. */
Test(mesh_link_slow, control_frames_are_bounded_by_their_bytes)
{
    struct mesh_link_config config = rig_config(3);

    config.limits.queue_bytes = 3 * MESH_BODY_MAX;
    config.limits.silent_ms = 60000;
    rig.other_stopped = false;
    (void)rig_open(3, &config);
    rig_meet(3, 2);
    rig.other_stopped = true;
    RIG_UNTIL(rig_send(3, 2, MESH_CTL, page) == MESH_LINK_E_FULL);
    cr_assert_leq(slow_one_of(3).bytes[MESH_CTL], 6 * MESH_BODY_MAX);
    cr_assert(slow_one_of(3).up && !slow_one_of(3).lagging);
    rig.other_stopped = false;
    RIG_UNTIL(rig_send(3, 2, MESH_CTL, small) == 0);
}

Test(mesh_link_slow, what_arrives_and_is_not_told_is_bounded)
{
    fill(MESH_BULK);
    fill(MESH_CTL);
    rig.other_stopped = false;
    RIG_UNTIL(slow_one().frames[MESH_CTL] == 0 && !slow_one().lagging);
    struct mesh_link_stats stats = rig_stats(2);
    cr_assert_leq(stats.inbox_peak, INBOX_MAX);
    cr_assert_leq(stats.inbox_peak_bytes, 5 * (MESH_BODY_MAX + 1000));
}

/* One read brings more of them than there is room for: the rest waits. */
Test(mesh_link_slow, small_frames_are_bounded_by_their_number)
{
    unsigned sent = 0;

    while (sent < 10 * INBOX_MAX) {
        RIG_UNTIL(rig_send(0, 2, MESH_CTL, small) == 0);
        sent++;
    }
    rig.other_stopped = false;
    RIG_UNTIL(rig.nodes[2].received[MESH_CTL] == sent);
    cr_assert_eq(rig_stats(2).inbox_peak, INBOX_MAX);
    cr_assert_gt(rig_stats(2).pauses, 0);
    cr_assert_eq(rig_stats(2).frames_lost, 0);
}

Test(mesh_link_slow, closing_with_all_of_it_stuck_leaves_nothing_behind)
{
    fill(MESH_BULK);
    fill(MESH_CTL);
    cr_assert_gt(mesh_link_waiting(rig.nodes[0].link, NULL), 0);
}

Test(mesh_link_slow, one_that_is_closed_does_not_hold_the_others)
{
    fill(MESH_BULK);
    rig_close(2);
    rig.other_stopped = false;
    RIG_UNTIL(rig.nodes[0].downs == 1);
    cr_assert_eq(rig_send(0, 1, MESH_BULK, "x"), 0);
    RIG_UNTIL(rig.nodes[1].received[MESH_BULK] == 1);
}
