/* Everything that is not generation: models, tokens, orders. */
#include "chaos/engine/engine_http_internal.h"

#include <inttypes.h>
#include <time.h>
#include <unistd.h>

#include "chaos/engine/engine_json_internal.h"
#include "index/index.h"

static void
put_ids(struct json_out *json, const char *key, const struct engine_ids *ids)
{
    json_out_key(json, key);
    json_out_array_begin(json);
    for (size_t i = 0; i < ids->count; i++) {
        json_out_uint(json, ids->ids[i]);
    }
    json_out_array_end(json);
}

void
engine_get_health(struct engine_server *s, struct httpd_request *request)
{
    if (s->faults.health_status == 200) {
        engine_server_answer(s, request, "application/json");
    } else {
        httpd_error(request, s->faults.health_status, "chaos",
                    "this failure was ordered");
    }
}

void
engine_get_version(struct engine_server *s, struct httpd_request *request)
{
    buf_printf(&s->out, "{\"version\":\"%s\"}", engine_server_make(s)->version);
    engine_server_answer(s, request, "application/json");
}

void
engine_get_metrics(struct engine_server *s, struct httpd_request *request)
{
    struct engine_report_source sources[ENGINE_RANKS_MAX];

    for (uint32_t i = 0; i < s->ranks_count; i++) {
        sources[i].report = &s->ranks[i].report;
        sources[i].engine = &s->ranks[i].engine;
    }
    engine_report_write(sources, s->ranks_count,
                        (enum engine_make)s->options->make,
                        s->options->models[0], &s->out);
    engine_server_answer(s, request, "text/plain; version=0.0.4");
}

void
engine_get_models(struct engine_server *s, struct httpd_request *request)
{
    const struct engine_options *o = s->options;
    struct json_out json;

    json_out_init(&json, &s->out);
    json_out_object_begin(&json);
    json_out_put_text(&json, "object", "list");
    json_out_key(&json, "data");
    json_out_array_begin(&json);
    for (uint32_t i = 0; i < o->models_count; i++) {
        json_out_object_begin(&json);
        json_out_put_text(&json, "id", o->models[i]);
        json_out_put_text(&json, "object", "model");
        json_out_put_uint(&json, "created", (uint64_t)time(NULL));
        json_out_put_text(&json, "owned_by", engine_server_make(s)->owned_by);
        json_out_put_text(&json, "root", o->models[0]);
        json_out_key(&json, "parent");
        if (i > 0) {
            json_out_text(&json, o->models[0]);
        } else {
            json_out_null(&json);
        }
        json_out_put_uint(&json, "max_model_len",
                          s->ranks[0].engine.config.request_tokens_max);
        json_out_key(&json, "permission");
        json_out_array_begin(&json);
        json_out_array_end(&json);
        json_out_object_end(&json);
    }
    json_out_array_end(&json);
    json_out_object_end(&json);
    engine_server_answer(s, request, "application/json");
}

/* The ids' bytes, each by itself: an id may hold part of a character. */
static void
put_token_texts(struct json_out *json, const struct engine_ids *ids)
{
    char text[ENGINE_TOKEN_BYTES_MAX];

    json_out_key(json, "token_strs");
    json_out_array_begin(json);
    for (size_t i = 0; i < ids->count; i++) {
        size_t len = engine_token_text(ids->ids[i], text);
        json_out_slice(json, (struct slice){text, len});
    }
    json_out_array_end(json);
}

