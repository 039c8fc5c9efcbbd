/*
 * Requests of /v1/responses and /v1/messages as the chat requests that vLLM, or
 * SGLang, makes of them. What an engine keeps itself (earlier responses), calls
 * tools for, or prints differently from version to version is refused; of
 * SGLang also what it merges (turns of several items, several system prompts)
 * and thoughts, which it wraps as each model's parser wants.
 *
 * Source: vLLM 0.33, vllm/entrypoints/openai/responses/utils.py
 * (construct_input_messages) and vllm/entrypoints/anthropic/serving.py
 * (_convert_anthropic_to_openai_request); SGLang 0.5.23,
 * sglang/srt/entrypoints/openai/serving_responses.py (_make_request,
 * _construct_input_messages) and sglang/srt/entrypoints/anthropic/serving.py
 * (_convert_to_chat_completion_request).
 */
#include "node/local/local_chat_internal.h"
#include "node/scan/billing.h"

static struct json_value
text_value(const char *text)
{
    return json_tree_text(slice_of(text));
}

/* A message with room for more members, in its role. */
static struct local_object
begin_message(struct local_build *b, const char *role)
{
    struct local_object message = local_object_new(b, 5);

    local_put(b, &message, "role", text_value(role));
    return message;
}

static void
push_text(struct local_build *b, struct local_list *messages, const char *role,
          struct json_value content)
{
    struct local_object message = begin_message(b, role);

    local_put(b, &message, "content", content);
    local_push(b, messages, local_object_end(&message));
}

static struct json_value
make_call(struct local_build *b, struct json_value id, struct json_value name,
          struct json_value arguments)
{
    struct local_object function = local_object_new(b, 2);
    struct local_object call = local_object_new(b, 3);

    local_put(b, &function, "name", name);
    local_put(b, &function, "arguments", arguments);
    local_put(b, &call, "id", id);
    local_put(b, &call, "function", local_object_end(&function));
    local_put(b, &call, "type", text_value("function"));
    return local_object_end(&call);
}

static struct json_value
or_empty(const struct json_value *value)
{
    return value != NULL ? *value : text_value("");
}

/* /v1/responses */

static void
push_function_call(struct local_build *b, struct local_list *messages,
                   const struct json_value *item)
{
    struct local_object message = begin_message(b, "assistant");
    struct local_list calls = local_list_new(b, 1);

    local_push(b, &calls,
               make_call(b, or_empty(local_given(item, "call_id")),
                         or_empty(local_given(item, "name")),
                         or_empty(local_given(item, "arguments"))));
    local_put(b, &message, "tool_calls", local_list_end(&calls));
    local_push(b, messages, local_object_end(&message));
}

/* Whether vLLM adds the item to the answer before it, or takes of several parts
 * the first. */
static bool
is_merged(const struct local_list *messages, const struct json_value *item)
{
    const struct json_value *last =
        messages->count != 0 ? &messages->items[messages->count - 1] : NULL;
    const struct json_value *content = local_given(item, "content");
    bool calls = local_is(local_given(item, "type"), "function_call");
    bool answers = local_is(local_given(item, "role"), "assistant");
    bool after = local_is(local_given(last, "role"), "assistant");

    return (after && calls) ||
           (after && answers && local_given(last, "content") == NULL) ||
           (answers && content != NULL && content->kind == JSON_ARRAY &&
            content->len != 1);
}

static void
push_item(struct local_build *b, struct local_list *messages,
          const struct json_value *item)
{
    const struct json_value *type = local_given(item, "type");

    if (b->why == NULL && is_merged(messages, item)) {
        (void)local_fail(b, "items that become one message");
    } else if (local_is(type, "function_call")) {
        push_function_call(b, messages, item);
    } else if (local_is(type, "function_call_output")) {
        struct local_object message = begin_message(b, "tool");
        local_put(b, &message, "content",
                  or_empty(local_given(item, "output")));
        local_put(b, &message, "tool_call_id",
                  or_empty(local_given(item, "call_id")));
        local_push(b, messages, local_object_end(&message));
    } else if ((type == NULL || local_is(type, "message")) &&
               local_given(item, "status") == NULL) {
        local_push(b, messages, *item);
    } else {
        (void)local_fail(b, "an item of the input is no message");
    }
}

