#include <criterion/criterion.h>

#include "gossip/gossip_internal.h"
#include "lab.h"

static struct lab lab;
static struct gossip_config config;

static void
setup(void)
{
    config = gossip_config_default();
    lab_begin(&lab, &config, 3);
    gossip_role(lab.nodes[0].g, lab_stream, 0, 0, lab.now_us);
    gossip_role(lab.nodes[1].g, lab_stream, 1, lab.nodes[0].id, lab.now_us);
}

static void
teardown(void)
{
    lab_end(&lab);
}

TestSuite(gossip_epochs, .init = setup, .fini = teardown);

Test(gossip_epochs, two_readers_of_a_process_name_it_alike_without_a_word)
{
    lab_begin_reading(&lab, 0, 77, true);
    lab_begin_reading(&lab, 1, 77, true);
    struct gossip_status a = lab_status(&lab, 0);
    struct gossip_status b = lab_status(&lab, 1);
    cr_assert_eq(a.epoch.id, b.epoch.id);
    cr_assert_eq(a.epoch.no, b.epoch.no);
}

Test(gossip_epochs, a_restarted_engine_takes_its_old_blocks_with_it_everywhere)
{
    lab_begin_reading(&lab, 0, 77, true);
    lab_read(&lab, 0, 0, EVENT_STORE, 1);
    lab_run(&lab, 5);
    cr_assert(lab.nodes[2].held[1]);
    lab_begin_reading(&lab, 0, 88, true); /* idle: no event follows */
    lab_run(&lab, 1000);
    cr_assert_eq(lab_held(&lab, 2), 0);
    cr_assert_eq(lab_status(&lab, 2).epoch.id, 88);
    cr_assert_eq(lab_status(&lab, 2).epoch.no, 2);
    cr_assert(lab.nodes[2].complete && !lab.nodes[2].stale);
}

Test(gossip_epochs, an_equal_id_is_the_same_epoch_whatever_the_number)
{
    lab_unlink(&lab, 0, 1);
    lab_begin_reading(&lab, 0, 66, true);
    lab_begin_reading(&lab, 0, 77, true);
    lab_begin_reading(&lab, 1, 77, true);
    lab_read(&lab, 1, 0, EVENT_STORE, 4);
    uint32_t resets = lab.nodes[1].resets;
    cr_assert_eq(lab_status(&lab, 0).epoch.no, 2);
    cr_assert_eq(lab_status(&lab, 1).epoch.no, 1);
    lab_link(&lab, 0, 1);
    lab_run(&lab, 600);
    cr_assert_eq(lab_status(&lab, 1).epoch.no, 2);
    cr_assert_eq(lab.nodes[1].resets, resets);
    cr_assert_eq(lab.nodes[1].rereads, 0);
    cr_assert(lab.nodes[1].held[4]);
    cr_assert(lab.nodes[0].held[4]);
}

Test(gossip_epochs, of_equal_numbers_the_larger_id_wins)
{
    lab_begin_reading(&lab, 0, 77, true);
    lab_begin_reading(&lab, 1, 78, true);
    gossip_local_end(lab.nodes[0].g, lab_stream, lab.now_us);
    gossip_local_end(lab.nodes[1].g, lab_stream, lab.now_us);
    lab_run(&lab, 1000);
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert_eq(lab_status(&lab, i).epoch.id, 78);
    }
}

Test(gossip_epochs, a_zombie_changes_nothing_and_learns)
{
    lab_begin_reading(&lab, 0, 77, true);
    lab_run(&lab, 5);
    lab_unlink(&lab, 0, 2);
    lab_unlink(&lab, 0, 1);
    gossip_role(lab.nodes[1].g, lab_stream, 0, 0, lab.now_us);
    lab_begin_reading(&lab, 1, 88, true);
    lab_read(&lab, 1, 0, EVENT_STORE, 3);
    lab_run(&lab, 5);
    lab_read(&lab, 0, 0, EVENT_STORE, 1); /* of a process that is dead */
    lab_link(&lab, 0, 2);
    lab_read(&lab, 0, 1, EVENT_STORE, 2);
    lab_run(&lab, 301 * config.judge_ms); /* it proves nothing */
    cr_assert_eq(lab_held(&lab, 2), 1);
    cr_assert(lab.nodes[2].held[3]);
    cr_assert_eq(lab_status(&lab, 0).epoch.id, 77, "nobody does");
    lab_link(&lab, 0, 1);
    for (uint32_t ms = 0; ms < 2 * config.judge_ms; ms++) {
        lab_run(&lab, 1);
        gossip_local_proved(lab.nodes[1].g, lab_stream, lab.nodes[1].ask,
                            lab.now_us);
    }
    cr_assert_eq(lab_status(&lab, 0).epoch.id, 88);
    cr_assert(lab_same(&lab, 0, 2));
}

