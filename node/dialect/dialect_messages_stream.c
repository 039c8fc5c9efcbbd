/* The events of /v1/messages. */
#include "node/dialect/dialect_stream_internal.h"

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

static void
start(struct dialect_stream *s, const struct dialect_chat *chat)
{
    const struct dialect_usage none = {.prompt = 0};

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

static void
open_block(struct dialect_stream *s, const struct dialect_call *call)
{
    put_event(s, "content_block_start");
    buf_printf(s->out, ",\"index\":%u,\"content_block\":{", s->index);
    if (call != NULL) {
        buf_add_text(s->out, "\"type\":\"tool_use\",\"id\":\"");
        buf_add_slice(s->out, call->id.text);
        buf_add_text(s->out, "\",\"name\":\"");
        buf_add_slice(s->out, call->name.text);
        buf_add_text(s->out, "\",\"input\":{}}");
    } else {
        buf_add_text(s->out, s->block == DIALECT_TEXT
                                 ? "\"type\":\"text\",\"text\":\"\"}"
                                 : "\"type\":\"thinking\",\"thinking\":\"\","
                                   "\"signature\":\"\"}");
    }
    end_event(s);
}

static void
put_delta(struct dialect_stream *s, struct slice raw)
{
    const char *type = s->block == DIALECT_TEXT       ? "text"
                       : s->block == DIALECT_THINKING ? "thinking"
                                                      : "input_json";

    put_event(s, "content_block_delta");
    buf_printf(
        s->out, ",\"index\":%u,\"delta\":{\"type\":\"%s_delta\",\"%s\":\"",
        s->index, type, s->block == DIALECT_TOOL ? "partial_json" : type);
    buf_add_slice(s->out, raw);
    buf_add_text(s->out, "\"}");
    end_event(s);
}

static void
close_block(struct dialect_stream *s)
{
    put_event(s, "content_block_stop");
    buf_printf(s->out, ",\"index\":%u", s->index);
    end_event(s);
}

static const char *
reason(const struct dialect_stream *s, const struct dialect_chat *chat)
{
    return dialect_reason(&chat->finish, s->tools, chat->stop.text.len != 0);
}

static void
finish(struct dialect_stream *s)
{
    put_event(s, "message_delta");
    buf_add_text(s->out, ",\"delta\":{");
    dialect_put_reason(s->out, s->reason, (struct slice){s->stop, s->stop_len});
    buf_add_text(s->out, "},");
    dialect_put_usage(s->out, &s->usage);
    end_event(s);
    put_event(s, "message_stop");
    end_event(s);
}

static void
fail(struct dialect_stream *s, unsigned status, struct slice body)
{
    buf_add_text(s->out, "event: error\ndata: ");
    dialect_error(DIALECT_MESSAGES, status, body, s->out);
    buf_add_text(s->out, "\n\n");
}

const struct dialect_writer dialect_messages_writer = {
    .usual = "end_turn",
    .start = start,
    .open = open_block,
    .delta = put_delta,
    .close = close_block,
    .reason = reason,
    .finish = finish,
    .fail = fail,
};
