#include "kv_stream_rig.h"

static void
with_replay(void)
{
    rig_start(true);
}

TestSuite(node_kv_stream_replay, .init = with_replay, .fini = rig_stop);

Test(node_kv_stream_replay, holes_are_asked_for_again_from_the_first_one_on)
{
    rig_connect();
    rig_reply('a', 0);
    rig_reply('a', 1);
    rig_reply('a', 4);
    rig_reply('a', 5);
    rig_reply('a', 9);
    rig_end();
    rig_has('a', 0, 1);
    cr_assert_eq(rig.state, KV_STREAM_STALE);
    rig_wait_ask();
    cr_assert_eq(rig.asked, 1);
    rig_reply('a', 1);
    rig_reply('a', 2);
    rig_reply('a', 3); /* 4 and 5 are held from the first round */
    rig_has('a', 0, 5);
    rig_reply('a', 6);
    rig_end();
    rig_answer('a', 0, 9);
    rig_has('a', 0, 9);
    cr_assert_eq(rig.state, KV_STREAM_LIVE);
    cr_assert_eq(rig_count(&rig.counters.replay_incomplete), 0);
}

Test(node_kv_stream_replay, a_hole_that_three_answers_agree_on_is_permanent)
{
    rig_connect();
    for (int round = 0; round < 4; round++) {
        cr_assert_neq(rig.state, KV_STREAM_PARTIAL);
        rig_wait_ask();
        for (uint64_t seq = rig.asked; seq < 6; seq++) {
            if (seq != 2 && seq != 4) {
                rig_reply('a', seq);
            }
        }
        rig_end();
    }
    cr_assert_eq(rig.state, KV_STREAM_PARTIAL);
    cr_assert_eq(rig.applied_count, 4);
    cr_assert_str_eq(rig.applied[2], "a/3");
    cr_assert_str_eq(rig.applied[3], "a/5");
    cr_assert_eq(rig_count(&rig.counters.replay_incomplete), 1);
    rig_live('a', 5);
    rig_live('a', 6);
    cr_assert_eq(rig.applied_count, 5);
    cr_assert_eq(rig.state, KV_STREAM_PARTIAL);
}

Test(node_kv_stream_replay, a_hole_is_permanent_also_while_the_engine_works)
{
    rig_connect();
    for (uint64_t round = 0; round < 4; round++) {
        cr_assert_neq(rig.state, KV_STREAM_PARTIAL);
        rig_wait_ask();
        for (uint64_t seq = rig.asked; seq < 6 + 10 * round; seq++) {
            if (seq != 2) {
                rig_reply('a', seq); /* ten more than the last time */
            }
        }
        rig_end();
    }
    cr_assert_eq(rig.state, KV_STREAM_PARTIAL);
    cr_assert_str_eq(rig.applied[2], "a/3");
    cr_assert_eq(rig.applied_count, 35);
}

Test(node_kv_stream_replay, a_hole_that_closes_little_by_little_is_waited_for)
{
    rig_connect();
    for (uint64_t round = 0; round < 8; round++) {
        rig_wait_ask();
        for (uint64_t seq = rig.asked; seq < 2; seq++) {
            rig_reply('a', seq);
        }
        rig_reply('a', 10 - round); /* each answer has another one */
        rig_end();
        cr_assert_eq(rig.state, KV_STREAM_STALE);
        cr_assert_eq(kv_stream_ahead(rig.stream), 10);
    }
    rig_wait_ask();
    rig_answer('a', 1, 10);
    cr_assert_eq(kv_stream_ahead(rig.stream), 0);
    rig_has('a', 0, 10);
    cr_assert_eq(rig.state, KV_STREAM_LIVE);
    cr_assert_eq(rig_count(&rig.counters.replay_incomplete), 0);
}

Test(node_kv_stream_replay, a_lost_end_marker_costs_one_more_round)
{
    rig_connect();
    for (uint64_t seq = 0; seq < 5; seq++) {
        rig_reply('a', seq);
    }
    cr_assert_eq(rig.state, KV_STREAM_READING);
    rig_wait(SILENCE_MS * MS);
    cr_assert_eq(rig.asks, 2);
    cr_assert_eq(rig.asked, 4);
    rig_answer('a', 0, 4);
    rig_has('a', 0, 4);
    cr_assert_eq(rig.state, KV_STREAM_LIVE);
}

Test(node_kv_stream_replay, a_slow_answer_is_waited_for)
{
    rig_connect();
    for (uint64_t seq = 0; seq < 10; seq++) {
        rig_wait(SILENCE_MS * MS - 1);
        rig_reply('a', seq);
    }
    rig_end();
    cr_assert_eq(rig.asks, 1);
    rig_has('a', 0, 9);
}

