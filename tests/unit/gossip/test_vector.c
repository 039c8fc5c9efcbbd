#include <criterion/criterion.h>
#include <inttypes.h>

#include "index/base/rng.h"
#include "lab.h"

static struct lab lab;
static struct gossip_config config;

static void
setup(void)
{
    config = gossip_config_default();
    lab_begin(&lab, &config, 3);
    gossip_role(lab.nodes[0].g, lab_stream, 0, 0, lab.now_us);
    lab_begin_reading(&lab, 0, 77, true);
    for (uint32_t i = 0; i < 20; i++) {
        lab_read(&lab, 0, i, EVENT_STORE, i);
    }
    lab_run(&lab, 600);
}

static void
teardown(void)
{
    lab_end(&lab);
}

TestSuite(gossip_vector, .init = setup, .fini = teardown);

Test(gossip_vector, idle_nodes_exchange_ten_bytes_a_round)
{
    struct gossip_stats before = lab_stats(&lab, 1);

    lab_run(&lab, 10000);
    struct gossip_stats after = lab_stats(&lab, 1);
    uint64_t frames = after.frames_out - before.frames_out;
    cr_assert(frames >= 10000 / 300 && frames <= 10000 / 200, "%lu", frames);
    cr_assert_eq(after.bytes_out - before.bytes_out, frames * 10);
}

Test(gossip_vector, a_link_that_comes_up_tells_at_once)
{
    lab_unlink(&lab, 0, 2);
    lab_unlink(&lab, 1, 2);
    lab_read(&lab, 0, 20, EVENT_STORE, 20);
    lab_run(&lab, 300);
    lab_link(&lab, 1, 2);
    lab_carry(&lab);
    cr_assert(lab.nodes[2].held[20]);
}

static void
rot(uint32_t at)
{
    struct lab_node *node = &lab.nodes[at];
    struct gossip_status status = lab_status(&lab, at);

    node->held[3] = false;
    gossip_digest(node->g, lab_stream, status.count - 1,
                  status.xor_keys ^ rng_mix(rng_mix(4)));
}

Test(gossip_vector, unequal_digests_are_counted_and_healed_by_transfer)
{
    rot(2);
    cr_assert_not(lab_same(&lab, 0, 2));
    lab_run(&lab, 2000);
    cr_assert_gt(lab_stats(&lab, 2).digest_mismatches, 0);
    cr_assert_geq(lab_stats(&lab, 2).transfers_done, 1);
    cr_assert(lab_same(&lab, 0, 2));
    cr_assert_eq(lab.nodes[0].rereads, 0);
}

/* Node 2 has another block in place of one. */
static void
mix_up(uint32_t other)
{
    struct gossip_status status = lab_status(&lab, 2);

    lab.nodes[2].held[3] = false;
    lab.nodes[2].held[other] = true;
    gossip_digest(
        lab.nodes[2].g, lab_stream, status.count,
        status.xor_keys ^ rng_mix(rng_mix(4)) ^ rng_mix(rng_mix(other + 1)));
}

Test(gossip_vector, as_many_other_blocks_are_healed_too)
{
    mix_up(1000);
    lab_run(&lab, 2000);
    cr_assert(lab_same(&lab, 0, 2));
}

/* Node 1 reads 20 blocks in an epoch that is not complete. */
static void
read_a_part(void)
{
    gossip_local_end(lab.nodes[0].g, lab_stream, lab.now_us);
    lab_begin_reading(&lab, 1, 500, false);
    lab_run(&lab, config.judge_ms + 100);
    lab_read(&lab, 1, 40, EVENT_STORE, 40);
    lab_run(&lab, config.judge_ms + 100);
    cr_assert_eq(lab.nodes[1].rereads, 1);
    lab_begin_reading(&lab, 1, 500, false);
    for (uint32_t i = 0; i < 20; i++) {
        lab_read(&lab, 1, 50 + i, EVENT_STORE, i);
    }
    lab_run(&lab, config.judge_ms);
    cr_assert_eq(lab_held(&lab, 2), 20);
    cr_assert_not(lab_status(&lab, 2).complete);
}

/* What a partial reading makes of a batch depends on the names it knows. */
Test(gossip_vector, unequal_digests_of_incomplete_states_are_healed_uncounted)
{
    read_a_part();
    rot(2);
    lab_run(&lab, 2000);
    cr_assert(lab_same(&lab, 1, 2));
    cr_assert_geq(lab_stats(&lab, 2).transfers_done, 1);
    cr_assert_eq(lab_stats(&lab, 2).digest_mismatches, 0);
}

