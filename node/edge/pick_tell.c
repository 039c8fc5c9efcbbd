/* What a gateway is told of its request: which worker is to have it, and those to
 * try after that one; or what the node itself answers. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>

#include "node/edge/picking_internal.h"

#define SETS_MAX 32U

#define REMOVE_MAX (8U + HTTP_HEADERS_MAX)

/* Endpoints */

/* As the gateway's load balancing reads it; empty without an address. */
static struct slice
endpoint_of(const struct fleet_worker *worker, char out[PICK_ENDPOINT_MAX])
{
    struct buf text = buf_over(out, PICK_ENDPOINT_MAX);
    char host[INET6_ADDRSTRLEN] = "";
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    uint8_t part[4];

    if (worker->address.ss_family == AF_INET) {
        memcpy(&v4, &worker->address, sizeof v4);
        memcpy(part, &v4.sin_addr, sizeof part);
        for (size_t i = 0; i < sizeof part; i++) {
            buf_add_uint(&text, part[i]);
            buf_add(&text, i < sizeof part - 1 ? "." : ":", 1);
        }
        buf_add_uint(&text, ntohs(v4.sin_port));
    } else if (worker->address.ss_family == AF_INET6) {
        memcpy(&v6, &worker->address, sizeof v6);
        (void)inet_ntop(AF_INET6, &v6.sin6_addr, host, sizeof host);
        buf_add(&text, "[", 1);
        buf_add_text(&text, host);
        buf_add(&text, "]:", 2);
        buf_add_uint(&text, ntohs(v6.sin6_port));
    }
    CHECK(!text.failed);
    return buf_slice(&text);
}

static void
add_endpoint(struct pick *pick, const struct fleet_worker *worker)
{
    size_t len = strlen(pick->endpoints);
    struct buf rest =
        buf_over(pick->endpoints + len, sizeof pick->endpoints - len);
    char text[PICK_ENDPOINT_MAX];
    struct slice endpoint = endpoint_of(worker, text);

    if (endpoint.len == 0) {
        return;
    }
    buf_add(&rest, ",", len != 0 ? 1 : 0);
    buf_add_slice(&rest, endpoint);
    buf_add(&rest, "", 1); /* its NUL */
    CHECK(!rest.failed);
}

bool
pick_is_first(const struct pick *pick, struct slice endpoint)
{
    struct slice rest = slice_of(pick->endpoints);

    return slice_equal(slice_take(&rest, ','), endpoint);
}

static bool
is_in_subset(const struct pick *pick, const struct fleet_worker *worker)
{
    struct slice rest = pick->subset;
    char text[PICK_ENDPOINT_MAX];
    struct slice endpoint = endpoint_of(worker, text);

    while (rest.len != 0) {
        if (slice_equal(slice_take(&rest, ','), endpoint)) {
            return true;
        }
    }
    return false;
}

void
pick_restrict(const struct pick *pick, const struct fleet_view *view,
              struct worker_set *tried)
{
    if (!pick->subset_known) {
        return;
    }
    WORKER_SET_EACH (slot, &view->present) {
        if (!is_in_subset(pick, view->worker[slot])) {
            worker_set_add(tried, slot);
        }
    }
}

/* Whether one gets the same request as the other would. */
static bool
is_alike(const struct fleet_worker *a, const struct fleet_worker *b)
{
    return a->kind == b->kind && strcmp(a->api_key, b->api_key) == 0 &&
           strcmp(a->base_path, b->base_path) == 0;
}

/* Those that would be elected without the first. */
static void ON_LANE
add_fallbacks(struct exchange *x, const struct route_world *world,
              uint32_t first)
{
    struct lane *lane = x->client->lane;
    struct elect_state state = lane->route.elect;
    struct worker_set tried = x->dispatch.tried;
    struct elect_input input;
    struct elect_choice choice;
    uint32_t most = lane->node->config->extproc.fallbacks;
    uint32_t added = 0;

    worker_set_add(&tried, first);
    if (route_input(&lane->route, world, &tried, &input) != 0) {
        return;
    }
    while (added < most && !worker_set_empty(&input.candidates)) {
        elect_pick(world->elect, &state, &input, &lane->rng, &choice);
        if (choice.worker == WORKER_NONE) {
            return;
        }
        const struct fleet_worker *worker = world->view->worker[choice.worker];
        if (is_alike(worker, world->view->worker[first])) {
            add_endpoint(x->client->pick, worker);
            added++;
        }
        worker_set_remove(&input.candidates, choice.worker);
    }
}

