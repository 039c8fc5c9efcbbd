/* A request of /v1/messages as a chat request. */
#include "node/dialect/dialect_making_internal.h"

#include "node/scan/billing.h"

#define COUNT(names) (sizeof(names) / sizeof(*(names)))

/* Blocks */

enum {
    BLOCK_TYPE,
    BLOCK_TEXT,
    BLOCK_THINKING,
    BLOCK_ID,
    BLOCK_NAME,
    BLOCK_INPUT,
    BLOCK_USE,
    BLOCK_CONTENT,
    BLOCK_SOURCE,
    BLOCK_MEMBERS
};

static const char *const block_names[BLOCK_MEMBERS] = {
    "type",  "text",        "thinking", "id",     "name",
    "input", "tool_use_id", "content",  "source",
};

enum {
    SOURCE_TYPE,
    SOURCE_MEDIA,
    SOURCE_DATA,
    SOURCE_URL,
    SOURCE_MEMBERS
};

static const char *const source_names[SOURCE_MEMBERS] = {
    "type",
    "media_type",
    "data",
    "url",
};

static void
put_image(struct dialect_making *m, const struct dialect_value *source)
{
    struct dialect_value s[SOURCE_MEMBERS];

    if (!dialect_open(m, source, source_names, SOURCE_MEMBERS, s)) {
        return;
    }
    bool data = dialect_is(&s[SOURCE_TYPE], "base64") &&
                s[SOURCE_MEDIA].kind == PULL_STRING &&
                s[SOURCE_DATA].kind == PULL_STRING;
    if (!data && !(dialect_is(&s[SOURCE_TYPE], "url") &&
                   s[SOURCE_URL].kind == PULL_STRING)) {
        dialect_refuse(m, "an image has neither data nor a URL");
        return;
    }
    dialect_next(m);
    buf_add_text(m->out, "{\"type\":\"image_url\",\"image_url\":{\"url\":\"");
    if (data) {
        buf_add_text(m->out, "data:");
        buf_add_slice(m->out, s[SOURCE_MEDIA].text);
        buf_add_text(m->out, ";base64,");
        buf_add_slice(m->out, s[SOURCE_DATA].text);
    } else {
        buf_add_slice(m->out, s[SOURCE_URL].text);
    }
    buf_add_text(m->out, "\"}}");
}

/* A document that is a text. */
static void
put_document(struct dialect_making *m, const struct dialect_value *source)
{
    struct dialect_value s[SOURCE_MEMBERS];

    if (!dialect_open(m, source, source_names, SOURCE_MEMBERS, s)) {
        return;
    }
    if (!dialect_is(&s[SOURCE_TYPE], "text") ||
        s[SOURCE_DATA].kind != PULL_STRING) {
        dialect_refuse(m, "a document is no plain text");
        return;
    }
    dialect_put_text(m, s[SOURCE_DATA].text);
}

/* What one message consists of, found before any of it is written. */
struct found {
    uint32_t parts; /* texts and images */
    bool image;
    bool thinking;
    bool calls;
    bool results;
    struct slice text; /* the last one */
};

/* Images of a tool's result follow it in the user's own message: a message of
 * the role tool is text alone. */
static void
look_into_result(struct found *f, const struct dialect_value *content)
{
    struct dialect_items items;
    struct dialect_value item;
    struct dialect_value type;
    static const char *const names[] = {"type"};

    dialect_items_init(&items, content);
    while (dialect_items_next(&items, &item)) {
        if (dialect_members(item.raw, names, 1, &type) &&
            dialect_is(&type, "image")) {
            f->parts++;
            f->image = true;
        }
    }
}

static void
look_at(struct dialect_making *m, struct found *f, bool user,
        const struct dialect_value b[BLOCK_MEMBERS])
{
    const struct dialect_value *type = &b[BLOCK_TYPE];

    if (dialect_is(type, "text")) {
        if (b[BLOCK_TEXT].text.len != 0) {
            f->parts++;
            f->text = b[BLOCK_TEXT].text;
        }
    } else if (dialect_is(type, "image") || dialect_is(type, "document")) {
        f->parts++;
        f->image = true;
    } else if (dialect_is(type, "thinking")) {
        f->thinking = f->thinking || b[BLOCK_THINKING].text.len != 0;
    } else if (dialect_is(type, "tool_use") && !user) {
        f->calls = true;
    } else if (dialect_is(type, "tool_result") && user) {
        f->results = true;
        look_into_result(f, &b[BLOCK_CONTENT]);
    } else if (!dialect_is(type, "redacted_thinking")) {
        dialect_refuse(
            m, "a block of a message is no text, image, thinking or tool's");
    }
}