Test(gossip_vector, of_two_parts_of_one_size_one_gives_way)
{
    read_a_part();
    for (uint32_t other = 1000; other < 1004; other++) {
        mix_up(other);
        lab_run(&lab, config.heal_ms + 2000);
        cr_assert(lab_same(&lab, 1, 2));
        cr_assert_eq(lab_held(&lab, 1), 20);
        if (lab.nodes[2].held[other]) {
            return; /* the reader did */
        }
    }
}

Test(gossip_vector, one_of_two_that_do_not_read_takes_the_others_state)
{
    lab_stop(&lab, 0);
    rot(2);
    lab_run(&lab, 2000);
    cr_assert(lab_same(&lab, 1, 2));
    cr_assert_eq(
        lab_stats(&lab, 1).transfers_done + lab_stats(&lab, 2).transfers_done,
        1);
}

Test(gossip_vector, a_reader_that_is_wrong_does_not_stay_so_beside_another)
{
    gossip_role(lab.nodes[1].g, lab_stream, 1, lab.nodes[0].id, lab.now_us);
    lab_begin_reading(&lab, 1, 77, true);
    for (uint32_t i = 0; i < 20; i++) {
        lab_read(&lab, 1, i, EVENT_STORE, i);
    }
    rot(0);
    lab_run(&lab, 2000);
    cr_assert_eq(lab.nodes[0].rereads, 1);
    lab_begin_reading(&lab, 0, 77, true);
    for (uint32_t i = 0; i < 20; i++) {
        lab_read(&lab, 0, i, EVENT_STORE, i);
    }
    lab_run(&lab, 1000);
    cr_assert(lab_same(&lab, 0, 1));
}

/* Nodes 0 and 1 both read a process from its middle on. */
static void
read_part_twice(uint32_t batches)
{
    lab_end(&lab);
    lab_begin(&lab, &config, 2);
    gossip_role(lab.nodes[0].g, lab_stream, 0, 0, lab.now_us);
    gossip_role(lab.nodes[1].g, lab_stream, 1, lab.nodes[0].id, lab.now_us);
    lab_begin_reading(&lab, 0, 500, false);
    lab_read(&lab, 0, 899, EVENT_STORE, 0);
    lab_run(&lab, config.judge_ms + 100);
    lab_begin_reading(&lab, 0, 500, false); /* takes over */
    lab_begin_reading(&lab, 1, 500, false);
    for (uint32_t i = 0; i < batches; i++) {
        lab_read(&lab, 0, 900 + i, EVENT_STORE, i);
        lab_read(&lab, 1, 900 + i, EVENT_STORE, i);
    }
    lab_run(&lab, 1000);
    for (uint32_t i = 0; i < 2; i++) {
        cr_assert(lab_status(&lab, i).reads);
        cr_assert_not(lab_status(&lab, i).complete);
        cr_assert_eq(lab_held(&lab, i), batches);
        lab.nodes[i].rereads = 0;
    }
}

/* The engine may have no replay: it would tell nothing of what was before. */
Test(gossip_vector, of_two_readers_parts_the_larger_one_stays)
{
    for (uint32_t at = 0; at < 2; at++) {
        read_part_twice(20);
        rot(at);
        lab_run(&lab, 2000);
        cr_assert_eq(lab_held(&lab, 0), 20);
        cr_assert(lab_same(&lab, 0, 1));
        for (uint32_t i = 0; i < 2; i++) {
            cr_assert_eq(lab.nodes[i].rereads, 0);
            cr_assert_eq(lab_stats(&lab, i).digest_mismatches, 0);
        }
    }
}

/* As after a gap that the other nodes did not have. */
Test(gossip_vector, who_is_not_complete_takes_the_state_of_who_is)
{
    struct gossip_status status = lab_status(&lab, 2);
    bool held[LAB_KEYS];

    memcpy(held, lab.nodes[2].held, sizeof held);
    lab_stop(&lab, 2);
    lab_start(&lab, 2);
    memcpy(lab.nodes[2].held, held, sizeof held);
    lab.nodes[2].name = status.epoch.id;
    gossip_load(lab.nodes[2].g, lab_stream, status.epoch, status.whole,
                status.pos, false);
    gossip_digest(lab.nodes[2].g, lab_stream, status.count, status.xor_keys);
    lab_link(&lab, 0, 2);
    lab_run(&lab, 2000);
    cr_assert(lab_status(&lab, 2).complete);
    cr_assert(lab_same(&lab, 0, 2));
    cr_assert_eq(lab_stats(&lab, 2).digest_mismatches, 0);
    cr_assert_eq(lab_stats(&lab, 0).digest_mismatches, 0);
    cr_assert_eq(lab.nodes[0].rereads, 0);
}

