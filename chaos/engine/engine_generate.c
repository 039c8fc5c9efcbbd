/* Generation, the way in: from a request to a place in the model's queue. */
#include "chaos/engine/engine_http_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "index/index.h"

struct engine_call *
engine_call_take(struct engine_server *server, struct httpd_request *request)
{
    CHECK(server->idle_count > 0);
    struct engine_call *call =
        &server->calls[server->idle_calls[--server->idle_count]];
    *call = (struct engine_call){
        .request = request,
        .number = server->next_number++,
        .created_s = (uint64_t)time(NULL),
        .server = server,
    };
    *httpd_user(request) = call;
    return call;
}

struct engine_rank *
engine_call_rank(struct engine_server *server, const struct engine_call *call)
{
    CHECK(call->rank < server->options->ranks);
    return &server->ranks[call->rank];
}

void
engine_call_drop(struct engine_server *server, struct engine_call *call)
{
    CHECK(server->idle_count < server->options->requests_max);
    call->request = NULL;
    engine_split_drop(server, call);
    free(call->salt);
    call->salt = NULL;
    server->idle_calls[server->idle_count++] = (uint32_t)(call - server->calls);
}

void
engine_call_gone(struct engine_server *server, struct engine_call *call)
{
    struct engine_rank *rank = engine_call_rank(server, call);

    engine_cancel(&rank->engine, call->ticket, engine_server_now(server));
    engine_ranks_publish(server, rank); /* while the call tells whose */
    rank->report.aborted++;
    engine_call_drop(server, call);
    engine_server_arm(server);
}

void
engine_call_abort_hanging(struct engine_server *server)
{
    for (uint32_t i = 0; i < server->calls_count; i++) {
        struct engine_call *call = &server->calls[i];
        if (call->request != NULL && call->ticket == 0 &&
            call->split.pass == ENGINE_PASS_NOTHING) {
            httpd_abort(call->request);
            engine_call_drop(server, call);
        }
    }
}

void
engine_call_abort_all(struct engine_server *server)
{
    for (uint32_t i = 0; i < server->calls_count; i++) {
        struct engine_call *call = &server->calls[i];
        if (call->request != NULL) {
            httpd_abort(call->request);
            engine_call_drop(server, call);
        }
    }
}

/* Whether the prompt is of a shape that the API takes. */
static bool
is_apt(const struct scan *scan)
{
    if (scan->api == SCAN_API_RESPONSES) {
        return scan->prompt_is_input && !scan->stateful &&
               (scan->shape == SCAN_MESSAGES || scan->shape == SCAN_STRING);
    }
    return (scan->api == SCAN_API_TEXT) != (scan->shape == SCAN_MESSAGES);
}

/* Why a request is invalid, as text; NULL: it is valid. */
static const char *
refusal(const struct scan *scan)
{
    if (!is_apt(scan)) {
        return scan->api == SCAN_API_TEXT
                   ? "`prompt` must be text or a list of token ids"
               : scan->api == SCAN_API_RESPONSES
                   ? "`input` must be text or a list of messages, and nothing "
                     "is stored here"
                   : "`messages` must be a list of messages";
    }
    if (scan->n != 1 || scan->prompts != 1) {
        return "this stand-in answers one prompt with one choice";
    }
    if (scan->has_max_tokens && scan->max_tokens < 1) {
        return "max_tokens must be at least 1";
    }
    if (scan->salt.present && scan->salt.len == 0) {
        return "cache_salt must be a non-empty string";
    }
    return NULL;
}

/* The tool that the answer calls; chats alone do. Why that is invalid, or
 * NULL. */
static const char *
find_tool(struct engine_server *server, struct engine_tool *tool)
{
    *tool = (struct engine_tool){.name = SLICE("")};
    return server->prompt.scan.api == SCAN_API_CHAT &&
                   engine_tools_choose(&server->prompt, tool) != 0
               ? "tool_choice asks for a tool that is not among the tools"
               : NULL;
}

/* Adapters have caches of their own, and so has each salt. */
static uint64_t
namespace_of(struct engine_server *server, uint32_t model)
{
    const struct engine_options *o = server->options;

    return key_root(
        slice_of(o->models[0]), slice_of(model > 0 ? o->models[model] : NULL),
        engine_prompt_text(&server->prompt, server->prompt.scan.salt));
}

/*
 * How many tokens to generate. False: more than the model holds, which was
 * refused. A request that names no number gets what is left, but at most
 * ENGINE_MAX_TOKENS.
 */
static bool
find_length(struct engine_server *server, struct httpd_request *request,
            uint32_t *output_len)
{
    const struct scan *scan = &server->prompt.scan;
    uint64_t max = server->ranks[0].engine.config.request_tokens_max;
    uint64_t prompt = server->prompt.ids.count;
    uint64_t left = prompt < max ? max - prompt : 0;
    uint64_t asked =
        scan->has_max_tokens
            ? (uint64_t)scan->max_tokens
            : (left > 0 && left < ENGINE_MAX_TOKENS ? left : ENGINE_MAX_TOKENS);
    char message[256];

    if (asked <= left) {
        *output_len = (uint32_t)asked;
        return true;
    }
    (void)snprintf(message, sizeof(message),
                   "This model's maximum context length is %" PRIu64
                   " tokens. However, you requested %" PRIu64
                   " tokens (%" PRIu64 " in the messages, %" PRIu64
                   " in the completion). Please reduce the length of the "
                   "messages or completion.",
                   max, prompt + asked, prompt, asked);
    httpd_error(request, 400, "context_length_exceeded", message);
    return false;
}

