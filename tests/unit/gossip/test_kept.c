/* What a node keeps of what it knows while epochs change. */
#include <criterion/criterion.h>

#include "lab.h"

static struct lab lab;
static struct gossip_config config;

static void
setup(void)
{
    config = gossip_config_default();
    lab_begin(&lab, &config, 3);
}

static void
teardown(void)
{
    lab_end(&lab);
}

TestSuite(gossip_kept, .init = setup, .fini = teardown);

/* Batches of a node's reading; the engine clears its cache in batch 10. */
static void
read_batches(uint32_t at, uint32_t from, uint32_t until)
{
    for (uint32_t i = from; i < until; i++) {
        if (i == 10) {
            lab_clear(&lab, at, i);
        } else {
            lab_read_named(&lab, at, i, i, true);
        }
    }
}

/* An intake answers what it was asked, if it was asked for proof. */
static void
prove(uint32_t node)
{
    if (lab.nodes[node].g != NULL && lab.nodes[node].prove) {
        gossip_local_proved(lab.nodes[node].g, lab_stream, lab.nodes[node].ask,
                            lab.now_us);
    }
}

/* Node 0 knows the process from its start, node 2 since the CLEAR, under a lower
 * number. */
static void
read_apart(uint32_t until)
{
    lab_unlink(&lab, 0, 2);
    lab_unlink(&lab, 1, 2);
    lab_begin_reading(&lab, 0, 70, true);
    lab_begin_reading(&lab, 0, 77, true);
    read_batches(0, 0, 15);
    lab_begin_reading(&lab, 2, 500, false);
    read_batches(2, 5, until);
    cr_assert(lab_status(&lab, 2).complete);
    cr_assert_gt(lab_status(&lab, 0).epoch.no, lab_status(&lab, 2).epoch.no);
}

Test(gossip_kept, the_state_of_who_follows_another_epoch_of_its_process)
{
    for (uint32_t until = 15; until < 18; until++) { /* as far, or further */
        read_apart(until);
        uint32_t resets = lab.nodes[2].resets;
        if (until > 15) { /* a reader would ask for proof */
            gossip_local_end(lab.nodes[2].g, lab_stream, lab.now_us);
        }
        lab_link(&lab, 0, 2);
        for (uint32_t ms = 0; ms < config.judge_ms / 2; ms++) {
            lab_run(&lab, 1);
            prove(0);
        }
        cr_assert_eq(lab_status(&lab, 2).epoch.id, 77);
        cr_assert_eq(lab.nodes[2].resets, resets, "nothing is dropped");
        cr_assert(lab_status(&lab, 2).complete);
        cr_assert(lab_status(&lab, 2).names_known);
        cr_assert_eq(lab_status(&lab, 2).names_pos, lab_status(&lab, 2).pos);
        cr_assert_eq(lab_held(&lab, 2), until - 11);
        teardown();
        setup();
    }
}

Test(gossip_kept, the_state_serves_who_follows_later)
{
    read_apart(15);
    lab.nodes[0].refuses = true; /* it is gone before it could tell its state */
    lab_link(&lab, 0, 2);
    lab_run(&lab, 20);
    lab_stop(&lab, 0);
    lab_link(&lab, 1, 2);
    lab_run(&lab, config.judge_ms / 2);
    cr_assert_eq(lab_status(&lab, 1).epoch.id, 77);
    cr_assert(lab_status(&lab, 1).complete);
    cr_assert(lab_same(&lab, 1, 2));
}

/* Its intake calls the process 500 still, as the names do. */
Test(gossip_kept, the_names_that_a_reading_goes_on_from)
{
    read_apart(15);
    lab_link(&lab, 0, 2);
    lab_run(&lab, 20);
    cr_assert_eq(lab_stats(&lab, 2).resumes, 1);
    gossip_local_resume(lab.nodes[2].g, lab_stream, 500, false, 14, lab.now_us);
    cr_assert(gossip_reads(lab.nodes[2].g, lab_stream));
    lab_stop(&lab, 0);
    read_batches(2, 15, 17);
    lab_run(&lab, 2 * config.judge_ms);
    cr_assert_eq(lab_status(&lab, 2).epoch.id, 77);
    cr_assert_eq(lab_held(&lab, 2), 6);
    cr_assert(lab_status(&lab, 2).complete);
}