static void
push_input(struct local_build *b, struct local_list *messages,
           const struct json_value *input)
{
    if (input == NULL ||
        (input->kind != JSON_STRING && input->kind != JSON_ARRAY)) {
        (void)local_fail(b, "there is no input");
    } else if (input->kind == JSON_STRING) {
        push_text(b, messages, "user", *input);
    } else {
        for (uint32_t i = 0; b->why == NULL && i < input->len; i++) {
            push_item(b, messages, &input->as.items[i]);
        }
    }
}

/* What SGLang leaves of a list's items is the messages themselves, where none
 * is merged with another. */
static void
check_items(struct local_build *b, const struct json_value *request)
{
    const struct json_value *input = local_given(request, "input");
    uint32_t len = input != NULL && input->kind == JSON_ARRAY ? input->len : 0;
    bool answered = false;

    for (uint32_t i = 0; i < len; i++) {
        const struct json_value *item = &input->as.items[i];
        const struct json_value *role = local_given(item, "role");
        const struct json_value *content = local_given(item, "content");
        bool answers = local_is(role, "assistant");
        if ((!answers && !local_is(role, "user")) || (answers && answered) ||
            content == NULL || content->kind != JSON_STRING) {
            (void)local_fail(b, "items that become one message");
        }
        answered = answers;
    }
    if (local_given(request, "chat_template_kwargs") != NULL) {
        (void)local_fail(b, "arguments of the template");
    }
}

void
local_from_responses(struct local_build *b, enum engine_kind kind,
                     const struct json_value *request, struct json_value *out)
{
    const struct json_value *input = local_given(request, "input");
    const struct json_value *said = local_given(request, "instructions");
    const struct json_value *effort =
        local_given(local_given(request, "reasoning"), "effort");
    uint32_t room = input != NULL && input->kind == JSON_ARRAY ? input->len : 0;
    struct local_list messages = local_list_new(b, room + 2);
    struct local_object to = local_object_new(b, 3);

    if (local_given(request, "previous_response_id") != NULL ||
        local_given(request, "prompt") != NULL ||
        local_truth(local_given(request, "tools"))) {
        (void)local_fail(b, "an earlier response, or tools");
        return;
    }
    if (kind == ENGINE_SGLANG) {
        check_items(b, request);
    }
    if (local_truth(said)) {
        push_text(b, &messages, "system", *said);
    }
    push_input(b, &messages, input);
    local_put(b, &to, "messages", local_list_end(&messages));
    if (effort != NULL) {
        local_put(b, &to, "reasoning_effort", *effort);
    }
    local_put_given(b, &to, request, "chat_template_kwargs");
    *out = local_object_end(&to);
}

/* /v1/messages */

/* Texts that belong together, so many of them at most. */
struct texts {
    struct slice *at;
    uint32_t count;
};

static struct texts
begin_texts(struct local_build *b, uint32_t room)
{
    struct texts texts = {arena_take(b->arena, (room + 1U) * sizeof *texts.at),
                          0};

    if (texts.at == NULL) {
        (void)local_fail(b, "out of memory");
    }
    return texts;
}

static void
add_system_text(struct texts *texts, struct slice text, bool all)
{
    if (text.len != 0 && (all || !billing_begins(text))) {
        texts->at[texts->count++] = text;
    }
}

/* A text, or a list of blocks of text. */
static void
push_system(struct local_build *b, enum engine_kind kind,
            struct local_list *messages, const struct json_value *system)
{
    struct texts texts;
    bool is = false;

