#include "kv_stream_rig.h"

static void
with_replay(void)
{
    rig_start(true);
}

static void
without_replay(void)
{
    rig_start(false);
}

TestSuite(node_kv_stream, .init = with_replay, .fini = rig_stop);
TestSuite(node_kv_stream_alone, .init = without_replay, .fini = rig_stop);

Test(node_kv_stream, is_connecting_until_connected_and_reading_until_answered)
{
    cr_assert_eq(kv_stream_state(rig.stream), KV_STREAM_CONNECTING);
    cr_assert_eq(kv_stream_deadline(rig.stream), UINT64_MAX);
    rig_connect();
    cr_assert_eq(rig.state, KV_STREAM_READING);
    cr_assert(rig.asking);
    cr_assert_eq(rig.asked, 0);
    rig_end();
    cr_assert_eq(rig.state, KV_STREAM_LIVE);
    cr_assert_eq(rig.resets, 0);
}

Test(node_kv_stream, applies_contiguous_messages_as_they_come)
{
    char text[24];

    rig_settle(9);
    cr_assert_eq(rig.resets, 1);
    cr_assert_eq(rig.process, key_digest(rig_text(text, 'a', 0)));
    cr_assert_eq(rig.asks, 1);
    cr_assert_eq(rig_count(&rig.counters.messages), 10);
}

Test(node_kv_stream, needs_no_replay_when_it_is_there_from_seq_0_on)
{
    rig_connect();
    rig_live_run('a', 0, 4);
    rig_has('a', 0, 4);
    cr_assert_not(rig.asking);
    cr_assert_eq(rig.state, KV_STREAM_LIVE);
}

Test(node_kv_stream, that_joins_late_reads_from_0)
{
    rig_connect();
    rig_live_run('a', 5, 7);
    cr_assert_eq(rig.applied_count, 0);
    rig_answer('a', 0, 7);
    rig_has('a', 0, 7);
    cr_assert_eq(rig.state, KV_STREAM_LIVE);
    /* The connection is proved by 5..7: no more replays. */
    rig_live('a', 8);
    rig_has('a', 0, 8);
    cr_assert_eq(rig.asks, 1);
}

Test(node_kv_stream, live_messages_beyond_the_replay_follow_it)
{
    rig_connect();
    rig_live_run('a', 5, 9);
    rig_answer('a', 0, 6);
    rig_has('a', 0, 9);
    cr_assert_eq(rig.state, KV_STREAM_LIVE);
}

Test(node_kv_stream,
     a_first_live_message_that_no_replay_has_shown_must_be_proved)
{
    rig_connect();
    rig_answer('a', 0, 4);
    rig_live('a', 5);
    rig_has('a', 0, 4);
    cr_assert_eq(rig.state, KV_STREAM_LIVE);
    rig_answer('a', 0, 5);
    rig_has('a', 0, 5);
    rig_live('a', 6);
    rig_has('a', 0, 6);
}

Test(node_kv_stream, a_gap_is_read_from_the_last_applied_message_on)
{
    rig_settle(4);
    rig_live('a', 7);
    cr_assert_eq(rig.state, KV_STREAM_STALE);
    rig_wait_ask();
    cr_assert_eq(rig.asked, 4);
    rig_answer('a', 0, 7);
    rig_has('a', 0, 7);
    cr_assert_eq(rig.state, KV_STREAM_LIVE);
    cr_assert_eq(rig.resets, 1);
    cr_assert_eq(rig_count(&rig.counters.gaps), 1);
}

Test(node_kv_stream, copies_change_nothing)
{
    rig_settle(9);
    rig_live('a', 9);
    rig_live_run('a', 3, 9);
    rig_live('a', 10);
    rig_has('a', 0, 10);
    cr_assert_eq(rig.resets, 1);
    cr_assert_eq(rig.asks, 1);
}

