/* A lane's loop: accepting connections, timeouts, draining, its beginning and
 * end. */
#include "node/edge/lane.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/role.h"
#include "node/base/list.h"
#include "node/base/log.h"
#include "node/edge/answer_internal.h"
#include "node/edge/edge_internal.h"
#include "node/edge/picking_internal.h"

#define TICK_MS         50U
#define STILL_US        UINT64_C(100000) /* a loop so long in one turn stood still */
#define TICK_REST_MS    250U /* without clients: only idle upstreams end */
#define ACCEPT_AGAIN_MS 100U
#define ACCEPTS_MAX     64 /* at one go, so that open connections get a turn */
#define LISTEN_BACKLOG  4096
#define LINGER_MS       2000U
#define LOCAL_MS        250U /* for tokens that a thread makes */
#define RESERVED_MS     2000U
#define QUEUE_MORE_MS   1000U /* after which control should have spoken */
#define TEXT_KEPT_BYTES ((size_t)256 << 10) /* of the lane's text */
#define HOLD_MS         20U                 /* and up to TICK_MS more */
#define YIELD_MS        250U                /* should its own timer not come */

uint64_t
lane_now_us(struct lane *lane)
{
    return uv_now(&lane->loop) * 1000;
}

uint64_t
lane_clock_us(void)
{
    return uv_hrtime() / 1000;
}

void
lane_time(struct lane *lane, struct deadline *deadline, enum lane_timeout kind)
{
    deadline_set(deadline, &lane->expiries[kind], lane_now_us(lane));
}

static void on_tick(uv_timer_t *timer);

void
lane_set_tick(struct lane *lane)
{
    uint64_t ms = lane->clients_count != 0 ? TICK_MS : TICK_REST_MS;

    if (uv_timer_get_repeat(&lane->tick) != ms) {
        (void)uv_timer_start(&lane->tick, on_tick, ms, ms); /* cannot fail */
    }
}

/* Accepting */

static void
on_accept_again(uv_timer_t *timer)
{
    struct lane *lane = timer->loop->data;

    if (lane->listening) {
        sock_want(&lane->listener, SOCK_READ);
    }
    if (lane->picker_listening) {
        sock_want(&lane->picker_listener, SOCK_READ);
    }
}

static void
accept_later(struct lane *lane, struct sock *listener, int error)
{
    counter_bump(&lane->shared->metrics.accept_failures, 1);
    LOG_WARNING("accept_failed", KV("lane", lane->number),
                KV_FAULT("error", error),
                KV("hint", "clients wait: raise the limit of open files, or "
                           "lower limits.connections_max"));
    /* Waiting on a full table would spin: look again when some are closed. */
    sock_want(listener, 0);
    (void)uv_timer_start(&lane->accept_again, on_accept_again, ACCEPT_AGAIN_MS,
                         0);
}

static void
on_listener_ready(struct sock *listener, int events)
{
    role_is_lane();
    struct lane *lane = listener->poll.loop->data;

    (void)events;
    for (int i = 0; i < ACCEPTS_MAX; i++) {
        struct sockaddr_storage peer;
        int fd = sock_accept(listener, &peer);
        if (fd == -EAGAIN) {
            return;
        }
        if (fd < 0) {
            accept_later(lane, listener, fd);
            return;
        }
        if (listener == &lane->picker_listener) {
            picker_new(lane, fd, &peer);
        } else {
            (void)client_new(lane, fd, (const struct sockaddr *)&peer, NULL);
        }
    }
}

/* Timeouts */

static void ON_LANE
expire(unsigned kind, struct deadline *due)
{
    if (kind < LANE_TIMEOUT_CLIENTS) {
        client_expired(LIST_OWNER(due, struct client, deadline));
    } else if (kind < LANE_TIMEOUT_TOKENS) {
        upstream_expired(LIST_OWNER(due, struct upstream, deadline));
    } else if (kind == LANE_TIMEOUT_ALIVE) {
        alive_expired(LIST_OWNER(due, struct exchange, alive.deadline));
    } else if (kind == LANE_TIMEOUT_PICKER) {
        picker_expired(LIST_OWNER(due, struct picker, deadline));
    } else if (kind == LANE_TIMEOUT_CACHE) {
        caching_expired(LIST_OWNER(due, struct exchange, deadline));
    } else {
        exchange_expired(LIST_OWNER(due, struct exchange, deadline));
    }
}

