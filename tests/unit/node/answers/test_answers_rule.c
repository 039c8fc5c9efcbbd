/* Which requests may be answered from the cache, and which answers are whole. */
#include <criterion/criterion.h>
#include <string.h>

#include "node/answers/answers_rule.h"

#define CHAT "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]"

static const char *
judged(enum scan_api api, const char *body, bool seeded)
{
    struct scan_span spans[64];
    struct scan_limits limits = {.depth_max = 64, .spans_max = 64};
    struct scan scan = {.spans = spans, .api = api};
    struct key_wide name;

    cr_assert_eq(scan_body(body, strlen(body), &limits, &scan), 0);
    return answers_pass_name(
        answers_judge(&scan, slice_of(body), seeded, 1, &name));
}

Test(answers_rule, a_generation_is_a_function_of_its_request_at_temperature_0)
{
    const char *cold = "{" CHAT ",\"temperature\":0}";
    const char *seed = "{" CHAT ",\"temperature\":1,\"seed\":5}";

    cr_expect_str_eq(judged(SCAN_API_CHAT, cold, false), "");
    cr_expect_str_eq(
        judged(SCAN_API_CHAT, "{" CHAT ",\"temperature\":0.0}", false), "");
    cr_expect_str_eq(judged(SCAN_API_CHAT, "{" CHAT "}", true), "sampled");
    cr_expect_str_eq(
        judged(SCAN_API_CHAT, "{" CHAT ",\"temperature\":0.1}", true),
        "sampled");
    cr_expect_str_eq(judged(SCAN_API_CHAT, seed, false), "sampled");
    cr_expect_str_eq(judged(SCAN_API_CHAT, seed, true), "");
    cr_expect_str_eq(judged(SCAN_API_CHAT, "{" CHAT ",\"seed\":null}", true),
                     "sampled");
    cr_expect_str_eq(judged(SCAN_API_MESSAGES, cold, false), "");
    cr_expect_str_eq(
        judged(SCAN_API_TEXT, "{\"prompt\":\"a\",\"temperature\":0}", false),
        "");
}

Test(answers_rule, embeddings_have_no_temperature)
{
    cr_expect_str_eq(judged(SCAN_API_EMBEDDINGS, "{\"input\":\"a\"}", false),
                     "");
    cr_expect_str_eq(judged(SCAN_API_EMBEDDINGS, "{\"input\":[1,2]}", false),
                     "");
    cr_expect_str_eq(judged(SCAN_API_OTHER, "{\"input\":\"a\"}", false),
                     "path");
}

Test(answers_rule, what_depends_on_more_than_the_request_is_passed_by)
{
    cr_expect_str_eq(judged(SCAN_API_RESPONSES,
                            "{\"input\":\"a\",\"temperature\":0}", false),
                     "state");
    cr_expect_str_eq(judged(SCAN_API_RESPONSES,
                            "{\"input\":\"a\",\"temperature\":0,"
                            "\"store\":false}",
                            false),
                     "");
    cr_expect_str_eq(judged(SCAN_API_RESPONSES,
                            "{\"input\":\"a\",\"temperature\":0,"
                            "\"store\":false,\"tools\":[{\"type\":\"mcp\"}]}",
                            false),
                     "state");
    cr_expect_str_eq(judged(SCAN_API_RESPONSES,
                            "{\"input\":\"a\",\"temperature\":0,"
                            "\"store\":false,"
                            "\"previous_response_id\":\"resp_1\"}",
                            false),
                     "state");
    cr_expect_str_eq(judged(SCAN_API_CHAT,
                            "{" CHAT ",\"temperature\":0,"
                            "\"web_search_options\":{}}",
                            false),
                     "state");
    cr_expect_str_eq(judged(SCAN_API_CHAT,
                            "{" CHAT ",\"temperature\":0,"
                            "\"session_params\":{\"id\":\"s\"}}",
                            false),
                     "state");
    cr_expect_str_eq(judged(SCAN_API_CHAT,
                            "{" CHAT ",\"temperature\":0,"
                            "\"session_params\":null}",
                            false),
                     "");
    cr_expect_str_eq(
        judged(SCAN_API_CHAT,
               "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":"
               "\"image_url\",\"image_url\":{\"url\":\"http://x\"}}]}],"
               "\"temperature\":0}",
               false),
        "media");
    cr_expect_str_eq(judged(SCAN_API_CHAT, "{\"temperature\":0}", false),
                     "shape");
    cr_expect_str_eq(
        judged(SCAN_API_CHAT, "{" CHAT ",\"temperature\":0,\"n\":1,\"n\":1}",
               false),
        "shape");
}

