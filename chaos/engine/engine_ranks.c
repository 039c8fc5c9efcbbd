/* Data-parallel ranks: which one takes a request. */
#include "chaos/engine/engine_ranks_internal.h"

#include <errno.h>
#include <stdlib.h>

#include "chaos/engine/engine_http_internal.h"

#define LIFE_SEED_STEP   UINT64_C(1000003) /* from one life to the next */
#define RANK_SEED_STEP   UINT64_C(7919)    /* from one rank to the next */
#define PORT_TRIES_MAX   256
#define ROW_PORT_MIN     20480 /* below 32768, where connections' begin */
#define ROW_PORTS        12000
#define RANK_DIGITS_MAX  9
#define WAITING_WEIGHT   4 /* vLLM's */
#define RANK_HEADER_NAME "x-data-parallel-rank"

static uint64_t
seed_of(const struct engine_server *server, uint32_t rank)
{
    return server->options->seed + server->restarts * LIFE_SEED_STEP +
           rank * RANK_SEED_STEP;
}

static void
close_publishers(struct engine_server *server)
{
    for (uint32_t i = 0; i < server->ranks_count; i++) {
        engine_publisher_close(&server->ranks[i].publisher);
    }
}

static void
fini_publishers(struct engine_server *server)
{
    for (uint32_t i = 0; i < server->ranks_count; i++) {
        engine_publisher_fini(&server->ranks[i].publisher);
    }
}

static int
bind_publishers(struct engine_server *server, uint32_t any)
{
    struct engine_rank *ranks = server->ranks;
    int r = 0;

    for (uint32_t i = 0; i < server->ranks_count && r == 0; i++) {
        r = engine_publisher_init(&ranks[i].publisher, server->options,
                                  &server->faults, i, any);
    }
    return r;
}

static const char *
text_of(const char *text)
{
    return text != NULL ? text : "";
}

/*
 * Where a row of ports may begin. The kernel gives a free one, but those next
 * to it are often taken by connections, also by closed ones; there are none
 * below its range. Any of many: a client of an engine before this one must not
 * find this one where that one was.
 */
static uint32_t
any_row(void)
{
    uint32_t chance = 0;

    CHECK(uv_random(NULL, NULL, &chance, sizeof(chance), 0, NULL) == 0);
    return ROW_PORT_MIN + chance % ROW_PORTS;
}

static int
open_publishers(struct engine_server *server)
{
    const struct engine_options *o = server->options;
    bool row = engine_publish_any_port(o) && server->ranks_count > 1;
    int r = bind_publishers(server, row ? any_row() : 0);

    for (int i = 1; i < PORT_TRIES_MAX && r == -EADDRINUSE && row; i++) {
        close_publishers(server);
        fini_publishers(server);
        r = bind_publishers(server, any_row());
    }
    for (uint32_t i = 0; i < server->ranks_count && r == 0; i++) {
        r = engine_publisher_start(&server->ranks[i].publisher, server->loop);
    }
    if (r != 0) {
        LOG_ERROR("events_not_published", KV("events", text_of(o->events)),
                  KV("replay", text_of(o->replay)), KV("why", uv_strerror(r)));
    }
    return r;
}

int
engine_ranks_init(struct engine_server *server)
{
    struct engine_config config = engine_options_config(server->options);
    uint32_t count = (uint32_t)server->options->ranks;
    int r = 0;

    server->ranks = calloc(count, sizeof(*server->ranks));
    if (server->ranks == NULL) {
        return -ENOMEM;
    }
    server->ranks_count = count;
    for (uint32_t i = 0; i < count && r == 0; i++) {
        r = engine_init(&server->ranks[i].engine, &config, 0,
                        seed_of(server, i));
    }
    if (r == 0 && engine_publish_wanted(server->options)) {
        r = open_publishers(server);
    }
    return r;
}

void
engine_ranks_close(struct engine_server *server)
{
    close_publishers(server);
}

void
engine_ranks_fini(struct engine_server *server)
{
    fini_publishers(server);
    for (uint32_t i = 0; i < server->ranks_count; i++) {
        engine_fini(&server->ranks[i].engine);
    }
    free(server->ranks);
    server->ranks = NULL;
    server->ranks_count = 0;
}

