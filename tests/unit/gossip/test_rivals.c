/* Which of two epochs stays: nothing that happens to the mesh makes the fleet
 * know less of a living engine than its best-informed living node. */
#include <criterion/criterion.h>

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
    for (uint32_t node = 0; node < 2; node++) {
        lab_begin_reading(&lab, node, 77, true);
        for (uint32_t i = 0; i < 20; i++) {
            lab_read(&lab, node, i, EVENT_STORE, i);
        }
    }
    lab_run(&lab, 5);
}

static void
teardown(void)
{
    lab_end(&lab);
}

TestSuite(gossip_rivals, .init = setup, .fini = teardown);

/* Node 2 loses the mesh and reads what the engine still repeats. */
static void
part_and_take_over(void)
{
    lab_unlink(&lab, 0, 2);
    lab_unlink(&lab, 1, 2);
    lab_begin_reading(&lab, 2, 500, false);
    lab_read(&lab, 2, 18, EVENT_STORE, 18);
    for (uint32_t i = 20; i < 30; i++) {
        lab_read(&lab, 0, i, EVENT_STORE, i);
        lab_read(&lab, 1, i, EVENT_STORE, i);
        lab_read(&lab, 2, i, EVENT_STORE, i);
    }
    lab_run(&lab, config.judge_ms + 100);
    lab_begin_reading(&lab, 2, 500, false); /* as it was asked to */
    for (uint32_t i = 25; i < 30; i++) {
        lab_read(&lab, 2, i, EVENT_STORE, i);
    }
    lab_run(&lab, 100);
    cr_assert_eq(lab_status(&lab, 2).epoch.id, 500);
    cr_assert_gt(lab_status(&lab, 2).epoch.no, lab_status(&lab, 0).epoch.no);
}

/* An intake answers what it was asked, if it was asked for proof. */
static void
prove(uint32_t node)
{
    if (lab.nodes[node].prove) {
        gossip_local_proved(lab.nodes[node].g, lab_stream, lab.nodes[node].ask,
                            lab.now_us);
    }
}

Test(gossip_rivals, a_partial_reading_of_a_partition_displaces_no_whole_one)
{
    uint32_t resets[2] = {lab.nodes[0].resets, lab.nodes[1].resets};

    part_and_take_over();
    lab_link(&lab, 0, 2);
    lab_link(&lab, 1, 2);
    for (uint32_t ms = 0; ms < 2 * config.judge_ms; ms++) {
        lab_run(&lab, 1);
        prove(0);
        prove(1);
    }
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert_eq(lab_status(&lab, i).epoch.id, 77);
        cr_assert_eq(lab_held(&lab, i), 30);
        cr_assert(lab.nodes[i].complete);
    }
    for (uint32_t i = 0; i < 2; i++) {
        cr_assert_eq(lab.nodes[i].resets, resets[i]);
        cr_assert(lab_status(&lab, i).reads);
    }
}

/* Nodes 0 and 2 read on in the middle of another process, each alone; node 0
 * saw its cache cleared, node 2's epoch has the higher number. */
static void
part_in_the_middle(void)
{
    for (uint32_t a = 0; a < 3; a++) {
        lab_unlink(&lab, a, (a + 1) % 3);
    }
    lab_begin_reading(&lab, 2, 499, false);
    lab_begin_reading(&lab, 2, 500, false);
    lab_begin_reading(&lab, 0, 400, false);
    lab_read(&lab, 0, 100, EVENT_CLEAR, 0);
    for (uint32_t i = 101; i < 110; i++) {
        lab_read(&lab, 0, i, EVENT_STORE, i);
        if (i > 105) {
            lab_read(&lab, 2, i, EVENT_STORE, i);
        }
    }
    cr_assert(lab_status(&lab, 0).complete);
    cr_assert_not(lab_status(&lab, 2).complete);
    cr_assert_gt(lab_status(&lab, 2).epoch.no, lab_status(&lab, 0).epoch.no);
}

