/* A chat's stream as that of another API: which block is open, when it ends. */
#include "node/dialect/dialect_responses_internal.h"
#include "node/dialect/dialect_stream_internal.h"

#include <string.h>

#include "node/text/finish.h"

void
dialect_stream_init(struct dialect_stream *s, enum dialect api,
                    struct slice asked, struct buf *out)
{
    memset(s, 0, sizeof(*s));
    sse_read_init(&s->sse, DIALECT_EVENT_MAX);
    buf_init(&s->name, DIALECT_EVENT_MAX);
    buf_init(&s->items, DIALECT_KEPT_MAX);
    buf_init(&s->text, DIALECT_KEPT_MAX);
    buf_init(&s->spaces, DIALECT_EVENT_MAX);
    if (api == DIALECT_RESPONSES) {
        dialect_spaces_read(asked, &s->spaces);
    }
    s->out = out;
    s->writer = api == DIALECT_RESPONSES ? &dialect_responses_writer
                                         : &dialect_messages_writer;
    s->reason = s->writer->usual;
}

void
dialect_stream_fini(struct dialect_stream *s)
{
    sse_read_fini(&s->sse);
    buf_fini(&s->name);
    buf_fini(&s->items);
    buf_fini(&s->text);
    buf_fini(&s->spaces);
}

static bool
fail(struct dialect_stream *s, unsigned status, struct slice body)
{
    s->writer->fail(s, status, body);
    s->done = true;
    s->failed = true;
    return false;
}

/* Blocks */

static void
close_block(struct dialect_stream *s)
{
    if (s->block != DIALECT_NONE) {
        s->writer->close(s);
        s->block = DIALECT_NONE;
        s->index++;
    }
}

static void
open_block(struct dialect_stream *s, enum dialect_block block,
           const struct dialect_call *call)
{
    close_block(s);
    s->block = block;
    s->writer->open(s, call);
}

static void
add_text(struct dialect_stream *s, enum dialect_block block, struct slice raw)
{
    if (raw.len != 0) {
        if (s->block != block) {
            open_block(s, block, NULL);
        }
        s->writer->delta(s, raw);
    }
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
        open_block(s, DIALECT_TOOL, &call);
        s->tool = number;
        s->tools = true;
    }
    if (call.arguments.text.len != 0) {
        s->writer->delta(s, call.arguments.text);
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
    s->given_up = finish_gives_up(chat->finish.text);
    s->reason = s->writer->reason(s, chat);
    if (stop.len != 0 && stop.len <= DIALECT_STOP_MAX && !s->tools) {
        memcpy(s->stop, stop.ptr, stop.len);
        s->stop_len = (uint32_t)stop.len;
    }
}

/* whole: as far as its events show. */
static bool
end(struct dialect_stream *s, bool whole)
{
    if (!whole || s->given_up) {
        return fail(s, 502,
                    SLICE("{\"message\":\"the worker's answer ended too "
                          "early\"}"));
    }
    close_block(s);
    s->writer->finish(s);
    s->done = true;
    return true;
}

/* Events */

#define TOO_LONG "{\"message\":\"the answer is too long\"}"

/* What is to be said again has no room. */
static bool
is_full(const struct dialect_stream *s)
{
    return s->spaces.failed || s->name.failed || s->items.failed ||
           s->text.failed;
}

static bool
take_event(struct dialect_stream *s, struct slice data)
{
    struct dialect_chat chat;
    struct dialect_items items;
    struct dialect_value item;

    if (slice_equal(slice_trim(data), SLICE("[DONE]"))) {
        return end(s, s->started);
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
        s->started = true;
        s->writer->start(s, &chat);
        if (is_full(s)) {
            return fail(s, 502, SLICE(TOO_LONG));
        }
    }
    add_text(s, DIALECT_THINKING, chat.thought.text);
    add_text(s, DIALECT_TEXT, chat.content.text);
    dialect_items_init(&items, &chat.calls);
    while (dialect_items_next(&items, &item)) {
        if (!add_call(s, &item)) {
            return fail(s, 502,
                        SLICE("{\"message\":\"the engine's tool calls are out "
                              "of order\"}"));
        }
    }
    note_end(s, &chat);
    if (is_full(s)) {
        return fail(s, 502, SLICE(TOO_LONG));
    }
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
    return s->done ? !s->failed : end(s, s->finished);
}
