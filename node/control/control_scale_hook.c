/* Calls about engines to scale.hook. */
#include <stdio.h>

#include "node/base/file.h"
#include "node/control/control.h"
#include "node/control/control_scale_call.h"
#include "node/control/control_tls.h"
#include "node/text/json_pull.h"

#define BODY_MAX  2048U
#define TOKEN_MAX 4096U

/* The member `worker` of an answer, at its top. False: there is none. */
static bool
find_worker(struct slice body, char text[SCALE_SPEC_MAX])
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
        found = ours && json_pull_copy(&pull, text, SCALE_SPEC_MAX) > 0;
        if (ours && !found) {
            return false;
        }
    }
    return found;
}

static void
on_answer(void *context, const struct httpc_answer *answer)
{
    struct scale_call *call = context;
    char worker[SCALE_SPEC_MAX];
    bool answered = answer->outcome == HTTPC_OK;
    bool good = answered && answer->head->status / 100 == 2;
    struct scale_said said = {
        .why = good ? NULL : "it refused",
        .status = answered ? (int)answer->head->status : 0,
        .worker = "",
        .more = ""};

    role_is_control();
    call->http = NULL;
    if (!answered) {
        said.why = scale_call_lack(answer);
    } else if (good && find_worker(answer->body, worker)) {
        said.worker = worker;
    }
    scale_call_end(call, &said);
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
    json_out_put_text(&json, "pool", job->record.pool);
    json_out_put_uint(&json, "missed", act->missed_in_row);
    json_out_object_end(&json);
}

const char *
scale_call_post(struct scale_call *call, const struct scale_job *job)
{
    const struct control *control = call->control;
    const struct config_scale_pool *pool = &call->pool;
    char bytes[BODY_MAX];
    char token[TOKEN_MAX];
    char headers[TOKEN_MAX + 128];
    struct buf body = buf_over(bytes, sizeof(bytes));

    put_body(control, job, call->provision, &body);
    file_read_word(pool->token_file, token, sizeof token);
    (void)snprintf(headers, sizeof(headers),
                   "Content-Type: application/json\r\n%s%s%s",
                   token[0] != '\0' ? "Authorization: Bearer " : "", token,
                   token[0] != '\0' ? "\r\n" : "");
    const struct httpc_request request = {
        .host = pool->hook.host,
        .port = pool->hook.port,
        .tls = pool->hook.tls ? control_tls_of_workers(control->node) : NULL,
        .method = "POST",
        .target = pool->hook.path[0] != '\0' ? pool->hook.path : "/",
        .headers = slice_of(headers),
        .body = buf_slice(&body),
        .timeout_ms = SCALE_CALL_MS,
        .answer_bytes_max = SCALE_ANSWER_MAX,
        .context = call,
        .done = on_answer,
    };
    bool started =
        !body.failed &&
        httpc_start(&call->http, &call->control->loop, &request) == 0;
    if (!started) {
        call->http = NULL;
    }
    return started ? NULL : "the request could not be made";
}