/* The texts of a list of blocks, in one string. */
static void
join_texts(struct dialect_making *m, const struct dialect_value *content,
           const char *between, bool system)
{
    struct dialect_items items;
    struct dialect_value item;
    struct dialect_value b[BLOCK_MEMBERS];
    const char *sep = "";

    dialect_items_init(&items, content);
    while (m->why == NULL && dialect_items_next(&items, &item)) {
        if (!dialect_open(m, &item, block_names, BLOCK_MEMBERS, b)) {
            return;
        }
        struct slice text = b[BLOCK_TEXT].text;
        bool billing = system && billing_begins(text);
        if (dialect_is(&b[BLOCK_TYPE], "text")) {
            if (!billing && (text.len != 0 || !system)) {
                buf_add_text(m->out, sep);
                buf_add_slice(m->out, text);
                sep = between;
            }
        } else if (system || !dialect_is(&b[BLOCK_TYPE], "image")) {
            dialect_refuse(m, system ? "a part of the system prompt is no text"
                                     : "a tool's result is no text or image");
        }
    }
}

/* Content that is a text or a list of blocks, as one string. */
static void
put_joined(struct dialect_making *m, const struct dialect_value *content,
           const char *between, bool system)
{
    buf_add_text(m->out, "\"");
    if (content->kind == PULL_STRING) {
        buf_add_slice(m->out, content->text);
    } else {
        join_texts(m, content, between, system);
    }
    buf_add_text(m->out, "\"");
}

static void
put_result(struct dialect_making *m,
           const struct dialect_value b[BLOCK_MEMBERS])
{
    dialect_next(m);
    buf_add_text(m->out, "{\"role\":\"tool\",\"tool_call_id\":\"");
    buf_add_slice(m->out, b[BLOCK_USE].text);
    buf_add_text(m->out, "\",\"content\":");
    put_joined(m, &b[BLOCK_CONTENT], "\\n", false);
    buf_add_text(m->out, "}");
}

static void
put_call(struct dialect_making *m, const struct dialect_value b[BLOCK_MEMBERS])
{
    bool object = b[BLOCK_INPUT].kind == PULL_OBJECT;

    dialect_next(m);
    buf_add_text(m->out, "{\"id\":\"");
    buf_add_slice(m->out, b[BLOCK_ID].text);
    buf_add_text(m->out, "\",\"type\":\"function\",\"function\":{\"name\":\"");
    buf_add_slice(m->out, b[BLOCK_NAME].text);
    buf_add_text(m->out, "\",\"arguments\":\"");
    dialect_put_quoted(m->out, object ? b[BLOCK_INPUT].raw : SLICE("{}"));
    buf_add_text(m->out, "\"}}");
}

/* Images that a tool's result brings. */
static void
put_result_images(struct dialect_making *m, const struct dialect_value *content)
{
    struct dialect_items items;
    struct dialect_value item;
    struct dialect_value b[BLOCK_MEMBERS];

    dialect_items_init(&items, content);
    while (m->why == NULL && dialect_items_next(&items, &item)) {
        if (dialect_open(m, &item, block_names, BLOCK_MEMBERS, b) &&
            dialect_is(&b[BLOCK_TYPE], "image")) {
            put_image(m, &b[BLOCK_SOURCE]);
        }
    }
}

static void
put_part(struct dialect_making *m, const struct dialect_value b[BLOCK_MEMBERS])
{
    if (dialect_is(&b[BLOCK_TYPE], "text")) {
        dialect_put_text(m, b[BLOCK_TEXT].text);
    } else if (dialect_is(&b[BLOCK_TYPE], "image")) {
        put_image(m, &b[BLOCK_SOURCE]);
    } else if (dialect_is(&b[BLOCK_TYPE], "document")) {
        put_document(m, &b[BLOCK_SOURCE]);
    } else if (dialect_is(&b[BLOCK_TYPE], "tool_result")) {
        put_result_images(m, &b[BLOCK_CONTENT]);
    }
}

