#include <criterion/criterion.h>
#include <stdio.h>

#include "chaos/load/load_stats.h"

static struct load_stats stats;

static void
setup(void)
{
    cr_assert_eq(load_stats_init(&stats, 1000), 0);
}

static void
teardown(void)
{
    load_stats_fini(&stats);
}

TestSuite(chaos_load_stats, .init = setup, .fini = teardown);

static void
play(enum load_outcome outcome, const char *worker, uint64_t first_us)
{
    struct load_end end = {
        .outcome = outcome,
        .worker = slice_of(worker),
        .has_first = first_us != 0,
        .first_us = first_us,
        .whole_us = 2 * first_us,
        .usage = {100, 50, 7},
    };

    load_stats_send(&stats);
    load_stats_end(&stats, &end);
}

Test(chaos_load_stats, every_request_is_counted_once)
{
    play(LOAD_ANSWERED, "a", 10);
    play(LOAD_SEVERED, "b", 20);
    play(LOAD_CONNECT, NULL, 0);
    play(LOAD_STATUS, "b", 0);
    load_stats_send(&stats); /* still under way */
    cr_assert_eq(stats.sent, 5);
    cr_assert_eq(stats.ended[LOAD_ANSWERED], 1);
    cr_assert_eq(stats.ended[LOAD_SEVERED], 1);
    cr_assert_eq(load_stats_failed(&stats), 3);
}

Test(chaos_load_stats, a_worker_is_charged_with_what_it_had)
{
    play(LOAD_ANSWERED, "b", 10);
    play(LOAD_SEVERED, "a", 20);
    play(LOAD_ANSWERED, "a", 20);
    play(LOAD_CONNECT, NULL, 0);
    load_stats_sort(&stats);
    cr_assert_eq(stats.workers.count, 2);
    cr_assert_str_eq(stats.workers.row[0].name, "a");
    cr_assert_eq(stats.workers.row[0].requests, 2);
    cr_assert_eq(stats.workers.row[0].failed, 1);
    cr_assert_str_eq(stats.workers.row[1].name, "b");
    cr_assert_eq(stats.workers.row[1].requests, 1);
    cr_assert_eq(stats.workers.row[1].failed, 0);
}

Test(chaos_load_stats, tokens_are_those_of_answered_requests)
{
    cr_assert_eq(load_stats_cached_permille(&stats), 0);
    play(LOAD_ANSWERED, "a", 10);
    play(LOAD_ANSWERED, "a", 10);
    play(LOAD_SEVERED, "a", 10);
    cr_assert_eq(stats.tokens.prompt_tokens, 200);
    cr_assert_eq(stats.tokens.cached_tokens, 100);
    cr_assert_eq(stats.tokens.completion_tokens, 14);
    cr_assert_eq(load_stats_cached_permille(&stats), 500);
}

Test(chaos_load_stats, a_severed_stream_has_a_first_token_but_no_whole)
{
    play(LOAD_SEVERED, "a", 10);
    play(LOAD_TIMEOUT, "a", 0);
    cr_assert_eq(stats.first.count, 1);
    cr_assert_eq(stats.whole.count, 0);
}

Test(chaos_load_stats, percentiles_are_the_nearest_rank)
{
    cr_assert_eq(load_times_at(&stats.first, 500), 0);
    for (uint64_t i = 100; i > 0; i--) {
        play(LOAD_ANSWERED, "a", i);
    }
    cr_assert_eq(load_times_at(&stats.first, 0), 1);
    cr_assert_eq(load_times_at(&stats.first, 500), 50);
    cr_assert_eq(load_times_at(&stats.first, 501), 51);
    cr_assert_eq(load_times_at(&stats.first, 990), 99);
    cr_assert_eq(load_times_at(&stats.first, 999), 100);
    cr_assert_eq(load_times_at(&stats.first, 1000), 100);
    play(LOAD_ANSWERED, "a", 1000); /* sorted again */
    cr_assert_eq(load_times_at(&stats.first, 1000), 1000);
    cr_assert_eq(load_times_at(&stats.whole, 1000), 2000);
}

Test(chaos_load_stats, more_workers_than_there_is_room_for_share_the_last_row)
{
    char name[200];

    for (unsigned i = 0; i < LOAD_WORKERS_MAX + 10; i++) {
        (void)snprintf(name, sizeof(name), "%150u", i);
        play(LOAD_ANSWERED, name, 1);
    }
    cr_assert_eq(stats.workers.count, 1); /* truncated to 128 bytes, blanks */
    for (unsigned i = 0; i < LOAD_WORKERS_MAX + 10; i++) {
        (void)snprintf(name, sizeof(name), "%u", i);
        play(LOAD_ANSWERED, name, 1);
    }
    cr_assert_eq(stats.workers.count, LOAD_WORKERS_MAX);
    cr_assert_eq(stats.workers.row[LOAD_WORKERS_MAX - 1].requests, 12);
}

Test(chaos_load_stats, each_outcome_has_a_name)
{
    for (unsigned i = 0; i < LOAD_OUTCOMES; i++) {
        cr_assert_not_null(load_outcome_name((enum load_outcome)i));
    }
    cr_assert_str_eq(load_outcome_name(LOAD_NO_DONE), "no_done");
    cr_assert_str_eq(load_outcome_name(LOAD_STOPPED), "stopped");
}

Test(chaos_load_stats, what_ended_is_told_by_second_and_by_node)
{
    struct load_end end = {.outcome = LOAD_ANSWERED,
                           .node = SLICE("n1"),
                           .at_us = 2500000,
                           .has_first = true,
                           .first_us = 300,
                           .usage = {100, 50, 7}};

    load_stats_send(&stats);
    load_stats_send(&stats);
    load_stats_retry(&stats, 999999);
    load_stats_end(&stats, &end);
    end.outcome = LOAD_SEVERED;
    end.at_us = UINT64_MAX;
    load_stats_end(&stats, &end);
    cr_assert_eq(stats.retried, 1);
    cr_assert_eq(stats.second[0].retried, 1);
    cr_assert_eq(stats.second[2].answered, 1);
    cr_assert_eq(stats.second[2].cached_tokens, 50);
    cr_assert_eq(stats.second[2].first_us, 300);
    cr_assert_eq(stats.seconds_count, LOAD_SECONDS_MAX);
    cr_assert_eq(stats.second[LOAD_SECONDS_MAX - 1].failed, 1);
    cr_assert_eq(stats.nodes.row[0].requests, 2);
    cr_assert_eq(stats.nodes.row[0].failed, 1);
}