void
engine_post_tokenize(struct engine_server *s, struct httpd_request *request)
{
    struct slice body = httpd_body(request);
    bool speak = engine_json_bool(body, SLICE("add_generation_prompt"), true);
    const struct engine_ids *ids = &s->prompt.ids;
    struct json_out json;
    uint32_t model;

    if (!engine_server_scan(s, request, SCAN_API_GUESSED) ||
        !engine_server_find_model(s, request, &model)) {
        return;
    }
    if (speak &&
        engine_json_bool(body, SLICE("continue_final_message"), false)) {
        httpd_error(request, 400, "bad_request",
                    "Cannot set both `continue_final_message` and "
                    "`add_generation_prompt` to True.");
        return;
    }
    if (!engine_server_render(s, request, speak)) {
        return;
    }
    json_out_init(&json, &s->out);
    json_out_object_begin(&json);
    json_out_put_uint(&json, "count", ids->count);
    json_out_put_uint(&json, "max_model_len",
                      s->ranks[0].engine.config.request_tokens_max);
    put_ids(&json, "tokens", ids);
    if (engine_json_bool(body, SLICE("return_token_strs"), false)) {
        put_token_texts(&json, ids);
    } else {
        json_out_key(&json, "token_strs");
        json_out_null(&json);
    }
    json_out_object_end(&json);
    engine_server_answer(s, request, "application/json");
}

void
engine_post_count(struct engine_server *s, struct httpd_request *request)
{
    uint32_t model;

    if (!engine_server_scan(s, request, SCAN_API_MESSAGES) ||
        !engine_server_find_model(s, request, &model) ||
        !engine_server_render(s, request, true)) {
        return;
    }
    buf_printf(&s->out, "{\"input_tokens\":%zu}", s->prompt.ids.count);
    engine_server_answer(s, request, "application/json");
}

void
engine_post_detokenize(struct engine_server *s, struct httpd_request *request)
{
    struct engine_ids *ids = &s->prompt.ids;
    struct buf *text = &s->prompt.text;
    struct json_out json;

    ids->count = 0;
    ids->failed = false;
    if (engine_json_ids(httpd_body(request), SLICE("tokens"), ids) != 0) {
        httpd_error(request, 400, "bad_request",
                    "`tokens` must be a list of integers from 0 to 2^32 - 1");
        return;
    }
    buf_clear(text);
    for (size_t i = 0; i < ids->count; i++) {
        char piece[ENGINE_TOKEN_BYTES_MAX];
        size_t len = engine_token_text(ids->ids[i], piece);
        buf_add(text, piece, len);
    }
    json_out_init(&json, &s->out);
    json_out_object_begin(&json);
    json_out_put_slice(&json, "prompt", buf_slice(text));
    json_out_object_end(&json);
    s->out.failed |= ids->failed || text->failed;
    engine_server_answer(s, request, "application/json");
}

/* No item sets a block apart here: each picture has tokens of its own. */
static void
put_features(struct json_out *json)
{
    json_out_key(json, "features");
    json_out_object_begin(json);
    json_out_key(json, "mm_hashes");
    json_out_object_begin(json);
    json_out_object_end(json);
    json_out_key(json, "mm_placeholders");
    json_out_object_begin(json);
    json_out_object_end(json);
    json_out_object_end(json);
}

static void
render(struct engine_server *s, struct httpd_request *request,
       enum scan_api api)
{
    bool text = api == SCAN_API_TEXT; /* a list of prompts */
    const struct scan *scan = &s->prompt.scan;
    struct json_out json;
    char id[40];
    uint32_t model;

    if (s->options->scale_out != 0) {
        httpd_error(request, 403, "permission_denied",
                    "Scale-out endpoints are disabled");
        return;
    }
    if (!engine_server_scan(s, request, api) ||
        !engine_server_find_model(s, request, &model) ||
        !engine_server_render(s, request, true)) {
        return;
    }
    (void)snprintf(id, sizeof(id), "%s-%016" PRIx64, text ? "cmpl" : "chatcmpl",
                   s->next_number++);
    json_out_init(&json, &s->out);
    if (text) {
        json_out_array_begin(&json);
    }
    json_out_object_begin(&json);
    json_out_put_text(&json, "request_id", id);
    json_out_put_text(&json, "model", s->options->models[model]);
    put_ids(&json, "token_ids", &s->prompt.ids);
    if (scan->media) {
        put_features(&json);
    }
    json_out_key(&json, "sampling_params");
    json_out_object_begin(&json);
    json_out_put_uint(&json, "max_tokens",
                      scan->has_max_tokens && scan->max_tokens > 0
                          ? (uint64_t)scan->max_tokens
                          : ENGINE_MAX_TOKENS);
    json_out_object_end(&json);
    json_out_key(&json, "cache_salt");
    if (scan->salt.present) {
        json_out_slice(&json, engine_prompt_text(&s->prompt, scan->salt));
    } else {
        json_out_null(&json);
    }
    json_out_object_end(&json);
    if (text) {
        json_out_array_end(&json);
    }
    engine_server_answer(s, request, "application/json");
}

