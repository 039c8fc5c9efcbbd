#include <criterion/criterion.h>

#include "index/base/rng.h"
#include "lab.h"

static struct lab lab;
static struct gossip_config config;

static void
setup(void)
{
    if (config.peers_max == 0) {
        config = gossip_config_default();
    }
    lab_begin(&lab, &config, 2);
    gossip_role(lab.nodes[0].g, lab_stream, 0, 0, lab.now_us);
    gossip_role(lab.nodes[1].g, lab_stream, 1, lab.nodes[0].id, lab.now_us);
    lab_begin_reading(&lab, 0, 77, true);
    for (uint32_t i = 0; i < 20; i++) {
        lab_read(&lab, 0, i, EVENT_STORE, i);
    }
    lab_run(&lab, 5);
}

static void
teardown(void)
{
    lab_end(&lab);
}

TestSuite(gossip_readings, .init = setup, .fini = teardown);

Test(gossip_readings, a_partial_reading_does_not_replace_a_whole_one)
{
    lab_begin_reading(&lab, 1, 500, false);
    for (uint32_t i = 10; i < 40; i++) {
        if (i >= 20) {
            lab_read(&lab, 0, i, EVENT_STORE, i);
        }
        lab_read(&lab, 1, i, EVENT_STORE, i);
        lab_run(&lab, i >= 20 ? 200 : 1);
    }
    cr_assert_eq(lab.nodes[1].rereads, 0);
    cr_assert_eq(lab_status(&lab, 1).epoch.id, 77);
    cr_assert(lab_status(&lab, 1).follower);
    cr_assert_eq(lab_held(&lab, 1), 40);
}

Test(gossip_readings, a_partial_reading_takes_over_when_nobody_reads_better)
{
    lab_begin_reading(&lab, 1, 500, false);
    lab_read(&lab, 1, 19, EVENT_STORE, 19);
    gossip_local_end(lab.nodes[0].g, lab_stream, lab.now_us);
    lab_read(&lab, 1, 20, EVENT_STORE, 20);
    lab_run(&lab, config.judge_ms - 10);
    cr_assert_eq(lab.nodes[1].rereads, 0);
    lab_run(&lab, 50);
    cr_assert_eq(lab.nodes[1].rereads, 1);
    lab_begin_reading(&lab, 1, 500, false);
    lab_read(&lab, 1, 18, EVENT_STORE, 18);
    lab_run(&lab, config.judge_ms);
    cr_assert_eq(lab_status(&lab, 0).epoch.id, 500);
    cr_assert_eq(lab_status(&lab, 0).epoch.no, 2);
    cr_assert_eq(lab_held(&lab, 0), 1);
    cr_assert_not(lab.nodes[0].complete);
}

Test(gossip_readings, a_takeover_is_no_restart_of_the_engine)
{
    gossip_local_end(lab.nodes[0].g, lab_stream, lab.now_us);
    for (uint32_t i = 0; i < 6; i++) {
        lab_begin_reading(&lab, 1, 500 + i, false);
        lab_read(&lab, 1, 30 + i, EVENT_STORE, 30);
        lab_run(&lab, config.judge_ms + 100);
        cr_assert_eq(lab.nodes[1].rereads, i + 1);
        lab_begin_reading(&lab, 1, 500 + i, false);
        lab_read(&lab, 1, 30 + i, EVENT_STORE, 30);
        lab_run(&lab, config.judge_ms);
        cr_assert_eq(lab_status(&lab, 0).epoch.id, 500 + i);
    }
    cr_assert_not(lab_status(&lab, 0).contested);
    cr_assert_not(lab_status(&lab, 1).contested);
}

Test(gossip_readings, another_print_at_the_same_position_is_another_process)
{
    uint64_t room[16] = {0};
    struct event_record *record = (struct event_record *)(void *)room;

    lab_begin_reading(&lab, 1, 500, false);
    record->seq = 15;
    gossip_local_record(lab.nodes[1].g, lab_stream, record, 0xbad, true,
                        lab.now_us);
    lab_run(&lab, 50);
    cr_assert_eq(lab.nodes[1].rereads, 1);
}

Test(gossip_readings, a_live_reading_below_the_replica_is_of_another_process)
{
    gossip_local_end(lab.nodes[0].g, lab_stream, lab.now_us);
    lab_begin_reading(&lab, 1, 500, false); /* nothing follows */
    lab_run(&lab, config.judge_ms + 100);
    cr_assert_eq(lab.nodes[1].rereads, 1);
}