Test(node_kv_stream, seq_0_of_another_print_is_a_restart)
{
    rig_settle(9);
    rig_live('b', 0);
    cr_assert_eq(rig.state, KV_STREAM_STALE);
    rig_answer('b', 0, 0);
    rig_has('b', 0, 0);
    cr_assert_str_eq(rig.reason, "restarted");
    cr_assert_eq(rig.state, KV_STREAM_LIVE);
    cr_assert_eq(rig_count(&rig.counters.restarts), 1);
    rig_live('b', 1);
    rig_has('b', 0, 1);
}

Test(node_kv_stream, a_low_seq_that_is_not_remembered_is_looked_into)
{
    rig_settle(1999);
    rig_live('b', 3); /* was it applied? too long ago to know */
    cr_assert_eq(rig.state, KV_STREAM_STALE);
    rig_wait_ask();
    cr_assert_eq(rig.asked, 1999);
    rig_answer_empty(); /* b does not get that far */
    rig_answer('b', 0, 3);
    rig_has('b', 0, 3);
    cr_assert_eq(rig.state, KV_STREAM_LIVE);
}

Test(node_kv_stream, what_runs_backwards_proves_nothing_from_there_on)
{
    rig_settle(1999);
    rig_live('b', 1300);
    rig_live('b', 2000);
    rig_has('a', 0, 1999);
}

Test(node_kv_stream, an_old_stray_message_does_not_cost_the_epoch)
{
    rig_settle(1999);
    rig_live('a', 3);
    rig_answer('a', 0, 1999);
    cr_assert_eq(rig.resets, 1);
    cr_assert_eq(rig.state, KV_STREAM_LIVE);
    rig_live('a', 2000);
    rig_answer('a', 0, 2000);
    rig_has('a', 0, 2000);
}

Test(node_kv_stream, that_is_connected_anew_trusts_no_message_before_a_proof)
{
    rig_settle(4);
    rig_disconnect();
    cr_assert_eq(rig.state, KV_STREAM_CONNECTING);
    rig_connect();
    cr_assert_eq(rig.state, KV_STREAM_STALE);
    rig_live('b', 5); /* another process that got just as far */
    rig_has('a', 0, 4);
    rig_wait_ask();
    cr_assert_eq(rig.asked, 4);
    rig_reply('b', 4);
    rig_answer('b', 0, 5);
    rig_has('b', 0, 5);
    cr_assert_eq(rig.state, KV_STREAM_LIVE);
}

Test(node_kv_stream, that_is_connected_anew_goes_on_when_it_is_the_same_process)
{
    rig_settle(4);
    rig_disconnect();
    rig_connect();
    rig_answer('a', 0, 6);
    rig_has('a', 0, 6);
    cr_assert_eq(rig.resets, 1);
    cr_assert_eq(rig.state, KV_STREAM_LIVE);
}

Test(node_kv_stream, a_message_that_equals_a_known_one_proves_the_connection)
{
    rig_settle(4);
    rig_disconnect();
    rig_connect();
    rig_live('a', 4);
    rig_live('a', 5);
    rig_has('a', 0, 5);
}

Test(node_kv_stream, an_idle_stream_is_probed)
{
    rig_settle(4);
    rig_wait(PROBE_MS * MS);
    cr_assert(rig.asking);
    cr_assert_eq(rig.asked, 4);
    rig_answer('a', 0, 4);
    cr_assert_not(rig.asking);
    cr_assert_eq(rig.state, KV_STREAM_LIVE);
    rig_wait(2 * PROBE_MS * MS);
    cr_assert(rig.asking);
}

Test(node_kv_stream, a_stream_that_stays_idle_is_probed_less)
{
    rig_settle(4);
    for (unsigned i = 0; i < 20; i++) {
        rig_wait(PROBE_MS * MS);
        if (rig.asking) {
            rig_answer('a', 0, 4);
        }
    }
    cr_assert_leq(rig.asks, 8, "%u", rig.asks);
    rig_live('a', 5);
    rig_wait(PROBE_MS * MS);
    cr_assert(rig.asking, "a message may have been its tail's last but one");
}

