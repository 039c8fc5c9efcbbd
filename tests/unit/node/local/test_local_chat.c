/* What engines make of requests before the template sees them. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "node/local/local_chat_internal.h"
#include "node/template/template_chat.h"

/* The template shows all that it gets. */
#define SHOW "{{ messages | tojson }}|{{ tools | tojson }}"

struct made {
    char *text; /* NULL: refused */
    char why[200];
    bool tools;
};

enum api {
    CHAT,
    RESPONSES,
    MESSAGES
};

/* source: the template. */
static struct made
make_by(const char *source, enum engine_kind kind, enum api api, bool parts,
        const char *body)
{
    struct local_wish wish = {
        .parts = {parts, parts},
        .developer = strstr(source, "developer") != NULL,
    };
    struct arena arena;
    struct local_build b = {.arena = &arena};
    struct json_tree_fault fault;
    struct json_value request;
    struct json_value out;
    struct template_error error;
    struct template_limits limits = TEMPLATE_LIMITS;
    struct template_clock clock = {.year = 2026};
    struct made made = {.text = NULL};
    struct buf text;

    arena_init(&arena, (size_t)1 << 20);
    buf_init(&text, (size_t)1 << 20);
    cr_assert(json_tree_read(slice_of(body), &arena, &request, &fault), "%s",
              body);
    if (api == RESPONSES) {
        local_from_responses(&b, kind, &request, &request);
    } else if (api == MESSAGES) {
        local_from_messages(&b, kind, &request, &request);
    }
    if (b.why == NULL) {
        local_chat_rewrite(&b, local_rules_of(kind), &wish, &request, &out,
                           &made.tools);
    }
    if (b.why != NULL) {
        (void)snprintf(made.why, sizeof made.why, "%s", b.why);
    } else {
        struct template_chat *chat =
            template_chat_new(SLICE(""), slice_of(source), &error);
        cr_assert_not_null(chat);
        cr_assert(
            template_chat_render(chat, &out, &limits, &clock, &text, &error),
            "%s", error.text);
        made.text = strndup(text.ptr, text.len);
        template_chat_free(chat);
    }
    buf_fini(&text);
    arena_fini(&arena);
    return made;
}

static struct made
make(enum engine_kind kind, enum api api, bool parts, const char *body)
{
    return make_by(SHOW, kind, api, parts, body);
}

static void
shows(enum engine_kind kind, enum api api, const char *source, const char *body,
      const char *text)
{
    struct made made = make_by(source, kind, api, false, body);

    cr_assert_not_null(made.text, "%s", made.why);
    cr_expect_str_eq(made.text, text);
    free(made.text);
}

static void
becomes(enum engine_kind kind, enum api api, bool parts, const char *body,
        const char *text)
{
    struct made made = make(kind, api, parts, body);

    cr_assert_not_null(made.text, "%s", made.why);
    cr_expect_str_eq(made.text, text);
    free(made.text);
}

static void
is_refused_by(enum engine_kind kind, enum api api, const char *body,
              const char *why)
{
    struct made made = make(kind, api, false, body);

    cr_assert_null(made.text, "%s", made.text);
    cr_expect_str_eq(made.why, why);
}

static void
is_refused(enum api api, const char *body, const char *why)
{
    is_refused_by(ENGINE_VLLM, api, body, why);
}

#define USER(content) \
    "{\"messages\":[{\"role\":\"user\",\"content\":" content "}]}"

Test(local_chat, vllm_joins_texts_by_lines_where_the_template_wants_a_text)
{
    becomes(ENGINE_VLLM, CHAT, false,
            USER("[{\"type\":\"text\",\"text\":\"a\"},\"b\","
                 "{\"type\":\"input_text\",\"text\":\"c\"}]"),
            "[{\"role\": \"user\", \"content\": \"a\\nb\\nc\"}]|null");
}

Test(local_chat, vllm_joins_no_empty_texts)
{
    becomes(ENGINE_VLLM, CHAT, false,
            USER("[{\"type\":\"text\",\"text\":\"\"},\"a\",\"\","
                 "{\"type\":\"text\",\"text\":\"b\"},"
                 "{\"type\":\"refusal\",\"refusal\":\"\"}]"),
            "[{\"role\": \"user\", \"content\": \"a\\nb\"}]|null");
    becomes(ENGINE_VLLM, CHAT, true,
            USER("[{\"type\":\"text\",\"text\":\"\"}]"),
            "[{\"role\": \"user\", \"content\": [{\"type\": \"text\", "
            "\"text\": \"\"}]}]|null");
}