Test(gossip_rivals, what_was_complete_since_a_clear_is_displaced_by_no_part)
{
    part_in_the_middle();
    lab_link(&lab, 0, 2);
    lab_link(&lab, 0, 1);
    lab_run(&lab, 10);
    cr_assert_eq(lab_status(&lab, 2).epoch.id, 400); /* at once */
    for (uint32_t ms = 0; ms < 2 * config.judge_ms; ms++) {
        lab_run(&lab, 1);
        prove(0);
    }
    for (uint32_t i = 0; i < 3; i += 2) {
        cr_assert_eq(lab_status(&lab, i).epoch.id, 400);
        cr_assert_eq(lab_held(&lab, i), 9);
        cr_assert(lab_status(&lab, i).complete);
    }
}

Test(gossip_rivals, records_alone_show_who_knows_less)
{
    part_in_the_middle();
    lab_link(&lab, 0, 2);
    lab_lose(&lab); /* the vectors */
    lab_read(&lab, 2, 110, EVENT_STORE, 110);
    lab_run(&lab, config.push_ms + 1);
    cr_assert_eq(lab_status(&lab, 0).epoch.id, 400);
    cr_assert(lab_status(&lab, 0).complete);
}

Test(gossip_rivals, a_whole_replica_that_nobody_reads_is_kept_for_who_reads_on)
{
    part_and_take_over();
    lab_stop(&lab, 0);
    gossip_local_end(lab.nodes[1].g, lab_stream, lab.now_us);
    lab_link(&lab, 1, 2);
    lab_run(&lab, 2 * config.judge_ms);
    for (uint32_t i = 1; i < 3; i++) {
        cr_assert_eq(lab_status(&lab, i).epoch.id, 77);
        cr_assert_eq(lab_held(&lab, i), 30);
    }
}

/* Begins again: node 0 reads process 77 alone, and logs end soon. */
static void
begin_with_a_short_log(void)
{
    lab_end(&lab);
    config.log_records = 20;
    lab_begin(&lab, &config, 3);
    lab_begin_reading(&lab, 0, 77, true);
    for (uint32_t i = 0; i < 20; i++) {
        lab_read(&lab, 0, i, EVENT_STORE, i);
    }
}

/* Node 2's log no longer has what node 0 knows. */
Test(gossip_rivals, fingerprints_reach_back_further_than_the_log)
{
    begin_with_a_short_log();
    lab_unlink(&lab, 0, 2);
    lab_unlink(&lab, 1, 2);
    lab_begin_reading(&lab, 2, 499, false);
    lab_begin_reading(&lab, 2, 500, false);
    for (uint32_t i = 15; i < 115; i++) {
        lab_read(&lab, 2, i, EVENT_STORE, i);
    }
    cr_assert_gt(lab_status(&lab, 2).log_low, lab_status(&lab, 0).pos);
    cr_assert_gt(lab_status(&lab, 2).epoch.no, lab_status(&lab, 0).epoch.no);
    lab_link(&lab, 0, 2);
    lab_run(&lab, 10);
    cr_assert_eq(lab_status(&lab, 2).epoch.id, 77);
}

/* Node 2 has read further than the whole epoch goes. */
static void
expect_that_node_2_reads_on(void)
{
    gossip_role(lab.nodes[1].g, lab_stream, 1, lab.nodes[2].id, lab.now_us);
    gossip_role(lab.nodes[2].g, lab_stream, 0, 0, lab.now_us);
    for (uint32_t i = 30; i < 35; i++) {
        lab_read(&lab, 2, i, EVENT_STORE, i);
    }
    lab_link(&lab, 1, 2);
    for (uint32_t ms = 0; ms < 2 * config.judge_ms; ms++) {
        lab_run(&lab, 1);
        prove(2);
    }
    lab_read(&lab, 2, 35, EVENT_STORE, 35);
    lab_run(&lab, 100);
    for (uint32_t i = 1; i < 3; i++) {
        cr_assert_eq(lab_status(&lab, i).epoch.id, 500);
        cr_assert_eq(lab_status(&lab, i).pos >> 8, 35);
        cr_assert_not(lab.nodes[i].complete);
    }
    cr_assert(lab_same(&lab, 1, 2));
}

