/*
 * Answers of our own: errors, health, readiness, the model list.
 */
#include "index/base/ascii.h"
#include "node/edge/answer_internal.h"
#include "node/edge/logging_internal.h"
#include "node/http/http_status.h"
#include "node/text/json_out.h"

#define BODY_MAX_BYTES ((size_t)1 << 20)
#define MODEL_NAME_MAX 1024

/* Of the prompt, what a worker holds: by its engine's word alone where there
 * is one. What is expected to be there is for elections only. */
static uint64_t
overlap_of(const struct route_choice *choice)
{
    uint64_t held =
        (uint64_t)choice->best.held * shape_tokens(choice->best.grain);

    if (!choice->exact) {
        return choice->elect.overlap;
    }
    return held < choice->best.tokens ? held : choice->best.tokens;
}

/* Where the request went. */
static void
add_placement(struct buf *out, const struct exchange *x)
{
    const struct route_choice *choice = &x->dispatch.choice;

    buf_add_text(out, "\r\nx-kvasir-worker: ");
    buf_add_text(out, x->pool->worker.id);
    if (x->naming.count != 0) {
        buf_add_text(out, "\r\nx-kvasir-model: ");
        buf_add_text(out, x->naming.names->models[x->naming.next - 1]);
    }
    buf_add_text(out, "\r\nx-kvasir-mode: ");
    buf_add_text(out, elect_mode_name(choice->elect.mode));
    buf_add_text(out, "\r\nx-kvasir-overlap: ");
    buf_add_uint(out, overlap_of(choice));
    buf_add_text(out, "/");
    buf_add_uint(out, x->dispatch.total);
    buf_add_text(out, choice->exact ? "\r\nx-kvasir-source: mirror"
                                    : "\r\nx-kvasir-source: belief");
    const struct dispatch_split *split = &x->dispatch.split;
    if (split->choice.flow != SPLIT_NONE) {
        buf_add_text(out, "\r\nx-kvasir-prefill-worker: ");
        buf_add_text(out, split->worker);
        buf_add_text(out, "\r\nx-kvasir-prefill-overlap: ");
        buf_add_uint(out, overlap_of(&split->choice.prefill));
        buf_add_text(out, "/");
        buf_add_uint(out, x->dispatch.total);
    }
}

/* An overlap tells which prompts others sent, and so even one that the engine
 * refused would tell those whom it does not serve. */
void
reply_add_headers(struct buf *out, const struct exchange *x, unsigned status)
{
    buf_add_text(out, "x-kvasir-node: ");
    buf_add_text(out, x->client->lane->node->config->name);
    if (x->shown && x->pool != NULL && status >= 200 && status < 300) {
        add_placement(out, x);
    }
    bool lost =
        x->dispatch.state == DISPATCH_LOST && x->dispatch.busy.status != 0;
    if (lost || x->whole.says_when) {
        buf_add_text(out, "\r\nRetry-After: ");
        buf_add_uint(out, lost ? x->dispatch.busy.retry_after_s
                               : x->whole.retry_after_s);
    }
    buf_add_text(out, "\r\nx-request-id: ");
    buf_add_text(out, x->dispatch.id);
    buf_add(out, "\r\n", 2);
    caching_add_headers(out, x);
    limit_add_headers(out, x);
}

struct slice
reply_origin(const struct client *client)
{
    const struct slice origin = {client->in + client->framing.origin_at,
                                 client->framing.origin_len};

    if (client->in == NULL || client->in_len < client->framing.head_bytes) {
        return SLICE("");
    }
    return origin.len == 0
               ? origin
               : http_cors_find(slice_of(client->lane->cors.origins), origin);
}

void
reply_add_cors(struct buf *out, const struct client *client)
{
    if (client->framing.origin_len != 0 &&
        client->lane->cors.origins[0] != '\0') {
        http_cors_add(out, reply_origin(client));
    }
}

/* Whether the connection goes on, and the head's end. */
static void ON_LANE
end_head(struct client *client, struct buf *out)
{
    if (client->close_after) {
        buf_add_text(out, "Connection: close\r\n");
    } else if (client->framing.minor_0) {
        buf_add_text(out, "Connection: keep-alive\r\n");
    }
    buf_add(out, "\r\n", 2);
}

