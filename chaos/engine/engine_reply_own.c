/* Answers as /v1/responses and /v1/messages write them. */
#include "chaos/engine/engine_http_internal.h"

#include <inttypes.h>

static bool
is_responses(const struct engine_call *call)
{
    return call->api == SCAN_API_RESPONSES;
}

/* "usage":{...}, of Responses or of Messages. */
static void
put_usage(struct engine_server *server, const struct engine_call *call,
          const struct engine_usage *usage)
{
    if (is_responses(call)) {
        buf_printf(&server->out,
                   "\"usage\":{\"input_tokens\":%u,"
                   "\"input_tokens_details\":{\"cached_tokens\":%u},"
                   "\"output_tokens\":%u,\"total_tokens\":%u}",
                   usage->prompt_tokens, usage->cached_tokens,
                   usage->completion_tokens,
                   usage->prompt_tokens + usage->completion_tokens);
    } else {
        buf_printf(&server->out,
                   "\"usage\":{\"input_tokens\":%u,\"output_tokens\":%u,"
                   "\"cache_read_input_tokens\":%u}",
                   usage->prompt_tokens - usage->cached_tokens,
                   usage->completion_tokens, usage->cached_tokens);
    }
}

/* {"id":...,"model":... without the end. */
static void
put_head(struct engine_server *server, const struct engine_call *call)
{
    const char *model = server->options->models[call->model];

    if (is_responses(call)) {
        buf_printf(&server->out,
                   "{\"id\":\"resp_%016" PRIx64
                   "\",\"object\":\"response\",\"created_at\":%" PRIu64
                   ",\"model\":\"%s\"",
                   call->number, call->created_s, model);
    } else {
        buf_printf(&server->out,
                   "{\"id\":\"msg_%016" PRIx64
                   "\",\"type\":\"message\",\"role\":\"assistant\","
                   "\"model\":\"%s\"",
                   call->number, model);
    }
}

/* Names an event and opens its object. */
static void
put_event(struct engine_server *server, struct engine_call *call,
          const char *type)
{
    buf_printf(&server->out, "event: %s\ndata: {\"type\":\"%s\",", type, type);
    if (is_responses(call)) {
        buf_printf(&server->out, "\"sequence_number\":%u,", call->events++);
    }
}

/* Of a response, whose one item is a message. The end is the caller's. */
static void
put_response_event(struct engine_server *server, struct engine_call *call,
                   const char *type)
{
    put_event(server, call, type);
    buf_add_text(&server->out, "\"response\":");
    put_head(server, call);
    buf_add_text(&server->out, ",\"status\":\"in_progress\",\"output\":[],"
                               "\"usage\":null}}\n\n");
}

/* {"type":"output_text",... with all of its text, or with none. */
static void
put_part(struct engine_server *server, const struct engine_call *call,
         bool whole)
{
    buf_add_text(&server->out,
                 "{\"type\":\"output_text\",\"annotations\":[],\"text\":\"");
    if (whole) {
        engine_reply_put(server, call);
    }
    buf_add_text(&server->out, "\"}");
}

static void
put_item(struct engine_server *server, const struct engine_call *call,
         bool whole)
{
    buf_printf(&server->out,
               "{\"id\":\"msg_%016" PRIx64
               "\",\"type\":\"message\",\"role\":\"assistant\","
               "\"status\":\"%s\",\"content\":[",
               call->number, whole ? "completed" : "in_progress");
    if (whole) {
        put_part(server, call, true);
    }
    buf_add_text(&server->out, "]}");
}

static void
put_item_event(struct engine_server *server, struct engine_call *call,
               const char *type, bool whole)
{
    put_event(server, call, type);
    buf_add_text(&server->out, "\"output_index\":0,\"item\":");
    put_item(server, call, whole);
    buf_add_text(&server->out, "}\n\n");
}

