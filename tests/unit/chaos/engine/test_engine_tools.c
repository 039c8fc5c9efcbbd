#include <criterion/criterion.h>
#include <stdio.h>

#include "chaos/engine/engine_tools_internal.h"

static struct engine_prompt prompt;

static void
start(void)
{
    engine_prompt_init(&prompt, 1000);
}

static void
stop(void)
{
    engine_prompt_fini(&prompt);
}

TestSuite(chaos_engine_tools, .init = start, .fini = stop);

/* "NAME(ARGUMENT)" of what is called; "" for words; "?" for what is refused. */
static const char *
called(const char *messages, const char *more)
{
    static char text[200];
    struct engine_tool tool;
    char body[1000];

    (void)snprintf(body, sizeof(body),
                   "{\"messages\":[%s],\"tools\":["
                   "{\"type\":\"function\",\"function\":{\"name\":\"get\"}},"
                   "{\"type\":\"function\",\"function\":{\"name\":\"get_all\","
                   "\"parameters\":{\"properties\":{\"of\":{}}}}}]%s}",
                   messages, more);
    cr_assert_eq(engine_prompt_scan(&prompt, slice_of(body), SCAN_API_CHAT), 0);
    if (engine_tools_choose(&prompt, &tool) != 0) {
        return "?";
    }
    if (tool.name.len == 0) {
        return "";
    }
    (void)snprintf(text, sizeof(text), "%.*s(%.*s)", (int)tool.name.len,
                   tool.name.ptr, (int)tool.argument.len, tool.argument.ptr);
    return text;
}

#define SAY(role, text) "{\"role\":\"" role "\",\"content\":\"" text "\"}"

Test(chaos_engine_tools, the_users_last_words_ask_for_it)
{
    cr_assert_str_eq(called(SAY("user", "now call get"), ""), "get(input)");
    cr_assert_str_eq(called(SAY("user", "call get_all, please"), ""),
                     "get_all(of)");
    cr_assert_str_eq(called(SAY("user", "call x, call get."), ""),
                     "get(input)");
    cr_assert_str_eq(called(SAY("user", "a\\ncall get\\n"), ""), "get(input)");
    cr_assert_str_eq(called(SAY("user", "call gets"), ""), "");
    cr_assert_str_eq(called(SAY("user", "get it"), ""), "");
    cr_assert_str_eq(called(SAY("user", "call "), ""), "");
    cr_assert_str_eq(called(SAY("system", "call get"), ""), "");
    cr_assert_str_eq(
        called(SAY("user", "call get") "," SAY("tool", "call get"), ""), "");
    cr_assert_str_eq(called(SAY("user", "call get") "," SAY("user", "no"), ""),
                     "");
    cr_assert_str_eq(
        called("{\"role\":\"user\",\"content\":[{\"type\":\"text\","
               "\"text\":\"a\"},{\"type\":\"text\",\"text\":"
               "\"call get\"}]}",
               ""),
        "get(input)");
}

Test(chaos_engine_tools, the_choice_is_the_requests)
{
    const char *hello = SAY("user", "hello");

    cr_assert_str_eq(called(hello, ",\"tool_choice\":\"auto\""), "");
    cr_assert_str_eq(called(hello, ",\"tool_choice\":\"required\""),
                     "get(input)");
    cr_assert_str_eq(
        called(SAY("user", "call get_all"), ",\"tool_choice\":\"required\""),
        "get_all(of)");
    cr_assert_str_eq(
        called(SAY("user", "call get"), ",\"tool_choice\":\"none\""), "");
    cr_assert_str_eq(called(hello, ",\"tool_choice\":{\"type\":\"function\","
                                   "\"function\":{\"name\":\"get_all\"}}"),
                     "get_all(of)");
    cr_assert_str_eq(called(hello, ",\"tool_choice\":{\"type\":\"function\","
                                   "\"function\":{\"name\":\"none\"}}"),
                     "?");
    cr_assert_str_eq(
        called(hello, ",\"tool_choice\":\"required\",\"tools\":[]"), "?");
    cr_assert_str_eq(called(hello, ",\"tools\":[7]"), "");
}
