/* A load in real time: requests at their moments, and what comes back. */
#include "chaos/replay/replay_real.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "chaos/base/virtual_time.h"
#include "chaos/load/load_sse.h"
#include "chaos/replay/replay_flow_internal.h"

#define PROGRESS_MS      5000U
#define SETTLE_US        UINT64_C(10000) /* between requests in sequence */
#define BODY_BYTES_MAX   ((size_t)64 << 20)
#define ANSWER_BYTES_MAX ((size_t)1 << 20) /* of models, or of an error */
#define SPARE_FILES      64U

struct real;

/* A place for a request. */
struct real_call {
    struct real *run;
    struct httpc *call; /* NULL: the place is free */
    struct load_sse sse;
    struct real_call *next_free;
    uint32_t number;
    uint32_t node;
    uint64_t due_us;
    uint64_t sent_us;
    uint64_t first_us;
    uint64_t last_us;
};

struct real {
    uv_loop_t loop;
    uv_timer_t timer; /* the next request is due */
    uv_timer_t progress;
    uv_signal_t signals[2];
    const struct replay_real_setup *with;
    const struct replay_setup *setup;
    const struct replay_load *load;
    struct replay_count *count;
    struct virtual_time due; /* requests by the time they are due */
    struct rng rng;
    struct real_call *calls;
    struct real_call *free;
    uint32_t open;
    struct httpc *asking; /* a node for its models */
    uint32_t asked;       /* nodes that answered */
    struct buf body;
    uint32_t *tokens;
    uint64_t start_us; /* of the loop's clock; 0: not yet */
    char *model;
    char *fault;
    int outcome;
    bool over;
};

static uint64_t
now_us(const struct real *run)
{
    return uv_hrtime() / 1000 - run->start_us;
}

/* Ends */

static void
close_all(struct real *run)
{
    CHECK(run->open == 0 && run->asking == NULL && !run->over);
    run->over = true;
    uv_close((uv_handle_t *)&run->timer, NULL);
    uv_close((uv_handle_t *)&run->progress, NULL);
    uv_close((uv_handle_t *)&run->signals[0], NULL);
    uv_close((uv_handle_t *)&run->signals[1], NULL);
}

static void
say_progress(const struct real *run)
{
    const struct replay_count *count = run->count;
    uint64_t failed = load_stats_failed(&count->stats);

    (void)fprintf(stderr,
                  "kvasir replay: %" PRIu64 " of %" PRIu32 " sent, %" PRIu64
                  " answered, %" PRIu64 " failed, %" PRIu64 " s\n",
                  count->stats.sent, run->load->count,
                  count->stats.ended[LOAD_ANSWERED], failed,
                  now_us(run) / 1000000);
}

static void
on_progress(uv_timer_t *timer)
{
    const struct real *run = timer->data;

    say_progress(run);
}

static void pump(struct real *run);

static void
become_due(struct real *run, uint32_t number, uint64_t at_us)
{
    struct virtual_event event = {.time_us = at_us, .who = number};

    if (virtual_time_add(&run->due, &event) != 0) {
        run->outcome = -ENOMEM;
    }
}

/* What comes when this one has ended. */
static void
follow(struct real *run, const struct real_call *c, bool answered)
{
    uint32_t next = run->load->requests[c->number].next;
    uint64_t pause_us = 0;

    if (run->setup->sequential) {
        next = c->number + 1 < run->load->count ? c->number + 1 : REPLAY_NONE;
        pause_us = SETTLE_US;
    } else if (next != REPLAY_NONE) {
        pause_us = run->load->requests[next].at_us;
        next = answered ? next : REPLAY_NONE;
    }
    if (next != REPLAY_NONE && run->outcome == 0) {
        become_due(run, next, now_us(run) + pause_us);
    }
}

static void
say_failed(const struct real_call *c, const struct replay_end *end,
           const struct httpc_answer *answer, const char *node)
{
    LOG_WARNING(
        "request_failed", KV("kind", load_outcome_name(end->outcome)),
        KV("request", c->number), KV("node", node),
        KV("status",
           answer != NULL && answer->head != NULL ? answer->head->status : 0U),
        KV("worker", end->worker), KV("fault", c->sse.fault),
        KV_FAULT("error", answer != NULL ? answer->error : 0));
}