    if (system->kind == JSON_STRING) {
        push_text(b, messages, "system", *system);
        return;
    }
    if (system->kind != JSON_ARRAY) {
        (void)local_fail(b, "a system prompt is no text and no list");
        return;
    }
    texts = begin_texts(b, system->len);
    for (uint32_t i = 0; b->why == NULL && i < system->len; i++) {
        const struct json_value *block = &system->as.items[i];
        if (local_is(local_given(block, "type"), "text")) {
            add_system_text(&texts, local_text(block, "text", &is),
                            kind == ENGINE_SGLANG);
        }
    }
    if (b->why == NULL && texts.count != 0) {
        push_text(b, messages, "system",
                  local_join(b, texts.at, texts.count,
                             kind == ENGINE_SGLANG ? "\n" : ""));
    }
}

/* What one message is made of. */
struct blocks {
    struct local_list parts;
    struct local_list calls;
    struct texts thoughts;
    bool user;
};

/* A tool's result goes before the message that brings it. */
static void
push_result(struct local_build *b, struct local_list *messages,
            const struct json_value *block)
{
    const struct json_value *content = local_given(block, "content");
    struct local_object message = begin_message(b, "tool");
    struct texts texts = begin_texts(
        b, content != NULL && content->kind == JSON_ARRAY ? content->len : 0);
    struct json_value said = text_value("");
    bool is = false;

    if (content != NULL && content->kind == JSON_STRING) {
        said = *content;
    } else if (content != NULL && content->kind == JSON_ARRAY) {
        for (uint32_t i = 0; b->why == NULL && i < content->len; i++) {
            const struct json_value *item = &content->as.items[i];
            if (!local_is(local_given(item, "type"), "text")) {
                (void)local_fail(b, "a tool's result is no text");
                return;
            }
            texts.at[texts.count++] = local_text(item, "text", &is);
        }
        said = texts.count != 0 ? local_join(b, texts.at, texts.count, "\n")
                                : said;
    }
    local_put(b, &message, "tool_call_id",
              or_empty(local_given(block, "tool_use_id")));
    local_put(b, &message, "content", said);
    local_push(b, messages, local_object_end(&message));
}

static void
take_block(struct local_build *b, struct blocks *to,
           struct local_list *messages, const struct json_value *block)
{
    const struct json_value *type = local_given(block, "type");
    const struct json_value *input = local_given(block, "input");
    struct json_value empty = {.kind = JSON_OBJECT};
    bool is = false;

    if (local_is(type, "text")) {
        struct slice text = local_text(block, "text", &is);
        if (text.len != 0) {
            local_push(b, &to->parts, local_text_part(b, text));
        }
    } else if (local_is(type, "thinking")) {
        struct slice text = local_text(block, "thinking", &is);
        if (is) {
            to->thoughts.at[to->thoughts.count++] = text;
        }
    } else if (local_is(type, "tool_use") && local_given(block, "id") != NULL) {
        local_push(b, &to->calls,
                   make_call(b, *local_given(block, "id"),
                             or_empty(local_given(block, "name")),
                             local_truth(input) ? *input : empty));
    } else if (local_is(type, "tool_result") && to->user) {
        push_result(b, messages, block);
    } else if (!local_is(type, "redacted_thinking")) {
        (void)local_fail(b, "a block of a message is no text and no tool's");
    }
}

static void
put_blocks(struct local_build *b, struct local_object *message,
           const struct blocks *blocks)
{
    bool is = false;

    if (blocks->thoughts.count != 0) {
        local_put(
            b, message, "reasoning",
            local_join(b, blocks->thoughts.at, blocks->thoughts.count, ""));
    }
    if (blocks->calls.count != 0) {
        local_put(b, message, "tool_calls", local_list_end(&blocks->calls));
    }
    if (blocks->parts.count == 1) {
        local_put(
            b, message, "content",
            json_tree_text(local_text(&blocks->parts.items[0], "text", &is)));
    } else if (blocks->parts.count != 0) {
        local_put(b, message, "content", local_list_end(&blocks->parts));
    }
}