Test(node_kv_stream_replay, history_that_is_gone_leaves_a_partial_stream)
{
    rig_connect();
    rig_answer('a', 40, 50);
    rig_has('a', 40, 50);
    cr_assert_eq(rig.state, KV_STREAM_PARTIAL);
    cr_assert_eq(rig.resets, 1);
}

Test(node_kv_stream_replay, a_buffer_that_rolled_past_us_begins_a_partial_epoch)
{
    rig_settle(4);
    rig_live('a', 60);
    rig_answer('a', 40, 60);
    rig_has('a', 40, 60);
    cr_assert_str_eq(rig.reason, "history is gone");
    cr_assert_eq(rig.state, KV_STREAM_PARTIAL);
    rig_live('a', 61);
    rig_has('a', 40, 61);
}

Test(node_kv_stream_replay, a_rolled_buffer_proves_nothing_of_a_new_connection)
{
    rig_settle(4);
    rig_disconnect();
    rig_connect();
    rig_wait_ask();
    rig_reply('a', 8);
    rig_live('b', 9);
    rig_has('a', 8, 8);
}

Test(node_kv_stream_replay, the_end_of_no_replay_says_nothing)
{
    rig_settle(4);
    cr_assert_not(rig.asking);
    kv_stream_replay_end(rig.stream, rig.now_us);
    rig_pull();
    rig_has('a', 0, 4);
    cr_assert_eq(rig.resets, 1);
    cr_assert_eq(rig.state, KV_STREAM_LIVE);
}

Test(node_kv_stream_replay, another_print_under_the_last_seq_is_a_restart)
{
    rig_settle(4);
    rig_wait(PROBE_MS * MS);
    rig_reply('b', 4);
    cr_assert_eq(rig.state, KV_STREAM_STALE);
    rig_wait_ask();
    cr_assert_eq(rig.asked, 0);
    rig_answer('b', 0, 6);
    rig_has('b', 0, 6);
    cr_assert_eq(rig.resets, 2);
    cr_assert_eq(rig.state, KV_STREAM_LIVE);
    cr_assert_eq(rig_count(&rig.counters.restarts), 1);
}

Test(node_kv_stream_replay, a_doubt_that_proves_wrong_costs_nothing)
{
    rig_settle(4);
    rig_live('b', 2); /* a stray of another process */
    cr_assert_eq(rig.state, KV_STREAM_STALE);
    rig_answer('a', 0, 4);
    rig_has('a', 0, 4);
    cr_assert_eq(rig.resets, 1);
    cr_assert_eq(rig.state, KV_STREAM_LIVE);
}

Test(node_kv_stream_replay, requests_keep_their_distance)
{
    rig_settle(4);
    for (uint64_t seq = 6; seq < 60; seq += 2) {
        uint64_t before_us = rig.asked_us;
        rig_live('a', seq);
        rig_answer('a', 0, seq);
        cr_assert_geq(rig.asked_us, before_us + RETRY_MS * MS);
    }
}

Test(node_kv_stream_replay, where_nobody_answers_live_messages_are_all_there_is)
{
    rig_connect();
    rig_live_run('a', 5, 7);
    rig_wait(ROUNDS * (SILENCE_MS + RETRY_MS) * MS);
    rig_has('a', 5, 7);
    cr_assert_eq(rig.state, KV_STREAM_PARTIAL);
    cr_assert_eq(rig_count(&rig.counters.replay_incomplete), 1);
    rig_live('a', 8);
    rig_has('a', 5, 8);
    rig_live('a', 11);
    rig_has('a', 11, 11);
}

Test(node_kv_stream_replay, where_nobody_answers_a_new_connection_begins_anew)
{
    rig_settle(4);
    rig_disconnect();
    rig_connect();
    rig_live('b', 9);
    rig_wait(ROUNDS * (SILENCE_MS + RETRY_MS) * MS);
    rig_has('b', 9, 9);
    cr_assert_eq(rig.resets, 2);
    cr_assert_str_eq(rig.reason, "reconnected");
}

Test(node_kv_stream_replay, what_a_silent_replay_had_answered_is_dropped)
{
    rig_settle(4);
    rig_live('a', 8);
    rig_wait_ask();
    rig_reply('a', 4);
    rig_reply('a', 6); /* 5 is missing, and then there is silence */
    rig_end();
    rig_wait((ROUNDS + 1) * (SILENCE_MS + RETRY_MS) * MS);
    cr_assert_eq(rig.gaps, 1);
    cr_assert_eq(rig.applied_count, 6);
    cr_assert_str_eq(rig.applied[5], "a/8");
    cr_assert_eq(rig.state, KV_STREAM_PARTIAL);
}

Test(node_kv_stream_replay, that_never_answers_begins_nothing)
{
    rig_connect();
    rig_wait((ROUNDS + 1) * (SILENCE_MS + RETRY_MS) * MS);
    cr_assert_eq(rig.resets, 0);
    cr_assert_eq(rig.state, KV_STREAM_PARTIAL);
}

