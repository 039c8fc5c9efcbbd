#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "chaos/replay/replay_generate.h"
#include "chaos/replay/replay_timing.h"
#include "chaos/replay/replay_world.h"
#include "tests/unit/chaos/replay/load_rig.h"

TestSuite(chaos_replay_world, .init = setup, .fini = teardown);

static void
add(uint64_t at_us, uint64_t text, uint32_t tokens, uint32_t output)
{
    struct replay_request request = {.at_us = at_us,
                                     .after = REPLAY_NONE,
                                     .output_tokens = output,
                                     .answer = rng_mix(load.count),
                                     .family = text};

    cr_assert_eq(replay_load_run(&load, text, 0, tokens), 0);
    cr_assert_eq(replay_load_add(&load, &request, NULL), 0);
}

/* A step of 1,000 us, and 1 us for each token of a prompt. */
static struct replay_setup
tiny(enum replay_policy policy, uint32_t nodes, uint32_t engines)
{
    return (struct replay_setup){
        .policy = policy,
        .nodes = nodes,
        .engines = engines,
        .load_permille = 1000,
        .seed = 1,
        .event_us = REPLAY_EVENT_US,
        .gossip_us = REPLAY_GOSSIP_US,
        .gauge_us = REPLAY_GAUGE_US,
        .metrics_us = REPLAY_METRICS_US,
        .expected_ms = REPLAY_EXPECTED_MS,
        .elect = ELECT_CONFIG_DEFAULT,
        .engine = {.blocks_max = 64,
                   .block_tokens = 16,
                   .running_max = 8,
                   .batch_tokens_max = 1024,
                   .requests_max = 1,
                   .request_tokens_max = 1,
                   .prefill_tokens_per_s = 1000000,
                   .step_us = 1000},
    };
}

static struct replay_result
play(const struct replay_setup *replay)
{
    struct replay_result result;
    struct replay_world world;
    const char *reason = "";
    int outcome = replay_world_init(&world, replay, &load);

    cr_assert_eq(outcome, 0);
    for (uint64_t i = 0; (outcome = replay_world_step(&world)) > 0; i++) {
        if (i % 997 == 0) {
            cr_assert(replay_world_check(&world, &reason), "%s", reason);
        }
    }
    cr_assert_eq(outcome, 0);
    cr_assert(replay_world_check(&world, &reason), "%s", reason);
    replay_world_result(&world, &result);
    replay_world_fini(&world);
    cr_assert_eq(result.sent, result.finished);
    cr_assert_eq(result.sent + result.refused, load.count);
    return result;
}

/* Two long prompts come at once, and then a short one: with one pool it waits
 * behind one of them, with two it has an engine to itself. */
Test(chaos_replay_world,
     two_pools_keep_short_requests_from_waiting_for_long_ones)
{
    struct replay_setup replay = tiny(REPLAY_KVASIR, 1, 2);

    for (uint64_t i = 0; i < 10; i++) {
        add(i * 20000, 3 * i, 960, 2);
        add(i * 20000, 3 * i + 1, 960, 2);
        add(i * 20000 + 100, 3 * i + 2, 32, 2);
    }
    replay.short_len = 100;
    struct replay_result one = play(&replay);
    replay.short_engines = 1;
    replay.elect.pool_threshold = 100;
    struct replay_result two = play(&replay);
    cr_expect_eq(one.pool[0].finished, 10);
    cr_expect_eq(one.pool[1].finished, 20);
    cr_expect_eq(two.pool[0].finished, 10);
    cr_expect_eq(two.refused, 0); /* an engine refuses what is too long */
    cr_expect_eq(two.pool[0].ttft_p99_us, 1032);
    cr_expect_gt(one.pool[0].ttft_p50_us, 1500);
    cr_expect_gt(two.pool[1].ttft_p99_us, one.pool[1].ttft_p99_us);
}

/* An engine that takes all of it would have as much to do as both prompts of 960
 * tokens; with the short ones alone it is idle: the lesser evil. */