/* Until when time has passed for what is waited for. After the process stood
 * still, or one turn took long, what came meanwhile has not been read yet, and
 * is not late: only what was due before the sockets were looked at is. */
static uint64_t ON_LANE
waited_until_us(struct lane *lane)
{
    uint64_t now_us = lane_now_us(lane);

    CHECK(lane->looked_us <= now_us);
    return now_us - lane->looked_us > STILL_US ? lane->looked_us : now_us;
}

static void ON_LANE
expire_all(struct lane *lane, uint64_t now_us)
{
    for (unsigned kind = 0; kind < LANE_TIMEOUTS; kind++) {
        struct deadline *d;
        while ((d = deadline_next_due(&lane->expiries[kind], now_us)) != NULL) {
            expire(kind, d);
        }
    }
}

/* The tick is too coarse for requests that wait for their tokens. Their time is
 * over once the sockets were looked at after it: what came by then, in a
 * standstill too, is not late. */
static void
on_tokens_due(uv_timer_t *timer)
{
    role_is_lane();
    struct lane *lane = timer->loop->data;
    struct deadline_list *list = &lane->expiries[LANE_TIMEOUT_TOKENS];
    uint64_t now_us = lane_now_us(lane);
    struct deadline *due;

    while ((due = deadline_next_due(list, lane->looked_us)) != NULL) {
        expire(LANE_TIMEOUT_TOKENS, due);
    }
    uint64_t next_us = deadline_list_next_us(list);
    if (next_us != UINT64_MAX) {
        uint64_t rest_us = next_us > now_us ? next_us - now_us : 0;
        (void)uv_timer_start(timer, on_tokens_due,
                             rest_us > 1000 ? (rest_us + 999) / 1000 : 1, 0);
    }
}

void
lane_time_tokens(struct lane *lane, struct deadline *deadline, bool local)
{
    if (local) {
        lane_time(lane, deadline, LANE_TIMEOUT_LOCAL);
        return;
    }
    uv_update_time(&lane->loop); /* the wait counts from now */
    lane_time(lane, deadline, LANE_TIMEOUT_TOKENS);
    if (!uv_is_active((uv_handle_t *)&lane->tokens_due)) {
        (void)uv_timer_start(&lane->tokens_due, on_tokens_due,
                             lane->node->config->tokens.wait_ms, 0);
    }
}

/* The lane's moment is one for all that wait for it, and nothing that they wait
 * for could still be in a socket. */
static void
on_yield_due(uv_timer_t *timer)
{
    role_is_lane();
    struct lane *lane = timer->loop->data;
    struct deadline *due;

    while ((due = deadline_next_due(&lane->expiries[LANE_TIMEOUT_YIELD],
                                    UINT64_MAX)) != NULL) {
        expire(LANE_TIMEOUT_YIELD, due);
    }
}

void
lane_time_yield(struct lane *lane, struct deadline *deadline, uint32_t us)
{
    uv_update_time(&lane->loop); /* the wait counts from now */
    lane_time(lane, deadline, LANE_TIMEOUT_YIELD);
    if (!uv_is_active((uv_handle_t *)&lane->yield_due)) {
        (void)uv_timer_start(&lane->yield_due, on_yield_due, (us + 999) / 1000,
                             0);
    }
}

static void ON_LANE
sever_what_runs(struct lane *lane)
{
    struct client *client = lane->clients;

    while (client != NULL) {
        struct client *next = client->next;
        if (client->state != CLIENT_CLOSED) {
            if (client->state == CLIENT_BUSY || client->in_len != 0) {
                counter_bump(&lane->shared->metrics.cut_off, 1);
            }
            client_close(client, true);
        }
        client = next;
    }
    picker_sever_all(lane);
}

static void
on_turn(uv_prepare_t *turn)
{
    struct lane *lane = turn->loop->data;

    role_is_lane();
    lane->looked_us = lane_now_us(lane);
    counter_bump(&lane->shared->metrics.loop_turns, 1);
}