/* An event of the item's one part, up to the member that it is about. */
static void
put_part_event(struct engine_server *server, struct engine_call *call,
               const char *type)
{
    put_event(server, call, type);
    buf_printf(&server->out,
               "\"item_id\":\"msg_%016" PRIx64
               "\",\"output_index\":0,\"content_index\":0,",
               call->number);
}

static void
begin_response(struct engine_server *server, struct engine_call *call)
{
    put_response_event(server, call, "response.created");
    put_response_event(server, call, "response.in_progress");
    put_item_event(server, call, "response.output_item.added", false);
    put_part_event(server, call, "response.content_part.added");
    buf_add_text(&server->out, "\"part\":");
    put_part(server, call, false);
    buf_add_text(&server->out, "}\n\n");
}

static void
end_response(struct engine_server *server, struct engine_call *call,
             const struct engine_usage *usage)
{
    put_part_event(server, call, "response.output_text.done");
    buf_add_text(&server->out, "\"logprobs\":[],\"text\":\"");
    engine_reply_put(server, call);
    buf_add_text(&server->out, "\"}\n\n");
    put_part_event(server, call, "response.content_part.done");
    buf_add_text(&server->out, "\"part\":");
    put_part(server, call, true);
    buf_add_text(&server->out, "}\n\n");
    put_item_event(server, call, "response.output_item.done", true);
    put_event(server, call, "response.completed");
    buf_add_text(&server->out, "\"response\":");
    engine_own_whole(server, call, usage);
    buf_add_text(&server->out, "}\n\n");
}

void
engine_own_begin(struct engine_server *server, struct engine_call *call)
{
    if (is_responses(call)) {
        begin_response(server, call);
        return;
    }
    put_event(server, call, "message_start");
    buf_add_text(&server->out, "\"message\":");
    put_head(server, call);
    buf_add_text(&server->out, ",\"content\":[],\"usage\":{\"input_tokens\":0,"
                               "\"output_tokens\":0}}}\n\n");
    put_event(server, call, "content_block_start");
    buf_add_text(&server->out, "\"index\":0,\"content_block\":{\"type\":"
                               "\"text\",\"text\":\"\"}}\n\n");
}

void
engine_own_token(struct engine_server *server, struct engine_call *call,
                 struct slice text)
{
    if (is_responses(call)) {
        put_part_event(server, call, "response.output_text.delta");
        buf_printf(&server->out, "\"logprobs\":[],\"delta\":\"%.*s\"}\n\n",
                   (int)text.len, text.ptr);
        return;
    }
    put_event(server, call, "content_block_delta");
    buf_printf(&server->out,
               "\"index\":0,\"delta\":{\"type\":\"text_delta\","
               "\"text\":\"%.*s\"}}\n\n",
               (int)text.len, text.ptr);
}

void
engine_own_end(struct engine_server *server, struct engine_call *call,
               const struct engine_usage *usage)
{
    if (is_responses(call)) {
        end_response(server, call, usage);
        return;
    }
    put_event(server, call, "content_block_stop");
    buf_add_text(&server->out, "\"index\":0}\n\n");
    put_event(server, call, "message_delta");
    buf_add_text(&server->out, "\"delta\":{\"stop_reason\":\"max_tokens\"},");
    put_usage(server, call, usage);
    buf_add_text(&server->out, "}\n\n");
    put_event(server, call, "message_stop");
    server->out.len--; /* it has no more members */
    buf_add_text(&server->out, "}\n\n");
}

void
engine_own_whole(struct engine_server *server, const struct engine_call *call,
                 const struct engine_usage *usage)
{
    put_head(server, call);
    if (is_responses(call)) {
        buf_add_text(&server->out, ",\"status\":\"completed\",\"output\":[");
        put_item(server, call, true);
        buf_add_text(&server->out, "],");
    } else {
        buf_add_text(&server->out,
                     ",\"stop_reason\":\"max_tokens\",\"content\":"
                     "[{\"type\":\"text\",\"text\":\"");
        engine_reply_put(server, call);
        buf_add_text(&server->out, "\"}],");
    }
    put_usage(server, call, usage);
    buf_add_text(&server->out, "}");
}