void
pick_elected(struct exchange *x)
{
    struct lane *lane = x->client->lane;
    struct node_shared *node = lane->node;
    const struct route_choice *choice = &x->dispatch.choice;
    struct elect_config own;

    x->client->pick->endpoints[0] = '\0';
    if (x->pool == NULL) {
        return;
    }
    add_endpoint(x->client->pick, &x->pool->worker);
    if (choice->ranked || node->config->extproc.fallbacks == 0) {
        return; /* a request that names a rank is for this worker alone */
    }
    qsbr_online(&node->qsbr, lane->shared->reader);
    struct route_world world =
        shared_world(node, shared_elect_for(&lane->elect, &lane->policies,
                                            lane->route.model, &own));
    world.residency = x->client->framing.admission.residency.islands;
    if (world.view->worker[choice->lease.slot] != NULL) {
        add_fallbacks(x, &world, choice->lease.slot);
    }
    qsbr_offline(lane->shared->reader);
}

/* The worker's request */

struct changes {
    struct extproc_header set[SETS_MAX];
    struct slice remove[REMOVE_MAX];
    struct extproc_change change;
    char key[CONFIG_SECRET_MAX + 8];
    char trace[HTTP_TRACE_TEXT];
    char length[24];
    char hints[EDGE_HINTS_MAX];
    struct buf path;
};

static void
set(struct changes *changes, struct slice name, struct slice value)
{
    CHECK(changes->change.set_count < SETS_MAX);
    changes->set[changes->change.set_count++] =
        (struct extproc_header){name, value};
}

static void
take_out(struct changes *changes, struct slice name)
{
    CHECK(changes->change.remove_count < REMOVE_MAX);
    changes->remove[changes->change.remove_count++] = name;
}

/* As upstream.c has its lines. */
static void
set_key(struct changes *changes, const struct exchange *x)
{
    const char *key = x->pool->worker.api_key;
    bool keyed = x->client->framing.admission.keyed;

    if (key[0] != '\0') {
        (void)snprintf(changes->key, sizeof changes->key, "Bearer %s", key);
        set(changes, SLICE("authorization"), slice_of(changes->key));
    } else if (keyed) {
        take_out(changes, SLICE("authorization"));
    }
    if (keyed) {
        take_out(changes, ADMIT_KEY_FIELD);
        take_out(changes, PARTS_PRIORITY);
    }
    take_out(changes, SLICE("x-kvasir-token"));
}

static void
take_overrides(struct changes *changes, struct slice names)
{
    while (names.len != 0) {
        take_out(changes, slice_take_line(&names));
    }
}

/* A worker's path may begin before those of its API. */
static void
set_path(struct changes *changes, const struct exchange *x)
{
    const char *base = x->pool->worker.base_path;
    size_t end = x->line_end - (sizeof(" HTTP/1.1\r\n") - 1);

    if (base[0] == '\0') {
        return;
    }
    buf_add_text(&changes->path, base);
    buf_add(&changes->path, x->head.ptr + x->method_end, end - x->method_end);
    if (!changes->path.failed) {
        set(changes, SLICE(":path"), buf_slice(&changes->path));
    }
}

static void
set_hints(struct changes *changes, const struct exchange *x)
{
    struct slice rest = {changes->hints,
                         exchange_hints(&x->dispatch.choice, changes->hints)};
    bool ranked = x->dispatch.choice.ranked;

    while (rest.len != 0) {
        struct slice line = slice_take_line(&rest);
        struct slice name = slice_take(&line, ':');
        bool rank = ranked && slice_equal(name, SLICE("X-data-parallel-rank"));
        set(changes, rank ? SLICE("x-data-parallel-rank") : name,
            slice_trim(line));
    }
    if (!ranked) {
        take_out(changes, SLICE("x-data-parallel-rank"));
    }
}

