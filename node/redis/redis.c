/* A connection to a Redis: opened, used, given up, opened again. */
#include "node/redis/redis.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/base/sock.h"
#include "node/redis/redis_refusal.h"

#define IN_BYTES   ((size_t)16 << 10) /* kept between replies */
#define READS_MAX  16                 /* at one go, so that others have turns */
#define LOGIN_CALL 3U                 /* AUTH, SELECT, the greeting */

enum redis_state {
    REDIS_IDLE,       /* redis_open() was not called */
    REDIS_AWAY,       /* the timer says when it is tried again */
    REDIS_RESOLVING,  /* its name */
    REDIS_CONNECTING, /* TLS's handshake, too */
    REDIS_GREETING,   /* its first replies are to come */
    REDIS_OPEN,
};

struct conn {
    struct sock sock;    /* the first */
    struct redis *redis; /* NULL: it was given up */
    bool secure;
    bool writing; /* it waits until it can be written */
};

struct waiting {
    struct redis_call *call; /* NULL: nobody's any more */
    uint64_t since_ms;
};

struct redis {
    uv_loop_t *loop;
    uv_timer_t timer;
    uv_getaddrinfo_t resolve;
    struct redis_config config;
    struct buf greeting; /* AUTH, SELECT and that, as they go out */
    uint32_t greetings;  /* commands of it */
    const struct sock_tls_context *tls;
    enum redis_state state;
    bool resolving; /* the loop has `resolve` */
    bool closing;   /* redis_free() */
    bool timed;     /* the loop has `timer` */
    bool told_away; /* the owner knows it */
    uint32_t again_ms;
    uint32_t attempts;
    struct conn *conn; /* NULL: there is none */
    struct buf out;
    size_t out_at;
    char *in;
    size_t in_len;
    size_t in_size;
    uint32_t first; /* of waiting */
    uint32_t count;
    struct waiting waiting[REDIS_WAITING_MAX];
};

static void give_up(struct redis *redis, const char *why);
static void on_timer(uv_timer_t *timer);

/* Making and freeing */

static void
add_greeting(struct redis *redis)
{
    const struct redis_config *c = &redis->config;
    const struct slice auth[3] = {SLICE("AUTH"), slice_of(c->secret->user),
                                  slice_of(c->secret->password)};
    const struct slice plain[2] = {auth[0], auth[2]};
    char number[16];

    buf_init(&redis->greeting, (size_t)4 << 10);
    if (auth[1].len != 0) {
        resp_add(&redis->greeting, auth, 3);
        redis->greetings++;
    } else if (auth[2].len != 0) {
        resp_add(&redis->greeting, plain, 2);
        redis->greetings++;
    }
    if (c->place->database != 0) {
        (void)snprintf(number, sizeof(number), "%u", c->place->database);
        const struct slice words[2] = {SLICE("SELECT"), slice_of(number)};
        resp_add(&redis->greeting, words, 2);
        redis->greetings++;
    }
    resp_add(&redis->greeting, c->greeting, c->greeting_count);
    redis->greetings++;
    redis->config.greeting = NULL;
    CHECK(redis->greetings <= LOGIN_CALL);
}

int
redis_new(struct redis **out, uv_loop_t *loop,
          const struct redis_config *config)
{
    struct redis *redis = calloc(1, sizeof(*redis));

    *out = NULL;
    if (redis == NULL) {
        return -ENOMEM;
    }
    redis->loop = loop;
    redis->config = *config;
    redis->again_ms = REDIS_AGAIN_MIN_MS;
    add_greeting(redis);
    redis->in = malloc(IN_BYTES);
    redis->in_size = IN_BYTES;
    if (redis->in == NULL || redis->greeting.failed) {
        buf_fini(&redis->greeting);
        free(redis->in);
        free(redis);
        return -ENOMEM;
    }
    buf_init(&redis->out, config->unsent_max);
    CHECK(uv_timer_init(loop, &redis->timer) == 0);
    redis->timed = true;
    redis->timer.data = redis;
    *out = redis;
    return 0;
}

/* Once nothing of the loop's leads here any more. */
static void
free_if_over(struct redis *redis)
{
    if (redis->closing && !redis->timed && !redis->resolving) {
        buf_fini(&redis->greeting);
        buf_fini(&redis->out);
        free(redis->in);
        free(redis);
    }
}

static void
on_timer_closed(uv_handle_t *timer)
{
    struct redis *redis = timer->data;

    redis->timed = false;
    free_if_over(redis);
}

static void
on_sock_closed(struct sock *sock)
{
    free(sock); /* the first of its connection */
}

static void
hang_up(struct redis *redis)
{
    if (redis->conn != NULL) {
        redis->conn->redis = NULL;
        sock_close(&redis->conn->sock, false, on_sock_closed);
        redis->conn = NULL;
    }
}

