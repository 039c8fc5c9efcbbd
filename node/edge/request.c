/*
 * A whole request: refused, answered by the node itself, or put on its way to
 * a worker.
 */
#include <stdio.h>

#include "node/edge/answer_internal.h"
#include "node/edge/logging_internal.h"
#include "node/edge/picking_internal.h"

void
request_refuse(struct client *client, unsigned status, const char *code,
               const char *message)
{
    deadline_clear(&client->deadline);
    client->state = CLIENT_BUSY;
    client->close_after = true;
    client->drop = true;
    reply_error(client, status, code, message);
}

/* The request id: the client's own if it is valid, otherwise one of ours. */
static void
set_id(struct exchange *x, struct rng *rng, const struct http_head *head)
{
    const struct http_header *given =
        http_head_find(head, HTTP_FIELD_REQUEST_ID);
    char *id = x->dispatch.id;

    if (given != NULL && given->value.len != 0 &&
        given->value.len < sizeof(x->dispatch.id)) {
        memcpy(id, given->value.ptr, given->value.len);
        id[given->value.len] = '\0';
        return;
    }
    uint64_t bits = rng_next(rng);
    memcpy(id, "kv-", 3);
    for (unsigned i = 0; i < 16; i++) {
        id[3 + i] = "0123456789abcdef"[bits >> (60 - 4 * i) & 15];
    }
    id[19] = '\0';
}

static void ON_LANE
refuse_bad(struct client *client, const char *code, const char *message)
{
    reply_error(client, 400, code, message);
}

static void ON_LANE
refuse_memory(struct client *client)
{
    reply_error(client, 503, "overloaded", "out of memory; try again");
}

/* x-request-timeout. False: it was refused, x is gone; a client that means to
 * wait for a second must not wait for half a minute. */
static bool ON_LANE
set_patience(struct exchange *x, const struct http_head *head)
{
    uint32_t bit = UINT32_C(1) << HTTP_FIELD_TIMEOUT;
    uint64_t ms;

    x->wait.patience_us = UINT64_MAX;
    if ((head->fields_seen & bit) == 0) {
        return true;
    }
    if (!waiting_read_ms(http_head_find(head, HTTP_FIELD_TIMEOUT)->value,
                         &ms)) {
        refuse_bad(x->client, "invalid_timeout",
                   "x-request-timeout cannot be read: send seconds (30, 2.5, "
                   "2s) or milliseconds (500ms)");
        return false;
    }
    x->wait.patience_us = ms * UINT64_C(1000);
    return true;
}

/* Origin form, whatever form the client used. */
static struct slice
origin_target(const struct http_head *head)
{
    if (head->target.len != 0 && head->target.ptr[0] == '/') {
        return head->target;
    }
    const char *end = head->target.ptr + head->target.len;
    return (struct slice){.ptr = head->path.ptr,
                          .len = (size_t)(end - head->path.ptr)};
}

bool
request_is_override(struct slice name)
{
    struct slice prefix = SLICE("x-override-");

    if (name.len < prefix.len) {
        return false;
    }
    name.len = prefix.len;
    return slice_equal_nocase(name, prefix);
}

/* Fields that are replaced, or that a router must not let clients set. keyed: its
 * clients have keys of ours, and are not trusted. */
static bool
is_ours(const struct http_header *h, bool traced, bool keyed)
{
    switch (h->field) {
    case HTTP_FIELD_HOST:
    case HTTP_FIELD_CONTENT_LENGTH:
    case HTTP_FIELD_TRANSFER_ENCODING:
    case HTTP_FIELD_EXPECT:
    case HTTP_FIELD_REQUEST_ID:
    case HTTP_FIELD_KVASIR:
    case HTTP_FIELD_UPGRADE:
    case HTTP_FIELD_AUTHORIZATION: /* the worker's own goes first */
        return true;
    case HTTP_FIELD_TRACEPARENT: /* see tracing_begin() */
        return traced;
    case HTTP_FIELD_OTHER:
        return slice_equal_nocase(h->name, SLICE("x-data-parallel-rank")) ||
               request_is_override(h->name) ||
               (keyed && (slice_equal_nocase(h->name, ADMIT_KEY_FIELD) ||
                          slice_equal_nocase(h->name, PARTS_PRIORITY)));
    case HTTP_FIELD_CONNECTION:
    case HTTP_FIELD_CONTENT_TYPE:
    case HTTP_FIELD_KEEP_ALIVE:
    case HTTP_FIELD_PROXY:
    case HTTP_FIELD_TE:
    case HTTP_FIELD_TRAILER:
    case HTTP_FIELD_SESSION_ID:
    case HTTP_FIELD_TIMEOUT:
    case HTTP_FIELD_ORIGIN:
        return false;
    }
    return false;
}