/* edited: its body is not the client's. */
static void
make_changes(struct changes *changes, const struct exchange *x, bool edited,
             size_t body_size)
{
    const struct pick *pick = x->client->pick;

    changes->change = (struct extproc_change){
        .set = changes->set,
        .remove = changes->remove,
        .endpoints = slice_of(pick->endpoints),
    };
    buf_init(&changes->path,
             x->client->lane->limits.target_bytes_max + URL_TEXT_MAX);
    set_key(changes, x);
    take_overrides(changes, pick->overrides);
    set_path(changes, x);
    set_hints(changes, x);
    set(changes, SLICE("x-request-id"), slice_of(x->dispatch.id));
    if (x->traced) {
        set(changes, SLICE("traceparent"),
            slice_of(http_trace_text(&x->trace, changes->trace)));
    }
    if (pick->has_body && (pick->duplex || edited)) {
        (void)snprintf(changes->length, sizeof changes->length, "%zu",
                       body_size);
        set(changes, SLICE("content-length"), slice_of(changes->length));
    }
}

/* Its body */

/* The part of the worker's body in which that byte is, from there on. Empty: it
 * ends before. */
static struct slice
body_from(const struct exchange *x, const struct edge_edits *edits, size_t at)
{
    size_t from = 0;

    for (uint32_t i = 0; i < edits->count; i++) {
        const struct body_edit *edit = &edits->edit[i];
        size_t kept = edit->at - from;
        if (at < kept) {
            return (struct slice){x->body.ptr + from + at, kept - at};
        }
        at -= kept;
        if (at < edit->text.len) {
            return (struct slice){edit->text.ptr + at, edit->text.len - at};
        }
        at -= edit->text.len;
        from = (size_t)edit->at + edit->cut;
    }
    size_t rest = x->body.len - from;
    return at < rest ? (struct slice){x->body.ptr + from + at, rest - at}
                     : (struct slice){NULL, 0};
}

static size_t
body_size(const struct exchange *x, const struct edge_edits *edits)
{
    size_t size = x->body.len;

    for (uint32_t i = 0; i < edits->count; i++) {
        size = size - edits->edit[i].cut + edits->edit[i].text.len;
    }
    return size;
}

/* The last of the body was sent back. */
static void ON_LANE
end_body(struct pick *pick, struct buf *out)
{
    if (pick->trailers) {
        extproc_put_trailers(out, EXTPROC_REQUEST_TRAILERS);
    }
}

void
pick_send_body(struct pick *pick)
{
    struct exchange *x = pick->client != NULL ? pick->client->exchange : NULL;

    if (pick->body_at == pick->body_size) {
        return;
    }
    if (x == NULL || x->body.ptr == NULL || pick->state != PICK_GIVEN) {
        pick->body_at = pick->body_size; /* its answer has come before that */
        return;
    }
    struct buf *out = h2_begin(pick->call);
    struct edge_edits edits;
    exchange_list_edits(x, &edits);
    while (pick->body_at < pick->body_size && out->len < PICK_OUT_MAX &&
           !out->failed) {
        struct slice piece = body_from(x, &edits, pick->body_at);
        CHECK(piece.len != 0);
        piece.len = piece.len < PICK_PIECE_BYTES ? piece.len : PICK_PIECE_BYTES;
        pick->body_at += piece.len;
        bool last = pick->body_at == pick->body_size;
        extproc_put_piece(out, EXTPROC_REQUEST_BODY, piece,
                          last && !pick->trailers);
        if (last) {
            end_body(pick, out);
        }
    }
    h2_end(pick->call);
}

/* All of it at once. */
static void ON_LANE
put_whole(const struct exchange *x, const struct edge_edits *edits,
          const struct extproc_change *change, struct buf *out)
{
    size_t size = body_size(x, edits);
    struct buf body;
    struct slice part;

    buf_init(&body, size);
    for (size_t at = 0; at < size && !body.failed; at += part.len) {
        part = body_from(x, edits, at);
        buf_add_slice(&body, part);
    }
    struct slice whole = buf_slice(&body);
    out->failed = out->failed || body.failed;
    extproc_put_body(out, EXTPROC_REQUEST_BODY, change, &whole);
    buf_fini(&body);
}

