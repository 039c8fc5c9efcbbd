/* A chat's stream as the events of a message. */
#include "node/dialect/dialect_chat_internal.h"

#include <string.h>

#include "node/http/http_status.h"

void
dialect_stream_init(struct dialect_stream *s, struct buf *out)
{
    memset(s, 0, sizeof(*s));
    sse_read_init(&s->sse, DIALECT_EVENT_MAX);
    s->out = out;
    s->reason = "end_turn";
}

void
dialect_stream_fini(struct dialect_stream *s)
{
    sse_read_fini(&s->sse);
}

/* Names an event, and opens its object. */
static void
put_event(struct dialect_stream *s, const char *type)
{
    buf_printf(s->out, "event: %s\ndata: {\"type\":\"%s\"", type, type);
}

static void
end_event(struct dialect_stream *s)
{
    buf_add_text(s->out, "}\n\n");
}

static bool
fail(struct dialect_stream *s, unsigned status, struct slice body)
{
    buf_add_text(s->out, "event: error\ndata: ");
    dialect_error(status, body, s->out);
    buf_add_text(s->out, "\n\n");
    s->done = true;
    s->failed = true;
    return false;
}

static void
start(struct dialect_stream *s, const struct dialect_chat *chat)
{
    const struct dialect_usage none = {.prompt = 0};

    s->started = true;
    put_event(s, "message_start");
    buf_add_text(s->out, ",\"message\":{");
    dialect_put_head(s->out, chat);
    buf_add_text(s->out, ",\"content\":[],\"stop_reason\":null,"
                         "\"stop_sequence\":null,");
    dialect_put_usage(s->out, chat->told ? &chat->usage : &none);
    buf_add_text(s->out, "}");
    end_event(s);
    put_event(s, "ping");
    end_event(s);
}

/* Blocks */

static void
close_block(struct dialect_stream *s)
{
    if (s->block == DIALECT_NONE) {
        return;
    }
    put_event(s, "content_block_stop");
    buf_printf(s->out, ",\"index\":%u", s->index);
    end_event(s);
    s->block = DIALECT_NONE;
    s->index++;
}

static void
open_block(struct dialect_stream *s, enum dialect_block block)
{
    close_block(s);
    s->block = block;
    put_event(s, "content_block_start");
    buf_printf(s->out, ",\"index\":%u,\"content_block\":{", s->index);
}

static void
put_delta(struct dialect_stream *s, const char *type, const char *key,
          struct slice raw)
{
    put_event(s, "content_block_delta");
    buf_printf(s->out, ",\"index\":%u,\"delta\":{\"type\":\"%s\",\"%s\":\"",
               s->index, type, key);
    buf_add_slice(s->out, raw);
    buf_add_text(s->out, "\"}");
    end_event(s);
}

static void
add_thought(struct dialect_stream *s, struct slice raw)
{
    if (raw.len == 0) {
        return;
    }
    if (s->block != DIALECT_THINKING) {
        open_block(s, DIALECT_THINKING);
        buf_add_text(s->out, "\"type\":\"thinking\",\"thinking\":\"\","
                             "\"signature\":\"\"}");
        end_event(s);
    }
    put_delta(s, "thinking_delta", "thinking", raw);
}

static void
add_text(struct dialect_stream *s, struct slice raw)
{
    if (raw.len == 0) {
        return;
    }
    if (s->block != DIALECT_TEXT) {
        open_block(s, DIALECT_TEXT);
        buf_add_text(s->out, "\"type\":\"text\",\"text\":\"\"}");
        end_event(s);
    }
    put_delta(s, "text_delta", "text", raw);
}

/* A block is over when the next one begins: what comes for a call that is
 * over has no place any more. */