static void
on_tick(uv_timer_t *timer)
{
    role_is_lane();
    struct lane *lane = timer->loop->data;
    uint64_t now_us = waited_until_us(lane);

    counter_bump(&lane->shared->metrics.loop_ticks, 1);
    if (lane->text.size > TEXT_KEPT_BYTES) {
        size_t max_bytes = lane->text.max_bytes;
        buf_fini(&lane->text);
        buf_init(&lane->text, max_bytes);
    }
    expire_all(lane, now_us);
    limit_look(lane, now_us);
    caching_look(lane);
    if (lane->draining && now_us >= lane->drain_due_us) {
        sever_what_runs(lane);
    }
    lane_set_tick(lane);
    lane_check_drained(lane);
}

/* The end */

static void
on_listener_closed(struct sock *sock)
{
    (void)sock;
}

void
lane_check_drained(struct lane *lane)
{
    if (!lane->draining || lane->clients_count != 0 ||
        lane->pickers_count != 0 || lane->picks_count != 0) {
        return;
    }
    upstream_drop_idle(lane);
    if (!uv_is_closing((uv_handle_t *)&lane->tick)) {
        uv_close((uv_handle_t *)&lane->tick, NULL);
        uv_close((uv_handle_t *)&lane->turn, NULL);
        reading_lane_close(lane);
        uv_close((uv_handle_t *)&lane->accept_again, NULL);
        uv_close((uv_handle_t *)&lane->tokens_due, NULL);
        uv_close((uv_handle_t *)&lane->yield_due, NULL);
        inquiry_lane_close(lane);
        vectors_lane_close(lane);
        redis_free(lane->redis);
        lane->redis = NULL;
        uv_close((uv_handle_t *)&lane->wake, NULL);
    }
}

/* Clients that have connected already are answered, and told that the
 * connection closes. */
static void ON_LANE
stop_listening(struct lane *lane)
{
    for (int i = 0; i < LISTEN_BACKLOG; i++) {
        struct sockaddr_storage peer;
        int fd = sock_accept(&lane->listener, &peer);
        if (fd < 0) {
            break;
        }
        (void)client_new(lane, fd, (const struct sockaddr *)&peer, NULL);
    }
    lane->listening = false;
    sock_close(&lane->listener, false, on_listener_closed);
    if (lane->picker_listening) {
        lane->picker_listening = false;
        sock_close(&lane->picker_listener, false, on_listener_closed);
    }
}

/* What it takes over while it runs */

static uint32_t
or_else(uint32_t ms, uint32_t other_ms)
{
    return ms != 0 ? ms : other_ms;
}

/* How long each kind may take, by what the lane took over. */
static void
list_timeouts(const struct lane *lane, uint32_t into[LANE_TIMEOUTS])
{
    const struct config_timeouts *t = &lane->timeouts;
    uint32_t tokens_ms = lane->node->config->tokens.wait_ms;
    const uint32_t ms[LANE_TIMEOUTS] = {
        [LANE_TIMEOUT_HEAD] = t->head_ms,
        [LANE_TIMEOUT_BODY] = t->body_ms,
        [LANE_TIMEOUT_IDLE] = t->idle_ms,
        [LANE_TIMEOUT_WRITE] = t->write_ms,
        [LANE_TIMEOUT_PICKER] = t->write_ms,
        [LANE_TIMEOUT_LINGER] = LINGER_MS,
        [LANE_TIMEOUT_RESERVED] = RESERVED_MS,
        [LANE_TIMEOUT_CONNECT] = t->connect_ms,
        [LANE_TIMEOUT_FIRST_BYTE] = t->first_byte_ms,
        [LANE_TIMEOUT_AWAY_CONNECT] =
            or_else(t->away_connect_ms, t->connect_ms),
        [LANE_TIMEOUT_AWAY_FIRST_BYTE] =
            or_else(t->away_first_byte_ms, t->first_byte_ms),
        [LANE_TIMEOUT_HOLD] = HOLD_MS,
        [LANE_TIMEOUT_STREAM_IDLE] = t->stream_idle_ms,
        [LANE_TIMEOUT_UPSTREAM_IDLE] = t->upstream_idle_ms,
        [LANE_TIMEOUT_TOKENS] = tokens_ms,
        [LANE_TIMEOUT_YIELD] = YIELD_MS,
        [LANE_TIMEOUT_QUEUE] = t->queue_ms + QUEUE_MORE_MS,
        /* 0 is no bound for others; here those who wait already go on. */
        [LANE_TIMEOUT_CACHE] = or_else(lane->answer_cache.wait_ms, 1),
        [LANE_TIMEOUT_ALIVE] = t->keep_alive_ms,
        [LANE_TIMEOUT_LOCAL] = tokens_ms > LOCAL_MS ? tokens_ms : LOCAL_MS,
        [LANE_TIMEOUT_COUNT] = lane->node->config->tokens.timeout_ms,
    };

    memcpy(into, ms, sizeof(ms));
}