static const char *
unlike(enum scan_api api, const char *body, struct slice *raw)
{
    struct scan_span spans[64];
    struct scan_limits limits = {.depth_max = 64, .spans_max = 64};
    struct scan scan = {.spans = spans, .api = api};

    cr_assert_eq(scan_body(body, strlen(body), &limits, &scan), 0);
    return answers_unlike_name(
        answers_judge_question(&scan, slice_of(body), raw));
}

#define USER(text) "{\"role\":\"user\",\"content\":" text "}"

Test(answers_rule, a_question_is_the_only_text_of_the_only_turn)
{
    static const struct {
        const char *body, *question;
    } may[] = {
        {"{" CHAT "}", "Hi"},
        {"{\"messages\":[{\"role\":\"system\",\"content\":\"Be brief\"}," USER(
             "\"a\\nb\"") "]}",
         "a\\nb"},
        {"{\"messages\":[" USER("[{\"type\":\"text\",\"text\":\"x\"}]") "]}",
         "x"},
    };
    static const struct {
        const char *body, *why;
    } not [] = {
        {"{\"messages\":[" USER("\"\"") "]}", "turns"},
        {"{\"messages\":[" USER("\"a\"") "," USER("\"b\"") "]}", "turns"},
        {"{\"messages\":[" USER("\"a\"") ",{\"role\":\"assistant\",\"content\":"
                                         "\"b\"}," USER("\"c\"") "]}",
         "turns"},
        {"{\"messages\":[" USER("[{\"type\":\"text\",\"text\":\"x\"},{\"type\":"
                                "\"text\",\"text\":\"y\"}]") "]}",
         "turns"},
        {"{\"messages\":[" USER(
             "\"a\"") ",{\"role\":\"system\",\"content\":\"b\"}]}",
         "turns"},
        {"{" CHAT ",\"tools\":[{\"type\":\"function\"}]}", "tools"},
        {"{\"messages\":[{\"role\":\"user\"}," USER("\"b\"") "]}", "turns"},
        {"{\"prompt\":\"a\"}", "turns"},
    };
    struct slice raw = SLICE("");

    for (size_t i = 0; i < sizeof may / sizeof *may; i++) {
        cr_expect_str_eq(unlike(SCAN_API_CHAT, may[i].body, &raw), "");
        cr_expect(slice_equal(raw, slice_of(may[i].question)), "%.*s",
                  (int)raw.len, raw.ptr);
    }
    for (size_t i = 0; i < sizeof not / sizeof *not ; i++) {
        cr_expect_str_eq(unlike(SCAN_API_CHAT, not [i].body, &raw), not [i].why,
                         "%s", not [i].body);
    }
    cr_expect_str_eq(
        unlike(SCAN_API_MESSAGES, "{\"system\":\"s\"," CHAT "}", &raw), "");
    cr_expect_str_eq(unlike(SCAN_API_RESPONSES, "{\"input\":\"a\"}", &raw),
                     "path");
}

Test(answers_rule, clients_say_what_they_want_of_it)
{
    struct answers_control control = {.no_store = false};

    answers_control_read(SLICE("max-age=0, No-Cache"), &control);
    cr_assert(control.no_cache && !control.no_store);
    answers_control_read(SLICE("no-store"), &control);
    cr_assert(control.no_cache && control.no_store);
    control = (struct answers_control){.no_store = false};
    answers_control_read(SLICE("no-storefront,xno-cache,,"), &control);
    cr_assert(!control.no_cache && !control.no_store);
}

static bool
whole(enum scan_api api, bool stream, const char *body)
{
    return answers_is_whole(api, stream, slice_of(body));
}

