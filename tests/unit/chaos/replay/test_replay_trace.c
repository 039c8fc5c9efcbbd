#include <stdio.h>

#include "chaos/replay/replay_trace.h"
#include "tests/unit/chaos/replay/load_rig.h"

static struct replay_fault fault;

TestSuite(chaos_replay_trace, .init = setup, .fini = teardown);

static int
read_text(const char *text)
{
    return replay_trace_read(slice_of(text), &load, &fault);
}

static void
must_read(const char *text, uint32_t count)
{
    cr_assert_eq(read_text(text), 0, "line %u: %s", fault.line, fault.text);
    cr_assert_eq(load.count, count);
}

/* A bad trace names its line, and why. */
static void
must_refuse(const char *text, uint32_t line, const char *why)
{
    struct replay_limits limits = REPLAY_LIMITS_DEFAULT;

    replay_load_fini(&load);
    replay_load_init(&load, &limits);
    cr_assert_eq(read_text(text), REPLAY_TRACE_E_BAD, "%s", text);
    cr_expect_eq(fault.line, line, "%s: line %u", text, fault.line);
    cr_expect_str_eq(fault.text, why);
}

#define ROW(time, in, out, ids)                         \
    "{\"timestamp\": " #time ", \"input_length\": " #in \
    ", \"output_length\": " #out ", \"hash_ids\": [" ids "]}\n"

Test(chaos_replay_trace, hashes_become_blocks_of_512_tokens)
{
    must_read(ROW(1500, 1100, 7, "0, 1, 2") "\n" ROW(1000, 600, 0, "0, 9"), 2);
    /* In order of time, from the first. */
    cr_assert_eq(load.requests[0].at_us, 0);
    cr_assert_eq(load.requests[1].at_us, 500000);
    cr_assert_eq(load.requests[0].prompt_tokens, 600);
    cr_assert_eq(load.requests[0].output_tokens, 1);
    cr_assert_eq(load.requests[1].prompt_tokens, 1100);
    cr_assert_eq(load.requests[1].output_tokens, 7);
    cr_assert_eq(load.runs[load.requests[0].runs_from].text,
                 load.runs[load.requests[1].runs_from].text);
    cr_assert_eq(load.runs[load.requests[1].runs_from + 2].tokens, 76);
    cr_assert_eq(sharing(512), 333);
}

Test(chaos_replay_trace, bad_hashes_are_named_by_line)
{
    const char *good = ROW(0, 600, 1, "0, 1");
    char text[1024];
    static const struct {
        const char *line;
        const char *why;
    } bad[] = {
        {ROW(0, 600, 1, "0"), "fewer hash_ids than input_length"},
        {ROW(0, 600, 1, "0, 1, 2"), "more hash_ids than input_length"},
        {ROW(0, 600, 1, "0, x"), "a hash id is not a number"},
        {ROW(0, 600, 1, "0, -1"), "a hash id is not a number"},
        {ROW(-3, 600, 1, "0, 1"), "expected a number of 0 or more"},
        {ROW(0, "600", 1, "0, 1"), "expected a number of 0 or more"},
        {ROW(0, 0, 1, ""), "the prompt is empty"},
        {"{\"input_length\": 5, \"hash_ids\": [1]}",
         "timestamp or hash_ids is missing"},
        {"[]", "not a JSON object"},
        {"{\"timestamp\": 5, ", "not JSON"},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        (void)snprintf(text, sizeof(text), "%s\n%s", good, bad[i].line);
        must_refuse(text, 3, bad[i].why);
    }
}

Test(chaos_replay_trace, lengths_have_dates_and_share_nothing)
{
    must_read("TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
              "2023-11-16 18:15:46.6805900,374,44\r\n"
              "2023-11-17 00:15:46.7805900,396,109\r\n",
              2);
    cr_assert_eq(load.requests[1].at_us, UINT64_C(6) * 3600 * 1000000 + 100000);
    cr_assert_eq(load.requests[0].prompt_tokens, 374);
    cr_assert_eq(load.requests[1].output_tokens, 109);
    cr_assert_eq(sharing(16), 0);
}

/* Leap days, and that a century is none. */
Test(chaos_replay_trace, days_are_counted_by_the_calendar)
{
    must_read("TIMESTAMP,a,b\n2024-02-28 00:00:00,1,1\n"
              "2024-03-01 00:00:00,1,1\n",
              2);
    uint64_t day_us = UINT64_C(86400000000);
    cr_assert_eq(load.requests[1].at_us, 2 * day_us);
    teardown();
    setup();
    must_read("TIMESTAMP,a,b\n2100-02-28 00:00:00,1,1\n"
              "2100-03-01 00:00:00,1,1\n",
              2);
    cr_assert_eq(load.requests[1].at_us, day_us);
}