Test(chaos_replay_world, a_tuned_threshold_is_that_of_the_load)
{
    struct replay_setup replay = tiny(REPLAY_KVASIR, 1, 2);

    for (uint64_t i = 0; i < 70; i++) {
        add(i * 20000, 3 * i, 960, 2);
        add(i * 20000, 3 * i + 1, 960, 2);
        add(i * 20000 + 100, 3 * i + 2, 32, 2);
    }
    replay.short_len = 2000;
    replay.short_engines = 1;
    replay.elect.pool_threshold = 2000;
    cr_expect_eq(play(&replay).pool_threshold, 2000);
    replay.pool_tune = true;
    cr_expect_eq(play(&replay).pool_threshold, 861);
    replay.short_engines = 0;
    cr_expect_eq(play(&replay).pool_threshold, 0);
}

/*
 * The first computes its 64 tokens in one step (1,064 us) and a second token in
 * another (1,000 us). The second finds 3 of its 4 blocks, as the last token is
 * always computed, and computes 16.
 */
Test(chaos_replay_world, two_requests_at_one_engine_by_hand)
{
    struct replay_setup replay = tiny(REPLAY_KVASIR, 1, 1);

    add(0, 1, 64, 2);
    add(10000, 1, 64, 2);
    struct replay_result result = play(&replay);
    cr_assert_eq(result.finished, 2);
    cr_assert_eq(result.prompt_tokens, 128);
    cr_assert_eq(result.cached_tokens, 48);
    cr_assert_eq(result.promised_tokens, 48);
    cr_assert_eq(result.output_tokens, 4);
    cr_assert_eq(result.ttft_p50_us, 1016);
    cr_assert_eq(result.ttft_p99_us, 1064);
    cr_assert_eq(result.whole_p50_us, 2016);
    cr_assert_eq(result.took_us, 12016);
    cr_assert_eq(result.imbalance_permille, 1000);
    cr_assert_eq(result.peak, 1);
    cr_assert_eq(result.modes[REPLAY_MODE_BALANCE], 1);
    cr_assert_eq(result.modes[REPLAY_MODE_AFFINITY], 1);
}

/*
 * The first engine computes 64 tokens in one step (1,064 us), they travel for
 * 1,000 us, and the second one's step of their last token takes 1,001 us. It
 * holds 3 of the 4 blocks when they are asked for again, and lacks too few to
 * pass them on.
 */
Test(chaos_replay_world, prefill_and_decode_apart_by_hand)
{
    struct replay_setup replay = tiny(REPLAY_SPLIT, 1, 2);

    replay.transfer_tokens_per_s = 64000;
    replay.elect.split_tokens = 17;
    add(0, 1, 64, 2);
    add(10000, 1, 64, 2);
    struct replay_result result = play(&replay);
    cr_assert_eq(result.split, 1);
    cr_assert_eq(result.cached_tokens, 48);
    cr_assert_eq(result.promised_tokens, 48);
    cr_assert_eq(result.output_tokens, 4);
    cr_assert_eq(result.ttft_p99_us, 1064 + 1000 + 1001);
    cr_assert_eq(result.ttft_p50_us, 1016);
}

Test(chaos_replay_world, split_engines_answer_all_and_all_is_known)
{
    struct replay_setup replay = tiny(REPLAY_SPLIT, 3, 5);

    replay.prefill = 2;
    replay.transfer_tokens_per_s = 1000000;
    replay.elect.split_tokens = 100;
    for (uint32_t i = 0; i < 300; i++) {
        add(i * UINT64_C(700), i % 20, 40 + i % 7 * 50, 1 + i % 9);
    }
    struct replay_result result = play(&replay);
    cr_assert_gt(result.split, 50);
    cr_assert_lt(result.split, 250);
}

/* By decisions alone, too: all 4 blocks are believed, and 3 of use. */
Test(chaos_replay_world, the_last_token_is_promised_by_nobody)
{
    struct replay_setup replay = tiny(REPLAY_BELIEF, 1, 1);

    add(0, 1, 64, 2);
    add(10000, 1, 64, 2);
    struct replay_result result = play(&replay);
    cr_assert_eq(result.cached_tokens, 48);
    cr_assert_eq(result.promised_tokens, 48);
}

Test(chaos_replay_world, in_turn_the_second_finds_nothing)
{
    struct replay_setup replay = tiny(REPLAY_ROUND_ROBIN, 1, 2);

    add(0, 1, 64, 2);
    add(10000, 1, 64, 2);
    struct replay_result result = play(&replay);
    cr_assert_eq(result.cached_tokens, 0);
    cr_assert_eq(result.modes[REPLAY_MODE_POLICY], 2);
}

