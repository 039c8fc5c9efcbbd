/*
 * Lookups on a libuv loop: a c-ares channel, a timer and some polls for each.
 * c-ares calls back from within its own functions, where its channel must not
 * be destroyed. So callbacks only record the result, and settle() acts on it
 * after each call into c-ares.
 */
#include "node/peers/resolve.h"

#include <ares.h>
#include <arpa/nameser.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/base/list.h"
#include "node/peers/resolve_found_internal.h"

#define TRIES       2  /* of each server; the second one waits twice as long */
#define SOCKETS_MAX 16 /* of one lookup: UDP and TCP for each server */

struct lookup {
    struct list_link link; /* in resolve->lookups, until it is closing */
    struct resolve *resolve;
    uint64_t ticket;
    uint64_t due_ms;
    enum discover_kind kind;
    enum discover_outcome outcome; /* DISCOVER_NOT_YET while it runs */
    ares_channel channel;          /* NULL: not begun */
    struct ares_addrinfo *six;     /* what came without IPv4 addresses */
    bool half;                     /* see discover_answer */
    uint32_t handles;              /* not closed yet; 0 frees the lookup */
    uv_timer_t timer;
    uv_poll_t polls[SOCKETS_MAX]; /* data is NULL where unused */
    char name[DISCOVER_NAME_MAX + 1];
};

struct resolve {
    uv_loop_t *loop;
    struct resolve_owner owner;
    uint32_t timeout_ms;
    char server[URL_TEXT_MAX]; /* HOST:PORT; "": the system's */
    bool answering;
    uint32_t running;
    struct list_link lookups;
    struct resolve_found found; /* by the lookup that ended last */
};

/* The order means nothing here, and sorting connects to each address. */
static const struct ares_addrinfo_hints hints_both = {
    .ai_flags = ARES_AI_NOSORT,
    .ai_family = AF_UNSPEC,
    .ai_socktype = SOCK_STREAM,
};
static const struct ares_addrinfo_hints hints_four = {
    .ai_flags = ARES_AI_NOSORT,
    .ai_family = AF_INET,
    .ai_socktype = SOCK_STREAM,
};

/* What c-ares calls back */

/* It ends with what came first; the servers say no more, or not in time. */
static void
end_with_six(struct lookup *lookup, bool half)
{
    lookup->half = half;
    lookup->outcome =
        resolve_found_hosts(&lookup->resolve->found, ARES_SUCCESS, lookup->six);
}

/* The answer to the question for IPv4 addresses alone. */
static void
on_four(void *context, int status, int timeouts, struct ares_addrinfo *list)
{
    struct lookup *lookup = context;

    (void)timeouts;
    if (lookup->outcome == DISCOVER_NOT_YET) {
        enum discover_outcome four =
            resolve_found_hosts(&lookup->resolve->found, status, list);
        if (four == DISCOVER_FOUND) {
            lookup->outcome = four;
        } else {
            end_with_six(lookup, four != DISCOVER_ABSENT);
        }
    }
    ares_freeaddrinfo(list);
}

/* c-ares does not say whether the other family has none, or no answer. */
static void
on_hosts(void *context, int status, int timeouts, struct ares_addrinfo *list)
{
    struct lookup *lookup = context;

    (void)timeouts;
    if (lookup->outcome == DISCOVER_NOT_YET && status == ARES_SUCCESS &&
        resolve_found_no_four(list)) {
        lookup->six = list;
        ares_getaddrinfo(lookup->channel, lookup->name, NULL, &hints_four,
                         on_four, lookup);
        return;
    }
    if (lookup->outcome == DISCOVER_NOT_YET) {
        lookup->outcome =
            resolve_found_hosts(&lookup->resolve->found, status, list);
    }
    ares_freeaddrinfo(list);
}

static void
on_service(void *context, int status, int timeouts, unsigned char *answer,
           int size)
{
    struct lookup *lookup = context;

    (void)timeouts;
    if (lookup->outcome == DISCOVER_NOT_YET) {
        lookup->outcome = resolve_found_service(&lookup->resolve->found, status,
                                                answer, size);
    }
}

/* The end of a lookup */

static void
drop(struct lookup *lookup)
{
    CHECK(lookup->handles > 0);
    lookup->handles--;
    if (lookup->handles == 0) {
        free(lookup);
    }
}

static void
on_timer_closed(uv_handle_t *handle)
{
    drop(handle->data);
}