Test(chaos_replay_trace, bad_lengths_are_named_by_line)
{
    must_refuse("TIMESTAMP,a,b\nyesterday,1,2\n", 2,
                "expected YYYY-MM-DD HH:MM:SS");
    must_refuse("TIMESTAMP,a,b\n2024-13-01 00:00:00,1,1\n", 2,
                "expected YYYY-MM-DD HH:MM:SS");
    must_refuse("TIMESTAMP,a,b\n2024-02-28 00:00:00,1\n", 2,
                "expected two numbers");
    must_refuse("TIMESTAMP,a,b\n2024-02-28 00:00:00,1,1,1\n", 2,
                "expected two numbers");
    must_refuse("TIMESTAMP,a,b\n2024-01-01 00:00:00,1,1\n"
                "2024-02-02 00:00:00,1,1\n",
                3, "the trace is longer than 31 days");
    must_refuse("TIMESTAMP,a,b\n", 1, "the trace has no requests");
}

#define A64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B64 "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

Test(chaos_replay_trace, sessions_share_where_their_texts_do)
{
    must_read("{\"timestamp\": 1000, \"input\": \"" A64
              "xyz\\n\", \"output\": \"12345\", \"session_id\": \"s\"}\n"
              "{\"output\": \"\", \"input\": \"" A64 B64
              "\", \"timestamp\": 4000}\n",
              2);
    cr_assert_eq(load.requests[1].at_us, 3000);
    cr_assert_eq(load.requests[0].prompt_tokens, 17);
    cr_assert_eq(load.requests[0].output_tokens, 2);
    cr_assert_eq(load.requests[1].prompt_tokens, 32);
    cr_assert_eq(load.requests[1].output_tokens, 1);
    cr_assert_eq(sharing(16), 333);
}

Test(chaos_replay_trace, bad_sessions_are_named_by_line)
{
    must_refuse("{\"input\": \"a\"}\n", 1, "timestamp or input is missing");
    must_refuse("{\"input\": 5}\n", 1, "expected text");
    must_refuse("{\"input\": \"a\\u0000b\", \"timestamp\": 1}\n", 1,
                "the text contains a NUL");
    must_refuse("{\"input\": \"\", \"timestamp\": 1}\n", 1,
                "the prompt is empty");
}

Test(chaos_replay_trace, each_answer_of_a_dialogue_is_a_request)
{
    must_read("{\"traj\": [{\"role\": \"system\", \"content\": \"" A64
              "\"}, {\"role\": \"user\", \"content\": \"hello\"}, "
              "{\"content\": null, \"role\": \"assistant\", \"tool_calls\": "
              "[{\"a\": 1}]}, {\"role\": \"tool\", \"content\": \"" B64
              "\"}, {\"role\": \"assistant\", \"content\": \"done\"}]}\n"
              "{\"task_id\": 3, \"traj\": [{\"role\": \"user\", \"content\": "
              "\"hi\"}, {\"role\": \"assistant\", \"content\": \"ho\"}]}\n",
              3);
    cr_assert_eq(load.requests[1].after, 0);
    cr_assert_eq(load.requests[1].at_us, REPLAY_PAUSE_US);
    cr_assert_eq(load.requests[2].after, REPLAY_NONE);
    cr_assert_eq(load.requests[2].at_us, REPLAY_DIALOGUE_US);
    cr_assert_gt(load.requests[1].prompt_tokens,
                 load.requests[0].prompt_tokens);
    cr_assert_eq(load.runs[load.requests[0].runs_from].text,
                 load.runs[load.requests[1].runs_from].text);
}

Test(chaos_replay_trace, bad_dialogues_are_named_by_line)
{
    must_refuse("{\"traj\": 5}\n", 1, "traj is not a list");
    must_refuse("{\"traj\": [5]}\n", 1, "a message is not an object");
    must_refuse("{\"traj\": [{\"role\": 5}]}\n", 1, "a role is not text");
    must_refuse("{\"traj\": []}\n", 1, "the trace has no requests");
}

Test(chaos_replay_trace, what_is_no_trace_is_refused)
{
    must_refuse("", 0, "the trace has no requests");
    must_refuse("hello\n", 1, "unknown kind of trace; see --help");
    must_refuse("{\"a\": 1}\n", 1, "unknown kind of trace; see --help");
}