Test(node_kv_stream_replay, holes_of_a_process_before_do_not_count)
{
    rig_settle(4);
    rig_live('a', 50);
    rig_wait_ask();
    rig_reply('a', 4);
    rig_reply('a', 49); /* held, up to here */
    rig_end();
    rig_disconnect();
    rig_connect(); /* to another process, whose replay has a hole */
    for (uint32_t n = 0; n < 6 && rig.gaps == 0; n++) {
        rig_wait_ask();
        uint32_t asks = rig.asks;
        for (uint64_t seq = rig.asked; seq <= 12 + n; seq++) {
            if (seq != 9 && rig.asking && rig.asks == asks) {
                rig_reply('b', seq);
            }
        }
        if (rig.asking && rig.asks == asks) {
            rig_end();
        }
    }
    cr_assert_eq(rig.gaps, 1);
}

Test(node_kv_stream_replay, that_answers_again_is_used_again)
{
    rig_connect();
    rig_live_run('a', 5, 7);
    rig_wait(ROUNDS * (SILENCE_MS + RETRY_MS) * MS);
    cr_assert_not(rig.asking);
    rig_wait_ask();
    rig_answer('a', 0, 7);
    rig_answer('a', 0, 7);
    rig_has('a', 0, 7);
    rig_answer('a', 0, 7); /* proves the connection */
    rig_live('a', 7);
    rig_live('a', 8);
    rig_has('a', 0, 8);
    cr_assert_eq(rig.state, KV_STREAM_LIVE);
}

Test(node_kv_stream_replay, silence_does_not_cost_a_linked_stream_its_state)
{
    rig_settle(4);
    rig_wait(20 * SILENCE_MS * MS);
    cr_assert_eq(rig.state, KV_STREAM_LIVE);
    rig_live('a', 5);
    rig_has('a', 0, 5);
    cr_assert_eq(rig.resets, 1);
}

Test(node_kv_stream_replay, what_is_held_is_bounded_in_bytes_and_read_again)
{
    rig_stop();
    rig_start(true);
    kv_stream_free(rig.stream);
    rig.config.pending_bytes_max = 400;
    cr_assert_eq(
        kv_stream_new(&rig.stream, &rig.config, &rig.counters, rig.now_us, 1),
        0);
    rig_connect();
    rig_live_run('a', 5, 200);
    cr_assert_gt(rig_count(&rig.counters.pending_dropped), 0);
    rig_answer('a', 0, 50);
    cr_assert_eq(rig.state, KV_STREAM_LIVE);
    rig_live('a', 201);
    rig_answer('a', 0, 201);
    rig_has('a', 0, 201);
    cr_assert_eq(rig.state, KV_STREAM_LIVE);
}

Test(node_kv_stream_replay,
     live_messages_that_contradict_the_replay_are_dropped)
{
    rig_settle(4);
    rig_disconnect();
    rig_connect();
    rig_live_run('b', 5, 8); /* what an old connection still had */
    rig_answer('a', 0, 6);
    rig_has('a', 0, 6);
    cr_assert_eq(rig.state, KV_STREAM_LIVE);
    rig_wait(2 * RETRY_MS * MS);
    cr_assert_not(rig.asking, "nothing is left to be proved");
}

Test(node_kv_stream_replay, live_messages_that_no_replay_knows_are_given_up)
{
    rig_settle(4);
    rig_disconnect();
    rig_connect();
    rig_answer('a', 0, 4);
    rig_live_run('b', 5, 8);
    for (int round = 0; round < 3; round++) {
        cr_assert_eq(rig_count(&rig.counters.pending_dropped), 0);
        rig_answer('a', 0, 4);
    }
    rig_has('a', 0, 4);
    cr_assert_eq(rig.state, KV_STREAM_STALE);
    cr_assert_eq(rig_count(&rig.counters.pending_dropped), 4);
    rig_wait(PROBE_MS * MS);
    rig_answer('a', 0, 9);
    rig_has('a', 0, 9);
    cr_assert_eq(rig.state, KV_STREAM_LIVE);
}

Test(node_kv_stream_replay, a_seq_that_was_never_published_is_jumped_over)
{
    rig_settle(4);
    rig_live_run('a', 6, 7);
    for (int round = 0; round < 4 && rig.state == KV_STREAM_STALE; round++) {
        rig_wait_ask();
        rig_reply('a', 4);
        rig_reply('a', 6);
        rig_reply('a', 7);
        rig_end();
    }
    cr_assert_eq(rig.applied_count, 7);
    cr_assert_eq(kv_stream_next_seq(rig.stream), 8);
    cr_assert_eq(rig.state, KV_STREAM_PARTIAL);
    rig_live('a', 8);
    cr_assert_eq(rig.applied_count, 8);
}