void
redis_free(struct redis *redis)
{
    if (redis == NULL || redis->closing) {
        return;
    }
    redis->closing = true;
    redis->count = 0;
    hang_up(redis);
    if (redis->resolving) {
        (void)uv_cancel((uv_req_t *)&redis->resolve);
    }
    uv_close((uv_handle_t *)&redis->timer, on_timer_closed);
}

void
redis_use_tls(struct redis *redis, const struct sock_tls_context *tls)
{
    redis->tls = tls;
}

bool
redis_is_open(const struct redis *redis)
{
    return redis->state == REDIS_OPEN;
}

/* Time */

static void
set_timer(struct redis *redis, uint64_t ms)
{
    (void)uv_timer_start(&redis->timer, on_timer, ms, 0);
}

static struct waiting *
waiting_at(struct redis *redis, uint32_t at)
{
    return &redis->waiting[(redis->first + at) % REDIS_WAITING_MAX];
}

/* Until the first that waits has waited long enough. */
static void
set_reply_timer(struct redis *redis)
{
    if (redis->count == 0) {
        return; /* it finds nothing, if it runs */
    }
    uint64_t due_ms = waiting_at(redis, 0)->since_ms + redis->config.timeout_ms;
    uint64_t now_ms = uv_now(redis->loop);

    set_timer(redis, due_ms > now_ms ? due_ms - now_ms : 1);
}

/* Commands */

static bool
push(struct redis *redis, struct redis_call *call)
{
    if (redis->count == REDIS_WAITING_MAX) {
        return false;
    }
    *waiting_at(redis, redis->count) =
        (struct waiting){.call = call, .since_ms = uv_now(redis->loop)};
    redis->count++;
    if (call != NULL) {
        call->waits++;
    }
    if (!uv_is_active((uv_handle_t *)&redis->timer)) {
        set_reply_timer(redis);
    }
    return true;
}

/* Sends what there is. False: the connection is broken. */
static bool
flush(struct redis *redis)
{
    struct conn *conn = redis->conn;

    while (redis->out_at < redis->out.len) {
        const struct iovec part = {.iov_base = redis->out.ptr + redis->out_at,
                                   .iov_len = redis->out.len - redis->out_at};
        ssize_t sent = sock_send(&conn->sock, &part, 1);
        if (sent < 0) {
            return false;
        }
        if (sent == 0) {
            break;
        }
        redis->out_at += (size_t)sent;
    }
    if (redis->out_at == redis->out.len) {
        redis->out_at = 0;
        if (redis->out.size > IN_BYTES) {
            buf_fini(&redis->out);
            buf_init(&redis->out, redis->config.unsent_max);
        } else {
            buf_clear(&redis->out);
        }
    }
    conn->writing = redis->out.len != 0;
    sock_want(&conn->sock, SOCK_READ | (conn->writing ? SOCK_WRITE : 0));
    return true;
}

/* A connection that turns out broken here is given up when the loop sees it, so
 * that no call ends from within. */
bool
redis_send(struct redis *redis, const struct slice *words, unsigned count,
           struct redis_call *call)
{
    if (redis->state != REDIS_OPEN || redis->count == REDIS_WAITING_MAX) {
        return false;
    }
    if (redis->out_at != 0) {
        buf_drop(&redis->out, redis->out_at);
        redis->out_at = 0;
    }
    size_t len = redis->out.len;
    resp_add(&redis->out, words, count);
    if (redis->out.failed) {
        redis->out.failed = false;
        redis->out.len = len;
        return false;
    }
    CHECK(push(redis, call));
    if (!redis->conn->writing && !flush(redis)) {
        redis->conn->writing = true;
        sock_want(&redis->conn->sock, SOCK_READ | SOCK_WRITE);
    }
    return true;
}

void
redis_forget(struct redis *redis, struct redis_call *call)
{
    for (uint32_t i = 0; i < redis->count && call->waits != 0; i++) {
        if (waiting_at(redis, i)->call == call) {
            waiting_at(redis, i)->call = NULL;
            call->waits--;
        }
    }
}

/* Replies */

static void
pop(struct redis *redis, const struct resp *reply)
{
    struct redis_call *call = waiting_at(redis, 0)->call;

    redis->first = (redis->first + 1) % REDIS_WAITING_MAX;
    redis->count--;
    if (call != NULL) {
        CHECK(call->waits != 0);
        call->waits--;
        call->done(call, reply);
    }
}