/* What the parsed head's path takes, as in Allow. */
static const char *ON_LANE
methods(const struct lane *lane)
{
    return route_kind_of(&lane->head, lane->node->config->paths) == ROUTE_LOCAL
               ? "GET, HEAD"
               : "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";
}

void
reply_head(struct client *client, unsigned status, const char *content_type,
           size_t len, struct buf *out)
{
    const struct node_shared *node = client->lane->node;

    client->close_after = client->close_after || client->lane->leaving;
    buf_clear(out);
    buf_printf(out,
               "HTTP/1.1 %u %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n",
               status, http_status_reason(status), content_type, len);
    if (client->exchange != NULL) {
        reply_add_headers(out, client->exchange, status);
    } else {
        buf_printf(out, "x-kvasir-node: %s\r\n", node->config->name);
    }
    if (status == 401) {
        buf_add_text(out, "WWW-Authenticate: Bearer\r\n");
    }
    if (status == 405 && client->exchange == NULL) {
        buf_printf(out, "Allow: %s\r\n", methods(client->lane));
    }
    reply_add_cors(out, client);
    end_head(client, out);
}

/* A request that never was an exchange. */
static void ON_LANE
count_end(struct client *client, unsigned status)
{
    struct lane *lane = client->lane;

    if (client->drop || !admit_is_probe(&lane->head)) {
        metrics_end(&lane->shared->metrics.ends,
                    lane->refusal_code != NULL
                        ? metrics_reason_of(lane->refusal_code)
                        : METRICS_LOCAL,
                    status);
    }
    lane->refusal_code = NULL; /* the client's next request may be served now */
}

void
reply_send(struct client *client, unsigned status, const char *content_type,
           struct slice body)
{
    struct buf *out = &client->lane->text;

    form_cut(client);
    if (client->exchange != NULL &&
        (client->exchange->alive.told || client->exchange->dialect.streams)) {
        alive_refuse(client->exchange, status, body);
        return;
    }
    reply_head(client, status, content_type, body.len, out);
    if (client->exchange == NULL) {
        count_end(client, status);
    } else {
        exchange_drop(client->exchange, status);
    }
    struct iovec parts[2] = {
        {.iov_base = out->ptr, .iov_len = out->len},
        {.iov_base = (void *)(uintptr_t)body.ptr, .iov_len = body.len},
    };
    bool whole = body.len != 0 && !client->framing.head_only;
    int sent = out->failed ? -1 : client_send(client, parts, whole ? 2 : 1);
    if (sent < 0) {
        client_close(client, true);
    } else if (sent == 0) {
        client_answered(client);
    }
}

struct slice
reply_error_body(const struct client *client, unsigned status, const char *code,
                 const char *message, char out[HTTP_ERROR_ROOM])
{
    return client->framing.messages
               ? http_error_anthropic(status, message, out)
               : http_error_body(status, code, message, out);
}

void
reply_error(struct client *client, unsigned status, const char *code,
            const char *message)
{
    struct lane *lane = client->lane;
    char body[HTTP_ERROR_ROOM];

    if (lane->log_requests != CONFIG_LOG_OFF && client->exchange == NULL) {
        logging_refused(client, status, code);
    }
    lane->refusal_code = code;
    reply_send(client, status, "application/json",
               reply_error_body(client, status, code, message, body));
}

void
reply_method(struct client *client)
{
    char message[HTTP_ERROR_MESSAGE_MAX];

    http_method_message(&client->lane->head, methods(client->lane), message);
    reply_error(client, 405, "method_not_allowed", message);
}

/* Browsers' questions */

void
reply_preflight(struct client *client, const struct http_head *head)
{
    struct buf *out = &client->lane->text;
    struct slice allowed = reply_origin(client);

    if (allowed.len == 0) {
        reply_error(client, 403, "origin_not_allowed",
                    "pages of this origin may not use this node; see "
                    "cors.origins");
        return;
    }
    client->close_after = client->close_after || client->lane->leaving;
    buf_clear(out);
    buf_printf(out, "HTTP/1.1 204 No Content\r\nx-kvasir-node: %s\r\n",
               client->lane->node->config->name);
    http_cors_add_preflight(out, allowed, head);
    end_head(client, out);
    count_end(client, 204);
    struct iovec part = {.iov_base = out->ptr, .iov_len = out->len};
    int sent = out->failed ? -1 : client_send(client, &part, 1);
    if (sent < 0) {
        client_close(client, true);
    } else if (sent == 0) {
        client_answered(client);
    }
}

