#include "node/peers/resolve.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "node/peers/resolve_query_internal.h"

/* Asked for, and not begun. */
struct waiting {
    uint64_t ticket;
    uint64_t due_ms;
    enum discover_kind kind;
    char name[DISCOVER_NAME_MAX];
};

/* One that runs. While it does, query and all it points at is the thread's,
 * but for reading what is asked. */
struct running {
    struct resolve *resolve;
    bool busy;
    uint64_t ticket; /* 0: nobody waits for it any more */
    uint64_t due_ms;
    union {
        uv_work_t work;
        uv_getaddrinfo_t info;
    } request;
    struct resolve_query query;
};

struct resolve {
    uv_loop_t *loop;
    struct resolve_config config;
    struct resolve_owner owner;
    uv_timer_t timer;
    bool closing;
    bool answering;
    uint32_t holds; /* the timer and what runs */
    struct resolve_stats stats;
    struct waiting waiting[RESOLVE_WAITING_MAX]; /* in order of asking */
    struct running running[RESOLVE_RUNNING_MAX];
};

static void start_more(struct resolve *resolve);
static void set_timer(struct resolve *resolve);

static void
drop(struct resolve *resolve)
{
    CHECK(resolve->holds > 0);
    resolve->holds--;
    if (resolve->holds == 0) {
        CHECK(resolve->closing);
        free(resolve);
    }
}

static void
answer(struct resolve *resolve, uint64_t ticket, enum discover_outcome outcome,
       const struct resolve_found *found)
{
    struct discover_answer answer = {.ticket = ticket, .outcome = outcome};

    if (outcome == DISCOVER_FOUND) {
        answer.ips = found->ips;
        answer.ips_count = found->ips_count;
        answer.targets = found->targets;
        answer.targets_count = found->targets_count;
    }
    resolve->stats.timeouts += outcome == DISCOVER_TIMEOUT;
    resolve->answering = true;
    resolve->owner.answered(resolve->owner.context, &answer);
    resolve->answering = false;
}

/* Ends of what ran */

static void
end(struct running *running)
{
    struct resolve *resolve = running->resolve;
    uint64_t ticket = running->ticket;

    if (!resolve->closing && ticket != 0) {
        answer(resolve, ticket, running->query.outcome, &running->query.found);
    }
    running->busy = false;
    resolve->stats.running--;
    resolve->stats.late += ticket == 0;
    if (!resolve->closing) {
        start_more(resolve);
        set_timer(resolve);
    }
    drop(resolve);
}

static void
on_work_done(uv_work_t *work, int status)
{
    (void)status; /* cancelled: only by resolve_free() */
    end(work->data);
}

static void
on_work(uv_work_t *work)
{
    struct running *running = work->data;

    resolve_query_run(&running->query);
}

static void
on_info(uv_getaddrinfo_t *info, int status, struct addrinfo *list)
{
    struct running *running = info->data;

    resolve_query_take(&running->query, status, list);
    uv_freeaddrinfo(list);
    end(running);
}

/* Beginnings */

static bool
is_asked(const struct resolve *resolve, const struct waiting *waiting)
{
    for (uint32_t i = 0; i < RESOLVE_RUNNING_MAX; i++) {
        const struct running *running = &resolve->running[i];
        if (running->busy && running->query.kind == waiting->kind &&
            strcmp(running->query.name, waiting->name) == 0) {
            return true;
        }
    }
    return false;
}

static void
take_out(struct resolve *resolve, uint32_t at)
{
    resolve->stats.waiting--;
    memmove(&resolve->waiting[at], &resolve->waiting[at + 1],
            (resolve->stats.waiting - at) * sizeof resolve->waiting[0]);
}

/* The first whose name is not being looked up already. */
static bool
take_next(struct resolve *resolve, struct waiting *out)
{
    for (uint32_t i = 0; i < resolve->stats.waiting; i++) {
        if (!is_asked(resolve, &resolve->waiting[i])) {
            *out = resolve->waiting[i];
            take_out(resolve, i);
            return true;
        }
    }
    return false;
}

static int
begin(struct running *running)
{
    static const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                          .ai_socktype = SOCK_STREAM};
    uv_loop_t *loop = running->resolve->loop;

    if (running->query.kind == DISCOVER_SERVICE ||
        running->query.server.sin_port != 0) {
        running->request.work.data = running;
        return uv_queue_work(loop, &running->request.work, on_work,
                             on_work_done);
    }
    running->request.info.data = running;
    return uv_getaddrinfo(loop, &running->request.info, on_info,
                          running->query.name, NULL, &hints);
}

static void
start(struct running *running, const struct waiting *waiting)
{
    struct resolve *resolve = running->resolve;

    running->busy = true;
    running->ticket = waiting->ticket;
    running->due_ms = waiting->due_ms;
    resolve_query_init(&running->query, waiting->kind, waiting->name,
                       &resolve->config);
    if (begin(running) != 0) {
        running->busy = false;
        answer(resolve, waiting->ticket, DISCOVER_FAILED, NULL);
        return;
    }
    resolve->stats.running++;
    resolve->holds++;
}