Test(gossip_rivals, a_whole_replica_that_nobody_reads_stops_no_reader)
{
    part_and_take_over();
    lab_stop(&lab, 0);
    gossip_local_end(lab.nodes[1].g, lab_stream, lab.now_us);
    expect_that_node_2_reads_on();
}

Test(gossip_rivals, a_whole_reading_that_lost_its_engine_stops_no_reader)
{
    part_and_take_over();
    lab_stop(&lab, 0);
    gossip_local_live(lab.nodes[1].g, lab_stream, false, lab.now_us);
    expect_that_node_2_reads_on();
}

Test(gossip_rivals, other_prints_prove_that_the_whole_epoch_is_dead)
{
    uint64_t room[16] = {0};
    struct event_record *record = (struct event_record *)(void *)room;

    part_and_take_over();
    for (uint32_t i = 0; i < 2; i++) {
        gossip_local_end(lab.nodes[i].g, lab_stream, lab.now_us);
    }
    /* What node 2 reads is another process by now. */
    lab_begin_reading(&lab, 2, 600, false);
    for (uint32_t i = 28; i < 40; i++) {
        record->seq = i;
        gossip_local_record(lab.nodes[2].g, lab_stream, record, 0xbad + i, true,
                            lab.now_us);
    }
    lab_run(&lab, 5);
    lab_link(&lab, 0, 2);
    lab_run(&lab, 5);
    gossip_local_proved(lab.nodes[2].g, lab_stream, lab.nodes[2].ask,
                        lab.now_us);
    lab_run(&lab, 3 * config.judge_ms);
    uint64_t id = lab_status(&lab, 2).epoch.id;
    cr_assert_neq(id, 77);
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert_eq(lab_status(&lab, i).epoch.id, id);
    }
}

Test(gossip_rivals, a_living_reader_proves_itself_and_forgets_nothing)
{
    uint32_t resets = lab.nodes[0].resets;

    lab_unlink(&lab, 0, 2);
    lab_unlink(&lab, 1, 2);
    lab_begin_reading(&lab, 2, 60, true);
    lab_begin_reading(&lab, 2, 61, true); /* dead by now, under a higher no */
    gossip_local_end(lab.nodes[2].g, lab_stream, lab.now_us);
    lab_link(&lab, 0, 2);
    lab_run(&lab, 100);
    cr_assert_eq(lab.nodes[0].rereads, 1);
    cr_assert_eq(lab_held(&lab, 0), 20);
    gossip_local_proved(lab.nodes[0].g, lab_stream, lab.nodes[0].ask,
                        lab.now_us);
    lab_run(&lab, config.judge_ms);
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert_eq(lab_status(&lab, i).epoch.id, 77);
        cr_assert_eq(lab_held(&lab, i), 20);
    }
    cr_assert_eq(lab.nodes[0].resets, resets);
    cr_assert_not(lab_status(&lab, 0).contested);
}

/* What happens meanwhile, if the intakes of these nodes answer. */
static void
run_proving(uint32_t one, uint32_t other, uint64_t ms)
{
    for (uint64_t i = 0; i < ms; i++) {
        lab_run(&lab, 1);
        prove(one);
        prove(other);
    }
}

/* Node 2 reads another process, under a higher number. */
static void
meet_another_reader(void)
{
    lab_unlink(&lab, 0, 2);
    lab_unlink(&lab, 1, 2);
    lab_begin_reading(&lab, 2, 60, true);
    lab_begin_reading(&lab, 2, 61, true);
    lab_link(&lab, 0, 2);
}

Test(gossip_rivals, who_proves_nothing_gives_way_to_proof_alone)
{
    meet_another_reader();
    lab_run(&lab, 19 * config.judge_ms);
    cr_assert_not(lab.nodes[2].prove, "answers are lost");
    lab_run(&lab, 600 * config.judge_ms);
    cr_assert_eq(lab_status(&lab, 0).epoch.id, 77, "nobody proves anything");
    cr_assert_eq(lab_held(&lab, 0), 20);
    run_proving(2, 2, config.judge_ms);
    cr_assert_eq(lab_status(&lab, 0).epoch.id, 61);
}

