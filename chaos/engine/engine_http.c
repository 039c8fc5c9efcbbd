/* The engine's server: listener, clock, timer, and the way to each endpoint. */
#include "chaos/engine/engine_http_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD_BYTES_MAX   16384
#define IDLE_TIMEOUT_MS  120000
#define WRITE_TIMEOUT_MS 60000
#define STOP_POLL_MS     5
#define WAIT_MAX_MS      UINT64_C(3600000)

uint64_t
engine_server_now(const struct engine_server *server)
{
    uint64_t past_us = uv_hrtime() / 1000 - server->wall_us;

    return server->model_us + (uint64_t)((double)past_us * server->speed);
}

double
engine_server_seconds(const struct engine_server *server, uint64_t span_us)
{
    return (double)span_us / server->speed / 1e6;
}

void
engine_server_set_speed(struct engine_server *server, double speed)
{
    CHECK(speed > 0);
    server->model_us = engine_server_now(server);
    server->wall_us = uv_hrtime() / 1000;
    server->speed = speed;
    engine_server_arm(server);
}

/* Lets a model catch up with the clock, and passes its outputs on. Full queues
 * may stop the model meanwhile, while time passes. */
static void
catch_up(struct engine_server *server, struct engine_rank *rank)
{
    uint64_t now_us = engine_server_now(server);
    struct engine_out out;

    while (engine_deadline(&rank->engine) <= now_us) {
        engine_tick(&rank->engine, now_us);
        engine_ranks_publish(server, rank);
        while (engine_next_out(&rank->engine, &out)) {
            engine_call_output(server, &out);
        }
        now_us = engine_server_now(server);
    }
}

static void
on_timer(uv_timer_t *timer)
{
    struct engine_server *server = timer->data;

    engine_split_due(server);
    for (uint32_t i = 0; i < server->ranks_count; i++) {
        catch_up(server, &server->ranks[i]);
    }
    engine_server_arm(server);
}

static uint64_t
first_deadline(const struct engine_server *server)
{
    uint64_t first_us = engine_split_deadline(server);

    for (uint32_t i = 0; i < server->ranks_count; i++) {
        uint64_t deadline_us = engine_deadline(&server->ranks[i].engine);
        first_us = deadline_us < first_us ? deadline_us : first_us;
    }
    return first_us;
}

void
engine_server_arm(struct engine_server *server)
{
    uint64_t deadline_us = first_deadline(server);

    if (deadline_us == UINT64_MAX) {
        (void)uv_timer_stop(&server->timer);
        return;
    }
    uint64_t now_us = engine_server_now(server);
    double wait_ms = 0;
    if (deadline_us > now_us) {
        wait_ms =
            1e3 * engine_server_seconds(server, deadline_us - now_us) + 0.999;
    }
    uv_update_time(server->loop);
    CHECK(uv_timer_start(
              &server->timer, on_timer,
              wait_ms < WAIT_MAX_MS ? (uint64_t)wait_ms : WAIT_MAX_MS, 0) == 0);
}

void
engine_server_answer(struct engine_server *server,
                     struct httpd_request *request, const char *content_type)
{
    if (server->out.failed) {
        httpd_error(request, 500, "internal_error", "out of memory");
        return;
    }
    httpd_answer(request, 200, content_type, slice_of(server->headers),
                 buf_slice(&server->out));
}

bool
engine_server_scan(struct engine_server *server, struct httpd_request *request,
                   enum scan_api api)
{
    if (engine_prompt_scan(&server->prompt, httpd_body(request), api) != 0) {
        httpd_error(request, 400, "bad_request", server->prompt.fault);
        return false;
    }
    return true;
}

bool
engine_server_render(struct engine_server *server,
                     struct httpd_request *request, bool speak)
{
    int r = engine_prompt_render(&server->prompt, speak);

    if (r == ENGINE_PROMPT_E_BAD) {
        httpd_error(request, 400, "bad_request", server->prompt.fault);
    } else if (r == ENGINE_PROMPT_E_MEMORY) {
        httpd_error(request, 500, "internal_error", "out of memory");
    }
    return r == 0;
}

