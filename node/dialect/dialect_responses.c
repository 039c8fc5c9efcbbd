/* A request of /v1/responses as a chat request. */
#include "node/dialect/dialect_making_internal.h"
#include "node/dialect/dialect_responses_internal.h"

const char dialect_stored[] =
    "it goes on with what an engine has stored, and engines without "
    "/v1/responses store nothing";

/* What stands where in an item, and in a part of its content. */
enum {
    ITEM_TYPE,
    ITEM_ROLE,
    ITEM_CONTENT,
    ITEM_CALL,
    ITEM_NAME,
    ITEM_ARGUMENTS,
    ITEM_OUTPUT,
    ITEM_SPACE,
    ITEM_SUMMARY,
    ITEM_MEMBERS
};

static const char *const item_names[ITEM_MEMBERS] = {
    "type",      "role",   "content",   "call_id", "name",
    "arguments", "output", "namespace", "summary",
};

enum {
    PART_TYPE,
    PART_TEXT,
    PART_REFUSAL,
    PART_IMAGE,
    PART_DETAIL,
    PART_MEMBERS
};

static const char *const part_names[PART_MEMBERS] = {
    "type", "text", "refusal", "image_url", "detail",
};

static void
put_image(struct dialect_making *m, const struct dialect_value p[PART_MEMBERS])
{
    if (p[PART_IMAGE].kind != PULL_STRING) {
        dialect_refuse(m, "an image has no URL");
        return;
    }
    dialect_next(m);
    buf_add_text(m->out, "{\"type\":\"image_url\",\"image_url\":{\"url\":");
    buf_add_slice(m->out, p[PART_IMAGE].raw);
    if (p[PART_DETAIL].kind == PULL_STRING) {
        dialect_put(m->out, "detail", &p[PART_DETAIL]);
    }
    buf_add_text(m->out, "}}");
}

/* The text of a part; false: it is none. */
static bool
text_of(const struct dialect_value p[PART_MEMBERS], struct slice *text)
{
    const struct dialect_value *type = &p[PART_TYPE];
    bool refusal = dialect_is(type, "refusal");

    *text = p[refusal ? PART_REFUSAL : PART_TEXT].text;
    return refusal || dialect_is(type, "input_text") ||
           dialect_is(type, "output_text") || dialect_is(type, "text");
}

static void
put_part(struct dialect_making *m, const struct dialect_value *item)
{
    struct dialect_value p[PART_MEMBERS];
    struct slice text;

    if (!dialect_open(m, item, part_names, PART_MEMBERS, p)) {
        return;
    }
    if (text_of(p, &text)) {
        dialect_put_text(m, text);
    } else if (dialect_is(&p[PART_TYPE], "input_image")) {
        put_image(m, p);
    } else {
        dialect_refuse(m, "a part of a message is no text and no image");
    }
}

/* Parts as one string; where one is no text, all of them as a list. */
static void
put_parts(struct dialect_making *m, const struct dialect_value *content)
{
    struct dialect_items items;
    struct dialect_value item;
    struct dialect_value p[PART_MEMBERS];
    struct slice only = SLICE("");
    struct slice text;
    uint32_t count = 0;
    bool texts = true;

    dialect_items_init(&items, content);
    while (m->why == NULL && dialect_items_next(&items, &item)) {
        if (!dialect_open(m, &item, part_names, PART_MEMBERS, p)) {
            return;
        }
        count++;
        texts = text_of(p, &text) && texts;
        only = text;
    }
    if (texts && count <= 1) {
        buf_add_text(m->out, "\"");
        buf_add_slice(m->out, only);
        buf_add_text(m->out, "\"");
        return;
    }
    bool before = m->some;
    m->some = false;
    buf_add_text(m->out, "[");
    dialect_items_init(&items, content);
    while (m->why == NULL && dialect_items_next(&items, &item)) {
        put_part(m, &item);
    }
    buf_add_text(m->out, "]");
    m->some = before;
}

static void
put_content(struct dialect_making *m, const struct dialect_value *content)
{
    if (content->kind == PULL_STRING) {
        buf_add_slice(m->out, content->raw);
    } else if (content->kind == PULL_ARRAY) {
        put_parts(m, content);
    } else {
        dialect_refuse(m, "a message's content is no text and no list");
    }
}

/* What the assistant thinks and says and the calls that follow are one message. */
static void
begin_message(struct dialect_making *m)
{
    if (!m->speaks) {
        dialect_next(m);
        buf_add_text(m->out, "{\"role\":\"assistant\"");
        m->speaks = true;
    }
}