Test(node_kv_stream_replay, a_connection_that_breaks_ends_the_replay)
{
    rig_connect();
    rig_reply('a', 0);
    rig_disconnect();
    cr_assert_not(rig.asking);
    cr_assert_eq(kv_stream_deadline(rig.stream), UINT64_MAX);
    rig_connect();
    rig_answer('a', 0, 3);
    rig_has('a', 0, 3);
    cr_assert_eq(rig.resets, 1);
}

Test(node_kv_stream_replay, the_last_seq_of_all_is_never_applied)
{
    rig_settle(0);
    rig_live('a', UINT64_MAX);
    rig_has('a', 0, 0);
}

Test(node_kv_stream_replay,
     the_print_that_was_asked_with_counts_not_what_is_recent)
{
    rig_settle(4);
    rig_wait(PROBE_MS * MS);
    rig_live_run('a', 5, 1004); /* 4 is long forgotten */
    rig_reply('b', 4);
    cr_assert_eq(rig.state, KV_STREAM_STALE);
    rig_answer('b', 0, 4);
    rig_has('b', 0, 4);
}

Test(node_kv_stream_replay,
     an_answer_that_turns_into_another_process_is_a_restart)
{
    rig_settle(4);
    rig_wait(PROBE_MS * MS);
    rig_live_run('a', 5, 6);
    rig_reply('a', 4);
    rig_reply('b', 5);
    cr_assert_eq(rig.state, KV_STREAM_STALE);
    rig_answer('b', 0, 5);
    rig_has('b', 0, 5);
}

Test(node_kv_stream_replay, answers_that_contradict_each_other_are_a_restart)
{
    rig_connect();
    rig_reply('a', 0);
    rig_reply('a', 4);
    rig_end();
    rig_wait_ask();
    rig_reply('a', 0);
    rig_reply('b', 4);
    cr_assert_eq(rig.state, KV_STREAM_STALE);
    rig_answer('b', 0, 4);
    rig_has('b', 0, 4);
}

Test(node_kv_stream_replay, a_dead_epoch_is_forgotten_when_nobody_answers)
{
    rig_settle(4);
    rig_wait(PROBE_MS * MS);
    rig_end();
    cr_assert_eq(rig.resets, 1);
    rig_wait(ROUNDS * (SILENCE_MS + RETRY_MS) * MS);
    cr_assert_eq(rig.resets, 2);
    cr_assert_eq(rig.applied_count, 0);
    cr_assert_eq(rig.state, KV_STREAM_PARTIAL);
}

Test(node_kv_stream_replay, what_ran_ahead_of_a_proof_is_not_proved_by_it)
{
    rig_connect();
    rig_live_run('a', 20, 21);
    rig_answer('b', 0, 19); /* a was replaced behind a proxy */
    rig_live('b', 19);
    rig_has('b', 0, 19);
    rig_live('b', 20);
    rig_has('b', 0, 20);
}

Test(node_kv_stream_replay, proof_that_a_process_lives_reads_nothing_again)
{
    rig_settle(5);
    uint32_t resets = rig.resets;
    kv_stream_prove(rig.stream, 7, rig.now_us);
    rig_pull();
    rig_wait_ask();
    cr_assert_eq(rig.asked, 5);
    rig_answer('a', 5, 6);
    cr_assert_eq(rig.proved, 7);
    cr_assert_eq(rig.resets, resets);
    rig_has('a', 0, 6);
}

Test(node_kv_stream_replay, of_another_process_the_answer_is_its_begin)
{
    rig_settle(5);
    kv_stream_prove(rig.stream, 7, rig.now_us);
    rig_pull();
    rig_wait_ask();
    rig_reply('b', 5);
    rig_wait_ask();
    rig_answer('b', 0, 6);
    cr_assert_eq(rig.proved, 0);
    cr_assert_eq(rig.ask, 7);
    rig_has('b', 0, 6);
}

/* The next try is as far away as after one that ran into the silence. */
Test(node_kv_stream_replay, reading_again_breaks_off_a_try_at_a_silent_replay)
{
    rig_connect();
    rig_live('a', 0);
    rig_live('a', 5);
    rig_wait((ROUNDS + 1) * (SILENCE_MS + RETRY_MS) * MS);
    cr_assert_not(rig.asking);
    rig_wait_ask();
    uint32_t asks = rig.asks;
    kv_stream_reread(rig.stream, "asked for", 1, rig.now_us);
    rig_pull();
    cr_assert_str_eq(rig.reason, "asked for");
    cr_assert_not(rig.asking);
    rig_wait(7 * PROBE_MS * MS);
    cr_assert_eq(rig.asks, asks);
    rig_wait(2 * PROBE_MS * MS);
    cr_assert_eq(rig.asks, asks + 1);
}