bool
engine_server_model_named(struct engine_server *server,
                          struct httpd_request *request, struct slice name,
                          uint32_t *model)
{
    const struct engine_options *o = server->options;
    char message[ENGINE_NAME_MAX + 64];

    *model = 0;
    if (name.len == 0) {
        return true;
    }
    for (uint32_t i = 0; i < o->models_count; i++) {
        if (slice_equal(name, slice_of(o->models[i]))) {
            *model = i;
            return true;
        }
    }
    (void)snprintf(message, sizeof(message), "The model `%.*s` does not exist.",
                   name.len < ENGINE_NAME_MAX ? (int)name.len : ENGINE_NAME_MAX,
                   name.ptr);
    httpd_error(request, 404, "model_not_found", message);
    return false;
}

/* SGLang: BASE:ADAPTER and lora_path choose an adapter, and its name alone is as
 * good as any for the base model. */
static struct slice
sglang_name(const char *base, struct slice name, struct slice lora)
{
    size_t len = strlen(base);

    if (name.len > len && memcmp(name.ptr, base, len) == 0 &&
        name.ptr[len] == ':') {
        return (struct slice){name.ptr + len + 1, name.len - len - 1};
    }
    return lora.len != 0 ? lora : slice_of(base);
}

bool
engine_server_find_model(struct engine_server *server,
                         struct httpd_request *request, uint32_t *model)
{
    struct engine_prompt *prompt = &server->prompt;
    struct slice name = engine_prompt_text(prompt, prompt->scan.model);

    return engine_server_model_named(
        server, request,
        server->options->make == ENGINE_MAKE_SGLANG
            ? sglang_name(server->options->models[0], name,
                          engine_prompt_text(prompt, prompt->scan.lora))
            : name,
        model);
}

const struct engine_make_facts *
engine_server_make(const struct engine_server *server)
{
    return engine_make_facts((enum engine_make)server->options->make);
}

typedef void endpoint(struct engine_server *, struct httpd_request *);

#define OF(make) (1U << (ENGINE_MAKE_##make))
#define ALL      ((1U << ENGINE_MAKES) - 1)

static const struct route {
    enum http_method method;
    const char *path;
    endpoint *endpoint;
    unsigned makes; /* which have it */
    bool own;       /* not with --apis chats */
} routes[] = {
    {HTTP_POST, "/v1/chat/completions", engine_post_chat, ALL},
    {HTTP_POST, "/v1/completions", engine_post_completion, ALL},
    {HTTP_POST, "/v1/responses", engine_post_responses,
     OF(VLLM) | OF(SGLANG) | OF(TRTLLM) | OF(LLAMACPP), true},
    {HTTP_POST, "/v1/messages", engine_post_messages,
     OF(VLLM) | OF(SGLANG) | OF(LLAMACPP), true},
    {HTTP_POST, "/v1/messages/count_tokens", engine_post_count, OF(VLLM), true},
    {HTTP_POST, "/v1/chat/completions/render", engine_post_chat_render,
     OF(VLLM)},
    {HTTP_POST, "/v1/responses/render", engine_post_responses_render, OF(VLLM),
     true},
    {HTTP_POST, "/v1/messages/render", engine_post_messages_render, OF(VLLM),
     true},
    {HTTP_POST, "/v1/completions/render", engine_post_completion_render,
     OF(VLLM)},
    {HTTP_POST, "/v1/embeddings", engine_post_embeddings, ALL},
    {HTTP_POST, "/pooling", engine_post_pooling, OF(VLLM)},
    {HTTP_POST, "/rerank", engine_post_rerank, OF(VLLM)},
    {HTTP_POST, "/v1/rerank", engine_post_rerank, OF(VLLM)},
    {HTTP_POST, "/v2/rerank", engine_post_rerank, OF(VLLM)},
    {HTTP_POST, "/score", engine_post_score, OF(VLLM)},
    {HTTP_POST, "/v1/score", engine_post_score, OF(VLLM)},
    {HTTP_POST, "/v1/audio/transcriptions", engine_post_transcriptions,
     OF(VLLM)},
    {HTTP_POST, "/v1/audio/speech", engine_post_speech, OF(VLLM)},
    {HTTP_POST, "/tokenize", engine_post_tokenize, OF(VLLM) | OF(SGLANG)},
    {HTTP_POST, "/v1/tokenize", engine_post_tokenize, OF(SGLANG)},
    {HTTP_POST, "/tokenize", engine_post_no_tokens, OF(LLAMACPP)},
    {HTTP_POST, "/detokenize", engine_post_detokenize, OF(VLLM) | OF(SGLANG)},
    {HTTP_POST, "/reset_prefix_cache", engine_post_reset, OF(VLLM)},
    {HTTP_POST, "/flush_cache", engine_post_reset, OF(SGLANG)},
    {HTTP_GET, "/flush_cache", engine_post_reset, OF(SGLANG)},
    {HTTP_GET, "/server_info", engine_get_server_info, OF(SGLANG)},
    {HTTP_GET, "/slots", engine_get_slots, OF(LLAMACPP)},
    {HTTP_POST, "/chaos", engine_post_chaos, ALL},
    {HTTP_GET, "/chaos", engine_get_chaos, ALL},
    {HTTP_GET, "/chaos/kv/", engine_get_kv, OF(VLLM) | OF(SGLANG)},
    {HTTP_GET, "/chaos/cache", engine_get_cache, ALL},
    {HTTP_GET, "/v1/models", engine_get_models, ALL},
    {HTTP_GET, "/health", engine_get_health, ALL},
    {HTTP_GET, "/version", engine_get_version, OF(VLLM) | OF(TRTLLM)},
    {HTTP_GET, "/metrics", engine_get_metrics, OF(VLLM) | OF(SGLANG) | OF(TGI)},
    {HTTP_GET, "/metrics", engine_get_iterations, OF(TRTLLM)},
    {HTTP_GET, "/metrics", engine_get_no_metrics, OF(LLAMACPP)},
    {HTTP_GET, "/prometheus/metrics", engine_get_metrics, OF(TRTLLM)},
};