/* Two engines, three prompts of 64 tokens, over and over: in turn each comes to
 * both engines before it is found (3 of its 4 blocks), while sticky finds it at
 * once. Times do not matter, nor do answers. */
Test(chaos_replay_world, one_after_the_other_only_places_matter)
{
    struct replay_setup replay = tiny(REPLAY_ROUND_ROBIN, 3, 2);

    replay.sequential = true;
    for (uint64_t i = 0; i < 9; i++) {
        add(0, i % 3, 64, 50);
    }
    struct replay_result result = play(&replay);
    cr_assert_eq(result.cached_tokens, 3 * 48);
    cr_assert_eq(result.output_tokens, 9);
    cr_assert_eq(result.peak, 1);
    replay.policy = REPLAY_STICKY;
    cr_assert_eq(play(&replay).cached_tokens, 6 * 48);
}

/* Of a prompt each computes 64 tokens in 64 us at speed 1; a step costs 1,000
 * more, and all of that twice at half the speed. */
Test(chaos_replay_world, an_engine_of_half_the_speed_takes_twice_as_long)
{
    struct replay_setup replay = tiny(REPLAY_ROUND_ROBIN, 1, 2);

    replay.speed_permille[0] = 1000;
    replay.speed_permille[1] = 500;
    replay.slo_ttft_ms = 2;
    replay.slo_itl_ms = 1;
    add(0, 1, 64, 2);
    add(100000, 2, 64, 2);
    struct replay_result result = play(&replay);
    cr_assert_eq(result.ttft_p50_us, 1064);
    cr_assert_eq(result.ttft_p99_us, 2128);
    cr_assert_eq(result.itl_p50_us, 1000);
    cr_assert_eq(result.itl_p99_us, 2000);
    cr_assert_eq(result.whole_p99_us, 4128);
    cr_assert_eq(result.within_slo, 1);
    cr_assert_eq(result.busy_us, 2064 + 4128);
}

/* Two islands with a node and an engine each; all comes to the first. */
static struct replay_setup
two_islands(enum replay_policy policy, uint32_t link_ms)
{
    struct replay_setup replay = tiny(policy, 2, 2);

    replay.islands = 2;
    replay.island_weight[0] = 1;
    replay.away_us = 50000;
    replay.link_ms = link_ms;
    return replay;
}

/* A round robin knows of no islands: every other request goes the long way. */
Test(chaos_replay_world, the_way_to_another_island_takes_its_time)
{
    struct replay_setup replay = two_islands(REPLAY_ROUND_ROBIN, 50);

    add(0, 1, 64, 2);
    add(100000, 2, 64, 2);
    struct replay_result result = play(&replay);
    cr_assert_eq(result.inside.finished, 1);
    cr_assert_eq(result.across.finished, 1);
    cr_assert_eq(result.inside.ttft_p99_us, 1064);
    cr_assert_eq(result.across.ttft_p99_us, 51064);
    cr_assert_eq(result.across.prompt_tokens, 64);
}

/* The prompts 1 1 1 2 3 2 4 1 go to the engines 1 0 1 0 1 0 1 0, of which the first
 * is far. That one has 1 1 3 4, and finds the second of them; the near one has
 * 1 2 2 1, and finds the last two: 48 tokens each, as the last block is computed. */
Test(chaos_replay_world, what_stays_and_what_crosses_by_hand)
{
    static const uint64_t texts[] = {1, 1, 1, 2, 3, 2, 4, 1};
    struct replay_setup replay = two_islands(REPLAY_ROUND_ROBIN, 50);

    for (uint64_t i = 0; i < 8; i++) {
        add(i * 100000, texts[i], 64, 2);
    }
    struct replay_result result = play(&replay);
    cr_assert_eq(result.inside.finished, 4);
    cr_assert_eq(result.inside.prompt_tokens, 256);
    cr_assert_eq(result.inside.cached_tokens, 96);
    cr_assert_eq(result.inside.ttft_p50_us, 1016);
    cr_assert_eq(result.inside.ttft_p99_us, 1064);
    cr_assert_eq(result.across.finished, 4);
    cr_assert_eq(result.across.prompt_tokens, 256);
    cr_assert_eq(result.across.cached_tokens, 48);
    cr_assert_eq(result.across.ttft_p50_us, 51064);
    cr_assert_eq(result.across.ttft_p99_us, 51064);
    cr_assert_eq(result.cached_tokens, 144);
}

