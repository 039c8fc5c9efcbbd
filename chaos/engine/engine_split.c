/*
 * Prefill and decode apart: one engine computes a prompt, another one goes on
 * with it.
 *
 *   vllm    a request with kv_transfer_params.do_remote_decode is answered with
 *           others, which say where its prompt is; a request with those gets it
 *           there
 *   sglang  both get one request with bootstrap_host, _port and _room; the one
 *           with --split prefill answers when the other one has the
 *           prompt
 *
 * Engines pass KV by RDMA; these only ask each other whether the prompt is
 * there (GET /chaos/kv/KEY), and then wait as long as its transfer would take.
 */
#include "chaos/engine/engine_http_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KV_PATH         "/chaos/kv/"
#define PULL_TIMEOUT_MS 60000U

/* Reading */

static bool
refuse(struct httpd_request *request, const char *why)
{
    httpd_error(request, 400, "bad_request", why);
    return false;
}

struct members {
    bool decodes; /* do_remote_decode */
    bool takes;   /* do_remote_prefill */
    bool has_host;
    bool has_port;
    bool has_key;
    bool has_blocks;
    uint64_t port;
    uint64_t tokens;
    char request[24];
    struct engine_split *split;
};

/* A member of kv_transfer_params, whose key was read. */
static bool
read_param(struct json_pull *pull, struct members *m)
{
    const struct json_pull key = *pull;
    enum pull_token token = json_pull_next(pull);

    if (json_pull_is(&key, SLICE("do_remote_decode"))) {
        m->decodes = token == PULL_TRUE;
    } else if (json_pull_is(&key, SLICE("do_remote_prefill"))) {
        m->takes = token == PULL_TRUE;
    } else if (json_pull_is(&key, SLICE("remote_block_ids"))) {
        m->has_blocks = token == PULL_ARRAY;
    } else if (token == PULL_STRING &&
               json_pull_is(&key, SLICE("remote_host"))) {
        m->has_host =
            json_pull_copy(pull, m->split->host, sizeof(m->split->host)) > 0;
    } else if (token == PULL_STRING &&
               json_pull_is(&key, SLICE("remote_request_id"))) {
        m->has_key = json_pull_copy(pull, m->request, sizeof(m->request)) > 0;
        m->split->key = strtoull(m->request, NULL, 16);
    } else if (token == PULL_NUMBER &&
               json_pull_is(&key, SLICE("remote_port"))) {
        m->has_port = json_pull_uint(pull, UINT16_MAX, &m->port);
    } else if (token == PULL_NUMBER &&
               json_pull_is(&key, SLICE("remote_num_tokens")) &&
               !json_pull_uint(pull, UINT32_MAX, &m->tokens)) {
        return false;
    }
    return json_pull_skip(pull);
}

static bool
read_params(struct json_pull *pull, struct members *m)
{
    enum pull_token token;

    while ((token = json_pull_next(pull)) == PULL_KEY) {
        if (!read_param(pull, m)) {
            return false;
        }
    }
    return token == PULL_OBJECT_END;
}

static bool
read_member(struct json_pull *pull, bool sglang, struct members *m)
{
    const struct json_pull key = *pull;
    enum pull_token token = json_pull_next(pull);

    if (!sglang) {
        return token == PULL_OBJECT &&
                       json_pull_is(&key, SLICE("kv_transfer_params"))
                   ? read_params(pull, m)
                   : json_pull_skip(pull);
    }
    if (token == PULL_STRING && json_pull_is(&key, SLICE("bootstrap_host"))) {
        m->has_host =
            json_pull_copy(pull, m->split->host, sizeof(m->split->host)) > 0;
    } else if (token == PULL_NUMBER &&
               json_pull_is(&key, SLICE("bootstrap_port"))) {
        m->has_port = json_pull_uint(pull, UINT16_MAX, &m->port);
    } else if (token == PULL_NUMBER &&
               json_pull_is(&key, SLICE("bootstrap_room"))) {
        m->has_key = json_pull_uint(pull, INT64_MAX, &m->split->key);
    }
    return json_pull_skip(pull);
}

/* What vLLM makes of it. */
static bool
settle_params(struct engine_server *server, struct httpd_request *request,
              struct members *m)
{
    if (m->decodes) {
        m->split->pass = ENGINE_PASS_TELL;
        return true;
    }
    if (!m->takes) {
        return true;
    }
    m->split->pass = ENGINE_PASS_TAKE;
    if (!m->has_host || !m->has_port || !m->has_key || !m->has_blocks ||
        m->tokens != server->prompt.ids.count) {
        return refuse(request, "kv_transfer_params are not of this prompt");
    }
    return true;
}