Test(gossip_epochs, the_live_observer_wins_over_a_higher_number)
{
    lab_unlink(&lab, 0, 1);
    lab_unlink(&lab, 0, 2);
    lab_begin_reading(&lab, 1, 60, true);
    lab_begin_reading(&lab, 1, 61, true);
    lab_begin_reading(&lab, 1, 62, true);
    gossip_local_live(lab.nodes[1].g, lab_stream, false, lab.now_us);
    gossip_local_end(lab.nodes[1].g, lab_stream, lab.now_us);
    lab_begin_reading(&lab, 0, 77, true);
    lab_link(&lab, 0, 1);
    lab_link(&lab, 0, 2);
    lab_run(&lab, 600);
    cr_assert_eq(lab_status(&lab, 0).epoch.id, 77);
    cr_assert_eq(lab.nodes[0].rereads, 1);
    cr_assert(lab.nodes[0].prove);
    lab_begin_reading(&lab, 0, 77, true); /* the answer */
    lab_run(&lab, 1000);
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert_eq(lab_status(&lab, i).epoch.id, 77);
        cr_assert_eq(lab_status(&lab, i).epoch.no, 4);
    }
}

Test(gossip_epochs, a_reading_begun_before_the_question_proves_nothing)
{
    lab_begin_reading(&lab, 1, 77, true);
    lab_run(&lab, 5);
    gossip_role(lab.nodes[0].g, lab_stream, 1, lab.nodes[1].id, lab.now_us);
    lab_begin_reading(&lab, 0, 77, true);
    gossip_role(lab.nodes[1].g, lab_stream, 0, 0, lab.now_us);
    lab_begin_reading(&lab, 1, 88, true);
    lab_run(&lab, 600);
    cr_assert_eq(lab_status(&lab, 0).epoch.id, 77);
    cr_assert_eq(lab.nodes[0].rereads, 1);
    /* Was on its way: of the process that is dead by now. */
    gossip_local_begin(lab.nodes[0].g, lab_stream, 77, true, 0, lab.now_us);
    lab_run(&lab, 100);
    cr_assert_eq(lab_status(&lab, 0).epoch.no, 1);
    cr_assert_eq(lab_status(&lab, 1).epoch.id, 88);
    lab_begin_reading(&lab, 0, 88, true);
    cr_assert(lab_status(&lab, 0).reads);
    cr_assert_eq(lab_status(&lab, 0).epoch.no, 2);
}

Test(gossip_epochs, who_meets_an_epoch_reads_again_and_joins)
{
    lab_begin_reading(&lab, 0, 77, true);
    lab_begin_reading(&lab, 1, 77, true);
    lab_run(&lab, 5);
    lab_begin_reading(&lab, 0, 88, true);
    lab_read(&lab, 0, 0, EVENT_STORE, 6);
    lab_run(&lab, 5);
    cr_assert_eq(lab.nodes[1].rereads, 1);
    cr_assert_eq(lab_status(&lab, 1).epoch.id, 77);
    uint32_t resets = lab.nodes[1].resets;
    lab_begin_reading(&lab, 1, 88, true);
    lab_read(&lab, 1, 0, EVENT_STORE, 6);
    cr_assert(lab_status(&lab, 1).reads);
    cr_assert_eq(lab_status(&lab, 1).epoch.no, 2); /* as node 0 named it */
    cr_assert_eq(lab.nodes[1].resets, resets + 1);
}