Test(chaos_replay_world, requests_stay_on_their_island_while_that_is_cheaper)
{
    struct replay_setup replay = two_islands(REPLAY_KVASIR, 50);

    for (uint64_t i = 0; i < 12; i++) { /* far apart: nothing waits */
        add(i * 100000, i + 1, 64, 2);
    }
    struct replay_result result = play(&replay);
    cr_assert_eq(result.inside.finished, 12);
    replay.link_ms = 0; /* nodes know of no islands */
    result = play(&replay);
    cr_assert_gt(result.across.finished, 0);
    cr_assert_eq(result.inside.finished + result.across.finished, 12);
}

Test(chaos_replay_world, a_burst_leaves_its_island_unless_it_is_walled_in)
{
    struct replay_setup replay = two_islands(REPLAY_KVASIR, 50);

    for (uint64_t i = 0; i < 12; i++) {
        add(i, i + 1, 64, 2);
    }
    struct replay_result result = play(&replay);
    cr_assert_gt(result.across.finished, 0);
    cr_assert_gt(result.inside.finished, result.across.finished);
    replay.link_ms = 600000;
    result = play(&replay);
    cr_assert_eq(result.across.finished, 0);
}

/* One engine, and up to four when the rule asks for them. */
static struct replay_setup
scaled(enum replay_scaler by)
{
    struct replay_setup replay = tiny(REPLAY_KVASIR, 2, 8);

    replay.scaler = by;
    replay.begin = 1;
    replay.slo_ttft_ms = 50;
    replay.rule = (struct scale_config){.min = 1,
                                        .max = 4,
                                        .target_permille = 800,
                                        .step = 2,
                                        .provision_ms = 5000,
                                        .cool_down_ms = 30000};
    return replay;
}

/* 200 requests a second for 20 seconds are more than two engines do, each of which
 * runs eight for 101 ms; then one a second. */
static void
add_a_rush(void)
{
    for (uint32_t i = 0; i < 4000; i++) {
        add(i * 5000, i % 40, 64, 100);
    }
    for (uint32_t i = 0; i < 200; i++) {
        add(20000000 + i * UINT64_C(1000000), i % 40, 64, 100);
    }
}

Test(chaos_replay_world, engines_come_for_a_rush_and_go_after_it)
{
    add_a_rush();
    for (unsigned by = REPLAY_SCALE_RULE; by < REPLAY_SCALERS; by++) {
        struct replay_setup replay = scaled((enum replay_scaler)by);
        struct replay_result result = play(&replay);
        cr_assert_eq(result.finished, load.count, "%u", by);
        cr_assert_gt(result.scaled.most, 2, "%u", by);
        cr_assert_leq(result.scaled.most, 4, "%u", by);
        cr_assert_gt(result.scaled.turns, 0, "%u: up, and down", by);
        cr_assert(by != REPLAY_SCALE_RULE || result.scaled.turns == 1);
        cr_assert_lt(result.scaled.engine_us, 3 * result.took_us, "%u", by);
    }
}

Test(chaos_replay_world, what_is_asked_for_is_paid_for_from_then_on)
{
    struct replay_setup replay = scaled(REPLAY_SCALE_RULE);

    replay.rule.provision_ms = 3600000; /* it never comes */
    add_a_rush();
    struct replay_result result = play(&replay);
    cr_assert_eq(result.scaled.most, 3, "one step, and no more meanwhile");
    cr_assert_gt(result.scaled.engine_us, 2 * result.took_us);
}

Test(chaos_replay_world, a_wave_has_a_valley_and_a_crest)
{
    struct replay_setup replay = tiny(REPLAY_KVASIR, 1, 1);

    for (uint32_t i = 0; i < 1000; i++) {
        add(i * 7000, 1, 16, 4); /* 4 ms each */
    }
    struct replay_result even = play(&replay);
    replay.wave_us = 7000000;
    replay.swing_permille = 900;
    struct replay_result result = play(&replay);
    cr_assert_eq(result.finished, 1000);
    cr_assert_eq(even.peak, 1);
    cr_assert_gt(result.peak, 1, "they come twice as fast on the crest");
    cr_assert_lt(result.took_us, even.took_us + even.took_us / 50,
                 "and as many in all");
}

Test(chaos_replay_world, load_brings_arrivals_closer)
{
    struct replay_setup replay = tiny(REPLAY_KVASIR, 1, 1);

    replay.load_permille = 2000;
    add(0, 1, 64, 2);
    add(10000, 1, 64, 2);
    cr_assert_eq(play(&replay).took_us, 7016);
}