Test(node_kv_stream, a_busy_stream_is_not_probed)
{
    rig_settle(4);
    for (uint64_t seq = 5; seq < 50; seq++) {
        rig_wait(PROBE_MS * MS / 4);
        rig_live('a', seq);
    }
    cr_assert_eq(rig.asks, 1);
}

Test(node_kv_stream, a_lost_tail_is_found_by_the_probe)
{
    rig_settle(4);
    rig_wait(PROBE_MS * MS);
    rig_answer('a', 0, 6);
    rig_has('a', 0, 6);
    cr_assert_eq(rig.state, KV_STREAM_LIVE);
}

Test(node_kv_stream, an_idle_restart_is_found_by_the_probe)
{
    rig_settle(4);
    rig_wait(PROBE_MS * MS);
    rig_answer_empty();
    cr_assert_eq(rig.state, KV_STREAM_STALE);
    rig_answer_empty();
    cr_assert_eq(rig.resets, 2);
    cr_assert_str_eq(rig.reason, "restarted");
    cr_assert_eq(rig.applied_count, 0);
    cr_assert_eq(rig.state, KV_STREAM_LIVE);
    cr_assert_eq(rig_count(&rig.counters.restarts), 1);
}

Test(node_kv_stream, live_messages_go_on_while_a_probe_runs)
{
    rig_settle(4);
    rig_wait(PROBE_MS * MS);
    rig_live_run('a', 5, 6);
    rig_has('a', 0, 6);
    rig_reply('a', 4);
    rig_reply('a', 5);
    rig_end();
    rig_has('a', 0, 6);
    cr_assert_eq(rig.state, KV_STREAM_LIVE);
}

Test(node_kv_stream,
     an_answer_is_judged_by_what_was_known_when_it_was_asked_for)
{
    rig_settle(4);
    rig_wait(PROBE_MS * MS);
    cr_assert_eq(rig.asked, 4);
    rig_live_run('a', 5, 20);
    rig_reply('a', 4); /* less than is known now, and no restart */
    rig_end();
    rig_has('a', 0, 20);
    cr_assert_eq(rig.resets, 1);
    cr_assert_eq(rig.state, KV_STREAM_LIVE);
}

Test(node_kv_stream, a_cleared_stream_is_whole_and_goes_on)
{
    rig_connect();
    rig_answer('a', 3, 9);
    cr_assert_eq(rig.state, KV_STREAM_PARTIAL);
    cr_assert_not(kv_stream_is_whole(rig.stream));
    kv_stream_cleared(rig.stream);
    rig_pull();
    cr_assert_eq(rig.resets, 1);
    cr_assert(kv_stream_is_whole(rig.stream));
    cr_assert_eq(rig.state, KV_STREAM_LIVE, "all is known since the clear");
    rig_live('a', 9);
    rig_live('a', 10);
    rig_has('a', 3, 10);
}

Test(node_kv_stream, that_is_not_whole_is_partial_until_it_is_cleared)
{
    rig_settle(4);
    kv_stream_not_whole(rig.stream);
    rig_pull();
    cr_assert_eq(rig.state, KV_STREAM_PARTIAL);
    rig_wait(PROBE_MS * MS);
    rig_answer('a', 0, 4);
    cr_assert_eq(rig.state, KV_STREAM_PARTIAL);
    kv_stream_cleared(rig.stream);
    rig_pull();
    cr_assert_eq(rig.state, KV_STREAM_LIVE);
}