/* Nothing is heard of it afterwards; c-ares closes its sockets. */
static void
close_lookup(struct lookup *lookup, enum discover_outcome outcome)
{
    CHECK(outcome != DISCOVER_NOT_YET);
    lookup->outcome = outcome; /* so that what c-ares still calls is ignored */
    ares_destroy(lookup->channel);
    ares_freeaddrinfo(lookup->six);
    list_remove(&lookup->link);
    lookup->resolve->running--;
    uv_close((uv_handle_t *)&lookup->timer, on_timer_closed);
}

static void
finish(struct lookup *lookup)
{
    struct resolve *resolve = lookup->resolve;
    struct discover_answer answer = {.ticket = lookup->ticket,
                                     .outcome = lookup->outcome};

    if (answer.outcome == DISCOVER_FOUND) {
        answer.ips = resolve->found.ips;
        answer.ips_count = resolve->found.ips_count;
        answer.half = lookup->half;
        answer.targets = resolve->found.targets;
        answer.targets_count = resolve->found.targets_count;
    }
    close_lookup(lookup, lookup->outcome);
    resolve->answering = true;
    resolve->owner.answered(resolve->owner.context, &answer);
    resolve->answering = false;
}

static void on_timer(uv_timer_t *timer);

/* After each call into c-ares. */
static void
settle(struct lookup *lookup)
{
    uint64_t now_ms = uv_now(lookup->resolve->loop);
    uint64_t wait_ms = lookup->due_ms > now_ms ? lookup->due_ms - now_ms : 0;
    struct timeval next;

    if (lookup->outcome != DISCOVER_NOT_YET) {
        finish(lookup);
        return;
    }
    if (ares_timeout(lookup->channel, NULL, &next) != NULL) {
        uint64_t next_ms =
            (uint64_t)next.tv_sec * 1000 + (uint64_t)next.tv_usec / 1000 + 1;
        wait_ms = next_ms < wait_ms ? next_ms : wait_ms;
    }
    /* Fails only for a closing handle. */
    (void)uv_timer_start(&lookup->timer, on_timer, wait_ms, 0);
}

/* Its sockets */

static void
on_poll(uv_poll_t *poll, int status, int events)
{
    struct lookup *lookup = poll->data;
    uv_os_fd_t fd;

    CHECK(uv_fileno((uv_handle_t *)poll, &fd) == 0);
    if (status < 0) { /* c-ares finds the error as it reads and writes */
        events = UV_READABLE | UV_WRITABLE;
    }
    ares_process_fd(lookup->channel,
                    (events & UV_READABLE) != 0 ? fd : ARES_SOCKET_BAD,
                    (events & UV_WRITABLE) != 0 ? fd : ARES_SOCKET_BAD);
    settle(lookup);
}

static void
on_poll_closed(uv_handle_t *handle)
{
    struct lookup *lookup = handle->data;

    handle->data = NULL;
    drop(lookup);
}

static uv_poll_t *
find_poll(struct lookup *lookup, uv_os_fd_t socket)
{
    uv_os_fd_t fd;

    for (uint32_t i = 0; i < SOCKETS_MAX; i++) {
        uv_poll_t *poll = &lookup->polls[i];
        if (poll->data != NULL && uv_fileno((uv_handle_t *)poll, &fd) == 0 &&
            fd == socket) {
            return poll;
        }
    }
    return NULL;
}

/* NULL: none is left, and questions on this socket time out. */
static uv_poll_t *
open_poll(struct lookup *lookup, uv_os_fd_t socket)
{
    uint32_t at = 0;

    while (at < SOCKETS_MAX && lookup->polls[at].data != NULL) {
        at++;
    }
    if (at == SOCKETS_MAX ||
        uv_poll_init(lookup->resolve->loop, &lookup->polls[at], socket) != 0) {
        return NULL;
    }
    lookup->polls[at].data = lookup;
    lookup->handles++;
    return &lookup->polls[at];
}

/* c-ares waits for these events on a socket; for none: it is about to close
 * it. */
static void
on_socket(void *context, ares_socket_t socket, int readable, int writable)
{
    uv_poll_t *poll = find_poll(context, socket);
    int events = (readable ? UV_READABLE : 0) | (writable ? UV_WRITABLE : 0);

    if (events == 0) {
        if (poll != NULL) {
            uv_close((uv_handle_t *)poll, on_poll_closed);
        }
        return;
    }
    poll = poll != NULL ? poll : open_poll(context, socket);
    if (poll != NULL) {
        (void)uv_poll_start(poll, events, on_poll); /* fails when closing */
    }
}

/* Its beginning */