uint32_t
engine_ranks_idlest(const struct engine_server *server)
{
    uint64_t least = UINT64_MAX;
    uint32_t found = 0;

    for (uint32_t i = 0; i < server->ranks_count; i++) {
        struct engine_stats stats;
        engine_stats(&server->ranks[i].engine, &stats);
        uint64_t load =
            (uint64_t)WAITING_WEIGHT * stats.waiting + stats.running;
        if (load < least) {
            least = load;
            found = i;
        }
    }
    return found;
}

/* False: not a number. */
static bool
parse_rank(struct slice text, uint64_t *rank)
{
    *rank = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9') {
            return false;
        }
        *rank = i < RANK_DIGITS_MAX ? *rank * 10 + (uint64_t)(text.ptr[i] - '0')
                                    : UINT64_MAX;
    }
    return text.len > 0;
}

bool
engine_ranks_named(const struct engine_server *server,
                   struct httpd_request *request, uint32_t otherwise,
                   uint32_t *rank)
{
    const struct http_header *header =
        http_head_find_name(httpd_head(request), SLICE(RANK_HEADER_NAME));
    uint64_t named;

    *rank = otherwise;
    if (header == NULL || !parse_rank(header->value, &named)) {
        return true;
    }
    if (named >= server->ranks_count) {
        httpd_error(request, 400, "bad_request",
                    "data_parallel_rank is out of range");
        return false;
    }
    *rank = (uint32_t)named;
    return true;
}

/* The owner of the block: the call still exists, see engine_ranks_publish(). */
static struct engine_events_owner
owner_of(const struct engine_server *server, const struct engine_event *event)
{
    const struct engine_call *call = &server->calls[event->user];

    CHECK(call->request != NULL);
    return (struct engine_events_owner){
        .lora_name = slice_of(
            call->model > 0 ? server->options->models[call->model] : NULL),
        .lora_id = call->model,
        .salt = slice_of(call->salt),
    };
}

void
engine_ranks_publish(struct engine_server *server, struct engine_rank *rank)
{
    struct engine_event event;

    if (!engine_publish_wanted(server->options)) {
        return;
    }
    while (engine_next_event(&rank->engine, &event)) {
        struct engine_events_owner owner = {.lora_id = 0};
        if (event.kind == ENGINE_EVENT_STORED) {
            owner = owner_of(server, &event);
        }
        engine_publisher_add(&rank->publisher, &event, &owner);
    }
    engine_publisher_flush(&rank->publisher);
}

bool
engine_ranks_reset(struct engine_server *server)
{
    bool done = true;

    for (uint32_t i = 0; i < server->ranks_count; i++) {
        struct engine_rank *rank = &server->ranks[i];
        done &= engine_reset_cache(&rank->engine) == 0;
        /* vLLM's tell of it with the next step that has events. */
        if (server->options->make != ENGINE_MAKE_VLLM) {
            engine_ranks_publish(server, rank);
        }
    }
    return done;
}

void
engine_ranks_resume(struct engine_server *server)
{
    for (uint32_t i = 0; i < server->ranks_count; i++) {
        if (engine_publish_wanted(server->options)) {
            engine_publisher_resume(&server->ranks[i].publisher);
        }
    }
}

static void
on_stall_timer(uv_timer_t *timer)
{
    struct engine_server *server = timer->data;

    server->faults.events_stalled = 0;
    engine_ranks_resume(server);
}

void
engine_ranks_stall(struct engine_server *server, uint32_t ms)
{
    uv_update_time(server->loop);
    CHECK(uv_timer_start(&server->stall_timer, on_stall_timer, ms, 0) == 0);
}

int
engine_ranks_restart(struct engine_server *server)
{
    uint32_t count = server->ranks_count;
    struct engine *fresh = calloc(count, sizeof(*fresh));
    uint32_t made = 0;
    int r = fresh != NULL ? 0 : -ENOMEM;

    server->restarts++;
    while (r == 0 && made < count) {
        r = engine_init(&fresh[made], &server->ranks[made].engine.config,
                        engine_server_now(server), seed_of(server, made));
        made += r == 0;
    }
    if (r != 0) {
        while (made > 0) {
            engine_fini(&fresh[--made]);
        }
        free(fresh);
        return r;
    }
    engine_call_abort_all(server);
    for (uint32_t i = 0; i < count; i++) {
        struct engine_rank *rank = &server->ranks[i];
        engine_fini(&rank->engine);
        rank->engine = fresh[i];
        rank->report = (struct engine_report){.finished = 0};
        if (engine_publish_wanted(server->options)) {
            engine_publisher_restart(&rank->publisher);
        }
    }
    free(fresh);
    engine_server_arm(server);
    return 0;
}