static void
put_thought(struct dialect_making *m,
            const struct dialect_value b[BLOCK_MEMBERS])
{
    if (dialect_is(&b[BLOCK_TYPE], "thinking")) {
        buf_add_slice(m->out, b[BLOCK_THINKING].text);
    }
}

static void
put_if_call(struct dialect_making *m,
            const struct dialect_value b[BLOCK_MEMBERS])
{
    if (dialect_is(&b[BLOCK_TYPE], "tool_use")) {
        put_call(m, b);
    }
}

static void
put_if_result(struct dialect_making *m,
              const struct dialect_value b[BLOCK_MEMBERS])
{
    if (dialect_is(&b[BLOCK_TYPE], "tool_result")) {
        put_result(m, b);
    }
}

/* Each block of a message's content. */
static void
each_block(struct dialect_making *m, const struct dialect_value *content,
           void (*put)(struct dialect_making *m,
                       const struct dialect_value b[BLOCK_MEMBERS]))
{
    struct dialect_items items;
    struct dialect_value item;
    struct dialect_value b[BLOCK_MEMBERS];

    dialect_items_init(&items, content);
    while (m->why == NULL && dialect_items_next(&items, &item)) {
        if (dialect_open(m, &item, block_names, BLOCK_MEMBERS, b)) {
            put(m, b);
        }
    }
}

/* A list of its own within a message. */
static void
put_list(struct dialect_making *m, const char *key,
         const struct dialect_value *content,
         void (*put)(struct dialect_making *m,
                     const struct dialect_value b[BLOCK_MEMBERS]))
{
    bool before = m->some;

    buf_add_text(m->out, key);
    m->some = false;
    each_block(m, content, put);
    m->some = before;
    buf_add_text(m->out, "]");
}

/* Messages */

static void
put_blocks(struct dialect_making *m, const struct found *f,
           const struct dialect_value *content)
{
    if (f->thinking) {
        buf_add_text(m->out, ",\"reasoning_content\":\"");
        each_block(m, content, put_thought);
        buf_add_text(m->out, "\"");
    }
    if (f->calls) {
        put_list(m, ",\"tool_calls\":[", content, put_if_call);
    }
    if (f->parts == 1 && !f->image) {
        buf_add_text(m->out, ",\"content\":\"");
        buf_add_slice(m->out, f->text);
        buf_add_text(m->out, "\"");
    } else if (f->parts != 0) {
        put_list(m, ",\"content\":[", content, put_part);
    } else {
        buf_add_text(m->out,
                     f->calls ? ",\"content\":null" : ",\"content\":\"\"");
    }
}

static struct found
look(struct dialect_making *m, bool user, const struct dialect_value *content)
{
    struct found f = {.parts = 0};
    struct dialect_items items;
    struct dialect_value item;
    struct dialect_value b[BLOCK_MEMBERS];

    dialect_items_init(&items, content);
    while (m->why == NULL && dialect_items_next(&items, &item)) {
        if (dialect_open(m, &item, block_names, BLOCK_MEMBERS, b)) {
            look_at(m, &f, user, b);
        }
    }
    return f;
}

/* A message of the system's; none where there is no text. */
static void
put_system(struct dialect_making *m, const struct dialect_value *content)
{
    bool some = m->some;
    size_t before = m->out->len;

    dialect_next(m);
    buf_add_text(m->out, "{\"role\":\"system\",\"content\":");
    size_t begin = m->out->len;
    put_joined(m, content, "", true);
    if (m->out->len - begin <= 2) { /* its quotes */
        m->out->len = before;
        m->some = some;
        return;
    }
    buf_add_text(m->out, "}");
}