/* The other epoch's last batch is none that node 2 read. */
Test(gossip_kept, no_state_of_another_process)
{
    uint64_t room[16] = {0};
    struct event_record *record = (struct event_record *)(void *)room;

    read_apart(14);
    record->seq = 14;
    gossip_local_record(lab.nodes[2].g, lab_stream, record, 0xbad, true,
                        lab.now_us);
    lab_run(&lab, 5);
    gossip_local_end(lab.nodes[2].g, lab_stream, lab.now_us);
    uint32_t resets = lab.nodes[2].resets;
    lab_link(&lab, 0, 2);
    for (uint32_t ms = 0; ms < config.judge_ms / 2; ms++) {
        lab_run(&lab, 1);
        prove(0);
    }
    cr_assert_eq(lab_status(&lab, 2).epoch.id, 77);
    cr_assert_gt(lab.nodes[2].resets, resets);
    cr_assert(lab_same(&lab, 0, 2));
}

/* Node 1 has all of process 77, which it does not read, with names and without a
 * log; node 2 read on in the middle, alone. */
static void
read_on_alone(void)
{
    teardown();
    config.log_records = 4;
    lab_begin(&lab, &config, 3);
    lab_begin_reading(&lab, 0, 77, true);
    for (uint32_t i = 0; i < 20; i++) {
        lab_read_named(&lab, 0, i, i, true);
    }
    lab_run(&lab, 2000);
    lab_stop(&lab, 0);
    lab_stop(&lab, 2);
    lab_start(&lab, 2);
    lab_begin_reading(&lab, 2, 999, false);
    for (uint32_t i = 15; i < 25; i++) {
        lab_read_named(&lab, 2, i, i, true);
    }
    cr_assert_eq(lab_status(&lab, 2).epoch.id, 999);
}

Test(gossip_kept, what_a_peer_has_is_waited_for_while_it_is_on_its_way)
{
    read_on_alone();
    lab.nodes[1].halts = true;
    lab_link(&lab, 1, 2);
    lab_run(&lab, 2 * config.judge_ms + config.judge_ms / 2);
    cr_assert_eq(lab_status(&lab, 2).epoch.id, 77);
    cr_assert_eq(lab_stats(&lab, 2).takeovers, 0);
    lab_run(&lab, 2 * config.judge_ms); /* and not for ever */
    cr_assert_eq(lab_stats(&lab, 2).takeovers, 1);
}

Test(gossip_kept, names_that_come_while_a_takeover_is_read)
{
    read_on_alone();
    lab.nodes[1].halts = true;
    lab_link(&lab, 1, 2);
    while (lab_stats(&lab, 2).takeovers == 0) {
        lab_run(&lab, 1);
    }
    lab.nodes[1].halts = false;
    lab_run(&lab, 2 * config.judge_ms);
    cr_assert_eq(lab_status(&lab, 2).pos, lab_status(&lab, 1).pos);
    cr_assert_eq(lab_stats(&lab, 2).resumes, 0);
    lab_begin_reading(&lab, 2, 999, false); /* as it was asked to */
    cr_assert_eq(lab_status(&lab, 2).epoch.id, 77);
    cr_assert_eq(lab_stats(&lab, 2).resumes, 1);
    gossip_local_resume(lab.nodes[2].g, lab_stream, 77, true, 19, lab.now_us);
    for (uint32_t i = 20; i < 25; i++) {
        lab_read_named(&lab, 2, i, i, true);
    }
    lab_run(&lab, 100);
    for (uint32_t at = 1; at < 3; at++) {
        cr_assert_eq(lab_held(&lab, at), 25);
        cr_assert(lab_status(&lab, at).complete);
    }
}

/* Node 1 has all of process 77 up to 22, which it does not read, and the names of
 * 19; node 2 read on alone, from that batch on. */
