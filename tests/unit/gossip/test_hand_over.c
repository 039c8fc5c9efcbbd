/* Names on their way to a reading that is to go on from them, and what is in doubt
 * meanwhile. */
#include <criterion/criterion.h>

#include "lab.h"

static struct lab lab;
static struct gossip_config config;

static void
read_one(uint32_t at, uint64_t seq, uint32_t key, bool named)
{
    lab_read_named(&lab, at, seq, key, named);
}

/* Node 0 reads batches that store one block each; all three nodes know the names. */
static void
setup(void)
{
    config = gossip_config_default();
    lab_begin(&lab, &config, 3);
    gossip_role(lab.nodes[0].g, lab_stream, 0, 0, lab.now_us);
    lab_begin_reading(&lab, 0, 77, true);
    for (uint32_t i = 0; i < 20; i++) {
        read_one(0, i, i, true);
    }
    lab_run(&lab, 500);
}

static void
teardown(void)
{
    lab_end(&lab);
}

TestSuite(gossip_hand_over, .init = setup, .fini = teardown);

Test(gossip_hand_over, a_node_alone_takes_over_only_if_it_does_not_go_on)
{
    struct gossip *g = lab.nodes[1].g;
    struct gossip_out out;
    uint32_t resumes = 0;

    lab_stop(&lab, 0);
    lab_stop(&lab, 2);
    gossip_local_begin(g, lab_stream, 999, false, 0, lab.now_us);
    gossip_local_live(g, lab_stream, true, lab.now_us);
    for (uint32_t ms = 0; ms < config.judge_ms; ms++) {
        gossip_tick(g, lab.now_us + ms * 1000);
        while (gossip_next_out(g, &out)) {
            cr_assert(out.kind != GOSSIP_REREAD || out.resume, "%u ms", ms);
            resumes += out.kind == GOSSIP_REREAD && out.resume;
        }
    }
    cr_assert_eq(resumes, 1);
    cr_assert_leq(gossip_deadline(g), lab.now_us + config.judge_ms * 1000);
    lab.now_us += config.judge_ms * 1000;
    gossip_tick(g, lab.now_us); /* nothing came of it */
    cr_assert_eq(lab_stats(&lab, 1).takeovers, 1);
}

/* What the reading of before began meanwhile is no answer to the names. */
Test(gossip_hand_over, a_reading_that_begins_by_itself_ends_no_hand_over)
{
    struct gossip *g = lab.nodes[1].g;

    gossip_local_begin(g, lab_stream, 999, false, 0, lab.now_us);
    gossip_local_live(g, lab_stream, true, lab.now_us);
    lab_stop(&lab, 0);
    lab_stop(&lab, 2);
    gossip_local_begin(g, lab_stream, 998, false, 0, lab.now_us);
    lab_run(&lab, config.judge_ms / 2);
    cr_assert_eq(lab_stats(&lab, 1).epochs_minted, 0);
    cr_assert_eq(lab_stats(&lab, 1).takeovers, 0);
    gossip_local_resume(g, lab_stream, 77, true, 19, lab.now_us);
    cr_assert(gossip_reads(g, lab_stream));
    cr_assert_eq(lab_status(&lab, 1).epoch.id, 77);
    cr_assert_eq(lab_held(&lab, 1), 20);
}

/* It had gone on from them already, and the engine was to be read once more. */
Test(gossip_hand_over, what_is_read_again_goes_on_from_them_once_more)
{
    struct gossip *g = lab.nodes[1].g;

    lab_stop(&lab, 0);
    lab_stop(&lab, 2);
    gossip_local_begin(g, lab_stream, 999, false, 0, lab.now_us);
    gossip_local_resume(g, lab_stream, 77, true, 19, lab.now_us);
    gossip_local_live(g, lab_stream, true, lab.now_us);
    gossip_local_doubted(g, lab_stream, lab.now_us);
    lab_pull(&lab);
    cr_assert_eq(lab_stats(&lab, 1).rereads, 1);
    lab_begin_reading(&lab, 1, 998, false); /* the replay is too short */
    lab_run(&lab, config.judge_ms / 2);
    cr_assert_eq(lab_stats(&lab, 1).resumes, 2);
    cr_assert_eq(lab_stats(&lab, 1).takeovers, 0);
    cr_assert_eq(lab_status(&lab, 1).epoch.id, 77);
    cr_assert_eq(lab_held(&lab, 1), 20);
}