#define RESULT(content)                                      \
    "{\"messages\":[{\"role\":\"tool\",\"content\":" content \
    ",\"tool_call_id\":\"c\"}]}"
#define RESULT_SHOWN(text)                                                \
    "[{\"role\": \"tool\", \"content\": \"" text "\", \"tool_call_id\": " \
    "\"c\"}]|null"

Test(local_chat, vllm_makes_one_text_of_a_tools_result)
{
    static const char lines[] = "[{\"type\":\"text\",\"text\":\"a\"},\"\","
                                "{\"type\":\"text\",\"text\":\"b\"}]";
    char body[256];

    (void)snprintf(body, sizeof body, RESULT("%s"), lines);
    becomes(ENGINE_VLLM, CHAT, true, body, RESULT_SHOWN("a\\n\\nb"));
    becomes(ENGINE_VLLM, CHAT, false, body, RESULT_SHOWN("a\\nb"));
    becomes(ENGINE_VLLM, CHAT, true, RESULT("\"a\""), RESULT_SHOWN("a"));
    becomes(ENGINE_VLLM, CHAT, true, RESULT("null"), RESULT_SHOWN(""));
}

Test(local_chat, vllm_makes_parts_where_the_template_goes_through_them)
{
    becomes(ENGINE_VLLM, CHAT, true, USER("\"a\""),
            "[{\"role\": \"user\", \"content\": [{\"type\": \"text\", "
            "\"text\": \"a\"}]}]|null");
}

Test(local_chat, sglang_joins_texts_by_blanks_and_leaves_a_text_a_text)
{
    becomes(ENGINE_SGLANG, CHAT, false,
            USER("[{\"type\":\"text\",\"text\":\"a\"},"
                 "{\"type\":\"text\",\"text\":\"b\"}]"),
            "[{\"role\": \"user\", \"content\": \"a b\"}]|null");
    becomes(ENGINE_SGLANG, CHAT, true, USER("\"a\""),
            "[{\"role\": \"user\", \"content\": \"a\"}]|null");
}

Test(local_chat, members_that_vllm_does_not_know_are_left_out)
{
    becomes(ENGINE_VLLM, CHAT, false,
            "{\"messages\":[{\"content\":null,\"x\":1,\"name\":\"n\","
            "\"role\":\"user\",\"tool_calls\":[]}]}",
            "[{\"role\": \"user\", \"content\": \"\", \"name\": \"n\"}]|null");
}

Test(local_chat, tool_calls_have_the_types_order_and_read_arguments)
{
    becomes(ENGINE_VLLM, CHAT, false,
            "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{"
            "\"type\":\"function\",\"function\":{\"name\":\"f\","
            "\"arguments\":\"{\\\"b\\\": [1], \\\"a\\\": null}\"},\"id\":\"c\"}"
            "]},{\"role\":\"tool\",\"content\":\"r\",\"tool_call_id\":\"c\"}]}",
            "[{\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [{"
            "\"id\": \"c\", \"function\": {\"arguments\": {\"b\": [1], \"a\": "
            "null}, \"name\": \"f\"}, \"type\": \"function\"}]}, {\"role\": "
            "\"tool\", \"content\": \"r\", \"tool_call_id\": \"c\"}]|null");
}

Test(local_chat, empty_arguments_are_an_empty_object)
{
    becomes(ENGINE_VLLM, CHAT, false,
            "{\"messages\":[{\"role\":\"assistant\",\"content\":\"x\","
            "\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":"
            "\"\"}}]}]}",
            "[{\"role\": \"assistant\", \"content\": \"x\", \"tool_calls\": [{"
            "\"function\": {\"arguments\": {}, \"name\": \"f\"}, \"type\": "
            "\"function\"}]}]|null");
}

#define TOOLS                                                           \
    "{\"messages\":[],\"tools\":[{\"type\":\"function\",\"function\":{" \
    "\"strict\":true,\"name\":\"f\",\"parameters\":{\"z\":1,\"a\":2}}}]}"