static int
open_channel(struct lookup *lookup)
{
    const struct resolve *resolve = lookup->resolve;
    char dns_only[] = "b";
    struct ares_options options = {
        /* A server's two tries take one and two of these: two silent servers
         * are given up before the whole lookup is. */
        .timeout = (int)(resolve->timeout_ms / 7 + 1),
        .tries = TRIES,
        .lookups = dns_only,
        .sock_state_cb = on_socket,
        .sock_state_cb_data = lookup,
    };
    int mask = ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_SOCK_STATE_CB;
    bool own = resolve->server[0] != '\0';
    int status = ares_init_options(&lookup->channel, &options,
                                   own ? mask | ARES_OPT_LOOKUPS : mask);

    if (status != ARES_SUCCESS) {
        lookup->channel = NULL;
    } else if (own) {
        status = ares_set_servers_ports_csv(lookup->channel, resolve->server);
    }
    return status;
}

static void
begin(struct lookup *lookup)
{
    if (open_channel(lookup) != ARES_SUCCESS) {
        lookup->outcome = DISCOVER_FAILED;
    } else if (lookup->kind == DISCOVER_SERVICE) {
        ares_search(lookup->channel, lookup->name, ns_c_in, ns_t_srv,
                    on_service, lookup);
    } else {
        ares_getaddrinfo(lookup->channel, lookup->name, NULL, &hints_both,
                         on_hosts, lookup);
    }
}

static void
on_timer(uv_timer_t *timer)
{
    struct lookup *lookup = timer->data;

    if (lookup->channel == NULL) {
        begin(lookup);
    } else if (lookup->due_ms <= uv_now(timer->loop) && lookup->six != NULL) {
        end_with_six(lookup, true);
    } else if (lookup->due_ms <= uv_now(timer->loop)) {
        lookup->outcome = DISCOVER_TIMEOUT;
    } else {
        ares_process_fd(lookup->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
    }
    settle(lookup);
}

/* The door */

int
resolve_new(struct resolve **out, uv_loop_t *loop,
            const struct resolve_config *config,
            const struct resolve_owner *owner)
{
    struct resolve *resolve = calloc(1, sizeof *resolve);

    CHECK(config->timeout_ms > 0 && owner->answered != NULL);
    *out = NULL;
    if (resolve == NULL || ares_library_init(ARES_LIB_INIT_ALL) != 0) {
        free(resolve);
        return -ENOMEM;
    }
    resolve->loop = loop;
    resolve->owner = *owner;
    resolve->timeout_ms = config->timeout_ms;
    if (config->server != NULL && config->server->port != 0) {
        (void)url_authority(config->server, resolve->server);
    }
    list_init(&resolve->lookups);
    *out = resolve;
    return 0;
}

int
resolve_ask(struct resolve *resolve, const struct discover_out *out)
{
    size_t len = strlen(out->name);
    bool absolute = len > 0 && out->name[len - 1] == '.';

    CHECK(out->kind == DISCOVER_OUT_RESOLVE && out->ticket != 0);
    CHECK(out->lookup == DISCOVER_HOST || out->lookup == DISCOVER_SERVICE);
    CHECK(len > 0 && len < DISCOVER_NAME_MAX);
    if (resolve->running == RESOLVE_LOOKUPS_MAX) {
        return RESOLVE_E_FULL;
    }
    struct lookup *lookup = calloc(1, sizeof *lookup);
    if (lookup == NULL) {
        return -ENOMEM;
    }
    lookup->resolve = resolve;
    lookup->ticket = out->ticket;
    lookup->due_ms = uv_now(resolve->loop) + resolve->timeout_ms;
    lookup->kind = out->lookup;
    (void)snprintf(lookup->name, sizeof lookup->name, "%s%s", out->name,
                   resolve->server[0] != '\0' && !absolute ? "." : "");
    (void)uv_timer_init(resolve->loop, &lookup->timer); /* cannot fail */
    lookup->timer.data = lookup;
    lookup->handles = 1;
    list_init(&lookup->link);
    list_append(&resolve->lookups, &lookup->link);
    resolve->running++;
    /* Begun from the loop, so that nothing is answered from within here. */
    (void)uv_timer_start(&lookup->timer, on_timer, 0, 0);
    return 0;
}

void
resolve_free(struct resolve *resolve)
{
    if (resolve == NULL) {
        return;
    }
    CHECK(!resolve->answering);
    while (!list_is_empty(&resolve->lookups)) {
        close_lookup(LIST_OWNER(resolve->lookups.next, struct lookup, link),
                     DISCOVER_FAILED);
    }
    CHECK(resolve->running == 0);
    ares_library_cleanup();
    free(resolve);
}