Test(gossip_epochs, reading_again_is_no_new_epoch_for_peers)
{
    lab_begin_reading(&lab, 0, 77, true);
    for (uint32_t i = 0; i < 20; i++) {
        lab_read(&lab, 0, i, EVENT_STORE, i);
    }
    lab_run(&lab, 5);
    uint32_t resets = lab.nodes[2].resets;
    uint64_t name = lab.nodes[0].name;
    lab_begin_reading(&lab, 0, 77, true);
    cr_assert_eq(lab_held(&lab, 0), 0);
    cr_assert_neq(lab.nodes[0].name, name);
    for (uint32_t i = 0; i < 21; i++) {
        lab_read(&lab, 0, i, EVENT_STORE, i);
    }
    lab_run(&lab, 5);
    cr_assert_eq(lab.nodes[2].resets, resets);
    cr_assert_eq(lab_held(&lab, 2), 21);
    cr_assert(lab_same(&lab, 0, 2));
    cr_assert_eq(lab_status(&lab, 2).epoch.no, 1);
}

Test(gossip_epochs, more_than_three_changes_in_a_minute_are_contested)
{
    for (uint64_t i = 0; i < 4; i++) {
        lab_begin_reading(&lab, 0, 100 + i, true);
        lab_read(&lab, 0, 0, EVENT_STORE, 1);
        lab_pull(&lab);
    }
    cr_assert_not(lab.nodes[0].contested); /* the first is no change */
    lab_begin_reading(&lab, 0, 105, true);
    lab_pull(&lab);
    cr_assert(lab.nodes[0].contested);
    lab_run(&lab, GOSSIP_FLIPS_US / LAB_MS + 10);
    cr_assert_not(lab.nodes[0].contested);
}

Test(gossip_epochs, numbers_go_on_after_a_stream_was_away)
{
    lab_begin_reading(&lab, 0, 77, true);
    lab_begin_reading(&lab, 0, 78, true);
    gossip_stream_remove(lab.nodes[0].g, lab_stream, lab.now_us);
    lab_pull(&lab);
    cr_assert_eq(lab_stats(&lab, 0).tombstones, 1);
    cr_assert_eq(gossip_stream_add(lab.nodes[0].g, lab_stream, lab.now_us), 0);
    lab_begin_reading(&lab, 0, 79, true);
    cr_assert_eq(lab_status(&lab, 0).epoch.no, 3);
}

Test(gossip_epochs, a_tombstone_lasts_ten_minutes)
{
    gossip_stream_remove(lab.nodes[2].g, lab_stream, lab.now_us);
    lab_run(&lab, config.tombstone_ms - 10);
    cr_assert_eq(lab_stats(&lab, 2).tombstones, 1);
    lab_run(&lab, 20);
    cr_assert_eq(lab_stats(&lab, 2).tombstones, 0);
}

Test(gossip_epochs, frames_create_no_streams)
{
    gossip_stream_remove(lab.nodes[2].g, lab_stream, lab.now_us);
    lab_begin_reading(&lab, 0, 77, true);
    lab_read(&lab, 0, 0, EVENT_STORE, 1);
    lab_run(&lab, 1000);
    cr_assert_eq(lab_stats(&lab, 2).streams, 0);
    cr_assert_gt(lab_stats(&lab, 2).dropped_unknown, 0);
    cr_assert_eq(gossip_stream_add(lab.nodes[2].g, lab_stream, lab.now_us), 0);
    lab_run(&lab, 1000);
    cr_assert(lab.nodes[2].held[1]);
}

