/* Generation, the way out: from the model's outputs to OpenAI's answers. */
#include "chaos/engine/engine_http_internal.h"

#include <inttypes.h>

/* What stands where in the two dialects. */
static const struct dialect {
    const char *id_prefix;
    const char *object;
    const char *chunk;
} dialects[] = {
    {"cmpl", "text_completion", "text_completion"},
    {"chatcmpl", "chat.completion", "chat.completion.chunk"},
};

static bool
is_chat(const struct engine_call *call)
{
    return call->api == SCAN_API_CHAT;
}

/* Responses and Messages have events of their own. */
static bool
is_own(const struct engine_call *call)
{
    return call->api == SCAN_API_RESPONSES || call->api == SCAN_API_MESSAGES;
}

/* {"id":...,"object":...,"created":...,"model":... without the end. */
static void
put_head(struct engine_server *server, const struct engine_call *call,
         bool chunk)
{
    const struct dialect *d = &dialects[is_chat(call)];

    buf_printf(&server->out,
               "{\"id\":\"%s-%016" PRIx64 "\",\"object\":\"%s\","
               "\"created\":%" PRIu64 ",\"model\":\"%s\","
               "\"system_fingerprint\":\"%s\"",
               d->id_prefix, call->number, chunk ? d->chunk : d->object,
               call->created_s, server->options->models[call->model],
               server->options->name);
}

static bool
tells(const struct engine_server *server, enum engine_tells how)
{
    return engine_server_make(server)->tells == how;
}

static void
put_counts(struct engine_server *server, uint32_t prompt, uint32_t completion)
{
    buf_printf(&server->out,
               ",\"usage\":{\"prompt_tokens\":%u,\"total_tokens\":%u,"
               "\"completion_tokens\":%u",
               prompt, prompt + completion, completion);
}

static void
put_usage(struct engine_server *server, const struct engine_usage *usage)
{
    struct buf *out = &server->out;

    put_counts(server, usage->prompt_tokens, usage->completion_tokens);
    if (!tells(server, ENGINE_TELLS_NOTHING)) {
        buf_printf(out, ",\"prompt_tokens_details\":{\"cached_tokens\":%u}",
                   usage->cached_tokens);
    }
    buf_add_text(out, "}");
}

/* What an event of a stream says of it, that has something else to say. */
static void
put_usage_beside(struct engine_server *server, const struct engine_call *call,
                 uint32_t prompt, uint32_t completion)
{
    if (call->usage_of_each) {
        put_counts(server, prompt, completion);
        buf_add_text(&server->out, "}");
    } else if (!is_chat(call) && engine_server_make(server)->null_usage) {
        buf_add_text(&server->out, ",\"usage\":null");
    }
}

/* llama.cpp's own account, at the end of every answer. */
static void
put_timings(struct engine_server *server, const struct engine_usage *usage)
{
    if (tells(server, ENGINE_TELLS_TIMINGS)) {
        buf_printf(&server->out,
                   ",\"timings\":{\"cache_n\":%u,\"prompt_n\":%u,"
                   "\"predicted_n\":%u}",
                   usage->cached_tokens,
                   usage->prompt_tokens - usage->cached_tokens,
                   usage->completion_tokens);
    }
}

/* Answers end at their length, but for calls of tools. */
static const char *
finish_of(const struct engine_call *call)
{
    return call->tool.name.len != 0 ? "\"tool_calls\"" : "\"length\"";
}

/* The beginning of the arguments, as the inside of a string: {"NAME": " */
static void
put_argument(struct engine_server *server, const struct engine_call *call)
{
    struct slice name = call->tool.argument;
    char piece[256];

    buf_add_text(&server->out, "{\\\"");
    while (name.len != 0) {
        size_t len = json_text_escape(&name, piece, sizeof(piece));
        buf_add(&server->out, piece, len);
    }
    buf_add_text(&server->out, "\\\": \\\"");
}

/* What a token says in the arguments of a tool. */
static void
put_tool_delta(struct engine_server *server, const struct engine_call *call,
               struct slice text, const struct engine_out *out)
{
    buf_add_text(&server->out, "{\"tool_calls\":[{\"index\":0,\"function\":{"
                               "\"arguments\":\"");
    if (out->index == 0) {
        put_argument(server, call);
    }
    buf_add_slice(&server->out, text);
    if (out->index + 1 == call->output_len) {
        buf_add_text(&server->out, "\\\"}");
    }
    buf_add_text(&server->out, "\"}}]}");
}

/* A tool's call, before its arguments; of a stream or of a whole answer. */
static void
put_tool_head(struct engine_server *server, const struct engine_call *call)
{
    buf_printf(&server->out,
               "\"id\":\"chatcmpl-tool-%016" PRIx64
               "\",\"type\":\"function\",\"function\":{\"name\":\"",
               call->number);
    buf_add_slice(&server->out, call->tool.name);
    buf_add_text(&server->out, "\",\"arguments\":\"");
}