Test(gossip_rivals, who_was_not_answered_asks_again)
{
    meet_another_reader();
    lab_run(&lab, 19 * config.judge_ms);
    uint64_t asked = lab.nodes[0].ask;
    lab_run(&lab, 3 * config.judge_ms);
    cr_assert_gt(lab.nodes[0].ask, asked);
    run_proving(0, 0, config.judge_ms);
    lab_run(&lab, 20 * config.judge_ms);
    run_proving(0, 0, config.judge_ms);
    cr_assert_eq(lab_status(&lab, 0).epoch.id, 77);
    cr_assert_eq(lab_status(&lab, 2).epoch.id, 77, "it had its time");
}

Test(gossip_rivals, a_proof_of_before_the_question_says_nothing)
{
    meet_another_reader();
    lab_run(&lab, 100);
    gossip_local_proved(lab.nodes[0].g, lab_stream, lab.nodes[0].ask,
                        lab.now_us); /* raises its number */
    lab_run(&lab, 100);
    cr_assert(lab.nodes[2].prove);
    run_proving(2, 2, config.judge_ms); /* ... and node 2 its own */
    lab_run(&lab, 30 * config.judge_ms);
    cr_assert_eq(lab_status(&lab, 0).epoch.id, 77);
    cr_assert_eq(lab_held(&lab, 0), 20);
}

/* Node 2 has an epoch of a higher number, of a process that is dead. */
static void
meet_a_dead_process(void)
{
    lab_unlink(&lab, 0, 2);
    lab_unlink(&lab, 1, 2);
    lab_stop(&lab, 1);
    lab_begin_reading(&lab, 2, 60, true);
    lab_begin_reading(&lab, 2, 61, true);
    gossip_local_end(lab.nodes[2].g, lab_stream, lab.now_us);
    lab_link(&lab, 0, 2);
}

Test(gossip_rivals, who_proves_nothing_keeps_its_epoch_where_nobody_reads)
{
    meet_a_dead_process();
    lab_run(&lab, 600 * config.judge_ms);
    cr_assert_eq(lab_status(&lab, 0).epoch.id, 77, "the engine stands still");
    cr_assert_eq(lab_held(&lab, 0), 20);
    run_proving(0, 0, config.judge_ms);
    cr_assert_eq(lab_status(&lab, 0).epoch.id, 77);
    cr_assert_eq(lab_status(&lab, 2).epoch.id, 77);
}

Test(gossip_rivals, who_stood_still_has_all_its_time_left)
{
    lab_unlink(&lab, 0, 2);
    lab_unlink(&lab, 1, 2);
    lab_begin_reading(&lab, 2, 60, true);
    lab_begin_reading(&lab, 2, 61, true);
    lab_link(&lab, 0, 2);
    lab_run(&lab, 100);
    cr_assert(lab.nodes[0].prove);
    lab.now_us += UINT64_C(600000000);
    lab_run(&lab, 2 * config.judge_ms);
    cr_assert_eq(lab_status(&lab, 0).epoch.id, 77);
    prove(0);
    lab_run(&lab, config.judge_ms);
    cr_assert_eq(lab_status(&lab, 0).epoch.id, 77);
    cr_assert_eq(lab_held(&lab, 0), 20);
}

/* Two readers prove two processes in turns. */
Test(gossip_rivals, each_question_for_a_proof_has_its_own_time)
{
    uint32_t resets = lab.nodes[0].resets;

    lab_unlink(&lab, 0, 2);
    lab_unlink(&lab, 1, 2);
    lab_begin_reading(&lab, 2, 60, true);
    lab_begin_reading(&lab, 2, 61, true);
    lab_link(&lab, 0, 2);
    lab_run(&lab, config.judge_ms / 2);
    prove(0);
    lab_run(&lab, config.judge_ms * 3 / 4);
    uint64_t asked = lab.nodes[0].ask;
    prove(2);
    lab_run(&lab, config.judge_ms / 2);
    cr_assert_gt(lab.nodes[0].ask, asked);
    cr_assert_eq(lab_status(&lab, 0).epoch.id, 77, "it is asked anew");
    prove(0);
    lab_run(&lab, config.judge_ms / 2);
    cr_assert_eq(lab_status(&lab, 0).epoch.id, 77);
    cr_assert_eq(lab.nodes[0].resets, resets);
}