bool
engine_split_read(struct engine_server *server, struct httpd_request *request,
                  struct engine_split *split)
{
    const struct engine_options *o = server->options;
    bool sglang = o->make == ENGINE_MAKE_SGLANG;
    struct members m = {.split = split};
    struct json_pull pull;
    enum pull_token token;

    *split = (struct engine_split){.pass = ENGINE_PASS_NOTHING};
    if (o->split == ENGINE_PART_OFF) {
        return true;
    }
    json_pull_init(&pull, httpd_body(request));
    token = json_pull_next(&pull);
    while (token == PULL_OBJECT && json_pull_next(&pull) == PULL_KEY) {
        if (!read_member(&pull, sglang, &m)) {
            return refuse(request, "the body cannot be read");
        }
    }
    split->port = (uint16_t)m.port;
    if (!sglang) {
        return settle_params(server, request, &m);
    }
    if (!m.has_host || !m.has_port || !m.has_key) {
        return refuse(request, "Disaggregated request received without "
                               "bootstrap room id");
    }
    split->pass =
        o->split == ENGINE_PART_PREFILL ? ENGINE_PASS_HAND : ENGINE_PASS_TAKE;
    return true;
}

/* The engine that goes on */

static void
fail(struct engine_server *server, struct engine_call *call)
{
    struct httpd_request *request = call->request;

    *httpd_user(request) = NULL;
    if (call->stream) {
        httpd_abort(request);
    } else {
        httpd_error(request, 500, "internal_error", "KV transfer failed");
    }
    engine_call_drop(server, call);
}

static void
on_pulled(void *context, const struct httpc_answer *answer)
{
    struct engine_call *call = context;
    struct engine_server *server = call->server;
    struct engine_split *split = &call->split;

    split->pull = NULL;
    if (answer->outcome != HTTPC_OK || answer->head->status != 200) {
        LOG_INFO("transfer_failed", KV("key", split->key),
                 KV("why", httpc_outcome_name(answer->outcome)));
        fail(server, call);
        return;
    }
    const struct engine_request wanted = {
        .root = split->root,
        .prompt = split->ids,
        .prompt_len = split->prompt_len,
        .output_len = call->output_len,
    };
    const struct engine *engine = &engine_call_rank(server, call)->engine;
    uint64_t lacks = split->prompt_len - engine_cached_tokens(engine, &wanted);
    split->here_us = engine_server_now(server) + 1 +
                     lacks * 1000000 / server->options->transfer_tokens_per_s;
    server->coming++;
    engine_server_arm(server);
}

bool
engine_split_take(struct engine_server *server, struct engine_call *call,
                  const struct engine_request *wanted)
{
    struct engine_split *split = &call->split;
    size_t count = (size_t)wanted->prompt_len + wanted->output_len;
    char target[64];
    struct httpc_request get = {.host = split->host,
                                .port = split->port,
                                .method = "GET",
                                .target = target,
                                .timeout_ms = PULL_TIMEOUT_MS,
                                .answer_bytes_max = 4096,
                                .context = call,
                                .done = on_pulled};

    (void)snprintf(target, sizeof(target), KV_PATH "%016" PRIx64, split->key);
    split->ids = malloc(count * sizeof(*split->ids));
    if (split->ids == NULL ||
        httpc_start(&split->pull, server->loop, &get) < 0) {
        split->pull = NULL;
        httpd_error(call->request, 500, "internal_error", "KV transfer failed");
        *httpd_user(call->request) = NULL;
        engine_call_drop(server, call);
        return false;
    }
    memcpy(split->ids, wanted->prompt,
           wanted->prompt_len * sizeof(*split->ids));
    memcpy(split->ids + wanted->prompt_len, wanted->output,
           wanted->output_len * sizeof(*split->ids));
    split->prompt_len = wanted->prompt_len;
    split->root = wanted->root;
    return true;
}

uint64_t
engine_split_deadline(const struct engine_server *server)
{
    uint64_t first_us = UINT64_MAX;

    for (uint32_t i = 0; server->coming != 0 && i < server->calls_count; i++) {
        const struct engine_call *call = &server->calls[i];
        if (call->request != NULL && call->split.here_us != 0 &&
            call->split.here_us < first_us) {
            first_us = call->split.here_us;
        }
    }
    return first_us;
}

/* All of the prompt is here: the model goes on with it. */
static void
submit(struct engine_server *server, struct engine_call *call)
{
    struct engine_split *split = &call->split;
    struct engine_request wanted = {
        .root = split->root,
        .user = (uint64_t)(call - server->calls),
        .prompt = split->ids,
        .output = split->ids + split->prompt_len,
        .prompt_len = split->prompt_len,
        .output_len = call->output_len,
        .passed = split->prompt_len - 1,
    };
    int r = engine_submit(&engine_call_rank(server, call)->engine, &wanted,
                          engine_server_now(server), &call->ticket);

    split->here_us = 0;
    server->coming--;
    free(split->ids);
    split->ids = NULL;
    if (r != 0) {
        fail(server, call);
    }
}