static void
start_more(struct resolve *resolve)
{
    struct waiting next;

    for (uint32_t i = 0; i < RESOLVE_RUNNING_MAX; i++) {
        while (!resolve->running[i].busy && take_next(resolve, &next)) {
            start(&resolve->running[i], &next);
        }
    }
}

/* Time */

static void
expire(struct resolve *resolve)
{
    uint64_t now_ms = uv_now(resolve->loop);

    for (uint32_t i = 0; i < RESOLVE_RUNNING_MAX; i++) {
        struct running *running = &resolve->running[i];
        uint64_t ticket = running->ticket;
        if (running->busy && ticket != 0 && running->due_ms <= now_ms) {
            running->ticket = 0;
            answer(resolve, ticket, DISCOVER_TIMEOUT, NULL);
        }
    }
    /* All wait equally long: the first is due first. */
    while (resolve->stats.waiting > 0 && resolve->waiting[0].due_ms <= now_ms) {
        uint64_t ticket = resolve->waiting[0].ticket;
        take_out(resolve, 0);
        answer(resolve, ticket, DISCOVER_TIMEOUT, NULL);
    }
}

static void
on_timer(uv_timer_t *timer)
{
    struct resolve *resolve = timer->data;

    expire(resolve);
    start_more(resolve);
    set_timer(resolve);
}

/* When the next one has waited, or run, too long. */
static uint64_t
next_due_ms(const struct resolve *resolve)
{
    uint64_t due_ms = UINT64_MAX;

    if (resolve->stats.waiting > 0) {
        due_ms = resolve->waiting[0].due_ms;
    }
    for (uint32_t i = 0; i < RESOLVE_RUNNING_MAX; i++) {
        const struct running *running = &resolve->running[i];
        if (running->busy && running->ticket != 0 && running->due_ms < due_ms) {
            due_ms = running->due_ms;
        }
    }
    return due_ms;
}

static void
set_timer(struct resolve *resolve)
{
    uint64_t due_ms = next_due_ms(resolve);
    uint64_t now_ms = uv_now(resolve->loop);

    if (due_ms == UINT64_MAX) {
        (void)uv_timer_stop(&resolve->timer); /* cannot fail */
        return;
    }
    /* Fails only for a closing handle. */
    (void)uv_timer_start(&resolve->timer, on_timer,
                         due_ms > now_ms ? due_ms - now_ms : 0, 0);
}

/* The door */

int
resolve_new(struct resolve **out, uv_loop_t *loop,
            const struct resolve_config *config,
            const struct resolve_owner *owner)
{
    struct resolve *resolve = calloc(1, sizeof *resolve);

    CHECK(config->timeout_ms > 0);
    *out = NULL;
    if (resolve == NULL) {
        return -ENOMEM;
    }
    resolve->loop = loop;
    resolve->config = *config;
    resolve->owner = *owner;
    for (uint32_t i = 0; i < RESOLVE_RUNNING_MAX; i++) {
        resolve->running[i].resolve = resolve;
    }
    (void)uv_timer_init(loop, &resolve->timer); /* cannot fail */
    resolve->timer.data = resolve;
    resolve->holds = 1;
    *out = resolve;
    return 0;
}

int
resolve_ask(struct resolve *resolve, const struct discover_out *out)
{
    struct waiting *waiting = &resolve->waiting[resolve->stats.waiting];

    CHECK(!resolve->closing && out->kind == DISCOVER_OUT_RESOLVE);
    CHECK(out->lookup == DISCOVER_HOST || out->lookup == DISCOVER_SERVICE);
    CHECK(out->ticket != 0 && strlen(out->name) < sizeof waiting->name);
    if (resolve->stats.waiting == RESOLVE_WAITING_MAX) {
        return RESOLVE_E_FULL;
    }
    *waiting = (struct waiting){
        .ticket = out->ticket,
        .due_ms = uv_now(resolve->loop) + resolve->config.timeout_ms,
        .kind = out->lookup,
    };
    memcpy(waiting->name, out->name, strlen(out->name) + 1);
    resolve->stats.waiting++;
    resolve->stats.asked++;
    /* Begun from the loop, so that nothing is answered from within here. */
    (void)uv_timer_start(&resolve->timer, on_timer, 0, 0);
    return 0;
}

void
resolve_stats(const struct resolve *resolve, struct resolve_stats *stats)
{
    *stats = resolve->stats;
}

static void
on_timer_closed(uv_handle_t *handle)
{
    drop(handle->data);
}

void
resolve_free(struct resolve *resolve)
{
    if (resolve == NULL) {
        return;
    }
    CHECK(!resolve->closing && !resolve->answering);
    resolve->closing = true;
    for (uint32_t i = 0; i < RESOLVE_RUNNING_MAX; i++) {
        if (resolve->running[i].busy) {
            /* When it runs already, its end comes by itself. */
            (void)uv_cancel((uv_req_t *)&resolve->running[i].request);
        }
    }
    uv_close((uv_handle_t *)&resolve->timer, on_timer_closed);
}