Test(gossip_rivals, only_a_proof_that_was_asked_for_counts)
{
    struct gossip *g = lab.nodes[0].g;

    lab_unlink(&lab, 0, 2);
    lab_unlink(&lab, 1, 2);
    lab_begin_reading(&lab, 2, 60, true);
    lab_begin_reading(&lab, 2, 61, true);
    lab_link(&lab, 0, 2);
    lab_run(&lab, 100);
    cr_assert(lab.nodes[0].prove);
    gossip_local_proved(g, lab_stream, lab.nodes[0].ask - 1, lab.now_us);
    gossip_local_proved(g, (struct event_stream){.worker = 999},
                        lab.nodes[0].ask, lab.now_us);
    lab_run(&lab, 21 * config.judge_ms);
    run_proving(2, 2, config.judge_ms);
    cr_assert_eq(lab_status(&lab, 0).epoch.id, 61);
}

Test(gossip_rivals, a_proof_is_no_answer_to_another_question)
{
    struct gossip *g = lab.nodes[0].g;

    lab_unlink(&lab, 0, 1);
    lab_unlink(&lab, 0, 2);
    gossip_local_lost(g, lab_stream, lab.now_us);
    lab_pull(&lab);
    uint32_t resets = lab.nodes[0].resets;
    cr_assert_eq(lab.nodes[0].rereads, 1);
    cr_assert_not(lab.nodes[0].prove);
    gossip_local_gap(g, lab_stream, lab.now_us);
    gossip_local_proved(g, lab_stream, lab.nodes[0].ask, lab.now_us);
    lab_begin_reading(&lab, 0, 77, true); /* the answer: what was is gone */
    lab_pull(&lab);
    cr_assert_eq(lab.nodes[0].resets, resets + 1);
}

Test(gossip_rivals, a_contested_stream_asks_for_proof_too)
{
    for (uint64_t i = 0; i < 5; i++) {
        lab_begin_reading(&lab, 0, 100 + i, true);
        lab_read(&lab, 0, 0, EVENT_STORE, 1);
    }
    cr_assert(lab_status(&lab, 0).contested);
    lab_run(&lab, 5);
    meet_a_dead_process();
    lab_run(&lab, 100);
    cr_assert_eq(lab_status(&lab, 0).epoch.id, 104);
    for (uint32_t ms = 0; ms < 2 * config.judge_ms; ms++) {
        lab_run(&lab, 1);
        prove(0);
    }
    cr_assert_eq(lab_status(&lab, 0).epoch.id, 104);
    cr_assert_eq(lab_status(&lab, 2).epoch.id, 104);
}

Test(gossip_rivals, a_broken_connection_follows_no_number_at_once)
{
    gossip_local_live(lab.nodes[0].g, lab_stream, false, lab.now_us);
    meet_a_dead_process();
    lab_run(&lab, 5 * config.judge_ms);
    cr_assert_eq(lab_status(&lab, 0).epoch.id, 77);
    cr_assert_eq(lab_held(&lab, 0), 20);
    gossip_local_live(lab.nodes[0].g, lab_stream, true, lab.now_us);
    prove(0);
    lab_run(&lab, config.judge_ms);
    cr_assert_eq(lab_status(&lab, 2).epoch.id, 77);
}

Test(gossip_rivals, a_broken_connection_follows_who_reads)
{
    gossip_local_live(lab.nodes[0].g, lab_stream, false, lab.now_us);
    lab_unlink(&lab, 0, 2);
    lab_unlink(&lab, 1, 2);
    lab_stop(&lab, 1);
    lab_begin_reading(&lab, 2, 60, true);
    lab_begin_reading(&lab, 2, 61, true);
    lab_link(&lab, 0, 2);
    lab_run(&lab, 10 * config.judge_ms);
    cr_assert_eq(lab_status(&lab, 0).epoch.id, 77, "it may be dead");
    run_proving(2, 2, 2 * config.judge_ms);
    cr_assert_eq(lab_status(&lab, 0).epoch.id, 61);
}

