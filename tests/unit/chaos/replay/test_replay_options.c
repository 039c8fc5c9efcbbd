#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chaos/replay/replay_options.h"
#include "node/route/shared.h"
#include "tests/unit/chaos/argv_of.h"

static struct replay_options options;
static char fault[256];

static int
parse(const char *words)
{
    return replay_options_parse(&options, argv_of(words), fault, sizeof(fault));
}

static void
must_refuse(const char *words, const char *why)
{
    cr_assert_eq(parse(words), FLAGS_E_BAD, "%s", words);
    cr_expect_str_eq(fault, why);
}

Test(chaos_replay_options, defaults_are_those_of_the_manual)
{
    cr_assert_eq(parse(""), 0);
    cr_assert_str_eq(options.workload->name, "b2b");
    cr_assert_str_eq(options.timing->name, replay_timing_at(0)->name);
    cr_assert_eq(options.policies_count, REPLAY_POLICIES - 1); /* no split */
    cr_assert_eq(options.transfer_tokens_per_s, REPLAY_TRANSFER_TPS);
    cr_assert_eq(options.loads_count, 1);
    cr_assert_eq(options.loads_permille[0], 1000);
    cr_assert_eq(options.engines, 8);
    cr_assert_eq(options.kv_tokens, 307328);
}

/* A table of replays is of the product only while both decide alike. */
Test(chaos_replay_options, replays_decide_as_serve_does)
{
    struct config *config = malloc(sizeof(*config));
    struct replay_setup replay;

    cr_assert_not_null(config);
    config_init(config);
    cr_assert_eq(parse(""), 0);
    replay = replay_options_setup(&options, REPLAY_KVASIR, 1000);
    struct elect_config serve = shared_elect(&config->policy);
    cr_assert_eq(replay.elect.cache_threshold_permille,
                 serve.cache_threshold_permille);
    cr_assert_eq(replay.elect.balance_abs, serve.balance_abs);
    cr_assert_eq(replay.elect.balance_rel_permille, serve.balance_rel_permille);
    cr_assert_eq(replay.elect.kv_pressure_max_permille,
                 serve.kv_pressure_max_permille);
    cr_assert_eq(replay.elect.recompute_weight, serve.recompute_weight);
    cr_assert_eq(replay.expected_ms, config->mirror.expected_ms);
    free(config);
}

Test(chaos_replay_options, speeds_come_over_and_over)
{
    struct replay_setup replay;

    cr_assert_eq(parse("--speeds 1,0.5,0.333"), 0);
    replay = replay_options_setup(&options, REPLAY_KVASIR, 1000);
    cr_assert_eq(replay.speed_permille[0], 1000);
    cr_assert_eq(replay.speed_permille[4], 500);
    cr_assert_eq(replay.speed_permille[WORKERS_MAX - 2], 333);
    must_refuse("--speeds 1,fast", "--speeds: fast is not a number between "
                                   "0.01 and 60, or too many");
}

Test(chaos_replay_options, islands_have_weights_nodes_and_engines)
{
    struct replay_setup replay;

    cr_assert_eq(parse("--islands 3,1 --away-ms 50 --policy kvasir"), 0);
    replay = replay_options_setup(&options, REPLAY_KVASIR, 1000);
    cr_assert_eq(replay.islands, 2);
    cr_assert_eq(replay.island_weight[0], 3);
    cr_assert_eq(replay.away_us, 50000);
    cr_assert_eq(replay.link_ms, 80);
    must_refuse("--islands 3,x --policy kvasir",
                "--islands: x is not a number between 1 and 1000, or more "
                "than 8");
    must_refuse("--islands 1,1 --policy soonest",
                "--islands: not with --sequential, nor with split, "
                "all_seeing_greedy, soonest and sticky; see --policy");
    must_refuse("--islands 1,1 --nodes 1 --policy kvasir",
                "--islands: each needs a node and an engine");
}

Test(chaos_replay_options, engines_come_and_go_by_a_rule)
{
    struct replay_setup replay;

    cr_assert_eq(parse("--engines 4"), 0);
    replay = replay_options_setup(&options, REPLAY_KVASIR, 1000);
    cr_assert_eq(replay.scaler, REPLAY_SCALE_FIXED);
    cr_assert_eq(replay.engines, 4);
    cr_assert_eq(parse("--engines 4 --scale rule --policy slo --provision-s 7 "
                       "--wave-s 600"),
                 0);
    replay = replay_options_setup(&options, REPLAY_SLO, 1000);
    cr_assert_eq(replay.scaler, REPLAY_SCALE_RULE);
    cr_assert_eq(replay.begin, 4);
    cr_assert_eq(replay.engines, 32);
    cr_assert_eq(replay.rule.max, 16);
    cr_assert_eq(replay.rule.provision_ms, 7000);
    cr_assert_eq(replay.wave_us, 600000000);
    cr_assert_eq(replay.swing_permille, 600);
    must_refuse("--scale magic", "--scale: unknown rule magic; see --help");
    must_refuse("--scale queue --policy sticky",
                "--scale: not with --sequential, --islands, nor with split, "
                "all_seeing_greedy, soonest and sticky; see --policy");
}

