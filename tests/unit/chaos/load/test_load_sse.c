#include <criterion/criterion.h>
#include <string.h>

#include "chaos/load/load_sse.h"

#define CHUNK(content)                                                      \
    "data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{\"content\":" \
    "\"" content "\"},\"finish_reason\":null}]}\n\n"

static struct load_sse sse;

static void
setup(void)
{
    load_sse_init(&sse, 1000);
}

static void
teardown(void)
{
    load_sse_fini(&sse);
}

TestSuite(chaos_load_sse, .init = setup, .fini = teardown);

static int
feed(const char *text)
{
    return load_sse_feed(&sse, slice_of(text));
}

static bool
said(const char *text)
{
    return slice_equal(buf_slice(&sse.text), slice_of(text));
}

static const char whole[] =
    ": a comment\n\n"
    "event: chunk\r\n"
    "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\","
    "\"content\":\"\"}}]}\r\n\r\n" CHUNK("a \\\"b\\\" ")
        CHUNK("c") "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":12,"
                   "\"total_tokens\":14,\"completion_tokens\":2,"
                   "\"prompt_tokens_details\":{\"cached_tokens\":5}}}\n\n"
                   "data: [DONE]\n\n";

static void
assert_whole(void)
{
    cr_assert(said("a \\\"b\\\" c"));
    cr_assert_eq(sse.deltas, 2);
    cr_assert(sse.has_usage);
    cr_assert_eq(sse.usage.prompt_tokens, 12);
    cr_assert_eq(sse.usage.completion_tokens, 2);
    cr_assert_eq(sse.usage.cached_tokens, 5);
    cr_assert(sse.done);
    cr_assert_null(sse.fault);
}

Test(chaos_load_sse, an_answer_is_read_whole)
{
    cr_assert_eq(feed(whole), 0);
    assert_whole();
}

Test(chaos_load_sse, pieces_may_end_anywhere)
{
    for (size_t at = 0; at < sizeof(whole); at++) {
        load_sse_restart(&sse);
        cr_assert_eq(load_sse_feed(&sse, (struct slice){whole, at}), 0);
        cr_assert_eq(feed(whole + at), 0);
        assert_whole();
    }
    load_sse_restart(&sse);
    for (size_t at = 0; at < sizeof(whole) - 1; at++) {
        cr_assert_eq(load_sse_feed(&sse, (struct slice){whole + at, 1}), 0);
    }
    assert_whole();
}

Test(chaos_load_sse, a_completion_has_its_text_in_the_choice)
{
    cr_assert_eq(feed("data: {\"choices\":[{\"text\":\"a\",\"index\":0},"
                      "{\"text\":\"x\"}]}\n\n"
                      "data: {\"choices\":[{\"text\":\"\"}]}\n\n"
                      "data: {\"choices\":[{\"text\":\"b\"}]}\n\n"),
                 0);
    cr_assert(said("ab"));
    cr_assert_eq(sse.deltas, 2);
}

Test(chaos_load_sse, the_role_alone_is_not_a_token)
{
    cr_assert_eq(feed("data: {\"choices\":[{\"delta\":{\"role\":\"assistant\","
                      "\"content\":\"\"}}]}\n\n"),
                 0);
    cr_assert_eq(sse.deltas, 0);
    cr_assert_eq(feed(CHUNK("a")), 0);
    cr_assert_eq(sse.deltas, 1);
}

Test(chaos_load_sse, nulls_and_strangers_are_passed_over)
{
    cr_assert_eq(
        feed("data: {\"usage\":null,\"x\":{\"content\":\"no\"},\"choices\":["
             "{\"delta\":{\"content\":null,\"tool_calls\":[{\"content\":"
             "\"no\"}]}},{\"delta\":{\"content\":\"second\"}},7]}\n\n"
             "data: {\"choices\":null}\n\n"
             "data: {\"choices\":[{\"delta\":null,\"logprobs\":{}}]}\n\n"
             "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,"
             "\"prompt_tokens_details\":null,\"cached_tokens\":9}}\n\n"),
        0);
    cr_assert(said(""));
    cr_assert_not(sse.done);
    cr_assert_eq(sse.usage.prompt_tokens, 3);
    cr_assert_eq(sse.usage.cached_tokens, 0);
}