#define FUNCTION                                                           \
    "{\"name\": \"f\", \"description\": null, \"parameters\": {\"z\": 1, " \
    "\"a\": 2}, \"strict\": true}"

Test(local_chat, tools_say_null_for_what_they_do_not_say)
{
    becomes(ENGINE_VLLM, CHAT, false, TOOLS,
            "[]|[{\"type\": \"function\", \"function\": " FUNCTION "}]");
}

/* SGLang's, as its own release 0.5.23 handed them to a template. */

Test(local_chat, sglang_hands_over_whole_tools_with_members_as_they_came)
{
    becomes(ENGINE_SGLANG, CHAT, false, TOOLS,
            "[]|[{\"type\": \"function\", \"function\": {\"strict\": true, "
            "\"name\": \"f\", \"parameters\": {\"z\": 1, \"a\": 2}, "
            "\"description\": null}, \"defer_loading\": null}]");
    becomes(ENGINE_SGLANG, CHAT, false,
            "{\"messages\":[],\"tools\":[{\"function\":{\"name\":\"f\","
            "\"x\":1,\"strict\":null,\"description\":\"d\"}}]}",
            "[]|[{\"type\": \"function\", \"function\": {\"name\": \"f\", "
            "\"description\": \"d\", \"parameters\": null}, "
            "\"defer_loading\": null}]");
}

#define TWO_TOOLS                                                 \
    "\"messages\":[],\"tools\":[{\"function\":{\"name\":\"f\"}}," \
    "{\"function\":{\"name\":\"g\"}}]"

Test(local_chat, sglang_hands_over_the_tools_that_may_be_called)
{
    becomes(ENGINE_SGLANG, CHAT, false,
            "{\"tool_choice\":\"none\"," TWO_TOOLS "}", "[]|null");
    becomes(ENGINE_SGLANG, CHAT, false,
            "{\"tool_choice\":{\"type\":\"function\",\"function\":{"
            "\"name\":\"g\"}}," TWO_TOOLS "}",
            "[]|[{\"type\": \"function\", \"function\": {\"name\": \"g\", "
            "\"description\": null, \"parameters\": null}, "
            "\"defer_loading\": null}]");
}

Test(local_chat, sglang_keeps_the_members_that_it_knows_in_its_order)
{
    becomes(ENGINE_SGLANG, CHAT, false,
            "{\"messages\":[{\"x\":1,\"reasoning\":\"r\","
            "\"reasoning_content\":\"t\",\"name\":\"n\",\"content\":null,"
            "\"role\":\"assistant\",\"tool_calls\":[{\"function\":{"
            "\"arguments\":\"{\\\"b\\\": 1}\",\"name\":\"f\"},"
            "\"id\":\"c\"}]},{\"role\":\"user\",\"content\":\"a\","
            "\"name\":\"n\"}]}",
            "[{\"thinking\": \"t\", \"role\": \"assistant\", \"content\": "
            "\"\", \"name\": \"n\", \"reasoning_content\": \"t\", "
            "\"tool_calls\": [{\"id\": \"c\", \"index\": null, \"type\": "
            "\"function\", \"function\": {\"name\": \"f\", \"arguments\": "
            "{\"b\": 1}}}]}, {\"role\": \"user\", \"content\": "
            "\"a\"}]|null");
}

Test(local_chat, sglang_makes_one_text_of_a_tools_result)
{
    becomes(ENGINE_SGLANG, CHAT, true,
            "{\"messages\":[{\"role\":\"tool\",\"content\":[{\"type\":"
            "\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}],"
            "\"tool_call_id\":\"c\"},{\"role\":\"user\",\"content\":[{"
            "\"type\":\"text\",\"text\":\"q\"}]}]}",
            "[{\"role\": \"tool\", \"tool_call_id\": \"c\", "
            "\"content\": \"a b\"}, {\"role\": \"user\", \"content\": "
            "[{\"type\": \"text\", \"text\": \"q\"}]}]|null");
}

Test(local_chat, an_answer_at_the_end_is_the_users_with_sglang)
{
    becomes(ENGINE_SGLANG, CHAT, false,
            "{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\"},{"
            "\"role\":\"assistant\",\"content\":\"b\",\"name\":\"n\"}]}",
            "[{\"role\": \"assistant\", \"content\": \"a\"}, {\"role\": "
            "\"user\", \"content\": \"b\"}]|null");
}

