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

    buf_printf(&server->out,
               is_responses(call)
                   ? "{\"id\":\"resp_%016" PRIx64
                     "\",\"object\":\"response\",\"model\":\"%s\""
                   : "{\"id\":\"msg_%016" PRIx64
                     "\",\"type\":\"message\",\"role\":\"assistant\","
                     "\"model\":\"%s\"",
               call->number, model);
}

/* Names an event and opens its object. */
static void
put_event(struct engine_server *server, const char *type)
{
    buf_printf(&server->out, "event: %s\ndata: {\"type\":\"%s\",", type, type);
}

void
engine_own_begin(struct engine_server *server, const struct engine_call *call)
{
    if (is_responses(call)) {
        put_event(server, "response.created");
        buf_add_text(&server->out, "\"response\":");
        put_head(server, call);
        buf_add_text(&server->out, ",\"usage\":null}}\n\n");
        return;
    }
    put_event(server, "message_start");
    buf_add_text(&server->out, "\"message\":");
    put_head(server, call);
    buf_add_text(&server->out, ",\"content\":[],\"usage\":{\"input_tokens\":0,"
                               "\"output_tokens\":0}}}\n\n");
    put_event(server, "content_block_start");
    buf_add_text(&server->out, "\"index\":0,\"content_block\":{\"type\":"
                               "\"text\",\"text\":\"\"}}\n\n");
}

void
engine_own_token(struct engine_server *server, const struct engine_call *call,
                 struct slice text)
{
    put_event(server, is_responses(call) ? "response.output_text.delta"
                                         : "content_block_delta");
    buf_printf(&server->out,
               is_responses(call)
                   ? "\"output_index\":0,\"delta\":\"%.*s\"}\n\n"
                   : "\"index\":0,\"delta\":{\"type\":\"text_delta\","
                     "\"text\":\"%.*s\"}}\n\n",
               (int)text.len, text.ptr);
}

void
engine_own_end(struct engine_server *server, const struct engine_call *call,
               const struct engine_usage *usage)
{
    if (is_responses(call)) {
        put_event(server, "response.completed");
        buf_add_text(&server->out, "\"response\":");
        engine_own_whole(server, call, usage);
        buf_add_text(&server->out, "}\n\n");
        return;
    }
    put_event(server, "content_block_stop");
    buf_add_text(&server->out, "\"index\":0}\n\n");
    put_event(server, "message_delta");
    buf_add_text(&server->out, "\"delta\":{\"stop_reason\":\"max_tokens\"},");
    put_usage(server, call, usage);
    buf_add_text(&server->out, "}\n\n");
    put_event(server, "message_stop");
    server->out.len--; /* it has no more members */
    buf_add_text(&server->out, "}\n\n");
}

void
engine_own_whole(struct engine_server *server, const struct engine_call *call,
                 const struct engine_usage *usage)
{
    put_head(server, call);
    buf_add_text(&server->out,
                 is_responses(call)
                     ? ",\"status\":\"completed\",\"output\":[{\"type\":"
                       "\"message\",\"role\":\"assistant\",\"content\":[{"
                       "\"type\":\"output_text\",\"text\":\""
                     : ",\"stop_reason\":\"max_tokens\",\"content\":[{"
                       "\"type\":\"text\",\"text\":\"");
    engine_reply_put(server, call);
    buf_add_text(&server->out, is_responses(call) ? "\"}]}]," : "\"}],");
    put_usage(server, call, usage);
    buf_add_text(&server->out, "}");
}