static void ON_LANE
tell_worker(struct exchange *x)
{
    struct pick *pick = x->client->pick;
    struct edge_edits edits;
    exchange_list_edits(x, &edits);
    bool edited = edits.count != 0 || x->naming.count != 0 ||
                  x->client->framing.admission.raised;
    size_t size = body_size(x, &edits);
    struct buf *out = h2_begin(pick->call);
    struct changes changes;

    make_changes(&changes, x, edited, size);
    if (!pick->has_body || pick->duplex) {
        extproc_put_headers(out, EXTPROC_REQUEST_HEADERS, &changes.change);
    } else if (edited) {
        put_whole(x, &edits, &changes.change, out);
    } else {
        extproc_put_body(out, EXTPROC_REQUEST_BODY, &changes.change, NULL);
    }
    if (pick->duplex && pick->has_body && size == 0) {
        extproc_put_piece(out, EXTPROC_REQUEST_BODY, SLICE(""),
                          !pick->trailers);
        end_body(pick, out);
    } else if (pick->duplex && pick->has_body) {
        pick->body_size = size;
    }
    buf_fini(&changes.path);
    h2_end(pick->call);
}

int
pick_connect(struct exchange *x)
{
    struct pick *pick = x->client->pick;

    if (pick == NULL || pick->call == NULL || pick->state != PICK_ASKED ||
        pick->endpoints[0] == '\0') {
        return -EMFILE;
    }
    int fd = pick_pipe_open(pick, &pick->back);
    if (fd < 0) {
        return fd;
    }
    x->dispatch.spent = true; /* from here on the gateway asks others */
    x->dispatch.models_left = 0;
    pick->state = PICK_GIVEN;
    tell_worker(x);
    pick->stalled = true;
    picker_flush_later(pick->picker); /* which may end x */
    counter_bump(&pick->lane->shared->metrics.extproc_picked, 1);
    return fd;
}

/* An answer of the node's own */

static void ON_LANE
tell_answer(struct pick *pick, unsigned status,
            const struct extproc_header *headers, uint32_t count,
            struct slice body)
{
    if (pick->finished) {
        return;
    }
    counter_bump(&pick->lane->shared->metrics.extproc_answered, 1);
    extproc_put_immediate(h2_begin(pick->call), status, headers, count, body);
    h2_end(pick->call);
    pick_finish(pick, GRPC_OK);
}

void
pick_refuse(struct pick *pick, unsigned status, const char *code,
            const char *message)
{
    const struct extproc_header type = {SLICE("content-type"),
                                        SLICE("application/json")};
    char text[HTTP_ERROR_ROOM];

    tell_answer(pick, status, &type, 1,
                http_error_body(status, code, message, text));
    pick_drop_client(pick);
}

void
pick_answered(struct pick *pick, struct slice bytes)
{
    struct lane *lane = pick->lane;
    struct http_head *head = &lane->head;
    struct extproc_header headers[HTTP_HEADERS_MAX];
    uint32_t count = 0;

    if (pick->finished || pick->call == NULL || pick->state >= PICK_ANSWER) {
        return; /* it is what the gateway has told */
    }
    buf_add_slice(&pick->answer, bytes);
    if (pick->answer.failed) {
        pick_finish(pick, GRPC_EXHAUSTED);
        return;
    }
    int outcome = http_head_parse_response(
        pick->answer.ptr, pick->answer.len, &lane->response_limits,
        pick->head_only ? HTTP_HEAD : HTTP_POST, head);
    if (outcome == HTTP_E_MORE) {
        return;
    }
    if (outcome != 0 ||
        (head->body != HTTP_BODY_LENGTH && head->body != HTTP_BODY_NONE)) {
        pick_finish(pick, GRPC_UNAVAILABLE);
        return;
    }
    size_t size =
        head->body == HTTP_BODY_LENGTH ? (size_t)head->content_length : 0;
    if (pick->answer.len - head->size_bytes < size) {
        return;
    }
    for (size_t i = 0; i < head->headers_count; i++) {
        const struct http_header *h = &head->headers[i];
        if (h->field != HTTP_FIELD_CONTENT_LENGTH &&
            !http_head_is_hop(head, h)) {
            headers[count++] = (struct extproc_header){h->name, h->value};
        }
    }
    tell_answer(pick, head->status, headers, count,
                (struct slice){pick->answer.ptr + head->size_bytes, size});
}
