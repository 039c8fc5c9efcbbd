/* A chat request as an engine hands it to its template. */
#include "node/local/local_chat_internal.h"

#include "node/scan/billing.h"

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

/* Who said it matters. */
enum speaker {
    SPEAKER_ANY,
    SPEAKER_SYSTEM, /* without the line for billing; then nothing may be left */
    SPEAKER_TOOL,   /* its result is one text always */
};

/* Cuts that line off. False: there is nothing behind it. */
static bool
cut_billing(struct slice *text, enum speaker speaker)
{
    const char *end = NULL;

    if (speaker != SPEAKER_SYSTEM || !billing_begins(*text)) {
        return true;
    }
    end = memchr(text->ptr, '\n', text->len);
    text->len = end != NULL ? (size_t)(text->ptr + text->len - end) - 1 : 0;
    text->ptr = end != NULL ? end + 1 : text->ptr;
    return text->len != 0;
}

/* Parts as one text. Where the template wants a text, empty ones are no parts. */
static struct json_value
join_parts(struct local_chat *c, const struct json_value *content,
           enum speaker speaker)
{
    struct slice *texts =
        arena_take(c->b->arena, (content->len + 1U) * sizeof *texts);
    uint32_t count = 0;

    if (texts == NULL) {
        (void)local_fail(c->b, "out of memory");
    }
    for (uint32_t i = 0; c->b->why == NULL && i < content->len; i++) {
        count += read_part(c->b, &content->as.items[i], &texts[count]) &&
                 cut_billing(&texts[count], speaker) &&
                 (c->parts || texts[count].len != 0);
    }
    if (c->b->why != NULL || count == 0) {
        return json_tree_text(SLICE(""));
    }
    return local_join(c->b, texts, count, BETWEEN);
}

static struct json_value
list_parts(struct local_chat *c, const struct json_value *content,
           enum speaker speaker)
{
    struct local_list list = local_list_new(c->b, content->len);
    struct slice text;

    for (uint32_t i = 0; c->b->why == NULL && i < content->len; i++) {
        if (read_part(c->b, &content->as.items[i], &text) &&
            cut_billing(&text, speaker)) {
            local_push(c->b, &list, local_text_part(c->b, text));
        }
    }
    return local_list_end(&list);
}

/* A text is a list of one; it becomes a part where the template wants parts. */
static struct json_value
make_content(struct local_chat *c, const struct json_value *content,
             enum speaker speaker)
{
    struct json_value text = {.kind = JSON_NULL};
    struct json_value list = {.kind = JSON_ARRAY};

