#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "chaos/plan/plan_options.h"
#include "chaos/plan/plan_read.h"
#include "node/node.h"
#include "tests/unit/chaos/argv_of.h"

static struct plan_options options;
static struct plan_bucket buckets[PLAN_BUCKETS_MAX];
static struct plan_cdf cdf;
static struct plan_mix mix;
static char fault[256];

static int
parse(const char *words)
{
    return plan_options_parse(&options, argv_of(words), fault, sizeof(fault));
}

static int
read_text(const char *text)
{
    struct slice bytes = {.ptr = text, .len = strlen(text)};

    return plan_read_cdf(bytes, buckets, &cdf, fault, sizeof(fault));
}

Test(chaos_plan_options, one_source_is_needed)
{
    cr_expect_eq(parse(""), FLAGS_E_BAD);
    cr_expect_eq(parse("--paper --cdf x"), FLAGS_E_BAD);
    cr_expect_eq(parse("--cdf x --engine t4"), FLAGS_E_BAD);
    cr_expect_str_eq(fault, "--engine: unknown engine t4; see --help");
    cr_expect_eq(parse("--cdf x --kv-tokens 5000 --max-seqs 7"), 0);
    cr_expect_eq(options.engine.kv_tokens, 5000);
    cr_expect_eq(options.engine.seqs_max, 7);
    cr_expect_eq(parse("--cdf x --model m"), FLAGS_E_BAD);
    cr_expect_eq(parse("--mix x --model m --tenant t"), 0);
    cr_expect_str_eq(plan_options_file(&options), "x");
    cr_expect_eq(parse("--help"), 0);
}

Test(chaos_plan_options, the_setup_takes_the_longest_and_says_what_never_fits)
{
    struct plan_seen seen = {.nodes = 0};
    struct plan_setup setup;

    plan_mix_init(&mix);
    cr_assert_eq(plan_mix_add(&mix, 5000, 1, 1), 0);
    plan_mix_finish(&mix);
    cr_assert_eq(parse("--cdf x"), 0);
    cr_assert_eq(
        plan_options_setup(&options, &mix, &seen, &setup, fault, sizeof(fault)),
        0);
    cr_expect_eq(setup.max_len, 8192);
    cr_expect_eq(setup.rate, 1000);
    seen.busiest_rate = 7;
    seen.longest = 8193;
    cr_assert_eq(
        plan_options_setup(&options, &mix, &seen, &setup, fault, sizeof(fault)),
        0);
    cr_expect_eq(setup.rate, 7);
    cr_expect_eq(setup.max_len, 16384); /* a class's mean is not its longest */
    seen.longest = 0;
    cr_assert_eq(parse("--cdf x --max-model-len 4000"), 0);
    cr_expect_eq(
        plan_options_setup(&options, &mix, &seen, &setup, fault, sizeof(fault)),
        FLAGS_E_BAD);
    cr_assert_eq(parse("--cdf x --kv-tokens 6000"), 0);
    cr_expect_eq(
        plan_options_setup(&options, &mix, &seen, &setup, fault, sizeof(fault)),
        FLAGS_E_BAD);
    cr_expect_not_null(strstr(fault, "8192 tokens needs more than the 6000"));
    plan_mix_fini(&mix);
}

Test(chaos_plan_options, a_cdf_is_a_list_of_pairs)
{
    cr_assert_eq(read_text("[[64, 0.5], [128, 1.0]]"), 0);
    cr_expect_eq(cdf.count, 2);
    cr_expect_eq(cdf.buckets[0].tokens, 64);
    cr_expect_float_eq(cdf.buckets[0].share, 0.5, 1e-12);
    cr_assert_eq(read_text("{\"of\":{\"a\":[1]},\"cdf\":[[5,1]],\"n\":1}"), 0);
    cr_expect_eq(cdf.count, 1);
}

Test(chaos_plan_options, what_is_no_cdf_is_refused)
{
    static const char *const bad[] = {
        "",
        "{}",
        "[",
        "[]",
        "[[1]]",
        "[[1,0.5]]",
        "[[0,1]]",
        "[[1,2]]",
        "[[9,0.5],[9,1]]",
        "[[1.5,1]]",
        "[[9,.5],[10,1]]",
        "[[1,0.5],[2,0.4],[3,1]]",
        "[[1,1]] x",
        "{\"cdf\":1}",
        "[[1e30,1]]",
        "[[1,1,1]]",
        "[[\"1\",1]]",
        "[[16777217,1]]",
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_expect_eq(read_text(bad[i]), PLAN_READ_E_BAD, "%s", bad[i]);
        cr_expect_neq(fault[0], '\0');
    }
}

Test(chaos_plan_options, a_trace_gives_a_point_for_each_request)
{
    static const char trace[] = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
                                "2023-11-16 18:15:46.0,374,44\n"
                                "2023-11-16 18:15:48.0,396,109\n"
                                "2023-11-16 18:15:56.0,10,20\n";
    struct slice bytes = {.ptr = trace, .len = sizeof(trace) - 1};
    double rate;

    plan_mix_init(&mix);
    cr_assert_eq(plan_read_trace(bytes, &mix, &rate, fault, sizeof(fault)), 0);
    plan_mix_finish(&mix);
    cr_expect_eq(mix.count, 3);
    cr_expect_float_eq(rate, 0.3, 1e-9);
    cr_expect_eq(plan_mix_longest(&mix), 505);
    plan_mix_fini(&mix);
    bytes.len = 5;
    cr_expect_eq(plan_read_trace(bytes, &mix, &rate, fault, sizeof(fault)),
                 PLAN_READ_E_BAD);
    plan_mix_fini(&mix);
}