Test(node_kv_stream, that_is_to_be_read_again_reads_again)
{
    uint64_t before;

    rig_settle(4);
    before = rig.process;
    rig.damaged = true;
    rig_live('a', 5);
    cr_assert_eq(rig.state, KV_STREAM_STALE);
    rig_wait_ask();
    cr_assert_eq(rig.asked, 0);
    rig_live('a', 6);
    rig_answer('a', 0, 6);
    rig_has('a', 0, 6);
    cr_assert_eq(rig.resets, 2);
    cr_assert_str_eq(rig.reason, "damaged");
    cr_assert_eq(rig.process, before, "the same process, another reading");
    cr_assert(rig.whole);
    cr_assert_eq(rig.state, KV_STREAM_LIVE);
    cr_assert_eq(rig_count(&rig.counters.rereads), 1);
    cr_assert_eq(rig_count(&rig.counters.restarts), 0);
}

Test(node_kv_stream, that_does_not_get_better_is_read_again_ever_more_seldom)
{
    uint64_t waited_us = 0;

    rig_settle(4);
    for (uint32_t n = 0; n < 8; n++) {
        uint64_t since_us = rig.now_us;
        kv_stream_reread(rig.stream, "damaged", 0, rig.now_us);
        rig_pull();
        while (rig_count(&rig.counters.rereads) == n) {
            rig_wait(10 * MS);
        }
        cr_assert_geq(rig.now_us - since_us + RETRY_MS * MS, waited_us);
        waited_us = rig.now_us - since_us;
        rig_answer('a', 0, 4);
    }
    cr_assert_geq(waited_us, (RETRY_MS << 6) * MS - RETRY_MS * MS);
    cr_assert_eq(rig.resets, 9);
}

/* Without a replay endpoint */

Test(node_kv_stream_alone, asks_for_nothing)
{
    rig_connect();
    cr_assert_eq(rig.state, KV_STREAM_PARTIAL);
    rig_live_run('a', 0, 3);
    cr_assert_eq(rig.state, KV_STREAM_LIVE);
    rig_wait(100 * PROBE_MS * MS);
    cr_assert_eq(rig.asks, 0);
    cr_assert_eq(kv_stream_deadline(rig.stream), UINT64_MAX);
}

Test(node_kv_stream_alone, that_joins_late_is_partial)
{
    rig_connect();
    rig_live_run('a', 5, 8);
    rig_has('a', 5, 8);
    cr_assert_eq(rig.state, KV_STREAM_PARTIAL);
}

Test(node_kv_stream_alone, jumps_over_what_is_missing_and_says_so)
{
    rig_connect();
    rig_live_run('a', 0, 3);
    rig_live_run('a', 6, 7);
    cr_assert_eq(rig.applied_count, 6);
    cr_assert_eq(rig.gaps, 1);
    cr_assert_eq(rig.resets, 1);
    cr_assert_eq(rig.state, KV_STREAM_PARTIAL);
    cr_assert_eq(rig_count(&rig.counters.gaps), 1);
}

Test(node_kv_stream_alone, a_reading_from_the_middle_begins_anew_at_a_gap)
{
    uint64_t process;

    rig_connect();
    rig_live_run('a', 2, 3);
    process = rig.process;
    rig_live_run('a', 6, 7);
    rig_has('a', 6, 7);
    cr_assert_str_eq(rig.reason, "gap");
    cr_assert_eq(rig.gaps, 1);
    cr_assert_eq(rig.process, process);
    cr_assert_not(rig.whole);
}

Test(node_kv_stream_alone, what_is_too_long_has_its_place_and_no_bytes)
{
    struct slice text = SLICE("a/1 and more than that");
    struct kv_out out;

    rig_stop();
    rig.config.payload_bytes_max = text.len - 1;
    cr_assert_eq(
        kv_stream_new(&rig.stream, &rig.config, &rig.counters, rig.now_us, 1),
        0);
    rig_connect();
    rig_live('a', 0);
    kv_stream_live(rig.stream, 1, text, rig.now_us);
    cr_assert(kv_stream_next_out(rig.stream, &out));
    cr_assert_eq(out.kind, KV_OUT_APPLY);
    cr_assert_eq(out.payload.len, 0);
    cr_assert_eq(out.fingerprint, key_digest(text));
    rig_live('a', 2);
    cr_assert_eq(rig.gaps, 0);
    cr_assert_eq(rig.resets, 1);
}

