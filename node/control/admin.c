/* Which admin request is which. */
#include "node/control/admin.h"
#include "node/control/control_clearing.h"
#include "node/control/control_reload.h"
#include "node/control/control_roster.h"
#include "node/control/control_tls.h"

#include "index/base/ascii.h"
#include "node/base/log.h"
#include "node/base/port_fault.h"
#include "node/control/admin_mesh.h"
#include "node/control/admin_snapshot.h"
#include "node/http/http_gzip.h"
#include "node/http/http_status.h"
#include "node/page/page.h"

#include <stdio.h>

#define DECISIONS_DEFAULT 100U
#define ADMIN_BODY_BYTES  ((size_t)64 << 20)
#define ADMIN_IDLE_MS     30000U
#define ADMIN_WRITE_MS    30000U
#define TOKENS_MS         1000U
#define METRICS_TYPE      "text/plain; version=0.0.4"

void
admin_answer(struct httpd_request *request, const char *content_type,
             const struct buf *body)
{
    if (body->failed) {
        httpd_error(request, 503, "too_large", "the answer is over 16 MiB");
    } else {
        httpd_answer(request, 200, content_type, SLICE(""), buf_slice(body));
    }
}

/* allowed: the methods of the request's path, as in Allow. */
static void
refuse_method(struct httpd_request *request, const char *allowed)
{
    char message[HTTP_ERROR_MESSAGE_MAX];
    char body[HTTP_ERROR_ROOM];
    char line[64];
    int len = snprintf(line, sizeof(line), "Allow: %s\r\n", allowed);

    CHECK(len > 0 && len < (int)sizeof(line));
    http_method_message(httpd_head(request), allowed, message);
    httpd_answer(request, 405, "application/json",
                 (struct slice){line, (size_t)len},
                 http_error_body(405, "method_not_allowed", message, body));
}

static void
answer_json(struct control *control, struct httpd_request *request,
            void (*put)(struct control *control, struct json_out *json))
{
    struct buf body;
    struct json_out json;

    buf_init(&body, ADMIN_BYTES_MAX);
    json_out_init(&json, &body);
    put(control, &json);
    buf_add(&body, "\n", 1);
    admin_answer(request, "application/json", &body);
    buf_fini(&body);
}

static void ON_CONTROL
answer_metrics(struct control *control, struct httpd_request *request)
{
    struct buf body;
    struct buf small;

    buf_init(&body, ADMIN_BYTES_MAX);
    buf_init(&small, ADMIN_BYTES_MAX);
    admin_put_metrics(control, &body);
    if (!body.failed && http_gzip_is_wanted(httpd_head(request)) &&
        http_gzip_add(&small, buf_slice(&body))) {
        httpd_answer(request, 200, METRICS_TYPE,
                     SLICE("Content-Encoding: gzip\r\n"
                           "Vary: Accept-Encoding\r\n"),
                     buf_slice(&small));
    } else {
        admin_answer(request, METRICS_TYPE, &body);
    }
    buf_fini(&small);
    buf_fini(&body);
}

bool
admin_query(const struct http_head *head, struct slice name,
            struct slice *value)
{
    struct slice rest = head->target;
    struct slice before = slice_take(&rest, '?');

    *value = SLICE("");
    if (before.len == head->target.len) {
        return true;
    }
    *value = rest;
    struct slice said = slice_take(value, '=');
    return rest.len == 0 || (slice_equal(said, name) && value->len != 0);
}

/* ?count=N; the default when there is no query, 0 when it is bad. */
static uint32_t
wanted_count(const struct http_head *head)
{
    struct slice value;
    uint32_t count = 0;

    if (!admin_query(head, SLICE("count"), &value)) {
        return 0;
    }
    for (size_t i = 0; i < value.len; i++) {
        if (value.ptr[i] < '0' || value.ptr[i] > '9' || count > 100000000) {
            return 0;
        }
        count = count * 10 + (uint32_t)(value.ptr[i] - '0');
    }
    return value.len == 0 ? DECISIONS_DEFAULT : count;
}

