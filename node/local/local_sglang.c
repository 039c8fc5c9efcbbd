/*
 * SGLang's rules: what it makes of a chat before its template sees it.
 *
 * Its types keep the members that they know, in their own order; a function's
 * members come in the client's order since 0.5.23. What came from a user's
 * message is its content alone, and an answer at the end is handed to the
 * template as the user's.
 *
 * Releases before 0.5.23 hand over tools otherwise (the function alone, later a
 * whole tool in the types' order, with strict: false): there the first count
 * tells, and chats with tools are asked for.
 */
#include "node/local/local_chat_internal.h"

/* Between the texts of a message's parts, where its template wants a text. */
#define BETWEEN " "

static const struct json_value null = {.kind = JSON_NULL};

static struct json_value
or_null(const struct json_value *value)
{
    return value != NULL ? *value : null;
}

/* Content */

static struct json_value
join_parts(struct local_build *b, const struct json_value *content)
{
    struct slice *texts =
        arena_take(b->arena, (content->len + 1U) * sizeof *texts);
    bool is = true;

    if (texts == NULL) {
        (void)local_fail(b, "out of memory");
    }
    for (uint32_t i = 0; b->why == NULL && is && i < content->len; i++) {
        texts[i] = local_text(&content->as.items[i], "text", &is);
    }
    return b->why == NULL && is && content->len != 0
               ? local_join(b, texts, content->len, BETWEEN)
               : json_tree_text(SLICE(""));
}

static struct json_value
list_parts(struct local_build *b, const struct json_value *content)
{
    struct local_list list = local_list_new(b, content->len);
    bool is = false;

    for (uint32_t i = 0; b->why == NULL && i < content->len; i++) {
        local_push(
            b, &list,
            local_text_part(b, local_text(&content->as.items[i], "text", &is)));
    }
    return local_list_end(&list);
}

/* A tool's result becomes one text, whatever the template goes through. */
static struct json_value
make_content(struct local_chat *c, const struct json_value *content,
             bool is_result)
{
    bool is = true;

    if (content == NULL) {
        return json_tree_text(SLICE(""));
    }
    if (content->kind == JSON_STRING) {
        return *content;
    }
    if (content->kind != JSON_ARRAY) {
        (void)local_fail(c->b, "a message's content is no text and no list");
        return null;
    }
    for (uint32_t i = 0; is && i < content->len; i++) {
        const struct json_value *part = &content->as.items[i];
        (void)local_text(part, "text", &is);
        is = is && local_is(local_given(part, "type"), "text");
    }
    if (!is) {
        (void)local_fail(c->b, "a part of a message is no text");
    }
    return c->parts && !is_result ? list_parts(c->b, content)
                                  : join_parts(c->b, content);
}

/* Tool calls */

static struct json_value
make_call(struct local_build *b, const struct json_value *call)
{
    const struct json_value *function = local_given(call, "function");
    const struct json_value *arguments = local_given(function, "arguments");
    struct local_object inner = local_object_new(b, 2);
    struct local_object outer = local_object_new(b, 4);

    if (function == NULL) {
        (void)local_fail(b, "a tool call has no function");
    }
    local_put(b, &inner, "name", or_null(local_given(function, "name")));
    local_put(b, &inner, "arguments",
              arguments != NULL ? local_read_arguments(b, arguments) : null);
    local_put(b, &outer, "id", or_null(local_given(call, "id")));
    local_put(b, &outer, "index", or_null(local_given(call, "index")));
    local_put(b, &outer, "type", json_tree_text(SLICE("function")));
    local_put(b, &outer, "function", local_object_end(&inner));
    return local_object_end(&outer);
}

static void
put_calls(struct local_chat *c, struct local_object *to,
          const struct json_value *calls, bool answers)
{
    struct local_list list;

    if (calls == NULL) {
        return;
    }
    if (calls->kind != JSON_ARRAY || !answers) {
        (void)local_fail(c->b, "tool calls outside an answer");
        return;
    }
    c->tools = true;
    list = local_list_new(c->b, calls->len);
    for (uint32_t i = 0; c->b->why == NULL && i < calls->len; i++) {
        local_push(c->b, &list, make_call(c->b, &calls->as.items[i]));
    }
    local_put(c->b, to, "tool_calls", local_list_end(&list));
}

/* Messages */

static bool
is_role(const struct json_value *role)
{
    static const char *const known[] = {
        "user",     "assistant", "system",          "tool",
        "function", "developer", "latest_reminder", "root"};
    bool is = false;

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        is = is || local_is(role, known[i]);
    }
    return is;
}

static struct json_value
make_plain(struct local_build *b, struct json_value content)
{
    struct local_object to = local_object_new(b, 2);

    local_put(b, &to, "role", json_tree_text(SLICE("user")));
    local_put(b, &to, "content", content);
    return local_object_end(&to);
}