/* Node 0 is not answered, but keeps up with a part of the same process. */
Test(gossip_rivals, what_proves_a_part_proves_all_of_the_same_process)
{
    part_and_take_over();
    lab_stop(&lab, 1);
    lab_link(&lab, 0, 2);
    lab.severed[0] = true; /* nobody hears it */
    for (uint32_t i = 30; i < 230; i++) {
        lab_read(&lab, 0, i, EVENT_STORE, i);
        lab_read(&lab, 2, i, EVENT_STORE, i);
        run_proving(2, 2, config.judge_ms / 4);
    }
    cr_assert_eq(lab_status(&lab, 0).epoch.id, 77);
    cr_assert_eq(lab_held(&lab, 0), 230);
}

Test(gossip_rivals, of_two_epochs_of_one_process_the_further_one_stays)
{
    part_and_take_over();
    gossip_local_end(lab.nodes[2].g, lab_stream, lab.now_us);
    lab_begin_reading(&lab, 2, 501, false);
    lab_read(&lab, 2, 10, EVENT_CLEAR, 0);
    for (uint32_t i = 11; i < 15; i++) {
        lab_read(&lab, 2, i, EVENT_STORE, i);
    }
    lab_run(&lab, 5);
    cr_assert(lab_status(&lab, 2).complete);
    for (uint32_t i = 0; i < 3; i++) {
        gossip_local_end(lab.nodes[i].g, lab_stream, lab.now_us);
    }
    lab_stop(&lab, 0);
    lab_link(&lab, 1, 2);
    lab_run(&lab, config.judge_ms);
    for (uint32_t i = 1; i < 3; i++) {
        cr_assert_eq(lab_status(&lab, i).epoch.id, 77);
        cr_assert_eq(lab_held(&lab, i), 30);
    }
}

/* Nodes 0 and 2 each read on in the middle of one process; node 0 has read more
 * of it, node 2's epoch has the higher number. */
static void
part_twice_in_the_middle(uint64_t last)
{
    for (uint32_t a = 0; a < 3; a++) {
        lab_unlink(&lab, a, (a + 1) % 3);
    }
    lab_begin_reading(&lab, 0, 400, false);
    lab_begin_reading(&lab, 2, 499, false);
    lab_begin_reading(&lab, 2, 500, false);
    for (uint32_t i = 100; i < 110; i++) {
        lab_read(&lab, 0, i, EVENT_STORE, i);
    }
    for (uint32_t i = 106; i <= last; i++) {
        lab_read(&lab, 2, i, EVENT_STORE, i);
    }
    cr_assert_not(lab_status(&lab, 0).complete || lab_status(&lab, 2).complete);
    cr_assert_gt(lab_status(&lab, 2).epoch.no, lab_status(&lab, 0).epoch.no);
}

Test(gossip_rivals, of_two_parts_of_one_process_the_larger_one_stays)
{
    for (uint64_t last = 108; last < 111; last++) { /* as far as node 0: 109 */
        part_twice_in_the_middle(last);
        uint32_t resets = lab.nodes[0].resets;
        lab_link(&lab, 0, 2);
        lab_run(&lab, 10);
        if (last != 109) { /* a moment later */
            lab_read(&lab, last < 109 ? 2 : 0, last < 109 ? 109 : 110,
                     EVENT_STORE, last < 109 ? 109 : 110);
        }
        lab_run(&lab, 2 * config.judge_ms);
        for (uint32_t i = 0; i < 3; i += 2) {
            cr_assert_eq(lab_status(&lab, i).epoch.id, 400, "to %lu", last);
            cr_assert_eq(lab_held(&lab, i), last > 109 ? 11 : 10);
        }
        cr_assert_eq(lab.nodes[0].resets, resets);
        teardown();
        setup();
    }
}

