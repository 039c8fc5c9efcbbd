/* A chat request as an engine hands it to its template. */
#include "node/local/local_chat_internal.h"

/* Between the texts of a message's parts, where its template wants a text. */
#define BETWEEN "\n"

/* Content */

/* The text of a part. False: it has none (and is passed over), or the builder
 * has failed. */
static bool
read_part(struct local_build *b, const struct json_value *part,
          struct slice *text)
{
    static const char *const kinds[][2] = {
        {"text", "text"},         {"input_text", "text"},
        {"output_text", "text"},  {"refusal", "refusal"},
        {"thinking", "thinking"},
    };
    const struct json_value *type = local_given(part, "type");
    bool is = false;

    if (part->kind == JSON_STRING) {
        *text = json_tree_slice(part);
        return true;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (local_is(type, kinds[i][0])) {
            *text = local_text(part, kinds[i][1], &is);
            return is;
        }
    }
    return local_fail(b, "a part of a message is no text");
}

/* Parts as one text. */
static struct json_value
join_parts(struct local_chat *c, const struct json_value *content)
{
    struct slice *texts =
        arena_take(c->b->arena, (content->len + 1U) * sizeof *texts);
    uint32_t count = 0;

    if (texts == NULL) {
        (void)local_fail(c->b, "out of memory");
    }
    for (uint32_t i = 0; c->b->why == NULL && i < content->len; i++) {
        count += read_part(c->b, &content->as.items[i], &texts[count]);
    }
    if (c->b->why != NULL || count == 0) {
        return json_tree_text(SLICE(""));
    }
    return local_join(c->b, texts, count, BETWEEN);
}

static struct json_value
list_parts(struct local_chat *c, const struct json_value *content)
{
    struct local_list list = local_list_new(c->b, content->len);
    struct slice text;

    for (uint32_t i = 0; c->b->why == NULL && i < content->len; i++) {
        if (read_part(c->b, &content->as.items[i], &text)) {
            local_push(c->b, &list, local_text_part(c->b, text));
        }
    }
    return local_list_end(&list);
}

/* A text becomes a part where the template wants parts. */
static struct json_value
make_content(struct local_chat *c, const struct json_value *content)
{
    struct json_value none = {.kind = JSON_ARRAY};

    if (content == NULL) {
        content = &none;
    }
    if (content->kind == JSON_STRING && !c->parts) {
        return *content;
    }
    if (content->kind == JSON_STRING) {
        struct local_list list = local_list_new(c->b, 1);
        local_push(c->b, &list,
                   local_text_part(c->b, json_tree_slice(content)));
        return local_list_end(&list);
    }
    if (content->kind != JSON_ARRAY) {
        (void)local_fail(c->b, "a message's content is no text and no list");
        return none;
    }
    return c->parts ? list_parts(c, content) : join_parts(c, content);
}

/* Tool calls */

struct json_value
local_read_arguments(struct local_build *b, const struct json_value *given)
{
    struct json_value read = {.kind = JSON_OBJECT};
    struct json_tree_fault fault;

    if (!local_truth(given)) {
        return read;
    }
    if (given->kind != JSON_STRING) {
        return *given;
    }
    if (!json_tree_read(json_tree_slice(given), b->arena, &read, &fault)) {
        (void)local_fail(b, "a tool call's arguments are not JSON");
    }
    return read;
}

/* In the order of OpenAI's types, which validation brings. */
static struct json_value
make_call(struct local_chat *c, const struct json_value *call)
{
    const struct json_value *function = local_given(call, "function");
    const struct json_value *id = local_given(call, "id");
    struct local_object inner = local_object_new(c->b, 2);
    struct local_object outer = local_object_new(c->b, 3);
    bool named = false;
    struct slice name = local_text(function, "name", &named);

    if (!named) {
        (void)local_fail(c->b, "a tool call has no function with a name");
        return (struct json_value){.kind = JSON_NULL};
    }
    local_put(c->b, &inner, "arguments",
              local_read_arguments(c->b, local_given(function, "arguments")));
    local_put(c->b, &inner, "name", json_tree_text(name));
    if (id != NULL) {
        local_put(c->b, &outer, "id", *id);
    }
    local_put(c->b, &outer, "function", local_object_end(&inner));
    local_put(c->b, &outer, "type", json_tree_text(SLICE("function")));
    return local_object_end(&outer);
}

static void
put_calls(struct local_chat *c, struct local_object *to,
          const struct json_value *calls)
{
    struct local_list list;

    if (calls == NULL || calls->kind != JSON_ARRAY || calls->len == 0) {
        return;
    }
    c->tools = true;
    list = local_list_new(c->b, calls->len);
    for (uint32_t i = 0; c->b->why == NULL && i < calls->len; i++) {
        local_push(c->b, &list, make_call(c, &calls->as.items[i]));
    }
    local_put(c->b, to, "tool_calls", local_list_end(&list));
}

/* Messages */

void
local_put_given(struct local_build *b, struct local_object *to,
                const struct json_value *from, const char *key)
{
    const struct json_value *value = local_given(from, key);

    if (value != NULL) {
        local_put(b, to, key, *value);
    }
}