Test(gossip_readings, a_whole_reading_replaces_a_partial_one)
{
    lab_begin_reading(&lab, 1, 500, false);
    gossip_local_end(lab.nodes[0].g, lab_stream, lab.now_us);
    lab_run(&lab, config.judge_ms + 100);
    lab_begin_reading(&lab, 1, 500, false);
    lab_run(&lab, config.judge_ms);
    cr_assert_eq(lab_status(&lab, 0).epoch.id, 500);
    lab_begin_reading(&lab, 0, 77, true);
    for (uint32_t i = 0; i < 30; i++) {
        lab_read(&lab, 0, i, EVENT_STORE, i);
    }
    lab_run(&lab, 500);
    cr_assert_eq(lab_status(&lab, 1).epoch.id, 77);
    cr_assert_eq(lab_held(&lab, 1), 30);
    cr_assert(lab.nodes[1].complete);
}

Test(gossip_readings, alone_a_partial_reading_is_taken_at_once)
{
    lab_end(&lab);
    lab_begin(&lab, &config, 1);
    lab_begin_reading(&lab, 0, 500, false);
    lab_read(&lab, 0, 900, EVENT_STORE, 1);
    cr_assert(lab.nodes[0].held[1]);
    cr_assert_not(lab.nodes[0].complete);
}

Test(gossip_readings, what_follows_a_clear_is_complete)
{
    lab_end(&lab);
    lab_begin(&lab, &config, 1);
    lab_begin_reading(&lab, 0, 500, false);
    lab_read(&lab, 0, 900, EVENT_STORE, 1);
    lab_read(&lab, 0, 901, EVENT_CLEAR, 0);
    cr_assert(lab.nodes[0].complete);
}

/* The first part of a batch: a CLEAR. */
static void
read_part(uint64_t seq)
{
    uint64_t room[16] = {0};
    struct event_record *record = (struct event_record *)(void *)room;

    record->seq = seq;
    record->words_count = 1;
    record->words[0] = event_op(EVENT_CLEAR, TIER_DEVICE, 0);
    gossip_local_record(lab.nodes[0].g, lab_stream, record, seq, false,
                        lab.now_us);
    lab_pull(&lab);
}

Test(gossip_readings, parts_are_numbered_from_one_after_a_gap_within_a_batch)
{
    lab_end(&lab);
    lab_begin(&lab, &config, 1);
    lab_begin_reading(&lab, 0, 500, false);
    read_part(900);
    cr_assert_eq(lab.nodes[0].seq, 900U << 8 | 1);
    gossip_local_gap(lab.nodes[0].g, lab_stream, lab.now_us);
    read_part(902);
    cr_assert_eq(lab.nodes[0].seq, 902U << 8 | 1);
}

Test(gossip_readings, what_a_reader_lost_comes_from_anothers_log)
{
    lab_begin_reading(&lab, 1, 77, true);
    for (uint32_t i = 0; i < 20; i++) {
        lab_read(&lab, 1, i, EVENT_STORE, i);
    }
    gossip_local_gap(lab.nodes[1].g, lab_stream, lab.now_us);
    for (uint32_t i = 20; i < 40; i++) {
        lab_read(&lab, 0, i, EVENT_STORE, i);
        if (i > 20) {
            lab_read(&lab, 1, i, EVENT_STORE, i);
        }
        lab_run(&lab, 100);
    }
    cr_assert_eq(lab_held(&lab, 1), 40);
    cr_assert(lab.nodes[1].complete);
    cr_assert_eq(lab.nodes[1].rereads, 0);
}

Test(gossip_readings, what_nobody_has_is_done_without_and_said)
{
    gossip_local_gap(lab.nodes[0].g, lab_stream, lab.now_us);
    lab_read(&lab, 0, 21, EVENT_STORE, 21);
    lab_run(&lab, config.judge_ms + 100);
    cr_assert_eq(lab.nodes[0].rereads, 1);
    lab_begin_reading(&lab, 0, 77, true);
    for (uint32_t i = 0; i < 20; i++) {
        lab_read(&lab, 0, i, EVENT_STORE, i);
    }
    lab_run(&lab, 5);
    cr_assert(lab.nodes[0].complete);
    gossip_local_gap(lab.nodes[0].g, lab_stream, lab.now_us);
    lab_read(&lab, 0, 21, EVENT_STORE, 21);
    lab_run(&lab, 500);
    cr_assert_not(lab.nodes[0].complete);
    cr_assert_not(lab.nodes[1].complete);
    cr_assert_eq(lab_held(&lab, 1), 21);
    cr_assert_eq(lab.nodes[0].rereads, 1);
}