static void
put_message(struct dialect_making *m, const struct dialect_value *message)
{
    static const char *const names[] = {"role", "content"};
    struct dialect_value v[2];

    if (!dialect_open(m, message, names, 2, v)) {
        return;
    }
    bool user = dialect_is(&v[0], "user");
    bool system = dialect_is(&v[0], "system");
    if (!user && !system && !dialect_is(&v[0], "assistant")) {
        dialect_refuse(
            m, "a message is none of the user, the assistant or the system");
        return;
    }
    if (v[1].kind != PULL_STRING && v[1].kind != PULL_ARRAY) {
        dialect_refuse(m, "a message's content is no text and no list");
        return;
    }
    if (system) {
        put_system(m, &v[1]);
        return;
    }
    struct found f = look(m, user, &v[1]);
    if (f.results) {
        each_block(m, &v[1], put_if_result);
    }
    if (user && v[1].kind == PULL_ARRAY && f.parts == 0 && f.results) {
        return;
    }
    dialect_next(m);
    buf_add_text(m->out,
                 user ? "{\"role\":\"user\"" : "{\"role\":\"assistant\"");
    if (v[1].kind == PULL_STRING) {
        buf_add_text(m->out, ",\"content\":");
        buf_add_slice(m->out, v[1].raw);
    } else {
        put_blocks(m, &f, &v[1]);
    }
    buf_add_text(m->out, "}");
}

static void
put_messages(struct dialect_making *m, const struct dialect_value *system,
             const struct dialect_value *messages)
{
    struct dialect_items items;
    struct dialect_value item;

    if (messages->kind != PULL_ARRAY) {
        dialect_refuse(m, "there are no messages");
        return;
    }
    put_system(m, system);
    dialect_items_init(&items, messages);
    while (m->why == NULL && dialect_items_next(&items, &item)) {
        put_message(m, &item);
    }
}

/* Tools */

static void
put_tool(struct dialect_making *m, const struct dialect_value *tool)
{
    static const char *const names[] = {"name", "description", "input_schema",
                                        "strict"};
    struct dialect_value v[COUNT(names)];

    if (!dialect_open(m, tool, names, COUNT(names), v)) {
        return;
    }
    if (v[0].kind != PULL_STRING || v[2].kind != PULL_OBJECT) {
        dialect_refuse(
            m, "a tool without a name and an input_schema is Anthropic's "
               "own");
        return;
    }
    dialect_next(m);
    buf_add_text(m->out, "{\"type\":\"function\",\"function\":{\"name\":");
    buf_add_slice(m->out, v[0].raw);
    dialect_put(m->out, "description", &v[1]);
    dialect_put(m->out, "parameters", &v[2]);
    dialect_put(m->out, "strict", &v[3]);
    buf_add_text(m->out, "}}");
}

static void
put_choice(struct dialect_making *m, const struct dialect_value *choice)
{
    static const char *const names[] = {"type", "name",
                                        "disable_parallel_tool_use"};
    struct dialect_value v[COUNT(names)];

    if (!dialect_open(m, choice, names, COUNT(names), v)) {
        return;
    }
    buf_add_text(m->out, ",\"tool_choice\":");
    if (dialect_is(&v[0], "tool") && v[1].kind == PULL_STRING) {
        buf_add_text(m->out, "{\"type\":\"function\",\"function\":{\"name\":");
        buf_add_slice(m->out, v[1].raw);
        buf_add_text(m->out, "}}");
    } else if (dialect_is(&v[0], "any")) {
        buf_add_text(m->out, "\"required\"");
    } else if (dialect_is(&v[0], "auto") || dialect_is(&v[0], "none")) {
        buf_add_slice(m->out, v[0].raw);
    } else {
        dialect_refuse(m, "tool_choice is none that is known");
    }
    if (v[2].kind == PULL_TRUE) {
        buf_add_text(m->out, ",\"parallel_tool_calls\":false");
    }
}

static void
put_tools(struct dialect_making *m, const struct dialect_value *tools,
          const struct dialect_value *choice)
{
    struct dialect_items items;
    struct dialect_value item;

    if (tools->kind != PULL_ARRAY) {
        return;
    }
    dialect_items_init(&items, tools);
    m->some = false;
    while (m->why == NULL && dialect_items_next(&items, &item)) {
        if (!m->some) {
            buf_add_text(m->out, ",\"tools\":[");
        }
        put_tool(m, &item);
    }
    if (!m->some) {
        return; /* an empty list, which engines refuse */
    }
    buf_add_text(m->out, "]");
    if (choice->kind != PULL_END) {
        put_choice(m, choice);
    }
}

/* The rest */