static void
push_message(struct local_build *b, struct local_list *messages,
             const struct json_value *given)
{
    const struct json_value *role = local_given(given, "role");
    const struct json_value *content = local_given(given, "content");
    struct local_object message = local_object_new(b, 4);
    struct blocks blocks = {.user = local_is(role, "user")};

    if ((!blocks.user && !local_is(role, "assistant")) || content == NULL) {
        (void)local_fail(b, "a message is neither the user's nor the "
                            "assistant's");
        return;
    }
    local_put(b, &message, "role", *role);
    if (content->kind == JSON_STRING) {
        local_put(b, &message, "content", *content);
        local_push(b, messages, local_object_end(&message));
        return;
    }
    if (content->kind != JSON_ARRAY) {
        (void)local_fail(b, "a message's content is no text and no list");
        return;
    }
    blocks.parts = local_list_new(b, content->len);
    blocks.calls = local_list_new(b, content->len);
    blocks.thoughts = begin_texts(b, content->len);
    for (uint32_t i = 0; b->why == NULL && i < content->len; i++) {
        take_block(b, &blocks, messages, &content->as.items[i]);
    }
    if (b->why == NULL) {
        put_blocks(b, &message, &blocks);
        if (!blocks.user || blocks.parts.count != 0) {
            local_push(b, messages, local_object_end(&message));
        }
    }
}

/* Every block of content may become a message of its own. */
static uint32_t
count_messages(const struct json_value *messages)
{
    uint32_t count = 1;

    for (uint32_t i = 0; i < messages->len; i++) {
        const struct json_value *content =
            local_given(&messages->as.items[i], "content");
        count +=
            1 +
            (content != NULL && content->kind == JSON_ARRAY ? content->len : 0);
    }
    return count;
}

/* Whether SGLang makes of a message's blocks what vLLM does. */
static void
check_blocks(struct local_build *b, const struct json_value *blocks)
{
    uint32_t len =
        blocks != NULL && blocks->kind == JSON_ARRAY ? blocks->len : 0;
    bool said = false;

    for (uint32_t i = 0; i < len; i++) {
        const struct json_value *block = &blocks->as.items[i];
        const struct json_value *type = local_given(block, "type");
        const struct json_value *content = local_given(block, "content");
        bool is_text = local_is(type, "text");
        bool is_result = local_is(type, "tool_result");
        if ((!is_text && !is_result && !local_is(type, "tool_use")) ||
            (is_text && !local_truth(local_given(block, "text"))) ||
            (is_result && said) ||
            (is_result && content != NULL && content->kind != JSON_STRING)) {
            (void)local_fail(b, "thoughts, empty texts, or results in parts");
        }
        said = said || is_text;
    }
}

static bool
is_blank(struct slice text)
{
    size_t at = 0;

    while (at < text.len && (unsigned char)text.ptr[at] <= ' ') {
        at++;
    }
    return text.len != 0 && at == text.len;
}

static void
check_messages(struct local_build *b, const struct json_value *request)
{
    static const char *const refused[] = {"thinking", "output_config",
                                          "chat_template_kwargs"};
    const struct json_value *given = local_given(request, "messages");
    bool is = false;

    if (is_blank(local_text(request, "system", &is))) {
        (void)local_fail(b, "a blank system prompt");
    }
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        if (local_given(request, refused[i]) != NULL) {
            (void)local_fail(b, "thinking, or arguments of the template");
        }
    }
    if (local_is(local_given(local_given(request, "tool_choice"), "type"),
                 "tool")) {
        (void)local_fail(b, "one of the tools alone");
    }
    for (uint32_t i = 0; i < given->len; i++) {
        check_blocks(b, local_given(&given->as.items[i], "content"));
    }
}