static void
read_on_beside_old_names(uint64_t from)
{
    teardown();
    config.log_records = 4;
    lab_begin(&lab, &config, 3);
    lab_begin_reading(&lab, 0, 77, true);
    for (uint32_t i = 0; i < 23; i++) {
        lab_read_named(&lab, 0, i, i, i != 20);
    }
    lab_run(&lab, 2000);
    lab_stop(&lab, 0);
    lab_stop(&lab, 2);
    cr_assert_eq(lab_status(&lab, 1).pos, gossip_pos_after(22));
    cr_assert_eq(lab_status(&lab, 1).names_pos, gossip_pos_after(19));
    lab_start(&lab, 2);
    lab_begin_reading(&lab, 2, 998, false);
    lab_begin_reading(&lab, 2, 999, false);
    for (uint64_t i = from; i < 25; i++) {
        lab_read_named(&lab, 2, i, (uint32_t)i, true);
    }
    lab_link(&lab, 1, 2);
    for (uint32_t ms = 0; ms < config.judge_ms - 100; ms++) {
        lab_run(&lab, 1);
        prove(2);
    }
}

Test(gossip_kept, the_whole_of_a_part_by_names_that_are_old)
{
    read_on_beside_old_names(19);
    cr_assert_eq(lab_status(&lab, 2).epoch.id, 77);
    cr_assert_eq(lab_stats(&lab, 2).resumes, 1);
    gossip_local_resume(lab.nodes[2].g, lab_stream, 77, true, 19, lab.now_us);
    for (uint32_t i = 20; i < 25; i++) {
        lab_read_named(&lab, 2, i, i, true);
    }
    lab_run(&lab, 4 * config.judge_ms);
    for (uint32_t at = 1; at < 3; at++) {
        cr_assert_eq(lab_status(&lab, at).epoch.id, 77);
        cr_assert_eq(lab_held(&lab, at), 25);
        cr_assert(lab_status(&lab, at).complete);
        cr_assert_eq(lab_status(&lab, at).names_pos, gossip_pos_after(24));
    }
}

/* What was read begins behind them: the engine repeats no more. */
Test(gossip_kept, a_part_where_old_names_are_from_before_it)
{
    read_on_beside_old_names(20);
    cr_assert_eq(lab_status(&lab, 2).epoch.id, 999);
    cr_assert_eq(lab_status(&lab, 1).epoch.id, 77, "others may come");
    for (uint32_t ms = 0; ms < 3 * config.judge_ms; ms++) {
        lab_run(&lab, 1);
        prove(2);
    }
    for (uint32_t at = 1; at < 3; at++) {
        cr_assert_eq(lab_status(&lab, at).epoch.id, 999);
        cr_assert_eq(lab_held(&lab, at), 5);
    }
}

/* No later vector tells who has them. */
Test(gossip_kept, names_follow_the_state_at_once)
{
    teardown();
    config.log_records = 4;
    config.vector_ms = 60000;
    lab_begin(&lab, &config, 2);
    lab_unlink(&lab, 0, 1);
    lab_begin_reading(&lab, 0, 77, true);
    for (uint32_t i = 0; i < 20; i++) {
        lab_read_named(&lab, 0, i, i, true);
    }
    lab_link(&lab, 0, 1);
    lab_run(&lab, config.judge_ms / 2);
    cr_assert_eq(lab_stats(&lab, 1).transfers_done, 1);
    cr_assert_eq(lab_status(&lab, 1).pos >> 8, 19);
    cr_assert_eq(lab_status(&lab, 1).names_pos, lab_status(&lab, 1).pos);
    cr_assert_eq(lab_status(&lab, 1).names_count, 20);
}

/* Node 2 has just read all of process 60; node 0 reads one of a higher number. */
static void
stop_reading_before_another_reader(void)
{
    lab_unlink(&lab, 0, 2);
    lab_unlink(&lab, 1, 2);
    lab_begin_reading(&lab, 2, 60, true);
    for (uint32_t i = 0; i < 10; i++) {
        lab_read_named(&lab, 2, i, i, true);
    }
    gossip_local_end(lab.nodes[2].g, lab_stream, lab.now_us);
    lab_begin_reading(&lab, 0, 76, true);
    lab_begin_reading(&lab, 0, 77, true);
    lab_read_named(&lab, 0, 0, 500, true);
    lab_link(&lab, 0, 2);
}

