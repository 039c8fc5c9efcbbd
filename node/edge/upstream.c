/*
 * Connections to workers: kept ones first, most recently used first, fresh
 * ones when there are none.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "node/base/log.h"
#include "node/edge/answer_internal.h"

static struct upstream *
upstream_of(struct sock *sock)
{
    return (struct upstream *)(void *)sock; /* its first member */
}

/* Pools */

static void
unlink_idle(struct upstream *up)
{
    struct upstream_pool *pool = up->pool;

    CHECK(up->state == UPSTREAM_IDLE && pool->idle_count != 0);
    if (up->prev != NULL) {
        up->prev->next = up->next;
    } else {
        pool->idle = up->next;
    }
    if (up->next != NULL) {
        up->next->prev = up->prev;
    }
    up->next = NULL;
    up->prev = NULL;
    pool->idle_count--;
}

static void
link_idle(struct upstream *up)
{
    struct upstream_pool *pool = up->pool;

    up->prev = NULL;
    up->next = pool->idle;
    if (pool->idle != NULL) {
        pool->idle->prev = up;
    }
    pool->idle = up;
    pool->idle_count++;
}

void
upstream_pool_put(struct lane *lane, struct upstream_pool *pool)
{
    CHECK(pool->refs != 0);
    pool->refs--;
    if (pool->refs == 0 && !pool->current) {
        CHECK(lane->pools[pool->slot] != pool);
        sock_tls_kept_drop(&pool->kept);
        free(pool);
    }
}

/* Another worker has the slot now: closes idle connections; busy ones end. */
static void ON_LANE
retire_pool(struct lane *lane, struct upstream_pool *pool)
{
    pool->refs++; /* closing the last connection must not free it under us */
    pool->current = false;
    lane->pools[pool->slot] = NULL;
    while (pool->idle != NULL) {
        upstream_close(pool->idle);
    }
    upstream_pool_put(lane, pool);
}

static struct upstream_pool *
new_pool(struct lane *lane, uint32_t slot, uint32_t generation)
{
    struct upstream_pool *pool = calloc(1, sizeof(*pool));

    if (pool != NULL) {
        pool->slot = slot;
        pool->generation = generation;
        pool->current = true;
        lane->pools[slot] = pool;
    }
    return pool;
}

static void
note_lines(struct upstream_pool *pool)
{
    const struct fleet_worker *worker = &pool->worker;
    bool key = worker->api_key[0] != '\0';
    int len = snprintf(pool->lines, sizeof(pool->lines), "Host: %s\r\n%s%s%s",
                       worker->host_header, key ? "Authorization: Bearer " : "",
                       key ? worker->api_key : "", key ? "\r\n" : "");

    CHECK(len > 0 && (size_t)len < sizeof(pool->lines));
    pool->lines_len = (size_t)len;
}

struct upstream_pool *
upstream_pool_get(struct lane *lane, const struct fleet_view *view,
                  uint32_t slot)
{
    const struct fleet_worker *worker = view->worker[slot];
    struct upstream_pool *pool = lane->pools[slot];

    CHECK(worker != NULL);
    if (pool != NULL && pool->generation != worker->generation) {
        retire_pool(lane, pool);
        pool = NULL;
    }
    if (pool == NULL) {
        pool = new_pool(lane, slot, worker->generation);
        if (pool == NULL) {
            return NULL;
        }
    }
    if (pool->view_version != view->version) {
        pool->view_version = view->version;
        pool->worker = *worker;
        note_lines(pool);
    }
    pool->refs++;
    return pool;
}

void
upstream_drop_idle(struct lane *lane)
{
    for (uint32_t slot = 0; slot < WORKERS_MAX; slot++) {
        struct upstream_pool *pool = lane->pools[slot];
        while (pool != NULL && pool->idle != NULL) {
            upstream_close(pool->idle);
        }
    }
}

/* The end of a connection */

static void
give_unused(struct upstream *up)
{
    up->next = up->lane->free_upstreams;
    up->lane->free_upstreams = up;
}

static void
on_closed(struct sock *sock)
{
    give_unused(upstream_of(sock));
}

void
upstream_close(struct upstream *up)
{
    CHECK(up->state != UPSTREAM_CLOSED && up->exchange == NULL);
    if (up->state == UPSTREAM_IDLE) {
        unlink_idle(up);
    }
    up->state = UPSTREAM_CLOSED;
    deadline_clear(&up->deadline);
    response_drop_partial(up);
    upstream_pool_put(up->lane, up->pool);
    up->pool = NULL;
    sock_close(&up->sock, false, on_closed);
}