#define ARGUMENTS                                                     \
    "{{ reasoning_effort }}|{{ enable_thinking }}|{{ thinking }}|{{ " \
    "add_generation_prompt }}|{{ documents }}"

Test(local_chat, sglang_says_by_three_names_how_much_to_think)
{
    shows(ENGINE_SGLANG, CHAT, ARGUMENTS,
          "{\"messages\":[],\"reasoning_effort\":\"none\","
          "\"chat_template_kwargs\":{\"thinking\":true}}",
          "none|False|True|True|None");
}

Test(local_chat, vllm_says_by_two_names_how_much_to_think)
{
    shows(ENGINE_VLLM, CHAT, ARGUMENTS, "{\"messages\":[]}", "|||True|None");
    shows(ENGINE_VLLM, CHAT, ARGUMENTS,
          "{\"messages\":[],\"reasoning_effort\":\"none\"}",
          "none|False||True|None");
    shows(ENGINE_VLLM, CHAT, ARGUMENTS,
          "{\"messages\":[],\"reasoning_effort\":\"high\","
          "\"chat_template_kwargs\":{\"enable_thinking\":false,"
          "\"thinking\":1}}",
          "high|False|1|True|None");
    shows(ENGINE_VLLM, RESPONSES, ARGUMENTS,
          "{\"input\":\"a\",\"reasoning\":{\"effort\":\"low\"},"
          "\"chat_template_kwargs\":{\"thinking\":2}}",
          "low|True|2|True|None");
    shows(ENGINE_VLLM, MESSAGES, ARGUMENTS,
          "{\"messages\":[],\"output_config\":{\"effort\":\"max\"},"
          "\"thinking\":{\"type\":\"adaptive\"}}",
          "max|True||True|None");
}

/* chat_template_kwargs are the weaker ones, as far as the request says it. */
Test(local_chat, what_a_request_says_counts_more_than_arguments_with_vllm)
{
    shows(ENGINE_VLLM, CHAT, ARGUMENTS,
          "{\"messages\":[],\"reasoning_effort\":\"low\","
          "\"documents\":[{\"a\":1}],\"chat_template_kwargs\":{"
          "\"reasoning_effort\":\"high\",\"documents\":[{\"b\":1}],"
          "\"add_generation_prompt\":false}}",
          "low|True||True|[{'a': 1}]");
    shows(ENGINE_VLLM, CHAT, ARGUMENTS,
          "{\"messages\":[],\"add_generation_prompt\":false,"
          "\"chat_template_kwargs\":{\"reasoning_effort\":\"high\","
          "\"documents\":[{\"b\":1}]}}",
          "high|||False|[{'b': 1}]");
}

Test(local_chat, what_sglang_does_in_its_own_way_is_refused)
{
    static const struct {
        enum api api;
        const char *body;
        const char *why;
    } all[] = {
        {CHAT, USER("[{\"type\":\"input_text\",\"text\":\"a\"}]"),
         "a part of a message is no text"},
        {CHAT, "{\"messages\":[{\"role\":\"User\",\"content\":\"a\"}]}",
         "a message's role, or its own tools"},
        {CHAT, "{\"messages\":[],\"continue_final_message\":true}",
         "ids, reasoning or a message to continue"},
        {CHAT, "{\"messages\":[],\"reasoning\":{\"effort\":\"low\"}}",
         "ids, reasoning or a message to continue"},
        {CHAT,
         "{\"messages\":[],\"tools\":[{\"defer_loading\":true,"
         "\"function\":{\"name\":\"f\"}}]}",
         "a tool that is loaded later"},
        {RESPONSES, "{\"input\":[{\"role\":\"developer\",\"content\":\"a\"}]}",
         "items that become one message"},
        {RESPONSES,
         "{\"input\":[{\"role\":\"assistant\",\"content\":\"a\"},"
         "{\"role\":\"assistant\",\"content\":\"b\"}]}",
         "items that become one message"},
        {MESSAGES,
         "{\"messages\":[{\"role\":\"assistant\",\"content\":[{\"type\":"
         "\"thinking\",\"thinking\":\"t\"}]}]}",
         "thoughts, empty texts, or results in parts"},
        {MESSAGES, "{\"messages\":[],\"system\":\" \"}",
         "a blank system prompt"},
        {MESSAGES, "{\"messages\":[],\"thinking\":{\"type\":\"enabled\"}}",
         "thinking, or arguments of the template"},
        {MESSAGES,
         "{\"messages\":[],\"tool_choice\":{\"type\":\"tool\","
         "\"name\":\"f\"}}",
         "one of the tools alone"},
    };

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        is_refused_by(ENGINE_SGLANG, all[i].api, all[i].body, all[i].why);
    }
}