Test(gossip_kept, what_was_just_read_from_a_reader_that_proves_nothing)
{
    stop_reading_before_another_reader();
    uint32_t resets = lab.nodes[2].resets;
    lab_run(&lab, 2 * config.judge_ms);
    cr_assert_eq(lab_status(&lab, 2).epoch.id, 60);
    cr_assert(lab.nodes[0].prove);
    lab_begin_reading(&lab, 0, 60, true); /* its engine had restarted */
    for (uint32_t i = 0; i < 10; i++) {
        lab_read_named(&lab, 0, i, i, true);
    }
    lab_run(&lab, config.judge_ms);
    for (uint32_t at = 0; at < 3; at += 2) {
        cr_assert_eq(lab_status(&lab, at).epoch.id, 60);
        cr_assert_eq(lab_held(&lab, at), 10);
    }
    cr_assert_eq(lab.nodes[2].resets, resets);
}

Test(gossip_kept, nothing_from_a_reader_that_proves_its_process)
{
    stop_reading_before_another_reader();
    for (uint32_t ms = 0; ms < 100; ms++) {
        lab_run(&lab, 1);
        prove(0);
    }
    cr_assert_eq(lab_status(&lab, 2).epoch.id, 77);
    lab_run(&lab, config.judge_ms / 2);
    cr_assert(lab_same(&lab, 0, 2));
    teardown();
    setup();
    stop_reading_before_another_reader(); /* nor for ever without proof */
    lab_run(&lab, 4 * config.judge_ms);
    cr_assert_eq(lab_status(&lab, 2).epoch.id, 77);
}

/* Node 0 takes the epoch's number above that of node 2's part meanwhile. */
Test(gossip_kept, an_epoch_that_others_have_chosen_since)
{
    lab_begin_reading(&lab, 1, 77, true);
    for (uint32_t i = 0; i < 20; i++) {
        lab_read_named(&lab, 1, i, i, true);
    }
    gossip_local_end(lab.nodes[1].g, lab_stream, lab.now_us);
    lab_stop(&lab, 0);
    lab_stop(&lab, 2);
    lab_start(&lab, 0);
    gossip_load(lab.nodes[0].g, lab_stream,
                (struct gossip_epoch){.no = 5, .id = 77}, true,
                gossip_pos_after(19), true);
    lab_start(&lab, 2);
    lab_begin_reading(&lab, 2, 998, false);
    lab_begin_reading(&lab, 2, 999, false);
    lab_read_named(&lab, 2, 30, 30, true);
    lab_link(&lab, 1, 2);
    for (uint32_t ms = 0; ms < 11 * config.judge_ms / 2; ms++) {
        lab_run(&lab, 1);
        prove(2);
        if (ms == 2 * config.judge_ms) {
            lab_link(&lab, 0, 1);
        } else if (ms == 4 * config.judge_ms) {
            cr_assert_eq(lab_status(&lab, 1).epoch.id, 77);
            cr_assert_gt(lab_status(&lab, 2).epoch.no, 5);
        }
    }
    cr_assert_eq(lab_status(&lab, 1).epoch.id, 999, "nobody came");
}

/* Two readers of a part: one knows the name of a block that left, the other one
 * does not, and stops reading. Node 2 reads nothing. */