/* Both read a process from its middle on, and all is known since a CLEAR. One
 * misses a batch that the other one has. */
Test(gossip_readings, after_a_gap_nothing_is_complete_before_a_clear)
{
    lab_end(&lab);
    lab_begin(&lab, &config, 2);
    lab_begin_reading(&lab, 0, 500, false);
    lab_read(&lab, 0, 899, EVENT_STORE, 0);
    lab_run(&lab, config.judge_ms + 100);
    for (uint32_t i = 0; i < 2; i++) {
        gossip_role(lab.nodes[i].g, lab_stream, i, i * lab.nodes[0].id,
                    lab.now_us);
        lab_begin_reading(&lab, i, 500, false);
        lab_read(&lab, i, 900, EVENT_CLEAR, 0);
    }
    lab_run(&lab, 10);
    gossip_local_gap(lab.nodes[1].g, lab_stream, lab.now_us);
    lab_read(&lab, 0, 901, EVENT_STORE, 1);
    lab_read(&lab, 0, 902, EVENT_STORE, 2);
    lab_run(&lab, 10);
    lab_read(&lab, 1, 902, EVENT_STORE, 2); /* it is there already */
    cr_assert(lab_status(&lab, 1).reads);
    cr_assert_eq(lab_held(&lab, 1), 2);
    cr_assert(lab_status(&lab, 1).complete);
    /* That 901's block was removed, too, it cannot say. */
    lab_read(&lab, 1, 903, EVENT_REMOVE, 2);
    cr_assert_not(lab_status(&lab, 1).complete);
    lab_read(&lab, 1, 904, EVENT_CLEAR, 0);
    lab_read(&lab, 1, 905, EVENT_STORE, 3);
    cr_assert(lab_status(&lab, 1).complete);
}

Test(gossip_readings, a_lost_state_is_had_again_from_the_own_log)
{
    uint32_t resets = lab.nodes[1].resets;

    gossip_local_lost(lab.nodes[1].g, lab_stream, lab.now_us);
    lab_pull(&lab);
    cr_assert_eq(lab.nodes[1].resets, resets + 1);
    cr_assert(lab_same(&lab, 0, 1));
}

Test(gossip_readings, a_lost_state_is_had_again_from_a_peer)
{
    config.log_records = 4;
    lab_end(&lab);
    setup();
    gossip_local_lost(lab.nodes[1].g, lab_stream, lab.now_us);
    lab_pull(&lab);
    cr_assert_eq(lab_held(&lab, 1), 0);
    lab_run(&lab, 1000);
    cr_assert(lab_same(&lab, 0, 1));
    cr_assert_geq(lab_stats(&lab, 1).transfers_done, 1);
}

Test(gossip_readings, a_reader_has_a_lost_state_again_from_a_peer)
{
    uint32_t resets = lab.nodes[0].resets;

    gossip_local_lost(lab.nodes[0].g, lab_stream, lab.now_us);
    lab_read(&lab, 0, 40, EVENT_STORE, 40); /* the reading goes on */
    lab_run(&lab, 100);
    cr_assert_eq(lab.nodes[0].resets, resets + 1);
    cr_assert_eq(lab.nodes[0].rereads, 0);
    cr_assert(lab_status(&lab, 0).reads);
    cr_assert(lab.nodes[0].held[40]);
    cr_assert(lab_same(&lab, 0, 1));
}

Test(gossip_readings, a_lost_state_is_had_again_by_reading)
{
    lab.nodes[1].refuses = true;
    gossip_local_lost(lab.nodes[0].g, lab_stream, lab.now_us);
    lab_run(&lab, 2000);
    cr_assert_eq(lab.nodes[0].rereads, 1);
    lab_begin_reading(&lab, 0, 77, true);
    cr_assert_eq(lab_held(&lab, 0), 0);
    for (uint32_t i = 0; i < lab_status(&lab, 1).pos >> 8; i++) {
        lab_read(&lab, 0, i, EVENT_STORE, i);
    }
    lab_run(&lab, 1000);
    cr_assert(lab_same(&lab, 0, 1));
}