Test(local_chat, sglang_reads_messages_in_its_own_way)
{
    becomes(ENGINE_SGLANG, MESSAGES, false,
            "{\"system\":[{\"type\":\"text\",\"text\":"
            "\"x-anthropic-billing-header: 1\"},{\"type\":\"text\",\"text\":"
            "\"a\"}],\"tools\":[{\"name\":\"f\",\"strict\":true,"
            "\"input_schema\":{\"z\":1}}],\"messages\":[{\"role\":\"user\","
            "\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"t\","
            "\"content\":\"r\"},{\"type\":\"text\",\"text\":\"q\"}]}]}",
            "[{\"role\": \"system\", \"content\": "
            "\"x-anthropic-billing-header: 1\\na\"}, {\"role\": \"tool\", "
            "\"content\": \"r\", \"tool_call_id\": \"t\"}, {\"role\": "
            "\"user\", \"content\": \"q\"}]|[{\"type\": \"function\", "
            "\"function\": {\"name\": \"f\", \"description\": \"\", "
            "\"parameters\": {\"z\": 1, \"type\": \"object\"}, "
            "\"strict\": true}, "
            "\"defer_loading\": null}]");
    becomes(ENGINE_SGLANG, MESSAGES, false,
            "{\"tool_choice\":{\"type\":\"none\"},\"tools\":[{\"name\":"
            "\"f\",\"input_schema\":{}}],\"messages\":[]}",
            "[]|null");
}

Test(local_chat, responses_of_sglang_are_messages_one_by_one)
{
    becomes(ENGINE_SGLANG, RESPONSES, false,
            "{\"instructions\":\"s\",\"input\":[{\"role\":\"user\","
            "\"content\":\"u\"},{\"type\":\"message\",\"role\":"
            "\"assistant\",\"content\":\"a\"},{\"role\":\"user\","
            "\"content\":\"v\"}]}",
            "[{\"role\": \"system\", \"content\": \"s\"}, {\"role\": "
            "\"user\", \"content\": \"u\"}, {\"role\": \"assistant\", "
            "\"content\": \"a\"}, {\"role\": \"user\", \"content\": "
            "\"v\"}]|null");
}

Test(local_chat, an_engine_without_rules_has_vllms)
{
    cr_expect_eq(local_rules_of(ENGINE_TRTLLM), local_rules_of(ENGINE_VLLM));
    cr_expect_neq(local_rules_of(ENGINE_SGLANG), local_rules_of(ENGINE_VLLM));
}

/* An integer that stays text: longer than all that is behind it. */
#define BIG "123456789012345678901234567890"

Test(local_chat, what_is_not_known_is_refused)
{
    is_refused(CHAT, USER("[{\"type\":\"image_url\",\"image_url\":\"x\"}]"),
               "a part of a message is no text");
    is_refused(CHAT, USER("7"), "a message's content is no text and no list");
    is_refused(CHAT, "{\"messages\":[{\"content\":\"a\"}]}",
               "a message has no role");
    is_refused(CHAT, "{\"messages\":[],\"chat_template\":\"x\"}",
               "the request brings a template");
    is_refused(CHAT,
               "{\"messages\":[],\"chat_template_kwargs\":{"
               "\"chat_template\":\"x\"}}",
               "the request brings a template");
    is_refused(CHAT,
               "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{"
               "\"function\":{\"name\":\"f\",\"arguments\":\"{\"}}]}]}",
               "a tool call's arguments are not JSON, or null");
    is_refused(CHAT,
               "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{"
               "\"function\":{\"name\":\"f\",\"arguments\":\"null\"}}]}]}",
               "a tool call's arguments are not JSON, or null");
    is_refused(CHAT,
               "{\"messages\":[],\"tools\":[{\"function\":{\"name\":\"f\","
               "\"returns\":1}}]}",
               "a function has a member that is not known");
    is_refused(CHAT,
               "{\"messages\":[],\"tools\":[{\"defer_loading\":true,"
               "\"function\":{\"name\":\"f\"}}]}",
               "a tool that is loaded later");
    is_refused(MESSAGES,
               "{\"messages\":[],\"tools\":[{\"name\":\"f\",\"input_schema\":{}"
               ",\"strict\":true}]}",
               "a tool that is strict, or loaded later");
    is_refused(RESPONSES, "{\"input\":\"a\",\"previous_response_id\":\"r\"}",
               "an earlier response, or tools");
    is_refused(MESSAGES,
               "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":"
               "\"image\",\"source\":{}}]}]}",
               "a block of a message is no text and no tool's");
    is_refused(MESSAGES, "{\"system\":" BIG ",\"messages\":[]}",
               "a system prompt is no text and no list");
    is_refused(MESSAGES, "{\"system\":{\"a\":1},\"messages\":[]}",
               "a system prompt is no text and no list");
}