Test(gossip_kept, of_parts_the_largest_one_comes_to_all)
{
    for (uint32_t larger = 0; larger < 2; larger++) {
        lab_unlink(&lab, 0, 1);
        lab_unlink(&lab, 0, 2);
        for (uint32_t at = 0; at < 2; at++) {
            lab_begin_reading(&lab, at, 500, false);
            for (uint32_t i = 15; i < 20; i++) {
                lab_read(&lab, at, i, EVENT_STORE, i);
            }
            lab_link(&lab, 0, 1 + at);
            lab_run(&lab, config.judge_ms / 2);
        }
        lab_unlink(&lab, 0, 1);
        lab_unlink(&lab, 0, 2);
        for (uint32_t at = 0; at < 2; at++) {
            lab_read(&lab, at, 20, EVENT_REMOVE, at == larger ? 900 : 16);
        }
        lab_run(&lab, config.judge_ms / 2);
        gossip_local_end(lab.nodes[1].g, lab_stream, lab.now_us);
        cr_assert_eq(lab_held(&lab, larger), 5);
        cr_assert_eq(lab_held(&lab, 1 - larger), 4);
        lab_link(&lab, 0, 1);
        lab_link(&lab, 0, 2);
        lab_run(&lab, 3 * config.judge_ms);
        for (uint32_t at = 0; at < 3; at++) {
            cr_assert_eq(lab_held(&lab, at), 5, "%u of %u", at, larger);
        }
        teardown();
        setup();
    }
}

/* Node 1 has the state as of 24, asks node 0 for the names, and has those of 14.
 * The answer is on its way. */
static void
ask_for_newer_names(void)
{
    teardown();
    config.log_records = 4;
    lab_begin(&lab, &config, 2);
    lab_begin_reading(&lab, 0, 77, true);
    for (uint32_t i = 0; i < 25; i++) {
        if (i == 15) {
            lab_run(&lab, 100);
            lab_unlink(&lab, 0, 1);
        }
        lab_read_named(&lab, 0, i, i, true);
    }
    uint64_t asked = lab_stats(&lab, 1).names_asked;
    lab_link(&lab, 0, 1);
    for (uint32_t ms = 0; lab_stats(&lab, 1).names_asked == asked; ms++) {
        cr_assert_lt(ms, config.judge_ms);
        lab_carry(&lab);
        lab.now_us += LAB_MS;
        gossip_tick(lab.nodes[0].g, lab.now_us);
        gossip_tick(lab.nodes[1].g, lab.now_us);
        lab_pull(&lab);
    }
    cr_assert_eq(lab_status(&lab, 1).pos, gossip_pos_after(24));
    cr_assert(!lab_status(&lab, 1).names_known);
    cr_assert_eq(lab_status(&lab, 1).names_kept, gossip_pos_after(14));
}

Test(gossip_kept, the_names_of_before_while_newer_ones_are_asked_for)
{
    ask_for_newer_names();
    lab_begin_reading(&lab, 1, 999, false);
    for (uint32_t i = 12; i < 28; i++) {
        lab_read_named(&lab, 1, i, i, true);
    }
    lab_stop(&lab, 0);
    lab_run(&lab, 10);
    cr_assert_eq(lab_stats(&lab, 1).takeovers, 0);
    cr_assert_eq(lab_stats(&lab, 1).resumes, 1);
    gossip_local_resume(lab.nodes[1].g, lab_stream, 77, true, 14, lab.now_us);
    for (uint32_t i = 15; i < 28; i++) {
        lab_read_named(&lab, 1, i, i, true);
    }
    lab_run(&lab, 2 * config.judge_ms);
    cr_assert_eq(lab_status(&lab, 1).epoch.id, 77);
    cr_assert(lab_status(&lab, 1).complete);
    cr_assert_eq(lab_held(&lab, 1), 28);
    cr_assert_eq(lab_status(&lab, 1).names_pos, gossip_pos_after(27));
}