Test(gossip_epochs, a_snapshot_goes_on_where_it_was)
{
    lab_begin_reading(&lab, 0, 77, true);
    for (uint32_t i = 0; i < 20; i++) {
        lab_read(&lab, 0, i, EVENT_STORE, i);
    }
    lab_run(&lab, 5);
    struct gossip_status before = lab_status(&lab, 2);
    bool held[LAB_KEYS];
    memcpy(held, lab.nodes[2].held, sizeof held);
    lab_stop(&lab, 2);
    lab_read(&lab, 0, 20, EVENT_REMOVE, 0);
    lab_start(&lab, 2);
    memcpy(lab.nodes[2].held, held, sizeof held);
    lab.nodes[2].name = before.epoch.id;
    gossip_load(lab.nodes[2].g, lab_stream, before.epoch, before.whole,
                before.pos, before.complete);
    lab_link(&lab, 0, 2);
    lab_run(&lab, 5);
    cr_assert_eq(lab.nodes[2].resets, 0);
    cr_assert_eq(lab.nodes[2].applied, 1);
    cr_assert(lab_same(&lab, 0, 2));
}

/* It was complete since a CLEAR. */
Test(gossip_epochs, a_partial_epoch_from_a_snapshot_stays_partial)
{
    lab_stop(&lab, 2);
    lab_start(&lab, 2);
    gossip_load(lab.nodes[2].g, lab_stream,
                (struct gossip_epoch){.no = 1, .id = 77}, false, 255, true);
    cr_assert(lab_status(&lab, 2).complete);
    gossip_local_lost(lab.nodes[2].g, lab_stream, lab.now_us);
    lab_pull(&lab);
    cr_assert_not(lab_status(&lab, 2).complete);
    cr_assert_not(lab_status(&lab, 2).whole);
}

Test(gossip_epochs, a_snapshot_of_a_dead_process_is_dropped)
{
    lab_begin_reading(&lab, 0, 77, true);
    lab_stop(&lab, 2);
    lab_begin_reading(&lab, 0, 78, true);
    lab_start(&lab, 2);
    lab.nodes[2].held[9] = true;
    gossip_load(lab.nodes[2].g, lab_stream,
                (struct gossip_epoch){.no = 1, .id = 77}, true, 255, true);
    lab_link(&lab, 0, 2);
    lab_run(&lab, 5);
    cr_assert_eq(lab.nodes[2].resets, 1);
    cr_assert_eq(lab_held(&lab, 2), 0);
}

Test(gossip_epochs, a_number_that_cannot_rise_stays)
{
    struct gossip_epoch last = {.no = UINT32_MAX - 1, .id = 77};

    lab_stop(&lab, 2);
    lab_start(&lab, 2);
    gossip_role(lab.nodes[2].g, lab_stream, 0, 0, lab.now_us);
    gossip_load(lab.nodes[2].g, lab_stream, last, true, 255, true);
    lab_begin_reading(&lab, 2, 78, true);
    cr_assert_eq(lab_status(&lab, 2).epoch.id, 78);
    cr_assert_eq(lab_status(&lab, 2).epoch.no, last.no);
}

/* A frame of node 2's, which it pushes to all: a record of this epoch that follows
 * on, and ends at the end of batch `seq`. */
static void
push_record(struct gossip_epoch epoch, uint64_t seq, uint8_t flags)
{
    struct gossip_status status = lab_status(&lab, 2);
    uint8_t bytes[128];
    uint8_t body[32];
    struct codec_out record = {.bytes = body, .max = sizeof body};
    struct codec_out out = {.bytes = bytes, .max = sizeof bytes};
    const struct event_record head = {.holes = 0};

    codec_put_body(&record, &head, NULL, 0, 7, flags);
    codec_put_u8(&out, GOSSIP_FRAME_DELTA);
    codec_put_u8(&out, 0);
    codec_put_u8(&out, 1); /* a push */
    codec_put_u64(&out, lab_stream.worker);
    codec_put_varint(&out, lab_stream.rank);
    codec_put_varint(&out, epoch.no);
    codec_put_u64(&out, epoch.id);
    codec_put_u8(&out, 3); /* whole and complete */
    codec_put_varint(&out, status.pos);
    codec_put_varint(&out, record.len);
    codec_put_varint(&out, gossip_pos_after(seq) - status.pos);
    codec_put_bytes(&out, body, record.len);
    codec_put_varint(&out, 0);
    for (uint32_t i = 0; i < 2; i++) {
        cr_assert_eq(gossip_recv(lab.nodes[i].g, lab.nodes[2].id, bytes,
                                 out.len, lab.now_us),
                     0);
    }
    lab_run(&lab, 1000);
}