/* answer: NULL where the call was given up. */
static void
end_call(struct real_call *c, enum load_outcome outcome,
         const struct httpc_answer *answer)
{
    struct real *run = c->run;
    const struct http_head *head = answer != NULL ? answer->head : NULL;
    char node[URL_TEXT_MAX];
    struct replay_end end = {
        .number = c->number,
        .outcome = outcome,
        .node = slice_of(url_authority(&run->with->nodes[c->node], node)),
        .worker = load_header_of(head, SLICE("x-kvasir-worker")),
        .mode = load_header_of(head, SLICE("x-kvasir-mode")),
        .overlap = load_header_of(head, SLICE("x-kvasir-overlap")),
        .usage = c->sse.usage,
        .has_usage = c->sse.has_usage,
        .chunks = c->sse.deltas,
        .due_us = c->due_us,
        .sent_us = c->sent_us,
        .first_us = c->first_us,
        .last_us = c->last_us,
        .end_us = now_us(run),
    };

    CHECK(run->open > 0);
    replay_count_end(run->count, &end);
    if (outcome != LOAD_ANSWERED && outcome != LOAD_STOPPED) {
        say_failed(c, &end, answer, node);
    }
    follow(run, c, outcome == LOAD_ANSWERED);
    c->call = NULL;
    c->next_free = run->free;
    run->free = c;
    run->open--;
}

static void
on_done(void *context, const struct httpc_answer *answer)
{
    struct real_call *c = context;

    end_call(c, load_outcome_of(answer, c->sse.done), answer);
    pump(c->run);
}

static void
on_piece(void *context, struct slice piece)
{
    struct real_call *c = context;
    uint32_t before = c->sse.deltas;

    if (load_sse_feed(&c->sse, piece) != 0) {
        httpc_cancel(c->call);
        end_call(c, LOAD_BAD, NULL);
        pump(c->run);
        return;
    }
    if (c->sse.deltas > before) {
        c->last_us = now_us(c->run);
        c->first_us = c->first_us != 0 ? c->first_us : c->last_us;
    }
}

/* Beginnings */

void
replay_real_body(const struct replay_request *request, const uint32_t *tokens,
                 const char *model, uint32_t max_tokens, struct buf *out)
{
    CHECK(request->prompt_tokens > 0);
    buf_printf(out, "{\"model\":\"%s\",\"max_tokens\":%" PRIu32, model,
               max_tokens);
    buf_add_text(out, ",\"temperature\":0,\"ignore_eos\":true,\"stream\":true,"
                      "\"stream_options\":{\"include_usage\":true},"
                      "\"prompt\":[");
    for (uint32_t i = 0; i < request->prompt_tokens; i++) {
        if (i > 0) {
            buf_add_text(out, ",");
        }
        buf_add_uint(out, REPLAY_REAL_IDS_FROM + tokens[i] % REPLAY_REAL_IDS);
    }
    buf_add_text(out, "]}");
}

static int
send_call(struct real *run, struct real_call *c)
{
    const struct replay_request *r = &run->load->requests[c->number];
    const struct url *node = &run->with->nodes[c->node];
    struct httpc_request request = {
        .host = node->host,
        .port = node->port,
        .method = "POST",
        .target = "/v1/completions",
        .headers = run->with->headers,
        .timeout_ms = REPLAY_REAL_TIMEOUT_MS,
        .connect_ms = REPLAY_REAL_CONNECT_MS,
        .answer_bytes_max = ANSWER_BYTES_MAX,
        .context = c,
        .done = on_done,
        .piece = on_piece,
    };

    buf_clear(&run->body);
    replay_load_tokens(run->load, r, run->tokens);
    replay_real_body(r, run->tokens, run->model,
                     run->setup->sequential ? 1 : r->output_tokens, &run->body);
    if (run->body.failed) {
        return -ENOMEM;
    }
    request.body = buf_slice(&run->body);
    return httpc_start(&c->call, &run->loop, &request);
}