void
upstream_detach(struct upstream *up)
{
    struct exchange *x = up->exchange;

    CHECK(up == (up->prefills ? x->split->up : x->upstream));
    *(up->prefills ? &x->split->up : &x->upstream) = NULL;
    up->exchange = NULL;
}

void
upstream_dropped(struct upstream *up, const struct dispatch_failure *failure)
{
    struct exchange *x = up->exchange;
    bool prefills = up->prefills;

    upstream_detach(up);
    upstream_close(up);
    if (prefills) {
        exchange_prefill_failed(x, failure);
    } else {
        exchange_failed(x, failure);
    }
}

void
upstream_failed(struct upstream *up, enum dispatch_fault fault)
{
    struct dispatch_failure failure = {
        .fault = fault,
        .kept = up->reused && !up->answered,
    };

    failure.unread = failure.kept && !sock_got_past(&up->sock, up->sent_before);

    upstream_dropped(up, &failure);
}

void
upstream_unask(struct upstream *up)
{
    struct exchange *x = up->exchange;

    upstream_detach(up);
    upstream_close(up);
    exchange_unask(x);
}

void
upstream_translate(struct upstream *up)
{
    struct exchange *x = up->exchange;

    upstream_detach(up);
    upstream_close(up);
    exchange_translate(x);
}

void
upstream_unsplit(struct upstream *up)
{
    struct exchange *x = up->exchange;

    upstream_detach(up);
    upstream_close(up);
    exchange_unsplit(x);
}

/* Seconds; a date counts as a minute. */
static uint32_t
retry_after_s(struct slice value)
{
    uint32_t seconds = 0;

    for (size_t i = 0; i < value.len; i++) {
        if (value.ptr[i] < '0' || value.ptr[i] > '9' || value.len > 8) {
            return 60;
        }
        seconds = seconds * 10 + (uint32_t)(value.ptr[i] - '0');
    }
    return seconds;
}

void
upstream_read_retry(const struct http_head *head,
                    struct dispatch_failure *failure)
{
    for (size_t i = 0; i < head->headers_count; i++) {
        const struct http_header *h = &head->headers[i];
        if (slice_equal_nocase(h->name, SLICE("retry-after"))) {
            failure->has_retry_after = true;
            failure->retry_after_s = retry_after_s(h->value);
        }
    }
}

void
upstream_expired(struct upstream *up)
{
    struct exchange *x = up->exchange;

    if (x != NULL && up->prefills) {
        upstream_failed(up, up->state == UPSTREAM_CONNECTING
                                ? DISPATCH_CONNECT_TIMEOUT
                                : DISPATCH_FIRST_BYTE_TIMEOUT);
        return;
    }

    if (x != NULL && up->held && !up->thinks &&
        x->dispatch.state == DISPATCH_WAITING) {
        response_bytes(up, "", 0);
        return;
    }
    if (x != NULL) {
        upstream_detach(up);
    }
    upstream_close(up);
    if (x != NULL) {
        exchange_late(x);
    }
}

void
upstream_release(struct upstream *up)
{
    struct lane *lane = up->lane;

    up->exchange = NULL;
    response_drop_partial(up);
    if (!up->reusable || !up->pool->current || lane->draining ||
        up->pool->idle_count >= lane->limits.upstream_idle_max) {
        upstream_close(up);
        return;
    }
    up->state = UPSTREAM_IDLE;
    up->reused = true;
    link_idle(up);
    sock_want(&up->sock, SOCK_READ);
    lane_time(lane, &up->deadline, LANE_TIMEOUT_UPSTREAM_IDLE);
}

/* While the client cannot take more. A stream that waits for its own client
 * is not idle: the client's write timeout is what counts then. */
void
upstream_pause(struct upstream *up)
{
    deadline_clear(&up->deadline);
    sock_want(&up->sock, 0);
}

void
upstream_resume(struct upstream *up)
{
    sock_want(&up->sock, SOCK_READ);
    lane_time(up->lane, &up->deadline, LANE_TIMEOUT_STREAM_IDLE);
}

/* Sending the request */

#define PARTS (9U + 2U * EDGE_EDITS_MAX)

_Static_assert(PARTS <= SOCK_PARTS_MAX, "all may be there at one time");

