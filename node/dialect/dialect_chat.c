/* Chat completions and their events, taken apart; what of them a message says
 * in the same words, whole or streamed. */
#include "node/dialect/dialect_chat_internal.h"

#include <inttypes.h>

#include "node/text/finish.h"

#define COUNT(names) (sizeof(names) / sizeof(*(names)))

static bool
read_usage(const struct dialect_value *usage, struct dialect_usage *out)
{
    static const char *const names[] = {"prompt_tokens", "completion_tokens",
                                        "prompt_tokens_details"};
    static const char *const detail_names[] = {"cached_tokens"};
    struct dialect_value v[COUNT(names)];
    struct dialect_value cached = {.kind = PULL_END};

    if (!dialect_members(usage->raw, names, COUNT(names), v) ||
        (v[2].kind == PULL_OBJECT &&
         !dialect_members(v[2].raw, detail_names, 1, &cached))) {
        return false;
    }
    out->prompt = dialect_uint(&v[0]);
    out->completion = dialect_uint(&v[1]);
    out->cached = dialect_uint(&cached);
    if (out->cached > out->prompt) {
        out->cached = out->prompt;
    }
    return true;
}

/* A message, or what a delta adds to it. */
static bool
read_said(const struct dialect_value *said, struct dialect_chat *chat)
{
    static const char *const names[] = {"content", "reasoning_content",
                                        "reasoning", "tool_calls", "refusal"};
    struct dialect_value v[COUNT(names)];

    if (said->kind == PULL_END) {
        return true;
    }
    if (!dialect_members(said->raw, names, COUNT(names), v)) {
        return false;
    }
    chat->content = v[0].text.len != 0 ? v[0] : v[4];
    chat->thought = v[1].text.len != 0 ? v[1] : v[2];
    chat->calls = v[3];
    return true;
}

static bool
read_choice(const struct dialect_value *choice, struct dialect_chat *chat)
{
    static const char *const names[] = {"message", "delta", "finish_reason",
                                        "stop_reason", "matched_stop"};
    struct dialect_value v[COUNT(names)];

    if (!dialect_members(choice->raw, names, COUNT(names), v)) {
        return false;
    }
    chat->choice = true;
    chat->finish = v[2];
    chat->stop = v[3].kind == PULL_STRING ? v[3] : v[4];
    return read_said(v[0].kind != PULL_END ? &v[0] : &v[1], chat);
}

bool
dialect_chat_read(struct slice json, struct dialect_chat *chat)
{
    static const char *const names[] = {"id",      "model", "error",
                                        "choices", "usage", "created"};
    struct dialect_value v[COUNT(names)];
    struct dialect_items items;
    struct dialect_value choice;

    *chat = (struct dialect_chat){.choice = false};
    if (!dialect_members(json, names, COUNT(names), v)) {
        return false;
    }
    chat->id = v[0];
    chat->model = v[1];
    chat->error = v[2];
    chat->created = v[5];
    chat->told = v[4].kind == PULL_OBJECT;
    dialect_items_init(&items, &v[3]);
    if (dialect_items_next(&items, &choice) && !read_choice(&choice, chat)) {
        return false;
    }
    return !chat->told || read_usage(&v[4], &chat->usage);
}

bool
dialect_chat_read_whole(struct slice json, struct dialect_chat *chat)
{
    return dialect_chat_read(json, chat) && chat->choice &&
           !finish_gives_up(chat->finish.text);
}

bool
dialect_call_read(const struct dialect_value *item, struct dialect_call *call)
{
    static const char *const names[] = {"index", "id", "function"};
    static const char *const inner[] = {"name", "arguments"};
    struct dialect_value v[COUNT(names)];
    struct dialect_value f[COUNT(inner)] = {{.kind = PULL_END}};

    if (!dialect_members(item->raw, names, COUNT(names), v) ||
        (v[2].kind != PULL_END &&
         !dialect_members(v[2].raw, inner, COUNT(inner), f))) {
        return false;
    }
    *call = (struct dialect_call){v[0], v[1], f[0], f[1]};
    return true;
}

const char *
dialect_reason(const struct dialect_value *finish, bool tools, bool stopped)
{
    if (dialect_is(finish, "length")) {
        return "max_tokens";
    }
    if (dialect_is(finish, "content_filter")) {
        return "refusal";
    }
    return tools || dialect_is(finish, "tool_calls") ? "tool_use"
           : stopped                                 ? "stop_sequence"
                                                     : "end_turn";
}

void
dialect_put_head(struct buf *out, const struct dialect_chat *chat)
{
    buf_add_text(out, "\"id\":\"msg_");
    buf_add_slice(out, chat->id.text);
    buf_add_text(out, "\",\"type\":\"message\",\"role\":\"assistant\","
                      "\"model\":\"");
    buf_add_slice(out, chat->model.text);
    buf_add_text(out, "\"");
}

void
dialect_put_reason(struct buf *out, const char *reason, struct slice raw)
{
    buf_printf(out, "\"stop_reason\":\"%s\",\"stop_sequence\":", reason);
    if (raw.len == 0) {
        buf_add_text(out, "null");
        return;
    }
    buf_add_text(out, "\"");
    buf_add_slice(out, raw);
    buf_add_text(out, "\"");
}

void
dialect_put_usage(struct buf *out, const struct dialect_usage *usage)
{
    buf_printf(out,
               "\"usage\":{\"input_tokens\":%" PRIu64
               ",\"cache_creation_input_tokens\":0"
               ",\"cache_read_input_tokens\":%" PRIu64
               ",\"output_tokens\":%" PRIu64 "}",
               usage->prompt - usage->cached, usage->cached, usage->completion);
}
