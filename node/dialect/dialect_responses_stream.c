/* The events of /v1/responses. The last one says all of the answer again, so
 * that is kept: the whole items, and what the open one has so far. */
#include "node/dialect/dialect_responses_internal.h"
#include "node/dialect/dialect_stream_internal.h"

/* Names an event, and opens its object. */
static void
put_event(struct dialect_stream *s, const char *type)
{
    buf_printf(s->out,
               "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%u", type,
               type, s->sequence++);
}

static void
end_event(struct dialect_stream *s)
{
    buf_add_text(s->out, "}\n\n");
}

/* The response as it is now. */
static void
put_response(struct dialect_stream *s, const char *type, const char *reason)
{
    const struct dialect_response r = {
        .items = buf_slice(&s->items),
        .reason = reason,
        .usage = reason != NULL ? &s->usage : NULL,
    };

    put_event(s, type);
    buf_add_text(s->out, ",\"response\":");
    dialect_response_put(
        s->out, (struct slice){s->name.ptr, s->name.len - s->id_len}, &r);
    end_event(s);
}

/* The chat's id lies behind the name. */
static struct slice
id_of(const struct dialect_stream *s)
{
    return (struct slice){s->name.ptr + s->name.len - s->id_len, s->id_len};
}

static void
start(struct dialect_stream *s, const struct dialect_chat *chat)
{
    dialect_response_name(&s->name, chat);
    buf_add_slice(&s->name, chat->id.text);
    if (s->name.failed) {
        return;
    }
    s->id_len = (uint32_t)chat->id.text.len;
    put_response(s, "response.created", NULL);
    put_response(s, "response.in_progress", NULL);
}

/* A call's id and name lie before its arguments, in s->text. */
static struct dialect_item
item_of(const struct dialect_stream *s, bool open)
{
    const char *text = s->text.ptr;
    size_t before = (size_t)s->call_len + s->call_name_len;

    return (struct dialect_item){
        .kind = s->block,
        .index = s->index,
        .open = open,
        .id = id_of(s),
        .call_id = {text, s->call_len},
        .name = {text + s->call_len, s->call_name_len},
        .text = {text + before, s->text.len - before},
        .spaces = buf_slice(&s->spaces),
    };
}

/* ,"item_id":...,"output_index":... and of texts "content_index" */
static void
put_place(struct dialect_stream *s)
{
    buf_add_text(s->out, ",\"item_id\":\"");
    dialect_item_put_id(s->out, s->block, s->index, id_of(s));
    buf_printf(s->out, "\",\"output_index\":%u%s", s->index,
               s->block == DIALECT_TOOL ? "" : ",\"content_index\":0");
}

static void
put_item(struct dialect_stream *s, const char *type,
         const struct dialect_item *item)
{
    put_event(s, type);
    buf_printf(s->out, ",\"output_index\":%u,\"item\":", s->index);
    dialect_item_put(s->out, item);
    end_event(s);
}

static void
put_part(struct dialect_stream *s, const char *type, struct slice text)
{
    put_event(s, type);
    put_place(s);
    buf_add_text(s->out, ",\"part\":");
    dialect_item_put_part(s->out, s->block, text);
    end_event(s);
}

static void
open_item(struct dialect_stream *s, const struct dialect_call *call)
{
    buf_clear(&s->text);
    s->call_len = 0;
    s->call_name_len = 0;
    if (call != NULL) {
        s->call_len = (uint32_t)call->id.text.len;
        s->call_name_len = (uint32_t)call->name.text.len;
        buf_add_slice(&s->text, call->id.text);
        buf_add_slice(&s->text, call->name.text);
    }
    if (buf_reserve(&s->text, 1) == NULL) {
        return; /* that is an error, before anything else */
    }
    struct dialect_item item = item_of(s, true);
    put_item(s, "response.output_item.added", &item);
    if (s->block != DIALECT_TOOL) {
        put_part(s, "response.content_part.added", SLICE(""));
    }
}

static const char *
type_of(const struct dialect_stream *s, bool done)
{
    return s->block == DIALECT_TEXT ? (done ? "response.output_text.done"
                                            : "response.output_text.delta")
           : s->block == DIALECT_THINKING
               ? (done ? "response.reasoning_text.done"
                       : "response.reasoning_text.delta")
               : (done ? "response.function_call_arguments.done"
                       : "response.function_call_arguments.delta");
}

static void
put_said(struct dialect_stream *s, bool done, struct slice raw)
{
    put_event(s, type_of(s, done));
    put_place(s);
    buf_printf(s->out, ",\"%s\":\"",
               !done                      ? "delta"
               : s->block == DIALECT_TOOL ? "arguments"
                                          : "text");
    buf_add_slice(s->out, raw);
    buf_add_text(s->out, "\"");
    if (s->block == DIALECT_TEXT) {
        buf_add_text(s->out, ",\"logprobs\":[]");
    }
    end_event(s);
}

static void
put_delta(struct dialect_stream *s, struct slice raw)
{
    buf_add_slice(&s->text, raw);
    put_said(s, false, raw);
}

static void
close_item(struct dialect_stream *s)
{
    if (s->text.failed) { /* the next item clears it */
        s->items.failed = true;
        return;
    }
    struct dialect_item item = item_of(s, false);
    put_said(s, true, item.text);
    if (s->block != DIALECT_TOOL) {
        put_part(s, "response.content_part.done", item.text);
    }
    put_item(s, "response.output_item.done", &item);
    buf_add_text(&s->items, s->items.len != 0 ? "," : "");
    dialect_item_put(&s->items, &item);
}

static const char *
reason(const struct dialect_stream *s, const struct dialect_chat *chat)
{
    (void)s;
    return dialect_response_reason(&chat->finish);
}

static void
finish(struct dialect_stream *s)
{
    put_response(
        s, s->reason[0] == '\0' ? "response.completed" : "response.incomplete",
        s->reason);
}

/* With `error` inside, by which OpenAI's clients know it. */
static void
fail(struct dialect_stream *s, unsigned status, struct slice body)
{
    struct buf error;

    buf_init(&error, DIALECT_EVENT_MAX);
    dialect_error(DIALECT_RESPONSES, status, body, &error);
    put_event(s, "error");
    buf_add_text(s->out, ",");
    if (error.len > 2 && !error.failed) { /* {"error":...} */
        buf_add(s->out, error.ptr + 1, error.len - 1);
        buf_add_text(s->out, "\n\n");
    } else {
        s->out->failed = true;
    }
    buf_fini(&error);
}

const struct dialect_writer dialect_responses_writer = {
    .usual = "",
    .start = start,
    .open = open_item,
    .delta = put_delta,
    .close = close_item,
    .reason = reason,
    .finish = finish,
    .fail = fail,
};