/* What the control thread published last. */
static void
take_live(struct lane *lane, const struct node_live *live)
{
    const struct config_limits *l = &live->limits;

    lane->live_version = live->version;
    lane->limits = live->limits;
    lane->timeouts = live->timeouts;
    lane->elect = shared_elect(&live->policy);
    lane->policies = live->policy.models;
    lane->dispatch.attempts_max = live->policy.attempts_max;
    lane->dispatch.retries = live->retries;
    lane->placement_headers = live->placement_headers;
    session_rule_init(&lane->session, &live->affinity);
    session_rule_scan(&lane->session, &lane->route.limits);
    lane->aliases = live->aliases;
    lane->cors = live->cors;
    lane->messages = live->messages;
    lane->answer_cache = live->answer_cache;
    lane->operators = live->operators;
    lane->usage_ask = live->usage_ask;
    lane->log_requests = live->log_requests;
    lane->body_pace = (struct pace){
        .start_us = live->timeouts.body_ms * UINT64_C(1000),
        .total_us = live->timeouts.body_total_ms * UINT64_C(1000),
        .bytes_per_s = l->body_rate_min,
    };
    lane->memory.held_max_bytes = l->buffered_bytes_max;
    lane->memory.owner_max_bytes = l->client_bytes_max;
    /* One whole request, however little is free. Growing, it is there twice. */
    lane->memory.owner_min_bytes = 3 * (l->head_bytes_max + l->body_bytes_max);
}

static void
set_timeouts(struct lane *lane)
{
    uint32_t ms[LANE_TIMEOUTS];

    list_timeouts(lane, ms);
    for (unsigned i = 0; i < LANE_TIMEOUTS; i++) {
        deadline_list_init(&lane->expiries[i], ms[i] * UINT64_C(1000));
    }
}

/* Without memory the lane goes on with what it has. */
static void
take_workers_tls(struct lane *lane)
{
    const struct node_tls *tls = publish_get(&lane->node->workers_tls);

    if (tls == NULL || tls->version == lane->workers_tls_version) {
        return;
    }
    struct sock_tls_context *share = sock_tls_context_share(tls->context);
    if (share == NULL) {
        return;
    }
    sock_tls_context_free(lane->workers_tls);
    lane->workers_tls = share;
    lane->workers_tls_version = tls->version;
    if (lane->redis != NULL) {
        redis_use_tls(lane->redis, share);
    }
    if (lane->token_ask != NULL) {
        token_ask_use_tls(lane->token_ask, share);
    }
}

/* Only here, on each wake-up and when the thread begins: a published object
 * stays until then. */
static void ON_LANE
look_at_live(struct lane *lane)
{
    struct node_shared *node = lane->node;
    uint32_t ms[LANE_TIMEOUTS];

    qsbr_online(&node->qsbr, lane->shared->reader);
    take_workers_tls(lane);
    const struct node_live *live = publish_get(&node->live);
    bool changed = live->version != lane->live_version;
    if (changed) {
        take_live(lane, live);
    }
    qsbr_offline(lane->shared->reader);
    if (!changed) {
        return;
    }
    list_timeouts(lane, ms);
    for (unsigned i = 0; i < LANE_TIMEOUTS; i++) {
        deadline_list_retime(&lane->expiries[i], ms[i] * UINT64_C(1000),
                             lane_now_us(lane));
    }
}

