/*
 * Of a split request (node/route/split.h), the half that computes the prompt: a
 * second connection beside the exchange's own. Nothing of its answer is for the
 * client.
 */
#include "node/edge/answer_internal.h"

/* The request */

/* False: no memory for two halves. */
static bool ON_LANE
take_form(struct exchange *x, const struct split_form *form)
{
    if (x->split == NULL) { /* else it is of another model's request */
        x->split = exchange_part(x, sizeof(*x->split));
    }
    if (x->split == NULL) {
        return false;
    }
    x->split->form = *form;
    x->split->watch.room = x->split->object;
    return true;
}

enum split_asked
prefill_asks(struct exchange *x, const struct fleet_view *view)
{
    const struct scan *scan = &x->client->lane->route.scan;

    if (!x->dispatch.routed || x->client->picked || !split_has_pairs(view)) {
        return SPLIT_NEVER;
    }
    if (x->apt == EDGE_APT_UNREAD) {
        struct split_form form;
        bool apt = split_suits(scan) && split_read(x->body, &form);
        x->apt = apt && take_form(x, &form) ? EDGE_APT : EDGE_UNAPT;
        counter_bump(&x->client->lane->shared->metrics.split_form, !apt);
    }
    return x->apt == EDGE_APT ? SPLIT_MAY : SPLIT_NEVER;
}

/* By parameters it is asked for one token; else for the same as the other half,
 * which is not there yet. */
static void
set_edits(struct exchange *x)
{
    struct edge_edits *edits = &x->split->edits;
    const struct edge_salt *salt = &x->salt;
    struct body_edit list[SPLIT_EDITS_MAX];

    edits->count = 0;
    if (salt->possible && route_salts(x->api, x->split->pool->worker.kind)) {
        exchange_add_edit(
            edits, (struct body_edit){salt->at, salt->cut,
                                      (struct slice){salt->text, salt->len}});
    }
    if (x->split->room_len != 0) {
        exchange_add_edit(
            edits, (struct body_edit){
                       x->split->form.open, 0,
                       (struct slice){x->split->room, x->split->room_len}});
        for (uint32_t i = 0; i < x->resuming.asks; i++) {
            exchange_add_edit(edits, x->resuming.ask[i]);
        }
    } else {
        uint32_t count = split_prefill_edits(&x->split->form, list);
        for (uint32_t i = 0; i < count; i++) {
            exchange_add_edit(edits, list[i]);
        }
    }
    exchange_end_edits(x, edits);
}

void
prefill_elected(struct exchange *x, const struct fleet_view *view)
{
    struct lane *lane = x->client->lane;
    const struct split_choice *choice = &x->dispatch.split.choice;
    struct edge_split *split = x->split;

    if (choice->flow == SPLIT_NONE) {
        return;
    }
    CHECK(split->pool == NULL && split->up == NULL && split->params == NULL);
    split->pool = upstream_pool_get(lane, view, choice->prefill.lease.slot);
    if (split->pool == NULL) {
        return; /* prefill_begin() says so */
    }
    if (choice->flow == SPLIT_ROOM) {
        split->room_len =
            split_room(&split->pool->worker, rng_next(&lane->rng), split->room);
    }
    split->hints_len = exchange_hints(&choice->prefill, split->hints);
    set_edits(x);
}

void
prefill_add_edits(const struct exchange *x, struct edge_edits *edits)
{
    const struct edge_split *split = x->split;

    if (split != NULL && split->room_len != 0) {
        exchange_add_edit(
            edits,
            (struct body_edit){split->form.open, 0,
                               (struct slice){split->room, split->room_len}});
    }
    if (split != NULL && split->params != NULL) {
        exchange_add_edit(
            edits, (struct body_edit){
                       split->form.open, 0,
                       (struct slice){split->params, split->params_len}});
    }
}

void
prefill_begin(struct exchange *x)
{
    struct dispatch_failure failure = {.fault = DISPATCH_UNREACHABLE};
    int outcome =
        x->split->pool != NULL ? upstream_begin(x, true) : UPSTREAM_E_EXHAUSTED;

    if (outcome == 0) {
        return;
    }
    if (outcome == UPSTREAM_E_EXHAUSTED) {
        failure.fault = DISPATCH_EXHAUSTED;
    }
    dispatch_prefill_failed(&x->dispatch, &failure);
}

static void ON_LANE
give_params(struct exchange *x)
{
    struct lane *lane = x->client->lane;
    size_t size = x->split->params_size;

    lane_memory_give(&lane->memory,
                     lane_memory_owner(&lane->node->engines, size),
                     x->split->params, size);
}

void
prefill_forget(struct exchange *x)
{
    if (x->split->params != NULL) {
        give_params(x);
        x->split->params = NULL;
        x->split->params_len = 0;
        x->split->params_size = 0;
    }
    x->split->status = 0;
}

void
prefill_drop(struct exchange *x)
{
    struct edge_split *split = x->split;

    if (split == NULL) {
        return;
    }
    struct upstream *up = split->up;
    if (up != NULL) {
        upstream_detach(up);
        upstream_close(up);
    }
    if (split->pool != NULL) {
        upstream_pool_put(x->client->lane, split->pool);
        split->pool = NULL;
    }
    prefill_forget(x);
    split->room_len = 0;
}

/* The answer */