/* Health, readiness, models */

static void ON_LANE
reply_health(struct client *client)
{
    reply_send(client, 200, "application/json", SLICE("{\"status\":\"ok\"}"));
}

static bool
has_worker(struct lane *lane)
{
    struct node_shared *node = lane->node;

    qsbr_online(&node->qsbr, lane->shared->reader);
    bool has = !worker_set_empty(&fleet_view_get(node->board)->eligible);
    qsbr_offline(lane->shared->reader);
    return has;
}

bool
reply_is_ready(struct lane *lane)
{
    struct node_shared *node = lane->node;

    return gauge_read(&node->leaving) == 0 && has_worker(lane) &&
           gauge_read(&node->mesh_ready) != CLUSTER_CATCHING_UP &&
           gauge_read(&node->replaying) == 0;
}

static void ON_LANE
reply_ready(struct client *client)
{
    enum cluster_ready mesh =
        (enum cluster_ready)gauge_read(&client->lane->node->mesh_ready);
    char body[80];

    if (gauge_read(&client->lane->node->leaving) != 0) {
        reply_error(client, 503, "draining", "this node is shutting down");
    } else if (!has_worker(client->lane)) {
        reply_error(client, 503, "not_ready", "no worker is eligible");
    } else if (mesh == CLUSTER_CATCHING_UP) {
        reply_error(client, 503, "catching_up",
                    "this node has not caught up with its peers yet");
    } else if (gauge_read(&client->lane->node->replaying) != 0) {
        reply_error(client, 503, "catching_up",
                    "engines are still telling this node what they hold");
    } else {
        (void)snprintf(body, sizeof body,
                       "{\"status\":\"ready\",\"mesh\":\"%s\"}",
                       cluster_ready_name(mesh));
        reply_send(client, 200, "application/json", slice_of(body));
    }
}

/* As one of its engines tells it: clients read max_model_len, say. */
static void
put_model(struct json_out *json, struct slice name,
          const struct fleet_model *model)
{
    json_out_object_begin(json);
    json_out_put_slice(json, "id", name);
    json_out_put_text(json, "object", "model");
    json_out_put_uint(json, "created", model->created);
    if (model->fact[MODEL_OWNED_BY].len == 0) {
        json_out_put_text(json, "owned_by", "kvasir");
    }
    for (unsigned i = 0; i < MODEL_FACTS; i++) {
        if (model->fact[i].len != 0) {
            json_out_put_raw(json, model_fact_name((enum model_fact)i),
                             model->fact[i]);
        }
    }
    json_out_object_end(json);
}

/* The first of its models that a worker lists; NULL: there is none, or the
 * name is a model's as well and was listed as that. */
static const struct fleet_model *
model_behind(const struct fleet_view *view, const struct config_alias *alias)
{
    const struct fleet_model *model = NULL;

    if (fleet_view_model(view, slice_of(alias->name)) != NULL) {
        return NULL;
    }
    for (uint32_t i = 0; i < alias->targets_count && model == NULL; i++) {
        model = fleet_view_model(view, slice_of(alias->target[i].model));
    }
    return model;
}

/* Names that stand for models, likewise. True: it was only that one. */
static bool ON_LANE
put_aliases(struct client *client, const struct fleet_view *view,
            struct slice only, struct json_out *json)
{
    const struct keys *keys = publish_get(&client->lane->node->keys);
    const struct config_aliases *aliases = &client->lane->aliases;
    bool found = false;

    for (uint32_t i = 0; i < aliases->count && !found; i++) {
        struct slice name = slice_of(aliases->alias[i].name);
        if ((only.len != 0 && !slice_equal(only, name)) ||
            !admit_allows(client, keys, name)) {
            continue;
        }
        const struct fleet_model *model =
            model_behind(view, &aliases->alias[i]);
        if (model != NULL) {
            put_model(json, name, model);
            found = only.len != 0;
        }
    }
    return found;
}

/* Names whose model is chosen by what a request says, likewise; as the model
 * where no rule fits, or the first of its alias. */
static bool ON_LANE
put_content(struct client *client, const struct fleet_view *view,
            struct slice only, struct json_out *json)
{
    struct lane *lane = client->lane;
    const struct keys *keys = publish_get(&lane->node->keys);
    const struct content *content = publish_get(&lane->node->content);
    const char *text;
    bool found = false;