static void
send_next(struct real *run, const struct virtual_event *due)
{
    struct real_call *c = run->free;

    CHECK(c != NULL && c->call == NULL);
    run->free = c->next_free;
    run->open++;
    c->number = due->who;
    c->node = (uint32_t)rng_below(&run->rng, run->with->nodes_count);
    c->due_us = due->time_us;
    c->first_us = 0;
    c->last_us = 0;
    load_sse_restart(&c->sse);
    replay_count_sent(run->count);
    c->sent_us = now_us(run);
    int error = send_call(run, c);
    if (error != 0) {
        struct httpc_answer answer = {.outcome = HTTPC_CONNECT, .error = error};
        end_call(c, LOAD_CONNECT, &answer);
    }
}

static void
on_timer(uv_timer_t *timer)
{
    pump(timer->data);
}

/* Sends what is due, as long as there are places. */
static void
pump(struct real *run)
{
    struct virtual_event due;

    if (run->over) {
        return;
    }
    while (run->free != NULL && run->outcome == 0 &&
           virtual_time_next(&run->due, now_us(run), &due)) {
        send_next(run, &due);
    }
    uint64_t next_us = virtual_time_deadline(&run->due);
    if (run->open == 0 &&
        (run->outcome != 0 || next_us == VIRTUAL_TIME_NEVER)) {
        close_all(run);
    } else if (run->free != NULL && next_us != VIRTUAL_TIME_NEVER) {
        uint64_t at_us = now_us(run);
        uint64_t wait_ms = next_us > at_us ? (next_us - at_us + 999) / 1000 : 0;
        uv_update_time(&run->loop);
        CHECK(uv_timer_start(&run->timer, on_timer, wait_ms, 0) == 0);
    }
}

static void
begin(struct real *run)
{
    const struct replay_load *load = run->load;

    for (uint32_t i = 0; i < load->count && run->outcome == 0; i++) {
        const struct replay_request *r = &load->requests[i];
        if (run->setup->sequential ? i == 0 : r->after == REPLAY_NONE) {
            become_due(run, i, replay_arrival_us(run->setup, r->at_us));
        }
    }
    run->start_us = uv_hrtime() / 1000;
    CHECK(uv_timer_start(&run->progress, on_progress, PROGRESS_MS,
                         PROGRESS_MS) == 0);
    pump(run);
}

/* The first model's name, raw as it stands between its quotes. */
static bool
find_model(struct slice body, char *model)
{
    struct json_pull pull;
    enum pull_token token;
    bool in_data = false;

    json_pull_init(&pull, body);
    while ((token = json_pull_next(&pull)) > PULL_END) {
        if (token != PULL_KEY) {
            continue;
        }
        in_data = in_data || json_pull_is(&pull, SLICE("data"));
        if (in_data && json_pull_is(&pull, SLICE("id"))) {
            if (json_pull_next(&pull) != PULL_STRING || pull.text.len == 0 ||
                pull.text.len >= REPLAY_REAL_MODEL_MAX) {
                return false;
            }
            memcpy(model, pull.text.ptr, pull.text.len);
            model[pull.text.len] = '\0';
            return true;
        }
    }
    return false;
}

static void
refuse(struct real *run, const char *why, int error)
{
    char node[URL_TEXT_MAX];

    (void)snprintf(run->fault, REPLAY_REAL_FAULT_MAX, "%s: %s%s%s",
                   url_authority(&run->with->nodes[run->asked], node), why,
                   error != 0 ? ": " : "",
                   error != 0 ? uv_strerror(error) : "");
    run->outcome = REPLAY_REAL_E_NODE;
    close_all(run);
}

static void ask_next(struct real *run);

static void
on_models(void *context, const struct httpc_answer *answer)
{
    struct real *run = context;
    char why[64];

    run->asking = NULL;
    if (answer->outcome != HTTPC_OK) {
        refuse(run, httpc_outcome_name(answer->outcome), answer->error);
    } else if (answer->head->status != 200) {
        (void)snprintf(why, sizeof(why), "/v1/models answers %u",
                       (unsigned)answer->head->status);
        refuse(run, why, 0);
    } else if (run->model[0] == '\0' && !find_model(answer->body, run->model)) {
        refuse(run, "/v1/models names no model", 0);
    } else {
        run->asked++;
        ask_next(run);
    }
}