static void
on_wake(uv_async_t *wake)
{
    role_is_lane();
    struct lane *lane = wake->loop->data;

    if (gauge_read(&lane->node->sever) != 0) {
        sever_what_runs(lane);
    }
    look_at_live(lane);
    waiting_take(lane);
    caching_look(lane);
    lane->leaving = gauge_read(&lane->node->leaving) != 0;
    if (lane->leaving) {
        picker_leave_all(lane, gauge_read(&lane->node->draining) != 0);
    }
    if (lane->draining || gauge_read(&lane->node->draining) == 0) {
        return;
    }
    lane->draining = true;
    lane->drain_due_us =
        lane_now_us(lane) + lane->timeouts.drain_ms * UINT64_C(1000);
    stop_listening(lane);
    for (struct client *c = lane->clients, *next; c != NULL; c = next) {
        next = c->next;
        client_drain(c);
    }
    lane_check_drained(lane);
}

static void
run(void *argument)
{
    struct lane *lane = argument;

    char name[16];

    role_is_lane();
    (void)snprintf(name, sizeof(name), "lane-%u", lane->number);
    (void)pthread_setname_np(pthread_self(), name);
    look_at_live(lane); /* published since lane_new() */
    if (lane->redis != NULL) {
        redis_open(lane->redis);
    }
    (void)uv_run(&lane->loop, UV_RUN_DEFAULT);
    gauge_add(&lane->node->lanes_running, -1);
}

/* The beginning */

static void
set_limits(struct lane *lane)
{
    const struct config_limits *l = &lane->node->config->limits;

    lane->request_limits = (struct http_limits){
        .head_bytes_max = l->head_bytes_max,
        .target_bytes_max = l->target_bytes_max,
        .headers_max = l->headers_max,
    };
    lane->response_limits = lane->request_limits;
    lane_memory_init(&lane->memory, &lane->node->held_bytes,
                     l->buffered_bytes_max);
    /* A worker's head with our lines added, and what it came with: as it is, or
     * what it becomes in another API. */
    buf_init(&lane->text,
             l->head_bytes_max + DIALECT_SAID_MAX + EDGE_ADDED_BYTES);
}

static void
set_dispatch(struct lane *lane)
{
    struct node_shared *node = lane->node;

    lane->dispatch = (struct dispatch_lane){
        .board = node->board,
        .rank_inflight = node->rank_inflight,
        .scratch = &lane->route,
        .rng = &lane->rng,
        .metrics = &lane->shared->metrics,
        .facts = &lane->shared->facts,
        .attempts_max = node->config->policy.attempts_max,
        .retries = node->config->retries,
        .tickets = (uint64_t)lane->number << 48,
    };
}

static int
open_loop(struct lane *lane)
{
    int error = uv_loop_init(&lane->loop);

    if (error < 0) {
        return error;
    }
    lane->loop.data = lane;
    CHECK(uv_timer_init(&lane->loop, &lane->tick) == 0);
    CHECK(uv_timer_init(&lane->loop, &lane->accept_again) == 0);
    CHECK(uv_timer_init(&lane->loop, &lane->tokens_due) == 0);
    CHECK(uv_timer_init(&lane->loop, &lane->yield_due) == 0);
    CHECK(uv_prepare_init(&lane->loop, &lane->turn) == 0);
    CHECK(uv_prepare_start(&lane->turn, on_turn) == 0);
    error = uv_async_init(&lane->loop, &lane->wake, on_wake);
    CHECK(error == 0);
    CHECK(uv_timer_start(&lane->tick, on_tick, TICK_MS, TICK_MS) == 0);
    return 0;
}

static int
open_listener(struct lane *lane, const struct sockaddr *address, socklen_t len)
{
    int fd = sock_listen(address, len, LISTEN_BACKLOG, &lane->port);

    if (fd < 0) {
        return fd;
    }
    int error = sock_open(&lane->listener, &lane->loop, fd, on_listener_ready);
    if (error < 0) {
        return error;
    }
    sock_want(&lane->listener, SOCK_READ);
    lane->listening = true;
    return 0;
}