/* Of AUTH, SELECT and the owner's command. NULL, or what is wrong. */
static const char *
greeted(struct redis *redis, const struct resp *reply)
{
    pop(redis, reply);
    if (reply->item.kind == RESP_ERROR) {
        return redis_refusal_why(redis_refusal_of(reply->item.bytes));
    }
    if (redis->count == 0) {
        redis->state = REDIS_OPEN;
        redis->again_ms = REDIS_AGAIN_MIN_MS;
        redis->told_away = false;
        if (redis->config.changed != NULL) {
            redis->config.changed(redis->config.context, true, "");
        }
    }
    return NULL;
}

/* Hands out what has come. NULL, or why the connection is of no use. */
static const char *
take_replies(struct redis *redis)
{
    const struct conn *conn = redis->conn;
    struct slice in = {redis->in, redis->in_len};
    struct resp reply;
    const char *why = NULL;

    while (why == NULL && in.len != 0) {
        int outcome = resp_read(in, redis->config.bytes_max, &reply);
        if (outcome == RESP_E_MORE) {
            break;
        }
        if (outcome != 0 || redis->count == 0) {
            return "what it says is no reply";
        }
        slice_skip(&in, reply.size);
        if (redis->state == REDIS_GREETING) {
            why = greeted(redis, &reply);
        } else {
            pop(redis, &reply); /* may send, and so give it up later */
        }
        if (redis->closing || redis->conn != conn) {
            return NULL;
        }
    }
    if (in.len != 0 && in.ptr != redis->in) {
        memmove(redis->in, in.ptr, in.len);
    }
    redis->in_len = in.len;
    return in.len <= redis->config.bytes_max + IN_BYTES
               ? why
               : "what it says is no reply";
}

/* Room for more of a reply; what is large is not kept. False: no memory. */
static bool
make_room(struct redis *redis)
{
    size_t size = redis->in_len == 0 ? IN_BYTES : redis->in_size;

    if (redis->in_len == redis->in_size) {
        size = 2 * redis->in_size;
    }
    if (size != redis->in_size) {
        char *grown = realloc(redis->in, size);
        if (grown == NULL) {
            return false;
        }
        redis->in = grown;
        redis->in_size = size;
    }
    return true;
}

/* Reads what is there. Afterwards it may have been given up. */
static void
read_some(struct redis *redis)
{
    const struct conn *conn = redis->conn;

    for (int i = 0; i < READS_MAX; i++) {
        if (!make_room(redis)) {
            give_up(redis, "there is no memory for what it says");
            return;
        }
        ssize_t got = sock_recv(&redis->conn->sock, redis->in + redis->in_len,
                                redis->in_size - redis->in_len);
        if (got == -EAGAIN) {
            return;
        }
        if (got <= 0) {
            give_up(redis, "it closed the connection");
            return;
        }
        redis->in_len += (size_t)got;
        const char *why = take_replies(redis);
        if (redis->closing || redis->conn != conn) {
            return;
        }
        if (why != NULL) {
            give_up(redis, why);
            return;
        }
    }
    sock_want(&redis->conn->sock,
              SOCK_READ | (redis->conn->writing ? SOCK_WRITE : 0));
}

/* Opening */

static void
greet(struct redis *redis)
{
    redis->state = REDIS_GREETING;
    for (uint32_t i = 0; i < redis->greetings; i++) {
        CHECK(push(redis, NULL));
    }
    buf_add_slice(&redis->out, buf_slice(&redis->greeting));
    set_reply_timer(redis);
    if (redis->out.failed || !flush(redis)) {
        give_up(redis, "it closed the connection");
    }
}

/* Goes on with a connection that is not made yet. */
static void
go_on(struct redis *redis)
{
    struct conn *conn = redis->conn;
    int error = conn->secure ? 0 : sock_connect_result(&conn->sock);

    if (error == 0 && redis->config.place->url.tls && !conn->secure) {
        error = redis->tls == NULL
                    ? -EPROTO
                    : sock_secure_to(&conn->sock, redis->tls,
                                     redis->config.place->url.host, NULL);
        conn->secure = error == 0;
    }
    if (error == 0 && conn->secure) {
        error = sock_shake(&conn->sock);
    }
    if (error == -EAGAIN) {
        return;
    }
    if (error != 0) {
        const char *why = sock_why(&conn->sock);
        give_up(redis, why[0] != '\0' ? why : "no connection");
        return;
    }
    greet(redis);
}

static void
on_ready(struct sock *sock, int events)
{
    struct conn *conn = (struct conn *)(void *)sock; /* its first */
    struct redis *redis = conn->redis;

    if (redis == NULL) {
        return;
    }
    if (redis->state == REDIS_CONNECTING) {
        go_on(redis);
        return;
    }
    if ((events & SOCK_WRITE) != 0 && !flush(redis)) {
        give_up(redis, "it closed the connection");
        return;
    }
    if ((events & SOCK_READ) != 0) {
        read_some(redis);
    }
}