static void ON_CONTROL
answer_decisions(struct control *control, struct httpd_request *request)
{
    struct buf body;
    struct json_out json;
    uint32_t count = wanted_count(httpd_head(request));

    if (count == 0) {
        httpd_error(request, 400, "bad_count",
                    "expected ?count=N, 1 or more, or no query");
        return;
    }
    buf_init(&body, ADMIN_BYTES_MAX);
    json_out_init(&json, &body);
    admin_put_decisions(control, &json, count);
    buf_add(&body, "\n", 1);
    admin_answer(request, "application/json", &body);
    buf_fini(&body);
}

static void ON_CONTROL
answer_decision(struct control *control, struct httpd_request *request,
                struct slice id)
{
    enum http_method method = httpd_head(request)->method_id;
    struct buf body;
    struct json_out json;

    if (method != HTTP_GET && method != HTTP_HEAD) {
        refuse_method(request, "GET, HEAD");
        return;
    }
    buf_init(&body, ADMIN_BYTES_MAX);
    json_out_init(&json, &body);
    if (admin_put_decision(control, &json, id)) {
        buf_add(&body, "\n", 1);
        admin_answer(request, "application/json", &body);
    } else {
        httpd_error(request, 404, "no_such_decision",
                    "no request of this id is kept: limits.decisions_max");
    }
    buf_fini(&body);
}

static void ON_CONTROL
answer_reload(struct control *control, struct httpd_request *request)
{
    struct config_errors errors;
    struct json_out json;
    struct buf body;

    admin_access_log(&control->access, request, SLICE(""), NULL);
    buf_init(&body, ADMIN_BYTES_MAX);
    json_out_init(&json, &body);
    int outcome = control_reload(control, &json, &errors);
    if (outcome == 0) {
        buf_add(&body, "\n", 1);
        admin_answer(request, "application/json", &body);
    } else if (outcome == RELOAD_E_INVALID) {
        buf_add(&errors.text, "", 1); /* its end */
        httpd_error(request, 400, "bad_configuration",
                    errors.text.failed ? "see the log" : errors.text.ptr);
    } else {
        httpd_error(request, 503, "overloaded", "out of memory; try again");
    }
    config_errors_fini(&errors);
    buf_fini(&body);
}

/* Workers */

static void ON_CONTROL
add_worker(struct control *control, struct httpd_request *request)
{
    char fault[ADMIN_FAULT_MAX];
    char id[CONFIG_LABEL_MAX];
    uint32_t ttl_ms;
    unsigned status =
        admin_add_worker(control, httpd_body(request), id, &ttl_ms, fault);

    if (status != 0 || ttl_ms == 0) { /* it comes again and again */
        admin_access_log(&control->access, request, slice_of(id),
                         status != 0 ? fault : NULL);
    }
    if (status != 0) {
        httpd_error(request, status, "worker_refused", fault);
        return;
    }
    if (ttl_ms != 0) {
        char text[CONFIG_LABEL_MAX + 64];
        (void)snprintf(text, sizeof text, "{\"id\":\"%s\",\"ttl_ms\":%u}\n", id,
                       (unsigned)ttl_ms);
        httpd_answer(request, 200, "application/json", SLICE(""),
                     slice_of(text));
        return;
    }
    answer_json(control, request, admin_put_workers);
}

/* An id out of a path, where clients escape what they like: none has a percent
 * sign itself. What is too long is no worker's. */
static struct slice
read_id(struct slice path, char id[CONFIG_LABEL_MAX])
{
    size_t len = 0;

    for (size_t i = 0; i < path.len && len < CONFIG_LABEL_MAX; i++) {
        bool escaped = path.ptr[i] == '%' && path.len - i > 2;
        int high = escaped ? ascii_hex(path.ptr[i + 1]) : -1;
        int low = escaped ? ascii_hex(path.ptr[i + 2]) : -1;
        id[len++] =
            high >= 0 && low >= 0 ? (char)(high * 16 + low) : path.ptr[i];
        i += high >= 0 && low >= 0 ? 2 : 0;
    }
    return (struct slice){.ptr = id, .len = len};
}