Test(gossip_readings, records_that_run_backwards_are_dropped)
{
    lab_read(&lab, 0, 3, EVENT_REMOVE, 3);
    cr_assert(lab.nodes[0].held[3]);
    cr_assert_gt(lab_stats(&lab, 0).dropped_old, 0);
}

/* Nobody has all batches; node 0 begins an epoch without them, and gets no
 * further than three of its batches: node 1 has read twenty. */
static void
begin_broken_epoch(void)
{
    lab_begin_reading(&lab, 1, 77, true);
    for (uint32_t i = 0; i < 20; i++) {
        lab_read(&lab, 1, i, EVENT_STORE, i);
    }
    gossip_local_gap(lab.nodes[1].g, lab_stream, lab.now_us);
    gossip_local_gap(lab.nodes[0].g, lab_stream, lab.now_us);
    lab_read(&lab, 0, 21, EVENT_STORE, 21);
    lab_run(&lab, config.judge_ms + 100);
    cr_assert_eq(lab.nodes[0].rereads, 1);
    lab_begin_reading(&lab, 0, 77, true);
    for (uint32_t i = 0; i < 3; i++) {
        lab_read(&lab, 0, i, EVENT_STORE, i);
    }
    lab_run(&lab, 50);
    gossip_local_end(lab.nodes[0].g, lab_stream, lab.now_us);
    gossip_role(lab.nodes[1].g, lab_stream, 0, 0, lab.now_us);
    gossip_role(lab.nodes[0].g, lab_stream, GOSSIP_RANK_NONE, lab.nodes[1].id,
                lab.now_us);
    cr_assert_eq(lab_status(&lab, 1).epoch.no, 2);
    cr_assert(lab_status(&lab, 1).reads);
}

Test(gossip_readings, who_joins_an_epoch_knows_how_far_it_has_read)
{
    uint64_t rereads = lab.nodes[1].rereads;

    begin_broken_epoch();
    lab_run(&lab, 2 * config.judge_ms + 2 * config.question_ms);
    cr_assert_eq(lab.nodes[1].rereads, rereads + 1);
    lab_begin_reading(&lab, 1, 77, true);
    for (uint32_t i = 0; i < 20; i++) {
        lab_read(&lab, 1, i, EVENT_STORE, i);
    }
    lab_run(&lab, 500);
    cr_assert_eq(lab_held(&lab, 1), 20);
    cr_assert(lab_same(&lab, 0, 1));
    cr_assert_not(lab.nodes[1].stale);
}

/* Peers are asked in vain, or there are none any more. */
Test(gossip_readings, what_is_missing_is_looked_after_without_peers)
{
    begin_broken_epoch();
    uint64_t rereads = lab.nodes[1].rereads;
    lab_unlink(&lab, 0, 1);
    lab_run(&lab, 2 * config.judge_ms + 2 * config.question_ms);
    cr_assert_eq(lab.nodes[1].rereads, rereads + 1);
}

/* Two who read an engine that is silent both began in the middle, and one of
 * them has heard more of it. */
Test(gossip_readings, a_partial_reading_yields_to_a_living_one)
{
    gossip_local_end(lab.nodes[0].g, lab_stream, lab.now_us);
    lab_begin_reading(&lab, 1, 500, false);
    lab_read(&lab, 1, 30, EVENT_STORE, 30);
    lab_run(&lab, config.judge_ms + 100);
    lab_begin_reading(&lab, 1, 500, false); /* takes over, and hears nothing */
    cr_assert_eq(lab_status(&lab, 1).epoch.id, 500);
    lab_begin_reading(&lab, 0, 600, false);
    lab_read(&lab, 0, 31, EVENT_STORE, 31);
    lab_run(&lab, 10 * config.judge_ms);
    cr_assert_eq(lab.nodes[0].rereads, 0);
    cr_assert_eq(lab_status(&lab, 0).epoch.no, 2);
    lab_read(&lab, 1, 32, EVENT_STORE, 32);
    lab_read(&lab, 0, 32, EVENT_STORE, 32);
    lab_run(&lab, 3 * config.judge_ms);
    cr_assert_eq(lab.nodes[0].rereads, 0);
    cr_assert(lab.nodes[0].held[32] && lab.nodes[1].held[32]);
}

/* An engine without a replay. Node 0 has read all of it, and does not any more;
 * node 2 heard its last ten batches, node 1 begins to read and hears none. */