void
engine_post_chat_render(struct engine_server *s, struct httpd_request *request)
{
    render(s, request, SCAN_API_CHAT);
}

void
engine_post_responses_render(struct engine_server *s,
                             struct httpd_request *request)
{
    render(s, request, SCAN_API_RESPONSES);
}

void
engine_post_messages_render(struct engine_server *s,
                            struct httpd_request *request)
{
    render(s, request, SCAN_API_MESSAGES);
}

void
engine_post_completion_render(struct engine_server *s,
                              struct httpd_request *request)
{
    render(s, request, SCAN_API_TEXT);
}

void
engine_post_reset(struct engine_server *s, struct httpd_request *request)
{
    if (engine_ranks_reset(s)) {
        engine_server_answer(s, request, "application/json");
    } else {
        httpd_error(request, 409, "busy", "blocks are in use");
    }
}

void
engine_get_chaos(struct engine_server *s, struct httpd_request *request)
{
    engine_faults_show(&s->faults, &s->out);
    engine_server_answer(s, request, "application/json");
}

/* The key of each block in a rank's cache, twins included and windows left out,
 * in no order. */
void
engine_get_cache(struct engine_server *s, struct httpd_request *request)
{
    struct json_out json;
    uint32_t rank;

    if (!engine_ranks_named(s, request, 0, &rank)) {
        return;
    }
    const struct engine_blocks *pool = &s->ranks[rank].engine.pool;
    json_out_init(&json, &s->out);
    json_out_object_begin(&json);
    json_out_put_uint(&json, "next_seq", s->ranks[rank].publisher.log.next_seq);
    json_out_key(&json, "keys");
    json_out_array_begin(&json);
    for (uint32_t i = 0; i < pool->count; i++) {
        if (pool->blocks[i].cached && !pool->blocks[i].windowed) {
            json_out_uint(&json, pool->blocks[i].key);
        }
    }
    json_out_array_end(&json);
    json_out_object_end(&json);
    engine_server_answer(s, request, "application/json");
}

/* Freezes the whole loop, which is the point. */
static void
stall(uint32_t stall_ms)
{
    struct timespec left = {.tv_sec = stall_ms / 1000,
                            .tv_nsec = (long)(stall_ms % 1000) * 1000000};

    while (nanosleep(&left, &left) != 0) {
    }
}

static void
obey_events(struct engine_server *s, const struct engine_fault_orders *orders)
{
    if (orders->events_stall_ms != 0) {
        engine_ranks_stall(s, orders->events_stall_ms);
    } else {
        engine_ranks_resume(s);
    }
}

void
engine_post_chaos(struct engine_server *s, struct httpd_request *request)
{
    struct engine_fault_orders orders;
    const char *why;

    if (!engine_server_scan(s, request, SCAN_API_OTHER)) {
        return;
    }
    if (engine_faults_order(&s->faults, httpd_body(request), &orders, &why) !=
        0) {
        httpd_error(request, 400, "bad_request", why);
        return;
    }
    if (orders.speed_percent != 0) {
        engine_server_set_speed(
            s, s->options->speed * (double)orders.speed_percent / 100);
    }
    if (orders.restart != 0 && engine_ranks_restart(s) != 0) {
        httpd_error(request, 503, "overloaded", "out of memory");
        return;
    }
    obey_events(s, &orders);
    engine_faults_show(&s->faults, &s->out);
    engine_server_answer(s, request, "application/json");
    if (orders.stall_ms != 0) {
        stall(orders.stall_ms);
    }
    if (orders.has_exit) {
        _exit((int)orders.exit_code);
    }
}