/* One chunk with one choice; text needs no escapes. */
static void
put_chunk(struct engine_server *server, const struct engine_call *call,
          struct slice text, const struct engine_out *out)
{
    bool last = out->index + 1 == call->output_len;

    buf_add_text(&server->out, "data: ");
    put_head(server, call, true);
    buf_add_text(&server->out, ",\"choices\":[{\"index\":0,");
    if (call->tool.name.len != 0) {
        buf_add_text(&server->out, "\"delta\":");
        put_tool_delta(server, call, text, out);
    } else {
        buf_printf(&server->out,
                   is_chat(call) ? "\"delta\":{\"content\":\"%.*s\"}"
                                 : "\"text\":\"%.*s\"",
                   (int)text.len, text.ptr);
    }
    buf_printf(&server->out, ",\"logprobs\":null,\"finish_reason\":%s}]",
               last ? finish_of(call) : "null");
    put_usage_beside(server, call, out->usage.prompt_tokens, out->index + 1);
    if (last && !call->include_usage) {
        put_timings(server, &out->usage);
    }
    buf_add_text(&server->out, "}\n\n");
}

/* The empty first chunk of a chat, which names the role, and the one that
 * names the tool. */
static void
put_role(struct engine_server *server, const struct engine_call *call,
         uint32_t prompt)
{
    static const char end[] = "},\"logprobs\":null,\"finish_reason\":null}]";
    bool sglang = engine_server_make(server)->null_usage; /* not with these */

    buf_add_text(&server->out, "data: ");
    put_head(server, call, true);
    buf_add_text(&server->out, ",\"choices\":[{\"index\":0,\"delta\":{"
                               "\"role\":\"assistant\",\"content\":\"\"");
    buf_add_text(&server->out, end);
    if (!sglang) {
        put_usage_beside(server, call, prompt, 0);
    }
    buf_add_text(&server->out, "}\n\n");
    if (call->tool.name.len != 0) {
        buf_add_text(&server->out, "data: ");
        put_head(server, call, true);
        buf_add_text(&server->out, ",\"choices\":[{\"index\":0,\"delta\":{"
                                   "\"tool_calls\":[{\"index\":0,");
        put_tool_head(server, call);
        buf_add_text(&server->out, "\"}}]");
        buf_add_text(&server->out, end);
        put_usage_beside(server, call, prompt, 0);
        buf_add_text(&server->out, "}\n\n");
    }
}

/* Aborts a connection and drops its call. */
static void
abort_call(struct engine_server *server, struct engine_call *call)
{
    struct engine_rank *rank = engine_call_rank(server, call);

    engine_cancel(&rank->engine, call->ticket, engine_server_now(server));
    engine_ranks_publish(server, rank);
    httpd_abort(call->request);
    rank->report.aborted++;
    engine_call_drop(server, call);
}

/* Sends the contents of server->out. False: the client did not read, and its
 * connection was aborted. */
static bool
send_out(struct engine_server *server, struct engine_call *call)
{
    if (!server->out.failed &&
        httpd_send(call->request, buf_slice(&server->out)) == 0) {
        return true;
    }
    LOG_WARNING("client_too_slow", KV("unsent_max", ENGINE_UNSENT_BYTES_MAX));
    abort_call(server, call);
    return false;
}

/* Whether the token goes out, with those before that did not; else it waits for
 * the next ones. */
static bool
is_due(struct engine_server *server, struct engine_call *call,
       const struct engine_out *out)
{
    bool alone = is_own(call) || call->tool.name.len != 0;
    uint32_t most = server->faults.event_tokens;

    if (call->event_len == 0) {
        call->event_due =
            out->index + (uint32_t)(rng_mix(call->number + out->index) % most);
    }
    return alone || out->index >= call->event_due ||
           out->index + 1 == call->output_len;
}

static void
stream_token(struct engine_server *server, struct engine_call *call,
             const struct engine_out *out)
{
    bool due = is_due(server, call, out);

    buf_clear(&server->out);
    if (out->index == 0 && is_own(call)) {
        engine_own_begin(server, call);
    } else if (out->index == 0 && is_chat(call)) {
        put_role(server, call, out->usage.prompt_tokens);
    }
    CHECK(call->event_len + ENGINE_TOKEN_BYTES_MAX <= sizeof(call->event));
    call->event_len +=
        engine_token_text(out->token, call->event + call->event_len);
    if (due) {
        struct slice text = {call->event, call->event_len};
        call->event_len = 0;
        if (is_own(call)) {
            engine_own_token(server, call, text);
        } else {
            put_chunk(server, call, text, out);
        }
    }
    if (server->out.len != 0) {
        (void)send_out(server, call);
    }
}

