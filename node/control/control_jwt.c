/* Reads, fetches and publishes the keys of clients' tokens. */
#include "node/control/control_jwt.h"

#include <errno.h>
#include <stddef.h>

#include "node/base/log.h"
#include "node/config/config_jwt.h"
#include "node/text/prom_out.h"

static const struct keys_jwks *
set_now(const struct node_shared *node)
{
    return publish_get(&node->jwks);
}

static uint64_t
sum_of(const struct node_shared *node, size_t at)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < node->lanes_count; i++) {
        const char *metrics = (const char *)&node->lanes[i].metrics;
        sum += counter_read((const void *)(metrics + at));
    }
    return sum;
}

static uint64_t
unknown_of(const struct node_shared *node)
{
    return sum_of(node, offsetof(struct metrics_lane, jwt_unknown_key));
}

int
control_jwt_read(const struct node_shared *node, struct keys_jwks **fresh,
                 struct config_errors *errors)
{
    const struct config_jwt *config = &node->config->jwt;
    struct url url;

    *fresh = NULL;
    if (config->jwks[0] == '\0' || config_jwt_url(config, &url)) {
        return 0;
    }
    *fresh = config_jwt_load(config, errors);
    return *fresh != NULL ? 0 : CONFIG_E_INVALID;
}

void
control_jwt_publish(struct control_jwt *jwt, struct keys_jwks *fresh)
{
    struct node_shared *node = jwt->node;
    struct keys_jwks *before = (struct keys_jwks *)(uintptr_t)set_now(node);

    if (fresh == NULL) {
        return;
    }
    fresh->version = ++jwt->version;
    publish_set(&node->jwks, fresh);
    if (before != NULL) {
        qsbr_retire(&node->qsbr, &before->retired, keys_jwks_free_retired);
    }
    LOG_INFO("jwks_read", KV("from", node->config->jwt.jwks),
             KV("keys", fresh->count));
}

/* The authorities, as they are now. NULL, or why not. */
static const char *
open_tls(const struct config_jwt *config, struct sock_tls_context **out)
{
    struct sock_tls_files files = {
        .cert = "", .key = "", .ca = config->ca_file};
    const char *why = "out of memory";

    return sock_tls_context_new_client(out, &files, &why) == 0 ? NULL : why;
}

int
control_jwt_start(struct control_jwt *jwt, struct node_shared *node,
                  uv_loop_t *loop)
{
    const struct config_jwt *config = &node->config->jwt;
    struct sock_tls_context *tls = NULL;
    struct config_errors errors;
    struct keys_jwks *fresh;
    struct url url;

    *jwt = (struct control_jwt){.node = node, .loop = loop};
    jwt->asks = config_jwt_url(config, &url);
    const char *why = jwt->asks ? open_tls(config, &tls) : NULL;
    sock_tls_context_free(tls);
    if (why != NULL) {
        LOG_ERROR("jwks_unread", KV("from", config->jwks), KV("why", why),
                  KV("hint", "check jwt.ca_file"));
        return -EINVAL;
    }
    config_errors_init(&errors);
    int outcome = control_jwt_read(node, &fresh, &errors);
    if (outcome == 0) {
        control_jwt_publish(jwt, fresh);
    } else {
        LOG_ERROR("jwks_unread", KV("why", buf_slice(&errors.text)),
                  KV("hint", "check jwt.jwks"));
    }
    config_errors_fini(&errors);
    return outcome == 0 ? 0 : -EINVAL;
}

/* NULL, or why the answer is of no use. */
static const char *
take(struct control_jwt *jwt, const struct httpc_answer *answer)
{
    struct keys_rules rules = config_jwt_rules(&jwt->node->config->jwt);
    const char *why;

    if (answer->outcome != HTTPC_OK) {
        return answer->why[0] != '\0' ? answer->why
                                      : httpc_outcome_name(answer->outcome);
    }
    if (answer->head->status != 200) {
        return "its status is not 200";
    }
    struct keys_jwks *fresh = keys_jwks_new(answer->body, &rules, &why);
    if (fresh == NULL) {
        return why;
    }
    role_is_control();
    control_jwt_publish(jwt, fresh);
    return NULL;
}

static void
fail(struct control_jwt *jwt, const char *why)
{
    jwt->failures++;
    jwt->due_us = jwt->asked_us + CONTROL_JWT_AGAIN_US;
    LOG_WARNING(
        "jwks_unread", KV("from", jwt->node->config->jwt.jwks), KV("why", why),
        KV("hint",
           "the last good keys stay; it is asked again in 5 s. If it "
           "lasts, look at the server of jwt.jwks, and at jwt.ca_file"));
}

static void
on_answer(void *context, const struct httpc_answer *answer)
{
    struct control_jwt *jwt = context;
    const char *why = take(jwt, answer);

    jwt->call = NULL;
    if (why != NULL) {
        fail(jwt, why);
    }
}

/* NULL, or why it cannot be asked. */
static const char *
begin(struct control_jwt *jwt)
{
    const struct config_jwt *config = &jwt->node->config->jwt;
    struct sock_tls_context *tls;
    struct url url;
    bool good = config_jwt_url(config, &url);
    const char *why = open_tls(config, &tls);

    CHECK(good && jwt->call == NULL);
    if (why != NULL) {
        return why;
    }
    struct httpc_request request = {
        .host = url.host,
        .port = url.port,
        .tls = tls,
        .method = "GET",
        .target = url.path[0] != '\0' ? url.path : "/",
        .headers = SLICE("Accept: application/json\r\n"),
        .timeout_ms = CONTROL_JWT_TIMEOUT_MS,
        .answer_bytes_max = KEYS_JWKS_BYTES_MAX,
        .context = jwt,
        .done = on_answer,
    };
    int error = httpc_start(&jwt->call, jwt->loop, &request);
    sock_tls_context_free(tls);
    return error == 0 ? NULL : "the request could not be made";
}

static void ON_CONTROL
ask(struct control_jwt *jwt, uint64_t now_us)
{
    const struct config_jwt *config = &jwt->node->config->jwt;

    jwt->asked_us = now_us;
    jwt->due_us = now_us + config->refresh_ms * UINT64_C(1000);
    jwt->unknown = unknown_of(jwt->node);
    const char *why = begin(jwt);
    if (why != NULL) {
        fail(jwt, why);
    }
}

void
control_jwt_again(struct control_jwt *jwt)
{
    jwt->due_us = 0;
}

void
control_jwt_look(struct control_jwt *jwt, uint64_t now_us)
{
    if (!jwt->asks || jwt->call != NULL) {
        return;
    }
    bool wanted = unknown_of(jwt->node) != jwt->unknown &&
                  now_us >= jwt->asked_us + CONTROL_JWT_AGAIN_US;
    if (jwt->asked_us == 0 || now_us >= jwt->due_us || wanted) {
        ask(jwt, now_us);
    }
}

void
control_jwt_stop(struct control_jwt *jwt)
{
    if (jwt->call != NULL) {
        httpc_cancel(jwt->call);
        jwt->call = NULL;
    }
    jwt->asks = false;
}

void
control_jwt_put_metrics(const struct control_jwt *jwt, struct buf *out)
{
    const struct keys_jwks *jwks = set_now(jwt->node);

    if (jwt->node->config->jwt.jwks[0] == '\0') {
        return;
    }
    prom_out_single(out, "kvasir_jwks_keys", "gauge",
                    "Keys whose tokens are good",
                    jwks != NULL ? jwks->count : 0);
    prom_out_single(out, "kvasir_jwks_failures_total", "counter",
                    "Times that jwt.jwks did not answer with a set of keys",
                    jwt->failures);
}