static void
on_request(void *context, struct httpd_request *request)
{
    struct engine_server *server = context;
    const struct http_head *head = httpd_head(request);
    bool known = false;

    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
        size_t len = strlen(routes[i].path);
        bool same = slice_equal(head->path, slice_of(routes[i].path)) ||
                    (routes[i].path[len - 1] == '/' && head->path.len > len &&
                     memcmp(head->path.ptr, routes[i].path, len) == 0);
        bool has = (routes[i].makes >> server->options->make & 1) != 0 &&
                   (!routes[i].own || server->options->apis == 0);
        if (!has || !same) {
            continue;
        }
        if (head->method_id == routes[i].method) {
            buf_clear(&server->out);
            routes[i].endpoint(server, request);
            return;
        }
        known = true;
    }
    if (known) {
        httpd_error(request, 405, "method_not_allowed", "Method Not Allowed");
    } else {
        httpd_error(request, 404, "not_found", "Not Found");
    }
}

static void
on_gone(void *context, struct httpd_request *request)
{
    struct engine_call *call = *httpd_user(request);

    if (call != NULL) {
        engine_call_gone(context, call);
    }
}

static void
close_all(struct engine_server *server)
{
    uv_handle_t *handles[] = {
        (uv_handle_t *)&server->timer,       (uv_handle_t *)&server->stop_timer,
        (uv_handle_t *)&server->stall_timer, (uv_handle_t *)&server->terminate,
        (uv_handle_t *)&server->interrupt,
    };

    httpd_free(server->httpd);
    server->httpd = NULL;
    engine_ranks_close(server);
    for (size_t i = 0; i < sizeof(handles) / sizeof(handles[0]); i++) {
        if (!uv_is_closing(handles[i])) {
            uv_close(handles[i], NULL);
        }
    }
}

static void
on_stop_timer(uv_timer_t *timer)
{
    struct engine_server *server = timer->data;

    if (httpd_stats(server->httpd)->connections == 0) {
        close_all(server);
    }
}

/* The first signal lets everyone finish, the second one does not. */
static void
on_signal(uv_signal_t *signal, int number)
{
    struct engine_server *server = signal->data;

    LOG_INFO("stopping", KV("signal", number),
             KV("open", httpd_stats(server->httpd)->requests_open),
             KV("at_once", server->stopping));
    if (server->stopping) {
        close_all(server);
        return;
    }
    server->stopping = true;
    httpd_stop(server->httpd);
    engine_call_abort_hanging(server);
    CHECK(uv_timer_start(&server->stop_timer, on_stop_timer, 0, STOP_POLL_MS) ==
          0);
}