/* Fields, and a body that differs from the client's. Where the list ends. */
static struct slice *
list_edited(const struct exchange *x, const struct edge_edits *edits,
            struct slice *parts)
{
    struct slice body = x->dialect.on ? x->dialect.chat : x->body;
    size_t from = 0;

    *parts++ =
        (struct slice){x->head.ptr + x->line_end, x->length_at - x->line_end};
    *parts++ = (struct slice){edits->length, edits->length_len};
    for (uint32_t i = 0; i < edits->count; i++) {
        const struct body_edit *edit = &edits->edit[i];
        *parts++ = (struct slice){body.ptr + from, edit->at - from};
        *parts++ = edit->text;
        from = (size_t)edit->at + edit->cut;
    }
    *parts++ = (struct slice){body.ptr + from, body.len - from};
    return parts;
}

/* What differs from worker to worker. */
struct fitting {
    struct edge_edits own; /* unless it prefills */
    const struct edge_edits *edits;
    struct slice hints;
    char lines[EDGE_HINTS_MAX];
};

static void
fit(const struct upstream *up, struct fitting *f)
{
    const struct exchange *x = up->exchange;

    if (up->prefills) {
        f->edits = &x->split->edits;
        f->hints = (struct slice){x->split->hints, x->split->hints_len};
        return;
    }
    exchange_list_edits(x, &f->own);
    f->edits = &f->own;
    f->hints =
        (struct slice){f->lines, exchange_hints(&x->dispatch.choice, f->lines)};
}

/* A request as this worker gets it; how many parts. */
static unsigned
list_parts(const struct upstream *up, const struct fitting *f,
           struct slice parts[PARTS])
{
    const struct exchange *x = up->exchange;
    const struct upstream_pool *pool = up->pool;
    const char *head = x->head.ptr;
    size_t key_bytes =
        pool->worker.api_key[0] == '\0' ? x->head.len - x->fields_end : 0;

    parts[0] = (struct slice){head, x->method_end};
    parts[1] = slice_of(pool->worker.base_path);
    parts[2] =
        (struct slice){head + x->method_end, x->line_end - x->method_end};
    if (x->dialect.on) {
        parts[2] = slice_of(x->dialect.line);
    }
    parts[3] = (struct slice){pool->lines, pool->lines_len};
    parts[4] = (struct slice){head + x->fields_end, key_bytes};
    parts[5] = f->hints;
    if (f->edits->length_len != 0) {
        return (unsigned)(list_edited(x, f->edits, parts + 6) - parts);
    }
    parts[6] = (struct slice){head + x->line_end, x->fields_end - x->line_end};
    parts[7] = x->body;
    return 8;
}

/* What is left of the request, as far as it is here; *size: how large that is
 * with what was sent and is held yet, *sent: how much of that was. */
static unsigned
gather(const struct upstream *up, const struct fitting *f, size_t *sent,
       struct iovec left[PARTS], size_t *size)
{
    struct slice parts[PARTS];
    unsigned count = 0;
    size_t dropped = up->exchange->client->framing.dropped;
    size_t skip = up->sent - dropped;
    unsigned listed = list_parts(up, f, parts);

    CHECK(dropped <= up->sent && listed <= PARTS);
    *sent = skip;
    *size = 0;
    for (unsigned i = 0; i < listed; i++) {
        size_t done = skip < parts[i].len ? skip : parts[i].len;
        skip -= done;
        *size += parts[i].len;
        if (done < parts[i].len) {
            left[count++] = (struct iovec){
                .iov_base = (void *)(uintptr_t)(parts[i].ptr + done),
                .iov_len = parts[i].len - done,
            };
        }
    }
    return count;
}

/* Its worker has as long as timeouts say, or those for other islands. */
static void ON_LANE
time_worker(struct upstream *up, enum lane_timeout kind)
{
    const struct fleet_board *board = up->lane->node->board;
    bool away = gauge_read(&board->crosses[up->pool->slot]) != 0;

    CHECK(kind == LANE_TIMEOUT_CONNECT || kind == LANE_TIMEOUT_FIRST_BYTE);
    lane_time(up->lane, &up->deadline,
              !away                          ? kind
              : kind == LANE_TIMEOUT_CONNECT ? LANE_TIMEOUT_AWAY_CONNECT
                                             : LANE_TIMEOUT_AWAY_FIRST_BYTE);
}

