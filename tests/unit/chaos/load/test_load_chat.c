#include <criterion/criterion.h>
#include <jansson.h>

#include "chaos/load/load_chat_internal.h"

static struct load_chat chat;

static void
say(const char *role, const char *text)
{
    load_chat_open(&chat, role);
    buf_add_text(&chat.json, text);
    load_chat_close(&chat);
}

static json_t *
body(void)
{
    struct slice bytes = load_chat_body(&chat);
    json_t *json = json_loadb(bytes.ptr, bytes.len, 0, NULL);

    cr_assert_not_null(json, "%.*s", (int)bytes.len, bytes.ptr);
    return json;
}

Test(chaos_load_chat, a_body_is_a_streaming_chat_request)
{
    load_chat_init(&chat, 4096);
    load_chat_begin(&chat, "m/x", 64);
    say("user", "hello");
    json_t *json = body();
    cr_assert_str_eq(json_string_value(json_object_get(json, "model")), "m/x");
    cr_assert_eq(json_integer_value(json_object_get(json, "max_tokens")), 64);
    cr_assert(json_is_true(json_object_get(json, "stream")));
    cr_assert(json_is_true(json_object_get(
        json_object_get(json, "stream_options"), "include_usage")));
    cr_assert_eq(json_array_size(json_object_get(json, "messages")), 1);
    json_decref(json);
    load_chat_fini(&chat);
}

Test(chaos_load_chat, each_turn_starts_with_all_of_the_one_before)
{
    char before[4096];

    load_chat_init(&chat, 4096);
    load_chat_begin(&chat, "m", 1);
    say("system", "be nice");
    say("user", "hello");
    struct slice first = load_chat_body(&chat);
    cr_assert(slice_equal(first, load_chat_body(&chat)));
    memcpy(before, first.ptr, first.len - 2);
    size_t len = first.len - 2;
    say("assistant", "so \\\"nice\\\"");
    say("user", "bye");
    struct slice second = load_chat_body(&chat);
    cr_assert_eq(memcmp(second.ptr, before, len), 0);
    json_t *json = body();
    json_t *messages = json_object_get(json, "messages");
    cr_assert_eq(json_array_size(messages), 4);
    json_t *third = json_array_get(messages, 2);
    cr_assert_str_eq(json_string_value(json_object_get(third, "role")),
                     "assistant");
    cr_assert_str_eq(json_string_value(json_object_get(third, "content")),
                     "so \"nice\"");
    json_decref(json);
    load_chat_fini(&chat);
}

Test(chaos_load_chat, a_new_conversation_forgets_the_old_one)
{
    load_chat_init(&chat, 4096);
    for (int i = 0; i < 2; i++) {
        load_chat_begin(&chat, "m", 1);
        say("user", "hello");
        json_t *json = body();
        cr_assert_eq(json_array_size(json_object_get(json, "messages")), 1);
        json_decref(json);
    }
    load_chat_fini(&chat);
}

Test(chaos_load_chat, one_that_is_too_long_has_no_body_until_the_next)
{
    load_chat_init(&chat, 200);
    load_chat_begin(&chat, "m", 1);
    say("user", "hello");
    cr_assert_gt(load_chat_body(&chat).len, 0);
    for (int i = 0; i < 10; i++) {
        say("user", "hello again");
    }
    cr_assert_eq(load_chat_body(&chat).len, 0);
    say("user", "hello again");
    cr_assert_eq(load_chat_body(&chat).len, 0);
    load_chat_begin(&chat, "m", 1);
    say("user", "hello");
    cr_assert_gt(load_chat_body(&chat).len, 0);
    load_chat_fini(&chat);
}