/* The next turn comes a pause after the end of the one before, and finds its
 * answer: 64 + 33 tokens, of which 96 are computed, are 6 blocks. */
Test(chaos_replay_world, the_next_turn_waits_for_the_answer)
{
    struct replay_setup replay = tiny(REPLAY_KVASIR, 1, 1);
    struct replay_request next = {.at_us = 500, .after = 0, .output_tokens = 1};

    add(0, 1, 64, 33);
    cr_assert_eq(replay_load_history(&load, 0), 0);
    cr_assert_eq(replay_load_run(&load, 99, 0, 31), 0);
    cr_assert_eq(replay_load_add(&load, &next, NULL), 0);
    struct replay_result result = play(&replay);
    cr_assert_eq(result.cached_tokens, 96);
    cr_assert_eq(result.took_us, 1064 + 32 * 1000 + 500 + 1032);
}

Test(chaos_replay_world, what_no_cache_holds_is_refused_with_what_follows)
{
    struct replay_setup replay = tiny(REPLAY_KVASIR, 1, 1);
    struct replay_request next = {.after = 0, .output_tokens = 1};

    add(0, 1, 1024, 2);
    cr_assert_eq(replay_load_run(&load, 99, 0, 31), 0);
    cr_assert_eq(replay_load_add(&load, &next, NULL), 0);
    add(10, 2, 1024, 1);
    struct replay_result result = play(&replay);
    cr_assert_eq(result.refused, 2);
    cr_assert_eq(result.finished, 1);
}

/* Twenty prefixes asked for twice, 50 ms apart, at nodes drawn at random: with
 * events an hour late a node knows only what it sent itself. */
static uint64_t
cached_with_gossip_of(uint32_t gossip_us)
{
    struct replay_setup replay = tiny(REPLAY_KVASIR, 5, 8);

    replay.gossip_us = gossip_us;
    return play(&replay).cached_tokens;
}

Test(chaos_replay_world, late_gossip_costs_cached_tokens)
{
    for (uint64_t i = 0; i < 40; i++) {
        add(i * 50000, rng_mix(i % 20), 80, 2);
        load.requests[i].family = 0; /* else hashes bring both to one engine */
    }
    uint64_t soon = cached_with_gossip_of(5000);
    uint64_t late = cached_with_gossip_of(3600000000);
    cr_assert_eq(soon, 20 * 64);
    cr_assert_lt(late, soon);
}

/* Forty requests that stay, far enough apart to be heard of: five for each
 * engine, though five nodes send them. */
Test(chaos_replay_world, nodes_count_what_their_peers_have_open)
{
    struct replay_setup replay = tiny(REPLAY_LEAST_LOAD, 5, 8);

    for (uint64_t i = 0; i < 40; i++) {
        add(i * 100000, rng_mix(i), 16, 5000);
    }
    replay.engine.blocks_max = 4096;
    struct replay_result result = play(&replay);
    cr_assert_eq(result.peak, 5, "%u", result.peak);
}

static struct replay_setup
real(const struct replay_workload *w, enum replay_policy policy, uint32_t nodes)
{
    struct replay_setup replay = tiny(policy, nodes, w->engines);

    replay.engine = replay_timing_engine(replay_timing_at(0), w->kv_tokens, 16);
    return replay;
}

/* An engine computes a prompt of 8,192 tokens in 82 ms. */
static struct replay_setup
slow(uint32_t nodes, uint32_t engines)
{
    struct replay_setup replay = tiny(REPLAY_KVASIR, nodes, engines);

    replay.engine.blocks_max = 4096;
    replay.engine.running_max = 64;
    replay.engine.batch_tokens_max = 8192;
    replay.engine.prefill_tokens_per_s = 100000;
    return replay;
}

/* Each second of two long prompts comes 15 ms after the first, mostly at another
 * node, and long before gauges are due. */
Test(chaos_replay_world, a_long_prompt_keeps_others_away_at_once)
{
    struct replay_setup replay = slow(3, 2);

    for (uint32_t i = 0; i < 100; i++) {
        add(i * UINT64_C(500000), 1000 + 2 * i, 8192, 1);
        add(i * UINT64_C(500000) + 15000, 1001 + 2 * i, 8192, 1);
    }
    struct replay_result result = play(&replay);
    cr_assert_geq(result.ttft_p50_us, 80000);
    cr_assert_leq(result.ttft_p99_us, 90000, "one waited for another");
}