static void
add_field(struct buf *out, const struct http_header *h)
{
    buf_add_slice(out, h->name);
    buf_add(out, ": ", 2);
    buf_add_slice(out, h->value);
    buf_add(out, "\r\n", 2);
}

/* Content-Encoding, of something other than nothing. */
static bool
is_encoding(const struct http_header *h)
{
    return h->field == HTTP_FIELD_OTHER &&
           slice_equal_nocase(h->name, SLICE("content-encoding")) &&
           !slice_equal_nocase(h->value, SLICE("identity"));
}

bool
request_is_encoded(const struct http_head *head)
{
    for (size_t i = 0; i < head->headers_count; i++) {
        if (is_encoding(&head->headers[i])) {
            return true;
        }
    }
    return false;
}

/* An answer that something is to be taken out of must not be compressed. */
static bool
is_unwanted(const struct exchange *x, const struct http_header *h)
{
    return (x->ask.possible || x->resuming.possible || x->dialect.possible ||
            x->caching.asks) &&
           h->field == HTTP_FIELD_OTHER &&
           slice_equal_nocase(h->name, SLICE("accept-encoding"));
}

static void
add_fields(struct exchange *x, const struct http_head *head)
{
    struct buf *out = &x->head;

    for (size_t i = 0; i < head->headers_count; i++) {
        const struct http_header *h = &head->headers[i];
        if (!is_ours(h, x->traced, x->client->framing.admission.keyed) &&
            !http_head_is_hop(head, h) && !is_unwanted(x, h)) {
            add_field(out, h);
        }
    }
    if (x->traced) {
        char text[HTTP_TRACE_TEXT];
        buf_add_text(out, "traceparent: ");
        buf_add_text(out, http_trace_text(&x->trace, text));
        buf_add(out, "\r\n", 2);
    }
    buf_add_text(out, "x-request-id: ");
    buf_add_text(out, x->dispatch.id);
    if (x->body.len != 0 || head->body != HTTP_BODY_NONE ||
        http_head_find(head, HTTP_FIELD_CONTENT_LENGTH) != NULL) {
        buf_add_text(out, "\r\nContent-Length: ");
        x->length_at = out->len;
        buf_add_uint(out, x->body.len + x->client->framing.missing);
    }
    buf_add_text(out, "\r\n\r\n");
}

/* The head that every attempt sends. */
static void
build_head(struct exchange *x, const struct http_head *head)
{
    struct buf *out = &x->head;
    const struct http_header *key =
        http_head_find(head, HTTP_FIELD_AUTHORIZATION);

    buf_clear(out);
    buf_add_slice(out, head->method);
    buf_add(out, " ", 1);
    x->method_end = out->len;
    buf_add_slice(out, origin_target(head));
    buf_add_text(out, " HTTP/1.1\r\n");
    x->line_end = out->len;
    add_fields(x, head);
    x->fields_end = out->len;
    if (key != NULL && !x->client->framing.admission.keyed) {
        add_field(out, key);
    }
}

static void
note_model(struct exchange *x, struct slice model)
{
    char *out = x->dispatch.model;
    size_t room = sizeof(x->dispatch.model) - 1;
    size_t len = model.len < room ? model.len : room;

    if (len != 0) {
        memcpy(out, model.ptr, len);
    }
    out[len] = '\0';
}

static void ON_LANE
refuse_json(struct client *client, const struct scan *scan)
{
    char message[160];

    (void)snprintf(message, sizeof(message),
                   "the request body is not valid JSON: %s at byte %zu",
                   scan->fault, scan->fault_at);
    reply_error(client, 400, "invalid_json", message);
}

/* Whether the engine may be asked for the stream's usage. */
static void ON_LANE
set_ask(struct exchange *x, const struct scan *scan)
{
    struct edge_ask *ask = &x->ask;

    bool knows = scan->api == SCAN_API_CHAT || scan->api == SCAN_API_TEXT;

    if (!x->client->lane->usage_ask || !scan->stream || !knows ||
        x->client->picked) {
        return;
    }
    ask->possible = scan->usage.lack != SCAN_USAGE_NOTHING &&
                    scan->usage.lack != SCAN_USAGE_EACH;
    ask->each_possible = x->resuming.possible && scan->usage.each_unsaid;
    ask->lack = scan->usage;
}