int
lane_new(struct lane **out, struct node_shared *node, unsigned number,
         const struct sockaddr *address, socklen_t address_len, uint64_t seed,
         uint16_t *port)
{
    struct lane *lane = calloc(1, sizeof(*lane));

    *out = NULL;
    if (lane == NULL) {
        return -ENOMEM;
    }
    lane->node = node;
    lane->number = number;
    lane->shared = &node->lanes[number];
    lane->listener.fd = -1;
    rng_init(&lane->rng, seed);
    set_limits(lane);
    int error = route_scratch_init(&lane->route, node->config);
    if (error < 0) {
        free(lane);
        return error;
    }
    take_live(lane, publish_get(&node->live)); /* this is its one writer */
    set_timeouts(lane);
    lane->route.elect.last = number; /* lanes do not start in step */
    set_dispatch(lane);
    error = open_loop(lane);
    if (error < 0) {
        route_scratch_fini(&lane->route);
        free(lane);
        return error;
    }
    lane->shared->wakes = &lane->wake;
    error = reading_lane_init(lane);
    if (error == 0) {
        error = inquiry_lane_init(lane);
    }
    if (error == 0) {
        error = waiting_lane_init(lane);
    }
    if (error == 0 && node->redis != NULL) {
        error = sharing_lane_init(lane);
    }
    if (error == 0 && node->config->keys.file[0] != '\0') {
        error = keys_checker_new(&lane->checker);
    }
    if (error == 0 && node->config->jwt.jwks[0] != '\0') {
        error = keys_token_reader_new(&lane->tokens);
    }
    if (error == 0 && node->config->content.file[0] != '\0') {
        lane->content = content_scratch_new();
        error = lane->content != NULL ? 0 : -ENOMEM;
    }
    if (error == 0) {
        error = open_listener(lane, address, address_len);
    }
    if (error < 0) {
        lane_free(lane);
        return error;
    }
    *port = lane->port;
    *out = lane;
    return 0;
}

int
lane_listen_to_gateways(struct lane *lane, const struct sockaddr *address,
                        socklen_t address_len, uint16_t *port)
{
    int fd = sock_listen(address, address_len, LISTEN_BACKLOG, port);

    if (fd < 0) {
        return fd;
    }
    int error =
        sock_open(&lane->picker_listener, &lane->loop, fd, on_listener_ready);
    if (error < 0) {
        return error;
    }
    sock_want(&lane->picker_listener, SOCK_READ);
    lane->picker_listening = true;
    return 0;
}

int
lane_start(struct lane *lane)
{
    return uv_thread_create(&lane->thread, run, lane);
}

void
lane_wake(struct lane *lane)
{
    (void)uv_async_send(&lane->wake);
}

static void
free_lists(struct lane *lane)
{
    while (lane->free_clients != NULL) {
        struct client *client = lane->free_clients;
        lane->free_clients = client->next;
        free(client);
    }
    while (lane->free_exchanges != NULL) {
        struct exchange *x = lane->free_exchanges;
        lane->free_exchanges = x->next_free;
        buf_fini(&x->head);
        free(x);
    }
    while (lane->free_upstreams != NULL) {
        struct upstream *up = lane->free_upstreams;
        lane->free_upstreams = up->next;
        free(up);
    }
    for (uint32_t slot = 0; slot < WORKERS_MAX; slot++) {
        if (lane->pools[slot] != NULL) {
            sock_tls_kept_drop(&lane->pools[slot]->kept);
            free(lane->pools[slot]);
        }
    }
}

static void
destroy(struct lane *lane)
{
    lane->shared->wakes = NULL; /* control's thread joined the lane's */
    CHECK(uv_loop_close(&lane->loop) == 0);
    free_lists(lane);
    reading_lane_fini(lane);
    inquiry_lane_fini(lane);
    waiting_lane_fini(lane);
    keys_checker_free(lane->checker);
    keys_token_reader_free(lane->tokens);
    content_scratch_free(lane->content);
    sock_tls_context_free(lane->workers_tls);
    lane_memory_fini(&lane->memory);
    route_scratch_fini(&lane->route);
    buf_fini(&lane->text);
    free(lane);
}

void
lane_join(struct lane *lane)
{
    CHECK(uv_thread_join(&lane->thread) == 0);
    destroy(lane);
}

void
lane_free(struct lane *lane)
{
    role_is_lane(); /* it never had a thread of its own */
    if (lane->listening) {
        lane->listening = false;
        sock_close(&lane->listener, false, on_listener_closed);
    }
    if (lane->picker_listening) {
        lane->picker_listening = false;
        sock_close(&lane->picker_listener, false, on_listener_closed);
    }
    lane->leaving = lane->draining = true;
    lane_check_drained(lane);
    (void)uv_run(&lane->loop, UV_RUN_DEFAULT);
    destroy(lane);
}