Test(answers_rule, an_answer_is_whole_once_it_has_finished)
{
    enum scan_api chat = SCAN_API_CHAT;

    cr_expect(whole(chat, false,
                    "{\"choices\":[{\"message\":{},"
                    "\"finish_reason\":\"stop\"}]}"));
    cr_expect(
        whole(chat, false, "{\"choices\":[{\"finish_reason\":\"length\"}]}"));
    cr_expect_not(
        whole(chat, false, "{\"choices\":[{\"finish_reason\":null}]}"));
    cr_expect_not(
        whole(chat, false, "{\"choices\":[{\"finish_reason\":\"abort\"}]}"));
    cr_expect_not(whole(chat, false,
                        "{\"error\":{},\"choices\":[{\"finish_reason\":"
                        "\"stop\"}]}"));
    cr_expect_not(whole(chat, false, "{\"object\":\"error\"}"));
    cr_expect_not(
        whole(chat, false, "{\"choices\":[{\"finish_reason\":\"stop\"}]"));
    cr_expect_not(
        whole(chat, false, "{\"x\":\"\\\"finish_reason\\\":\\\"stop\\\"\"}"));
    cr_expect_not(whole(chat, false, ""));
    cr_expect(whole(SCAN_API_EMBEDDINGS, false, "{\"data\":[]}"));
    cr_expect_not(whole(SCAN_API_EMBEDDINGS, false, "{\"error\":\"x\"}"));
    cr_expect(
        whole(SCAN_API_MESSAGES, false, "{\"stop_reason\":\"end_turn\"}"));
    cr_expect_not(whole(SCAN_API_MESSAGES, false, "{\"stop_reason\":null}"));
    cr_expect(whole(SCAN_API_RESPONSES, false,
                    "{\"error\":null,\"status\":\"completed\"}"));
    cr_expect_not(whole(SCAN_API_RESPONSES, false, "{\"status\":\"queued\"}"));
    cr_expect_not(
        whole(SCAN_API_RESPONSES, false, "{\"status\":\"incomplete\"}"));
}

#define PART "data: {\"choices\":[{\"delta\":{},\"finish_reason\":null}]}\n\n"
#define LAST "data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\n"
#define DONE "data: [DONE]\n\n"

Test(answers_rule, a_stream_is_whole_with_its_last_event)
{
    enum scan_api chat = SCAN_API_CHAT;

    cr_expect(whole(chat, true, PART LAST DONE));
    cr_expect_not(whole(chat, true, PART DONE));
    cr_expect_not(whole(chat, true, PART LAST));
    cr_expect_not(whole(chat, true, PART LAST DONE PART));
    cr_expect_not(whole(chat, true, PART LAST "data: [DONE]\n"));
    cr_expect_not(whole(chat, true, PART "data: {\"error\":{}}\n\n" LAST DONE));
    cr_expect_not(whole(chat, true, PART "data: {\"choi\n\n" LAST DONE));
    cr_expect_not(
        whole(chat, true,
              "data: {\"choices\":[{\"finish_reason\":\"abort\"}]}\n\n" DONE));
    cr_expect_not(whole(chat, true, ""));
    cr_expect_not(whole(SCAN_API_EMBEDDINGS, true, PART LAST DONE));
}

#define DELTA                      \
    "event: message_delta\ndata: " \
    "{\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n"
#define STOP "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
#define COMPLETED                 \
    "event: response.completed\n" \
    "data: {\"response\":{\"status\":\"completed\"}}\n\n"

Test(answers_rule, each_api_has_its_last_event)
{
    cr_expect(whole(SCAN_API_MESSAGES, true, DELTA STOP));
    cr_expect_not(whole(SCAN_API_MESSAGES, true, DELTA));
    cr_expect_not(whole(SCAN_API_MESSAGES, true, STOP));
    cr_expect_not(whole(SCAN_API_MESSAGES, true,
                        DELTA "event: error\ndata: {\"type\":\"x\"}\n\n" STOP));
    cr_expect(whole(
        SCAN_API_RESPONSES, true,
        "event: response.created\n"
        "data: {\"response\":{\"status\":\"in_progress\"}}\n\n" COMPLETED));
    cr_expect(whole(SCAN_API_RESPONSES, true, COMPLETED DONE));
    cr_expect_not(whole(SCAN_API_RESPONSES, true,
                        "event: response.incomplete\ndata: {}\n\n"));
    cr_expect_not(whole(SCAN_API_RESPONSES, true, DONE));
}