void
engine_split_due(struct engine_server *server)
{
    uint64_t now_us = engine_server_now(server);

    for (uint32_t i = 0; server->coming != 0 && i < server->calls_count; i++) {
        struct engine_call *call = &server->calls[i];
        if (call->request != NULL && call->split.here_us != 0 &&
            call->split.here_us <= now_us) {
            submit(server, call);
        }
    }
}

/* The engine that computes */

static struct engine_call *
find(struct engine_server *server, enum engine_pass pass, uint64_t key)
{
    for (uint32_t i = 0; i < server->calls_count; i++) {
        struct engine_call *call = &server->calls[i];
        if (call->request != NULL && call->split.pass == pass &&
            call->split.key == key) {
            return call;
        }
    }
    return NULL;
}

static void
answer_pull(struct engine_server *server, struct httpd_request *request)
{
    httpd_answer(request, 200, "application/json", slice_of(server->headers),
                 SLICE("{}"));
}

static bool
use_kept(struct engine_server *server, uint64_t key)
{
    for (uint32_t i = 0; i < ENGINE_KEPT_MAX; i++) {
        if (server->kept[i] == key && key != 0) {
            server->kept[i] = 0;
            return true;
        }
    }
    return false;
}

void
engine_get_kv(struct engine_server *server, struct httpd_request *request)
{
    struct slice path = httpd_head(request)->path;
    char text[24] = "";
    size_t len = path.len - strlen(KV_PATH);

    memcpy(text, path.ptr + strlen(KV_PATH), len < 23 ? len : 23);
    uint64_t key = strtoull(text, NULL, 16);
    struct engine_call *call = find(server, ENGINE_PASS_HAND, key);
    if (server->options->make != ENGINE_MAKE_SGLANG) {
        if (use_kept(server, key)) {
            answer_pull(server, request);
        } else {
            httpd_error(request, 404, "not_found", "no such prompt is kept");
        }
        return;
    }
    if (call != NULL && call->split.computed) {
        answer_pull(server, request);
        engine_reply_end(server, call, &call->split.usage);
        return;
    }
    if (server->idle_count == 0) {
        httpd_error(request, 503, "overloaded", "too many requests at once");
        return;
    }
    call = engine_call_take(server, request); /* until it is computed */
    call->split.pass = ENGINE_PASS_PULL;
    call->split.key = key;
}

bool
engine_split_holds(struct engine_server *server, struct engine_call *call,
                   const struct engine_usage *usage)
{
    struct engine_call *pull;

    if (call->split.pass != ENGINE_PASS_HAND) {
        return false;
    }
    pull = find(server, ENGINE_PASS_PULL, call->split.key);
    if (pull != NULL) {
        *httpd_user(pull->request) = NULL;
        answer_pull(server, pull->request);
        engine_call_drop(server, pull);
        return false;
    }
    call->split.computed = true;
    call->split.usage = *usage;
    return true;
}

void
engine_split_put(struct engine_server *server, const struct engine_call *call,
                 const struct engine_usage *usage)
{
    if (server->options->make != ENGINE_MAKE_VLLM) {
        return;
    }
    if (call->split.pass != ENGINE_PASS_TELL) {
        buf_add_text(&server->out, ",\"kv_transfer_params\":null");
        return;
    }
    uint64_t key = call->number + 1;
    server->kept[server->kept_next++ % ENGINE_KEPT_MAX] = key;
    buf_printf(&server->out,
               ",\"kv_transfer_params\":{\"do_remote_prefill\":true,"
               "\"do_remote_decode\":false,\"remote_block_ids\":[[0,1,2]],"
               "\"remote_engine_id\":\"%s\",\"remote_request_id\":"
               "\"%016" PRIx64 "\",\"remote_host\":\"%s\",\"remote_port\":%u,"
               "\"tp_size\":1,\"remote_num_tokens\":%u}",
               server->options->name, key, server->options->host,
               (unsigned)engine_server_port(server), usage->prompt_tokens);
}

/* The end of either */

void
engine_split_drop(struct engine_server *server, struct engine_call *call)
{
    struct engine_split *split = &call->split;
    struct engine_call *pull = split->pass == ENGINE_PASS_HAND
                                   ? find(server, ENGINE_PASS_PULL, split->key)
                                   : NULL;

    if (pull != NULL) { /* it is not computed */
        *httpd_user(pull->request) = NULL;
        httpd_error(pull->request, 410, "gone", "that prompt was given up");
        engine_call_drop(server, pull);
    }
    if (split->pull != NULL) {
        httpc_cancel(split->pull);
    }
    server->coming -= split->here_us != 0;
    free(split->ids);
    *split = (struct engine_split){.pass = ENGINE_PASS_NOTHING};
}