/* What engines are told to keep its tenant's prompts apart. */
static void ON_LANE
set_salt(struct exchange *x, const struct route_scratch *route)
{
    struct edge_salt *salt = &x->salt;

    /* Where no prompt is read here an engine may read one, but not in {}. */
    if (route->salt[0] == '\0' ||
        (route->scan.shape == SCAN_NO_PROMPT &&
         (route->scan.api != SCAN_API_OTHER ||
          memchr(x->body.ptr, '"', x->body.len) == NULL))) {
        return;
    }
    salt->possible = true;
    salt->at = route->scan.salt_at;
    salt->cut = route->scan.salt_cut;
    int len = snprintf(salt->text, sizeof(salt->text),
                       salt->cut != 0 ? "\"%s\"" : "\"cache_salt\":\"%s\",",
                       route->salt);
    CHECK(len > 0 && (size_t)len < sizeof(salt->text));
    salt->len = (uint32_t)len;
}

/* Which session it is one of. */
static void ON_LANE
set_session(struct exchange *x, const struct http_head *head)
{
    struct lane *lane = x->client->lane;
    const struct session_asked asked = {
        .head = head,
        .body = x->body.ptr,
        .scan = x->dispatch.routed ? &lane->route.scan : NULL,
        .tenant = x->tenant,
        .model = lane->route.model,
    };

    if (lane->session.mode != SESSION_OFF) {
        x->session = session_key(&lane->session, &asked);
    }
}

void
request_read_again(struct exchange *x)
{
    struct route_scratch *route = &x->client->lane->route;

    if (!x->dispatch.routed) {
        route_read_form(route, x->body);
        return;
    }
    route->isolation = &x->client->framing.admission.isolation;
    /* It was well-formed with another name in its place. */
    CHECK(route_read(route, x->body, x->api) == 0);
    x->dispatch.total = route->blocks.count;
    x->apt = EDGE_APT_UNREAD;
    set_ask(x, &route->scan);
    set_salt(x, route);
}

/* What a tenant's client must not say to engines. False: it was refused, x is gone.
 * A priority before the tenant's, or before that of who says none, gives way to
 * it: there is room for it, as such a number has a sign. */
static bool ON_LANE
bound_members(struct exchange *x, struct scan *scan)
{
    struct client *client = x->client;
    struct admission *admission = &client->framing.admission;
    char *number = client->in + client->framing.head_bytes + scan->priority_at;
    int32_t first = admission->priority < 0 ? admission->priority : 0;
    char text[8];

    if (!admission->keyed) {
        return true;
    }
    if (scan->halved) {
        reply_error(client, 403, "member_not_allowed",
                    "the body has a member that is for routers: "
                    "kv_transfer_params, bootstrap_host or their like");
        return false;
    }
    if (scan->media_named && admission->isolation.strict) {
        reply_error(client, 403, "member_not_allowed",
                    "engines keep pictures by uuid for all tenants alike, and "
                    "this one is isolated: send them without");
        return false;
    }
    if (scan->has_priority && scan->priority < first) {
        size_t size = strspn(number, "-+.0123456789eE");
        int len = snprintf(text, sizeof(text), "%d", (int)first);
        CHECK(len > 0 && (size_t)len <= size);
        memset(number, ' ', size);
        memcpy(number, text, (size_t)len);
        scan->priority = first;
        admission->raised = true;
    }
    return true;
}

/* Reads the body for routing; false: it was refused, x is gone. */
static bool ON_LANE
read_body(struct exchange *x, enum route_kind kind)
{
    struct client *client = x->client;
    struct route_scratch *route = &client->lane->route;

    x->read = true;
    if (kind != ROUTE_PROMPT) {
        route_read_form(route, x->body);
        note_model(x, route->model);
        return admit_model(x, SLICE(""));
    }
    if (request_is_encoded(&client->lane->head)) {
        reply_error(client, 415, "unsupported_encoding",
                    "the request body has a Content-Encoding; send it plain");
        return false;
    }
    x->api = route_api(&client->lane->head);
    route->isolation = &client->framing.admission.isolation;
    if (reading_take(x) != 0) {
        refuse_json(client, &route->scan);
        return false;
    }
    if (route->scan.priority_bad) {
        refuse_bad(client, "invalid_priority",
                   "priority cannot be read: send an integer, the lower the "
                   "sooner");
        return false;
    }
    if (!bound_members(x, &route->scan)) {
        return false;
    }
    struct metrics_lane *m = &client->lane->shared->metrics;
    counter_bump(&m->spans_truncated, route->scan.spans_truncated);
    counter_bump(&m->blocks, route->blocks.count);
    x->dispatch.routed = true;
    x->dispatch.stream = route->scan.stream;
    x->dispatch.several = route->scan.n > 1 || route->scan.prompts > 1;
    x->dispatch.total = route->blocks.count;
    note_model(x, route->model);
    resuming_init(x, &route->scan);
    set_ask(x, &route->scan);
    set_salt(x, route);
    translating_init(x);
    return admit_model(x, route->model);
}