    for (uint32_t i = 0;
         content != NULL && !found && (text = content_name(content, i)) != NULL;
         i++) {
        struct slice name = slice_of(text);
        if ((only.len != 0 && !slice_equal(only, name)) ||
            !admit_allows(client, keys, name) ||
            fleet_view_model(view, name) != NULL) {
            continue;
        }
        struct slice behind = slice_of(content_model(content, name));
        const struct config_alias *alias =
            config_aliases_find(&lane->aliases, behind);
        const struct fleet_model *model = fleet_view_model(view, behind);
        if (model == NULL && alias != NULL) {
            model = model_behind(view, alias);
        }
        if (model != NULL) {
            put_model(json, name, model);
            found = only.len != 0;
        }
    }
    return found;
}

/* only: one model's name, or empty for the whole list. False: there is no such
 * model, or not for this client. */
static bool ON_LANE
put_models(struct client *client, struct slice only, struct buf *body)
{
    struct node_shared *node = client->lane->node;
    struct json_out json;
    bool found = false;

    json_out_init(&json, body);
    if (only.len == 0) {
        json_out_object_begin(&json);
        json_out_put_text(&json, "object", "list");
        json_out_key(&json, "data");
        json_out_array_begin(&json);
    }
    qsbr_online(&node->qsbr, client->lane->shared->reader);
    const struct fleet_view *view = fleet_view_get(node->board);
    const struct keys *keys = publish_get(&node->keys);
    for (size_t i = 0; i < view->models->count && !found; i++) {
        struct slice name = view->models->model[i].name;
        if ((only.len == 0 || slice_equal(only, name)) &&
            admit_allows(client, keys, name)) {
            put_model(&json, name, &view->models->model[i]);
            found = only.len != 0;
        }
    }
    found = found || put_aliases(client, view, only, &json) ||
            put_content(client, view, only, &json);
    qsbr_offline(client->lane->shared->reader);
    if (only.len == 0) {
        json_out_array_end(&json);
        json_out_object_end(&json);
    }
    return only.len == 0 || found;
}

static bool
hex_pair(const char *at, unsigned *value)
{
    int high = ascii_hex(at[0]);
    int low = ascii_hex(at[1]);

    *value = (unsigned)high << 4 | (unsigned)low;
    return high >= 0 && low >= 0;
}

/* %2F and its like in a model's name, as client libraries send them. */
static struct slice
percent_decode(struct slice in, char *out)
{
    size_t len = 0;

    for (size_t i = 0; i < in.len; i++) {
        unsigned value;
        if (in.ptr[i] == '%' && in.len - i > 2 &&
            hex_pair(in.ptr + i + 1, &value)) {
            out[len++] = (char)value;
            i += 2;
        } else {
            out[len++] = in.ptr[i];
        }
    }
    return (struct slice){.ptr = out, .len = len};
}

static void ON_LANE
reply_models(struct client *client, struct slice only)
{
    char name[MODEL_NAME_MAX];
    struct buf body;

    if (only.len > sizeof(name)) {
        reply_error(client, 404, "model_not_found",
                    "no worker serves this model");
        return;
    }
    only = percent_decode(only, name);

    buf_init(&body, BODY_MAX_BYTES);
    if (!put_models(client, only, &body)) {
        reply_error(client, 404, "model_not_found",
                    "no worker serves this model");
    } else if (body.failed) {
        reply_error(client, 503, "too_many_models",
                    "the list of models is over 1 MiB");
    } else {
        reply_send(client, 200, "application/json", buf_slice(&body));
    }
    buf_fini(&body);
}

void
reply_local(struct client *client, const struct http_head *head)
{
    struct slice list = SLICE("/v1/models");
    struct slice path = head->path;

    if (head->method_id != HTTP_GET && head->method_id != HTTP_HEAD) {
        reply_method(client);
    } else if (slice_equal(path, SLICE("/health"))) {
        reply_health(client);
    } else if (slice_equal(path, SLICE("/ready"))) {
        reply_ready(client);
    } else {
        size_t skip = path.len > list.len ? list.len + 1 : path.len;
        reply_models(client, (struct slice){.ptr = path.ptr + skip,
                                            .len = path.len - skip});
    }
}