static void
connect_to(struct redis *redis, const struct sockaddr *address)
{
    socklen_t len = address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                   : sizeof(struct sockaddr_in);
    struct conn *conn = calloc(1, sizeof(*conn));
    int fd = conn != NULL ? sock_connect_begin(address, len) : -ENOMEM;

    if (fd < 0 || sock_open(&conn->sock, redis->loop, fd, on_ready) < 0) {
        free(conn);
        give_up(redis, "no connection");
        return;
    }
    conn->redis = redis;
    redis->conn = conn;
    redis->state = REDIS_CONNECTING;
    sock_want(&conn->sock, SOCK_WRITE);
}

static void
on_resolved(uv_getaddrinfo_t *resolve, int status, struct addrinfo *found)
{
    struct redis *redis = resolve->data;
    uint32_t count = 0;

    redis->resolving = false;
    if (redis->closing || redis->state != REDIS_RESOLVING) {
        uv_freeaddrinfo(found);
        free_if_over(redis);
        return;
    }
    for (struct addrinfo *at = found; at != NULL; at = at->ai_next) {
        count++;
    }
    if (status != 0 || count == 0) {
        uv_freeaddrinfo(found);
        give_up(redis, "its name has no address");
        return;
    }
    struct addrinfo *one = found;
    for (uint32_t i = redis->attempts % count; i != 0; i--) {
        one = one->ai_next;
    }
    connect_to(redis, one->ai_addr);
    uv_freeaddrinfo(found);
}

static void
begin(struct redis *redis)
{
    static const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                          .ai_socktype = SOCK_STREAM,
                                          .ai_flags = AI_NUMERICSERV};
    const struct url *url = &redis->config.place->url;
    uint32_t most_ms = redis->config.timeout_ms > REDIS_OPEN_MIN_MS
                           ? redis->config.timeout_ms
                           : REDIS_OPEN_MIN_MS;
    struct sockaddr_storage address;
    char service[8];

    redis->attempts++;
    set_timer(redis, most_ms);
    if (url_sockaddr(url, &address) == 0) {
        connect_to(redis, (const struct sockaddr *)&address);
        return;
    }
    redis->state = REDIS_RESOLVING;
    if (redis->resolving) {
        return; /* the last attempt's look-up is still under way */
    }
    (void)snprintf(service, sizeof(service), "%u", (unsigned)url->port);
    redis->resolve.data = redis;
    redis->resolving = uv_getaddrinfo(redis->loop, &redis->resolve, on_resolved,
                                      url->host, service, &hints) == 0;
    if (!redis->resolving) {
        give_up(redis, "its name has no address");
    }
}

void
redis_open(struct redis *redis)
{
    if (redis->state == REDIS_IDLE) {
        redis->state = REDIS_AWAY;
        set_timer(redis, 0);
    }
}

/* The connection is of no use: all that wait are told, and it is tried again
 * later. */
static void
give_up(struct redis *redis, const char *why)
{
    hang_up(redis);
    redis->state = REDIS_AWAY;
    redis->in_len = 0;
    redis->out_at = 0;
    buf_clear(&redis->out);
    set_timer(redis, redis->again_ms);
    redis->again_ms = redis->again_ms * 2 < REDIS_AGAIN_MAX_MS
                          ? redis->again_ms * 2
                          : REDIS_AGAIN_MAX_MS;
    if (!redis->told_away && redis->config.changed != NULL) {
        redis->config.changed(redis->config.context, false, why);
    }
    redis->told_away = true;
    while (redis->count != 0) { /* nobody can send meanwhile */
        struct redis_call *call = waiting_at(redis, 0)->call;
        redis->first = (redis->first + 1) % REDIS_WAITING_MAX;
        redis->count--;
        if (call != NULL) {
            call->waits--;
            redis_forget(redis, call);
            call->done(call, NULL);
        }
    }
}

/* What came while the process stood still is not late: the socket is read
 * first. */
static void
on_timer(uv_timer_t *timer)
{
    struct redis *redis = timer->data;
    uint64_t now_ms = uv_now(redis->loop);

    if (redis->closing) {
        return;
    }
    if (redis->state == REDIS_AWAY) {
        begin(redis);
        return;
    }
    if (redis->state == REDIS_RESOLVING || redis->state == REDIS_CONNECTING) {
        give_up(redis, "no connection in time");
        return;
    }
    read_some(redis);
    if (redis->state != REDIS_OPEN && redis->state != REDIS_GREETING) {
        return;
    }
    if (redis->count != 0 &&
        now_ms - waiting_at(redis, 0)->since_ms >= redis->config.timeout_ms) {
        give_up(redis, "it does not answer in time");
        return;
    }
    set_reply_timer(redis);
}