Test(chaos_load_sse, data_lines_of_an_event_are_joined)
{
    cr_assert_eq(feed("data:{\"choices\":[{\"delta\":\ndata: {\"content\":"
                      "\"a\"}}]}\n\n"),
                 0);
    cr_assert(said("a"));
    /* With a line end between them: this is not the end. */
    cr_assert_eq(feed("data: [DO\ndata: NE]\n\n"), LOAD_SSE_E_BAD);
    cr_assert_not(sse.done);
}

Test(chaos_load_sse, what_follows_the_end_is_ignored)
{
    cr_assert_eq(feed("data: [DONE]\n\ndata: nonsense\n\n"), 0);
    cr_assert(sse.done);
    cr_assert_eq(feed("data: nonsense\n\n"), 0);
}

Test(chaos_load_sse, an_event_without_its_empty_line_has_not_come)
{
    cr_assert_eq(feed("data: [DONE]\n"), 0);
    cr_assert_not(sse.done);
}

Test(chaos_load_sse, what_is_not_such_a_stream_is_refused_for_good)
{
    static const char *const bad[] = {
        "data: nonsense\n\n",
        "data: [1]\n\n",
        "data: \"DONE\"\n\n",
        "data: {\"choices\":[\n\n",
        "data: {\"choices\":[]}x\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"a}}]}\n\n",
        "data: {\"usage\":{\"prompt_tokens\":}}\n\n",
        "data: {\"error\":{\"message\":\"out of memory\"}}\n\n",
        "data:\n\n",
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        load_sse_restart(&sse);
        cr_assert_eq(feed(bad[i]), LOAD_SSE_E_BAD, "%s", bad[i]);
        cr_assert_not_null(sse.fault);
        cr_assert_eq(feed(CHUNK("a")), LOAD_SSE_E_BAD);
    }
}

Test(chaos_load_sse, text_lines_and_events_have_their_limits)
{
    static char line[4096];
    int r = 0;

    memset(line, 'a', sizeof(line) - 1);
    for (size_t n = 0; r == 0 && n < 2 * LOAD_SSE_EVENT_BYTES_MAX;
         n += sizeof(line)) {
        r = feed(line);
    }
    cr_assert_eq(r, LOAD_SSE_E_BAD);
    cr_assert_str_eq(sse.fault, "a line is too long");

    load_sse_restart(&sse);
    memcpy(line, "data:", 5);
    r = 0;
    for (size_t n = 0; r == 0 && n < 2 * LOAD_SSE_EVENT_BYTES_MAX;
         n += sizeof(line)) {
        r = feed(line) != 0 ? LOAD_SSE_E_BAD : feed("\n");
    }
    cr_assert_eq(r, LOAD_SSE_E_BAD);
    cr_assert_str_eq(sse.fault, "an event is too long");

    load_sse_restart(&sse);
    r = 0;
    for (int n = 0; r == 0 && n < 1000; n++) {
        r = feed(CHUNK("0123456789"));
    }
    cr_assert_eq(r, LOAD_SSE_E_BAD);
    cr_assert_str_eq(sse.fault, "the answer is too long");
    cr_assert_eq(sse.text.len, 1000);
}

Test(chaos_load_sse, another_answer_starts_afresh)
{
    cr_assert_eq(feed(whole), 0);
    load_sse_restart(&sse);
    cr_assert(said(""));
    cr_assert_not(sse.done);
    cr_assert_not(sse.has_usage);
    cr_assert_eq(feed(whole), 0);
    assert_whole();
}