/* Six prompts of 83 ms at once, every second, for six idle engines. They wait for
 * their node's moment for 45 ms at most, and two at one engine would take 165. */
Test(chaos_replay_world, long_prompts_of_one_moment_do_not_meet)
{
    struct replay_setup replay = slow(3, 6);

    for (uint32_t i = 0; i < 300; i++) {
        add(i / 6 * UINT64_C(1000000), 1000 + i, 8192, 1);
    }
    struct replay_result result = play(&replay);
    cr_assert_gt(result.waited, 100);
    cr_assert_leq(result.ttft_p90_us, 130000, "some met");
    replay.nodes = 1;
    cr_assert_eq(play(&replay).waited, 0);
}

/* One every half of a second. */
Test(chaos_replay_world, long_prompts_that_come_alone_do_not_wait)
{
    struct replay_setup replay = slow(3, 2);

    for (uint32_t i = 0; i < 100; i++) {
        add(i * UINT64_C(500000), 1000 + i, 8192, 1);
    }
    cr_assert_eq(play(&replay).waited, 0);
}

/* Ten equal prompts within 20 ms, each long before the first one's is
 * computed. */
Test(chaos_replay_world, equal_new_prompts_wait_for_the_first)
{
    struct replay_setup replay = slow(3, 4);

    for (uint32_t i = 0; i < 200; i++) {
        add(i / 10 * UINT64_C(1000000) + i % 10 * 2000, 1000 + i / 10, 8192, 1);
    }
    struct replay_result result = play(&replay);
    uint64_t computed = result.prompt_tokens - result.cached_tokens;
    cr_assert_leq(computed, UINT64_C(8192) * 20 * 3 / 2);
    replay.expect_alone = true;
    result = play(&replay);
    cr_assert_gt(result.prompt_tokens - result.cached_tokens, computed);
}

Test(chaos_replay_world, one_seed_gives_one_result)
{
    const struct replay_workload *w = replay_workload_find("chat");

    cr_assert_eq(replay_generate(w, 3, 150, &load), 0);
    for (unsigned p = 0; p < REPLAY_POLICIES; p++) {
        struct replay_setup replay = real(w, (enum replay_policy)p, 3);
        struct replay_result a = play(&replay);
        struct replay_result b;
        cr_assert_eq(replay_run(&replay, &load, &b), 0);
        cr_assert_arr_eq(&a, &b, sizeof(a));
        replay.seed = 2;
        cr_assert_eq(replay_run(&replay, &load, &b), 0);
        bool draws = p == REPLAY_RANDOM || p == REPLAY_POWER_OF_TWO ||
                     p == REPLAY_LEAST_LOAD;
        cr_assert(!draws || memcmp(&a, &b, sizeof(a)) != 0, "%s",
                  replay_policy_name((enum replay_policy)p));
    }
}

/* Memory is short: blocks are evicted, and each mirror follows to the last
 * block (replay_world_check() when all is over), twins included. */
Test(chaos_replay_world, every_node_ends_with_every_cache)
{
    const struct replay_workload *w = replay_workload_find("tiered");
    struct replay_workload few = *w;
    struct replay_setup replay = real(w, REPLAY_KVASIR, 4);

    few.groups = 6; /* so that equal prompts meet in one step, as twins */
    cr_assert_eq(replay_generate(&few, 3, 150, &load), 0);
    replay.engines = 3;
    replay.engine.blocks_max = 2500;
    struct replay_result result = play(&replay);
    cr_assert_gt(result.evicted_blocks, 1000);
    cr_assert_eq(result.lost, 0);
    (void)fprintf(stderr, "promised %" PRIu64 ", cached %" PRIu64 "\n",
                  result.promised_tokens, result.cached_tokens);
}

/* Where engines queue, an event comes seconds after the decision. */
Test(chaos_replay_world, peers_that_are_told_find_more_behind_queues)
{
    const struct replay_workload *w = replay_workload_find("tiered");
    struct replay_setup replay = real(w, REPLAY_KVASIR, 3);

    cr_assert_eq(replay_generate(w, 1, 500, &load), 0);
    replay.load_permille = 2000;
    uint64_t told = play(&replay).cached_tokens;
    replay.expect_alone = true;
    uint64_t silent = play(&replay).cached_tokens;
    (void)fprintf(stderr, "silent %" PRIu64 ", told %" PRIu64 "\n", silent,
                  told);
    cr_assert_gt(told, silent + silent / 20);
}