/* A peer that is gone said before that it reads on. */
Test(gossip_hand_over, who_is_left_alone_goes_on_before_it_takes_over)
{
    struct gossip *g = lab.nodes[1].g;

    gossip_local_begin(g, lab_stream, 999, false, 0, lab.now_us);
    gossip_local_begin(g, lab_stream, 998, false, 0, lab.now_us);
    gossip_local_live(g, lab_stream, true, lab.now_us);
    read_one(0, 20, 20, true);
    lab_run(&lab, config.judge_ms * 3 / 4);
    cr_assert_eq(lab_stats(&lab, 1).resumes, 1);
    lab_stop(&lab, 0);
    lab_stop(&lab, 2);
    lab_run(&lab, config.judge_ms / 2);
    cr_assert_eq(lab_stats(&lab, 1).resumes, 2, "from a newer batch");
    cr_assert_eq(lab_stats(&lab, 1).takeovers, 0);
    lab_run(&lab, config.judge_ms);
    cr_assert_eq(lab_stats(&lab, 1).takeovers, 1);
}

/* The replay does not reach the names: what begins is another reading. */
static void
fail_to_go_on(uint32_t at, uint64_t process)
{
    struct gossip_names names;

    cr_assert(gossip_names(lab.nodes[at].g, lab_stream, &names));
    gossip_local_resume(lab.nodes[at].g, lab_stream, 77, true, names.seq,
                        lab.now_us);
    lab_begin_reading(&lab, at, process, false);
}

/* The try was too early: the names were old. Nobody has to be gone yet. */
Test(gossip_hand_over, a_level_follower_tries_again_a_few_times)
{
    lab_begin_reading(&lab, 1, 999, false);
    cr_assert_eq(lab_stats(&lab, 1).resumes, 1);
    fail_to_go_on(1, 998);
    for (uint32_t i = 20; i < 30; i++) {
        uint64_t before = lab_stats(&lab, 1).resumes;
        read_one(1, i, i, true);
        read_one(0, i, i, true);
        lab_run(&lab, 50);
        if (lab_stats(&lab, 1).resumes > before) {
            fail_to_go_on(1, 998 - i);
        }
    }
    lab_run(&lab, config.judge_ms / 2);
    cr_assert_eq(lab_stats(&lab, 1).resumes, 4);
    cr_assert_eq(lab_stats(&lab, 1).takeovers, 0);
    cr_assert_eq(lab_status(&lab, 1).epoch.id, 77);
}

/* A copy for the intake takes one part of the table at a time. */
static uint32_t
hand(struct gossip *g, struct names_twin *twin, struct gossip_names *names,
     uint64_t more_from)
{
    uint32_t steps = 1;

    cr_assert(gossip_hand_begin(g, lab_stream, twin));
    while (gossip_hand_step(g, 1, names, lab.now_us) == GOSSIP_E_MORE) {
        if (steps % 4 == 0) {
            read_one(0, more_from + steps, (uint32_t)more_from + steps, true);
            lab_run(&lab, 20);
        }
        steps++;
    }
    return steps;
}

Test(gossip_hand_over, a_copy_in_pieces_is_the_table_at_its_end)
{
    struct gossip *g = lab.nodes[1].g;
    struct gossip_names names;
    struct names_twin twin;
    const char *reason;

    for (uint32_t i = 20; i < 400; i++) {
        read_one(0, i, i, true);
    }
    lab_run(&lab, 500);
    gossip_local_begin(g, lab_stream, 999, false, 0, lab.now_us);
    lab_pull(&lab);
    cr_assert_gt(hand(g, &twin, &names, 400), 100);
    cr_assert_gt(names.seq, 399, "records came meanwhile");
    cr_assert_eq(twin.table.count, names.table->count);
    cr_assert_gt(twin.table.count, 400);
    cr_assert_eq(twin.table.digest, names.table->digest);
    cr_assert(names_check(&twin.table, &reason), "%s", reason);
    cr_assert_eq(twin.table.reader[0], LAB_READER);
    names_clear(&twin.table, &twin.room);
}

Test(gossip_hand_over, a_copy_of_names_that_are_gone_is_lost)
{
    struct gossip *g = lab.nodes[1].g;
    struct gossip_names names;
    struct names_twin twin;

    gossip_local_begin(g, lab_stream, 999, false, 0, lab.now_us);
    lab_pull(&lab);
    cr_assert(gossip_hand_begin(g, lab_stream, &twin));
    cr_assert_eq(gossip_hand_step(g, 1, &names, lab.now_us), GOSSIP_E_MORE);
    lab_begin_reading(&lab, 0, 88, true);
    lab_run(&lab, 3000);
    cr_assert_eq(lab_status(&lab, 1).epoch.id, 88);
    cr_assert_eq(gossip_hand_step(g, 1, &names, lab.now_us), GOSSIP_E_LOST);
    names_clear(&twin.table, &twin.room);
    cr_assert_not(gossip_hand_begin(g, lab_stream, &twin));
}