static void
leave_it_silent(uint64_t last_print)
{
    uint64_t room[16] = {0};
    struct event_record *last = (struct event_record *)(void *)room;

    lab_end(&lab);
    lab_begin(&lab, &config, 3);
    lab_begin_reading(&lab, 0, 77, true);
    lab_begin_reading(&lab, 2, 500, false);
    for (uint32_t i = 0; i < 19; i++) {
        lab_read(&lab, 0, i, EVENT_STORE, i);
        if (i >= 10) {
            lab_read(&lab, 2, i, EVENT_STORE, i);
        }
    }
    last->seq = 19;
    gossip_local_record(lab.nodes[2].g, lab_stream, last, last_print, true,
                        lab.now_us);
    lab_read(&lab, 0, 19, EVENT_STORE, 19);
    lab_run(&lab, 50);
    gossip_local_end(lab.nodes[0].g, lab_stream, lab.now_us);
    lab_begin_reading(&lab, 1, 600, false);
    lab_run(&lab, 10 * config.judge_ms);
}

Test(gossip_readings, who_hears_nothing_yields_to_who_heard_the_last_batch)
{
    leave_it_silent(rng_mix(19));
    for (uint32_t at = 0; at < 3; at++) {
        cr_assert_eq(lab.nodes[at].rereads, 0);
        cr_assert_eq(lab_status(&lab, at).epoch.id, 77);
        cr_assert_eq(lab_held(&lab, at), 20);
    }
    for (uint32_t at = 1; at < 3; at++) { /* nobody leads it any more */
        lab_read(&lab, at, 20, EVENT_STORE, 20);
    }
    lab_run(&lab, 2 * config.judge_ms + 100);
    cr_assert_gt(lab.nodes[1].rereads + lab.nodes[2].rereads, 0);
}

/* At the same position another batch was heard. */
Test(gossip_readings, who_hears_nothing_yields_to_nobody_of_another_process)
{
    leave_it_silent(0xbad);
    cr_assert_gt(lab.nodes[1].rereads, 0);
}

Test(gossip_readings, a_partial_reading_does_not_yield_to_a_deaf_one)
{
    lab_begin_reading(&lab, 1, 500, false);
    lab_run(&lab, 5 * config.judge_ms);
    cr_assert_eq(lab.nodes[1].rereads, 0); /* node 0 reads, and lives */
    for (uint32_t i = 0; i < 2; i++) {
        lab_read(&lab, 1, i, EVENT_STORE, i);
        lab_run(&lab, config.judge_ms);
    }
    lab_run(&lab, config.judge_ms);
    cr_assert_eq(lab.nodes[1].rereads, 1);
}

Test(gossip_readings, an_answer_counts_for_the_epoch_that_was_judged)
{
    gossip_local_end(lab.nodes[0].g, lab_stream, lab.now_us);
    lab_begin_reading(&lab, 1, 500, false);
    lab_read(&lab, 1, 30, EVENT_STORE, 30);
    lab_run(&lab, config.judge_ms + 100);
    cr_assert_eq(lab.nodes[1].rereads, 1);
    lab_begin_reading(&lab, 0, 88, true); /* meanwhile somebody reads it all */
    lab_read(&lab, 0, 0, EVENT_STORE, 1);
    lab_run(&lab, 50);
    lab_begin_reading(&lab, 1, 500, false);
    lab_run(&lab, 50);
    cr_assert_eq(lab_status(&lab, 1).epoch.id, 88);
    cr_assert(lab_status(&lab, 1).follower);
}

static void
alone(void)
{
    config = gossip_config_default();
    lab_begin(&lab, &config, 1);
    gossip_role(lab.nodes[0].g, lab_stream, 0, 0, lab.now_us);
}

/* A node that starts beside others, long after the engine did: what they know
 * of the process must not be lost to an epoch of its own. */
Test(gossip_readings, before_others_come_a_partial_reading_waits)
{
    lab_end(&lab);
    lab_begin(&lab, &config, 1);
    gossip_await(lab.nodes[0].g, true, lab.now_us);
    lab_begin_reading(&lab, 0, 500, false);
    lab_read(&lab, 0, 900, EVENT_STORE, 1);
    lab_run(&lab, config.judge_ms / 2);
    cr_assert_eq(lab_status(&lab, 0).epoch.no, 0);
    cr_assert_not(lab.nodes[0].held[1]);
    cr_assert_eq(lab_stats(&lab, 0).takeovers, 0);
    gossip_await(lab.nodes[0].g, false, lab.now_us);
    lab_run(&lab, 1);
    cr_assert_eq(lab_stats(&lab, 0).takeovers, 1);
    lab_begin_reading(&lab, 0, 500, false); /* as it was asked to */
    lab_read(&lab, 0, 900, EVENT_STORE, 1);
    cr_assert_eq(lab_status(&lab, 0).epoch.id, 500);
    cr_assert(lab.nodes[0].held[1]);
}