static void
end_message(struct dialect_making *m)
{
    buf_add_text(m->out, m->calls ? "]" : "");
    if (m->speaks && !m->says) { /* engines want one where there are no calls */
        buf_add_text(m->out,
                     m->calls ? ",\"content\":null" : ",\"content\":\"\"");
    }
    buf_add_text(m->out, m->speaks ? "}" : "");
    m->calls = false;
    m->says = false;
    m->thinks = false;
    m->speaks = false;
}

/* The first part of it; false: there is none. */
static bool
first_text(struct dialect_making *m, const struct dialect_value *parts,
           struct slice *text)
{
    static const char *const names[] = {"text"};
    struct dialect_items items;
    struct dialect_value part;
    struct dialect_value value;

    dialect_items_init(&items, parts);
    if (!dialect_items_next(&items, &part) ||
        !dialect_open(m, &part, names, 1, &value)) {
        return false;
    }
    *text = value.text;
    return text->len != 0;
}

/* What is encrypted nobody here can read. */
static void
put_reasoning(struct dialect_making *m,
              const struct dialect_value v[ITEM_MEMBERS])
{
    struct slice text;

    if (!first_text(m, &v[ITEM_CONTENT], &text) &&
        !first_text(m, &v[ITEM_SUMMARY], &text)) {
        return;
    }
    if (m->calls || m->thinks) {
        end_message(m);
    }
    begin_message(m);
    buf_add_text(m->out, ",\"reasoning_content\":\"");
    buf_add_slice(m->out, text);
    buf_add_text(m->out, "\"");
    m->thinks = true;
}

/* A function's name, of a namespace's with that before it, without quotes. */
static void
put_name(struct dialect_making *m, struct slice space, struct slice name)
{
    buf_add_slice(m->out, space);
    buf_add_text(m->out, space.len != 0 ? DIALECT_SPACE_END : "");
    buf_add_slice(m->out, name);
}

static void
put_call(struct dialect_making *m, const struct dialect_value v[ITEM_MEMBERS])
{
    bool text = v[ITEM_ARGUMENTS].kind == PULL_STRING;

    begin_message(m);
    buf_add_text(m->out, m->calls ? "," : ",\"tool_calls\":[");
    m->calls = true;
    buf_add_text(m->out, "{\"id\":\"");
    buf_add_slice(m->out, v[ITEM_CALL].text);
    buf_add_text(m->out, "\",\"type\":\"function\",\"function\":{\"name\":\"");
    put_name(m, v[ITEM_SPACE].text, v[ITEM_NAME].text);
    buf_add_text(m->out, "\",\"arguments\":");
    buf_add_slice(m->out, text ? v[ITEM_ARGUMENTS].raw : SLICE("\"{}\""));
    buf_add_text(m->out, "}}");
}

static void
put_output(struct dialect_making *m, const struct dialect_value v[ITEM_MEMBERS])
{
    end_message(m);
    dialect_next(m);
    buf_add_text(m->out, "{\"role\":\"tool\",\"tool_call_id\":\"");
    buf_add_slice(m->out, v[ITEM_CALL].text);
    buf_add_text(m->out, "\",\"content\":");
    put_content(m, &v[ITEM_OUTPUT]);
    buf_add_text(m->out, "}");
}

static void
put_message(struct dialect_making *m,
            const struct dialect_value v[ITEM_MEMBERS])
{
    const struct dialect_value *role = &v[ITEM_ROLE];
    bool developer = dialect_is(role, "developer");

    if (dialect_is(role, "assistant")) {
        if (m->says || m->calls) {
            end_message(m);
        }
        begin_message(m);
        buf_add_text(m->out, ",\"content\":");
        put_content(m, &v[ITEM_CONTENT]);
        m->says = true;
        return;
    }
    end_message(m);
    if (!developer && !dialect_is(role, "user") &&
        !dialect_is(role, "system")) {
        dialect_refuse(m, "a message has no role that is known");
        return;
    }
    dialect_next(m);
    buf_add_text(m->out, "{\"role\":");
    buf_add_slice(m->out, developer ? SLICE("\"system\"") : role->raw);
    buf_add_text(m->out, ",\"content\":");
    put_content(m, &v[ITEM_CONTENT]);
    buf_add_text(m->out, "}");
}

static void
put_item(struct dialect_making *m, const struct dialect_value *item)
{
    struct dialect_value v[ITEM_MEMBERS];

    if (!dialect_open(m, item, item_names, ITEM_MEMBERS, v)) {
        return;
    }
    const struct dialect_value *type = &v[ITEM_TYPE];
    if (dialect_is(type, "function_call")) {
        put_call(m, v);
    } else if (dialect_is(type, "reasoning")) {
        put_reasoning(m, v);
    } else if (dialect_is(type, "function_call_output")) {
        put_output(m, v);
    } else if (type->kind == PULL_END || dialect_is(type, "message")) {
        put_message(m, v);
    } else if (dialect_is(type, "item_reference")) {
        dialect_refuse(m, dialect_stored);
    } else {
        dialect_refuse(m, "an item of the input is no message, function call "
                          "or its output");
    }
}