/* DELETE /admin/workers/ID, POST and DELETE /admin/workers/ID/drain. */
static void ON_CONTROL
change_worker(struct control *control, struct httpd_request *request,
              struct slice id, bool drain)
{
    bool drains = httpd_head(request)->method_id == HTTP_POST;
    bool there = drain ? control_roster_drain(control, id, drains)
                       : control_roster_remove(control, id);

    admin_access_log(&control->access, request, id,
                     there ? NULL : "no such worker");
    if (there) {
        answer_json(control, request, admin_put_workers);
    } else {
        httpd_error(request, 404, "no_such_worker",
                    "no worker has this id; see /admin/workers");
    }
}

static bool
strip_suffix(struct slice *s, struct slice suffix)
{
    if (s->len < suffix.len ||
        memcmp(s->ptr + s->len - suffix.len, suffix.ptr, suffix.len) != 0) {
        return false;
    }
    s->len -= suffix.len;
    return true;
}

static void ON_CONTROL
serve_worker(struct control *control, struct httpd_request *request,
             struct slice path)
{
    enum http_method method = httpd_head(request)->method_id;
    bool drain = strip_suffix(&path, SLICE("/drain"));
    char text[CONFIG_LABEL_MAX];
    struct slice id = read_id(path, text);

    if (method == HTTP_DELETE || (drain && method == HTTP_POST)) {
        change_worker(control, request, id, drain);
    } else {
        refuse_method(request, drain ? "POST, DELETE" : "DELETE");
    }
}

static void
answer_health(struct control *control, struct httpd_request *request)
{
    (void)control;
    httpd_answer(request, 200, "application/json", SLICE(""),
                 SLICE("{\"status\":\"ok\"}\n"));
}

static void
answer_ready(struct control *control, struct httpd_request *request)
{
    const char *reason = control_unready(control);

    if (reason == NULL) {
        httpd_answer(request, 200, "application/json", SLICE(""),
                     SLICE("{\"status\":\"ready\"}\n"));
    } else {
        httpd_error(request, 503, "not_ready", reason);
    }
}

static void ON_CONTROL
take_snapshot(struct control *control, struct httpd_request *request)
{
    admin_access_log(&control->access, request, SLICE(""), NULL);
    admin_snapshot(control, request);
}

/* The page's scripts and styles are files of ours, and it asks nobody else. */
#define PAGE_HEADERS                                                          \
    "Content-Security-Policy: default-src 'none'; script-src 'self'; "        \
    "style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; " \
    "form-action 'none'; frame-ancestors 'none'\r\n"                          \
    "X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n"     \
    "Cache-Control: no-cache\r\n"

/* The page says nothing of this node, and asks for a token when it is asked for
 * one; so it needs none itself. False: it is another request. */
static bool
answer_page(struct httpd_request *request)
{
    const struct http_head *head = httpd_head(request);
    const struct page_file *file = page_find(head->path);

    if (file == NULL ||
        (head->method_id != HTTP_GET && head->method_id != HTTP_HEAD)) {
        return false;
    }
    httpd_answer(request, 200, file->content_type, SLICE(PAGE_HEADERS),
                 file->body);
    return true;
}

struct endpoint {
    struct slice path;
    enum http_method method;
    void (*json)(struct control *control, struct json_out *json);
    void (*answer)(struct control *control, struct httpd_request *request);
};

