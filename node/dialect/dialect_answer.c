/* A whole chat completion as a message, and errors. */
#include "node/dialect/dialect_responses_internal.h"
#include "node/http/http_status.h"
#include "node/scan/scan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A comma between blocks. */
static void
next_block(struct buf *out, bool *some)
{
    if (*some) {
        buf_add_text(out, ",");
    }
    *some = true;
}

/*
 * Arguments are a text that should be an object. What a model wrote and is none,
 * as when its answer was cut off, is the client's to see.
 */
static void
put_input(struct buf *out, const struct dialect_value *arguments)
{
    size_t before = out->len;
    char *to = buf_reserve(out, arguments->text.len);

    if (to == NULL) {
        return;
    }
    size_t len = scan_unescape(arguments->text.ptr, arguments->text.len, to);
    if (dialect_members((struct slice){to, len}, NULL, 0, NULL)) {
        out->len += len;
        return;
    }
    CHECK(out->len == before);
    if (arguments->text.len == 0) {
        buf_add_text(out, "{}");
        return;
    }
    buf_add_text(out, "{\"raw_arguments\":\"");
    buf_add_slice(out, arguments->text);
    buf_add_text(out, "\"}");
}

static bool
put_calls(struct buf *out, const struct dialect_value *calls, bool *some)
{
    struct dialect_items items;
    struct dialect_value item;
    struct dialect_call call;

    dialect_items_init(&items, calls);
    while (dialect_items_next(&items, &item)) {
        if (!dialect_call_read(&item, &call)) {
            return false;
        }
        next_block(out, some);
        buf_add_text(out, "{\"type\":\"tool_use\",\"id\":\"");
        buf_add_slice(out, call.id.text);
        buf_add_text(out, "\",\"name\":\"");
        buf_add_slice(out, call.name.text);
        buf_add_text(out, "\",\"input\":");
        put_input(out, &call.arguments);
        buf_add_text(out, "}");
    }
    return true;
}

/* What /tokenize answers. */
static bool
put_count(struct slice json, struct buf *out)
{
    static const char *const names[] = {"count"};
    struct dialect_value count;

    if (!dialect_members(json, names, 1, &count) || count.kind != PULL_NUMBER) {
        return false;
    }
    buf_printf(out, "{\"input_tokens\":%" PRIu64 "}", dialect_uint(&count));
    return !out->failed;
}

bool
dialect_answer(enum dialect api, struct slice asked, struct slice json,
               struct buf *out)
{
    struct dialect_chat chat;
    bool some = false;

    if (api == DIALECT_RESPONSES) {
        return dialect_response_answer(asked, json, out);
    }
    if (api == DIALECT_COUNT) {
        return put_count(json, out);
    }
    if (!dialect_chat_read_whole(json, &chat)) {
        return false;
    }
    buf_add_text(out, "{");
    dialect_put_head(out, &chat);
    buf_add_text(out, ",\"content\":[");
    if (chat.thought.text.len != 0) {
        next_block(out, &some);
        buf_add_text(out, "{\"type\":\"thinking\",\"thinking\":\"");
        buf_add_slice(out, chat.thought.text);
        buf_add_text(out, "\",\"signature\":\"\"}");
    }
    if (chat.content.text.len != 0) {
        next_block(out, &some);
        buf_add_text(out, "{\"type\":\"text\",\"text\":\"");
        buf_add_slice(out, chat.content.text);
        buf_add_text(out, "\"}");
    }
    size_t before = out->len;
    if (!put_calls(out, &chat.calls, &some)) {
        return false;
    }
    bool tools = out->len != before;
    struct slice stop = tools ? SLICE("") : chat.stop.text;
    buf_add_text(out, "],");
    dialect_put_reason(out, dialect_reason(&chat.finish, tools, stop.len != 0),
                       stop);
    buf_add_text(out, ",");
    dialect_put_usage(out, &chat.usage);
    buf_add_text(out, "}");
    return !out->failed;
}

bool
dialect_message(struct slice body, char *out, size_t room)
{
    static const char *const names[] = {"error", "message", "detail"};
    struct dialect_value v[3];
    struct json_pull pull;

    if (!dialect_members(body, names, 3, v)) {
        return false;
    }
    struct slice inner = v[0].raw;
    if (v[0].kind == PULL_OBJECT && !dialect_members(inner, names, 3, v)) {
        return false;
    }
    const struct dialect_value *text = v[1].kind == PULL_STRING   ? &v[1]
                                       : v[2].kind == PULL_STRING ? &v[2]
                                                                  : &v[0];
    if (text->kind != PULL_STRING) {
        return false;
    }
    json_pull_init(&pull, text->raw);
    return json_pull_next(&pull) == PULL_STRING &&
           json_pull_copy(&pull, out, room) >= 0;
}

/* An error that already has OpenAI's form, and fits into one line. */
static bool
is_openai(struct slice body, struct dialect_value *error)
{
    static const char *const names[] = {"error"};

    return dialect_members(body, names, 1, error) &&
           error->kind == PULL_OBJECT &&
           memchr(error->raw.ptr, '\n', error->raw.len) == NULL &&
           memchr(error->raw.ptr, '\r', error->raw.len) == NULL;
}

void
dialect_error(enum dialect api, unsigned status, struct slice body,
              struct buf *out)
{
    char message[HTTP_ERROR_MESSAGE_MAX];
    char text[HTTP_ERROR_ROOM];
    struct dialect_value error;

    if (api == DIALECT_RESPONSES && is_openai(body, &error)) {
        buf_add_text(out, "{\"error\":");
        buf_add_slice(out, error.raw);
        buf_add_text(out, "}");
        return;
    }
    if (!dialect_message(body, message, sizeof(message))) {
        (void)snprintf(message, sizeof(message), "the engine answered %u",
                       status);
    }
    buf_add_slice(out, api == DIALECT_RESPONSES
                           ? http_error_body(status, http_status_code(status),
                                             message, text)
                           : http_error_anthropic(status, message, text));
}