/* Keeps the salt for the events, which tell it. False: out of memory. */
static bool
keep_salt(struct engine_server *server, struct engine_call *call)
{
    struct slice salt =
        engine_prompt_text(&server->prompt, server->prompt.scan.salt);

    if (salt.len == 0) {
        return true;
    }
    call->salt = strndup(salt.ptr, salt.len);
    return call->salt != NULL;
}

/* The words of the answer come from the prompt. They go on as they would have
 * where the prompt has a part of them: a message that is continued, or the text
 * of a completion, whose words come from its first token and their places. */
static void
set_reply(const struct engine_server *server, struct engine_call *call)
{
    const struct engine_prompt *prompt = &server->prompt;
    const struct engine_ids *ids = &prompt->ids;
    bool text = call->api == SCAN_API_TEXT;
    size_t from = text ? 1 : prompt->continues ? prompt->spoken_at : ids->count;

    CHECK(from <= ids->count);
    call->reply_hash =
        key_next(0, ids->ids, from * sizeof(*ids->ids)) + (ids->count - from);
    call->reply_spaced = text || from < ids->count;
}

/*
 * Puts the rendered prompt into the model's queue. False: refused and
 * answered.
 */
static bool
submit(struct engine_server *server, struct engine_call *call)
{
    struct engine_ids *ids = &server->prompt.ids;
    size_t prompt_len = ids->count;
    struct httpd_request *request = call->request;

    set_reply(server, call);
    engine_ids_add_reply(ids, call->reply_hash, call->output_len,
                         call->reply_spaced);
    struct engine_request wanted = {
        .root = namespace_of(server, call->model),
        .user = (uint64_t)(call - server->calls),
        .prompt = ids->ids,
        .output = ids->ids + prompt_len,
        .prompt_len = (uint32_t)prompt_len,
        .output_len = call->output_len,
        /* vLLM computes a prompt anew whose own tokens are to be scored. */
        .cold = server->options->make == ENGINE_MAKE_VLLM &&
                server->prompt.scan.rescored,
    };
    if (call->split.pass == ENGINE_PASS_TAKE && !ids->failed &&
        keep_salt(server, call)) {
        return engine_split_take(server, call, &wanted);
    }
    int r =
        ids->failed || !keep_salt(server, call)
            ? -ENOMEM
            : engine_submit(&engine_call_rank(server, call)->engine, &wanted,
                            engine_server_now(server), &call->ticket);
    if (r != 0) {
        /* There are as many places in a model as there are calls, and the
         * length was checked: only memory is left. */
        engine_call_drop(server, call);
        *httpd_user(request) = NULL;
        httpd_error(request, 503, "overloaded", "out of memory");
        return false;
    }
    engine_server_arm(server);
    return true;
}

/* True when the request continues as usual. */
static bool
meet_fate(struct engine_server *server, struct httpd_request *request,
          struct engine_fate *fate)
{
    *fate = engine_faults_draw(
        &server->faults,
        http_head_find_name(httpd_head(request), SLICE("x-chaos")) != NULL);
    if (fate->fail_status != 0) {
        httpd_error(request, fate->fail_status, "chaos",
                    "this failure was ordered");
        return false;
    }
    if (fate->die_after_tokens == 0) {
        httpd_abort(request);
        return false;
    }
    if (fate->hang) {
        (void)engine_call_take(server, request);
        return false;
    }
    return true;
}

static void
generate(struct engine_server *server, struct httpd_request *request,
         enum scan_api api)
{
    const struct scan *scan = &server->prompt.scan;
    struct engine_fate fate;
    struct engine_split split;
    struct engine_tool tool;
    uint32_t model;
    uint32_t rank;
    uint32_t output_len;

    if (!engine_server_scan(server, request, api)) {
        return;
    }
    const char *why = refusal(scan);
    if (why == NULL) {
        why = find_tool(server, &tool);
    }
    if (why != NULL) {
        httpd_error(request, 400, "bad_request", why);
        return;
    }
    if (!engine_server_find_model(server, request, &model) ||
        !engine_server_render(server, request, true) ||
        !find_length(server, request, &output_len) ||
        !engine_split_read(server, request, &split) ||
        !engine_ranks_named(server, request, engine_ranks_idlest(server),
                            &rank)) {
        return;
    }
    if (server->idle_count == 0) {
        httpd_error(request, 503, "overloaded", "too many requests at once");
        return;
    }
    if (!meet_fate(server, request, &fate)) {
        return;
    }
    struct engine_call *call = engine_call_take(server, request);
    call->model = model;
    call->rank = rank;
    call->api = api;
    call->tool = tool;
    call->stream = scan->stream;
    call->include_usage = scan->include_usage;
    call->usage_of_each =
        scan->usage_of_each && engine_server_make(server)->counts_each;
    call->split = split;
    call->output_len = split.pass == ENGINE_PASS_HAND ? 1 : output_len;
    call->die_after_tokens = fate.die_after_tokens;
    if (submit(server, call) && call->stream) {
        httpd_begin(request, 200, "text/event-stream; charset=utf-8",
                    slice_of(server->headers));
    }
}

void
engine_post_chat(struct engine_server *s, struct httpd_request *request)
{
    generate(s, request, SCAN_API_CHAT);
}

void
engine_post_completion(struct engine_server *s, struct httpd_request *request)
{
    generate(s, request, SCAN_API_TEXT);
}

void
engine_post_responses(struct engine_server *s, struct httpd_request *request)
{
    generate(s, request, SCAN_API_RESPONSES);
}

void
engine_post_messages(struct engine_server *s, struct httpd_request *request)
{
    generate(s, request, SCAN_API_MESSAGES);
}