Test(node_kv_stream_alone, knows_all_of_a_restarted_engine)
{
    rig_connect();
    rig_live_run('a', 3, 9);
    rig_live_run('b', 0, 2);
    rig_has('b', 0, 2);
    cr_assert_str_eq(rig.reason, "restarted");
    cr_assert_eq(rig.state, KV_STREAM_LIVE);
    cr_assert_eq(rig_count(&rig.counters.restarts), 1);
}

Test(node_kv_stream_alone, cannot_tell_who_is_at_a_new_connection)
{
    rig_connect();
    rig_live_run('a', 0, 3);
    rig_disconnect();
    rig_connect();
    cr_assert_eq(rig.state, KV_STREAM_STALE);
    rig_live('a', 4);
    rig_has('a', 4, 4);
    cr_assert_str_eq(rig.reason, "reconnected");
    cr_assert_eq(rig.state, KV_STREAM_PARTIAL);
}

Test(node_kv_stream_alone, ignores_copies)
{
    rig_connect();
    rig_live_run('a', 0, 3);
    rig_live_run('a', 2, 3);
    rig_live('a', 4);
    rig_has('a', 0, 4);
    cr_assert_eq(rig.resets, 1);
}

Test(node_kv_stream_alone, that_is_to_be_read_again_forgets)
{
    rig_connect();
    rig_live_run('a', 0, 3);
    kv_stream_reread(rig.stream, "damaged", 0, rig.now_us);
    rig_pull();
    cr_assert_eq(rig.resets, 2);
    cr_assert_eq(rig.applied_count, 0);
    rig_live('a', 4);
    rig_has('a', 4, 4);
    cr_assert_eq(rig.state, KV_STREAM_PARTIAL);
}

Test(node_kv_stream_alone, what_is_read_again_keeps_one_name_by_a_connection)
{
    uint64_t first;
    uint64_t again;

    rig_connect();
    rig_live_run('a', 0, 3);
    first = rig.process;
    kv_stream_reread(rig.stream, "asked for", 1, rig.now_us);
    rig_pull();
    again = rig.process;
    cr_assert_neq(again, first, "not all of that process any more");
    cr_assert_not(rig.whole);
    cr_assert_eq(rig.ask, 1);
    cr_assert_eq(rig.gaps, 0, "a new name needs none");
    rig_live('a', 4);
    cr_assert_eq(rig.resets, 2, "what comes belongs to it");
    kv_stream_reread(rig.stream, "asked for", 2, rig.now_us);
    rig_wait(RETRY_MS * MS);
    rig_pull();
    cr_assert_eq(rig.ask, 2);
    cr_assert_eq(rig.process, again);
    cr_assert_eq(rig.gaps, 1, "the same name, and something is missing");
    rig_disconnect();
    rig_connect();
    rig_live('a', 6);
    cr_assert_neq(rig.process, again);
}

Test(node_kv_stream, a_reading_from_seq_0_on_is_whole_and_others_are_not)
{
    rig_settle(4);
    cr_assert(rig.whole);
    rig_disconnect();
    rig_connect();
    rig_answer('b', 9, 12);
    rig_answer('b', 9, 12);
    rig_has('b', 9, 12);
    cr_assert_not(rig.whole);
}

Test(node_kv_stream,
     an_empty_process_after_another_one_has_the_name_of_all_such)
{
    rig_settle(4);
    rig_disconnect();
    rig_connect();
    rig_answer_empty();
    rig_answer_empty();
    cr_assert_eq(rig.process, KV_STREAM_EMPTY);
    cr_assert(rig.whole);
    cr_assert_eq(rig.state, KV_STREAM_LIVE);
}