/* The intake could not go on from those of before. */
Test(gossip_kept, newer_names_that_come_while_a_takeover_is_read)
{
    teardown();
    config.log_records = 4;
    config.question_ms = 60000;
    lab_begin(&lab, &config, 3);
    lab_begin_reading(&lab, 0, 77, true);
    for (uint32_t i = 0; i < 25; i++) {
        if (i == 15) {
            lab_run(&lab, 100);
            lab_unlink(&lab, 0, 1);
            lab.severed[2] = true;
        }
        lab_read_named(&lab, 0, i, i, true);
    }
    gossip_local_end(lab.nodes[0].g, lab_stream, lab.now_us);
    lab_begin_reading(&lab, 1, 999, false);
    cr_assert_eq(lab_stats(&lab, 1).resumes, 1);
    for (uint32_t i = 20; i < 28; i++) {
        lab_read_named(&lab, 1, i, i, true);
    }
    lab_run(&lab, config.judge_ms + config.judge_ms / 2);
    lab.nodes[0].halts = true;
    lab_link(&lab, 0, 1);
    lab_run(&lab, 2 * config.judge_ms + config.judge_ms / 4);
    cr_assert_eq(lab_stats(&lab, 1).takeovers, 0);
    lab_export(&lab, 0);
    lab_carry(&lab);
    cr_assert_eq(lab_status(&lab, 1).pos, gossip_pos_after(24));
    for (uint32_t ms = 0; lab_stats(&lab, 1).takeovers == 0; ms++) {
        cr_assert_lt(ms, config.judge_ms);
        lab.now_us += LAB_MS;
        gossip_tick(lab.nodes[1].g, lab.now_us);
        lab_pull(&lab);
    }
    lab_carry(&lab);
    lab_begin_reading(&lab, 1, 999, false); /* as it was asked to */
    cr_assert_eq(lab_status(&lab, 1).epoch.id, 77);
    cr_assert_eq(lab_status(&lab, 1).names_pos, gossip_pos_after(24));
    cr_assert_eq(lab_stats(&lab, 1).resumes, 2);
}

/* Node 2 asks node 0 for the names of 23, and has those of 19, and a log of
 * eight records. */
Test(gossip_kept, a_lost_state_from_names_while_newer_ones_are_asked_for)
{
    teardown();
    config.log_records = 8;
    lab_begin(&lab, &config, 3);
    lab_begin_reading(&lab, 0, 77, true);
    for (uint32_t i = 0; i < 23; i++) {
        lab_read_named(&lab, 0, i, i, i != 20);
        lab_run(&lab, i < 19 ? 0 : 500);
    }
    cr_assert_eq(lab_status(&lab, 2).names_pos, gossip_pos_after(19));
    lab_stop(&lab, 1);
    gossip_local_resume(lab.nodes[0].g, lab_stream, 77, true, 19, lab.now_us);
    for (uint32_t i = 20; i < 24; i++) {
        lab_read_named(&lab, 0, i, i, true);
    }
    for (uint32_t ms = 0; lab_status(&lab, 2).names_kept == 0; ms++) {
        cr_assert_lt(ms, 2000);
        lab_carry(&lab);
        lab.now_us += LAB_MS;
        gossip_tick(lab.nodes[0].g, lab.now_us);
        gossip_tick(lab.nodes[2].g, lab.now_us);
        lab_pull(&lab); /* the question is on its way */
    }
    cr_assert_eq(lab_status(&lab, 2).names_kept, gossip_pos_after(19));
    lab_lose(&lab);
    lab_stop(&lab, 0);
    uint32_t resets = lab.nodes[2].resets;
    memset(lab.nodes[2].held, 0, sizeof lab.nodes[2].held);
    gossip_local_lost(lab.nodes[2].g, lab_stream, lab.now_us);
    lab_run(&lab, 10);
    cr_assert_eq(lab.nodes[2].resets, resets + 1);
    cr_assert_eq(lab_status(&lab, 2).pos, gossip_pos_after(23));
    cr_assert_eq(lab_held(&lab, 2), 24);
    cr_assert(lab_status(&lab, 2).complete);
    cr_assert_eq(lab_status(&lab, 2).names_pos, gossip_pos_after(19));
}

/* Node 2 had all up to batch 79 by names, and has the first page of node 0's
 * state as of 119, which is two pages. */