/* Whether its client may be told where the request went: everybody may, or it
 * carries an operator's token. That header goes to no worker: is_ours(). */
static bool
is_shown(const struct lane *lane, const struct http_head *head)
{
    uint32_t bit = UINT32_C(1) << HTTP_FIELD_KVASIR;

    if (lane->placement_headers || (head->fields_seen & bit) == 0) {
        return lane->placement_headers;
    }
    const struct http_header *token =
        http_head_find_name(head, SLICE("x-kvasir-token"));
    return token != NULL &&
           http_tokens_name(&lane->operators, token->value) != NULL;
}

/* Its model is to be chosen; the scratch has read it. */
static void ON_LANE
begin(struct exchange *x, const struct http_head *head)
{
    struct client *client = x->client;

    if (!naming_begin(x)) {
        return;
    }
    if (client->lane->node->answers != NULL && !client->picked) {
        caching_read(x, head);
    }
    build_head(x, head);
    if (x->head.failed) {
        refuse_memory(client);
        return;
    }
    exchange_start(x);
    form_begin(client);
}

void
request_go_on(struct exchange *x)
{
    struct client *client = x->client;
    struct lane *lane = client->lane;

    /* As it was, of bytes that are still there; others have used the lane's
     * head and scratch since. */
    CHECK(client->framing.missing == 0 && x->naming.count == 0);
    client_read_head(client);
    request_read_again(x);
    x->read = true;
    begin(x, &lane->head);
}

static void ON_LANE
forward(struct client *client, enum route_kind kind)
{
    struct lane *lane = client->lane;
    const struct http_head *head = &lane->head;
    struct exchange *x = exchange_new(client);

    if (x == NULL) {
        refuse_memory(client);
        return;
    }
    x->method = head->method_id;
    x->minor_0 = head->minor == 0;
    x->shown = is_shown(lane, head);
    x->dispatch.clears = route_clears_cache(head);
    x->body = (struct slice){
        .ptr = client->in + client->framing.head_bytes,
        .len = client->framing.body_bytes - client->framing.missing,
    };
    set_id(x, &lane->rng, head);
    tracing_begin(x, head);
    counter_bump(&lane->shared->metrics.bytes_in, x->body.len);
    x->dispatch.bytes = x->body.len;
    if (!set_patience(x, head) || !read_body(x, kind)) {
        return;
    }
    set_session(x, head);
    if (!storing_begin(x, head)) {
        refuse_memory(client);
        return;
    }
    begin(x, head);
}

/* What no path serves. An offer of HTTP/2 may be left aside (RFC 9110 section
 * 7.8); another protocol is what its client came for. */
static bool ON_LANE
refuse_kind(struct client *client, const struct http_head *head,
            enum route_kind kind)
{
    const struct http_header *to = http_head_find(head, HTTP_FIELD_UPGRADE);

    if (head->method_id == HTTP_OTHER && kind != ROUTE_UNKNOWN &&
        slice_equal(head->method, SLICE("TRACE"))) {
        reply_method(client);
    } else if (head->upgrade && !slice_equal_nocase(to->value, SLICE("h2c"))) {
        reply_error(client, 501, "upgrade_not_served",
                    "no connection is upgraded here");
    } else {
        return false;
    }
    return true;
}

void
request_serve(struct client *client)
{
    struct lane *lane = client->lane;
    struct metrics_lane *m = &lane->shared->metrics;
    bool probe = admit_is_probe(&lane->head);
    enum route_kind kind =
        route_kind_of(&lane->head, lane->node->config->paths);

    counter_bump(probe ? &m->probes : &m->requests_read, 1);
    if (refuse_kind(client, &lane->head, kind)) {
        return;
    }
    if (http_cors_is_preflight(&lane->head)) {
        reply_preflight(client, &lane->head);
        return;
    }
    if (kind == ROUTE_LOCAL) {
        reply_local(client, &lane->head);
        return;
    }
    if (kind == ROUTE_UNKNOWN) {
        reply_error(client, 404, "not_found",
                    "no path of inference, and none of `paths` (kvasir check "
                    "--reference); /metrics, /admin and the page are on the "
                    "admin port");
        return;
    }
    if (gauge_read(&lane->node->inflight) >= lane->limits.inflight_max) {
        reply_error(client, 503, "overloaded",
                    "limits.inflight_max requests are running; try again");
        return;
    }
    forward(client, kind);
}