Test(gossip_vector, being_behind_is_stale_only_after_a_while)
{
    lab.severed[0] = true;
    lab_read(&lab, 0, 20, EVENT_STORE, 20);
    lab_run(&lab, 5);
    lab_read(&lab, 0, 21, EVENT_STORE, 21);
    lab.now_us += 2 * LAB_MS;
    gossip_tick(lab.nodes[0].g, lab.now_us);
    lab_pull(&lab);
    lab.severed[0] = false; /* the second push alone arrives */
    lab_carry(&lab);
    cr_assert(lab.nodes[1].held[21]);
    cr_assert_not(lab.nodes[1].stale);
}

/* A batch of node 0's reading, whose source is known to have more. */
static void
read_ahead(uint64_t seq, uint64_t ahead)
{
    const struct event_record record = {.seq = seq, .ahead = ahead};

    gossip_local_record(lab.nodes[0].g, lab_stream, &record, seq, true,
                        lab.now_us);
    lab_pull(&lab);
}

Test(gossip_vector, all_nodes_are_stale_while_a_reader_knows_of_more)
{
    read_ahead(20, 30);
    lab_run(&lab, config.stale_ms + 100);
    for (uint32_t i = 0; i < lab.count; i++) {
        cr_assert(lab.nodes[i].stale, "node %" PRIu32, i);
    }
    lab_run(&lab, 4 * (uint64_t)config.judge_ms);
    read_ahead(29, 30);
    for (uint32_t i = 0; i < lab.count; i++) {
        cr_assert(lab.nodes[i].stale, "node %" PRIu32, i);
    }
    read_ahead(30, 0);
    lab_run(&lab, 100);
    for (uint32_t i = 0; i < lab.count; i++) {
        cr_assert_not(lab.nodes[i].stale, "node %" PRIu32, i);
    }
}

Test(gossip_vector, strangers_change_nothing)
{
    uint8_t frame[] = {1, 0, 0, 0, 0, 0, 0, 0, 0, 0};

    cr_assert_eq(gossip_recv(lab.nodes[0].g, 4711, frame, 10, lab.now_us),
                 GOSSIP_E_STRANGER);
    cr_assert_eq(lab_stats(&lab, 0).frames_stranger, 1);
}

Test(gossip_vector, a_stream_that_peers_alone_know_is_counted_and_not_made)
{
    struct gossip_status status;

    cr_assert(gossip_status_of(lab.nodes[2].g, lab_stream, &status));
    cr_assert_eq(status.epoch.id, 77);
    gossip_stream_remove(lab.nodes[2].g, lab_stream, lab.now_us);
    lab_unlink(&lab, 0, 2);
    lab_link(&lab, 0, 2);
    lab_carry(&lab);
    cr_assert_eq(lab_stats(&lab, 2).dropped_unknown, 1);
    cr_assert_not(gossip_status_of(lab.nodes[2].g, lab_stream, &status));
}

Test(gossip_vector, frames_of_another_version_are_skipped)
{
    uint8_t type[] = {99, 0, 1, 2, 3};
    uint8_t flag[] = {3, 1, 1, 2, 3};
    uint64_t peer = lab.nodes[1].id;

    cr_assert_eq(gossip_recv(lab.nodes[0].g, peer, type, 5, lab.now_us), 0);
    cr_assert_eq(gossip_recv(lab.nodes[0].g, peer, flag, 5, lab.now_us), 0);
    cr_assert_eq(lab_stats(&lab, 0).frames_unknown, 2);
}

Test(gossip_vector, malformed_frames_are_named)
{
    uint64_t peer = lab.nodes[1].id;

    for (uint8_t type = 1; type <= 9; type++) {
        uint8_t frame[] = {type, 0, 0xff, 0xff, 0xff};
        cr_assert_eq(gossip_recv(lab.nodes[0].g, peer, frame, 5, lab.now_us),
                     GOSSIP_E_BAD, "%u", type);
    }
    cr_assert_eq(gossip_recv(lab.nodes[0].g, peer, NULL, 0, lab.now_us),
                 GOSSIP_E_BAD);
    cr_assert_eq(lab_stats(&lab, 0).frames_bad, 10);
}

Test(gossip_vector, too_many_peers_are_refused)
{
    uint64_t id = 1000;

    while (gossip_peer_up(lab.nodes[0].g, id, lab.now_us) == 0) {
        id++;
    }
    cr_assert_eq(lab_stats(&lab, 0).peers, GOSSIP_PEERS_MAX);
    lab_pull(&lab);
}