static void
have_a_page(void)
{
    teardown();
    config.log_records = 4;
    lab_begin(&lab, &config, 3);
    lab_stop(&lab, 1);
    lab_begin_reading(&lab, 0, 77, true);
    for (uint32_t i = 0; i < 80; i++) {
        lab_read_named(&lab, 0, i, i, true);
    }
    lab_run(&lab, 2000);
    cr_assert_eq(lab_status(&lab, 2).names_pos, gossip_pos_after(79));
    uint64_t pages = lab_stats(&lab, 2).pages_in;
    lab_unlink(&lab, 0, 2);
    for (uint32_t i = 80; i < 120; i++) {
        lab_read_named(&lab, 0, i, i % 80, true);
    }
    lab.nodes[0].halts = true;
    lab_link(&lab, 0, 2);
    lab_run(&lab, 10);
    lab_export(&lab, 0);
    lab_carry(&lab);
    cr_assert_eq(lab_stats(&lab, 2).pages_in, pages + 1);
    cr_assert_lt(lab_held(&lab, 2), 80);
}

/* Node 2 alone, whose engine repeats no more than what came after batch 79. */
static void
go_on_from_names(void)
{
    cr_assert_eq(lab_held(&lab, 2), 80);
    cr_assert(lab_status(&lab, 2).complete);
    cr_assert_eq(lab_status(&lab, 2).pos, gossip_pos_after(79));
    lab_begin_reading(&lab, 2, 999, false);
    cr_assert_eq(lab_stats(&lab, 2).resumes, 1);
    gossip_local_resume(lab.nodes[2].g, lab_stream, 77, true, 79, lab.now_us);
    for (uint32_t i = 80; i < 121; i++) {
        lab_read_named(&lab, 2, i, i, true);
    }
    lab_run(&lab, 2 * config.judge_ms);
    cr_assert_eq(lab_status(&lab, 2).epoch.id, 77);
    cr_assert_eq(lab_held(&lab, 2), 121);
    cr_assert(lab_status(&lab, 2).complete);
}

Test(gossip_kept, what_names_tell_where_a_page_is_all_that_comes)
{
    have_a_page();
    lab_stop(&lab, 0);
    lab_carry(&lab);
    go_on_from_names();
}

Test(gossip_kept, what_names_tell_where_records_after_the_pages_are_missing)
{
    have_a_page();
    lab_read_named(&lab, 0, 120, 120, true);
    lab_export(&lab, 0);
    lab_pull(&lab);
    struct lab_frame frame = lab.frames[lab.frames_count - 1];
    cr_assert_eq(gossip_recv(lab.nodes[2].g, frame.from, frame.bytes, frame.len,
                             lab.now_us),
                 0);
    cr_assert_eq(lab_stats(&lab, 2).transfers_done,
                 lab_stats(&lab, 2).transfers);
    lab_lose(&lab);
    lab_stop(&lab, 0);
    lab_run(&lab, 4 * config.judge_ms);
    go_on_from_names();
}

Test(gossip_kept, what_names_tell_where_a_page_is_lost_again)
{
    have_a_page();
    memset(lab.nodes[2].held, 0, sizeof lab.nodes[2].held);
    gossip_local_lost(lab.nodes[2].g, lab_stream, lab.now_us);
    lab_stop(&lab, 0);
    lab_carry(&lab);
    go_on_from_names();
}

Test(gossip_kept, what_names_tell_where_a_page_is_doubted)
{
    have_a_page();
    gossip_local_doubted(lab.nodes[2].g, lab_stream, lab.now_us);
    lab_stop(&lab, 0);
    lab_carry(&lab);
    go_on_from_names();
}

Test(gossip_kept, what_names_tell_where_pages_are_refused_each_time)
{
    have_a_page();
    uint64_t transfers = lab_stats(&lab, 2).transfers;
    lab.nodes[0].refuses = true;
    lab_export(&lab, 0);
    lab_carry(&lab);
    cr_assert_eq(lab_held(&lab, 2), 80);
    lab_run(&lab, 499);
    cr_assert_eq(lab_stats(&lab, 2).transfers, transfers); /* too dear */
    lab_run(&lab, 600);
    cr_assert_gt(lab_stats(&lab, 2).transfers, transfers);
    cr_assert_eq(lab_held(&lab, 2), 80);
}