Test(node_kv_stream, a_question_is_answered_by_what_is_read_after_it)
{
    rig_settle(4);
    cr_assert_eq(rig.ask, 0);
    kv_stream_reread(rig.stream, "asked for", 7, rig.now_us);
    rig_pull();
    rig_answer('a', 0, 4);
    cr_assert_eq(rig.ask, 7);
    cr_assert_eq(rig.resets, 2);
}

Test(node_kv_stream, a_question_during_a_reading_makes_it_begin_once_more)
{
    rig_settle(4);
    kv_stream_reread(rig.stream, "asked for", 1, rig.now_us);
    rig_pull();
    rig_wait_ask();
    kv_stream_reread(rig.stream, "asked for", 2, rig.now_us);
    rig_pull();
    rig_wait(10 * RETRY_MS * MS);
    rig_answer('a', 0, 4);
    cr_assert_eq(rig.ask, 2);
    cr_assert_eq(rig.state, KV_STREAM_LIVE);
}

Test(node_kv_stream, a_reading_that_began_before_a_question_is_no_answer)
{
    rig_settle(4);
    rig_wait(RETRY_MS * MS);
    kv_stream_reread(rig.stream, "asked for", 1, rig.now_us);
    rig_pull();
    kv_stream_reread(rig.stream, "asked for", 2, rig.now_us);
    rig_pull();
    rig_reply('a', 0);
    cr_assert_eq(rig.ask, 1);
    rig_wait(10 * RETRY_MS * MS);
    rig_answer('a', 0, 4);
    cr_assert_eq(rig.ask, 2);
    cr_assert_eq(rig.state, KV_STREAM_LIVE);
}

/* A replay is about to be asked anyway, as the process may be another one. */
Test(node_kv_stream, a_question_of_a_process_in_doubt_is_answered_by_the_same)
{
    rig_settle(4);
    rig_live('b', 2);
    kv_stream_reread(rig.stream, "asked for", 1, rig.now_us);
    rig_pull();
    rig_wait(10 * RETRY_MS * MS);
    rig_answer('a', 0, 4);
    cr_assert_eq(rig.ask, 1);
    cr_assert_eq(rig.state, KV_STREAM_LIVE);
}

/* The connection leads to the process only once it is linked. */
Test(node_kv_stream, a_clear_answers_a_question_of_a_process_that_is_proved)
{
    uint64_t ask = 0;

    rig_settle(4);
    for (uint64_t i = 1; i <= 2; i++) {
        kv_stream_reread(rig.stream, "asked for", i, rig.now_us);
        rig_pull();
        rig_answer('a', 0, 4);
    }
    kv_stream_reread(rig.stream, "asked for", 3, rig.now_us);
    rig_pull(); /* too many in so short a time */
    kv_stream_cleared(rig.stream);
    cr_assert_not(kv_stream_cleared_answers(rig.stream, &ask));
    cr_assert_eq(rig.state, KV_STREAM_STALE);
    rig_live('a', 4);
    cr_assert(kv_stream_cleared_answers(rig.stream, &ask));
    cr_assert_eq(ask, 3);
    cr_assert_not(kv_stream_cleared_answers(rig.stream, &ask), "once");
    rig_pull();
    cr_assert_eq(rig.state, KV_STREAM_LIVE);
    rig_live('a', 5);
    rig_wait(10 * RETRY_MS * MS);
    cr_assert_eq(rig.resets, 3);
    rig_has('a', 0, 5);
}

Test(node_kv_stream, a_question_is_answered_for_an_empty_process_too)
{
    rig_connect();
    rig_answer_empty();
    cr_assert_eq(rig.resets, 0);
    kv_stream_reread(rig.stream, "asked for", 1, rig.now_us);
    rig_pull();
    rig_answer_empty();
    cr_assert_eq(rig.ask, 1);
    cr_assert_eq(rig.process, KV_STREAM_EMPTY);
}