Test(gossip_rivals, the_larger_part_is_kept_for_who_reads_on)
{
    part_twice_in_the_middle(109);
    gossip_local_end(lab.nodes[0].g, lab_stream, lab.now_us);
    lab_link(&lab, 0, 2);
    lab_run(&lab, 2 * config.judge_ms);
    for (uint32_t i = 0; i < 3; i += 2) {
        cr_assert_eq(lab_status(&lab, i).epoch.id, 400);
        cr_assert_eq(lab_held(&lab, i), 10);
    }
}

Test(gossip_rivals, the_larger_part_is_kept_whatever_records_come)
{
    part_twice_in_the_middle(108);
    gossip_local_end(lab.nodes[0].g, lab_stream, lab.now_us);
    gossip_role(lab.nodes[2].g, lab_stream, 0, 0, lab.now_us); /* it pushes */
    lab_link(&lab, 0, 2);
    lab_run(&lab, config.judge_ms * 3 / 4);
    lab_read(&lab, 2, 109, EVENT_STORE, 109);
    lab_run(&lab, config.judge_ms);
    for (uint32_t i = 0; i < 3; i += 2) {
        cr_assert_eq(lab_status(&lab, i).epoch.id, 400);
        cr_assert_eq(lab_held(&lab, i), 10);
    }
}

Test(gossip_rivals,
     the_larger_part_is_not_kept_for_ever_where_epochs_take_turns)
{
    part_twice_in_the_middle(108);
    lab_begin_reading(&lab, 1, 600, false);
    lab_begin_reading(&lab, 1, 601, false);
    for (uint32_t i = 106; i < 109; i++) {
        lab_read(&lab, 1, i, EVENT_STORE, i);
    }
    gossip_local_end(lab.nodes[0].g, lab_stream, lab.now_us);
    lab_link(&lab, 0, 1);
    lab_link(&lab, 0, 2);
    lab_run(&lab, 3 * config.judge_ms);
    cr_assert_eq(lab_status(&lab, 0).epoch.id, 400);
    lab_run(&lab, 5 * config.judge_ms);
    cr_assert_neq(lab_status(&lab, 0).epoch.id, 400);
}

Test(gossip_rivals, the_smaller_part_is_kept_for_nobody)
{
    part_twice_in_the_middle(109);
    for (uint64_t i = 110; i < 130; i++) {
        lab_read(&lab, 2, i, EVENT_STORE, (uint32_t)i);
    }
    gossip_local_end(lab.nodes[0].g, lab_stream, lab.now_us);
    lab_link(&lab, 0, 2);
    lab_run(&lab, 2 * config.judge_ms);
    for (uint32_t i = 0; i < 3; i += 2) {
        cr_assert_eq(lab_status(&lab, i).epoch.id, 500);
        cr_assert_eq(lab_held(&lab, i), 24);
    }
}

/* Node 2 reads another process than node 0, and not from its start. */
static void
part_of_two_processes(void)
{
    uint64_t room[16] = {0};
    struct event_record *record = (struct event_record *)(void *)room;

    part_twice_in_the_middle(105);
    for (uint32_t i = 106; i < 109; i++) {
        record->seq = i;
        gossip_local_record(lab.nodes[2].g, lab_stream, record, 0xbad + i, true,
                            lab.now_us);
    }
    lab_link(&lab, 0, 2);
}

Test(gossip_rivals, of_parts_of_two_processes_the_one_that_lives_stays)
{
    const uint64_t ids[3] = {400, 0, 500};

    for (uint32_t lives = 0; lives < 3; lives += 2) {
        part_of_two_processes();
        uint32_t resets = lab.nodes[lives].resets;
        run_proving(lives, lives, 25 * config.judge_ms);
        for (uint32_t i = 0; i < 3; i += 2) {
            cr_assert_eq(lab_status(&lab, i).epoch.id, ids[lives]);
        }
        cr_assert_eq(lab.nodes[lives].resets, resets);
        teardown();
        setup();
    }
}

