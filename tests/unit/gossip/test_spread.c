#include <criterion/criterion.h>
#include <string.h>

#include "gossip/codec_internal.h"
#include "lab.h"

#define RELAY 12

static struct lab lab;
static uint8_t bytes[4096];
static size_t len;

/* A push of the first node's, which nobody has yet. */
static void
setup(void)
{
    struct gossip_config config = gossip_config_default();

    lab_begin(&lab, &config, 4);
    gossip_role(lab.nodes[0].g, lab_stream, 0, 0, lab.now_us);
    for (uint32_t i = 1; i < 4; i++) {
        gossip_role(lab.nodes[i].g, lab_stream, GOSSIP_RANK_NONE,
                    lab.nodes[0].id, lab.now_us);
    }
    lab_begin_reading(&lab, 0, 77, true);
    lab_run(&lab, 10);
    lab_read(&lab, 0, 0, EVENT_STORE, 5);
    lab.now_us += config.push_ms * LAB_MS;
    gossip_tick(lab.nodes[0].g, lab.now_us);
    lab_pull(&lab);
    for (uint32_t i = 0; i < lab.frames_count; i++) {
        if (lab.frames[i].channel == GOSSIP_BULK) {
            len = lab.frames[i].len;
            memcpy(bytes, lab.frames[i].bytes, len);
        }
    }
    lab_lose(&lab);
    cr_assert_gt(len, 10);
    cr_assert_not(lab.nodes[1].held[5]);
}

static void
teardown(void)
{
    lab_end(&lab);
}

TestSuite(gossip_spread, .init = setup, .fini = teardown);

/* The push as the first node would relay it to the second one. */
static int
relay(const uint32_t *rest, uint32_t count, uint8_t told)
{
    struct codec_out out = {.bytes = bytes, .len = len, .max = sizeof bytes};

    bytes[0] = RELAY;
    for (uint32_t i = 0; i < count; i++) {
        codec_put_u64(&out, lab.nodes[rest[i]].id);
    }
    codec_put_u64(&out, lab.nodes[0].id);
    codec_put_u8(&out, told);
    return gossip_recv(lab.nodes[1].g, lab.nodes[0].id, bytes, out.len,
                       lab.now_us);
}

Test(gossip_spread, a_push_is_taken_and_passed_on)
{
    cr_assert_eq(relay((uint32_t[]){2, 3}, 2, 2), 0);
    lab_carry(&lab);
    for (uint32_t i = 1; i < 4; i++) {
        cr_assert(lab.nodes[i].held[5], "node %u", i);
    }
    cr_assert_eq(lab_stats(&lab, 1).relays_out, 2);
}

Test(gossip_spread, it_counts_as_its_first_senders)
{
    gossip_role(lab.nodes[2].g, lab_stream, 1, lab.nodes[0].id, lab.now_us);
    cr_assert_eq(relay((uint32_t[]){2}, 1, 1), 0);
    lab_carry(&lab);
    cr_assert(gossip_primary_heard(lab.nodes[2].g, lab_stream));
}

Test(gossip_spread, who_has_no_link_is_left_to_those_below)
{
    lab_unlink(&lab, 1, 3);
    lab_lose(&lab);
    cr_assert_eq(relay((uint32_t[]){3, 2}, 2, 2), 0);
    lab_carry(&lab);
    cr_assert(lab.nodes[2].held[5]);
    cr_assert(lab.nodes[3].held[5]);
    cr_assert_eq(lab_stats(&lab, 1).relays_lost, 0);
}

Test(gossip_spread, whom_nobody_reaches_is_counted)
{
    lab_unlink(&lab, 1, 3);
    lab_lose(&lab);
    cr_assert_eq(relay((uint32_t[]){3}, 1, 1), 0);
    lab_carry(&lab);
    cr_assert_not(lab.nodes[3].held[5]);
    cr_assert_eq(lab_stats(&lab, 1).relays_lost, 1);
}

Test(gossip_spread, a_suspect_gets_its_frame_and_nothing_to_pass_on)
{
    gossip_peer_suspect(lab.nodes[1].g, lab.nodes[2].id, true, lab.now_us);
    lab_unlink(&lab, 1, 3);
    lab_lose(&lab);
    cr_assert_eq(relay((uint32_t[]){2, 3}, 2, 2), 0);
    lab_carry(&lab);
    cr_assert(lab.nodes[2].held[5]);
    cr_assert_not(lab.nodes[3].held[5]);
}

/* Frames of node 1 that wait for the wire, to that node. */
static uint32_t
sent_to(uint32_t node)
{
    uint32_t count = 0;

    lab_pull(&lab);
    for (uint32_t i = 0; i < lab.frames_count; i++) {
        count += lab.frames[i].from == lab.nodes[1].id &&
                 lab.frames[i].to == lab.nodes[node].id;
    }
    return count;
}

/* Node 1 relays to 2 and 3, which are in these parts of the fleet: how many
 * frames it sends them. Both have the push then. */
static uint32_t
frames_into(uint64_t part_of_2, uint64_t part_of_3)
{
    gossip_peer_away(lab.nodes[1].g, lab.nodes[2].id, part_of_2);
    gossip_peer_away(lab.nodes[1].g, lab.nodes[3].id, part_of_3);
    cr_assert_eq(relay((uint32_t[]){2, 3}, 2, 2), 0);
    uint32_t frames = sent_to(2) + sent_to(3);
    lab_carry(&lab);
    cr_assert(lab.nodes[2].held[5]);
    cr_assert(lab.nodes[3].held[5]);
    return frames;
}

Test(gossip_spread, another_part_of_the_fleet_gets_one_frame)
{
    cr_assert_eq(frames_into(9, 9), 1);
}

Test(gossip_spread, each_other_part_gets_a_frame_of_its_own)
{
    cr_assert_eq(frames_into(9, 8), 2);
}

Test(gossip_spread, who_has_no_link_is_left_to_another_part_if_need_be)
{
    gossip_peer_away(lab.nodes[1].g, lab.nodes[2].id, 9);
    lab_unlink(&lab, 1, 3);
    lab_lose(&lab);
    cr_assert_eq(relay((uint32_t[]){3, 2}, 2, 2), 0);
    lab_carry(&lab);
    cr_assert(lab.nodes[2].held[5]);
    cr_assert(lab.nodes[3].held[5]);
    cr_assert_eq(lab_stats(&lab, 1).relays_lost, 0);
}

Test(gossip_spread, a_tail_that_does_not_fit_is_refused)
{
    cr_assert_eq(relay((uint32_t[]){2}, 1, 200), GOSSIP_E_BAD);
    cr_assert_eq(relay((uint32_t[]){2}, 1, 60), GOSSIP_E_BAD);
    uint8_t nothing[] = {RELAY, 0};
    cr_assert_eq(gossip_recv(lab.nodes[1].g, lab.nodes[0].id, nothing,
                             sizeof nothing, lab.now_us),
                 GOSSIP_E_BAD);
    lab_carry(&lab);
    cr_assert_not(lab.nodes[2].held[5]);
}

Test(gossip_spread, names_that_come_back_end)
{
    cr_assert_eq(relay((uint32_t[]){1, 2, 1, 2, 0}, 5, 5), 0);
    lab_carry(&lab);
    cr_assert(lab.nodes[2].held[5]);
    cr_assert_eq(lab_held(&lab, 3), 0);
}