/* Where engines queue, what is held now will not be there when it is served:
 * the mirror alone promises half as much again as engines then find. */
Test(chaos_replay_world, what_is_promised_is_there_when_it_is_served)
{
    const struct replay_workload *w = replay_workload_find("tiered");
    struct replay_setup replay = real(w, REPLAY_KVASIR, 3);

    cr_assert_eq(replay_generate(w, 1, 1200, &load), 0);
    replay.load_permille = 2000;
    struct replay_result result = play(&replay);
    (void)fprintf(stderr, "promised %" PRIu64 ", cached %" PRIu64 "\n",
                  result.promised_tokens, result.cached_tokens);
    cr_assert_gt(result.evicted_blocks, 10000);
    cr_assert_geq(result.cached_tokens * 100, result.promised_tokens * 97);
}

/* A first token in time is worth a prefix that is computed again. */
Test(chaos_replay_world, a_rule_that_knows_the_slo_keeps_it_more_often)
{
    const struct replay_workload *w = replay_workload_find("rag");
    struct replay_setup replay = real(w, REPLAY_KVASIR, 3);

    cr_assert_eq(replay_generate(w, 1, 400, &load), 0);
    replay.load_permille = 900;
    replay.slo_ttft_ms = 500;
    replay.slo_itl_ms = 50;
    uint64_t usual = play(&replay).within_slo;
    replay.policy = REPLAY_SLO;
    uint64_t aimed = play(&replay).within_slo;
    (void)fprintf(stderr, "usual %" PRIu64 ", aimed %" PRIu64 "\n", usual,
                  aimed);
    cr_assert_gt(aimed, usual + 10);
    replay.slo_ttft_ms = 3600000;
    replay.slo_itl_ms = 3600000;
    cr_assert_eq(play(&replay).within_slo, 400);
}

static const char *const seen[] = {"b2b", "x37", "chat"};

/* Of all prompt tokens of the workloads and seeds, in tenths of a permille. */
static uint32_t
cached_by(enum replay_policy policy, uint32_t nodes)
{
    uint64_t cached = 0;
    uint64_t prompt = 0;

    for (size_t i = 0; i < sizeof(seen) / sizeof(seen[0]); i++) {
        const struct replay_workload *w = replay_workload_find(seen[i]);
        for (uint64_t seed = 1; seed <= 2; seed++) {
            struct replay_setup replay = real(w, policy, nodes);
            struct replay_result result;
            teardown();
            setup();
            cr_assert_eq(replay_generate(w, seed, 400, &load), 0);
            replay.seed = seed;
            cr_assert_eq(replay_run(&replay, &load, &result), 0);
            cached += result.cached_tokens;
            prompt += result.prompt_tokens;
        }
    }
    return (uint32_t)(cached * 10000 / prompt);
}

/* Of random draws a router that knows less may have the luckier ones: hence a
 * tenth of a percent. */
Test(chaos_replay_world, nobody_finds_more_than_who_sees_all)
{
    uint32_t greedy = cached_by(REPLAY_GREEDY, 3);

    for (unsigned p = 0; p < REPLAY_POLICIES; p++) {
        uint32_t cached = cached_by((enum replay_policy)p, 3);
        (void)fprintf(stderr, "%s %u.%02u %%\n",
                      replay_policy_name((enum replay_policy)p), cached / 100,
                      cached % 100);
        cr_expect_leq(cached, greedy + 10, "%s",
                      replay_policy_name((enum replay_policy)p));
    }
}

/* What the mesh is for. */
Test(chaos_replay_world, many_nodes_find_what_one_finds)
{
    uint32_t one = cached_by(REPLAY_KVASIR, 1);
    uint32_t three = cached_by(REPLAY_KVASIR, 3);
    uint32_t seven = cached_by(REPLAY_KVASIR, 7);

    (void)fprintf(stderr, "nodes 1, 3, 7: %u, %u, %u / 10,000\n", one, three,
                  seven);
    cr_expect_leq(one > three ? one - three : three - one, 100);
    cr_expect_leq(one > seven ? one - seven : seven - one, 100);
}