static int
listen_on(struct engine_server *server)
{
    const struct engine_options *o = server->options;
    struct httpd_limits limits = {
        .connections_max = (uint32_t)o->connections_max,
        .head_bytes_max = HEAD_BYTES_MAX,
        .body_bytes_max = ENGINE_BODY_BYTES_MAX,
        .unsent_bytes_max = ENGINE_UNSENT_BYTES_MAX,
        .idle_timeout_ms = IDLE_TIMEOUT_MS,
        .write_timeout_ms = WRITE_TIMEOUT_MS,
    };
    struct httpd_handler handler = {
        .context = server, .request = on_request, .gone = on_gone};
    struct sockaddr_storage address = {0};

    if (uv_ip4_addr(o->host, (int)o->port, (struct sockaddr_in *)&address) !=
            0 &&
        uv_ip6_addr(o->host, (int)o->port, (struct sockaddr_in6 *)&address) !=
            0) {
        return -EINVAL;
    }
    return httpd_new(&server->httpd, server->loop,
                     (const struct sockaddr *)&address, &limits, &handler);
}

static void
open_handles(struct engine_server *server)
{
    CHECK(uv_timer_init(server->loop, &server->timer) == 0);
    CHECK(uv_timer_init(server->loop, &server->stop_timer) == 0);
    CHECK(uv_timer_init(server->loop, &server->stall_timer) == 0);
    CHECK(uv_signal_init(server->loop, &server->terminate) == 0);
    CHECK(uv_signal_init(server->loop, &server->interrupt) == 0);
    server->timer.data = server;
    server->stop_timer.data = server;
    server->stall_timer.data = server;
    server->terminate.data = server;
    server->interrupt.data = server;
}

static int
start_calls(struct engine_server *server)
{
    uint32_t count = (uint32_t)server->options->requests_max;

    server->calls = calloc(count, sizeof(*server->calls));
    server->idle_calls = calloc(count, sizeof(*server->idle_calls));
    if (server->calls == NULL || server->idle_calls == NULL) {
        return -ENOMEM;
    }
    server->calls_count = count;
    for (uint32_t i = 0; i < count; i++) {
        server->idle_calls[server->idle_count++] = count - 1 - i;
    }
    return 0;
}

int
engine_server_init(struct engine_server *server, uv_loop_t *loop,
                   const struct engine_options *options)
{
    memset(server, 0, sizeof(*server));
    server->loop = loop;
    server->options = options;
    server->speed = options->speed;
    server->wall_us = uv_hrtime() / 1000;
    (void)snprintf(server->headers, sizeof(server->headers), "x-engine: %s\r\n",
                   options->name);
    engine_faults_init(&server->faults);
    engine_prompt_init(&server->prompt, ENGINE_BODY_BYTES_MAX);
    server->prompt.files = &server->files;
    buf_init(&server->out, 4 * ENGINE_BODY_BYTES_MAX);
    open_handles(server);
    int r = start_calls(server);
    if (r == 0) {
        r = engine_ranks_init(server);
    }
    if (r == 0) {
        r = uv_signal_start(&server->terminate, on_signal, SIGTERM);
    }
    if (r == 0) {
        r = uv_signal_start(&server->interrupt, on_signal, SIGINT);
    }
    if (r == 0) {
        r = listen_on(server);
    }
    if (r != 0) {
        close_all(server);
        (void)uv_run(loop, UV_RUN_DEFAULT);
        engine_server_fini(server);
    }
    return r;
}

uint16_t
engine_server_port(const struct engine_server *server)
{
    return httpd_port(server->httpd);
}

void
engine_server_fini(struct engine_server *server)
{
    for (uint32_t i = 0; i < server->calls_count; i++) {
        free(server->calls[i].salt);
        free(server->calls[i].split.ids);
    }
    engine_ranks_fini(server);
    engine_prompt_fini(&server->prompt);
    engine_files_close(&server->files);
    buf_fini(&server->out);
    free(server->calls);
    free(server->idle_calls);
}