/* A schema that has no type is an object's. */
static struct json_value
make_schema(struct local_build *b, const struct json_value *schema)
{
    struct local_object to;

    if (schema->kind != JSON_OBJECT ||
        json_tree_get(schema, SLICE("type")) != NULL) {
        return *schema;
    }
    to = local_object_new(b, schema->len + 1);
    for (uint32_t i = 0; i < schema->len; i++) {
        local_put_member(b, &to, &schema->as.members[i]);
    }
    local_put(b, &to, "type", text_value("object"));
    return local_object_end(&to);
}

static struct json_value
make_tools(struct local_build *b, enum engine_kind kind,
           const struct json_value *tools)
{
    struct local_list list = local_list_new(b, tools->len);
    struct json_value null = {.kind = JSON_NULL};
    struct json_value no = {.kind = JSON_BOOL};

    for (uint32_t i = 0; b->why == NULL && i < tools->len; i++) {
        const struct json_value *tool = &tools->as.items[i];
        const struct json_value *about = local_given(tool, "description");
        const struct json_value *schema = local_given(tool, "input_schema");
        struct local_object function = local_object_new(b, 4);
        struct local_object whole = local_object_new(b, 3);
        if (schema == NULL) {
            (void)local_fail(b, "a tool is the engine's own");
        }
        if (kind != ENGINE_SGLANG &&
            (local_given(tool, "strict") != NULL ||
             local_given(tool, "defer_loading") != NULL)) {
            (void)local_fail(b, "a tool that is strict, or loaded later");
        }
        local_put(b, &function, "name", or_empty(local_given(tool, "name")));
        local_put(b, &function, "description",
                  about != NULL           ? *about
                  : kind == ENGINE_SGLANG ? text_value("")
                                          : null);
        local_put(b, &function, "parameters",
                  schema != NULL ? make_schema(b, schema) : null);
        if (kind == ENGINE_SGLANG) {
            const struct json_value *strict = local_given(tool, "strict");
            local_put(b, &function, "strict", strict != NULL ? *strict : no);
            local_put_given(b, &whole, tool, "defer_loading");
        }
        local_put(b, &whole, "type", text_value("function"));
        local_put(b, &whole, "function", local_object_end(&function));
        local_push(b, &list, local_object_end(&whole));
    }
    return local_list_end(&list);
}

void
local_from_messages(struct local_build *b, enum engine_kind kind,
                    const struct json_value *request, struct json_value *out)
{
    const struct json_value *given = local_given(request, "messages");
    const struct json_value *system = local_given(request, "system");
    const struct json_value *tools = local_given(request, "tools");
    const struct json_value *effort =
        local_given(local_given(request, "output_config"), "effort");
    struct local_object to = local_object_new(b, 5);
    struct local_list messages;

    if (given == NULL || given->kind != JSON_ARRAY) {
        (void)local_fail(b, "there are no messages");
        return;
    }
    if (kind == ENGINE_SGLANG) {
        check_messages(b, request);
    } else if (local_is(local_given(local_given(request, "thinking"), "type"),
                        "disabled")) {
        (void)local_fail(b,
                         "thinking is off, by an effort that engines choose");
    }
    messages = local_list_new(b, count_messages(given));
    if (local_truth(system)) {
        push_system(b, kind, &messages, system);
    }
    for (uint32_t i = 0; b->why == NULL && i < given->len; i++) {
        push_message(b, &messages, &given->as.items[i]);
    }
    local_put(b, &to, "messages", local_list_end(&messages));
    if (tools != NULL && tools->kind == JSON_ARRAY) {
        local_put(b, &to, "tools", make_tools(b, kind, tools));
    }
    if (local_is(local_given(local_given(request, "tool_choice"), "type"),
                 "none")) {
        local_put(b, &to, "tool_choice", text_value("none"));
    }
    if (effort != NULL) {
        local_put(b, &to, "reasoning_effort", *effort);
    }
    local_put_given(b, &to, request, "chat_template_kwargs");
    *out = local_object_end(&to);
}