static bool
add_call(struct dialect_stream *s, const struct dialect_value *item)
{
    struct dialect_call call;

    if (!dialect_call_read(item, &call)) {
        return false;
    }
    uint64_t number = dialect_uint(&call.index);
    bool open = s->block == DIALECT_TOOL && number == s->tool;
    if (!open && (call.name.text.len == 0 || (s->tools && number <= s->tool))) {
        return false;
    }
    if (!open) {
        open_block(s, DIALECT_TOOL);
        s->tool = number;
        s->tools = true;
        buf_add_text(s->out, "\"type\":\"tool_use\",\"id\":\"");
        buf_add_slice(s->out, call.id.text);
        buf_add_text(s->out, "\",\"name\":\"");
        buf_add_slice(s->out, call.name.text);
        buf_add_text(s->out, "\",\"input\":{}}");
        end_event(s);
    }
    if (call.arguments.text.len != 0) {
        put_delta(s, "input_json_delta", "partial_json", call.arguments.text);
    }
    return true;
}

/* The end */

static void
note_end(struct dialect_stream *s, const struct dialect_chat *chat)
{
    struct slice stop = chat->stop.text;

    if (chat->told) {
        s->usage = chat->usage;
    }
    if (chat->finish.kind != PULL_STRING) {
        return;
    }
    s->finished = true;
    s->reason = dialect_reason(&chat->finish, s->tools, stop.len != 0);
    if (stop.len != 0 && stop.len <= DIALECT_STOP_MAX && !s->tools) {
        memcpy(s->stop, stop.ptr, stop.len);
        s->stop_len = (uint32_t)stop.len;
    }
}

static void
finish(struct dialect_stream *s)
{
    close_block(s);
    put_event(s, "message_delta");
    buf_add_text(s->out, ",\"delta\":{");
    dialect_put_reason(s->out, s->reason, (struct slice){s->stop, s->stop_len});
    buf_add_text(s->out, "},");
    dialect_put_usage(s->out, &s->usage);
    end_event(s);
    put_event(s, "message_stop");
    end_event(s);
    s->done = true;
}

/* Events */

static bool
take_event(struct dialect_stream *s, struct slice data)
{
    struct dialect_chat chat;
    struct dialect_items items;
    struct dialect_value item;

    if (slice_equal(slice_trim(data), SLICE("[DONE]"))) {
        if (s->started) {
            finish(s);
            return true;
        }
        return fail(s, 502, SLICE(""));
    }
    if (!dialect_chat_read(data, &chat)) {
        return fail(
            s, 502,
            SLICE("{\"message\":\"the engine's stream is no chat's\"}"));
    }
    if (chat.error.kind != PULL_END) {
        return fail(s, 500, data);
    }
    if (!s->started) {
        start(s, &chat);
    }
    add_thought(s, chat.thought.text);
    add_text(s, chat.content.text);
    dialect_items_init(&items, &chat.calls);
    while (dialect_items_next(&items, &item)) {
        if (!add_call(s, &item)) {
            return fail(s, 502,
                        SLICE("{\"message\":\"the engine's tool calls are out "
                              "of order\"}"));
        }
    }
    note_end(s, &chat);
    return true;
}

bool
dialect_stream_give(struct dialect_stream *s, struct slice piece)
{
    struct sse_event event;

    if (s->done) {
        return !s->failed; /* what comes after the end is nobody's */
    }
    sse_read_give(&s->sse, piece);
    while (sse_read_next(&s->sse, &event)) {
        if (!s->done && !take_event(s, event.data)) {
            return false;
        }
    }
    if (s->sse.fault != NULL && !s->done) {
        return fail(s, 502,
                    SLICE("{\"message\":\"the engine's stream is none of "
                          "events\"}"));
    }
    return !s->failed;
}

bool
dialect_stream_end(struct dialect_stream *s)
{
    if (s->done) {
        return !s->failed;
    }
    if (!s->finished) {
        return fail(s, 502,
                    SLICE("{\"message\":\"the worker's answer ended too "
                          "early\"}"));
    }
    finish(s);
    return true;
}
