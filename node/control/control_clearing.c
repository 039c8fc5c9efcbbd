/* Clearing the cache of answers. */
#include "node/control/control_clearing.h"

#include <errno.h>
#include <stdio.h>

#include "node/base/list.h"
#include "node/base/log.h"
#include "node/control/admin_access.h"
#include "node/control/control.h"
#include "node/control/control_tls.h"
#include "node/redis/redis_marks.h"
#include "node/text/json_pull.h"

#define CLEAR_WAIT_MS 2000U /* for Redis */

/* What is asked for */

/* {"tenant":NAME,"model":NAME}, both or either; or nothing. */
static bool
read_which(struct slice body, struct answers_which *which)
{
    struct json_pull pull;
    enum pull_token token;
    char name[CONFIG_MODEL_NAME_MAX];

    if (body.len == 0) {
        return true;
    }
    json_pull_init(&pull, body);
    if (json_pull_next(&pull) != PULL_OBJECT) {
        return false;
    }
    while ((token = json_pull_next(&pull)) == PULL_KEY) {
        bool tenant = json_pull_is(&pull, SLICE("tenant"));
        bool model = json_pull_is(&pull, SLICE("model"));
        if (tenant == model || json_pull_next(&pull) != PULL_STRING ||
            json_pull_copy(&pull, name, sizeof(name)) < 0) {
            return false;
        }
        uint64_t hash = key_digest(slice_of(name));
        which->tenants = which->tenants || tenant;
        which->models = which->models || model;
        *(tenant ? &which->tenant : &which->model) = hash;
    }
    return token == PULL_OBJECT_END && json_pull_next(&pull) == PULL_END;
}

/* Here and by peers */

static void ON_CONTROL
finish(struct control *control, struct httpd_request *request, bool failed)
{
    struct control_clearing *clearing = &control->clearing;
    char text[64];

    uint32_t cleared = answers_clear(control->node->answers, &clearing->which);
    uint32_t told = hints_tell_clear(&control->hints, &clearing->told,
                                     &clearing->which, control_now_us());
    if (request == NULL) {
        return;
    }
    if (failed) {
        httpd_error(request, 503, "not_cleared_in_redis",
                    "the nodes' memory is cleared, answer_cache.redis is not: "
                    "it does not answer; try again");
        return;
    }
    (void)snprintf(text, sizeof(text), "{\"cleared\":%u,\"peers_told\":%u}\n",
                   (unsigned)cleared, (unsigned)told);
    httpd_answer(request, 200, "application/json", SLICE(""), slice_of(text));
}

void
control_clearing_hear(struct control *control)
{
    struct hints_clears_heard heard;

    while (hints_hear_clear(&control->hints, &control->clearing.told, &heard)) {
        const char *by =
            cluster_peer_name(control_cluster(control), heard.peer);
        uint32_t cleared = answers_clear(control->node->answers, &heard.which);
        LOG_INFO("answers_cleared", KV("by", by != NULL ? by : ""),
                 KV("answers", cleared));
    }
}

/* In Redis */

static void
on_reply(struct redis_call *call, const struct resp *reply)
{
    role_is_control();
    struct control_clearing *clearing =
        LIST_OWNER(call, struct control_clearing, call);
    struct control *control = LIST_OWNER(clearing, struct control, clearing);
    struct httpd_request *request = clearing->request;

    if (reply == NULL || reply->item.kind == RESP_ERROR) {
        clearing->failed = true;
    }
    if (call->waits == 0) {
        clearing->request = NULL;
        finish(control, request, clearing->failed);
    }
}

/* False: it is not under way. */
static bool ON_CONTROL
begin_in_redis(struct control_clearing *clearing)
{
    uint8_t nonce[REDIS_NONCE_BYTES];
    struct redis_marks_text text;
    struct slice words[REDIS_MARKS_SET];

    clearing->failed = false;
    clearing->call.done = on_reply;
    if (!redis_nonce(nonce)) {
        return false;
    }
    unsigned count = redis_marks_clear(&clearing->which, nonce, &text, words);
    if (!redis_send(clearing->redis, words, count, &clearing->call)) {
        return false;
    }
    redis_marks_begin(nonce, &text, words);
    if (!redis_send(clearing->redis, words, REDIS_MARKS_SET, NULL)) {
        LOG_DEBUG("redis_marks_later", KV("why", "too many commands wait"));
    }
    return true;
}

void
control_clearing_ask(struct control *control, struct httpd_request *request)
{
    struct control_clearing *clearing = &control->clearing;
    struct answers_which which = {.tenants = false};

    if (control->node->answers == NULL) {
        httpd_error(request, 404, "no_answer_cache",
                    "this node keeps no answers: answer_cache.bytes_max is 0");
        return;
    }
    if (!read_which(httpd_body(request), &which)) {
        httpd_error(request, 400, "bad_request",
                    "expected nothing, or {\"tenant\": NAME, \"model\": NAME} "
                    "with both or either");
        return;
    }
    if (clearing->call.waits != 0) {
        httpd_error(request, 503, "busy", "another clearing is under way");
        return;
    }
    admin_access_log(&control->access, request, SLICE(""), NULL);
    clearing->which = which;
    if (clearing->redis == NULL) {
        finish(control, request, false);
    } else if (begin_in_redis(clearing)) {
        clearing->request = request;
    } else {
        finish(control, request, true);
    }
}

void
control_clearing_gone(struct control *control,
                      const struct httpd_request *request)
{
    if (control->clearing.request == request) {
        control->clearing.request = NULL; /* it is cleared all the same */
    }
}

int
control_clearing_start(struct control *control)
{
    const struct node_redis *shared = control->node->redis;
    uint8_t nonce[REDIS_NONCE_BYTES];
    struct redis_marks_text text;
    struct slice greeting[REDIS_MARKS_SET];

    if (shared == NULL) {
        return 0;
    }
    if (!redis_nonce(nonce)) {
        return -ENOMEM;
    }
    redis_marks_begin(nonce, &text, greeting);
    const struct redis_config config = {
        .place = &shared->place,
        .secret = &shared->secret,
        .timeout_ms = CLEAR_WAIT_MS,
        .bytes_max = RESP_LINE_MAX,
        .unsent_max = (size_t)4 << 10,
        .greeting = greeting,
        .greeting_count = REDIS_MARKS_SET,
    };
    int error = redis_new(&control->clearing.redis, &control->loop, &config);
    if (error == 0) {
        redis_use_tls(control->clearing.redis,
                      control_tls_of_workers(control->node));
        redis_open(control->clearing.redis);
    }
    return error;
}

void
control_clearing_stop(struct control_clearing *clearing)
{
    redis_free(clearing->redis);
    clearing->redis = NULL;
}