    if (content == NULL) {
        content = &list;
    } else if (content->kind == JSON_STRING) {
        text = *content;
        list.as.items = &text;
        list.len = 1;
        content = &list;
    } else if (content->kind != JSON_ARRAY) {
        (void)local_fail(c->b, "a message's content is no text and no list");
        return text;
    }
    return c->parts && speaker != SPEAKER_TOOL
               ? list_parts(c, content, speaker)
               : join_parts(c, content, speaker);
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
    if (!json_tree_read(json_tree_slice(given), b->arena, &read, &fault) ||
        read.kind == JSON_NULL) {
        (void)local_fail(b, "a tool call's arguments are not JSON, or null");
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
    bool is_result = local_is(role, "tool");
    bool converted = !c->developer && local_is(role, "developer");
    bool is = false;

    c->converted |= converted;
    local_put(c->b, &to, "role",
              converted ? json_tree_text(SLICE("system")) : *role);
    local_put(c->b, &to, "content",
              make_content(c, local_given(message, "content"),
                           is_result                  ? SPEAKER_TOOL
                           : local_is(role, "system") ? SPEAKER_SYSTEM
                                                      : SPEAKER_ANY));
    if (local_is(role, "assistant")) {
        if (reasoning == NULL) {
            reasoning = local_given(message, "reasoning_content");
        }
        put_calls(c, &to, local_given(message, "tool_calls"));
        if (reasoning != NULL && reasoning->kind != JSON_STRING) {
            (void)local_fail(c->b, "a message's reasoning is no text");
        }
        if (reasoning != NULL) {
            local_put(c->b, &to, "reasoning", *reasoning);
            local_put(c->b, &to, "reasoning_content", *reasoning);
        }
    } else if (is_result) {
        c->tools = true;
        local_put_given(c->b, &to, message, "tool_call_id");
    }
    (void)local_text(message, "name", &is);
    if (is) {
        local_put_given(c->b, &to, message, "name");
    }
    return local_object_end(&to);
}

/* The text of a message that was made; its parts in lines. */
static struct slice
made_text(struct local_chat *c, const struct json_value *message)
{
    const struct json_value *content = local_given(message, "content");
    struct json_value joined;
    bool is = false;

    if (content == NULL || content->kind != JSON_ARRAY) {
        return local_text(message, "content", &is);
    }
    joined = join_parts(c, content, SPEAKER_ANY);
    return json_tree_slice(&joined);
}

/* Where a developer's message became the system's, one system message, the
 * first, has the texts of all, unless it is the first anyway. */
static struct json_value
merge_systems(struct local_chat *c, const struct local_list *made)
{
    struct slice *texts =
        arena_take(c->b->arena, (made->count + 1U) * sizeof *texts);
    struct local_list list = local_list_new(c->b, made->count + 1);
    struct local_object merged = local_object_new(c->b, 2);
    uint32_t systems = 0;
    uint32_t count = 0;
    bool apart = false;

    if (texts == NULL) {
        (void)local_fail(c->b, "out of memory");
    }
    local_push(c->b, &list, json_tree_text(SLICE(""))); /* its place */
    for (uint32_t i = 0; c->b->why == NULL && i < made->count; i++) {
        const struct json_value *message = &made->items[i];
        if (!local_is(local_given(message, "role"), "system")) {
            local_push(c->b, &list, *message);
            continue;
        }
        apart |= i != systems || i != 0;
        systems++;
        texts[count] = made_text(c, message);
        count += texts[count].len != 0;
    }
    if (c->b->why != NULL || !apart) {
        return local_list_end(made);
    }
    local_put(c->b, &merged, "role", json_tree_text(SLICE("system")));
    local_put(c->b, &merged, "content",
              local_join(c->b, texts, count, BETWEEN BETWEEN));
    list.items[0] = local_object_end(&merged);
    return local_list_end(&list);
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
    return c->converted ? merge_systems(c, &list) : local_list_end(&list);
}

/* Tools */

static const char *const declared[] = {"name", "description", "parameters",
                                       "strict"};

#define DECLARED (sizeof declared / sizeof declared[0])
#define REQUIRED 3U /* of these, the first */

static bool
is_declared(const struct json_value *key)
{
    size_t i = 0;

    while (i < DECLARED && !local_is(key, declared[i])) {
        i++;
    }
    return i < DECLARED;
}

/* With null for what a function does not say. What the types do not know, some
 * versions keep and some leave out. */
static struct json_value
make_function(struct local_chat *c, const struct json_value *function)
{
    struct json_value null = {.kind = JSON_NULL};
    struct local_object to;

    if (local_given(function, "name") == NULL) {
        (void)local_fail(c->b, "a tool is no function with a name");
        return null;
    }
    to = local_object_new(c->b, DECLARED);
    for (size_t i = 0; i < DECLARED; i++) {
        const struct json_value *value = local_given(function, declared[i]);
        if (value != NULL || i < REQUIRED) {
            local_put(c->b, &to, declared[i], value != NULL ? *value : null);
        }
    }
    for (uint32_t i = 0; i < function->len; i++) {
        if (!is_declared(&function->as.members[i].key)) {
            (void)local_fail(c->b, "a function has a member that is not known");
        }
    }
    return local_object_end(&to);
}

static struct json_value
make_tools(struct local_chat *c, const struct json_value *tools)
{
    struct local_list list = local_list_new(c->b, tools->len);

    for (uint32_t i = 0; c->b->why == NULL && i < tools->len; i++) {
        const struct json_value *tool = &tools->as.items[i];
        struct json_value function =
            make_function(c, local_given(tool, "function"));
        struct local_object whole = local_object_new(c->b, 2);
        if (local_given(tool, "defer_loading") != NULL) {
            (void)local_fail(c->b, "a tool that is loaded later");
        }
        local_put(c->b, &whole, "type", json_tree_text(SLICE("function")));
        local_put(c->b, &whole, "function", function);
        local_push(c->b, &list, local_object_end(&whole));
    }
    return local_list_end(&list);
}

/* Arguments of the template */

struct json_value
local_make_arguments(struct local_build *b, enum engine_kind kind,
                     const struct json_value *given,
                     const struct json_value *effort)
{
    static const char *const names[] = {"enable_thinking", "thinking"};
    bool sglang = kind == ENGINE_SGLANG;
    struct json_value thinks = {.kind = JSON_BOOL,
                                .as.integer = !local_is(effort, "none")};
    uint32_t len = given != NULL && given->kind == JSON_OBJECT ? given->len : 0;
    struct local_object to = local_object_new(b, len + 2);

    for (uint32_t i = 0; i < len; i++) {
        if (sglang ||
            !local_is(&given->as.members[i].key, "reasoning_effort")) {
            local_put_member(b, &to, &given->as.members[i]);
        }
    }
    for (size_t i = 0; i < (sglang ? 2 : 1); i++) {
        if (len == 0 || json_tree_get(given, slice_of(names[i])) == NULL) {
            local_put(b, &to, names[i], thinks);
        }
    }
    return local_object_end(&to);
}

/* What the request says counts, and not arguments of the same name. */
static void
put_arguments(struct local_chat *c, struct local_object *to,
              const struct json_value *request)
{
    const struct json_value *arguments =
        local_given(request, "chat_template_kwargs");
    const struct json_value *effort = local_given(request, "reasoning_effort");
    const struct json_value *prompt =
        local_given(request, "add_generation_prompt");
    struct json_value yes = {.kind = JSON_BOOL, .as.integer = true};

    local_put(c->b, to, "add_generation_prompt",
              prompt != NULL ? *prompt : yes);
    local_put_given(c->b, to, request, "continue_final_message");
    local_put_given(c->b, to, request, "documents");
    if (effort != NULL) {
        local_put(c->b, to, "reasoning_effort", *effort);
        local_put(c->b, to, "chat_template_kwargs",
                  local_make_arguments(c->b, ENGINE_VLLM, arguments, effort));
    } else if (arguments != NULL) {
        local_put(c->b, to, "chat_template_kwargs", *arguments);
    }
}

/* vLLM's rules. */
static struct json_value
make_request(struct local_chat *c, const struct json_value *request)
{
    const struct json_value *offered = local_given(request, "tools");
    struct local_object to = local_object_new(c->b, 7);

    local_put(c->b, &to, "messages",
              make_messages(c, local_given(request, "messages")));
    if (offered != NULL && offered->kind == JSON_ARRAY) {
        c->tools = c->tools || offered->len != 0;
        local_put(c->b, &to, "tools", make_tools(c, offered));
    }
    put_arguments(c, &to, request);
    return local_object_end(&to);
}

/* The table */

static const struct local_rules rules_table[] = {
    {
        .kind = ENGINE_VLLM,
        .finds = TEMPLATE_VLLM,
        .versions = "0.24 to 0.33",
        .source = "vllm/renderers/chat_utils/chat_message.py: "
                  "parse_chat_message_content, _postprocess_messages; "
                  "renderers/hf.py: safe_apply_chat_template; "
                  "renderers/online_renderer.py: render_chat; "
                  "entrypoints/openai/chat_completion/protocol.py: "
                  "build_chat_params",
        .make = make_request,
    },
    {
        .kind = ENGINE_SGLANG,
        .finds = TEMPLATE_SGLANG,
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
                   const struct local_wish *wish,
                   const struct json_value *request, struct json_value *out,
                   bool *tools)
{
    struct local_chat c = {.b = b,
                           .parts = wish->parts[rules->finds],
                           .developer = wish->developer};
    const struct json_value *messages = local_given(request, "messages");

    *out = (struct json_value){.kind = JSON_OBJECT};
    *tools = false;
    if (messages == NULL || messages->kind != JSON_ARRAY) {
        (void)local_fail(b, "there are no messages");
        return;
    }
    if (local_given(request, "chat_template") != NULL ||
        local_given(local_given(request, "chat_template_kwargs"),
                    "chat_template") != NULL) {
        (void)local_fail(b, "the request brings a template");
        return;
    }
    *out = rules->make(&c, request);
    *tools = c.tools;
}