static struct json_value
make_message(struct local_chat *c, const struct json_value *message, bool last)
{
    static const char *const kept[] = {"tool_call_id", "name", "phase",
                                       "reasoning_content"};
    const struct json_value *role = local_given(message, "role");
    const struct json_value *given = local_given(message, "content");
    bool is_result = local_is(role, "tool");
    bool answers = local_is(role, "assistant");
    bool behind = c->parts && given != NULL && given->kind == JSON_ARRAY;
    struct local_object to = local_object_new(c->b, 7);
    struct json_value content;

    if (!is_role(role) || local_truth(local_given(message, "tools")) ||
        local_truth(local_given(message, "prefix"))) {
        (void)local_fail(c->b, "a message's role, or its own tools");
        return null;
    }
    content = make_content(c, given, is_result);
    c->tools = c->tools || is_result;
    if (local_is(role, "user") ||
        (answers && last && content.kind == JSON_STRING)) {
        return make_plain(c->b, content);
    }
    local_put(c->b, &to, "role", *role);
    if (!behind) {
        local_put(c->b, &to, "content", content);
    }
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        local_put_given(c->b, &to, message, kept[i]);
    }
    put_calls(c, &to, local_given(message, "tool_calls"), answers);
    if (behind) {
        local_put(c->b, &to, "content", content);
    }
    return local_object_end(&to);
}

static struct json_value
make_messages(struct local_chat *c, const struct json_value *messages)
{
    struct local_list list = local_list_new(c->b, messages->len);

    for (uint32_t i = 0; c->b->why == NULL && i < messages->len; i++) {
        local_push(
            c->b, &list,
            make_message(c, &messages->as.items[i], i + 1 == messages->len));
    }
    return local_list_end(&list);
}

/* Tools */

/* The members that the type knows, as they came; behind them null for what a
 * function must have and has not. */
static struct json_value
make_function(struct local_build *b, const struct json_value *function)
{
    static const char *const required[] = {"description", "parameters"};
    struct local_object to;

    if (local_given(function, "name") == NULL ||
        local_given(function, "defer_loading") != NULL) {
        (void)local_fail(b, "a tool is no function with a name");
        return null;
    }
    to = local_object_new(b, function->len + 2);
    for (uint32_t i = 0; i < function->len; i++) {
        const struct json_member *member = &function->as.members[i];
        if (local_is(&member->key, "name") ||
            local_is(&member->key, "description") ||
            local_is(&member->key, "parameters") ||
            (local_is(&member->key, "strict") &&
             member->value.kind != JSON_NULL)) {
            local_put_member(b, &to, member);
        }
    }
    for (size_t i = 0; i < sizeof required / sizeof required[0]; i++) {
        if (json_tree_get(function, slice_of(required[i])) == NULL) {
            local_put(b, &to, required[i], null);
        }
    }
    return local_object_end(&to);
}

static struct json_value
make_tool(struct local_build *b, const struct json_value *tool)
{
    const struct json_value *type = local_given(tool, "type");
    struct local_object whole = local_object_new(b, 3);

    if (local_given(tool, "defer_loading") != NULL) {
        (void)local_fail(b, "a tool that is loaded later");
    }
    local_put(b, &whole, "type",
              type != NULL ? *type : json_tree_text(SLICE("function")));
    local_put(b, &whole, "function",
              make_function(b, local_given(tool, "function")));
    local_put(b, &whole, "defer_loading", null);
    return local_object_end(&whole);
}

/* Those that may be called: none of them, all, or the one that is named. */
static void
put_tools(struct local_chat *c, struct local_object *to,
          const struct json_value *request)
{
    const struct json_value *tools = local_given(request, "tools");
    const struct json_value *choice = local_given(request, "tool_choice");
    bool named = false;
    struct slice name =
        local_text(local_given(choice, "function"), "name", &named);
    struct local_list list;

    if (tools == NULL || tools->kind != JSON_ARRAY ||
        local_is(choice, "none")) {
        return;
    }
    list = local_list_new(c->b, tools->len);
    for (uint32_t i = 0; c->b->why == NULL && i < tools->len; i++) {
        const struct json_value *tool = &tools->as.items[i];
        bool is = false;
        struct slice own =
            local_text(local_given(tool, "function"), "name", &is);
        if (!named || slice_equal(own, name)) {
            local_push(c->b, &list, make_tool(c->b, tool));
        }
    }
    if (list.count != 0) {
        c->tools = true;
        local_put(c->b, to, "tools", local_list_end(&list));
    }
}

struct json_value
local_sglang_make(struct local_chat *c, const struct json_value *request)
{
    const struct json_value *effort = local_given(request, "reasoning_effort");
    const struct json_value *arguments =
        local_given(request, "chat_template_kwargs");
    struct local_object to = local_object_new(c->b, 4);

    if (local_given(request, "input_ids") != NULL ||
        local_given(request, "reasoning") != NULL ||
        local_truth(local_given(request, "continue_final_message"))) {
        (void)local_fail(c->b, "ids, reasoning or a message to continue");
        return null;
    }
    local_put(c->b, &to, "messages",
              make_messages(c, local_given(request, "messages")));
    put_tools(c, &to, request);
    if (effort != NULL) {
        local_put(c->b, &to, "reasoning_effort", *effort);
        local_put(c->b, &to, "chat_template_kwargs",
                  local_make_arguments(c->b, ENGINE_SGLANG, arguments, effort));
    } else if (arguments != NULL) {
        local_put(c->b, &to, "chat_template_kwargs", *arguments);
    }
    return local_object_end(&to);
}