Test(local_chat, a_long_input_takes_no_room_for_messages)
{
    size_t len = 100000;
    char *body = malloc(len + 16);

    cr_assert_not_null(body);
    memset(body, 'a', len + 16);
    memcpy(body, "{\"input\":\"", 10);
    memcpy(body + len, "\"}", 3);
    struct made made = make(ENGINE_VLLM, RESPONSES, false, body);
    cr_expect_not_null(made.text, "%s", made.why);
    free(made.text);
    free(body);
}

Test(local_chat, responses_are_the_instructions_and_the_input)
{
    becomes(ENGINE_VLLM, RESPONSES, false,
            "{\"instructions\":\"s\",\"input\":\"u\"}",
            "[{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\", "
            "\"content\": \"u\"}]|null");
}

#define ITEMS(items) \
    "{\"input\":[{\"role\":\"user\",\"content\":\"u\"}," items "]}"
#define ITEM_CALL                                                   \
    "{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\"," \
    "\"arguments\""                                                 \
    ":\"\"}"
#define ITEM_ANSWER "{\"role\":\"assistant\",\"content\":\"a\"}"

Test(local_chat, items_that_vllm_makes_one_message_of_are_refused)
{
    static const char *const all[] = {
        ITEMS(ITEM_CALL "," ITEM_CALL),
        ITEMS(ITEM_ANSWER "," ITEM_CALL),
        ITEMS(ITEM_CALL "," ITEM_ANSWER),
        ITEMS("{\"role\":\"assistant\",\"content\":[\"a\",\"b\"]}"),
    };

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        is_refused(RESPONSES, all[i], "items that become one message");
    }
    becomes(ENGINE_VLLM, RESPONSES, false, ITEMS(ITEM_ANSWER "," ITEM_ANSWER),
            "[{\"role\": \"user\", \"content\": \"u\"}, {\"role\": "
            "\"assistant\", \"content\": \"a\"}, {\"role\": "
            "\"assistant\", \"content\": \"a\"}]|null");
}

Test(local_chat, a_tools_schema_without_a_type_is_an_objects)
{
    becomes(ENGINE_VLLM, MESSAGES, false,
            "{\"messages\":[],\"tools\":[{\"name\":\"f\","
            "\"input_schema\":{\"a\":1}},{\"name\":\"g\","
            "\"input_schema\":{\"type\":\"array\"}}]}",
            "[]|[{\"type\": \"function\", \"function\": {\"name\": "
            "\"f\", \"description\": null, \"parameters\": {\"a\": 1, "
            "\"type\": \"object\"}}}, {\"type\": \"function\", "
            "\"function\": {\"name\": \"g\", \"description\": null, "
            "\"parameters\": {\"type\": \"array\"}}}]");
}

Test(local_chat, a_tools_result_goes_before_the_message_that_brings_it)
{
    becomes(ENGINE_VLLM, MESSAGES, false,
            "{\"system\":[{\"type\":\"text\",\"text\":"
            "\"x-anthropic-billing-header: 1\"},{\"type\":\"text\",\"text\":"
            "\"a\"},{\"type\":\"text\",\"text\":\"b\"}],\"messages\":[{"
            "\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"q\"},"
            "{\"type\":\"tool_result\",\"tool_use_id\":\"t\",\"content\":"
            "\"r\"}]}]}",
            "[{\"role\": \"system\", \"content\": \"ab\"}, {\"role\": "
            "\"tool\", \"content\": \"r\", \"tool_call_id\": \"t\"}, {"
            "\"role\": \"user\", \"content\": \"q\"}]|null");
}