static const struct endpoint endpoints[] = {
    {{"/admin/status", 13}, HTTP_GET, admin_put_status, NULL},
    {{"/admin/workers", 14}, HTTP_GET, admin_put_workers, NULL},
    {{"/admin/workers", 14}, HTTP_POST, NULL, add_worker},
    {{"/admin/mesh", 11}, HTTP_GET, admin_put_mesh, NULL},
    {{"/admin/snapshot", 15}, HTTP_POST, NULL, take_snapshot},
    {{"/admin/reload", 13}, HTTP_POST, NULL, answer_reload},
    {{"/admin/index", 12}, HTTP_GET, admin_put_index, NULL},
    {{"/admin/scale", 12}, HTTP_GET, admin_put_scale, NULL},
    {{"/admin/mix", 10}, HTTP_GET, admin_put_mix, NULL},
    {{"/admin/decisions", 16}, HTTP_GET, NULL, answer_decisions},
    {{"/admin/explain", 14}, HTTP_POST, NULL, admin_explain},
    {{"/admin/answer_cache/clear", 25}, HTTP_POST, NULL, control_clearing_ask},
    {{"/admin/live", 11}, HTTP_GET, NULL, admin_live_watch},
    /* The last OPEN_TO_ALL are also on the port of admin.metrics. */
    {{"/metrics", 8}, HTTP_GET, NULL, answer_metrics},
    {{"/health", 7}, HTTP_GET, NULL, answer_health},
    {{"/ready", 6}, HTTP_GET, NULL, answer_ready},
};

/* HEAD is a GET whose body httpd keeps back. */
static bool
takes(const struct endpoint *e, const struct http_head *head)
{
    return e->method == head->method_id ||
           (e->method == HTTP_GET && head->method_id == HTTP_HEAD);
}

#define ENDPOINTS   (sizeof endpoints / sizeof endpoints[0])
#define OPEN_TO_ALL 3

static void
open_request(void *context, struct httpd_request *request)
{
    struct control *control = context;
    const struct http_head *head = httpd_head(request);

    role_is_control();
    control_take_facts(control);
    for (size_t i = ENDPOINTS - OPEN_TO_ALL; i < ENDPOINTS; i++) {
        const struct endpoint *e = &endpoints[i];
        if (!slice_equal(head->path, e->path)) {
            continue;
        }
        if (takes(e, head)) {
            e->answer(control, request);
        } else {
            refuse_method(request, "GET, HEAD");
        }
        return;
    }
    httpd_error(request, 404, "not_found",
                "known here: /metrics, /health, /ready");
}

static void ON_CONTROL
look_at_tokens(struct control *control)
{
    if (admin_access_refresh(&control->access)) {
        admin_live_end(control);
        control->reloaded(control->owner);
    }
}

static void
on_look_at_tokens(uv_timer_t *timer)
{
    role_is_control();
    look_at_tokens(timer->loop->data);
}

static void
admin_request(void *context, struct httpd_request *request)
{
    struct control *control = context;
    const struct http_head *head = httpd_head(request);
    struct slice rest = head->path;
    bool reads = false;
    bool posts = false;

    role_is_control();
    look_at_tokens(control);
    if (answer_page(request) ||
        !admin_access_admits(&control->access, request)) {
        return;
    }
    control_take_facts(control);
    for (size_t i = 0; i < ENDPOINTS; i++) {
        const struct endpoint *e = &endpoints[i];
        if (!slice_equal(head->path, e->path)) {
            continue;
        }
        reads = reads || e->method == HTTP_GET;
        posts = posts || e->method == HTTP_POST;
        if (takes(e, head) && e->json != NULL) {
            answer_json(control, request, e->json);
            return;
        }
        if (takes(e, head)) {
            e->answer(control, request);
            return;
        }
    }
    if (reads || posts) {
        refuse_method(request, !posts  ? "GET, HEAD"
                               : reads ? "GET, HEAD, POST"
                                       : "POST");
    } else if (slice_skip_text(&rest, SLICE("/admin/workers/"))) {
        serve_worker(control, request, rest);
    } else if (slice_skip_text(&rest, SLICE("/admin/decisions/"))) {
        answer_decision(control, request, rest);
    } else {
        httpd_error(
            request, 404, "not_found",
            "known here: /metrics, /health, /ready and /admin/status, "
            "mesh, workers, "
            "index, decisions, explain, live, mix, scale, snapshot, reload, "
            "answer_cache/clear; "
            "/ is a page");
    }
}

