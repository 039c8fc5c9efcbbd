/* Everything that is not generation: models, tokens, embeddings, orders. */
#include "chaos/engine/engine_http_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "chaos/engine/engine_json_internal.h"
#include "index/index.h"

#define EMBEDDING_DIMENSIONS 16

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

/* A unit vector that depends on nothing but the hash. */
static void
make_embedding(uint64_t hash, float *vector)
{
    double norm = 0;
    double values[EMBEDDING_DIMENSIONS];

    for (uint32_t d = 0; d < EMBEDDING_DIMENSIONS; d++) {
        values[d] = (double)(rng_mix(hash + d) >> 11) * 0x1p-52 - 1;
        norm += values[d] * values[d];
    }
    for (uint32_t d = 0; d < EMBEDDING_DIMENSIONS; d++) {
        vector[d] = (float)(values[d] / sqrt(norm));
    }
}

static void
put_base64(struct buf *out, const unsigned char *bytes, size_t count)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (size_t i = 0; i < count; i += 3) {
        size_t have = count - i < 3 ? count - i : 3;
        uint32_t group = (uint32_t)bytes[i] << 16;
        group |= have > 1 ? (uint32_t)bytes[i + 1] << 8 : 0;
        group |= have > 2 ? bytes[i + 2] : 0;
        char text[4] = {digits[group >> 18], digits[group >> 12 & 63],
                        digits[group >> 6 & 63], digits[group & 63]};
        for (size_t c = have + 1; c < 4; c++) {
            text[c] = '=';
        }
        buf_add(out, text, sizeof(text));
    }
}

/* OpenAI's own clients ask for base64 unless told otherwise. object: and the name
 * of its member. */
static void
put_embedding(struct buf *out, uint64_t hash, uint32_t index, bool base64,
              const char *const object[2])
{
    float vector[EMBEDDING_DIMENSIONS];

    make_embedding(hash + index, vector);
    buf_printf(out, "%s{\"object\":\"%s\",\"index\":%u,\"%s\":",
               index > 0 ? "," : "", object[0], index, object[1]);
    if (base64) {
        buf_add_text(out, "\"");
        put_base64(out, (const unsigned char *)vector, sizeof(vector));
        buf_add_text(out, "\"}");
        return;
    }
    for (uint32_t d = 0; d < EMBEDDING_DIMENSIONS; d++) {
        buf_printf(out, "%s%.9g", d > 0 ? "," : "[", (double)vector[d]);
    }
    buf_add_text(out, "]}");
}

static void
post_pooled(struct engine_server *s, struct httpd_request *request,
            const char *const object[2])
{
    const struct engine_ids *ids = &s->prompt.ids;
    uint32_t model;

    if (!engine_server_scan(s, request, SCAN_API_EMBEDDINGS) ||
        !engine_server_find_model(s, request, &model) ||
        !engine_server_render(s, request, false)) {
        return;
    }
    bool base64 = engine_json_is_text(
        httpd_body(request), SLICE("encoding_format"), SLICE("base64"));
    uint64_t hash = key_next(0, ids->ids, ids->count * sizeof(*ids->ids));
    buf_add_text(&s->out, "{\"object\":\"list\",\"data\":[");
    for (uint32_t i = 0; i < s->prompt.scan.prompts; i++) {
        put_embedding(&s->out, hash, i, base64, object);
    }
    buf_printf(&s->out,
               "],\"model\":\"%s\",\"usage\":{\"prompt_tokens\":%zu,"
               "\"total_tokens\":%zu}}",
               s->options->models[model], ids->count, ids->count);
    engine_server_answer(s, request, "application/json");
}

void
engine_post_embeddings(struct engine_server *s, struct httpd_request *request)
{
    static const char *const object[2] = {"embedding", "embedding"};

    post_pooled(s, request, object);
}

/* Its model pools whole prompts, whatever task is named. */
void
engine_post_pooling(struct engine_server *s, struct httpd_request *request)
{
    static const char *const object[2] = {"pooling", "data"};

    post_pooled(s, request, object);
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
