/* Which streams may go on at another worker, and which word says why not. */
#include <criterion/criterion.h>
#include <string.h>

#include "node/route/resume_may.h"

#define LIMITS ((struct scan_limits){.depth_max = 16, .spans_max = 16})

static const char *
judged(enum scan_api api, const char *body, enum resume_rule rule)
{
    static struct scan_span spans[16];
    struct scan scan = {.spans = spans, .api = api};
    struct scan_limits limits = LIMITS;

    cr_assert_eq(scan_body(body, strlen(body), &limits, &scan), 0);
    return resume_pass_name(resume_judge(&scan, strlen(body), rule, true));
}

#define CHAT(more)                                              \
    judged(SCAN_API_CHAT,                                       \
           "{\"stream\":true,\"messages\":[{\"role\":\"user\"," \
           "\"content\":\"x\"}]" more "}",                      \
           RESUME_GREEDY)

Test(resume_may, a_stream_at_temperature_0_may)
{
    cr_assert_str_eq(CHAT(",\"temperature\":0"), "");
    cr_assert_str_eq(CHAT(",\"temperature\":0.5"), "sampled");
    cr_assert_str_eq(CHAT(""), "sampled");
    cr_assert_str_eq(CHAT(",\"temperature\":0,\"n\":2"), "several");
}

Test(resume_may, the_rule_says_whether_others_may)
{
    const char *chance = "{\"prompt\":\"x\",\"stream\":true}";

    cr_assert_str_eq(judged(SCAN_API_TEXT, chance, RESUME_OFF), "off");
    cr_assert_str_eq(judged(SCAN_API_TEXT, chance, RESUME_GREEDY), "sampled");
    cr_assert_str_eq(judged(SCAN_API_TEXT, chance, RESUME_ALWAYS), "");
    cr_assert_str_eq(judged(SCAN_API_GUESSED, chance, RESUME_ALWAYS), "");
}

Test(resume_may, what_has_no_text_to_go_on_with_may_not)
{
    cr_assert_str_eq(judged(SCAN_API_EMBEDDINGS,
                            "{\"input\":\"x\",\"stream\":true}", RESUME_ALWAYS),
                     "path");
    cr_assert_str_eq(judged(SCAN_API_TEXT, "{\"prompt\":\"x\"}", RESUME_ALWAYS),
                     "no_stream");
    cr_assert_str_eq(
        judged(SCAN_API_TEXT, "{\"prompt\":[\"x\",\"y\"],\"stream\":true}",
               RESUME_ALWAYS),
        "several");
    cr_assert_str_eq(judged(SCAN_API_RESPONSES,
                            "{\"input\":\"x\",\"previous_response_id\":\"r\","
                            "\"stream\":true}",
                            RESUME_ALWAYS),
                     "state");
}

Test(resume_may, a_large_request_is_not_kept)
{
    struct scan scan = {.api = SCAN_API_CHAT,
                        .shape = SCAN_MESSAGES,
                        .stream = true,
                        .n = 1,
                        .prompts = 1};

    cr_assert_eq(resume_judge(&scan, RESUME_REQUEST_MAX, RESUME_ALWAYS, true),
                 RESUME_MAY);
    cr_assert_eq(
        resume_judge(&scan, RESUME_REQUEST_MAX + 1, RESUME_ALWAYS, true),
        RESUME_LARGE);
    cr_assert_eq(resume_judge(&scan, 100, RESUME_ALWAYS, false),
                 RESUME_NO_RETRIES);
}

Test(resume_may, chats_go_on_where_the_engine_can_or_the_seam_shows_it)
{
    cr_assert(resume_suits(ENGINE_VLLM, SCAN_API_CHAT, false));
    cr_assert(resume_suits(ENGINE_SGLANG, SCAN_API_MESSAGES, false));
    cr_assert(resume_suits(ENGINE_OTHER, SCAN_API_CHAT, true));
    cr_assert(!resume_suits(ENGINE_OTHER, SCAN_API_CHAT, false));
    cr_assert(!resume_suits(ENGINE_TGI, SCAN_API_CHAT, true));
    cr_assert(resume_suits(ENGINE_TGI, SCAN_API_TEXT, false));
}

/* The member that a body is not continued for; NULL: it is. */
static const char *
member_of(enum scan_api api, const char *body)
{
    static char text[64];
    struct slice member;

    if (resume_keeps(slice_of(body), api, &member)) {
        return NULL;
    }
    cr_assert_lt(member.len, sizeof(text));
    memcpy(text, member.ptr, member.len);
    text[member.len] = '\0';
    return text;
}

#define ASK "\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]"

Test(resume_may, what_a_continuation_would_not_keep_is_named)
{
    cr_assert_null(member_of(SCAN_API_CHAT, "{" ASK ",\"tools\":[]}"));
    cr_assert_str_eq(
        member_of(SCAN_API_CHAT, "{" ASK ",\"tool_choice\":\"required\"}"),
        "tool_choice");
    cr_assert_str_eq(member_of(SCAN_API_CHAT, "{\"guided_json\":{}," ASK "}"),
                     "guided_json");
    cr_assert_str_eq(member_of(SCAN_API_CHAT, "{\"input_ids\":[1]," ASK "}"),
                     "input_ids");
    cr_assert_str_eq(member_of(SCAN_API_CHAT, "{}"), "messages");
    cr_assert_str_eq(member_of(SCAN_API_TEXT, "{\"prompt\":\"x\"}"),
                     "max_tokens");
    cr_assert_null(
        member_of(SCAN_API_TEXT, "{\"prompt\":\"x\",\"max_tokens\":9}"));
}