/* 0, or -errno: the connection is dead. */
static int ON_LANE
send_request(struct upstream *up)
{
    struct exchange *x = up->exchange;
    bool comes = x->client->framing.missing != 0;
    struct iovec parts[PARTS];
    struct fitting f;
    size_t sent;
    size_t size;
    if (up->picked) { /* its gateway sends it */
        dispatch_sent(&x->dispatch);
        sock_want(&up->sock, SOCK_READ);
        time_worker(up, LANE_TIMEOUT_FIRST_BYTE);
        return 0;
    }
    fit(up, &f);
    unsigned count = gather(up, &f, &sent, parts, &size);

    if (count != 0) {
        ssize_t n = sock_send(&up->sock, parts, count);
        if (n < 0) {
            return (int)n;
        }
        up->sent += (size_t)n;
        sent += (size_t)n;
    }
    if (sent == size && !comes && up->prefills) {
        dispatch_prefill_sent(&x->dispatch);
    } else if (sent == size && !comes) {
        dispatch_sent(&x->dispatch);
    }
    sock_want(&up->sock, sent < size ? SOCK_READ | SOCK_WRITE : SOCK_READ);
    if (sent == size && comes) {
        deadline_clear(&up->deadline); /* it waits for the client */
    } else {
        time_worker(up, LANE_TIMEOUT_FIRST_BYTE);
    }
    if (comes) {
        size_t rest = size - sent;
        form_taken(x, rest < x->body.len ? x->body.len - rest : 0);
    }
    return 0;
}

static void
attach(struct upstream *up, struct exchange *x, bool prefills)
{
    struct upstream **place = prefills ? &x->split->up : &x->upstream;

    CHECK(up->exchange == NULL && *place == NULL);
    up->exchange = x;
    up->prefills = prefills;
    *place = up;
    up->sent_before = up->sock.tls != NULL ? sock_tls_written(up->sock.tls)
                                           : up->sent_before + up->sent;
    up->sent = 0;
    up->answered = false;
    up->held = false;
    up->thinks = false;
    up->reusable = false;
}

/* Reading the answer */

static void ON_LANE
read_answer(struct upstream *up)
{
    struct lane *lane = up->lane;
    ssize_t n = sock_recv(&up->sock, lane->scratch, sizeof(lane->scratch));

    if (n == -EAGAIN) {
        return;
    }
    if (up->state == UPSTREAM_IDLE) {
        upstream_close(up); /* its end, or bytes that no request asked for */
    } else if (n > 0 && up->prefills) {
        up->answered = true;
        prefill_bytes(up, lane->scratch, (size_t)n);
    } else if (n > 0) {
        up->answered = true;
        response_bytes(up, lane->scratch, (size_t)n);
    } else if (up->prefills) {
        prefill_end(up, (int)n);
    } else {
        response_end(up, (int)n);
    }
}

/* Goes on with a connection that is not made yet. 0: it is; or as
 * sock_shake(). */
static int ON_LANE
go_on(struct upstream *up)
{
    const struct fleet_worker *worker = &up->pool->worker;

    if (up->picked) {
        return 0;
    }
    if (up->sock.tls != NULL) {
        return sock_shake(&up->sock);
    }
    int error = sock_connect_result(&up->sock);
    if (error == 0 && worker->tls && up->lane->workers_tls == NULL) {
        return -ENOMEM;
    }
    if (error == 0 && worker->tls) {
        error = sock_secure_to(&up->sock, up->lane->workers_tls, worker->host,
                               &up->pool->kept);
        error = error == 0 ? sock_shake(&up->sock) : error;
    }
    return error;
}

static void ON_LANE
tell_connected(struct upstream *up)
{
    struct dispatch *d = &up->exchange->dispatch;

    if (up->prefills) {
        dispatch_prefill_connected(d);
    } else {
        dispatch_connected(d);
    }
}

static void ON_LANE
on_connected(struct upstream *up)
{
    int error = go_on(up);

    if (error == -EAGAIN) {
        return;
    }
    if (error == 0) {
        up->state = UPSTREAM_BUSY;
        counter_bump(&up->lane->shared->metrics.upstream_resumed,
                     up->sock.tls != NULL && sock_tls_is_resumed(up->sock.tls));
        tell_connected(up);
        error = send_request(up);
    }
    if (error < 0) {
        LOG_DEBUG("connect_failed", KV("worker", up->pool->worker.id),
                  KV_FAULT("error", error), KV("why", sock_why(&up->sock)));
        upstream_failed(up, DISPATCH_UNREACHABLE);
    }
}