static void
put_input(struct dialect_making *m, const struct dialect_value *instructions,
          const struct dialect_value *input)
{
    struct dialect_items items;
    struct dialect_value item;

    if (dialect_some(instructions)) {
        dialect_next(m);
        buf_add_text(m->out, "{\"role\":\"system\",\"content\":");
        put_content(m, instructions);
        buf_add_text(m->out, "}");
    }
    if (input->kind == PULL_STRING) {
        dialect_next(m);
        buf_add_text(m->out, "{\"role\":\"user\",\"content\":");
        buf_add_slice(m->out, input->raw);
        buf_add_text(m->out, "}");
    } else if (input->kind != PULL_ARRAY) {
        dialect_refuse(m, "there is no input");
    }
    dialect_items_init(&items, input);
    while (m->why == NULL && dialect_items_next(&items, &item)) {
        put_item(m, &item);
    }
    end_message(m);
}

/* Tools */

enum {
    TOOL_TYPE,
    TOOL_NAME,
    TOOL_ABOUT,
    TOOL_SCHEMA,
    TOOL_STRICT,
    TOOL_TOOLS,
    TOOL_MEMBERS
};

static void
put_function(struct dialect_making *m, struct slice space,
             const struct dialect_value v[TOOL_MEMBERS])
{
    if (v[TOOL_NAME].kind != PULL_STRING) {
        dialect_refuse(m, "a function has no name");
        return;
    }
    buf_add_text(m->out, m->some ? "," : ",\"tools\":[");
    m->some = true;
    buf_add_text(m->out, "{\"type\":\"function\",\"function\":{\"name\":\"");
    put_name(m, space, v[TOOL_NAME].text);
    buf_add_text(m->out, "\"");
    dialect_put(m->out, "description", &v[TOOL_ABOUT]);
    dialect_put(m->out, "parameters", &v[TOOL_SCHEMA]);
    dialect_put(m->out, "strict", &v[TOOL_STRICT]);
    buf_add_text(m->out, "}}");
}

static const char *const tool_names[TOOL_MEMBERS] = {
    "type", "name", "description", "parameters", "strict", "tools",
};

static void
put_space(struct dialect_making *m, const struct dialect_value v[TOOL_MEMBERS])
{
    struct dialect_items items;
    struct dialect_value item;
    struct dialect_value inner[TOOL_MEMBERS];

    dialect_items_init(&items, &v[TOOL_TOOLS]);
    while (m->why == NULL && dialect_items_next(&items, &item)) {
        if (dialect_open(m, &item, tool_names, TOOL_MEMBERS, inner) &&
            dialect_is(&inner[TOOL_TYPE], "function")) {
            put_function(m, v[TOOL_NAME].text, inner);
        }
    }
}

/* What is no function, the vendor's servers would run: the model is not told of
 * it. */
static void
put_tools(struct dialect_making *m, const struct dialect_value *tools)
{
    struct dialect_items items;
    struct dialect_value item;
    struct dialect_value v[TOOL_MEMBERS];

    m->some = false;
    dialect_items_init(&items, tools);
    while (m->why == NULL && dialect_items_next(&items, &item)) {
        if (!dialect_open(m, &item, tool_names, TOOL_MEMBERS, v)) {
            return;
        }
        if (dialect_is(&v[TOOL_TYPE], "function")) {
            put_function(m, SLICE(""), v);
        } else if (dialect_is(&v[TOOL_TYPE], DIALECT_SPACE)) {
            put_space(m, v);
        }
    }
    if (m->some) {
        buf_add_text(m->out, "]");
    }
}

static void
put_choice(struct dialect_making *m, const struct dialect_value *choice)
{
    static const char *const names[] = {"type", "name"};
    struct dialect_value v[2];

    if (choice->kind == PULL_STRING) {
        dialect_put(m->out, "tool_choice", choice);
        return;
    }
    if (choice->kind == PULL_END || !dialect_open(m, choice, names, 2, v)) {
        return;
    }
    if (!dialect_is(&v[0], "function") || v[1].kind != PULL_STRING) {
        dialect_refuse(m, "tool_choice is no function");
        return;
    }
    buf_add_text(m->out, ",\"tool_choice\":{\"type\":\"function\","
                         "\"function\":{\"name\":");
    buf_add_slice(m->out, v[1].raw);
    buf_add_text(m->out, "}}");
}