/* Nothing is held of what a stranger sends. */
static bool
wants_body(void *context, const struct http_head *head)
{
    struct control *control = context;

    role_is_control();
    look_at_tokens(control);
    return admin_access_knows(&control->access, head);
}

static bool
wants_no_body(void *context, const struct http_head *head)
{
    (void)context, (void)head;
    return false;
}

static int ON_CONTROL
use_tls(struct control *control, struct httpd *httpd)
{
    const struct sock_tls_context *tls = control_tls_of_admin(control->node);

    return tls != NULL ? httpd_use_tls(httpd, tls) : 0;
}

void
admin_use_tls(struct control *control)
{
    if ((control->admin != NULL && use_tls(control, control->admin) != 0) ||
        (control->metrics != NULL && use_tls(control, control->metrics) != 0)) {
        LOG_WARNING("admin_tls_kept", KV("why", "out of memory"),
                    KV("hint", "the certificate before it stays in use: reload "
                               "once there is memory"));
    }
}

/* 0 and *out; or -errno, and one line in the log says why. */
static int ON_CONTROL
open_port(struct control *control, const struct url *url,
          const struct httpd_handler *handler, struct httpd **out)
{
    const struct config_limits *limits = &control->node->config->limits;
    struct httpd_limits admin = {
        .connections_max = limits->admin_connections_max,
        .head_bytes_max = limits->head_bytes_max,
        .body_bytes_max = limits->body_bytes_max < ADMIN_BODY_BYTES
                              ? limits->body_bytes_max
                              : ADMIN_BODY_BYTES,
        .unsent_bytes_max = ADMIN_BYTES_MAX,
        .idle_timeout_ms = ADMIN_IDLE_MS,
        .write_timeout_ms = ADMIN_WRITE_MS,
    };
    struct sockaddr_storage address;

    int error = url_sockaddr(url, &address);
    if (error == 0) {
        error = httpd_new(out, &control->loop,
                          (const struct sockaddr *)&address, &admin, handler);
    }
    if (error == 0) {
        error = use_tls(control, *out);
    }
    if (error != 0) {
        char holder[PORT_FAULT_TEXT_MAX];
        LOG_ERROR(
            "admin_listen_failed", KV("host", url->host), KV("port", url->port),
            KV_FAULT("error", error),
            KV("holder", port_fault_holder(
                             error, (const struct sockaddr *)&address, holder)),
            KV("hint", port_fault_hint(error)));
    }
    return error;
}

/* The serving port asks for nothing here: a token that was taken off the file
 * must end there, too. */
static void ON_CONTROL
watch_tokens(struct control *control)
{
    if (admin_access_has_tokens(&control->access)) {
        CHECK(uv_timer_start(&control->tokens, on_look_at_tokens, TOKENS_MS,
                             TOKENS_MS) == 0);
    }
}

int
admin_open(struct control *control)
{
    const struct config *config = control->node->config;
    const struct url *metrics = &config->admin_access.metrics;
    struct httpd_handler handler = {
        .context = control,
        .request = admin_request,
        .gone = admin_gone,
        .wants_body = wants_body,
    };
    struct httpd_handler open = {.context = control,
                                 .request = open_request,
                                 .wants_body = wants_no_body};

    int error = admin_access_init(&control->access, control->node);
    if (error == 0) {
        watch_tokens(control);
        error = open_port(control, &config->admin, &handler, &control->admin);
    }
    if (error == 0 && metrics->host[0] != '\0') {
        error = open_port(control, metrics, &open, &control->metrics);
    }
    return error;
}
