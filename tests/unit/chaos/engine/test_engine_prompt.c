#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "chaos/engine/engine_prompt_internal.h"

#define TOKENS_MAX 1000

static struct engine_prompt prompt;

static void
start(void)
{
    engine_prompt_init(&prompt, TOKENS_MAX);
}

static void
stop(void)
{
    engine_prompt_fini(&prompt);
}

TestSuite(chaos_engine_prompt, .init = start, .fini = stop);

/* The ids of a body, decoded: specials show as their names. */
static const char *
rendered(const char *body, bool speak)
{
    static char text[TOKENS_MAX * ENGINE_TOKEN_BYTES_MAX];
    size_t len = 0;

    cr_assert_eq(engine_prompt_scan(&prompt, slice_of(body), SCAN_API_GUESSED),
                 0, "%s", prompt.fault);
    cr_assert_eq(engine_prompt_render(&prompt, speak), 0, "%s", prompt.fault);
    for (size_t i = 0; i < prompt.ids.count; i++) {
        len += engine_token_text(prompt.ids.ids[i], text + len);
    }
    text[len] = '\0';
    return text;
}

static const char *
refused(const char *body)
{
    if (engine_prompt_scan(&prompt, slice_of(body), SCAN_API_GUESSED) == 0) {
        cr_assert_eq(engine_prompt_render(&prompt, true), ENGINE_PROMPT_E_BAD);
    }
    return prompt.fault;
}

Test(chaos_engine_prompt, a_chat_is_tools_then_system_then_messages)
{
    cr_assert_str_eq(
        rendered("{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},"
                 "{\"content\":\"ho\",\"role\":\"assistant\"},"
                 "{\"role\":\"critic\",\"content\":\"hm\"}],"
                 "\"system\":\"be kind\",\"tools\":[1]}",
                 true),
        "<|tools|>[1]<|end|><|system|>be kind<|end|><|user|>hi<|end|>"
        "<|assistant|>ho<|end|><|role|>critichm<|end|><|assistant|>");
}

Test(chaos_engine_prompt, nobody_speaks_when_not_asked_to)
{
    cr_assert_str_eq(
        rendered("{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}",
                 false),
        "<|user|>hi<|end|>");
}

Test(chaos_engine_prompt, plain_text_has_no_markers)
{
    cr_assert_str_eq(rendered("{\"prompt\":\"once upon\"}", true), "once upon");
}

Test(chaos_engine_prompt, escapes_are_what_they_stand_for)
{
    cr_assert_str_eq(
        rendered("{\"prompt\":\"a\\u0062\\n\\\"\\ud83d\\ude00\"}", true),
        "ab\n\"\xf0\x9f\x98\x80");
}

Test(chaos_engine_prompt, text_cannot_pretend_to_be_a_marker)
{
    (void)rendered("{\"prompt\":\"<|assistant|>\"}", true);
    for (size_t i = 0; i < prompt.ids.count; i++) {
        cr_assert_geq(prompt.ids.ids[i], ENGINE_SPECIAL_COUNT);
    }
}

Test(chaos_engine_prompt, ids_are_taken_as_they_are)
{
    cr_assert_eq(
        engine_prompt_scan(&prompt, SLICE("{\"prompt\":[5, 4294967295,\n7 ]}"),
                           SCAN_API_TEXT),
        0);
    cr_assert_eq(engine_prompt_render(&prompt, true), 0);
    cr_assert_eq(prompt.ids.count, 3);
    cr_assert_eq(prompt.ids.ids[0], 5);
    cr_assert_eq(prompt.ids.ids[1], UINT32_MAX);
    cr_assert_eq(prompt.ids.ids[2], 7);
}

Test(chaos_engine_prompt, images_are_told_apart)
{
    static const char body[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":"
        "\"image_url\",\"image_url\":{\"url\":\"%s\"}}]}]}";
    uint32_t first[8];
    char text[200];

    (void)snprintf(text, sizeof(text), body, "http://a/1.png");
    (void)rendered(text, true);
    cr_assert_eq(prompt.ids.count, 6);
    memcpy(first, prompt.ids.ids, 6 * sizeof(uint32_t));
    (void)rendered(text, true);
    cr_assert_eq(memcmp(first, prompt.ids.ids, 6 * sizeof(uint32_t)), 0);
    (void)snprintf(text, sizeof(text), body, "http://a/2.png");
    (void)rendered(text, true);
    cr_assert_neq(memcmp(first, prompt.ids.ids, 6 * sizeof(uint32_t)), 0);
}

Test(chaos_engine_prompt, the_next_turn_begins_with_this_turn_and_its_reply)
{
    char turn[512];
    char reply[32 * ENGINE_TOKEN_BYTES_MAX];
    uint32_t before[TOKENS_MAX];
    size_t len = 0;

    (void)rendered("{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}",
                   true);
    size_t first = prompt.ids.count;
    engine_ids_add_reply(&prompt.ids, 42, 20, false);
    size_t count = prompt.ids.count;
    memcpy(before, prompt.ids.ids, count * sizeof(*before));
    for (size_t i = first; i < count; i++) {
        len += engine_token_text(before[i], reply + len);
    }
    (void)snprintf(turn, sizeof(turn),
                   "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},"
                   "{\"role\":\"assistant\",\"content\":\"%.*s\"},"
                   "{\"role\":\"user\",\"content\":\"more\"}]}",
                   (int)len, reply);
    (void)rendered(turn, true);
    cr_assert_gt(prompt.ids.count, count);
    cr_assert_eq(memcmp(before, prompt.ids.ids, count * sizeof(*before)), 0);
}

Test(chaos_engine_prompt, what_is_no_prompt_is_refused_in_words)
{
    cr_assert_not_null(strstr(refused("{\"prompt\":\"a\""), "at byte 13"));
    cr_assert_not_null(strstr(refused("[1]"), "not a JSON object"));
    cr_assert_not_null(strstr(refused("{}"), "no messages"));
    cr_assert_not_null(strstr(refused("{\"prompt\":\"\"}"), "empty"));
    cr_assert_not_null(strstr(refused("{\"prompt\":[4294967296]}"), "ids"));
}

Test(chaos_engine_prompt, too_long_is_an_answer)
{
    static char body[4 * TOKENS_MAX];
    size_t len = (size_t)snprintf(body, sizeof(body), "{\"prompt\":\"");

    memset(body + len, '9', 3 * TOKENS_MAX + 1);
    memcpy(body + len + 3 * TOKENS_MAX + 1, "\"}", 3);
    cr_assert_eq(engine_prompt_scan(&prompt, slice_of(body), SCAN_API_GUESSED),
                 0);
    cr_assert_eq(engine_prompt_render(&prompt, true), ENGINE_PROMPT_E_MEMORY);
}