Test(local_chat, a_message_of_a_tools_result_alone_is_no_message)
{
    becomes(ENGINE_VLLM, MESSAGES, false,
            "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":"
            "\"tool_result\",\"tool_use_id\":\"t\"}]}]}",
            "[{\"role\": \"tool\", \"content\": \"\", \"tool_call_id\": "
            "\"t\"}]|null");
}

Test(local_chat, reasoning_that_is_no_text_is_refused)
{
    is_refused(CHAT,
               "{\"messages\":[{\"role\":\"assistant\",\"content\":\"a\","
               "\"reasoning\":{\"type\":\"prompt_embeds\",\"data\":\"AA\"}}]}",
               "a message's reasoning is no text");
}

#define DEVELOPERS                                             \
    "{\"messages\":[{\"role\":\"system\",\"content\":\"a\"},"  \
    "{\"role\":\"user\",\"content\":\"u\"},"                   \
    "{\"role\":\"developer\",\"content\":[{\"type\":\"text\"," \
    "\"text\":\"b\"},{\"type\":\"text\",\"text\":\"c\"}]}]}"

Test(local_chat, vllm_makes_a_developer_the_system_where_no_template_knows_it)
{
    becomes(ENGINE_VLLM, CHAT, false, DEVELOPERS,
            "[{\"role\": \"system\", \"content\": \"a\\n\\nb\\nc\"}, "
            "{\"role\": \"user\", \"content\": \"u\"}]|null");
    becomes(ENGINE_VLLM, CHAT, true, DEVELOPERS,
            "[{\"role\": \"system\", \"content\": \"a\\n\\nb\\nc\"}, "
            "{\"role\": \"user\", \"content\": [{\"type\": \"text\", "
            "\"text\": \"u\"}]}]|null");
    becomes(ENGINE_VLLM, CHAT, false,
            "{\"messages\":[{\"role\":\"developer\",\"content\":\"a\"}]}",
            "[{\"role\": \"system\", \"content\": \"a\"}]|null");
    shows(ENGINE_VLLM, CHAT, "{% set known = 'developer' %}" SHOW, DEVELOPERS,
          "[{\"role\": \"system\", \"content\": \"a\"}, "
          "{\"role\": \"user\", \"content\": \"u\"}, "
          "{\"role\": \"developer\", \"content\": \"b\\nc\"}]|null");
}

Test(local_chat, vllm_leaves_what_is_said_for_billing_out_of_system_prompts)
{
    becomes(ENGINE_VLLM, CHAT, false,
            "{\"messages\":[{\"role\":\"system\",\"content\":"
            "\"x-anthropic-billing-header: cch=1\\na\\nb\"}]}",
            "[{\"role\": \"system\", \"content\": \"a\\nb\"}]|null");
    becomes(ENGINE_VLLM, CHAT, true,
            "{\"messages\":[{\"role\":\"system\",\"content\":["
            "{\"type\":\"text\",\"text\":\"x-anthropic-billing-header: 1\"},"
            "{\"type\":\"text\",\"text\":\"a\"}]}]}",
            "[{\"role\": \"system\", \"content\": [{\"type\": \"text\", "
            "\"text\": \"a\"}]}]|null");
    becomes(ENGINE_VLLM, CHAT, false, USER("\"x-anthropic-billing-header\""),
            "[{\"role\": \"user\", \"content\": "
            "\"x-anthropic-billing-header\"}]|null");
    becomes(ENGINE_VLLM, MESSAGES, false,
            "{\"system\":\"x-anthropic-billing-header: cch=1\\na\","
            "\"messages\":[]}",
            "[{\"role\": \"system\", \"content\": \"a\"}]|null");
}

Test(local_chat, thinking_that_vllm_switches_off_is_refused)
{
    is_refused(MESSAGES,
               "{\"thinking\":{\"type\":\"disabled\"},\"messages\":[]}",
               "thinking is off, by an effort that engines choose");
    becomes(ENGINE_VLLM, MESSAGES, false,
            "{\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":1024},"
            "\"messages\":[{\"role\":\"user\",\"content\":\"u\"}]}",
            "[{\"role\": \"user\", \"content\": \"u\"}]|null");
}
