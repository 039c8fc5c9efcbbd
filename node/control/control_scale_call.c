/* Calls to what makes engines and ends them. */
#include <stdio.h>
#include <string.h>

#include "node/base/log.h"
#include "node/config/config_access.h"
#include "node/control/control.h"
#include "node/control/control_scale_act.h"
#include "node/control/control_tls.h"
#include "node/text/json_pull.h"

#define BODY_MAX   2048U
#define TOKEN_MAX  4096U
#define WORKER_MAX 2048U

/* The member `worker` of an answer, at its top. False: there is none. */
static bool
find_worker(struct slice body, char text[WORKER_MAX])
{
    struct json_pull pull;
    enum pull_token token;
    bool found = false;

    json_pull_init(&pull, body);
    if (json_pull_next(&pull) != PULL_OBJECT) {
        return false;
    }
    while (!found && json_pull_next(&pull) == PULL_KEY) {
        bool ours = json_pull_is(&pull, SLICE("worker"));
        token = ours ? json_pull_next(&pull) : PULL_NULL;
        if (!ours && !json_pull_skip(&pull)) {
            return false;
        }
        if (ours && token != PULL_STRING) {
            return false;
        }
        found = ours && json_pull_copy(&pull, text, WORKER_MAX) > 0;
        if (ours && !found) {
            return false;
        }
    }
    return found;
}

/* The engine that an answer names. False: *why says what is wrong with it, or
 * it is "" where the answer names none. */
static bool ON_CONTROL
read_worker(const struct control *control, struct slice body,
            struct config_worker *worker, const char **why)
{
    struct config_errors errors;
    char denied[CONFIG_DENIED_MAX];
    char text[WORKER_MAX];

    *why = "";
    if (!find_worker(body, text)) {
        return false;
    }
    config_errors_init(&errors);
    bool good = config_parse_worker(slice_of(text), "scale.hook", worker,
                                    &errors) == 0 &&
                worker->url.host[0] != '\0';
    config_errors_fini(&errors);
    if (!good) {
        *why = "its worker makes no sense";
    } else if (config_access_denies(&control->node->config->workers_deny,
                                    worker, denied)) {
        *why = "workers.deny denies its worker";
    }
    return (*why)[0] == '\0';
}

/* NULL: it is a good one; else why not. */
static const char *ON_CONTROL
take(struct control *control, struct scale_job *job, bool provision,
     const struct httpc_answer *answer)
{
    struct config_worker worker;
    const char *why = "";

    if (answer->outcome != HTTPC_OK) {
        return answer->why[0] != '\0' ? answer->why
                                      : httpc_outcome_name(answer->outcome);
    }
    if (answer->head->status / 100 != 2) {
        return "it refused";
    }
    bool named = provision && read_worker(control, answer->body, &worker, &why);
    if (why[0] != '\0') {
        return why;
    }
    return control_scale_answered(control, job, provision,
                                  named ? &worker : NULL)
               ? NULL
               : "its worker could not be taken in";
}

static void
on_answer(void *context, const struct httpc_answer *answer)
{
    struct scale_call *call = context;
    struct control *control = call->control;
    struct control_scale_act *act = &control->scale.act;
    struct scale_job *job = scale_seat_find(&act->seat, call->key);
    uint64_t now_us = control_now_us(control);

    role_is_control();
    call->call = NULL;
    if (job == NULL || !job->calling) {
        return;
    }
    const char *why = take(control, job, call->provision, answer);
    scale_job_answered(job, why == NULL, now_us);
    if (why != NULL) {
        act->calls_failed++;
        LOG_WARNING("scale_call_failed", KV("key", job->key),
                    KV("action", call->provision ? "provision" : "terminate"),
                    KV("why", why),
                    KV("status",
                       answer->outcome == HTTPC_OK ? answer->head->status : 0),
                    KV("fails", job->fails),
                    KV("hint", "it is called again with the same key; look at "
                               "what answers at scale.hook"));
    }
}

/* The first word of scale.token_file; "": there is none. */
static void
read_token(const char *path, char token[TOKEN_MAX])
{
    FILE *file = path[0] != '\0' ? fopen(path, "re") : NULL;
    size_t len = 0;

    if (file != NULL) {
        len = fread(token, 1, TOKEN_MAX - 1, file);
        (void)fclose(file);
    }
    token[len] = '\0';
    token[strcspn(token, " \t\r\n")] = '\0';
}

static void ON_CONTROL
put_body(const struct control *control, const struct scale_job *job,
         bool provision, struct buf *out)
{
    const struct control_scale_act *act = &control->scale.act;
    struct json_out json;

    json_out_init(&json, out);
    json_out_object_begin(&json);
    json_out_put_text(&json, "action", provision ? "provision" : "terminate");
    json_out_put_text(&json, "key", job->key);
    json_out_put_uint(&json, "epoch", act->seat.lease.own.epoch);
    json_out_put_text(&json, "by", control->node->config->name);
    json_out_put_text(&json, "model", job->record.model);
    json_out_put_text(&json, "worker", job->record.worker);
    json_out_put_uint(&json, "missed", act->missed_in_row);
    json_out_object_end(&json);
}

static bool ON_CONTROL
start(struct control *control, const struct scale_job *job,
      struct scale_call *call)
{
    const struct config_scale *config = &control->node->scale;
    char bytes[BODY_MAX];
    char token[TOKEN_MAX];
    char headers[TOKEN_MAX + 128];
    struct buf body = buf_over(bytes, sizeof(bytes));

    put_body(control, job, call->provision, &body);
    read_token(config->token_file, token);
    (void)snprintf(headers, sizeof(headers),
                   "Content-Type: application/json\r\n%s%s%s",
                   token[0] != '\0' ? "Authorization: Bearer " : "", token,
                   token[0] != '\0' ? "\r\n" : "");
    const struct httpc_request request = {
        .host = config->hook.host,
        .port = config->hook.port,
        .tls = config->hook.tls ? control_tls_of_workers(control->node) : NULL,
        .method = "POST",
        .target = config->hook.path[0] != '\0' ? config->hook.path : "/",
        .headers = slice_of(headers),
        .body = buf_slice(&body),
        .timeout_ms = SCALE_CALL_MS,
        .answer_bytes_max = SCALE_ANSWER_MAX,
        .context = call,
        .done = on_answer,
    };
    return !body.failed &&
           httpc_start(&call->call, &control->loop, &request) == 0;
}

void
control_scale_call(struct control *control, struct scale_job *job,
                   bool provision)
{
    struct control_scale_act *act = &control->scale.act;
    uint32_t at = 0;

    while (at < SCALE_CALLS_MAX && act->call[at].call != NULL) {
        at++;
    }
    if (at == SCALE_CALLS_MAX) {
        return; /* the next turn tries again */
    }
    struct scale_call *call = &act->call[at];
    *call = (struct scale_call){.control = control, .provision = provision};
    memcpy(call->key, job->key, sizeof(call->key));
    act->calls++;
    scale_job_called(job);
    if (!start(control, job, call)) {
        call->call = NULL;
        act->calls_failed++;
        scale_job_answered(job, false, control_now_us(control));
    }
}

void
control_scale_hang_up(struct control *control)
{
    struct control_scale_act *act = &control->scale.act;

    for (uint32_t i = 0; i < SCALE_CALLS_MAX; i++) {
        if (act->call[i].call != NULL) {
            httpc_cancel(act->call[i].call);
            act->call[i].call = NULL;
        }
    }
}
