/* What `kvasir doctor` asks a worker over HTTP. */
#include <stdio.h>
#include <uv.h>

#include "node/cli/doctor_try_internal.h"
#include "node/http/httpc.h"
#include "node/local/local_table.h"
#include "node/text/json_out.h"

#define QUESTION_MS     5000U
#define GENERATION_MS   60000U /* a slow engine, or one that is busy */
#define WORDS           400U   /* of a prompt: some blocks of any size */
#define TARGET_MAX      (URL_PATH_MAX + 64)
#define AUTHORITY_BYTES (CONFIG_SECRET_MAX + 96)

struct question {
    struct doctor *doctor;
    struct doctor_answer *answer;
    bool done;
};

static void
on_answer(void *context, const struct httpc_answer *answer)
{
    struct question *q = context;
    char reason[64];

    q->done = true;
    if (answer->outcome == HTTPC_OK) {
        q->answer->status = answer->head->status;
        buf_add_slice(&q->doctor->body, answer->body);
        return;
    }
    (void)snprintf(q->answer->failure, sizeof q->answer->failure, "%s",
                   answer->outcome == HTTPC_TLS ? answer->why
                   : answer->error != 0
                       ? uv_strerror_r(answer->error, reason, sizeof reason)
                       : httpc_outcome_name(answer->outcome));
}

/* Waits for the answer; its body is in doctor->body. A body that is empty is
 * a GET. */
static void
ask(struct doctor *d, const struct config_worker *worker, const char *target,
    struct slice body, uint32_t timeout_ms, struct doctor_answer *answer)
{
    struct question q = {.doctor = d, .answer = answer};
    char headers[AUTHORITY_BYTES];
    char path[TARGET_MAX];
    struct httpc *call;

    *answer = (struct doctor_answer){.asked = true};
    buf_clear(&d->body);
    (void)snprintf(path, sizeof path, "%s%s", worker->url.path, target);
    (void)snprintf(headers, sizeof headers, "%s%s%s%s",
                   body.len != 0 ? "Content-Type: application/json\r\n" : "",
                   worker->api_key[0] != '\0' ? "Authorization: Bearer " : "",
                   worker->api_key, worker->api_key[0] != '\0' ? "\r\n" : "");
    struct httpc_request request = {
        .host = worker->url.host,
        .port = worker->url.port,
        .deny = &d->config->workers_deny,
        .tls = worker->url.tls ? d->tls : NULL,
        .method = body.len != 0 ? "POST" : "GET",
        .target = path,
        .headers = slice_of(headers),
        .body = body,
        .timeout_ms = timeout_ms,
        .answer_bytes_max = DOCTOR_ANSWER_MAX,
        .context = &q,
        .done = on_answer,
    };
    int error = httpc_start(&call, &d->loop, &request);
    if (error != 0) {
        (void)uv_strerror_r(error, answer->failure, sizeof answer->failure);
        return;
    }
    while (!q.done) {
        (void)uv_run(&d->loop, UV_RUN_ONCE);
    }
}

static void
ask_models(struct doctor *d, struct doctor_found *found)
{
    struct engine_models models;

    ask(d, found->worker, "/v1/models", SLICE(""), QUESTION_MS, &found->models);
    if (doctor_is_well(&found->models) &&
        engine_models_read(buf_slice(&d->body), &models) == 0) {
        found->kind = models.kind;
        found->models_count = models.count;
        if (models.count != 0) {
            (void)snprintf(found->model, sizeof found->model, "%.*s",
                           (int)models.model[0].name.len,
                           models.model[0].name.ptr);
        }
    }
    engine_models_fini(&models);
}