/* Keeps it whole, with room for a comma. False: it is too large. */
static bool ON_LANE
keep(struct exchange *x, struct slice bytes)
{
    struct lane *lane = x->client->lane;
    struct edge_split *split = x->split;
    size_t need = split->params_len + bytes.len + 1;
    size_t size;

    if (need > SPLIT_ANSWER_MAX) {
        return false;
    }
    if (need > split->params_size) {
        char *grown = lane_memory_take(
            &lane->memory, lane_memory_owner(&lane->node->engines, need), need,
            &size);
        if (grown == NULL) {
            return false;
        }
        if (split->params != NULL) {
            memcpy(grown, split->params, split->params_len);
            give_params(x);
        }
        split->params = grown;
        split->params_size = size;
    }
    memcpy(split->params + split->params_len, bytes.ptr, bytes.len);
    split->params_len += bytes.len;
    return true;
}

static bool ON_LANE
give(struct exchange *x, struct slice bytes)
{
    usage_watch_give(&x->split->watch, bytes);
    return x->split->room_len != 0 || bytes.len == 0 || keep(x, bytes);
}

/* What the other half is to get stays in split.params. False: nothing. */
static bool ON_LANE
find_params(struct exchange *x)
{
    struct edge_split *split = x->split;
    struct slice member;

    if (split->room_len != 0) {
        return true;
    }
    if (split->params == NULL ||
        !split_params((struct slice){split->params, split->params_len},
                      &member)) {
        prefill_forget(x);
        return false;
    }
    memmove(split->params, member.ptr, member.len);
    split->params[member.len] = ',';
    split->params_len = member.len + 1;
    return true;
}

static void ON_LANE
finish(struct upstream *up)
{
    struct exchange *x = up->exchange;
    bool usable = find_params(x);

    x->split->up = NULL;
    upstream_release(up);
    exchange_prefilled(x, usable);
}

/* Whether its head is good, and so is *bytes, what follows. False: more is to
 * come, or up is gone. */
static bool ON_LANE
take_head(struct upstream *up, const char **bytes, size_t *len)
{
    struct exchange *x = up->exchange;
    const struct http_head *head = &up->lane->head;
    struct dispatch_failure failure = {.fault = DISPATCH_STATUS};

    if (up->partial != NULL) {
        if (response_keep(up, *bytes, *len) < 0) {
            upstream_failed(up, DISPATCH_EXHAUSTED);
            return false;
        }
        *bytes = up->partial;
        *len = up->partial_len;
    }
    if (!response_find_head(up, bytes, len)) {
        return false;
    }
    if (head->status != 200) {
        failure.status = head->status;
        upstream_read_retry(head, &failure);
        upstream_dropped(up, &failure);
        return false;
    }
    x->split->status = head->status;
    x->split->body_kind = head->body;
    x->split->body_left =
        head->body == HTTP_BODY_LENGTH ? head->content_length : 0;
    x->split->chunk = (struct http_chunk){.state = 0};
    up->reusable = head->keep_alive && head->body != HTTP_BODY_CLOSE &&
                   (up->sock.wanted & SOCK_WRITE) == 0;
    sock_want(&up->sock, SOCK_READ);
    return true;
}

enum {
    BODY_MORE,
    BODY_END,
    BODY_BAD,
};

static int ON_LANE
take_chunks(struct exchange *x, struct slice *in)
{
    struct slice data;
    int outcome;

    while ((outcome = http_chunk_next(&x->split->chunk, in, &data)) ==
           HTTP_CHUNK_E_DATA) {
        if (!give(x, data)) {
            return BODY_BAD;
        }
    }
    return outcome == 0                   ? BODY_END
           : outcome == HTTP_CHUNK_E_MORE ? BODY_MORE
                                          : BODY_BAD;
}

/* Whether the body ends in these bytes; *in is what is left of them then. */
static int ON_LANE
take_body(struct exchange *x, struct slice *in)
{
    struct edge_split *split = x->split;
    size_t taken = in->len;

    if (split->body_kind == HTTP_BODY_CHUNKED) {
        return take_chunks(x, in);
    }
    if (split->body_kind != HTTP_BODY_CLOSE) {
        taken = taken < split->body_left ? taken : (size_t)split->body_left;
        split->body_left -= taken;
    }
    if (!give(x, (struct slice){in->ptr, taken})) {
        return BODY_BAD;
    }
    slice_skip(in, taken);
    return split->body_kind != HTTP_BODY_CLOSE && split->body_left == 0
               ? BODY_END
               : BODY_MORE;
}

void
prefill_bytes(struct upstream *up, const char *bytes, size_t len)
{
    struct exchange *x = up->exchange;

    if (x->split->status == 0 && !take_head(up, &bytes, &len)) {
        return;
    }
    struct slice in = {bytes, len};
    switch (take_body(x, &in)) {
    case BODY_END:
        up->reusable = up->reusable && in.len == 0;
        finish(up);
        return;
    case BODY_BAD:
        upstream_failed(up, DISPATCH_BAD);
        return;
    default:
        lane_time(up->lane, &up->deadline, LANE_TIMEOUT_STREAM_IDLE);
        return;
    }
}

void
prefill_end(struct upstream *up, int error)
{
    struct exchange *x = up->exchange;

    if (x->split->status != 0 && x->split->body_kind == HTTP_BODY_CLOSE &&
        error == 0) {
        finish(up);
    } else {
        upstream_failed(up, DISPATCH_CLOSED);
    }
}