Test(gossip_hand_over, a_reading_that_found_its_beginning_is_handed_nothing)
{
    struct gossip *g = lab.nodes[1].g;
    struct gossip_names names;
    struct names_twin twin;

    gossip_local_begin(g, lab_stream, 999, false, 0, lab.now_us);
    lab_pull(&lab);
    cr_assert(gossip_hand_begin(g, lab_stream, &twin));
    gossip_local_begin(g, lab_stream, 77, true, 0, lab.now_us);
    lab_pull(&lab);
    cr_assert_eq(gossip_hand_step(g, SIZE_MAX, &names, lab.now_us),
                 GOSSIP_E_LOST);
    names_clear(&twin.table, &twin.room);
}

/* Many streams are handed over one after another. */
Test(gossip_hand_over, a_reading_that_waits_for_its_copy_is_not_judged)
{
    struct gossip *g = lab.nodes[1].g;

    lab_stop(&lab, 0);
    lab_stop(&lab, 2);
    gossip_local_begin(g, lab_stream, 999, false, 0, lab.now_us);
    gossip_local_live(g, lab_stream, true, lab.now_us);
    lab_pull(&lab);
    for (uint32_t i = 0; i < 20; i++) {
        lab.now_us += config.judge_ms * 900;
        gossip_hand_waits(g, lab_stream, lab.now_us);
        gossip_tick(g, lab.now_us);
        lab_pull(&lab);
    }
    cr_assert_eq(lab_stats(&lab, 1).takeovers, 0);
    lab_run(&lab, config.judge_ms + 2);
    cr_assert_eq(lab_stats(&lab, 1).takeovers, 1);
}

Test(gossip_hand_over, a_clock_that_jumps_takes_no_time_from_a_reading)
{
    struct gossip *g = lab.nodes[1].g;

    lab_stop(&lab, 0);
    lab_stop(&lab, 2);
    gossip_local_begin(g, lab_stream, 999, false, 0, lab.now_us);
    gossip_local_live(g, lab_stream, true, lab.now_us);
    lab_run(&lab, 1);
    cr_assert_eq(lab_stats(&lab, 1).resumes, 1);
    lab.now_us += UINT64_C(86400000000);
    lab_run(&lab, config.judge_ms / 2);
    cr_assert_eq(lab_stats(&lab, 1).takeovers, 0);
    lab_run(&lab, config.judge_ms);
    cr_assert_eq(lab_stats(&lab, 1).takeovers, 1);
}

Test(gossip_hand_over,
     a_doubted_state_is_built_from_them_where_the_replay_is_short)
{
    uint32_t resets = lab.nodes[0].resets;

    lab_unlink(&lab, 0, 1);
    lab_unlink(&lab, 0, 2);
    gossip_local_doubted(lab.nodes[0].g, lab_stream, lab.now_us);
    lab_pull(&lab);
    cr_assert_eq(lab.nodes[0].rereads, 1);
    lab_begin_reading(&lab, 0, 999, false); /* the replay is too short */
    cr_assert_eq(lab.nodes[0].resets, resets + 1);
    cr_assert_eq(lab_status(&lab, 0).epoch.id, 77);
    cr_assert(lab_status(&lab, 0).complete);
    cr_assert_eq(lab_held(&lab, 0), 20);
    cr_assert_eq(lab_stats(&lab, 0).resumes, 1);
}

Test(gossip_hand_over, a_doubted_state_that_cannot_be_read_again_is_dropped)
{
    uint32_t resets = lab.nodes[0].resets;

    lab.nodes[1].refuses = true;
    lab.nodes[2].refuses = true;
    gossip_local_doubted(lab.nodes[0].g, lab_stream, lab.now_us);
    lab_run(&lab, 2000);
    cr_assert_eq(lab.nodes[0].rereads, 1);
    lab_begin_reading(&lab, 0, 999, false);
    cr_assert_eq(lab.nodes[0].resets, resets + 1);
    cr_assert_eq(lab_status(&lab, 0).epoch.id, 77);
    cr_assert_eq(lab_held(&lab, 0), 20, "the own log had it all");
}

/* It may be right, and all that is known of the engine. */
Test(gossip_hand_over,
     who_does_not_read_keeps_a_doubted_state_till_another_is_there)
{
    uint32_t resets = lab.nodes[1].resets;

    lab_stop(&lab, 0);
    lab.nodes[2].refuses = true;
    gossip_local_doubted(lab.nodes[1].g, lab_stream, lab.now_us);
    for (uint32_t ms = 0; ms < 2000; ms++) {
        lab_run(&lab, 1);
        cr_assert_eq(lab_status(&lab, 1).pos, gossip_pos_after(19));
        cr_assert(lab_status(&lab, 1).complete);
    }
    cr_assert_eq(lab_stats(&lab, 1).transfers_failed, 1);
    cr_assert_eq(lab.nodes[1].resets, resets + 1, "built from the names");
    cr_assert_eq(lab_held(&lab, 1), 20);
}