static void
ask_metrics(struct doctor *d, struct doctor_found *found)
{
    static const char *const places[] = {"/metrics", "/prometheus/metrics",
                                         "/slots"};

    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct doctor_answer answer;
        ask(d, found->worker, places[i], SLICE(""), QUESTION_MS, &answer);
        if (i == 0) {
            found->metrics = answer;
        }
        if (!doctor_is_well(&answer)) {
            continue;
        }
        (i < 2 ? engine_metrics_read : engine_slots_read)(buf_slice(&d->body),
                                                          &found->load);
        if (found->load.running.known) {
            break;
        }
    }
    if (found->kind == ENGINE_OTHER) {
        found->kind = found->load.kind;
    }
}

/* {"model":M, "prompt":"..." or "messages":[...], "max_tokens":1} */
static struct slice
write_prompt(struct doctor *d, const char *model, bool chat, uint64_t seed)
{
    struct json_out json;
    struct rng rng;
    char prompt[WORDS * 8 + 1];
    size_t len = 0;

    rng_init(&rng, seed);
    for (uint32_t i = 0; i < WORDS; i++) {
        len += (size_t)snprintf(prompt + len, sizeof prompt - len, "%u ",
                                (unsigned)rng_below(&rng, 100000));
    }
    buf_clear(&d->text);
    json_out_init(&json, &d->text);
    json_out_object_begin(&json);
    json_out_put_text(&json, "model", model);
    if (chat) {
        json_out_key(&json, "messages");
        json_out_array_begin(&json);
        json_out_object_begin(&json);
        json_out_put_text(&json, "role", "user");
        json_out_put_text(&json, "content", prompt);
        json_out_object_end(&json);
        json_out_array_end(&json);
    } else {
        json_out_put_text(&json, "prompt", prompt);
    }
    json_out_put_uint(&json, "max_tokens", 1);
    json_out_object_end(&json);
    return buf_slice(&d->text);
}

static void
ask_renderer(struct doctor *d, struct doctor_found *found)
{
    struct slice name = slice_of(found->model);
    const struct local_model *local = local_table_find(d->models, &name, 1);

    if (local != NULL && local_model_can(local, LOCAL_CHAT)) {
        found->files = local_model_place(local);
        return;
    }
    ask(d, found->worker, "/v1/chat/completions/render",
        write_prompt(d, found->model, true, 1), QUESTION_MS, &found->renderer);
    if (!doctor_is_well(&found->renderer)) {
        ask(d, found->worker, "/tokenize",
            write_prompt(d, found->model, true, 1), QUESTION_MS,
            &found->tokenizer);
    }
}

/* A prompt that nobody sent before, twice. Some models only complete. */
static void
ask_twice(struct doctor *d, struct doctor_found *found)
{
    static const char *const paths[] = {"/v1/completions",
                                        "/v1/chat/completions"};
    char room[USAGE_OBJECT_MAX];
    struct usage_watch watch;
    uint64_t seed = rng_next(&d->rng);

    for (unsigned chat = 0; chat < 2; chat++) {
        struct slice body = write_prompt(d, found->model, chat == 1, seed);
        for (unsigned time = 0; time < 2; time++) {
            ask(d, found->worker, paths[chat], body, GENERATION_MS,
                &found->generation);
            if (!doctor_is_well(&found->generation)) {
                break;
            }
        }
        if (doctor_is_well(&found->generation)) {
            usage_watch_init(&watch);
            watch.room = room;
            usage_watch_give(&watch, buf_slice(&d->body));
            usage_watch_end(&watch, &found->usage);
            return;
        }
    }
}

bool
doctor_ask_health(struct doctor *d, struct doctor_found *found)
{
    ask(d, found->worker, found->health_path, SLICE(""), QUESTION_MS,
        &found->health);
    return found->health.failure[0] == '\0';
}

bool
doctor_ask_about(struct doctor *d, struct doctor_found *found)
{
    ask_models(d, found);
    ask_metrics(d, found);
    return found->models_count != 0;
}

void
doctor_ask_prompts(struct doctor *d, struct doctor_found *found)
{
    ask_renderer(d, found);
    ask_twice(d, found);
}