TestSuite(gossip_alone, .init = alone, .fini = teardown);

Test(gossip_alone, a_partial_reading_after_a_whole_one_counts_at_once)
{
    lab_begin_reading(&lab, 0, 77, true);
    lab_read(&lab, 0, 0, EVENT_STORE, 1);
    lab_begin_reading(&lab, 0, 500, false);
    lab_read(&lab, 0, 9, EVENT_STORE, 2);
    lab_run(&lab, 1);
    cr_assert_eq(lab_status(&lab, 0).epoch.id, 500);
    cr_assert_eq(lab_held(&lab, 0), 1);
    cr_assert_not(lab.nodes[0].complete);
    cr_assert(gossip_reads(lab.nodes[0].g, lab_stream));
}

Test(gossip_alone, what_is_lost_for_good_is_read_again_without_delay)
{
    lab_begin_reading(&lab, 0, 77, true);
    lab_read(&lab, 0, 0, EVENT_STORE, 1);
    gossip_local_gap(lab.nodes[0].g, lab_stream, lab.now_us);
    cr_assert_not(gossip_reads(lab.nodes[0].g, lab_stream));
    lab_read(&lab, 0, 2, EVENT_STORE, 2);
    lab_run(&lab, 5);
    cr_assert_eq(lab.nodes[0].rereads, 1);
}

Test(gossip_alone, epochs_in_which_nobody_said_anything_contest_nothing)
{
    for (uint64_t i = 0; i < 20; i++) {
        lab_begin_reading(&lab, 0, 100 + i, true);
        lab_run(&lab, 1);
    }
    cr_assert_not(lab_status(&lab, 0).contested);
    for (uint64_t i = 0; i < 20; i++) {
        lab_begin_reading(&lab, 0, 200 + i, true);
        lab_read(&lab, 0, 0, EVENT_STORE, 1);
        lab_run(&lab, 1);
    }
    cr_assert(lab_status(&lab, 0).contested);
}

Test(gossip_readings, a_stream_that_nobody_can_read_is_stale)
{
    gossip_local_end(lab.nodes[0].g, lab_stream, lab.now_us);
    for (uint32_t i = 0; i < 2; i++) {
        gossip_unread(lab.nodes[i].g, lab_stream, true, lab.now_us);
    }
    lab_run(&lab, config.stale_ms - 1);
    cr_assert(!lab.nodes[0].stale && !lab.nodes[1].stale);
    lab_run(&lab, 2);
    cr_assert(lab.nodes[0].stale && lab.nodes[1].stale);
    cr_assert(lab.nodes[1].complete && lab_held(&lab, 1) == 20);
    gossip_unread(lab.nodes[1].g, lab_stream, false, lab.now_us);
    lab_run(&lab, 1);
    cr_assert(lab.nodes[0].stale && !lab.nodes[1].stale);
}

Test(gossip_readings, a_reading_that_lives_proves_that_somebody_can)
{
    gossip_unread(lab.nodes[0].g, lab_stream, true, lab.now_us);
    gossip_local_live(lab.nodes[0].g, lab_stream, true, lab.now_us);
    lab_run(&lab, 500);
    cr_assert_not(lab.nodes[0].stale);
    gossip_local_live(lab.nodes[0].g, lab_stream, false, lab.now_us);
    lab_run(&lab, 1);
    cr_assert(lab.nodes[0].stale);
    gossip_local_live(lab.nodes[0].g, lab_stream, true, lab.now_us);
    lab_run(&lab, 1);
    cr_assert_not(lab.nodes[0].stale);
}

Test(gossip_readings, only_a_batchs_last_part_says_how_many_holes_there_are)
{
    lab_read_many(&lab, 0, 20, 0, 10000); /* in three parts */
    lab_run(&lab, 5);
    for (uint32_t i = 0; i < 2; i++) {
        cr_assert_eq(lab.nodes[i].holes_unknown, 2);
        cr_assert_eq(lab.nodes[i].holes, 0);
    }
}