static void
ask_next(struct real *run)
{
    const struct url *node = &run->with->nodes[run->asked];
    struct httpc_request request = {
        .method = "GET",
        .target = "/v1/models",
        .headers = run->with->headers,
        .timeout_ms = 2 * REPLAY_REAL_CONNECT_MS,
        .connect_ms = REPLAY_REAL_CONNECT_MS,
        .answer_bytes_max = ANSWER_BYTES_MAX,
        .context = run,
        .done = on_models,
    };

    if (run->asked == run->with->nodes_count) {
        begin(run);
        return;
    }
    request.host = node->host;
    request.port = node->port;
    int error = httpc_start(&run->asking, &run->loop, &request);
    if (error != 0) {
        run->asking = NULL;
        refuse(run, "cannot be asked", error);
    }
}

/* The whole */

static void
on_signal(uv_signal_t *handle, int number)
{
    struct real *run = handle->data;

    (void)number;
    if (run->over) {
        return;
    }
    run->outcome = REPLAY_REAL_E_STOPPED;
    if (run->asking != NULL) {
        httpc_cancel(run->asking);
        run->asking = NULL;
    }
    for (uint32_t i = 0; i < run->with->open_max; i++) {
        struct real_call *c = &run->calls[i];
        if (c->call != NULL) {
            httpc_cancel(c->call);
            end_call(c, LOAD_STOPPED, NULL);
        }
    }
    close_all(run);
}

static int
open_memory(struct real *run)
{
    uint32_t places = run->with->open_max;

    run->calls = calloc(places, sizeof(*run->calls));
    run->tokens =
        malloc(replay_load_longest_prompt(run->load) * sizeof(*run->tokens));
    if (run->calls == NULL || run->tokens == NULL) {
        return -ENOMEM;
    }
    for (uint32_t i = places; i-- > 0;) {
        struct real_call *c = &run->calls[i];
        c->run = run;
        c->next_free = run->free;
        run->free = c;
        load_sse_init(&c->sse, REPLAY_REAL_TEXT_MAX);
    }
    return 0;
}

static void
open_handles(struct real *run)
{
    static const int numbers[2] = {SIGINT, SIGTERM};

    CHECK(uv_timer_init(&run->loop, &run->timer) == 0);
    CHECK(uv_timer_init(&run->loop, &run->progress) == 0);
    run->timer.data = run;
    run->progress.data = run;
    for (unsigned i = 0; i < 2; i++) {
        CHECK(uv_signal_init(&run->loop, &run->signals[i]) == 0);
        run->signals[i].data = run;
        (void)uv_signal_start(&run->signals[i], on_signal, numbers[i]);
    }
}

static void
free_all(struct real *run)
{
    if (run->calls != NULL) {
        for (uint32_t i = 0; i < run->with->open_max; i++) {
            load_sse_fini(&run->calls[i].sse);
        }
    }
    free(run->calls);
    free(run->tokens);
    buf_fini(&run->body);
    virtual_time_fini(&run->due);
}

int
replay_real_run(const struct replay_real_setup *real,
                const struct replay_setup *setup,
                const struct replay_load *load, struct replay_count *count,
                char *model, char *fault)
{
    struct real run = {
        .with = real,
        .setup = setup,
        .load = load,
        .count = count,
        .model = model,
        .fault = fault,
    };

    CHECK(real->nodes_count > 0 && real->open_max > 0 && load->count > 0);
    (void)snprintf(model, REPLAY_REAL_MODEL_MAX, "%s",
                   real->model != NULL ? real->model : "");
    virtual_time_init(&run.due, load->count, 0);
    rng_init(&run.rng, rng_mix(setup->seed));
    buf_init(&run.body, BODY_BYTES_MAX);
    run.outcome = open_memory(&run);
    if (run.outcome == 0) {
        run.outcome = uv_loop_init(&run.loop);
    }
    if (run.outcome == 0) {
        (void)sock_raise_limit((uint64_t)real->open_max + SPARE_FILES);
        open_handles(&run);
        ask_next(&run);
        (void)uv_run(&run.loop, UV_RUN_DEFAULT);
        CHECK(uv_loop_close(&run.loop) == 0);
    }
    free_all(&run);
    return run.outcome;
}
