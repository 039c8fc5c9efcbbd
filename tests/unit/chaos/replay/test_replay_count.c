#include <criterion/criterion.h>

#include "chaos/replay/replay_count.h"
#include "chaos/replay/replay_real.h"

#define REQUESTS 10

static struct replay_load load;
static struct replay_count count;
static struct replay_result result;

static void
setup(void)
{
    struct replay_limits limits = REPLAY_LIMITS_DEFAULT;
    struct replay_setup with = {
        .slo_ttft_ms = 100, .slo_itl_ms = 10, .short_len = 50};

    replay_load_init(&load, &limits);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        /* Every other one is long. */
        struct replay_request request = {.after = REPLAY_NONE,
                                         .output_tokens = 10};
        cr_assert_eq(replay_load_run(&load, i, 0, i % 2 == 0 ? 40 : 400), 0);
        cr_assert_eq(replay_load_add(&load, &request, NULL), 0);
    }
    cr_assert_eq(replay_count_init(&count, &with, &load), 0);
}

static void
teardown(void)
{
    replay_count_fini(&count);
    replay_load_fini(&load);
}

TestSuite(chaos_replay_count, .init = setup, .fini = teardown);

/* Due at once, sent 1 ms later, first token after first_ms, then one each 5 ms. */
static struct replay_end
answered(uint32_t number, const char *worker, uint64_t first_ms)
{
    return (struct replay_end){
        .number = number,
        .outcome = LOAD_ANSWERED,
        .node = SLICE("n"),
        .worker = slice_of(worker),
        .usage = {.prompt_tokens = 40,
                  .cached_tokens = 16,
                  .completion_tokens = 10},
        .has_usage = true,
        .sent_us = 1000,
        .first_us = first_ms * 1000,
        .last_us = first_ms * 1000 + 9 * UINT64_C(5000),
        .end_us = first_ms * 1000 + 9 * UINT64_C(5000) + 100,
    };
}

static void
play(struct replay_end end)
{
    replay_count_sent(&count);
    replay_count_end(&count, &end);
}

Test(chaos_replay_count, times_go_from_when_a_request_was_due_to_its_tokens)
{
    for (uint32_t i = 0; i < REQUESTS; i++) {
        play(answered(i, "w", 20 * (i + 1)));
    }
    replay_count_result(&count, 0, &result);
    cr_expect_eq(result.finished, REQUESTS);
    cr_expect_eq(result.ttft_p50_us, 100000);
    cr_expect_eq(result.ttft_p90_us, 180000);
    cr_expect_eq(result.ttft_p99_us, 200000);
    cr_expect_eq(result.whole_p50_us, 145000);
    cr_expect_eq(result.whole_p99_us, 245000);
    cr_expect_eq(result.itl_p50_us, 5000);
    cr_expect_eq(result.itl_p99_us, 5000);
    cr_expect_eq(result.within_slo, 5);
    cr_expect_eq(result.took_us, 245000);
    cr_expect_eq(result.pool[0].finished, 5);
    cr_expect_eq(result.pool[0].ttft_p99_us, 180000);
    cr_expect_eq(result.pool[1].ttft_p99_us, 200000);
}

Test(chaos_replay_count, what_failed_counts_for_nothing_else)
{
    struct replay_end end = answered(0, "w", 20);

    play(end);
    end.number = 1;
    end.outcome = LOAD_SEVERED;
    play(end);
    end = (struct replay_end){.number = 2,
                              .outcome = LOAD_CONNECT,
                              .node = SLICE("dead"),
                              .end_us = 5};
    play(end);
    replay_count_result(&count, 0, &result);
    cr_expect_eq(result.sent, 3);
    cr_expect_eq(result.finished, 1);
    cr_expect_eq(result.prompt_tokens, 40);
    cr_expect_eq(result.output_tokens, 10);
    cr_expect_eq(load_stats_failed(&count.stats), 2);
    cr_assert_eq(count.stats.nodes.count, 2);
    cr_expect_str_eq(count.stats.nodes.row[0].name, "dead");
    cr_expect_eq(count.stats.nodes.row[0].failed, 1);
    cr_expect_eq(count.stats.nodes.row[1].requests, 2);
}

static uint64_t
promised(const char *overlap)
{
    struct replay_end end = answered(0, "w", 20);
    uint64_t before = count.result.promised_tokens;

    end.overlap = slice_of(overlap);
    play(end);
    return count.result.promised_tokens - before;
}

Test(chaos_replay_count, promised_is_the_part_that_a_node_says_is_held)
{
    cr_expect_eq(promised("16/40"), 16);
    cr_expect_eq(promised("1/4"), 10); /* of texts */
    cr_expect_eq(promised("50/40"), 40);
    cr_expect_eq(count.told, 3);
    cr_expect_eq(promised("0/0"), 0);
    cr_expect_eq(promised("16"), 0);
    cr_expect_eq(promised("/40"), 0);
    cr_expect_eq(promised("1/2/3"), 0);
    cr_expect_eq(promised("9999999999/1"), 0);
    cr_expect_eq(promised("-1/2"), 0);
    cr_expect_eq(count.told, 3);
}

Test(chaos_replay_count, an_answer_without_usage_is_as_the_load_has_it)
{
    struct replay_end end = answered(1, "w", 20);

    end.has_usage = false;
    end.usage = (struct load_usage){.prompt_tokens = 0};
    end.chunks = 7;
    play(end);
    end.number = 2;
    end.has_usage = true; /* more cached than there is: an engine's error */
    end.usage = (struct load_usage){
        .prompt_tokens = 5, .cached_tokens = 9, .completion_tokens = 1};
    play(end);
    replay_count_result(&count, 0, &result);
    cr_expect_eq(result.prompt_tokens, 405);
    cr_expect_eq(result.output_tokens, 8);
    cr_expect_eq(result.cached_tokens, 5);
    cr_expect_eq(result.finished, 2);
}

Test(chaos_replay_count, balance_is_over_the_engines_that_there_are)
{
    struct replay_end late = answered(3, "b", 500);

    play(answered(0, "a", 20)); /* 1 to 65.1 ms */
    play(answered(1, "a", 30));
    play(answered(2, "b", 20));
    late.sent_us = 400000;
    play(late);
    play(answered(4, "a", 30));
    play(answered(5, "", 30));
    replay_count_result(&count, 4, &result);
    cr_expect_eq(result.peak, 3);
    cr_expect_eq(result.imbalance_permille, 3 * 1000 * 4 / 5);
}

Test(chaos_replay_count, a_body_is_a_completion_of_ids_that_models_know)
{
    static const uint32_t tokens[] = {0, 29999, 30000, UINT32_MAX};
    struct replay_request request = {.prompt_tokens = 4};
    struct buf out;

    buf_init(&out, 1000);
    replay_real_body(&request, tokens, "m", 3, &out);
    cr_assert(
        slice_equal(buf_slice(&out),
                    SLICE("{\"model\":\"m\",\"max_tokens\":3,\"temperature\":0,"
                          "\"ignore_eos\":true,\"stream\":true,"
                          "\"stream_options\":{\"include_usage\":true},"
                          "\"prompt\":[1000,30999,1000,18295]}")));
    buf_fini(&out);
}