Test(chaos_replay_options, real_nodes_have_policies_of_their_own)
{
    cr_assert_eq(parse("--nodes-at 10.0.0.1:80,[::1]:81 --nodes 7"), 0);
    cr_assert_eq(options.nodes_at_count, 2);
    cr_assert_str_eq(options.nodes_at[1].host, "::1");
    cr_assert_eq(options.nodes_at[1].port, 81);
    cr_assert_eq(options.nodes, 2);
    cr_assert_eq(options.policies_count, 0);
    cr_assert_eq(options.real_engines, 0);
    cr_assert_eq(options.engines, 8);
    cr_assert_eq(parse("--nodes-at a:1 --policy kvasir,random --engines 3"), 0);
    cr_assert_eq(options.policies_count, 2);
    cr_assert_eq(options.real_engines, 3);
    must_refuse("--nodes-at a:1,b", "--nodes-at: expected HOST:PORT, not b");
    must_refuse("--nodes-at a:1 --svg x",
                "--nodes-at: one --load, and no --svg: what one load leaves in "
                "caches the next would find");
}

Test(chaos_replay_options, a_workload_brings_its_cluster)
{
    cr_assert_eq(parse("--workload x37"), 0);
    cr_assert_eq(options.engines, 4);
    cr_assert_eq(options.kv_tokens, 461376);
    cr_assert_eq(parse("--workload x37 --engines 5 --kv-tokens 1600"), 0);
    struct replay_setup setup =
        replay_options_setup(&options, REPLAY_RANDOM, 1500);
    cr_assert_eq(setup.engines, 5);
    cr_assert_eq(setup.engine.blocks_max, 100);
    cr_assert_eq(setup.load_permille, 1500);
    cr_assert_eq(setup.gauge_us, REPLAY_GAUGE_US);
    cr_assert_eq(setup.event_us, REPLAY_EVENT_US);
    cr_assert_eq(setup.gossip_us, REPLAY_GOSSIP_US);
    cr_assert_eq(parse("--trace file"), 0);
    cr_assert_null(options.workload);
    cr_assert_eq(options.engines, 8);
}

Test(chaos_replay_options, lists_are_read_in_order)
{
    cr_assert_eq(parse("--policy all_seeing_greedy,kvasir --load 0.5,1,2.25"),
                 0);
    cr_assert_eq(options.policies_count, 2);
    cr_assert_eq(options.policies[0], REPLAY_GREEDY);
    cr_assert_eq(options.policies[1], REPLAY_KVASIR);
    cr_assert_eq(options.loads_count, 3);
    cr_assert_eq(options.loads_permille[2], 2250);
}

Test(chaos_replay_options, what_is_wrong_is_said)
{
    must_refuse("--policy kvasir,best",
                "--policy: unknown policy best; see --help");
    must_refuse("--policy kvasir,kvasir", "--policy: kvasir appears twice");
    must_refuse("--load 1,,2",
                "--load:  is not a number between 0.001 and 1000");
    must_refuse("--load 0", "--load: 0 is not a number between 0.001 and 1000");
    must_refuse("--load 1x",
                "--load: 1x is not a number between 0.001 and 1000");
    must_refuse("--workload b3b",
                "--workload: unknown workload b3b; see --help");
    must_refuse("--timing tpu", "--timing: unknown timing tpu; see --help");
    must_refuse("--trace a --workload b2b",
                "give --trace or --workload, not both");
    must_refuse("--kv-tokens 15",
                "--kv-tokens: less than one block (--block-tokens)");
}

Test(chaos_replay_options, the_manual_names_what_there_is)
{
    struct buf out;

    buf_init(&out, 65536);
    replay_options_help(&out);
    buf_add(&out, "", 1);
    cr_assert_not(out.failed);
    for (unsigned p = 0; p < REPLAY_POLICIES; p++) {
        cr_expect_not_null(
            strstr(out.ptr, replay_policy_name((enum replay_policy)p)));
    }
    for (uint32_t i = 0; replay_workload_at(i) != NULL; i++) {
        cr_expect_not_null(strstr(out.ptr, replay_workload_at(i)->name));
    }
    for (uint32_t i = 0; replay_timing_at(i) != NULL; i++) {
        cr_expect_not_null(strstr(out.ptr, replay_timing_at(i)->name));
    }
    buf_fini(&out);
}

Test(chaos_replay_options, two_pools_are_for_policies_that_count_tokens)
{
    must_refuse("--short 8 --policy kvasir",
                "--short: no engine is left for long requests (--engines)");
    must_refuse("--short 2 --policy kvasir,dynamo",
                "--short: dynamo does not count tokens; --policy may have "
                "kvasir, slo and shares");
    cr_assert_eq(parse("--short 2 --short-len 4096 --policy kvasir,slo"), 0);
    struct replay_setup replay =
        replay_options_setup(&options, REPLAY_KVASIR, 1000);
    cr_expect_eq(replay.short_engines, 2);
    cr_expect_eq(replay.short_len, 4096);
    cr_expect_eq(replay.elect.pool_threshold, 4096);
}