enum {
    IN_MODEL,
    IN_MESSAGES,
    IN_SYSTEM,
    IN_TOOLS,
    IN_CHOICE,
    IN_MAX,
    IN_STOP,
    IN_TEMPERATURE,
    IN_TOP_P,
    IN_TOP_K,
    IN_STREAM,
    IN_THINKING,
    IN_KWARGS,
    IN_SALT,
    IN_PRIORITY,
    IN_METADATA,
    IN_OUTPUT,
    IN_MEMBERS
};

static const char *const in_names[IN_MEMBERS] = {
    "model",
    "messages",
    "system",
    "tools",
    "tool_choice",
    "max_tokens",
    "stop_sequences",
    "temperature",
    "top_p",
    "top_k",
    "stream",
    "thinking",
    "chat_template_kwargs",
    "cache_salt",
    "priority",
    "metadata",
    "output_config",
};

/* A template's own switch, where the request does not set it by itself. */
static void
put_thinking(struct dialect_making *m, const struct dialect_value *thinking)
{
    static const char *const names[] = {"type"};
    struct dialect_value type;

    if (thinking->kind != PULL_END &&
        dialect_open(m, thinking, names, 1, &type)) {
        buf_add_text(m->out, dialect_is(&type, "disabled")
                                 ? ",\"chat_template_kwargs\":"
                                   "{\"enable_thinking\":false}"
                                 : ",\"chat_template_kwargs\":"
                                   "{\"enable_thinking\":true}");
    }
}

static void
put_user(struct dialect_making *m, const struct dialect_value *metadata)
{
    static const char *const names[] = {"user_id"};
    struct dialect_value user;

    if (metadata->kind == PULL_OBJECT &&
        dialect_open(m, metadata, names, 1, &user) &&
        user.kind == PULL_STRING) {
        dialect_put(m->out, "user", &user);
    }
}

/* An answer that must be JSON by a schema. */
static void
put_format(struct dialect_making *m, const struct dialect_value *output)
{
    static const char *const names[] = {"format"};
    static const char *const inner[] = {"type", "schema"};
    struct dialect_value format;
    struct dialect_value v[2];

    if (output->kind == PULL_END ||
        !dialect_open(m, output, names, 1, &format) ||
        format.kind == PULL_END || !dialect_open(m, &format, inner, 2, v)) {
        return;
    }
    if (!dialect_is(&v[0], "json_schema") || v[1].kind != PULL_OBJECT) {
        dialect_refuse(m, "output_config.format is no json_schema");
        return;
    }
    buf_add_text(m->out, ",\"response_format\":{\"type\":\"json_schema\","
                         "\"json_schema\":{\"name\":\"answer\"");
    dialect_put(m->out, "schema", &v[1]);
    buf_add_text(m->out, "}}");
}

static void
put_rest(struct dialect_making *m, const struct dialect_value v[IN_MEMBERS],
         struct slice salt)
{
    struct buf *out = m->out;

    dialect_put(out, "max_tokens", &v[IN_MAX]);
    dialect_put(out, "stop", &v[IN_STOP]);
    dialect_put(out, "temperature", &v[IN_TEMPERATURE]);
    dialect_put(out, "top_p", &v[IN_TOP_P]);
    dialect_put(out, "top_k", &v[IN_TOP_K]);
    dialect_put(out, "priority", &v[IN_PRIORITY]);
    dialect_put_salt(m, salt, &v[IN_SALT]);
    put_user(m, &v[IN_METADATA]);
    put_format(m, &v[IN_OUTPUT]);
    dialect_put_stream(m, &v[IN_STREAM]);
}

void
dialect_from_messages(struct dialect_making *m, struct slice body,
                      struct slice salt, bool counts)
{
    const struct dialect_value none = {.kind = PULL_END};
    struct dialect_value v[IN_MEMBERS];

    if (!dialect_begin(m, body, in_names, IN_MEMBERS, v)) {
        return;
    }
    put_messages(m, &v[IN_SYSTEM], &v[IN_MESSAGES]);
    buf_add_text(m->out, "]");
    put_tools(m, &v[IN_TOOLS], counts ? &none : &v[IN_CHOICE]);
    dialect_put(m->out, "chat_template_kwargs", &v[IN_KWARGS]);
    if (v[IN_KWARGS].kind == PULL_END) {
        put_thinking(m, &v[IN_THINKING]);
    }
    if (!counts) {
        put_rest(m, v, salt);
    }
    buf_add_text(m->out, "}");
}