static bool
waits_for_answer(const struct upstream *up)
{
    const struct exchange *x = up->exchange;

    return up->prefills ? x->split->status == 0
                        : x->dispatch.state == DISPATCH_WAITING;
}

static void
on_ready(struct sock *sock, int events)
{
    role_is_lane();
    struct upstream *up = upstream_of(sock);

    if (up->state == UPSTREAM_CONNECTING) {
        on_connected(up);
        return;
    }
    if ((events & SOCK_WRITE) != 0 && up->state == UPSTREAM_BUSY &&
        waits_for_answer(up) && send_request(up) < 0) {
        /* It may have refused us before reading everything: look first. */
        events |= SOCK_READ;
        sock_want(&up->sock, SOCK_READ);
    }
    if ((events & SOCK_READ) != 0 && up->state != UPSTREAM_CLOSED) {
        read_answer(up);
    }
}

void
upstream_more(struct exchange *x)
{
    struct upstream *up = x->upstream;

    if (up == NULL || up->state != UPSTREAM_BUSY || !waits_for_answer(up)) {
        form_taken(x, 0);
    } else if (send_request(up) < 0) {
        sock_want(&up->sock, SOCK_READ); /* as above */
        form_taken(x, 0);
    }
}

/* The beginning of a connection */

static struct upstream *
allocate(struct lane *lane)
{
    struct upstream *up = lane->free_upstreams;

    if (up != NULL) {
        lane->free_upstreams = up->next;
    } else {
        up = malloc(sizeof(*up));
    }
    if (up != NULL) {
        *up = (struct upstream){.lane = lane};
    }
    return up;
}

/* A shortage on this node says nothing about the worker. */
static int
judge_connect(const struct fleet_worker *worker, int error)
{
    LOG_DEBUG("connect_failed", KV("worker", worker->id),
              KV_FAULT("error", error));
    switch (-error) {
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
    case EADDRNOTAVAIL:
        return UPSTREAM_E_EXHAUSTED;
    default:
        return UPSTREAM_E_CONNECT;
    }
}

static int ON_LANE
connect_fresh(struct exchange *x, bool prefills)
{
    struct lane *lane = x->client->lane;
    struct upstream_pool *pool = prefills ? x->split->pool : x->pool;
    const struct fleet_worker *worker = &pool->worker;
    struct upstream *up = allocate(lane);
    if (up == NULL) {
        return UPSTREAM_E_EXHAUSTED;
    }
    bool picked = x->client->picked;
    int fd = picked
                 ? pick_connect(x)
                 : sock_connect_begin((const struct sockaddr *)&worker->address,
                                      worker->address_len);
    if (fd >= lane->node->fd_max) { /* the rest is for probes and admin */
        (void)close(fd);
        fd = -EMFILE;
    }
    int error = fd < 0 ? fd : sock_open(&up->sock, &lane->loop, fd, on_ready);
    if (error < 0) {
        give_unused(up);
        return judge_connect(worker, error);
    }
    counter_bump(&lane->shared->metrics.upstream_opened, !picked);
    up->picked = picked;
    up->state = UPSTREAM_CONNECTING;
    up->pool = pool;
    up->pool->refs++;
    attach(up, x, prefills);
    sock_want(&up->sock, SOCK_WRITE);
    time_worker(up, LANE_TIMEOUT_CONNECT);
    return 0;
}

int
upstream_begin(struct exchange *x, bool prefills)
{
    struct lane *lane = x->client->lane;
    struct upstream_pool *pool = prefills ? x->split->pool : x->pool;
    bool fresh = prefills ? x->dispatch.split.fresh : x->dispatch.fresh;

    while (pool->idle != NULL && !fresh && !x->client->picked) {
        struct upstream *up = pool->idle;
        /* Its end, or bytes that nobody asked for, may not have been heard of
         * yet: a request must not go there. */
        if (!sock_is_quiet(&up->sock)) {
            upstream_close(up);
            continue;
        }
        unlink_idle(up);
        up->state = UPSTREAM_BUSY;
        attach(up, x, prefills);
        if (send_request(up) == 0) {
            counter_bump(&lane->shared->metrics.upstream_reused, 1);
            tell_connected(up);
            return 0;
        }
        upstream_detach(up);
        upstream_close(up);
    }
    return connect_fresh(x, prefills);
}