static void
read_both(uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        lab_read(&lab, 0, i, EVENT_STORE, i);
        lab_read(&lab, 1, i, EVENT_STORE, i);
    }
}

/* Each reader that is asked to reads again, from the first batch on. */
static void
read_again(uint32_t to)
{
    for (uint32_t i = 0; i < 2; i++) {
        cr_assert_eq(lab.nodes[i].rereads, 1);
        lab_begin_reading(&lab, i, 77, true);
    }
    read_both(0, to);
    lab_run(&lab, 4 * config.judge_ms);
}

/* What the engine says since would be dropped as old by all nodes, for ever. */
Test(gossip_epochs, no_peer_ends_an_epoch_by_a_position_out_of_reach)
{
    for (unsigned flags = 0; flags <= CODEC_GAP; flags++) {
        teardown();
        setup();
        lab_begin_reading(&lab, 0, 77, true);
        lab_begin_reading(&lab, 1, 77, true);
        read_both(0, 20);
        lab_run(&lab, 5);
        push_record(lab_status(&lab, 2).epoch, 2 * GOSSIP_SEQ_MAX - 1,
                    (uint8_t)flags);
        cr_assert_gt(lab_status(&lab, 2).pos, gossip_pos_after(19));
        read_both(20, 25);
        lab_run(&lab, 1000);
        read_again(25);
        for (uint32_t i = 0; i < 3; i++) {
            cr_assert_eq(lab_held(&lab, i), 25, "%u", i);
            cr_assert_eq(lab_status(&lab, i).pos, gossip_pos_after(24));
            cr_assert(lab.nodes[i].complete && !lab.nodes[i].stale);
        }
    }
}

Test(gossip_epochs, a_peer_may_be_far_ahead_of_a_reader)
{
    lab_begin_reading(&lab, 0, 77, true);
    lab_begin_reading(&lab, 1, 77, true);
    read_both(0, 20);
    lab_run(&lab, 5);
    push_record(lab_status(&lab, 2).epoch, 19 + GOSSIP_FAR, 0);
    read_both(20, 25);
    lab_run(&lab, 1000);
    cr_assert_eq(lab.nodes[0].rereads + lab.nodes[1].rereads, 0);
}

/* There is no number above it, by which a reader could prove itself. */
Test(gossip_epochs, no_peer_ends_an_epoch_by_a_number_out_of_reach)
{
    struct gossip_epoch last = {.no = UINT32_MAX - 1, .id = UINT64_MAX};

    lab_begin_reading(&lab, 0, 77, true);
    for (uint32_t i = 0; i < 20; i++) {
        lab_read(&lab, 0, i, EVENT_STORE, i);
    }
    lab_run(&lab, 5);
    push_record(last, 30, 0);
    for (uint32_t ms = 0; ms < 30 * config.judge_ms; ms++) {
        lab_run(&lab, 1);
        gossip_local_proved(lab.nodes[0].g, lab_stream, lab.nodes[0].ask,
                            lab.now_us);
    }
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert_eq(lab_status(&lab, i).epoch.id, 77, "%u", i);
        cr_assert_eq(lab_held(&lab, i), 20);
    }
}

/* Who loaded it would be followed by nobody, and follow nobody. */
Test(gossip_epochs, no_snapshot_has_a_number_out_of_reach)
{
    struct gossip_epoch epoch = {.no = GOSSIP_NO_LEAP, .id = 77};

    cr_assert(gossip_can_load(lab.nodes[2].g, lab_stream, epoch, 255));
    epoch.no++;
    cr_assert_not(gossip_can_load(lab.nodes[2].g, lab_stream, epoch, 255));
}

Test(gossip_epochs, a_number_in_reach_is_followed)
{
    struct gossip_epoch high = {.no = 1 + GOSSIP_NO_LEAP, .id = 78};

    lab_begin_reading(&lab, 0, 77, true);
    lab_read(&lab, 0, 0, EVENT_STORE, 0);
    lab_run(&lab, 5);
    push_record(high, 30, 0);
    cr_assert_eq(lab_status(&lab, 1).epoch.no, high.no);
}