/* The rest */

enum {
    IN_MODEL,
    IN_INPUT,
    IN_INSTRUCTIONS,
    IN_MAX,
    IN_TEMPERATURE,
    IN_TOP_P,
    IN_STREAM,
    IN_TOOLS,
    IN_CHOICE,
    IN_PARALLEL,
    IN_TEXT,
    IN_REASONING,
    IN_STORE,
    IN_PREVIOUS,
    IN_CONVERSATION,
    IN_BACKGROUND,
    IN_PROMPT,
    IN_USER,
    IN_SALT,
    IN_PRIORITY,
    IN_KWARGS,
    IN_MEMBERS
};

static const char *const in_names[IN_MEMBERS] = {
    "model",
    "input",
    "instructions",
    "max_output_tokens",
    "temperature",
    "top_p",
    "stream",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "text",
    "reasoning",
    "store",
    "previous_response_id",
    "conversation",
    "background",
    "prompt",
    "user",
    "cache_salt",
    "priority",
    "chat_template_kwargs",
};

static void
put_format(struct dialect_making *m, const struct dialect_value *text)
{
    static const char *const names[] = {"format"};
    static const char *const inner[] = {"type", "name", "schema", "strict"};
    struct dialect_value format;
    struct dialect_value v[4];

    if (text->kind == PULL_END || !dialect_open(m, text, names, 1, &format) ||
        format.kind == PULL_END || !dialect_open(m, &format, inner, 4, v) ||
        dialect_is(&v[0], "text")) {
        return;
    }
    if (dialect_is(&v[0], "json_object")) {
        buf_add_text(m->out, ",\"response_format\":{\"type\":\"json_object\"}");
    } else if (dialect_is(&v[0], "json_schema") && v[1].kind == PULL_STRING) {
        buf_add_text(m->out, ",\"response_format\":{\"type\":\"json_schema\","
                             "\"json_schema\":{\"name\":");
        buf_add_slice(m->out, v[1].raw);
        dialect_put(m->out, "schema", &v[2]);
        dialect_put(m->out, "strict", &v[3]);
        buf_add_text(m->out, "}}");
    } else {
        dialect_refuse(m, "text.format is none that is known");
    }
}

static void
put_effort(struct dialect_making *m, const struct dialect_value *reasoning)
{
    static const char *const names[] = {"effort"};
    struct dialect_value effort;

    if (reasoning->kind != PULL_END &&
        dialect_open(m, reasoning, names, 1, &effort)) {
        dialect_put(m->out, "reasoning_effort", &effort);
    }
}

static void
put_rest(struct dialect_making *m, const struct dialect_value v[IN_MEMBERS],
         struct slice salt)
{
    struct buf *out = m->out;

    put_tools(m, &v[IN_TOOLS]);
    if (m->some) {
        put_choice(m, &v[IN_CHOICE]);
        dialect_put(out, "parallel_tool_calls", &v[IN_PARALLEL]);
    }
    dialect_put(out, "max_tokens", &v[IN_MAX]);
    dialect_put(out, "temperature", &v[IN_TEMPERATURE]);
    dialect_put(out, "top_p", &v[IN_TOP_P]);
    dialect_put(out, "user", &v[IN_USER]);
    dialect_put(out, "priority", &v[IN_PRIORITY]);
    dialect_put(out, "chat_template_kwargs", &v[IN_KWARGS]);
    put_effort(m, &v[IN_REASONING]);
    put_format(m, &v[IN_TEXT]);
    dialect_put_salt(m, salt, &v[IN_SALT]);
    dialect_put_stream(m, &v[IN_STREAM]);
}

/* What only an engine with a memory could do. */
static const char *
refusal(const struct dialect_value v[IN_MEMBERS])
{
    if (v[IN_PREVIOUS].kind != PULL_END ||
        v[IN_CONVERSATION].kind != PULL_END || v[IN_PROMPT].kind != PULL_END) {
        return dialect_stored;
    }
    if (v[IN_STORE].kind == PULL_TRUE || v[IN_BACKGROUND].kind == PULL_TRUE) {
        return "it asks to store its answer (store, background), and engines "
               "without /v1/responses store nothing";
    }
    return NULL;
}

void
dialect_from_responses(struct dialect_making *m, struct slice body,
                       struct slice salt)
{
    struct dialect_value v[IN_MEMBERS];

    if (!dialect_begin(m, body, in_names, IN_MEMBERS, v)) {
        return;
    }
    m->why = refusal(v);
    put_input(m, &v[IN_INSTRUCTIONS], &v[IN_INPUT]);
    buf_add_text(m->out, "]");
    put_rest(m, v, salt);
    buf_add_text(m->out, "}");
}