static void
stream_end(struct engine_server *server, struct engine_call *call,
           const struct engine_usage *usage)
{
    buf_clear(&server->out);
    if (is_own(call)) {
        engine_own_end(server, call, usage);
    } else if (call->include_usage) {
        buf_add_text(&server->out, "data: ");
        put_head(server, call, true);
        buf_add_text(&server->out, ",\"choices\":[]");
        put_usage(server, usage);
        put_timings(server, usage);
        buf_add_text(&server->out, "}\n\n");
    }
    bool dies = call->die_after_tokens == call->output_len + 1;

    if (!is_own(call) && !dies) {
        buf_add_text(&server->out, "data: [DONE]\n\n");
    }
    if (!send_out(server, call)) {
        return;
    }
    if (dies) {
        abort_call(server, call);
    } else {
        httpd_end(call->request);
        engine_call_drop(server, call);
    }
}

/* Generates it again, from the same values as the first time. */
void
engine_reply_put(struct engine_server *server, const struct engine_call *call)
{
    struct engine_ids *ids = &server->prompt.ids;
    char text[ENGINE_TOKEN_BYTES_MAX];

    ids->count = 0;
    ids->failed = false;
    engine_ids_add_reply(ids, call->reply_hash, call->output_len,
                         call->reply_spaced);
    for (size_t i = 0; i < ids->count; i++) {
        size_t len = engine_token_text(ids->ids[i], text);
        buf_add(&server->out, text, len);
    }
    server->out.failed |= ids->failed;
}

static void
put_message(struct engine_server *server, const struct engine_call *call)
{
    bool calls = call->tool.name.len != 0;

    buf_add_text(&server->out, "\"message\":{\"role\":\"assistant\",");
    if (calls) {
        buf_add_text(&server->out, "\"content\":null,\"tool_calls\":[{");
        put_tool_head(server, call);
        put_argument(server, call);
    } else {
        buf_add_text(&server->out, "\"content\":\"");
    }
    engine_reply_put(server, call);
    buf_add_text(&server->out, calls ? "\\\"}\"}}]}" : "\"}");
}

static void
put_whole(struct engine_server *server, const struct engine_call *call,
          const struct engine_usage *usage)
{
    put_head(server, call, false);
    buf_add_text(&server->out, ",\"choices\":[{\"index\":0,");
    if (is_chat(call)) {
        put_message(server, call);
    } else {
        buf_add_text(&server->out, "\"text\":\"");
        engine_reply_put(server, call);
        buf_add_text(&server->out, "\"");
    }
    buf_printf(&server->out, ",\"logprobs\":null,\"finish_reason\":%s}]",
               finish_of(call));
    put_usage(server, usage);
    put_timings(server, usage);
    engine_split_put(server, call, usage);
    buf_add_text(&server->out, "}");
}

static void
answer_whole(struct engine_server *server, struct engine_call *call,
             const struct engine_usage *usage)
{
    buf_clear(&server->out);
    if (is_own(call)) {
        engine_own_whole(server, call, usage);
    } else {
        put_whole(server, call, usage);
    }
    engine_server_answer(server, call->request, "application/json");
    engine_call_drop(server, call);
}

static void
observe(struct engine_server *server, struct engine_call *call,
        const struct engine_out *out)
{
    struct engine_report *report = &engine_call_rank(server, call)->report;
    const struct engine_usage *usage = &out->usage;
    uint64_t from_us = usage->submitted_us;

    switch (out->kind) {
    case ENGINE_OUT_FIRST:
        report->cached_tokens += usage->cached_tokens;
        engine_report_queue(report, engine_server_seconds(
                                        server, usage->admitted_us - from_us));
        engine_report_first_token(
            report, engine_server_seconds(server, out->at_us - from_us));
        break;
    case ENGINE_OUT_TOKEN:
        engine_report_inter_token(
            report, engine_server_seconds(server, out->at_us - call->token_us));
        break;
    case ENGINE_OUT_END:
        report->finished++;
        engine_report_whole(
            report, engine_server_seconds(server, out->at_us - from_us));
        break;
    }
    call->token_us = out->at_us;
}

void
engine_reply_end(struct engine_server *server, struct engine_call *call,
                 const struct engine_usage *usage)
{
    if (call->stream) {
        stream_end(server, call, usage);
    } else {
        answer_whole(server, call, usage);
    }
}

void
engine_call_output(struct engine_server *server, const struct engine_out *out)
{
    struct engine_call *call = &server->calls[out->user];

    CHECK(call->request != NULL && call->ticket == out->ticket);
    observe(server, call, out);
    bool ends = out->kind == ENGINE_OUT_END;
    bool dies = ends
                    ? call->stream && call->die_after_tokens == call->output_len
                    : out->index == call->die_after_tokens;

    if (dies) {
        abort_call(server, call);
    } else if (ends) {
        if (!engine_split_holds(server, call, &out->usage)) {
            engine_reply_end(server, call, &out->usage);
        }
    } else if (call->stream) {
        stream_token(server, call, out);
    }
}