Test(gossip_rivals, of_parts_of_two_processes_none_goes_without_proof)
{
    part_of_two_processes();
    lab_run(&lab, 400 * config.judge_ms);
    cr_assert_eq(lab_status(&lab, 0).epoch.id, 400);
    cr_assert_eq(lab_held(&lab, 0), 10);
    cr_assert_eq(lab_status(&lab, 2).epoch.id, 500);
}

Test(gossip_rivals, a_part_that_nothing_compares_with_proves_itself)
{
    part_twice_in_the_middle(130);
    lab_begin_reading(&lab, 2, 501, false);
    lab_read(&lab, 2, 131, EVENT_STORE, 131);
    lab_link(&lab, 0, 2);
    run_proving(0, 0, 25 * config.judge_ms);
    for (uint32_t i = 0; i < 3; i += 2) {
        cr_assert_eq(lab_status(&lab, i).epoch.id, 400);
    }
}

/* Node 2 reads nothing and has all of epoch 77. Node 0 goes on alone in an epoch of
 * its own, complete since a CLEAR that its log no longer has, and shows it to node
 * 2, with no page yet. */
static void
show_another_complete_epoch(void)
{
    begin_with_a_short_log();
    lab_stop(&lab, 1);
    lab_run(&lab, 10);
    lab_unlink(&lab, 0, 2);
    lab_begin_reading(&lab, 0, 400, false);
    lab_read(&lab, 0, 100, EVENT_CLEAR, 0);
    for (uint32_t i = 101; i < 131; i++) {
        lab_read(&lab, 0, i, EVENT_STORE, i);
    }
    cr_assert(lab_status(&lab, 0).complete);
    lab.nodes[0].halts = true;
    lab_link(&lab, 0, 2);
    lab_run(&lab, 10);
    cr_assert_eq(lab_status(&lab, 2).epoch.id, 77);
    cr_assert_eq(lab_held(&lab, 2), 20);
    cr_assert(lab.nodes[2].complete);
}

Test(gossip_rivals, a_state_is_kept_until_the_other_one_is_there)
{
    show_another_complete_epoch();
    lab_export(&lab, 0);
    lab_carry(&lab);
    cr_assert_eq(lab_status(&lab, 2).epoch.id, 400);
    cr_assert_eq(lab_held(&lab, 2), 30);
    cr_assert(lab.nodes[2].complete);
    cr_assert(lab_same(&lab, 0, 2));
}

Test(gossip_rivals, who_dies_before_its_state_is_there_takes_nothing_with_it)
{
    show_another_complete_epoch();
    lab_stop(&lab, 0);
    lab_run(&lab, 10 * config.judge_ms);
    cr_assert_eq(lab_status(&lab, 2).epoch.id, 77);
    cr_assert_eq(lab_held(&lab, 2), 20);
    cr_assert(lab.nodes[2].complete);
}

Test(gossip_rivals, a_state_that_does_not_come_is_not_waited_for_for_ever)
{
    show_another_complete_epoch();
    lab_run(&lab, 10 * config.judge_ms);
    cr_assert_eq(lab_status(&lab, 2).epoch.id, 400);
    cr_assert_eq(lab_held(&lab, 2), 0);
    lab.nodes[0].halts = false;
    lab_export(&lab, 0);
    lab_run(&lab, 10 * config.judge_ms);
    cr_assert(lab_same(&lab, 0, 2));
}

Test(gossip_rivals, records_from_the_first_on_are_as_good_as_the_state)
{
    lab_stop(&lab, 1);
    lab_unlink(&lab, 0, 2);
    lab_begin_reading(&lab, 0, 400, false);
    lab_read(&lab, 0, 100, EVENT_CLEAR, 0);
    lab_read(&lab, 0, 101, EVENT_STORE, 101);
    lab.nodes[0].halts = true; /* no page comes */
    lab_link(&lab, 0, 2);
    lab_pull(&lab);
    cr_assert_eq(lab_held(&lab, 2), 20);
    lab_run(&lab, 10);
    cr_assert_eq(lab_status(&lab, 2).epoch.id, 400);
    cr_assert(lab_same(&lab, 0, 2));
}