/* What is kept of a message. */
static struct json_value
make_message(struct local_chat *c, const struct json_value *message)
{
    const struct json_value *role = local_given(message, "role");
    const struct json_value *reasoning = local_given(message, "reasoning");
    struct local_object to = local_object_new(c->b, 8);
    bool is = false;

    local_put(c->b, &to, "role", *role);
    local_put(c->b, &to, "content",
              make_content(c, local_given(message, "content")));
    if (local_is(role, "assistant")) {
        if (reasoning == NULL) {
            reasoning = local_given(message, "reasoning_content");
        }
        put_calls(c, &to, local_given(message, "tool_calls"));
        if (reasoning != NULL) {
            local_put(c->b, &to, "reasoning", *reasoning);
            local_put(c->b, &to, "reasoning_content", *reasoning);
        }
    } else if (local_is(role, "tool")) {
        c->tools = true;
        local_put_given(c->b, &to, message, "tool_call_id");
    }
    (void)local_text(message, "name", &is);
    if (is) {
        local_put_given(c->b, &to, message, "name");
    }
    return local_object_end(&to);
}

static struct json_value
make_messages(struct local_chat *c, const struct json_value *messages)
{
    struct local_list list = local_list_new(c->b, messages->len);

    for (uint32_t i = 0; c->b->why == NULL && i < messages->len; i++) {
        const struct json_value *message = &messages->as.items[i];
        const struct json_value *role = local_given(message, "role");
        if (role == NULL || role->kind != JSON_STRING) {
            (void)local_fail(c->b, "a message has no role");
        } else {
            local_push(c->b, &list, make_message(c, message));
        }
    }
    return local_list_end(&list);
}

/* Tools */

static bool
is_declared(const struct json_value *key)
{
    return local_is(key, "name") || local_is(key, "description") ||
           local_is(key, "parameters");
}

/* With null for what a function does not say, and what the types do not know
 * behind it. */
static struct json_value
make_function(struct local_chat *c, const struct json_value *function)
{
    static const char *const declared[] = {"name", "description", "parameters"};
    struct json_value null = {.kind = JSON_NULL};
    struct local_object to;

    if (local_given(function, "name") == NULL) {
        (void)local_fail(c->b, "a tool is no function with a name");
        return null;
    }
    to = local_object_new(c->b, function->len + 3);
    for (size_t i = 0; i < sizeof declared / sizeof declared[0]; i++) {
        const struct json_value *value = local_given(function, declared[i]);
        local_put(c->b, &to, declared[i], value != NULL ? *value : null);
    }
    for (uint32_t i = 0; i < function->len; i++) {
        if (!is_declared(&function->as.members[i].key)) {
            local_put_member(c->b, &to, &function->as.members[i]);
        }
    }
    return local_object_end(&to);
}

static struct json_value
make_tools(struct local_chat *c, const struct json_value *tools)
{
    struct local_list list = local_list_new(c->b, tools->len);

    for (uint32_t i = 0; c->b->why == NULL && i < tools->len; i++) {
        struct json_value function =
            make_function(c, local_given(&tools->as.items[i], "function"));
        struct local_object whole = local_object_new(c->b, 2);
        local_put(c->b, &whole, "type", json_tree_text(SLICE("function")));
        local_put(c->b, &whole, "function", function);
        local_push(c->b, &list, local_object_end(&whole));
    }
    return local_list_end(&list);
}

/* Members that reach the template's request as they are. */
static const char *const kept[] = {
    "documents",        "add_generation_prompt", "continue_final_message",
    "reasoning_effort", "chat_template_kwargs",
};

#define KEPT (sizeof kept / sizeof kept[0])

/* vLLM's rules. */
static struct json_value
make_request(struct local_chat *c, const struct json_value *request)
{
    const struct json_value *offered = local_given(request, "tools");
    struct local_object to = local_object_new(c->b, KEPT + 2);

    local_put(c->b, &to, "messages",
              make_messages(c, local_given(request, "messages")));
    if (offered != NULL && offered->kind == JSON_ARRAY) {
        c->tools = c->tools || offered->len != 0;
        local_put(c->b, &to, "tools", make_tools(c, offered));
    }
    for (size_t i = 0; i < KEPT; i++) {
        local_put_given(c->b, &to, request, kept[i]);
    }
    return local_object_end(&to);
}

/* The table */

static const struct local_rules rules_table[] = {
    {
        .kind = ENGINE_VLLM,
        .versions = "0.10 to 0.32",
        .source =
            "vllm/entrypoints/chat_utils.py: _parse_chat_message_content, "
            "_postprocess_messages; renderers/online_renderer.py: "
            "render_chat",
        .make = make_request,
    },
    {
        .kind = ENGINE_SGLANG,
        .versions = "0.5.23; before it for chats without tools",
        .source = "sglang/srt/entrypoints/openai/serving_chat.py: "
                  "_process_messages, _apply_jinja_template; protocol.py: "
                  "Function, Tool; srt/parser/jinja_template_utils.py: "
                  "process_content_for_template_format",
        .make = local_sglang_make,
    },
};

const struct local_rules *
local_rules_of(enum engine_kind kind)
{
    for (size_t i = 0; i < sizeof rules_table / sizeof rules_table[0]; i++) {
        if (rules_table[i].kind == kind) {
            return &rules_table[i];
        }
    }
    return &rules_table[0];
}

void
local_chat_rewrite(struct local_build *b, const struct local_rules *rules,
                   bool parts, const struct json_value *request,
                   struct json_value *out, bool *tools)
{
    struct local_chat c = {.b = b, .parts = parts};
    const struct json_value *messages = local_given(request, "messages");

    *out = (struct json_value){.kind = JSON_OBJECT};
    *tools = false;
    if (messages == NULL || messages->kind != JSON_ARRAY) {
        (void)local_fail(b, "there are no messages");
        return;
    }
    if (local_given(request, "chat_template") != NULL) {
        (void)local_fail(b, "the request brings a template");
        return;
    }
    *out = rules->make(&c, request);
    *tools = c.tools;
}
